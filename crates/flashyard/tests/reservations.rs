//! Reservations that hosts asked to keep hold through whatever becomes of the node and the pool.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "support/mirror.rs"]
mod mirror;
#[path = "support/reserving.rs"]
mod reserving;
mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use api::Volume;
use mirror::{add_drive, create, file, moved, with_a_pool};
use nvme::reservation::ReservationType;
use nvme::{IoOpcode, Status};
use reserving::{
    PERSIST, Report, access, acquire, as_host, as_named, clear, key, register, report, volume,
};
use server::state::State;
use support::{Node, name, wait_until};

/// Hosts: one that holds, one that has registered, one that has not.
const HOLDER: u8 = 1;
const REGISTRANT: u8 = 2;
const STRANGER: u8 = 3;

const KINDS: [ReservationType; 6] = ReservationType::ALL;

/// The volumes of each kind, one for each type of a reservation.
fn names(kind: &str) -> Vec<String> {
    let of_kind = KINDS.map(|of| format!("{kind}{}", of.number()));
    of_kind.to_vec()
}

fn all_kinds() -> Vec<String> {
    ["thin", "shared", "whole", "modelled"]
        .iter()
        .flat_map(|kind| names(kind))
        .collect()
}

/// The type that a volume of this name is reserved with.
fn kind_of(volume: &str) -> ReservationType {
    let number = volume.trim_start_matches(|letter: char| !letter.is_ascii_digit());
    ReservationType::from_number(number.parse().unwrap()).unwrap()
}

fn with_all_kinds() -> Node {
    let node = with_a_pool("");
    let in_pool = ["--pool", "p", "--size", "64KiB"];
    for volume in names("thin") {
        create(&node, &volume, &in_pool);
    }
    for volume in names("shared") {
        create(
            &node,
            &volume,
            &[&in_pool[..], &["--subsystem", "group"]].concat(),
        );
    }
    for volume in names("whole") {
        add_drive(&node, &volume);
        create(&node, &volume, &["--drive", &volume]);
    }
    for volume in names("modelled") {
        let directory = file(&node, &volume);
        let add = ["drive", "add", &volume, "--emulated", "cm7-r-7.68"];
        let how = ["--scale", "0.00001", "--directory"];
        node.answer(&[&add[..], &how, &[directory.to_str().unwrap()]].concat());
        create(&node, &volume, &["--drive", &volume]);
    }
    node
}

fn reserve(node: &Node, of: &Volume, kind: ReservationType) -> Report {
    as_host(node, of, HOLDER, async |controller| {
        assert!(
            register(&controller, of.nsid, HOLDER, PERSIST)
                .await
                .is_success()
        );
        assert!(
            acquire(&controller, of.nsid, HOLDER, kind)
                .await
                .is_success()
        );
    });
    as_host(node, of, REGISTRANT, async |controller| {
        assert!(
            register(&controller, of.nsid, REGISTRANT, 0)
                .await
                .is_success()
        );
        report(&controller, of.nsid).await.unwrap()
    })
}

/// That hosts are told what they were told, and that it holds.
fn holds(node: &Node, of: &Volume, told: &Report, after: &str) {
    let kind = told.kind.unwrap();
    for host in [HOLDER, REGISTRANT, STRANGER] {
        as_host(node, of, host, async |controller| {
            let now = report(&controller, of.nsid).await;
            assert_eq!(now.as_ref(), Ok(told), "{} after {after}", of.name);
            let registered = host == REGISTRANT && kind.admits_registrants();
            let writes = host == HOLDER || registered;
            let reads = writes || !kind.forbids_reads();
            for (opcode, allowed) in [(IoOpcode::READ, reads), (IoOpcode::WRITE, writes)] {
                let status = access(&controller, of.nsid, opcode).await;
                let expected = match allowed {
                    true => Status::SUCCESS,
                    false => Status::RESERVATION_CONFLICT,
                };
                assert_eq!(status, expected, "{} of {host} after {after}", of.name);
            }
        });
    }
}

