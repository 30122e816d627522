//! Capsules with keyed data, against a scripted controller that reaches memory by keys.

use std::collections::BTreeMap;

use nvme::command::{command_flags, sgl};
use nvme::rdma::{DATA_BYTES_MAX, KeyedDataBlock};
use nvme::{CompletionEntry, FatalError};
use proptest::prelude::*;
use zerocopy::IntoBytes;

use super::*;
use crate::connection::{Device, KeyedConnection, KeyedSettings, Memory};

const IN_CAPSULE_BYTES: u32 = 4096;

/// A device, and the controller at its other end.
#[derive(Default)]
struct Fake {
    /// Buffers by the command that lends them, with whether they may be written.
    lent: BTreeMap<u16, (Buffer, bool)>,
    /// Capsules in the order in which they came.
    capsules: Vec<(CommandId, SubmissionEntry, Vec<u8>)>,
    refuses_memory: bool,
    refuses_capsules: bool,
}

const REFUSED: LossReason = LossReason::MemoryLock {
    needed_bytes: 8192,
    allowed_bytes: 0,
};

impl Device for Fake {
    fn lend(
        &mut self,
        id: CommandId,
        buffer: Buffer,
        writable: bool,
    ) -> Result<Memory, (Buffer, LossReason)> {
        if self.refuses_memory {
            return Err((buffer, REFUSED));
        }
        let before = self.lent.insert(id.0, (buffer, writable));
        assert!(before.is_none(), "one buffer at a time");
        Ok(memory(id))
    }

    fn send(
        &mut self,
        id: CommandId,
        entry: &SubmissionEntry,
        data: &[u8],
    ) -> Result<(), LossReason> {
        assert_eq!(entry.command_id.get(), id.0);
        self.capsules.push((id, *entry, data.to_vec()));
        match self.refuses_capsules {
            true => Err(LossReason::Closed),
            false => Ok(()),
        }
    }
}

impl Fake {
    /// Gives the buffer back that the controller cannot reach any more.
    fn reclaim(&mut self, connection: &mut KeyedConnection, id: CommandId) {
        if let Some((buffer, _)) = self.lent.remove(&id.0) {
            connection.returned(id, buffer);
        }
    }

    /// Answers a command, and has the device do what goes with that.
    fn answer(&mut self, connection: &mut KeyedConnection, id: CommandId) {
        let found = connection.receive(CompletionEntry::new(id.0, Status::SUCCESS).as_bytes());
        assert_eq!(found, Ok(id));
        self.reclaim(connection, id);
    }
}

fn memory(id: CommandId) -> Memory {
    Memory {
        address: 0x1_0000 * (1 + u64::from(id.0)),
        key: 0x0a0b_0000 + u32::from(id.0),
    }
}

fn keyed(depth: u16) -> KeyedConnection {
    KeyedConnection::new(KeyedSettings {
        depth,
        in_capsule_bytes: IN_CAPSULE_BYTES,
    })
}

fn write_of(bytes: usize) -> Data {
    Data::Out(Buffer::copy_of(&pattern(bytes)))
}

