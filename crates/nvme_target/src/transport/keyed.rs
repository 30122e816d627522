//! Capsules that come whole, and data that is reached by the host's keys, as over RDMA: what to
//! fetch and what to answer in place of bytes to send.

use std::collections::VecDeque;

use block::Buffer;
use nvme::command::sgl;
use nvme::rdma::KeyedDataBlock;
use nvme::{CompletionEntry, FatalError, SglDescriptor, SubmissionEntry, field};
use zerocopy::FromBytes;

use super::connection::{Connection, ConnectionSettings, End, Phase, Reply, SlotState, Tag, Trust};

/// Data of a command that is to be read from the host's memory.
#[derive(Debug)]
pub struct Fetch {
    /// The command.
    pub tag: Tag,
    /// Where its data is; all of it is wanted.
    pub from: KeyedDataBlock,
}

/// The answer to a command.
#[derive(Debug)]
pub struct Answer {
    /// The completion.
    pub entry: CompletionEntry,
    /// Data to be written to the host's memory first: this much of the buffer.
    pub data: Option<(Buffer, usize, KeyedDataBlock)>,
    /// The key that ends with the answer.
    pub invalidate: Option<u32>,
}

impl Answer {
    fn len_bytes(&self) -> usize {
        let data = self.data.as_ref().map_or(0, |(data, _, _)| data.len());
        size_of::<CompletionEntry>() + data
    }
}

/// What there is to do.
#[derive(Debug, Default)]
pub(super) struct Keyed {
    fetches: VecDeque<Fetch>,
    answers: VecDeque<Answer>,
    unsent_bytes: usize,
}

impl Keyed {
    pub fn unsent_bytes(&self) -> usize {
        self.unsent_bytes
    }
}

impl Connection {
    /// A connection that takes whole capsules from the start, with [`Connection::receive_capsule`].
    pub fn keyed(settings: ConnectionSettings) -> Connection {
        let mut connection = Connection::new(settings);
        connection.phase = Phase::Live;
        connection.keyed = Some(Box::default());
        connection
    }

    /// Takes a command capsule. Look for work, for data to fetch, for answers and for the end
    /// afterwards.
    pub fn receive_capsule(&mut self, capsule: &[u8]) {
        if self.end().is_some() {
            return;
        }
        let Ok((entry, data)) = SubmissionEntry::read_from_prefix(capsule) else {
            self.phase = Phase::Ended(End::Fatal(FatalError::invalid_field(field::PDU_BYTES)));
            return;
        };
        let mut entry = entry;
        let remote = KeyedDataBlock::of(&entry.data).copied();
        // What follows knows data in the capsule and data elsewhere, whatever the transport.
        match remote {
            Some(block) => entry.data = SglDescriptor::transport(block.length_bytes()),
            None if entry.data.kind == sgl::TRANSPORT_DATA_BLOCK => {
                entry.data.kind = sgl::DATA_BLOCK_ADDRESS;
            }
            None => {}
        }
        let capsule_bytes = u32::try_from(data.len()).unwrap_or(u32::MAX);
        let Some(index) = self.take_command(&entry, capsule_bytes, remote) else {
            return;
        };
        if let Some(slot) = self.slots.get_mut(usize::from(index)) {
            slot.transfer.length = capsule_bytes;
            slot.transfer.data = Some(Buffer::copy_of(data));
        }
        self.data_complete(index);
    }

    /// Whether data of this length is fetched for somebody who has proved nothing: as much as
    /// would come in a capsule, for a Connect comes so.
    pub(super) fn fetches_for_strangers(&self, length: u32) -> bool {
        self.keyed.is_some()
            && self.trust != Trust::Host
            && length <= self.settings.in_capsule_bytes_max
    }

    pub(super) fn remote_of(&self, tag: Tag) -> Option<KeyedDataBlock> {
        let slot = self.slots.get(usize::from(tag.0))?;
        slot.transfer.remote
    }

    pub(super) fn fetch(&mut self, index: u16, from: KeyedDataBlock) {
        if let Some(keyed) = &mut self.keyed {
            let tag = Tag(index);
            keyed.fetches.push_back(Fetch { tag, from });
        }
    }

    /// The next data to fetch. [`Connection::fetched`] wants it.
    pub fn take_fetch(&mut self) -> Option<Fetch> {
        self.keyed.as_mut()?.fetches.pop_front()
    }

