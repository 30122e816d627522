//! The machine driven without a socket: whole conversations, cut anywhere, and every way to break
//! the rules.

mod fatal;
mod host;

use std::collections::BTreeMap;

use block::Buffer;

use host::{Habits, Host, Outcome, PLAIN, connected, content, converse, execute};
use nvme::command::command_flags;
use nvme::{IoOpcode, Status};
use proptest::prelude::*;

use super::{Connection, ConnectionSettings, End, Reply, Tag, Trust, Work};

fn settings() -> ConnectionSettings {
    ConnectionSettings {
        host_data_bytes_max: 64 << 10,
        transfer_bytes_max: 256 << 10,
        ready_to_transfer_bytes: 48 << 10,
        write_bytes_max: 300 << 10,
        ..ConnectionSettings::default()
    }
}

fn habits() -> impl Strategy<Value = Habits> {
    (any::<bool>(), any::<bool>(), 0..32u8, 0..6u32, 1..16u32).prop_map(
        |(header_digest, data_digest, alignment, transfers, kilobytes)| Habits {
            header_digest,
            data_digest,
            alignment,
            transfers,
            data_bytes: kilobytes * 4096,
        },
    )
}

/// A command of a conversation: number of 512-byte blocks, and how its data travels.
#[derive(Clone, Copy, Debug)]
enum Step {
    Read(u32),
    InCapsule(u32),
    Transfer(u32),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (1..64u32).prop_map(Step::Read),
        (1..=16u32).prop_map(Step::InCapsule),
        (1..=512u32).prop_map(Step::Transfer),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// However the stream is cut, and whatever was agreed, every command is executed once with
    /// the data the host sent and answered once with the data the device gave.
    #[test]
    fn streams_cut_anywhere_mean_the_same(
        habits in habits(),
        steps in prop::collection::vec(step(), 1..30),
        cuts in prop::collection::vec(1..6000usize, 1..40),
        flow_control in any::<bool>(),
    ) {
        let (mut host, mut connection) = connected(habits, 64, flow_control);
        let mut written = BTreeMap::new();
        for (number, step) in (0..).zip(&steps) {
            match *step {
                Step::Read(blocks) => host.read(number, u64::from(number), blocks * 512),
                Step::InCapsule(blocks) => {
                    host.write(number, &content(u64::from(number), blocks as usize * 512), true);
                }
                Step::Transfer(blocks) => {
                    host.write(number, &content(u64::from(number), blocks as usize * 512), false);
                }
            }
        }
        let mut next = cuts.iter().cycle().copied();
        converse(&mut host, &mut connection, &mut written, || next.next().unwrap_or(1));
        prop_assert_eq!(connection.end(), None);
        prop_assert_eq!(connection.outstanding(), 0);
        for (number, step) in (0..).zip(&steps) {
            let outcome = &host.outcomes[&number];
            prop_assert_eq!(outcome.status, Some(Status::SUCCESS));
            match *step {
                Step::Read(blocks) => prop_assert_eq!(
                    &outcome.data,
                    &content(u64::from(number), blocks as usize * 512)
                ),
                Step::InCapsule(blocks) | Step::Transfer(blocks) => prop_assert_eq!(
                    &written[&number],
                    &content(u64::from(number), blocks as usize * 512)
                ),
            }
        }
    }

    /// Bytes changed on the way never panic the machine. Either they change nothing about the
    /// framing, or the connection ends, with one last PDU that says why.
    #[test]
    fn corrupt_streams_end_cleanly_or_not_at_all(
        habits in habits(),
        steps in prop::collection::vec(step(), 1..6),
        flips in prop::collection::vec((any::<prop::sample::Index>(), 1..=255u8), 1..8),
        cuts in prop::collection::vec(1..6000usize, 1..10),
    ) {
        let mut host = Host::new(habits);
        for (number, step) in (0..).zip(&steps) {
            match *step {
                Step::Read(blocks) => host.read(number, 0, blocks * 512),
                Step::InCapsule(blocks) => {
                    host.write(number, &content(0, blocks as usize * 512), true);
                }
                Step::Transfer(blocks) => {
                    host.write(number, &content(0, blocks as usize * 512), false);
                }
            }
        }
        let mut stream = std::mem::take(&mut host.sending);
        for (index, flip) in flips {
            let index = index.index(stream.len());
            stream[index] ^= flip;
        }
        let mut connection = Connection::new(settings());
        let mut kept = Vec::new();
        let mut next = cuts.iter().cycle().copied();
        let mut rest = stream.as_slice();
        while !rest.is_empty() {
            let count = rest.len().min(next.next().unwrap_or(1));
            kept.extend_from_slice(&rest[..count]);
            rest = &rest[count..];
            let used = connection.receive(&kept);
            kept.drain(..used);
            if connection.is_live() {
                connection.set_queue(64, true);
            }
            // Identifiers may be corrupt too, so nothing is said about what is executed.
            while let Some(work) = connection.take_work() {
                drop(work);
            }
        }
        let mut last = Vec::new();
        while let Some(part) = connection.outbox().pop() {
            if let super::Part::Bytes(bytes) = part {
                last = bytes.to_vec();
            }
        }
        if let Some(End::Fatal(error)) = connection.end() {
            prop_assert!(last.len() >= 24);
            let status = error.status.0.to_le_bytes();
            prop_assert!(last.windows(2).any(|pair| pair == status));
        }
    }