#[test]
fn descriptors_say_where_the_data_is() {
    let mut connection = keyed(8);
    let mut device = Fake::default();
    let cases = [
        (IoOpcode::FLUSH, Data::None, sgl::KEYED_DATA_BLOCK, 0),
        (
            IoOpcode::WRITE,
            write_of(4096),
            sgl::DATA_BLOCK_OFFSET,
            4096,
        ),
        (IoOpcode::WRITE, write_of(4097), sgl::KEYED_DATA_BLOCK, 4097),
        (
            IoOpcode::READ,
            Data::In(Buffer::new(512)),
            sgl::KEYED_DATA_BLOCK,
            512,
        ),
    ];
    for (opcode, data, kind, bytes) in cases {
        let is_read = matches!(data, Data::In(_));
        let id = connection.submit(command(opcode, 1), data).unwrap();
        connection.transmit(&mut device);
        let (_, entry, sent) = device.capsules.pop().unwrap();
        assert_eq!(entry.data.kind, kind);
        assert_ne!(entry.flags & command_flags::SGL, 0);
        match KeyedDataBlock::of(&entry.data) {
            // In the capsule, right behind the command.
            None => {
                assert_eq!((entry.data.address.get(), sent), (0, pattern(4096)));
                assert_eq!(entry.data.length.get(), bytes);
                assert!(device.lent.is_empty());
            }
            Some(block) if bytes == 0 => {
                assert_eq!(block.as_bytes()[..15], [0; 15]);
            }
            // Its key ends here, and not with the answer.
            Some(block) => {
                let found = Memory {
                    address: block.address.get(),
                    key: block.key.get(),
                };
                assert_eq!((found, block.length_bytes()), (memory(id), bytes));
                assert!(!block.invalidates() && sent.is_empty());
                assert_eq!(device.lent[&id.0].1, is_read, "only reads are written");
            }
        }
        connection.sent(id);
        device.answer(&mut connection, id);
        assert!(
            connection
                .take(id)
                .unwrap()
                .1
                .unwrap()
                .status()
                .is_success()
        );
    }
}

#[test]
fn a_command_ends_when_its_response_its_capsule_and_its_buffer_are_there() {
    // Every order of the three.
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2]] {
        let mut connection = keyed(1);
        let mut device = Fake::default();
        let id = connection
            .submit(command(IoOpcode::READ, 1), Data::In(Buffer::new(8192)))
            .unwrap();
        connection.transmit(&mut device);
        for step in order {
            assert_eq!(connection.next_finished(), None);
            assert!(connection.take(id).is_none());
            match step {
                0 => {
                    let entry = CompletionEntry::new(id.0, Status::SUCCESS);
                    assert_eq!(connection.receive(entry.as_bytes()), Ok(id));
                }
                1 => connection.sent(id),
                _ => device.reclaim(&mut connection, id),
            }
        }
        assert_eq!(connection.next_finished(), Some(id));
        let (data, outcome) = connection.take(id).unwrap();
        assert_eq!(data.into_buffer().unwrap().len(), 8192);
        assert!(outcome.is_ok());
        assert_eq!(connection.free_slots(), 1);
    }
}

#[test]
fn a_command_that_nobody_waits_for_keeps_its_buffer_until_it_ends() {
    let mut connection = keyed(1);
    let mut device = Fake::default();
    let read = Data::In(Buffer::new(8192));
    let id = connection.submit(command(IoOpcode::READ, 1), read).unwrap();
    connection.transmit(&mut device);
    connection.orphan(id);
    connection.sent(id);
    assert_eq!((connection.free_slots(), device.lent.len()), (0, 1));
    assert!(!connection.take_released());
    device.answer(&mut connection, id);
    assert_eq!((connection.free_slots(), device.lent.len()), (1, 0));
    assert!(connection.take_released() && !connection.take_released());
    assert_eq!(connection.next_finished(), None);
}

#[test]
fn a_lost_connection_ends_commands_once_nobody_reaches_their_buffers() {
    let mut connection = keyed(4);
    let mut device = Fake::default();
    let read = Data::In(Buffer::new(8192));
    let lends = connection.submit(command(IoOpcode::READ, 1), read).unwrap();
    let carries = connection
        .submit(command(IoOpcode::WRITE, 1), write_of(512))
        .unwrap();
    connection.transmit(&mut device);
    let queued = connection
        .submit(command(IoOpcode::WRITE, 1), write_of(9000))
        .unwrap();
    connection.fail(LossReason::Silent);
    assert_eq!(connection.free_slots(), 0);
    let ended = [connection.next_finished(), connection.next_finished()];
    assert_eq!(ended, [Some(carries), Some(queued)]);
    assert_eq!(connection.next_finished(), None);
    device.reclaim(&mut connection, lends);
    assert_eq!(connection.next_finished(), Some(lends));
    for id in [lends, carries, queued] {
        let (data, outcome) = connection.take(id).unwrap();
        assert_eq!(outcome, Err(LossReason::Silent));
        assert!(!data.into_buffer().unwrap().is_empty());
    }
    // Nothing goes out any more, and nothing is taken.
    connection.transmit(&mut device);
    assert_eq!(device.capsules.len(), 2);
    assert!(
        connection
            .submit(command(IoOpcode::FLUSH, 1), Data::None)
            .is_err()
    );
    let late = CompletionEntry::new(lends.0, Status::SUCCESS);
    assert_eq!(connection.receive(late.as_bytes()), Err(LossReason::Silent));
}