    /// All data of a command came.
    pub fn fetched(&mut self, tag: Tag, data: Buffer) {
        let Some(slot) = self.slots.get_mut(usize::from(tag.0)) else {
            return;
        };
        if slot.state == SlotState::Transferring && self.phase == Phase::Live {
            slot.transfer.data = Some(data);
            self.data_complete(tag.0);
        }
    }

    /// Only as much as the host has memory for is written there.
    pub(super) fn answer(
        &mut self,
        entry: CompletionEntry,
        reply: Reply,
        remote: Option<KeyedDataBlock>,
    ) {
        let data = match (reply.data, remote, reply.status.is_success()) {
            (Some(data), Some(remote), true) => {
                let data = with_zeroes(data, reply.zeroes);
                let length = data.len().min(remote.length_bytes() as usize);
                (length > 0).then_some((data, length, remote))
            }
            _ => None,
        };
        let invalidates = remote.filter(KeyedDataBlock::invalidates);
        let answer = Answer {
            entry,
            data,
            invalidate: invalidates.map(|remote| remote.key.get()),
        };
        if let Some(keyed) = &mut self.keyed {
            keyed.unsent_bytes += answer.len_bytes();
            keyed.answers.push_back(answer);
        }
    }

    /// The next answer to give.
    pub fn take_answer(&mut self) -> Option<Answer> {
        let keyed = self.keyed.as_mut()?;
        let answer = keyed.answers.pop_front()?;
        keyed.unsent_bytes -= answer.len_bytes();
        Some(answer)
    }
}

/// The data with so many zeroes behind it.
fn with_zeroes(data: Buffer, zeroes: usize) -> Buffer {
    if zeroes == 0 {
        return data;
    }
    let mut whole = Buffer::zeroed(data.len() + zeroes);
    for (into, from) in whole.iter_mut().zip(data.iter()) {
        *into = *from;
    }
    whole
}

impl Tag {
    /// As a number that drivers carry along.
    pub fn number(self) -> u64 {
        u64::from(self.0)
    }

    /// The tag with that number.
    pub fn numbered(number: u64) -> Option<Tag> {
        u16::try_from(number).ok().map(Tag)
    }
}

#[cfg(test)]
mod tests {
    use nvme::command::{ReadWrite, command_flags};
    use nvme::{IoOpcode, Status};
    use proptest::prelude::*;
    use zerocopy::IntoBytes;
    use zerocopy::little_endian::U16;

    use super::*;
    use crate::transport::{Command, Work};

    const KEY: u32 = 0x0102_0304;

    fn connection() -> Connection {
        let mut connection = Connection::keyed(ConnectionSettings::default());
        connection.set_queue(8, true);
        connection
    }

    fn capsule(opcode: IoOpcode, id: u16, data: SglDescriptor) -> Vec<u8> {
        let mut entry = *ReadWrite::new(opcode, 1, 0, 8, data).entry();
        entry.command_id = U16::new(id);
        entry.as_bytes().to_vec()
    }

    fn keyed(length: u32, invalidate: bool) -> SglDescriptor {
        KeyedDataBlock::new(0x1000, length, KEY, invalidate).descriptor()
    }

