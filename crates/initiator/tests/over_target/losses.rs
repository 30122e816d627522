//! Connections that end, networks that stop, targets that restart: with a reconnect policy I/O
//! rides it out, without one it fails at once, and buffers come back either way.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use access::AllowedHosts;
use block::{BlockDevice, Buffer, Durability, IoError, Lba};
use initiator::{ConnectOptions, Controller, Error, LossReason, Reconnect, State};
use nvme::Status;
use nvme_target::{PathState, TargetSettings};
use reactor::{now, sim, sleep, spawn};

use crate::{SUBSYSTEM, Server, faulty, keeps_the_contract, memory, options, persistent, simulate};

#[test]
fn connections_reset_at_any_moment_do_not_show() {
    for seed in 0..25 {
        simulate(seed, async move {
            let server = Server::memory(4096, 1024);
            let namespace = server.namespace(persistent(60)).await;
            let resets = Rc::new(Cell::new(0));
            let counter = Rc::clone(&resets);
            let nuisance = spawn(async move {
                loop {
                    let pause = Duration::from_micros(500 + sim::random_below(20_000));
                    sleep(pause).await;
                    sim::reset_all();
                    counter.set(counter.get() + 1);
                }
            })
            .cancel_on_drop();
            keeps_the_contract(&namespace, seed).await;
            drop(nuisance);
            assert!(resets.get() > 0);
        });
    }
}

#[test]
fn a_target_that_restarts_is_ridden_out() {
    for seed in 0..10 {
        simulate(seed, async move {
            let drive = Rc::new(memory(4096, 1024));
            let server = Server::start(TargetSettings::default(), 4420, Rc::clone(&drive));
            let namespace = server.namespace(persistent(60)).await;
            let writer = spawn({
                let namespace = namespace.clone();
                async move {
                    for number in 0..2000u64 {
                        let data = Buffer::copy_of(&[number as u8; 4096]);
                        let start = Lba(number % 1024);
                        let (_, result) = namespace.write(start, data, Durability::Cached).await;
                        result.unwrap();
                    }
                }
            });
            sleep(Duration::from_millis(5)).await;
            server.target.shutdown(Duration::from_millis(1)).await;
            drop(server);
            sleep(Duration::from_secs(3)).await;
            let server = Server::start(TargetSettings::default(), 4420, drive);
            writer.await;
            let before = now();
            for number in 976..2000u64 {
                let (found, result) = namespace.read(Lba(number % 1024), Buffer::new(4096)).await;
                result.unwrap();
                assert!(
                    found.iter().all(|byte| *byte == number as u8),
                    "write {number}"
                );
            }
            assert!(now() - before < Duration::from_secs(5));
            drop(server);
        });
    }
}

#[test]
fn without_a_policy_a_loss_fails_everything_at_once() {
    simulate(3, async {
        let (drive, control) = faulty(1024, 3);
        let server = Server::start(TargetSettings::default(), 4420, drive);
        let namespace = server.namespace(options()).await;
        control.stall();
        let waiting: Vec<_> = (0..5)
            .map(|number| {
                let namespace = namespace.clone();
                spawn(async move { namespace.read(Lba(number), Buffer::new(4096)).await })
            })
            .collect();
        sleep(Duration::from_millis(5)).await;
        let before = now();
        sim::reset_all();
        for task in waiting {
            let (buffer, result) = task.await;
            assert_eq!((buffer.len(), result), (4096, Err(IoError::DeviceGone)));
        }
        assert!(now() - before < Duration::from_secs(1));
        assert!(matches!(namespace.controller().state(), State::Dead(_)));
        let (buffer, result) = namespace.read(Lba(0), Buffer::new(4096)).await;
        assert_eq!((buffer.len(), result), (4096, Err(IoError::DeviceGone)));
        control.release();
    });
}

