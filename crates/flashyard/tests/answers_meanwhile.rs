//! The control plane while a drive of a pool keeps an operation waiting: what is asked is answered.
//! Needs root, as the drive is a file of a file system of its own.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::io::Write;
use std::net::TcpStream;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use api::{PoolState, SnapshotSpec, VolumeSpec};
use block::{BlockDevice, Buffer, Durability, Lba};
use fickle::{FickleDrive, Mood};
use initiator::{ConnectOptions, Controller};
use reactor::{Reactor, ReactorConfig};
use support::{Node, name, text, wait_until};

/// Longer than an answer takes on the slowest machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// A node with a pool in memory, and one on a drive that may keep it waiting. The drive goes first:
/// nothing can end a process that waits for it.
struct Scene {
    drive: FickleDrive,
    node: Node,
}

fn scene() -> Scene {
    let drive = FickleDrive::new(32 << 20);
    let node = node_on(&drive);
    Scene { drive, node }
}

fn node_on(drive: &FickleDrive) -> Node {
    let node = Node::configured("[pools]\ndrive_wait_seconds = 0\n");
    let path = drive.path();
    node.answer(&["drive", "add", "fickle", path.to_str().unwrap()]);
    node.answer(&["drive", "add", "other", "--memory", "32MiB"]);
    for (pool, drive) in [("slow", "fickle"), ("quick", "other")] {
        let create = ["pool", "create", pool, "--level", "raid0"];
        node.answer(&[&create[..], &["--drives", drive]].concat());
        let volume = format!("of-{pool}");
        let create = ["volume", "create", &volume, "--pool", pool];
        node.answer(&[&create[..], &["--size", "8MiB", "--allow", "any"]].concat());
    }
    node
}

/// Runs `work` on a thread of its own; the receiver hears of its end.
fn beside<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> (JoinHandle<()>, mpsc::Receiver<T>) {
    let (tell, hear) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        let _ = tell.send(work());
    });
    (thread, hear)
}

/// That everything that can be asked is answered.
fn answers(node: &Node) {
    let client = node.client();
    let (_thread, heard) = beside(move || {
        let pool = client.pool(&name("slow")).unwrap();
        assert_eq!(pool.state, PoolState::Online);
        assert_eq!(client.pools().unwrap().items.len(), 2);
        assert_eq!(
            client.volume(&name("of-slow")).unwrap().pool,
            Some(name("slow"))
        );
        assert_eq!(client.volumes().unwrap().items.len(), 2);
        client.snapshots().unwrap();
        client.drives().unwrap();
        client.drive(&name("fickle")).unwrap();
        client.hosts().unwrap();
        client.status().unwrap();
        client.sessions().unwrap();
        client.tenants().unwrap();
        client.figures().unwrap();
        client.jobs().unwrap();
    });
    heard.recv_timeout(PATIENCE).expect("all is answered");
}

#[test]
fn a_pool_whose_space_is_counted_holds_up_nobody() {
    let Scene { drive, node } = &scene();
    drive.set(Mood::Waits);
    let usage = || {
        let client = node.client();
        beside(move || client.pool_usage(&name("slow")))
    };
    let (first, counted) = usage();
    wait_until("the drive is waited for", || drive.waiting() > 0);
    answers(node);
    // Others are changed meanwhile; a second one who asks waits for the same answer.
    let (second, shared) = usage();
    let client = node.client();
    let (changed, heard) = beside(move || {
        let spec = SnapshotSpec {
            volume: name("of-quick"),
            copy_of: None,
        };
        client.create_snapshot(&name("s"), &spec).unwrap();
    });
    heard
        .recv_timeout(PATIENCE)
        .expect("another pool is changed");
    let export = node.ask(&["pool", "export", "slow"]);
    assert!(
        text(&export.stderr).contains("space is counted"),
        "{export:?}"
    );
    assert!(counted.try_recv().is_err() && shared.try_recv().is_err());
    drive.set(Mood::Works);
    let (counted, shared) = (counted.recv().unwrap(), shared.recv().unwrap());
    assert_eq!(counted.unwrap(), shared.unwrap());
    for thread in [first, second, changed] {
        thread.join().unwrap();
    }
    node.answer(&["pool", "export", "slow"]);
}

#[test]
fn a_change_that_waits_for_a_drive_holds_up_no_question() {
    let Scene { drive, node } = &scene();
    let changes: [fn(&client::Client); 3] = [
        |client| {
            let spec = SnapshotSpec {
                volume: name("of-slow"),
                copy_of: None,
            };
            client.create_snapshot(&name("s"), &spec).unwrap();
        },
        |client| client.delete_volume(&name("of-slow"), false).unwrap(),
        |client| {
            client.delete_snapshot(&"s".parse().unwrap()).unwrap();
            client.export_pool(&name("slow"), false).unwrap();
        },
    ];
    for (number, change) in changes.into_iter().enumerate() {
        drive.set(Mood::Waits);
        let client = node.client();
        let (thread, heard) = beside(move || change(&client));
        wait_until("the drive is waited for", || drive.waiting() > 0);
        let client = node.client();
        let (_thread, answered) = beside(move || {
            client.pools().unwrap();
            client.pool(&name("quick")).unwrap();
            client.volumes().unwrap();
            client.snapshots().unwrap();
            client.drives().unwrap();
            client.status().unwrap();
            client.figures().unwrap();
        });
        answered
            .recv_timeout(PATIENCE)
            .unwrap_or_else(|_| panic!("all is answered during change {number}"));
        drive.set(Mood::Works);
        heard.recv_timeout(PATIENCE).expect("the change ends");
        thread.join().unwrap();
    }
    assert_eq!(node.client().pools().unwrap().items.len(), 1);
}

