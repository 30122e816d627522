//! Copies of snapshots that leave a node: sent, received elsewhere, brought up to date, cut short.
//! Whatever ends a receive early leaves the volume as it was.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "support/connected.rs"]
mod connected;
#[path = "support/copying.rs"]
mod copying;
mod support;

use std::fs::File;
use std::process::Stdio;

use api::SnapshotName;
use connected::connected;
use copying::{BLOCK, Content, MIB, contents, noise, pair, receive, received, sent, write};
use support::{Node, name, text, wait_until};

/// A volume of 64 MiB whose every fourth MiB holds something, with the snapshot `monday`.
fn monday(node: &Node) {
    node.answer(&[
        "volume", "create", "data", "--pool", "pool", "--size", "64MiB", "--allow", "any",
    ]);
    let parts = (0..64)
        .step_by(4)
        .map(|mib| (mib * MIB, Content::Bytes(noise(MIB, mib))));
    write(node, "data", parts.collect());
    node.answer(&["volume", "snapshot", "data", "monday"]);
}

/// One block of each hundred is written, and one quarter of what there was is deallocated.
fn tuesday(node: &Node) -> u64 {
    let blocks = (0..64 * MIB).step_by((100 * BLOCK) as usize);
    let mut parts: Vec<_> = blocks
        .map(|at| (at, Content::Bytes(noise(BLOCK, at + 1))))
        .collect();
    let gone = 32 * MIB..33 * MIB;
    let kept = parts.iter().filter(|(at, _)| !gone.contains(at));
    let written = kept.count() as u64 * BLOCK;
    parts.push((32 * MIB, Content::Nothing(MIB)));
    write(node, "data", parts);
    node.answer(&["volume", "snapshot", "data", "tuesday"]);
    written
}

fn uuid(node: &Node, snapshot: &str) -> uuid::Uuid {
    let snapshot: SnapshotName = snapshot.parse().unwrap();
    node.client().snapshot(&snapshot).unwrap().uuid
}

/// Nothing of any receive or send is there any more.
fn nothing_is_aside(node: &Node) {
    let client = node.client();
    let volumes = client.volumes().unwrap().items;
    let snapshots = client.snapshots().unwrap().items;
    let aside = |name: &str| name.contains(".recei") || name.starts_with("stream-");
    assert!(
        volumes.iter().all(|it| !aside(it.name.as_str())),
        "{volumes:?}"
    );
    assert!(snapshots.iter().all(|it| !aside(&it.name)), "{snapshots:?}");
    let hosts = client.hosts().unwrap().items;
    assert!(hosts.iter().all(|it| !aside(it.name.as_str())), "{hosts:?}");
}

/// All of a snapshot, then what changed, byte for byte; from the copy on to a third node, which
/// then takes the next difference from the first. Streams have what changed and little more.
#[test]
fn a_copy_follows_its_original_and_is_an_original_to_the_next() {
    let [one, two, three] = [pair(), pair(), pair()];
    monday(&one);
    let full = sent(&one, &["monday"]);
    // What does not compress takes as much as it has; the rest of the volume takes nothing.
    assert!(
        (16 * MIB..17 * MIB).contains(&(full.len() as u64)),
        "{}",
        full.len()
    );
    received(&two, &["data", "--pool", "pool", "--allow", "any"], &full);
    assert_eq!(uuid(&two, "monday"), uuid(&one, "monday"));
    let changed = tuesday(&one);
    let part = sent(&one, &["tuesday", "--since", "monday"]);
    let most = changed + changed / 10 + 1000;
    assert!(
        (changed..most).contains(&(part.len() as u64)),
        "{}",
        part.len()
    );
    let before = two.client().volume(&name("data")).unwrap();
    assert!(contents(&two, "data") != contents(&one, "data"));
    received(&two, &["data"], &part);
    assert!(contents(&two, "data") == contents(&one, "data"));
    let after = two.client().volume(&name("data")).unwrap();
    assert_eq!(
        (after.nqn, after.uuid, after.hosts),
        (before.nqn, before.uuid, before.hosts)
    );

    let on = sent(&two, &["tuesday"]);
    let made = [
        "data",
        "--pool",
        "pool",
        "--allow",
        "any",
        "--snapshot",
        "copied",
    ];
    received(&three, &made, &on);
    assert_eq!(uuid(&three, "copied"), uuid(&one, "tuesday"));
    write(&one, "data", vec![(0, Content::Bytes(noise(BLOCK, 9)))]);
    one.answer(&["volume", "snapshot", "data", "wednesday"]);
    let part = sent(&one, &["pool/wednesday", "--since", "tuesday"]);
    received(&three, &["data"], &part);
    assert!(contents(&three, "data") == contents(&one, "data"));
    for node in [&one, &two, &three] {
        nothing_is_aside(node);
    }
}

