//! Volumes that are write protected stay so through whatever becomes of the node and the pool, and
//! what is in them stays as it is.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "support/mirror.rs"]
mod mirror;
#[path = "support/reserving.rs"]
mod reserving;
mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use api::{Volume, WriteProtection};
use mirror::{add_drive, create, file, moved, with_a_pool};
use nvme::identify::{Cns, NamespaceData, nsattr};
use nvme::{IoOpcode, Status};
use reserving::{access, as_host, protect, volume};
use support::{Node, name, wait_until};
use zerocopy::FromBytes;

/// Hosts: one that asks for protection, and another.
const HOST: u8 = 1;
const OTHER: u8 = 2;

const REFUSED: Status = Status::NAMESPACE_WRITE_PROTECTED;

const ADMINISTRATOR: Option<WriteProtection> = Some(WriteProtection::Administrator);
const BY_HOST: Option<WriteProtection> = Some(WriteProtection::Host);

/// Volumes of each kind: one that the administrator protects, one that a host does, and one that
/// nobody does.
fn with_all_kinds() -> (Node, Vec<Volume>) {
    let node = with_a_pool("");
    let mut volumes = Vec::new();
    for kind in ["thin", "shared", "whole"] {
        for by in ["administrator", "host", "nobody"] {
            let called = format!("{kind}-{by}");
            let in_pool = ["--pool", "p", "--size", "64KiB"];
            match kind {
                "thin" => create(&node, &called, &in_pool),
                "shared" => {
                    let group = ["--subsystem", "group"];
                    create(&node, &called, &[&in_pool[..], &group].concat());
                }
                _ => {
                    add_drive(&node, &called);
                    create(&node, &called, &["--drive", &called]);
                }
            }
            let of = volume(&node, &called);
            assert_eq!(of.write_protection, None);
            match by {
                "administrator" => drop(node.answer(&["volume", "protect", &called])),
                "host" => as_host(&node, &of, HOST, async |controller| {
                    let protected = protect(&controller, of.nsid, true).await;
                    assert!(protected.is_success());
                }),
                _ => {}
            }
            volumes.push(volume(&node, &called));
        }
    }
    (node, volumes)
}

/// That hosts find a volume as it is shown, and lift what a host has asked for alone.
fn holds(node: &Node, of: &Volume, after: &str) {
    let shown = volume(node, of.name.as_str());
    assert_eq!(&shown, of, "after {after}");
    let by = of.write_protection;
    as_host(node, of, OTHER, async |controller| {
        let expected = match by {
            None => Status::SUCCESS,
            Some(_) => REFUSED,
        };
        let written = access(&controller, of.nsid, IoOpcode::WRITE).await;
        assert_eq!(written, expected, "{} after {after}", of.name);
        let read = access(&controller, of.nsid, IoOpcode::READ).await;
        assert!(read.is_success(), "{} after {after}", of.name);
        let page = controller.identify_structure(Cns::NAMESPACE, of.nsid).await;
        let page = page.unwrap();
        let attributes = NamespaceData::ref_from_bytes(&page).unwrap().attributes;
        let is_said = attributes & nsattr::WRITE_PROTECTED != 0;
        assert_eq!(is_said, by.is_some(), "{} after {after}", of.name);
        if by == ADMINISTRATOR {
            let lifted = protect(&controller, of.nsid, false).await;
            assert_eq!(lifted, Status::FEATURE_NOT_CHANGEABLE);
        }
    });
}

