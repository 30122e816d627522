//! From commands to bytes.

use std::ops::Range;

use block::Buffer;
use nvme::pdu::{
    CommandCapsule, CommonHeader, DIGEST_BYTES, DataHeader, InitializeRequest, PduType,
    TerminateRequest, digests, flags,
};
use nvme::{FatalError, digest};
use zerocopy::IntoBytes;
use zerocopy::little_endian::{U16, U32};

use super::{Connection, Phase, commands::Stage};

/// Where bytes to send go: a batch that the socket takes as a whole.
pub trait Outlet {
    /// Appends bytes by copying them.
    fn push_bytes(&mut self, bytes: &[u8]);
    /// Appends part of a buffer without copying it; the buffer comes back through
    /// [`Connection::transmitted`].
    fn push_buffer(&mut self, buffer: Buffer, range: Range<usize>);
    /// True when the batch should be sent before anything more is appended.
    fn is_full(&self) -> bool;
}

/// Data up to this size is copied next to its header: cheaper than carrying a buffer around.
const COPIED_BYTES_MAX: usize = 1024;

/// Longest header: 128 bytes, and what pads it to the data.
const FRONT_BYTES_MAX: usize = 256;

/// Something that waits to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outgoing {
    Initialize,
    /// The command in this slot.
    Capsule(u16),
    /// What is left of the answer to one R2T.
    Transfer {
        id: u16,
        transfer_tag: u16,
        offset: u32,
        length: u32,
    },
    /// The last thing that a broken connection says.
    Terminate {
        error: FatalError,
        quoted: [u8; 24],
        quoted_bytes: u8,
    },
}

impl Outgoing {
    pub(super) fn is_transfer_of(&self, slot: u16) -> bool {
        matches!(self, Outgoing::Transfer { id, .. } if *id == slot)
    }
}

impl Connection {
    /// True when [`Connection::transmit`] has something to give, or will once buffers are back.
    pub fn has_output(&self) -> bool {
        match self.phase {
            Phase::Initializing => self.outgoing.front() == Some(&Outgoing::Initialize),
            _ => !self.outgoing.is_empty(),
        }
    }

    /// Appends what is to be sent to `outlet`, until there is no more or the outlet is full. Its
    /// buffers must come back through [`Connection::transmitted`] before the next call.
    pub fn transmit(&mut self, outlet: &mut impl Outlet) {
        while !outlet.is_full() && self.has_output() {
            let Some(next) = self.outgoing.pop_front() else {
                return;
            };
            match next {
                Outgoing::Initialize => self.send_initialize(outlet),
                Outgoing::Capsule(id) => self.send_capsule(id, outlet),
                Outgoing::Transfer {
                    id,
                    transfer_tag,
                    offset,
                    length,
                } => {
                    if self.commands.slots[usize::from(id)].lent {
                        // One buffer can be in the batch once: the rest goes with the next one.
                        self.outgoing.push_front(next);
                        return;
                    }
                    let sent = self.send_data(id, transfer_tag, offset, length, outlet);
                    self.requeue(id, transfer_tag, offset + sent, length - sent);
                }
                Outgoing::Terminate {
                    error,
                    quoted,
                    quoted_bytes,
                } => {
                    let quoted = &quoted[..usize::from(quoted_bytes)];
                    let request =
                        TerminateRequest::new(PduType::HOST_TERMINATE, error, quoted.len());
                    outlet.push_bytes(request.as_bytes());
                    outlet.push_bytes(quoted);
                }
            }
        }
    }

    /// Takes back the buffers of a batch that has been sent (or has failed), in the order in which
    /// they were pushed.
    pub fn transmitted(&mut self, buffers: impl IntoIterator<Item = Buffer>) {
        for buffer in buffers {
            let Some(id) = self.sending.pop_front() else {
                return;
            };
            self.commands.slots[usize::from(id)].give_back(buffer);
            self.commands.finish_if_whole(id);
        }
    }

    fn requeue(&mut self, id: u16, transfer_tag: u16, offset: u32, length: u32) {
        if length > 0 {
            let rest = Outgoing::Transfer {
                id,
                transfer_tag,
                offset,
                length,
            };
            self.outgoing.push_front(rest);
        } else {
            self.commands.slots[usize::from(id)].part.queued -= 1;
        }
    }