#[test]
fn a_silent_network_is_noticed_by_the_keep_alive() {
    simulate(4, async {
        let server = Server::memory(4096, 64);
        let mut way = options();
        way.keep_alive = Some(Duration::from_secs(2));
        let controller = server.connect(way).await;
        sim::set_partitioned(true);
        let before = now();
        let state = controller.state_changed().await;
        assert_eq!(state, State::Dead(LossReason::Silent));
        assert!(
            now() - before < Duration::from_secs(4),
            "{:?}",
            now() - before
        );
        assert_eq!(controller.next_event().await, None);
    });
}

#[test]
fn a_target_that_never_comes_back_is_given_up() {
    simulate(5, async {
        let server = Server::memory(4096, 64);
        let mut way = persistent(60);
        way.reconnect = Some(Reconnect {
            delay: Duration::from_secs(1),
            controller_loss_timeout: Duration::from_secs(10),
            afterwards: None,
        });
        let namespace = server.namespace(way).await;
        server.target.shutdown(Duration::from_millis(1)).await;
        drop(server);
        let before = now();
        let (_, result) = namespace.read(Lba(0), Buffer::new(4096)).await;
        assert_eq!(result, Err(IoError::DeviceGone));
        let waited = now() - before;
        assert!(
            waited > Duration::from_secs(9) && waited < Duration::from_secs(22),
            "{waited:?}"
        );
    });
}

#[test]
fn nobody_there_and_nobody_answering_are_told_apart() {
    simulate(6, async {
        let server = Server::memory(4096, 64);
        let mut nowhere = server.address;
        nowhere.set_port(1);
        let refused = Controller::connect(nowhere, SUBSYSTEM, options()).await;
        assert!(matches!(refused.err().unwrap(), Error::Unreachable { .. }));
        sim::set_partitioned(true);
        let before = now();
        let silent = Controller::connect(server.address, SUBSYSTEM, options()).await;
        assert!(matches!(
            silent.err().unwrap(),
            Error::ConnectionLost(LossReason::Silent)
        ));
        assert!(now() - before >= Duration::from_secs(10));
    });
}

#[test]
fn dropping_a_request_leaves_the_queue_usable() {
    simulate(7, async {
        let (drive, control) = faulty(1024, 7);
        let server = Server::start(TargetSettings::default(), 4420, drive);
        let mut way = options();
        way.queue_depth = 2;
        let namespace = server.namespace(way).await;
        control.set_delay(Duration::from_millis(50)..Duration::from_millis(51));
        for number in 0..20 {
            let read = namespace.read(Lba(number), Buffer::new(8192));
            assert!(
                reactor::timeout(Duration::from_millis(1), read)
                    .await
                    .is_err()
            );
        }
        let (_, result) = namespace.read(Lba(0), Buffer::new(4096)).await;
        result.unwrap();
    });
}

#[test]
fn dropping_the_last_handle_disconnects() {
    simulate(8, async {
        let server = Server::memory(4096, 64);
        let namespace = server.namespace(options()).await;
        assert_eq!(server.target.sessions().len(), 1);
        drop(namespace);
        sleep(Duration::from_secs(1)).await;
        assert_eq!(server.target.sessions().len(), 0);
        assert_eq!(server.target.counters().connections, 0);
    });
}

/// As [`persistent`], and tried again at such times once it was given up.
fn patient(seconds: u64, afterwards: Option<Duration>) -> ConnectOptions {
    let mut way = persistent(seconds);
    way.reconnect = way.reconnect.map(|policy| Reconnect {
        afterwards,
        ..policy
    });
    way
}

/// A namespace that is not ready is waited for as long as a lost controller is. After that every
/// command fails at once, until one succeeds.
#[test]
fn what_may_pass_is_waited_for() {
    simulate(9, async {
        let server = Server::memory(4096, 64);
        let namespace = server.namespace(persistent(60)).await;
        let path = |state| server.target.set_path_state(1, state).unwrap();
        let write = || {
            let namespace = namespace.clone();
            let block = Buffer::copy_of(&[7; 4096]);
            async move { namespace.write(Lba(3), block, Durability::Cached).await.1 }
        };
        path(PathState::Inaccessible);
        let before = now();
        let waiting = spawn(write());
        sleep(Duration::from_secs(45)).await;
        path(PathState::Optimized);
        waiting.await.unwrap();
        assert!(now() - before >= Duration::from_secs(45));
        assert_eq!(namespace.unready(), None);
        path(PathState::Inaccessible);
        let before = now();
        write().await.unwrap_err();
        assert!(now() - before >= Duration::from_secs(60));
        assert!(namespace.unready().unwrap().1);
        let before = now();
        write().await.unwrap_err();
        assert!(now() - before < Duration::from_secs(1));
        path(PathState::Optimized);
        write().await.unwrap();
    });
}