#[test]
fn what_the_device_refuses_ends_the_connection_and_gives_the_data_back() {
    for refuses_memory in [true, false] {
        let mut connection = keyed(2);
        let mut device = Fake {
            refuses_memory,
            refuses_capsules: !refuses_memory,
            ..Fake::default()
        };
        let id = connection
            .submit(command(IoOpcode::WRITE, 1), write_of(8192))
            .unwrap();
        connection.transmit(&mut device);
        let reason = match refuses_memory {
            true => REFUSED,
            false => LossReason::Closed,
        };
        assert_eq!(connection.loss(), Some(reason));
        device.reclaim(&mut connection, id);
        let (data, outcome) = connection.take(id).unwrap();
        assert_eq!(data.into_buffer().unwrap()[..], pattern(8192));
        assert_eq!(outcome, Err(reason));
    }
}

#[test]
fn responses_that_nobody_asked_for_end_the_connection() {
    let good = CompletionEntry::new(0, Status::SUCCESS).as_bytes().to_vec();
    let unknown = CompletionEntry::new(1, Status::SUCCESS).as_bytes().to_vec();
    let beyond = CompletionEntry::new(9, Status::SUCCESS).as_bytes().to_vec();
    for (responses, offset) in [
        (vec![unknown], 12),
        (vec![beyond], 12),
        (vec![good.clone(), good.clone()], 12),
        (vec![good[..15].to_vec()], nvme::field::PDU_BYTES),
    ] {
        let mut connection = keyed(2);
        let mut device = Fake::default();
        let id = connection
            .submit(command(IoOpcode::WRITE, 1), write_of(512))
            .unwrap();
        connection.transmit(&mut device);
        connection.sent(id);
        let outcomes: Vec<_> = responses
            .iter()
            .map(|response| connection.receive(response))
            .collect();
        let broken = LossReason::Protocol(FatalError::invalid_field(offset));
        assert_eq!(outcomes.last(), Some(&Err(broken)));
        assert_eq!(connection.loss(), Some(broken));
        assert!(connection.take(id).is_some());
    }
    // Before the command was sent there is no answer to it either.
    let mut connection = keyed(2);
    connection
        .submit(command(IoOpcode::FLUSH, 1), Data::None)
        .unwrap();
    assert!(connection.receive(&good).is_err());
}

#[test]
fn data_that_no_descriptor_tells_of_is_refused_here() {
    let mut connection = keyed(1);
    let mut device = Fake::default();
    let most = DATA_BYTES_MAX as usize;
    let long = Data::In(Buffer::new(most + 1));
    let id = connection.submit(command(IoOpcode::READ, 1), long).unwrap();
    connection.transmit(&mut device);
    assert!(device.capsules.is_empty());
    let refused = connection.take(id).unwrap().1.unwrap().status();
    assert_eq!(refused, Status::DATA_SGL_LENGTH_INVALID.do_not_retry());
    let longest = Data::In(Buffer::new(most));
    let id = connection
        .submit(command(IoOpcode::READ, 1), longest)
        .unwrap();
    connection.transmit(&mut device);
    let (_, entry, _) = device.capsules.pop().unwrap();
    let block = KeyedDataBlock::of(&entry.data).unwrap();
    assert_eq!(block.length_bytes(), DATA_BYTES_MAX);
    device.reclaim(&mut connection, id);
}