/// Whoever comes after a restart with the identifier of a registrant, under another name, is not
/// that host.
#[test]
fn a_registered_identifier_is_good_under_one_name_after_a_restart() {
    let mut node = with_a_pool("");
    create(&node, "thin", &["--pool", "p", "--size", "64KiB"]);
    add_drive(&node, "whole");
    create(&node, "whole", &["--drive", "whole"]);
    let volumes = ["thin", "whole"].map(|called| volume(&node, called));
    for of in &volumes {
        reserve(&node, of, ReservationType::ExclusiveAccess);
    }
    node.kill();
    node.start();
    for of in &volumes {
        let impostor = "nqn.2026-11.example.flashyard:impostor".to_owned();
        as_named(&node, of, (HOLDER, impostor), async |controller| {
            let conflict = Status::RESERVATION_CONFLICT;
            let registered = register(&controller, of.nsid, HOLDER, PERSIST).await;
            assert_eq!(registered, conflict, "{}", of.name);
            let written = access(&controller, of.nsid, IoOpcode::WRITE).await;
            assert_eq!(written, conflict, "{}", of.name);
        });
        as_host(&node, of, HOLDER, async |controller| {
            let written = access(&controller, of.nsid, IoOpcode::WRITE).await;
            assert!(written.is_success(), "{}", of.name);
        });
    }
}

#[test]
fn every_type_holds_on_every_kind_of_volume_whatever_happens() {
    let mut node = with_all_kinds();
    let mut told: Vec<(Volume, Report)> = Vec::new();
    for called in all_kinds() {
        let of = volume(&node, &called);
        let report = reserve(&node, &of, kind_of(&called));
        assert_eq!(report.registrants.len(), 2);
        told.push((of, report));
    }
    let check = |node: &Node, told: &[(Volume, Report)], after: &str| {
        for (of, report) in told {
            assert_eq!(&volume(node, of.name.as_str()), of, "after {after}");
            holds(node, of, report, after);
        }
    };
    check(&node, &told, "reserving");
    node.kill();
    node.start_on("0");
    check(&node, &told, "a kill");
    assert!(node.terminate().success(), "{}", node.log());
    node.start_on("0,1");
    check(&node, &told, "a stop, on two cores");
    node.answer(&["pool", "export", "p"]);
    node.answer(&["pool", "import", "p"]);
    check(&node, &told, "export and import");

    let pooled = |of: &Volume| of.pool.is_some();
    for (of, _) in told.iter_mut().filter(|(of, _)| pooled(of)) {
        let renamed = format!("new-{}", of.name);
        node.answer(&["volume", "rename", of.name.as_str(), &renamed]);
        node.answer(&["volume", "snapshot", &renamed, &format!("of-{renamed}")]);
        node.answer(&["volume", "resize", &renamed, "128KiB"]);
        node.answer(&[
            "volume",
            "rollback",
            &renamed,
            &format!("of-{renamed}"),
            "--allow-shrink",
        ]);
        node.answer(&["volume", "limit", &renamed, "--iops", "10000"]);
        *of = volume(&node, &renamed);
    }
    check(&node, &told, "a rename, a rollback and a limit");
    node.kill();
    node.start();
    check(&node, &told, "these and a kill");

    // The same drives in another node, under other names, and the pool under another.
    told.retain(|(of, _)| pooled(of));
    let mut other = moved(&mut node);
    for (of, _) in &mut told {
        of.pool = Some(name("q"));
    }
    check(&other, &told, "an import on another node");
    other.kill();
    other.start();
    check(&other, &told, "that and a kill");
}

/// From the moment that a node listens no host writes that a reservation forbids it.
#[test]
fn nobody_writes_before_reservations_are_known() {
    let mut node = with_all_kinds();
    let volumes = ["thin1", "whole1", "modelled1"].map(|called| volume(&node, called));
    for of in &volumes {
        reserve(&node, of, ReservationType::WriteExclusive);
    }
    let address = node.endpoints().nvme[0];
    for _ in 0..3 {
        node.kill();
        let started = Arc::new(AtomicBool::new(false));
        let strangers = volumes.clone().map(|of| {
            let started = Arc::clone(&started);
            std::thread::spawn(move || {
                let mut refused = 0;
                while !started.load(Ordering::Relaxed) || refused == 0 {
                    let status = reserving::try_to_write(address, &of, STRANGER);
                    assert_ne!(status, Some(Status::SUCCESS), "{} was written", of.name);
                    refused += u32::from(status == Some(Status::RESERVATION_CONFLICT));
                    std::thread::sleep(Duration::from_millis(1));
                }
            })
        });
        node.start();
        started.store(true, Ordering::Relaxed);
        for stranger in strangers {
            stranger.join().unwrap();
        }
    }
}