/// A target that is back before its volumes is ridden out, and so is one of an earlier version,
/// which said Do Not Retry then.
#[test]
fn a_volume_that_is_not_served_yet_is_waited_for() {
    simulate(10, async {
        let drive = Rc::new(memory(4096, 64));
        let server = Server::start(TargetSettings::default(), 4420, Rc::clone(&drive));
        let namespace = server.namespace(persistent(60)).await;
        let nqn = SUBSYSTEM.parse().unwrap();
        server.target.remove_subsystem(&nqn).await.unwrap();
        sleep(Duration::from_secs(5)).await;
        assert_eq!(namespace.controller().state(), State::Connecting);
        let failure = namespace.controller().last_failure().unwrap();
        assert!(failure.contains("refused"), "{failure}");
        server.add_subsystem(SUBSYSTEM, AllowedHosts::Any);
        server.add_namespace(1, drive);
        let (_, read) = namespace.read(Lba(0), Buffer::new(4096)).await;
        read.unwrap();
        assert_eq!(namespace.controller().last_failure(), None);
    });
}

/// A host that is shut out gives up at once and says why; it comes back if it was told to go on
/// trying, and stays away otherwise.
#[test]
fn a_host_that_is_refused_says_why_and_may_come_back() {
    for afterwards in [None, Some(Duration::from_secs(10))] {
        simulate(11, async move {
            let server = Server::memory(4096, 64);
            let namespace = server.namespace(patient(60, afterwards)).await;
            let nqn = SUBSYSTEM.parse().unwrap();
            let allow = |hosts| server.target.set_allowed_hosts(&nqn, hosts).unwrap();
            allow(AllowedHosts::list([]));
            sleep(Duration::from_secs(5)).await;
            let reason = LossReason::Refused(Status::CONNECT_INVALID_HOST);
            let expected = match afterwards {
                None => State::Dead(reason),
                Some(_) => State::Failing(reason),
            };
            assert_eq!(namespace.controller().state(), expected);
            let (_, read) = namespace.read(Lba(0), Buffer::new(4096)).await;
            assert_eq!(read, Err(IoError::DeviceGone));
            allow(AllowedHosts::Any);
            sleep(Duration::from_secs(15)).await;
            let (_, read) = namespace.read(Lba(0), Buffer::new(4096)).await;
            assert_eq!(read.is_ok(), afterwards.is_some());
        });
    }
}

/// Without a controller for longer than the policy waits I/O fails, and works again when the target
/// is back after all.
#[test]
fn a_target_that_was_given_up_may_come_back() {
    simulate(12, async {
        let drive = Rc::new(memory(4096, 64));
        let server = Server::start(TargetSettings::default(), 4420, Rc::clone(&drive));
        let afterwards = Some(Duration::from_secs(10));
        let namespace = server.namespace(patient(30, afterwards)).await;
        server.target.shutdown(Duration::from_millis(1)).await;
        drop(server);
        let before = now();
        let (_, read) = namespace.read(Lba(0), Buffer::new(4096)).await;
        assert_eq!(read, Err(IoError::DeviceGone));
        assert!(now() - before >= Duration::from_secs(25));
        assert!(matches!(namespace.controller().state(), State::Failing(_)));
        let failure = namespace.controller().last_failure().unwrap();
        assert!(failure.contains("cannot connect"), "{failure}");
        let _server = Server::start(TargetSettings::default(), 4420, drive);
        sleep(Duration::from_secs(15)).await;
        let (_, read) = namespace.read(Lba(0), Buffer::new(4096)).await;
        read.unwrap();
    });
}