    fn one(connection: &mut Connection) -> Command {
        match connection.take_work() {
            Some(Work::One(command)) => command,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn data_of_a_write_is_fetched_before_it_is_executed_and_its_key_ends_with_the_answer() {
        let mut connection = connection();
        connection.receive_capsule(&capsule(IoOpcode::WRITE, 7, keyed(16_384, true)));
        assert!(!connection.has_work());
        let fetch = connection.take_fetch().unwrap();
        assert_eq!(
            (fetch.from.length_bytes(), fetch.from.key.get()),
            (16_384, KEY)
        );
        connection.fetched(fetch.tag, Buffer::copy_of(&[5; 16_384]));
        let command = one(&mut connection);
        assert_eq!(command.data.as_deref(), Some(&[5; 16_384][..]));
        assert_eq!(command.entry.data.length.get(), 16_384);
        connection.respond(command.tag, Reply::success());
        let answer = connection.take_answer().unwrap();
        assert_eq!(answer.entry.command_id.get(), 7);
        assert_eq!(answer.invalidate, Some(KEY));
        assert!(answer.data.is_none());
        assert_eq!(
            (connection.unsent_bytes(), connection.write_bytes()),
            (0, 0)
        );
    }

    #[test]
    fn no_more_than_the_host_has_memory_for_is_written_there() {
        let mut connection = connection();
        connection.receive_capsule(&capsule(IoOpcode::READ, 1, keyed(4096, false)));
        let command = one(&mut connection);
        let mut reply = Reply::data(Buffer::copy_of(&[9; 4000]));
        reply.zeroes = 500;
        connection.respond(command.tag, reply);
        let answer = connection.take_answer().unwrap();
        let (data, length, to) = answer.data.unwrap();
        assert_eq!((length, to.address.get()), (4096, 0x1000));
        assert_eq!((data[3999], data[4000]), (9, 0));
        assert_eq!(answer.invalidate, None);
    }

    #[test]
    fn data_in_the_capsule_is_executed_at_once() {
        let mut connection = connection();
        let mut bytes = capsule(IoOpcode::WRITE, 2, SglDescriptor::in_capsule(4096));
        bytes.extend([3; 4096]);
        connection.receive_capsule(&bytes);
        let command = one(&mut connection);
        assert_eq!(command.data.as_deref(), Some(&[3; 4096][..]));
    }

    #[test]
    fn descriptors_of_tcp_and_a_failed_read_move_no_data() {
        let mut connection = connection();
        connection.receive_capsule(&capsule(IoOpcode::READ, 3, SglDescriptor::transport(512)));
        let answer = connection.take_answer().unwrap();
        let refused = Status::SGL_TYPE_INVALID.do_not_retry();
        assert_eq!(answer.entry.status(), refused);
        connection.receive_capsule(&capsule(IoOpcode::READ, 4, keyed(512, true)));
        let command = one(&mut connection);
        connection.respond(command.tag, Reply::status(Status::LBA_OUT_OF_RANGE));
        let answer = connection.take_answer().unwrap();
        assert!(answer.data.is_none());
        assert_eq!(answer.invalidate, Some(KEY));
    }

    #[test]
    fn strangers_have_little_fetched_and_short_capsules_end_the_connection() {
        let mut connection = connection();
        connection.set_trust(Trust::Unproven);
        connection.receive_capsule(&capsule(IoOpcode::WRITE, 1, keyed(1024, true)));
        assert!(connection.take_fetch().is_some());
        connection.receive_capsule(&capsule(IoOpcode::WRITE, 2, keyed(64 << 10, true)));
        assert!(connection.take_fetch().is_none());
        assert!(one(&mut connection).data.is_none());
        connection.receive_capsule(&[0; 63]);
        assert!(matches!(connection.end(), Some(End::Fatal(_))));
    }

    proptest! {
        /// Whatever comes, every command that was taken is answered, once.
        #[test]
        fn every_command_has_one_answer(
            capsules in proptest::collection::vec(
                (any::<[u8; 4]>(), any::<[u8; 16]>(), 0..600_usize),
                1..40,
            ),
        ) {
            let mut connection = connection();
            connection.set_queue(64, false);
            let count = capsules.len();
            for (index, (front, data, length)) in capsules.into_iter().enumerate() {
                let mut bytes = front.to_vec();
                bytes.resize(64 + length, 1);
                bytes[1] |= command_flags::SGL;
                bytes[2..4].copy_from_slice(&(index as u16).to_le_bytes());
                bytes[24..40].copy_from_slice(&data);
                // Most descriptors are of a known kind, of a length that is allowed.
                bytes[39] = [sgl::KEYED_DATA_BLOCK, sgl::DATA_BLOCK_OFFSET, data[15]][index % 3];
                bytes[34] &= 0x0f;
                connection.receive_capsule(&bytes);
            }
            // Ends the first half of a fused pair that has no second.
            connection.receive_capsule(&capsule(IoOpcode::FLUSH, 99, keyed(0, false)));
            let mut answered = Vec::new();
            for _ in 0..count + 1 {
                while let Some(fetch) = connection.take_fetch() {
                    let length = fetch.from.length_bytes() as usize;
                    connection.fetched(fetch.tag, Buffer::new(length));
                }
                while let Some(ready) = connection.take_ready() {
                    let (crate::transport::Ready::One(tag)
                    | crate::transport::Ready::Fused(tag, _)) = ready;
                    connection.respond(tag, Reply::success());
                    if let crate::transport::Ready::Fused(_, second) = ready {
                        connection.respond(second, Reply::success());
                    }
                }
                while let Some(answer) = connection.take_answer() {
                    answered.push(answer.entry.command_id.get());
                }
            }
            answered.sort_unstable();
            let mut wanted: Vec<u16> = (0..count as u16).chain([99]).collect();
            wanted.sort_unstable();
            prop_assert_eq!(answered, wanted);
            prop_assert_eq!((connection.outstanding(), connection.unsent_bytes()), (0, 0));
        }
    }
}