    /// Any bytes at all.
    #[test]
    fn noise_never_panics(noise in prop::collection::vec(any::<u8>(), 0..4000)) {
        let mut connection = Connection::new(settings());
        connection.receive(&noise);
        let (_, mut connection) = connected(PLAIN, 8, true);
        connection.receive(&noise);
    }
}

/// NVMe/TCP 1.0 §3.3.1.2: wrong data ends the command with a transient error, nothing else.
#[test]
fn a_wrong_data_digest_costs_the_command_alone() {
    let habits = Habits {
        data_digest: true,
        ..PLAIN
    };
    let (mut host, mut connection) = connected(habits, 8, true);
    let mut written = BTreeMap::new();
    for in_capsule in [true, false] {
        host.write(1, &[1; 4096], in_capsule);
        host.write(2, &[2; 4096], in_capsule);
        if in_capsule {
            host.sending[72 + 100] ^= 1;
            converse(&mut host, &mut connection, &mut written, || 1 << 20);
        } else {
            host.answer_requests = false;
            converse(&mut host, &mut connection, &mut written, || 1 << 20);
            for request in std::mem::take(&mut host.requests) {
                host.answer(&request);
            }
            host.sending[24 + 100] ^= 1;
            converse(&mut host, &mut connection, &mut written, || 1 << 20);
        }
        let transient = Some(Status::TRANSIENT_TRANSPORT_ERROR);
        assert_eq!(host.outcomes.remove(&1).unwrap().status, transient);
        assert_eq!(
            host.outcomes.remove(&2).unwrap().status,
            Some(Status::SUCCESS)
        );
        assert_eq!(
            std::mem::take(&mut written),
            BTreeMap::from([(2, vec![2; 4096])])
        );
    }
    assert_eq!(connection.end(), None);
}

/// One command has as many R2Ts outstanding as the host allows, up to four, and asks for all its
/// data exactly once; what exceeds the room for write data waits for its turn.
#[test]
fn transfers_keep_to_the_limits_of_both_sides() {
    for (transfers, expected) in [(0, 1), (1, 2), (3, 4), (9, 4)] {
        let habits = Habits { transfers, ..PLAIN };
        let (mut host, mut connection) = connected(habits, 8, true);
        host.answer_requests = false;
        let mut written = BTreeMap::new();
        host.write(1, &[1; 256 << 10], false);
        host.write(2, &[2; 64 << 10], false);
        converse(&mut host, &mut connection, &mut written, || 1 << 20);
        assert_eq!(host.requests.len(), expected, "{transfers}");
        assert!(
            host.requests
                .iter()
                .all(|request| request.command_id == host::id(1))
        );
        host.answer_requests = true;
        for request in std::mem::take(&mut host.requests) {
            host.answer(&request);
        }
        converse(&mut host, &mut connection, &mut written, || 1 << 20);
        assert_eq!(written[&1], vec![1; 256 << 10]);
        assert_eq!(written[&2], vec![2; 64 << 10]);
    }
}

/// NVMe 2.0 §3.4.2: fused commands are adjacent, and are executed together or not at all.
#[test]
fn fused_commands_come_in_pairs() {
    let (mut host, mut connection) = connected(PLAIN, 16, true);
    let (first, second) = (command_flags::FUSED_FIRST, command_flags::FUSED_SECOND);
    let mut written = BTreeMap::new();
    for in_capsule in [true, false] {
        host.write_as(IoOpcode::COMPARE, first, 1, &[1; 512], in_capsule);
        host.write_as(IoOpcode::WRITE, second, 2, &[2; 512], !in_capsule);
        host.write_as(IoOpcode::WRITE, second, 3, &[3; 512], in_capsule);
        host.write_as(IoOpcode::COMPARE, first, 4, &[4; 512], in_capsule);
        host.write_as(IoOpcode::WRITE, 0, 5, &[5; 512], in_capsule);
        host.write_as(IoOpcode::WRITE, 3, 6, &[6; 512], in_capsule);
        host.write_as(IoOpcode::COMPARE, first, 7, &[7; 512], in_capsule);
        host.write_as(IoOpcode::COMPARE, first, 8, &[8; 512], in_capsule);
        host.write_as(IoOpcode::WRITE, second, 9, &[9; 512], in_capsule);
        converse(&mut host, &mut connection, &mut written, || 1 << 20);
        let missing = Some(Status::ABORTED_MISSING_FUSED);
        let success = Some(Status::SUCCESS);
        let invalid = Some(Status::INVALID_FIELD.do_not_retry());
        for (id, expected) in [
            (1, success),
            (2, success),
            (3, missing),
            (4, missing),
            (5, success),
            (6, invalid),
            (7, missing),
            (8, success),
            (9, success),
        ] {
            let outcome = host.outcomes.remove(&id).unwrap_or_default();
            assert_eq!(outcome.status, expected, "command {id}");
        }
        let executed: Vec<u16> = std::mem::take(&mut written).into_keys().collect();
        assert_eq!(executed, [1, 2, 5, 8, 9]);
    }
    assert_eq!(connection.outstanding(), 0);
}

