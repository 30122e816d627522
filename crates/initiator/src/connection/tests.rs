//! The machine against a scripted controller: no socket, no time, every byte in view.

mod bad_input;
mod controller;
mod keyed;

use nvme::command::{ReadWrite, command_flags};
use nvme::{IoOpcode, Status};
use proptest::prelude::*;

use super::*;
use controller::{FakeController, Options, Wire};

pub(super) fn settings() -> Settings {
    Settings {
        depth: 4,
        header_digest: false,
        data_digest: false,
        in_capsule_bytes: 4096,
        ready_to_transfer_max: 4,
    }
}

/// A connection that has been initialized by a controller of these options.
pub(super) fn connected(settings: Settings, options: Options) -> (Connection, FakeController) {
    let mut connection = Connection::new(settings);
    let mut controller = FakeController::new(options);
    controller.exchange(&mut connection);
    assert!(connection.is_ready());
    (connection, controller)
}

pub(super) fn command(opcode: IoOpcode, blocks: u32) -> SubmissionEntry {
    *ReadWrite::new(opcode, 1, 0, blocks, SglDescriptor::transport(0)).entry()
}

pub(super) fn pattern(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at * 7 + at / 251) as u8).collect()
}

fn finish(connection: &mut Connection, id: CommandId) -> (Buffer, Status) {
    assert_eq!(connection.next_finished(), Some(id));
    let (data, outcome) = connection.take(id).expect("finished");
    (
        data.into_buffer().expect("had a buffer"),
        outcome.expect("not lost").status(),
    )
}

prop_compose! {
    fn any_settings()(
        header_digest: bool, data_digest: bool, in_capsule_bytes in 0u32..10_000,
        ready_to_transfer_max in 1u16..5,
    ) -> Settings {
        Settings { depth: 8, header_digest, data_digest, in_capsule_bytes, ready_to_transfer_max }
    }
}

prop_compose! {
    fn any_options()(
        header_digest: bool, data_digest: bool, alignment in 0u8..32,
        host_data_units in 1u32..8, transfer_bytes in 1u32..70_000, success_flag: bool,
        piece_bytes in 1usize..5000,
    ) -> Options {
        Options {
            header_digest,
            data_digest,
            alignment,
            host_data_bytes_max: host_data_units * 4096,
            transfer_bytes,
            success_flag,
            piece_bytes,
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Whatever was negotiated and however the stream is cut: data arrives as it was sent, every
    /// command finishes once, and its buffer comes back.
    #[test]
    fn data_survives_both_ways(
        settings in any_settings(), options in any_options(),
        sizes in proptest::collection::vec((any::<bool>(), 1usize..60_000), 1..8),
    ) {
        let (mut connection, mut controller) = connected(settings, options);
        let mut expected = Vec::new();
        for (write, bytes) in sizes {
            let content = pattern(bytes);
            let (opcode, data) = if write {
                (IoOpcode::WRITE, Data::Out(Buffer::copy_of(&content)))
            } else {
                (IoOpcode::READ, Data::In(Buffer::new(bytes)))
            };
            let id = connection.submit(command(opcode, 1), data).expect("a free slot");
            if !write {
                controller.will_read(id, content.clone());
            }
            expected.push((id, write, content));
        }
        controller.exchange(&mut connection);
        for (id, write, content) in expected {
            let (data, outcome) = connection.take(id).expect("finished");
            prop_assert!(outcome.expect("not lost").status().is_success());
            prop_assert_eq!(&data.into_buffer().expect("a buffer")[..], &content[..]);
            if write {
                prop_assert_eq!(controller.written(id), &content[..]);
            }
        }
        prop_assert_eq!(connection.free_slots(), 8);
    }

    /// Any bytes at any time: no panic, and once the connection is lost nothing stays in flight.
    #[test]
    fn arbitrary_bytes_end_in_order(
        chunks in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..300), 1..8),
        initialized: bool,
    ) {
        let mut connection = if initialized {
            connected(settings(), Options::default()).0
        } else {
            Connection::new(settings())
        };
        let data = Data::In(Buffer::new(8192));
        let id = connection.submit(command(IoOpcode::READ, 1), data).expect("a free slot");
        connection.transmit(&mut Wire::default());
        let lost = chunks.iter().any(|chunk| connection.receive(chunk).is_err());
        if lost {
            prop_assert_eq!(connection.next_finished(), Some(id));
            let (data, outcome) = connection.take(id).expect("finished");
            prop_assert!(outcome.is_err() && data.into_buffer().is_some());
        }
    }
}