#[test]
fn protection_holds_on_every_kind_of_volume_whatever_happens() {
    let (mut node, mut volumes) = with_all_kinds();
    for of in &volumes {
        let by = match of.name.as_str().rsplit_once('-').unwrap().1 {
            "administrator" => ADMINISTRATOR,
            "host" => BY_HOST,
            _ => None,
        };
        assert_eq!(of.write_protection, by, "{}", of.name);
    }
    let check = |node: &Node, volumes: &[Volume], after: &str| {
        for of in volumes {
            holds(node, of, after);
        }
        assert_eq!(node.client().volumes().unwrap().items.len(), volumes.len());
    };
    check(&node, &volumes, "protecting");
    node.kill();
    node.start_on("0");
    check(&node, &volumes, "a kill");
    assert!(node.terminate().success(), "{}", node.log());
    node.start_on("0,1");
    check(&node, &volumes, "a stop, on two cores");
    node.answer(&["pool", "export", "p"]);
    node.answer(&["pool", "import", "p"]);
    check(&node, &volumes, "export and import");
    for of in volumes.iter_mut().filter(|of| of.pool.is_some()) {
        let renamed = format!("new-{}", of.name);
        node.answer(&["volume", "rename", of.name.as_str(), &renamed]);
        node.answer(&["volume", "limit", &renamed, "--iops", "10000"]);
        node.answer(&["volume", "resize", &renamed, "128KiB"]);
        let by = of.write_protection;
        *of = volume(&node, &renamed);
        assert_eq!(of.write_protection, by);
    }
    node.kill();
    node.start();
    check(&node, &volumes, "a rename, a limit, growth and a kill");

    // The same drives in another node, and the pool under another name.
    volumes.retain(|of| of.pool.is_some());
    let mut other = moved(&mut node);
    for of in &mut volumes {
        of.pool = Some(name("q"));
    }
    check(&other, &volumes, "an import on another node");
    other.kill();
    other.start();
    check(&other, &volumes, "that and a kill");

    // What was lifted stays so.
    for of in &mut volumes {
        if of.write_protection == BY_HOST {
            as_host(&other, of, OTHER, async |controller| {
                assert!(protect(&controller, of.nsid, false).await.is_success());
            });
        } else {
            other.answer(&["volume", "protect", of.name.as_str(), "--off"]);
        }
        of.write_protection = None;
    }
    check(&other, &volumes, "lifting");
    other.kill();
    other.start();
    check(&other, &volumes, "lifting and a kill");
}

/// From the moment that a node listens no host writes to what is protected.
#[test]
fn nobody_writes_before_protection_is_known() {
    let (mut node, mut volumes) = with_all_kinds();
    volumes.retain(|of| of.write_protection.is_some());
    let address = node.endpoints().nvme[0];
    for cores in ["0", "0,1"] {
        node.kill();
        let started = Arc::new(AtomicBool::new(false));
        let hosts: Vec<_> = volumes
            .iter()
            .cloned()
            .map(|of| {
                let started = Arc::clone(&started);
                std::thread::spawn(move || {
                    let mut refused = 0;
                    while !started.load(Ordering::Relaxed) || refused == 0 {
                        let status = reserving::try_to_write(address, &of, OTHER);
                        assert_ne!(status, Some(Status::SUCCESS), "{} was written", of.name);
                        refused += u32::from(status == Some(REFUSED));
                        std::thread::sleep(Duration::from_millis(1));
                    }
                })
            })
            .collect();
        node.start_on(cores);
        started.store(true, Ordering::Relaxed);
        for host in hosts {
            host.join().unwrap();
        }
    }
}

