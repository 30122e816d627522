//! Streams of snapshots in an S3 store: sent, received elsewhere, cut short, refused.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "support/connected.rs"]
mod connected;
#[path = "support/copying.rs"]
mod copying;
#[path = "support/object_store.rs"]
mod object_store;
mod support;

use std::net::SocketAddr;
use std::process::{Command, Output};
use std::time::Duration;

use copying::{BLOCK, Content, MIB, contents, noise, pair, program, write};
use object_store::{Again, Store};
use rustix::process::{Pid, Signal, kill_process};
use support::{Node, free_address, name, text, wait_until};

/// A volume of 64 MiB, of which all but the last eight hold something, with the snapshot `monday`.
fn monday(node: &Node) {
    node.answer(&[
        "volume", "create", "data", "--pool", "pool", "--size", "64MiB", "--allow", "any",
    ]);
    let parts = (0..56).map(|mib| (mib * MIB, Content::Bytes(noise(MIB, mib))));
    write(node, "data", parts.collect());
    node.answer(&["volume", "snapshot", "data", "monday"]);
}

fn send(node: &Node, arguments: &[&str]) -> Command {
    program(node, &[&["snapshot", "send"], arguments].concat())
}

fn receive(node: &Node, arguments: &[&str]) -> Command {
    program(node, &[&["volume", "receive"], arguments].concat())
}

/// What a program says that must fail, with 1.
#[track_caller]
fn refusal(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    text(&output.stderr)
}

#[track_caller]
fn done(output: &Output) {
    assert!(output.status.success(), "{}", text(&output.stderr));
}

/// Nothing of any copy is there any more.
fn nothing_is_aside(node: &Node) {
    let client = node.client();
    let volumes = client.volumes().unwrap().items;
    let names = volumes.iter().map(|it| it.name.as_str());
    let mut names = names.filter(|name| name.contains(".recei") || name.starts_with("stream-"));
    assert_eq!(names.next(), None);
    assert!(client.hosts().unwrap().items.is_empty());
}

/// The first object has all of a snapshot, the second one what changed since; another node makes of
/// them what the first one has. An object is not replaced unasked.
#[test]
fn snapshots_go_to_a_store_and_come_back_elsewhere() {
    let (store, [one, two]) = (Store::start(), [pair(), pair()]);
    monday(&one);
    let full = ["monday", "--to", "s3://backups/data/monday.fys"];
    done(&store.tell(&mut send(&one, &full)).output().unwrap());
    let bytes = std::fs::metadata(store.file("data/monday.fys"))
        .unwrap()
        .len();
    assert!((56 * MIB..57 * MIB).contains(&bytes), "{bytes}");
    write(
        &one,
        "data",
        vec![(7 * MIB, Content::Bytes(noise(BLOCK, 99)))],
    );
    one.answer(&["volume", "snapshot", "data", "tuesday"]);
    let part = [
        "tuesday",
        "--since",
        "monday",
        "--to",
        "s3://backups/data/tuesday.fys",
    ];
    done(&store.tell(&mut send(&one, &part)).output().unwrap());
    let bytes = std::fs::metadata(store.file("data/tuesday.fys"))
        .unwrap()
        .len();
    assert!(bytes < 3 * BLOCK, "{bytes}");

    let made = [
        "data", "--pool", "pool", "--allow", "any", "--from", full[2],
    ];
    done(&store.tell(&mut receive(&two, &made)).output().unwrap());
    let next = ["data", "--from", part[4]];
    done(&store.tell(&mut receive(&two, &next)).output().unwrap());
    assert!(contents(&two, "data") == contents(&one, "data"));

    let again = store.tell(&mut send(&one, &full)).output().unwrap();
    let said = refusal(&again);
    assert!(
        said.contains("is there already; allowed: another key, or --overwrite"),
        "{said}"
    );
    let replaced = [&part[..4], &[full[2], "--overwrite"]].concat();
    done(&store.tell(&mut send(&one, &replaced)).output().unwrap());
    assert_eq!(
        std::fs::metadata(store.file("data/monday.fys"))
            .unwrap()
            .len(),
        bytes
    );
    for node in [&one, &two] {
        nothing_is_aside(node);
    }
}

