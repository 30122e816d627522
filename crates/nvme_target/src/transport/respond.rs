//! Replies out: response capsules, data PDUs, and the few PDUs the connection sends by itself.

use block::Buffer;
use nvme::pdu::{
    CommonHeader, DIGEST_BYTES, DataHeader, InitializeResponse, PduType, ReadyToTransfer,
    ResponseCapsule, TERMINATE_DATA_BYTES_MAX, TerminateRequest, flags,
};
use nvme::{CompletionEntry, FatalError, RunningDigest, Status};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{Immutable, IntoBytes};

use super::connection::{Connection, Phase, Reply, Tag};
use super::outbox::ZEROES;

const DATA_HEADER_BYTES: usize = size_of::<DataHeader>();

/// Padding in front of data is at most one alignment unit: (31 + 1) dwords.
static PADDING: [u8; 128] = [0; 128];

impl Connection {
    /// Answers a command. Does nothing when the connection has ended.
    pub fn respond(&mut self, tag: Tag, reply: Reply) {
        if self.phase != Phase::Live {
            return;
        }
        let remote = self.remote_of(tag);
        let Some(command_id) = self.close_slot(tag.0) else {
            return;
        };
        if self.keyed.is_some() {
            let entry = self.completion(command_id, reply.status, reply.result);
            return self.answer(entry, reply, remote);
        }
        if let (Some(data), true) = (reply.data, reply.status.is_success())
            && data.len() + reply.zeroes > 0
        {
            let silent = reply.result == 0 && self.may_stay_silent();
            self.push_data(command_id, data, reply.zeroes, silent);
            if silent {
                return;
            }
        }
        self.heads_untold = 0;
        let entry = self.completion(command_id, reply.status, reply.result);
        let mut common = CommonHeader::new(PduType::RESPONSE_CAPSULE, 24);
        self.add_header_digest(&mut common);
        self.push_header(&ResponseCapsule { common, entry });
    }

    fn completion(&self, command_id: u16, status: Status, result: u64) -> CompletionEntry {
        let mut entry = CompletionEntry::new(command_id, status);
        entry.result = U64::new(result);
        // FFFFh tells the host that its submission queue has no flow control (NVMe 2.0 §6.3).
        let head = if self.flow_control {
            self.submission_head
        } else {
            u16::MAX
        };
        entry.submission_head = U16::new(head);
        entry
    }

    /// Whether a read may end with the SUCCESS flag instead of a response capsule. A host under
    /// flow control learns the queue's head from capsules alone, so it gets one often enough never
    /// to run out of entries.
    fn may_stay_silent(&mut self) -> bool {
        if self.flow_control {
            if self.heads_untold + 1 >= self.queue_entries / 2 {
                return false;
            }
            self.heads_untold += 1;
        }
        true
    }

    fn push_data(&mut self, command_id: u16, data: Buffer, zeroes: usize, silent: bool) {
        let length = data.len() + zeroes;
        let mut common = CommonHeader::new(PduType::CONTROLLER_DATA, DATA_HEADER_BYTES as u8);
        common.flags |= flags::LAST_PDU | if silent { flags::SUCCESS } else { 0 };
        let digest = self.rules.data_digest.then(|| match zeroes {
            0 => nvme::digest(&data),
            _ => digest_of(&data, zeroes),
        });
        if digest.is_some() {
            common.flags |= flags::DATA_DIGEST;
        }
        let front = self.add_header_digest(&mut common);
        let offset = front.next_multiple_of(self.host_alignment);
        common.data_offset = offset as u8;
        let digest_bytes = if digest.is_some() { DIGEST_BYTES } else { 0 };
        common.pdu_bytes = U32::new((offset + length + digest_bytes) as u32);
        self.push_header(&DataHeader {
            common,
            command_id: U16::new(command_id),
            transfer_tag: U16::ZERO,
            offset: U32::ZERO,
            length: U32::new(length as u32),
            reserved: [0; 4],
        });
        self.outbox
            .push_bytes(PADDING.get(..offset - front).unwrap_or_default());
        let filled = data.len();
        if filled > 0 {
            self.outbox.push_buffer(data, 0..filled);
        }
        self.outbox.push_zeroes(zeroes);
        if let Some(digest) = digest {
            self.outbox.push_bytes(&digest);
        }
    }

    /// Flags the header digest, if there is one, and counts it; returns the bytes up to its end.
    fn add_header_digest(&self, common: &mut CommonHeader) -> usize {
        let mut front = usize::from(common.header_bytes);
        if self.rules.header_digest {
            common.flags |= flags::HEADER_DIGEST;
            front += DIGEST_BYTES;
            common.pdu_bytes = U32::new(front as u32);
        }
        front
    }

    fn push_header(&mut self, header: &(impl IntoBytes + Immutable)) {
        let bytes = header.as_bytes();
        self.outbox.push_bytes(bytes);
        if self.rules.header_digest {
            self.outbox.push_bytes(&nvme::digest(bytes));
        }
    }

    pub(super) fn push_ready_to_transfer(&mut self, mut request: ReadyToTransfer) {
        self.add_header_digest(&mut request.common);
        self.push_header(&request);
    }

    pub(super) fn push_initialize_response(&mut self, response: InitializeResponse) {
        self.outbox.push_bytes(response.as_bytes());
    }

    pub(super) fn push_terminate(&mut self, error: FatalError, header: &[u8]) {
        let quoted = header
            .get(..header.len().min(TERMINATE_DATA_BYTES_MAX))
            .unwrap_or_default();
        let request = TerminateRequest::new(PduType::CONTROLLER_TERMINATE, error, quoted.len());
        self.outbox.push_bytes(request.as_bytes());
        self.outbox.push_bytes(quoted);
    }
}

fn digest_of(data: &[u8], mut zeroes: usize) -> [u8; DIGEST_BYTES] {
    let mut digest = RunningDigest::new();
    digest.update(data);
    while zeroes > 0 {
        let piece = ZEROES.get(..zeroes).unwrap_or(&ZEROES);
        digest.update(piece);
        zeroes -= piece.len();
    }
    digest.wire()
}