/// A volume that grew or shrank has the size that it had in each snapshot; a copy of blocks of 512
/// bytes has such.
#[test]
fn a_copy_has_the_size_of_its_original() {
    let [one, two] = [pair(), pair()];
    let make = [
        "volume", "create", "data", "--pool", "pool", "--size", "8MiB",
    ];
    one.answer(&[&make[..], &["--allow", "any", "--block-size", "512"]].concat());
    let mut made = false;
    for (snapshot, since, size) in [
        ("a", None, "8MiB"),
        ("b", Some("a"), "16MiB"),
        ("c", Some("b"), "4MiB"),
        ("d", Some("c"), "12MiB"),
    ] {
        one.answer(&["volume", "resize", "data", size, "--allow-shrink"]);
        let bytes = one.client().volume(&name("data")).unwrap().capacity_bytes;
        write(
            &one,
            "data",
            vec![(bytes - MIB, Content::Bytes(noise(MIB, bytes)))],
        );
        one.answer(&["volume", "snapshot", "data", snapshot]);
        let since = since.map_or(vec![], |since| vec!["--since", since]);
        let stream = sent(&one, &[&[snapshot][..], &since].concat());
        match made {
            true => received(&two, &["data"], &stream),
            false => received(&two, &["data", "--pool", "pool", "--allow", "any"], &stream),
        }
        made = true;
        assert!(
            contents(&two, "data") == contents(&one, "data"),
            "{snapshot}"
        );
    }
    let copy = two.client().volume(&name("data")).unwrap();
    assert_eq!(copy.block_bytes.bytes(), 512);
    nothing_is_aside(&two);
}

/// Everything that is wrong is said, with exit code 1, and nothing is there afterwards that was not
/// there before.
#[test]
fn what_cannot_be_received_is_refused_and_harms_nothing() {
    let [one, two] = [pair(), pair()];
    monday(&one);
    let full = sent(&one, &["monday"]);
    tuesday(&one);
    let part = sent(&one, &["tuesday", "--since", "monday"]);
    let new = &["data", "--pool", "pool", "--allow", "any"][..];
    let changed = |stream: &[u8], at: usize, by: u8| {
        let mut stream = stream.to_vec();
        stream[at] ^= by;
        stream
    };
    let refused = |arguments: &[&str], stream: &[u8], words: &[&str]| {
        let output = receive(&two, arguments, stream);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        let told = words.iter().all(|word| said.contains(word));
        assert!(told, "{said:?} has not all of {words:?}");
        nothing_is_aside(&two);
    };
    let half = full.len() / 2;
    refused(new, b"", &["no stream"]);
    refused(new, &vec![7; 5000], &["no stream"]);
    refused(new, &changed(&full, 8, 3), &["version 2; allowed: 1"]);
    refused(new, &full[..half], &["was cut off"]);
    refused(new, &full[..full.len() - 1], &["was cut off"]);
    refused(new, &changed(&full, half, 1), &["checksum of the record"]);
    refused(new, &[&full[..], b"x"].concat(), &["goes on behind"]);
    refused(&["data"], &full, &["no volume data", "--pool"]);
    refused(&["data", "--pool", "none"], &full, &["none"]);
    refused(new, &part, &["tuesday builds on monday", "no volume data"]);
    assert_eq!(two.client().volumes().unwrap().items, []);

    received(&two, new, &full);
    let whole = contents(&two, "data");
    refused(new, &full, &["volume data exists", "monday"]);
    for wrong in [&part[..part.len() - 1], &changed(&part, part.len() / 2, 1)] {
        refused(&["data"], wrong, &["the stream"]);
    }
    refused(&["data", "--pool", "none"], &part, &["not in pool none"]);
    refused(
        &["data", "--snapshot", "monday"],
        &part,
        &["monday exists", "--snapshot"],
    );
    let make = [
        "volume", "create", "other", "--pool", "pool", "--size", "64MiB",
    ];
    two.answer(&make);
    two.answer(&["volume", "snapshot", "other", "sunday"]);
    refused(
        &["other"],
        &part,
        &["builds on monday", "other has no copy", "sunday"],
    );
    connected(&two, "data", async |_namespace, _controller| {
        refused(&["data"], &part, &["in use", connected::HOST]);
    });
    assert!(contents(&two, "data") == whole);
    write(
        &two,
        "data",
        vec![(5 * MIB, Content::Bytes(noise(BLOCK, 3)))],
    );
    let written = contents(&two, "data");
    refused(
        &["data"],
        &part,
        &["written since snapshot monday", "rollback data"],
    );
    assert!(contents(&two, "data") == written);
    two.answer(&["volume", "rollback", "data", "monday"]);
    received(&two, &["data"], &part);
    assert!(contents(&two, "data") == contents(&one, "data"));
}