#[test]
fn a_write_of_the_capsules_size_goes_in_the_capsule_and_a_larger_one_does_not() {
    let (mut connection, mut controller) = connected(settings(), Options::default());
    for (bytes, transfers) in [(4096, 0), (4097, 1)] {
        let data = Data::Out(Buffer::copy_of(&pattern(bytes)));
        let id = connection
            .submit(command(IoOpcode::WRITE, 1), data)
            .unwrap();
        controller.exchange(&mut connection);
        assert_eq!(controller.transfers_asked, transfers);
        assert_eq!(controller.written(id), pattern(bytes));
        assert!(finish(&mut connection, id).1.is_success());
    }
}

#[test]
fn the_rest_of_a_large_payload_goes_straight_to_its_buffer() {
    let (mut connection, mut controller) = connected(settings(), Options::default());
    let bytes = 128 << 10;
    let data = Data::In(Buffer::new(bytes));
    let id = connection
        .submit(command(IoOpcode::READ, 32), data)
        .unwrap();
    assert!(
        connection.receive_hint_bytes(1 << 20) < 5000,
        "only the header is asked for"
    );
    controller.will_read(id, pattern(bytes));
    let stream = controller.answer(&mut connection);
    let (front, rest) = stream.split_at(4096);
    connection.receive(front).unwrap();
    let (mut buffer, range) = connection.lend().expect("a large payload is due");
    assert_eq!(range, 4096 - 24..bytes);
    assert!(connection.lend().is_none(), "lent once only");
    let (now, later) = rest.split_at(50_000);
    buffer[range.start..range.start + now.len()].copy_from_slice(now);
    connection.returned(buffer, now.len());
    let (mut buffer, range) = connection.lend().expect("still a lot to come");
    let missing = range.len();
    buffer[range].copy_from_slice(&later[..missing]);
    connection.returned(buffer, missing);
    assert!(connection.lend().is_none());
    connection.receive(&later[missing..]).unwrap();
    let (buffer, status) = finish(&mut connection, id);
    assert!(status.is_success() && buffer[..] == pattern(bytes)[..]);
    assert_eq!(connection.receive_hint_bytes(1 << 20), 1 << 20);
}

#[test]
fn a_command_finishes_only_once_the_socket_has_given_its_buffer_back() {
    let (mut connection, _) = connected(settings(), Options::default());
    let data = Data::Out(Buffer::copy_of(&pattern(4096)));
    let id = connection
        .submit(command(IoOpcode::WRITE, 1), data)
        .unwrap();
    let mut wire = Wire::default();
    connection.transmit(&mut wire);
    connection
        .receive(&controller::response(id.0, Status::SUCCESS))
        .unwrap();
    assert_eq!(
        connection.next_finished(),
        None,
        "answered while still being sent"
    );
    assert!(connection.take(id).is_none());
    connection.transmitted(wire.buffers);
    let (buffer, status) = finish(&mut connection, id);
    assert!(status.is_success() && buffer[..] == pattern(4096)[..]);
}