/// What is wrong is said, and nothing is made for it.
#[test]
fn what_a_store_refuses_is_said() {
    let (store, node) = (Store::start(), pair());
    monday(&node);
    let to = ["monday", "--to", "s3://backups/monday"];
    let said = |command: &mut Command| refusal(&command.output().unwrap());

    let mut wrong_secret = send(&node, &to);
    store
        .tell(&mut wrong_secret)
        .env("AWS_SECRET_ACCESS_KEY", "another");
    let found = said(&mut wrong_secret);
    assert!(
        found.contains("s3://backups/monday: the store refuses these credentials"),
        "{found}"
    );
    let found = said(store.tell(&mut send(&node, &["monday", "--to", "s3://nowhere/monday"])));
    assert!(
        found.contains("s3://nowhere/monday: there is no such"),
        "{found}"
    );
    let found = said(store.tell(&mut receive(
        &node,
        &["copy", "--pool", "pool", "--from", to[2]],
    )));
    assert!(
        found.contains("s3://backups/monday: there is no such object, or no such bucket"),
        "{found}"
    );
    let mut in_the_clear = send(&node, &to);
    let found = said(store.tell(&mut in_the_clear).env_remove("AWS_ALLOW_HTTP"));
    assert!(found.contains("AWS_ALLOW_HTTP"), "{found}");

    std::fs::write(store.file("notes.txt"), "no stream").unwrap();
    let notes = ["copy", "--pool", "pool", "--from", "s3://backups/notes.txt"];
    let found = said(store.tell(&mut receive(&node, &notes)));
    assert!(found.contains("no stream"), "{found}");
    nothing_is_aside(&node);
    assert_eq!(store.files().len(), 1, "{:?}", store.files());
}

/// Who interrupts a send to a store that hangs has no object, and no parts of one, in the end.
#[test]
fn an_interrupted_send_leaves_no_object() {
    let (store, node) = (Store::start(), pair());
    monday(&node);
    let mut sending = send(&node, &["monday", "--to", "s3://backups/monday"]);
    let mut sending = store.tell(&mut sending).spawn().unwrap();
    wait_until("data is being read", || {
        node.client().volumes().unwrap().items.len() == 2
    });
    store.signal(Signal::STOP);
    // It hangs on the store by now, or very soon.
    std::thread::sleep(Duration::from_millis(500));
    kill_process(Pid::from_child(&sending), Signal::INT).unwrap();
    std::thread::sleep(Duration::from_millis(500));
    store.signal(Signal::CONT);
    let status = sending.wait().unwrap();
    assert_eq!(status.code(), Some(1));
    nothing_is_aside(&node);
    wait_until("the store has forgotten the parts", || {
        store.files().is_empty()
    });
}

fn cut(store: &Store, again: Again) -> (Node, Output) {
    let node = pair();
    let way: SocketAddr = store.cut_after(20 * MIB, again);
    let from = [
        "data",
        "--pool",
        "pool",
        "--allow",
        "any",
        "--from",
        "s3://backups/monday",
    ];
    let output = store.tell_of(way, &mut receive(&node, &from)).output();
    (node, output.unwrap())
}

/// A connection that is cut is made again; where that cannot be, nothing is received.
#[test]
fn a_receive_outlasts_a_cut_and_makes_nothing_of_half_an_object() {
    let (store, one) = (Store::start(), pair());
    monday(&one);
    let to = ["monday", "--to", "s3://backups/monday"];
    done(&store.tell(&mut send(&one, &to)).output().unwrap());
    let (node, output) = cut(&store, Again::Works);
    done(&output);
    assert!(contents(&node, "data") == contents(&one, "data"));

    let (node, output) = cut(&store, Again::Never);
    let said = refusal(&output);
    assert!(said.contains("s3://backups/monday: "), "{said}");
    assert!(node.client().volume(&name("data")).is_err());
    nothing_is_aside(&node);
    // Half an object is no stream either.
    let whole = std::fs::read(store.file("monday")).unwrap();
    std::fs::write(store.file("half"), &whole[..whole.len() / 2]).unwrap();
    let from = ["data", "--pool", "pool", "--from", "s3://backups/half"];
    let said = refusal(&store.tell(&mut receive(&node, &from)).output().unwrap());
    assert!(said.contains("it was cut off"), "{said}");
    assert!(node.client().volume(&name("data")).is_err());

    let absent = free_address();
    let said = refusal(
        &store
            .tell_of(absent, &mut receive(&node, &from))
            .output()
            .unwrap(),
    );
    assert!(said.contains("s3://backups/half: "), "{said}");
}