    fn send_initialize(&mut self, outlet: &mut impl Outlet) {
        let mut wanted = 0;
        if self.settings.header_digest {
            wanted |= digests::HEADER;
        }
        if self.settings.data_digest {
            wanted |= digests::DATA;
        }
        let transfers = u32::from(self.settings.ready_to_transfer_max.max(1) - 1);
        outlet.push_bytes(InitializeRequest::new(0, wanted, transfers).as_bytes());
    }

    fn send_capsule(&mut self, id: u16, outlet: &mut impl Outlet) {
        let slot = &mut self.commands.slots[usize::from(id)];
        slot.stage = Stage::Sent;
        let data_bytes = if slot.part.in_capsule {
            slot.data_bytes
        } else {
            0
        };
        let mut capsule = CommandCapsule {
            common: CommonHeader::new(PduType::COMMAND_CAPSULE, size_of::<CommandCapsule>() as u8),
            entry: slot.entry,
        };
        let front = self.complete_header(&mut capsule.common, data_bytes);
        self.push_front(capsule.as_bytes(), front, outlet);
        self.push_data(id, 0..data_bytes as usize, outlet);
    }

    /// Sends the next data PDU of a transfer; returns how much of it went.
    fn send_data(
        &mut self,
        id: u16,
        transfer_tag: u16,
        offset: u32,
        length: u32,
        outlet: &mut impl Outlet,
    ) -> u32 {
        let bytes = length.min(self.host_data_bytes_max);
        let mut header = DataHeader {
            common: CommonHeader::new(PduType::HOST_DATA, size_of::<DataHeader>() as u8),
            command_id: U16::new(id),
            transfer_tag: U16::new(transfer_tag),
            offset: U32::new(offset),
            length: U32::new(bytes),
            reserved: [0; 4],
        };
        if bytes == length {
            header.common.flags |= flags::LAST_PDU;
        }
        let front = self.complete_header(&mut header.common, bytes);
        self.push_front(header.as_bytes(), front, outlet);
        self.push_data(id, offset as usize..(offset + bytes) as usize, outlet);
        bytes
    }

    /// Fills in digest flags, PDO and PLEN for a PDU that carries `data_bytes`; returns the bytes
    /// up to the data: header, header digest and padding.
    fn complete_header(&self, header: &mut CommonHeader, data_bytes: u32) -> usize {
        let mut front = u32::from(header.header_bytes);
        if self.rules.header_digest {
            header.flags |= flags::HEADER_DIGEST;
            front += DIGEST_BYTES as u32;
        }
        let mut total = front;
        if data_bytes > 0 {
            front = front.next_multiple_of(self.data_alignment_bytes);
            header.data_offset = front as u8;
            total = front + data_bytes;
            if self.rules.data_digest {
                header.flags |= flags::DATA_DIGEST;
                total += DIGEST_BYTES as u32;
            }
        }
        header.pdu_bytes = U32::new(total);
        front as usize
    }

    fn push_front(&self, header: &[u8], front: usize, outlet: &mut impl Outlet) {
        outlet.push_bytes(header);
        let mut written = header.len();
        if self.rules.header_digest {
            outlet.push_bytes(&digest(header));
            written += DIGEST_BYTES;
        }
        if front > written {
            outlet.push_bytes(&[0; FRONT_BYTES_MAX][..front - written]);
        }
    }

    fn push_data(&mut self, id: u16, range: Range<usize>, outlet: &mut impl Outlet) {
        if range.is_empty() {
            return;
        }
        let slot = &mut self.commands.slots[usize::from(id)];
        let bytes = slot.outgoing().get(range.clone()).unwrap_or_default();
        let trailer = self.rules.data_digest.then(|| digest(bytes));
        if bytes.len() <= COPIED_BYTES_MAX {
            outlet.push_bytes(bytes);
        } else if let Some(buffer) = slot.lend() {
            outlet.push_buffer(buffer, range);
            self.sending.push_back(id);
        }
        if let Some(trailer) = trailer {
            outlet.push_bytes(&trailer);
        }
    }
}