/// A rollback and a smaller size would change what is in a volume; the rest is as with any other.
#[test]
fn what_is_in_a_protected_volume_stays() {
    let node = with_a_pool("");
    let place = ["--pool", "p", "--size", "64KiB"];
    create(&node, "v", &place);
    node.answer(&["volume", "snapshot", "v", "s"]);
    let of = volume(&node, "v");
    as_host(&node, &of, HOST, async |controller| {
        assert!(protect(&controller, of.nsid, true).await.is_success());
    });
    let back = ["volume", "rollback", "v", "s", "--force"];
    let shrink = ["volume", "resize", "v", "32KiB", "--allow-shrink"];
    let lift = "volume protect v --off";
    node.refuses(&[
        (&back, 1, &["volume v is write protected by a host", lift]),
        (&shrink, 1, &["volume v is write protected by a host", lift]),
    ]);
    node.answer(&["volume", "protect", "v"]);
    node.refuses(&[
        (&back, 1, &["volume v is write protected; allowed:", lift]),
        (&shrink, 1, &["volume v is write protected; allowed:", lift]),
        (&["volume", "protect", "w"], 1, &["no volume is named w"]),
    ]);
    let shown = node.answer(&["volume", "show", "v"]);
    assert!(
        shown.contains("by the administrator: no host can lift it"),
        "{shown}"
    );
    let events = node.client().events(0).unwrap().items;
    let told = |object: &str, message: &str| {
        events
            .iter()
            .any(|event| event.object == object && event.message == message)
    };
    assert!(told("volume/v", "write protected"));
    let by_host = "nqn.2026-11.example.flashyard:host-1 write protected namespace 1";
    assert!(told(&format!("subsystem/{}", of.nqn), by_host));

    node.answer(&["volume", "resize", "v", "128KiB"]);
    node.answer(&["volume", "snapshot", "v", "t"]);
    node.answer(&["volume", "clone", "t", "c", "--allow", "any"]);
    let clone = volume(&node, "c");
    assert_eq!(clone.write_protection, None);
    holds(&node, &clone, "a clone of what is protected");
    node.answer(&["snapshot", "delete", "t"]);
    node.answer(&["volume", "protect", "v", "--off"]);
    node.answer(&["volume", "rollback", "v", "s", "--allow-shrink"]);
    holds(&node, &volume(&node, "v"), "a rollback");
}

/// Protection goes with its volume: what comes to its place is as any other.
#[test]
fn nobody_inherits_protection() {
    let mut node = with_a_pool("");
    add_drive(&node, "d");
    let places = [
        ("v", &["--pool", "p", "--size", "64KiB"][..]),
        ("w", &["--drive", "d"][..]),
    ];
    for (called, place) in places {
        create(&node, called, place);
        node.answer(&["volume", "protect", called]);
        node.answer(&["volume", "delete", called]);
        create(&node, called, place);
        let again = volume(&node, called);
        assert_eq!(again.write_protection, None);
        holds(&node, &again, "it was made again");
    }
    node.kill();
    node.start();
    for called in ["v", "w"] {
        holds(&node, &volume(&node, called), "a kill");
    }
}

/// A pool that is not open says nothing of write protection: nobody writes until it does, nor is
/// any protection changed.
#[test]
fn protection_of_a_volume_whose_pool_is_not_open_is_not_known() {
    let mut node = Node::configured("[pools]\ndrive_wait_seconds = 3600\n");
    for drive in ["a", "b"] {
        add_drive(&node, drive);
    }
    node.answer(&["pool", "create", "p", "--level", "raid1", "--drives", "a,b"]);
    create(&node, "v", &["--pool", "p", "--size", "64KiB"]);
    node.answer(&["volume", "protect", "v"]);
    let of = volume(&node, "v");
    node.kill();
    let (there, aside) = (file(&node, "b"), file(&node, "aside"));
    std::fs::rename(&there, &aside).unwrap();
    node.start();
    node.refuses(&[(
        &["volume", "protect", "v", "--off"],
        1,
        &["volume v is offline: pool p is offline"],
    )]);
    as_host(&node, &of, OTHER, async |controller| {
        let not_ready = Status::NAMESPACE_NOT_READY;
        assert_eq!(
            access(&controller, of.nsid, IoOpcode::WRITE).await,
            not_ready
        );
        assert_eq!(protect(&controller, of.nsid, true).await, not_ready);
        std::fs::rename(&aside, &there).unwrap();
        wait_until("the pool is open", || {
            let pool = node.client().pool(&name("p")).unwrap();
            pool.state == api::PoolState::Online
        });
        assert_eq!(access(&controller, of.nsid, IoOpcode::WRITE).await, REFUSED);
    });
    holds(&node, &of, "the drive came back");
}