/// The node serves the rest on the same core meanwhile: also a read that nobody answers is waited
/// for by the kernel, not by the core.
#[test]
fn a_drive_that_answers_no_read_holds_up_nobody() {
    let Scene { drive, node } = &Scene {
        drive: FickleDrive::new(16 << 20),
        node: Node::configured(""),
    };
    let path = drive.path();
    for (volume, place) in [("hung", path.to_str().unwrap()), ("well", "memory")] {
        match place {
            "memory" => node.answer(&["drive", "add", volume, "--memory", "16MiB"]),
            path => node.answer(&["drive", "add", volume, path]),
        };
        let create = ["volume", "create", volume, "--drive", volume];
        node.answer(&[&create[..], &["--allow", "any"]].concat());
    }
    let address = node.endpoints().nvme[0];
    let nqns = ["hung", "well"].map(|volume| node.client().volume(&name(volume)).unwrap().nqn);
    let (sent, is_sent) = mpsc::channel();
    let [hung, well] = nqns.map(|nqn| {
        move |asked: Option<mpsc::Sender<()>>| {
            Reactor::io_uring(ReactorConfig::default())
                .unwrap()
                .run(async move {
                    let options = ConnectOptions::new("nqn.2026-11.example.flashyard:test");
                    let controller = Controller::connect(address, &nqn, options).await.unwrap();
                    let namespace = controller.namespace(1).await.unwrap();
                    let durable = Durability::Durable;
                    let written = namespace.write(Lba(1), Buffer::zeroed(4096), durable);
                    written.await.1.unwrap();
                    if let Some(asked) = asked {
                        asked.send(()).unwrap();
                        reactor::sleep(Duration::from_millis(500)).await;
                    }
                    namespace.read(Lba(1), Buffer::new(4096)).await.1.unwrap();
                })
        }
    });
    let (waits, ended) = beside(move || hung(Some(sent)));
    is_sent.recv().unwrap();
    drive.set(Mood::Hangs);
    wait_until("the read is waited for", || drive.waiting() > 0);
    let (works, heard) = beside(move || well(None));
    heard.recv_timeout(PATIENCE).expect("others are served");
    let client = node.client();
    let (asks, answered) = beside(move || client.status().unwrap());
    answered.recv_timeout(PATIENCE).expect("all is answered");
    assert!(ended.try_recv().is_err());
    drive.set(Mood::Works);
    ended.recv_timeout(PATIENCE).expect("the read is answered");
    for thread in [waits, works, asks] {
        thread.join().unwrap();
    }
}

/// What drives carry is for the drives to say: one that does not is named, is not waited for, and
/// owes no more the more often it is asked. Changes are made meanwhile.
#[test]
fn a_drive_that_does_not_say_what_it_carries_holds_up_nobody() {
    let drive = FickleDrive::new(16 << 20);
    let node = Node::configured("");
    let path = drive.path();
    node.answer(&["drive", "add", "hung", path.to_str().unwrap()]);
    node.answer(&["drive", "add", "well", "--memory", "16MiB"]);
    drive.set(Mood::Hangs);
    let client = node.client();
    let (asks, answered) = beside(move || client.carried_labels().unwrap().items);
    wait_until("the drive is waited for", || drive.waiting() > 0);
    let client = node.client();
    let (changes, changed) = beside(move || {
        let taken = VolumeSpec {
            drive: Some(name("well")),
            ..VolumeSpec::default()
        };
        client.create_volume(&name("v"), &taken).unwrap();
    });
    changed.recv_timeout(PATIENCE).expect("the change is made");
    let labels = answered.recv_timeout(PATIENCE);
    let labels = labels.expect("what drives carry is answered");
    assert_eq!(labels.len(), 1, "{labels:?}");
    assert_eq!(labels[0].drive, name("hung"));
    assert!(labels[0].carries.contains("has not answered"), "{labels:?}");
    let owed = drive.waiting();
    let client = node.client();
    let (asks_again, answered) = beside(move || client.importable_pools().unwrap().items);
    let pools = answered.recv_timeout(PATIENCE);
    assert!(pools.expect("what may be imported is answered").is_empty());
    assert_eq!(drive.waiting(), owed);
    drive.set(Mood::Works);
    let client = node.client();
    wait_until("the drive says that it carries nothing", || {
        client.carried_labels().unwrap().items.is_empty()
    });
    for thread in [asks, changes, asks_again] {
        thread.join().unwrap();
    }
}

#[test]
fn a_change_whose_client_has_gone_is_made_whole_all_the_same() {
    let Scene { drive, node } = &scene();
    drive.set(Mood::Waits);
    let address = node.endpoints().api.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    let body = r#"{"pool":"slow","size":"4MiB"}"#;
    write!(
        stream,
        "PUT /v1/volumes/left HTTP/1.1\r\nHost: n\r\nAuthorization: Bearer {}\r\n\
         Content-Length: {}\r\n\r\n{body}",
        node.admin_token(),
        body.len()
    )
    .unwrap();
    wait_until("the drive is waited for", || drive.waiting() > 0);
    drop(stream);
    // Long enough for the node to see that nobody is there any more.
    std::thread::sleep(Duration::from_millis(500));
    drive.set(Mood::Works);
    let client = node.client();
    wait_until("the volume is served", || {
        client
            .volume(&name("left"))
            .is_ok_and(|volume| !volume.nqn.is_empty())
    });
    let audit = node.answer(&["audit", "list"]);
    assert!(audit.contains("/v1/volumes/left"), "{audit}");
    client.delete_volume(&name("left"), false).unwrap();
}