/// A receive that is interrupted takes back what it made. One that is killed, and one whose node
/// dies, leave a volume aside that says so, and the next one deletes it.
#[test]
fn a_receive_that_ends_early_leaves_the_volume_as_it_was() {
    let [one, mut two] = [pair(), pair()];
    monday(&one);
    let new = &["data", "--pool", "pool", "--allow", "any"][..];
    received(&two, new, &sent(&one, &["monday"]));
    tuesday(&one);
    let part = sent(&one, &["tuesday", "--since", "monday"]);
    let before = contents(&two, "data");
    let half = &part[..part.len() / 2];

    let (mut child, pipe) = copying::begun(&two, &["data"], half);
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(1));
    drop(pipe);
    nothing_is_aside(&two);
    assert!(contents(&two, "data") == before);

    let (mut child, pipe) = copying::begun(&two, &["data"], half);
    child.kill().unwrap();
    child.wait().unwrap();
    drop(pipe);
    assert!(contents(&two, "data") == before);
    let again = receive(&two, &["data"], &part);
    assert_eq!(again.status.code(), Some(1));
    let said = text(&again.stderr);
    assert!(
        said.contains("data.receiving") && said.contains("--restart"),
        "{said}"
    );

    let (child, pipe) = copying::begun(&two, &["data", "--restart"], half);
    two.kill();
    let ended = child.wait_with_output().unwrap();
    drop(pipe);
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    let said = text(&ended.stderr);
    assert!(said.contains("data.receiving is left"), "{said}");
    two.start();
    assert!(contents(&two, "data") == before);
    let snapshots = two.client().snapshots().unwrap().items;
    assert!(snapshots.iter().all(|it| it.name != "tuesday"));
    received(&two, &["data", "--restart"], &part);
    assert!(contents(&two, "data") == contents(&one, "data"));
    nothing_is_aside(&two);
}

/// A send whose reader goes, or which is interrupted, fails and leaves nothing behind; what it
/// wrote is no stream.
#[test]
fn a_send_that_ends_early_says_so() {
    let [one, two] = [pair(), pair()];
    monday(&one);
    let mut child = copying::program(&one, &["snapshot", "send", "monday"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    wait_until("the send has begun", || {
        let volumes = one.client().volumes().unwrap().items;
        volumes
            .iter()
            .any(|it| it.name.as_str().starts_with("stream-"))
    });
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(1));
    nothing_is_aside(&one);
    let full = File::options().write(true).open("/dev/full").unwrap();
    let mut ended = copying::program(&one, &["snapshot", "send", "monday"]);
    assert_eq!(ended.stdout(full).status().unwrap().code(), Some(1));
    nothing_is_aside(&one);
    one.refuses(&[
        (&["snapshot", "send", "none"], 1, &["none"]),
        (
            &["snapshot", "send", "monday", "--since", "none"],
            1,
            &["none"],
        ),
        (
            &["snapshot", "send", "monday", "--host", "none"],
            1,
            &["none"],
        ),
    ]);
    nothing_is_aside(&one);
    drop(two);
}

/// A host of the node's, with a secret of its own, reads and writes where no other may be made.
#[test]
fn a_host_that_is_known_is_used_instead_of_one_that_is_made() {
    let [one, two] = [pair(), pair()];
    monday(&one);
    let hosts = [&one, &two].map(|node| {
        node.answer(&[
            "host",
            "add",
            "backup",
            "--nqn",
            "nqn.2014-08.org.example:backup",
        ]);
        let made = node
            .client()
            .generate_host_key(&name("backup"), &Default::default());
        let file = node.path().join("secret");
        std::fs::write(&file, made.unwrap().secret.reveal()).unwrap();
        file.to_str().unwrap().to_owned()
    });
    let as_host = |file: usize| ["--host", "backup", "--dhchap-secret-file", &hosts[file]];
    let stream = sent(&one, &[&["monday"][..], &as_host(0)].concat());
    let new = ["data", "--pool", "pool", "--allow", "any"];
    received(&two, &[&new[..], &as_host(1)].concat(), &stream);
    assert!(contents(&two, "data") == contents(&one, "data"));
    // Without its secret it is nobody.
    let refused = two.ask(&["snapshot", "send", "monday", "--host", "backup"]);
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    let left = two.client().host(&name("backup")).unwrap();
    assert!(left.key.is_some());
    nothing_is_aside(&two);
}