#[test]
fn losing_the_connection_waits_for_lent_buffers_and_ends_everything() {
    let (mut connection, _) = connected(settings(), Options::default());
    let data = Data::Out(Buffer::new(4096));
    let sending = connection
        .submit(command(IoOpcode::WRITE, 1), data)
        .unwrap();
    let mut wire = Wire::default();
    connection.transmit(&mut wire);
    let data = Data::In(Buffer::new(512));
    let queued = connection.submit(command(IoOpcode::READ, 1), data).unwrap();
    connection.fail(LossReason::Closed);
    connection.fail(LossReason::Silent);
    assert_eq!(
        connection.loss(),
        Some(LossReason::Closed),
        "the first reason stays"
    );
    assert_eq!(connection.next_finished(), Some(queued));
    assert_eq!(connection.next_finished(), None);
    connection.transmitted(wire.buffers);
    assert_eq!(connection.next_finished(), Some(sending));
    let (_, outcome) = connection.take(sending).unwrap();
    assert_eq!(outcome.unwrap_err(), LossReason::Closed);
    assert!(!connection.has_output());
    assert!(
        connection
            .submit(command(IoOpcode::FLUSH, 1), Data::None)
            .is_err()
    );
}

#[test]
fn an_orphaned_command_frees_its_slot_when_it_ends() {
    let (mut connection, mut controller) = connected(settings(), Options::default());
    let id = connection
        .submit(command(IoOpcode::FLUSH, 1), Data::None)
        .unwrap();
    assert_eq!(connection.free_slots(), 3);
    connection.orphan(id);
    assert_eq!(
        connection.free_slots(),
        3,
        "the controller may still answer it"
    );
    controller.exchange(&mut connection);
    assert_eq!(connection.free_slots(), 4);
    assert_eq!(connection.next_finished(), None);
}

#[test]
fn a_command_orphaned_after_it_finished_is_not_announced_any_more() {
    let (mut connection, mut controller) = connected(settings(), Options::default());
    let id = connection
        .submit(command(IoOpcode::FLUSH, 1), Data::None)
        .unwrap();
    controller.exchange(&mut connection);
    connection.orphan(id);
    assert_eq!(connection.free_slots(), 4);
    assert_eq!(connection.next_finished(), None);
}

#[test]
fn fused_commands_stay_together_and_need_two_slots() {
    let (mut connection, mut controller) = connected(settings(), Options::default());
    for _ in 0..3 {
        connection
            .submit(command(IoOpcode::FLUSH, 1), Data::None)
            .unwrap();
    }
    let pair = || {
        let data = || Data::Out(Buffer::zeroed(512));
        (
            (command(IoOpcode::COMPARE, 1), data()),
            (command(IoOpcode::WRITE, 1), data()),
        )
    };
    let (first, second) = pair();
    assert!(
        connection.submit_fused(first, second).is_err(),
        "one slot is not enough"
    );
    controller.exchange(&mut connection);
    while let Some(id) = connection.next_finished() {
        connection.take(id);
    }
    let (first, second) = pair();
    let ids = connection
        .submit_fused(first, second)
        .expect("slots are free");
    controller.exchange(&mut connection);
    let flags: Vec<u8> = controller
        .commands
        .iter()
        .rev()
        .take(2)
        .map(|seen| seen.flags)
        .collect();
    assert_eq!(
        flags[1] & command_flags::FUSED_MASK,
        command_flags::FUSED_FIRST
    );
    assert_eq!(
        flags[0] & command_flags::FUSED_MASK,
        command_flags::FUSED_SECOND
    );
    for id in ids {
        assert!(finish(&mut connection, id).1.is_success());
    }
}

#[test]
fn nothing_but_the_initialization_is_sent_before_the_controller_answers() {
    let mut connection = Connection::new(settings());
    connection
        .submit(command(IoOpcode::FLUSH, 1), Data::None)
        .unwrap();
    let mut wire = Wire::default();
    connection.transmit(&mut wire);
    assert_eq!(wire.bytes.len(), 128);
    assert!(!connection.has_output());
    connection
        .receive(&controller::initialize_response(&Options::default()))
        .unwrap();
    connection.transmit(&mut wire);
    assert_eq!(wire.bytes.len(), 128 + 72);
}