/// A host that sends more commands than its queue has entries loses the association; one that
/// fills it does not.
#[test]
fn a_full_queue_is_fine_and_an_overfull_one_is_the_end() {
    let (mut host, mut connection) = connected(PLAIN, 8, true);
    for id in 0..8 {
        host.read(id, 0, 512);
    }
    connection.receive(&host.sending);
    assert_eq!((connection.end(), connection.outstanding()), (None, 8));
    let mut held = Vec::new();
    while let Some(work) = connection.take_work() {
        held.push(work);
    }
    assert_eq!(held.len(), 8);
    host.sending.clear();
    host.read(9, 0, 512);
    connection.receive(&host.sending);
    assert_eq!(connection.end(), Some(End::TooManyCommands));
}

/// A host under flow control is told the queue's head often enough never to run out of entries;
/// one that gave flow control up gets reads without response capsules.
#[test]
fn the_queue_head_is_told_as_agreed() {
    for (flow_control, capsules) in [(true, 16), (false, 0)] {
        let (mut host, mut connection) = connected(PLAIN, 8, flow_control);
        let mut written = BTreeMap::new();
        for id in 0..64 {
            host.read(id, 0, 512);
            converse(&mut host, &mut connection, &mut written, || 1 << 20);
        }
        assert_eq!(host.submission_heads.len(), capsules);
        assert!(
            host.outcomes
                .values()
                .all(|outcome| outcome.status == Some(Status::SUCCESS))
        );
        host.write(99, &[0; 512], true);
        converse(&mut host, &mut connection, &mut written, || 1 << 20);
        let told = *host.submission_heads.last().unwrap();
        // Connect was no command of this test: 65 commands in a queue of 8 entries.
        assert_eq!(told, if flow_control { 65 % 8 } else { 0xffff });
    }
}

/// Nothing is answered once a connection has ended, and replies to unknown tags change nothing.
#[test]
fn replies_after_the_end_are_dropped() {
    let (mut host, mut connection) = connected(PLAIN, 8, true);
    host.read(1, 0, 512);
    connection.receive(&host.sending);
    let Some(Work::One(command)) = connection.take_work() else {
        panic!("no command");
    };
    connection.respond(Tag::for_test(77), Reply::success());
    connection.receive(&[0xff; 8]);
    assert!(matches!(connection.end(), Some(End::Fatal(_))));
    let waiting = connection.outbox().len_bytes();
    connection.respond(command.tag, Reply::success());
    assert_eq!(connection.outbox().len_bytes(), waiting);
    let mut written = BTreeMap::new();
    execute(&mut connection, &mut written);
    assert_eq!(host.outcomes, BTreeMap::<u16, Outcome>::new());
}

/// A page that ends before what was asked for: zeroes follow, under one digest.
#[test]
fn zeroes_follow_data_that_is_short() {
    for data_digest in [false, true] {
        let habits = Habits {
            data_digest,
            ..PLAIN
        };
        for (said, bytes) in [(100, 20_000), (4096, 4096), (0, 512)] {
            let (mut host, mut connection) = connected(habits, 8, true);
            host.read(1, 0, bytes as u32);
            assert_eq!(connection.receive(&host.sending), host.sending.len());
            let Some(Work::One(command)) = connection.take_work() else {
                panic!("the read is work")
            };
            let reply = Reply {
                zeroes: bytes - said,
                ..Reply::data(Buffer::copy_of(&vec![7; said]))
            };
            connection.respond(command.tag, reply);
            host.receive(&mut connection);
            let mut expected = vec![7; said];
            expected.resize(bytes, 0);
            assert_eq!(host.outcomes.remove(&1).unwrap().data, expected);
        }
    }
}

/// Whoever is not a host of a subsystem is asked for no data: its commands come without; and before
/// a proof few may be outstanding, however large the queue is.
#[test]
fn nothing_is_asked_for_before_a_proof() {
    for (trust, most) in [(Trust::Unproven, 4), (Trust::Guest, 32)] {
        let (mut host, mut connection) = connected(PLAIN, 32, true);
        connection.set_trust(trust);
        for id in 0..most {
            host.write(id, &[1; 4096], false);
        }
        connection.receive(&std::mem::take(&mut host.sending));
        host.receive(&mut connection);
        assert!(host.requests.is_empty(), "{trust:?}");
        assert_eq!(connection.end(), None, "{trust:?}");
        for _ in 0..most {
            let Some(Work::One(command)) = connection.take_work() else {
                panic!("{trust:?}: the writes are work")
            };
            assert_eq!(command.data.as_deref(), None);
        }
        host.write(most, &[1; 4096], false);
        connection.receive(&std::mem::take(&mut host.sending));
        assert_eq!(connection.end(), Some(End::TooManyCommands), "{trust:?}");
    }
}