/// A pool that is not open says nothing of its reservations: nobody is told that there are none.
#[test]
fn a_volume_whose_pool_is_not_open_is_not_ready_until_it_is() {
    let mut node = with_a_pool("[pools]\ndrive_wait_seconds = 3600\n");
    create(&node, "v", &["--pool", "p", "--size", "64KiB"]);
    let of = volume(&node, "v");
    let told = reserve(&node, &of, ReservationType::ExclusiveAccess);
    node.kill();
    let (there, aside) = (file(&node, "b"), file(&node, "aside"));
    std::fs::rename(&there, &aside).unwrap();
    node.start();
    as_host(&node, &of, STRANGER, async |controller| {
        let not_ready = Status::NAMESPACE_NOT_READY;
        assert_eq!(report(&controller, of.nsid).await, Err(not_ready));
        for opcode in [IoOpcode::READ, IoOpcode::WRITE] {
            assert_eq!(access(&controller, of.nsid, opcode).await, not_ready);
        }
        let refused = register(&controller, of.nsid, STRANGER, PERSIST).await;
        assert_eq!(refused, not_ready);
        // The host stays connected while the drive comes back.
        std::fs::rename(&aside, &there).unwrap();
        wait_until("the pool is open", || {
            let pool = node.client().pool(&name("p")).unwrap();
            pool.state == api::PoolState::Online
        });
        assert_eq!(report(&controller, of.nsid).await.as_ref(), Ok(&told));
    });
    holds(&node, &of, &told, "the drive came back");
}

/// What was reserved goes with the volume, and what a host cleared is gone for good.
#[test]
fn nobody_inherits_a_reservation() {
    let mut node = with_a_pool("");
    let place = ["--pool", "p", "--size", "64KiB"];
    create(&node, "v", &place);
    let of = volume(&node, "v");
    reserve(&node, &of, ReservationType::WriteExclusive);
    node.answer(&["volume", "snapshot", "v", "s"]);
    node.answer(&["volume", "clone", "s", "c", "--allow", "any"]);
    let none = |node: &Node, of: &Volume| {
        as_host(node, of, STRANGER, async |controller| {
            let now = report(&controller, of.nsid).await.unwrap();
            assert!(now.kind.is_none() && now.registrants.is_empty(), "{now:?}");
            assert!(
                access(&controller, of.nsid, IoOpcode::WRITE)
                    .await
                    .is_success()
            );
        });
    };
    let clone = volume(&node, "c");
    none(&node, &clone);
    node.answer(&["snapshot", "delete", "s"]);
    node.answer(&["volume", "delete", "v"]);
    create(&node, "v", &place);
    let again = volume(&node, "v");
    assert_eq!((&again.nqn, again.nsid), (&of.nqn, of.nsid));
    none(&node, &again);
    reserve(&node, &again, ReservationType::ExclusiveAccess);
    as_host(&node, &again, HOLDER, async |controller| {
        assert!(clear(&controller, again.nsid, HOLDER).await.is_success());
    });
    node.kill();
    node.start();
    none(&node, &again);
    none(&node, &clone);
}

/// A version before this one kept reservations of pools' volumes in the node's state.
#[test]
fn what_an_earlier_version_kept_goes_to_the_pool() {
    let mut node = with_a_pool("");
    create(&node, "v", &["--pool", "p", "--size", "64KiB"]);
    let of = volume(&node, "v");
    node.kill();
    let reservations = node::Reservations {
        generation: 7,
        persistent: true,
        registrants: [
            ([HOLDER; 16], key(HOLDER)),
            ([REGISTRANT; 16], key(REGISTRANT)),
        ]
        .into(),
        held: Some(node::Held {
            kind: ReservationType::WriteExclusive,
            host: [HOLDER; 16],
        }),
        ..node::Reservations::default()
    };
    let earlier = node::Rules {
        reservations,
        ..node::Rules::default()
    };
    let on_node = |node: &Node| {
        let state = State::open(node.path()).unwrap();
        server::rules::kept(&state, &of.nqn, of.nsid).unwrap()
    };
    let state = State::open(node.path()).unwrap();
    let nqn = of.nqn.parse().unwrap();
    server::rules::keep(&state, &nqn, of.nsid, Some(&earlier)).unwrap();
    drop(state);
    let told = Report {
        generation: 7,
        kind: Some(ReservationType::WriteExclusive),
        persistent: true,
        registrants: vec![
            (HOLDER, key(HOLDER), true),
            (REGISTRANT, key(REGISTRANT), false),
        ],
    };
    for after in ["an upgrade", "another kill"] {
        node.start();
        holds(&node, &of, &told, after);
        node.kill();
        assert_eq!(on_node(&node), None);
    }
}