#[test]
fn nothing_comes_between_the_halves_of_a_fused_pair() {
    let mut connection = keyed(3);
    let mut device = Fake::default();
    let compare = (command(IoOpcode::COMPARE, 1), write_of(8192));
    let write = (command(IoOpcode::WRITE, 1), write_of(512));
    let [first, second] = connection.submit_fused(compare, write).unwrap();
    connection
        .submit(command(IoOpcode::FLUSH, 1), Data::None)
        .unwrap();
    connection.transmit(&mut device);
    let sent: Vec<_> = device
        .capsules
        .iter()
        .map(|it| (it.0, it.1.flags))
        .collect();
    assert_eq!((sent[0].0, sent[1].0), (first, second));
    assert_ne!(sent[0].1 & command_flags::FUSED_FIRST, 0);
    assert_ne!(sent[1].1 & command_flags::FUSED_SECOND, 0);
    let full = (command(IoOpcode::COMPARE, 1), write_of(512));
    let other = (command(IoOpcode::WRITE, 1), write_of(512));
    assert!(connection.submit_fused(full, other).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// However the device and the controller take turns: data arrives as it was sent, every
    /// command finishes once, and its buffer comes back.
    #[test]
    fn data_survives_both_ways_by_keys(
        sizes in proptest::collection::vec((any::<bool>(), 1usize..40_000, any::<u8>()), 1..8),
    ) {
        let mut connection = keyed(8);
        let mut device = Fake::default();
        let mut expected = BTreeMap::new();
        for (write, bytes, turn) in sizes {
            let content = pattern(bytes);
            let (opcode, data) = match write {
                true => (IoOpcode::WRITE, Data::Out(Buffer::copy_of(&content))),
                false => (IoOpcode::READ, Data::In(Buffer::zeroed(bytes))),
            };
            let id = connection.submit(command(opcode, 1), data).expect("a free slot");
            expected.insert(id.0, content);
            if turn % 2 == 0 {
                connection.transmit(&mut device);
            }
        }
        connection.transmit(&mut device);
        for (id, entry, sent) in std::mem::take(&mut device.capsules) {
            let content = &expected[&id.0];
            match device.lent.get_mut(&id.0) {
                Some((buffer, true)) => buffer.copy_from_slice(content),
                Some((buffer, false)) => prop_assert_eq!(&buffer[..], &content[..]),
                None => prop_assert_eq!(&sent, content),
            }
            let early = entry.command_id.get() % 2 == 0;
            if early {
                connection.sent(id);
            }
            device.answer(&mut connection, id);
            if !early {
                connection.sent(id);
            }
            prop_assert_eq!(connection.next_finished(), Some(id));
            let (data, outcome) = connection.take(id).expect("finished");
            prop_assert!(outcome.expect("not lost").status().is_success());
            prop_assert_eq!(&data.into_buffer().expect("a buffer")[..], &content[..]);
        }
        prop_assert_eq!((connection.free_slots(), device.lent.len()), (8, 0));
    }

    /// Any responses at any time: no panic, and once the connection is lost nothing stays.
    #[test]
    fn arbitrary_responses_end_in_order(
        responses in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..20), 1..8),
        id in 0..4_u16,
    ) {
        let mut connection = keyed(4);
        let mut device = Fake::default();
        for _ in 0..4 {
            let read = Data::In(Buffer::new(8192));
            connection.submit(command(IoOpcode::READ, 1), read).expect("a free slot");
        }
        connection.transmit(&mut device);
        for response in &responses {
            let mut bytes = response.clone();
            // Some name a command.
            if bytes.len() == 16 {
                bytes[12..14].copy_from_slice(&id.to_le_bytes());
            }
            if let Ok(id) = connection.receive(&bytes) {
                device.reclaim(&mut connection, id);
                connection.sent(id);
            }
        }
        connection.fail(LossReason::Closed);
        for id in (0..4).map(CommandId) {
            device.reclaim(&mut connection, id);
            let (data, _) = connection.take(id).expect("finished");
            prop_assert_eq!(data.into_buffer().map(|buffer| buffer.len()), Some(8192));
        }
    }
}
