//! One command in flight.

use block::Buffer;
use nvme::{CompletionEntry, SglDescriptor, SubmissionEntry};

use super::Data;
use crate::LossReason;

/// A place for a command; its index is the command's CID.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) stage: Stage,
    pub(super) entry: SubmissionEntry,
    pub(super) data: Data,
    /// The buffer is with the socket; `data` holds an empty one meanwhile.
    pub(super) lent: bool,
    /// The data comes from the controller.
    pub(super) reads: bool,
    /// Bytes of data that the command transfers.
    pub(super) data_bytes: u32,
    /// Write data goes with the capsule.
    pub(super) in_capsule: bool,
    /// Bytes received so far, or asked for by the controller so far.
    pub(super) transferred: u32,
    /// The controller said that no more data comes.
    pub(super) last_seen: bool,
    /// Data arrived damaged: the command fails, whatever the controller says.
    pub(super) damaged: bool,
    /// Transfers to the controller that are queued and not sent.
    pub(super) transfers_queued: u16,
    pub(super) outcome: Option<Result<CompletionEntry, LossReason>>,
    pub(super) orphaned: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Stage {
    #[default]
    Free,
    /// Waiting to be sent.
    Queued,
    /// With the controller.
    Sent,
    /// Its outcome is known, its buffer is still lent out.
    Concluded,
    /// Waiting to be taken.
    Finished,
}

impl Default for Slot {
    fn default() -> Slot {
        let nothing = SubmissionEntry::new(0, 0, SglDescriptor::transport(0));
        Slot {
            stage: Stage::Free,
            ..Slot::queued(nothing, Data::None, false)
        }
    }
}

impl Slot {
    pub(super) fn queued(entry: SubmissionEntry, data: Data, in_capsule: bool) -> Slot {
        Slot {
            stage: Stage::Queued,
            entry,
            reads: matches!(data, Data::In(_)),
            data_bytes: data.len() as u32,
            data,
            lent: false,
            in_capsule,
            transferred: 0,
            last_seen: false,
            damaged: false,
            transfers_queued: 0,
            outcome: None,
            orphaned: false,
        }
    }

    pub(super) fn is_in_flight(&self) -> bool {
        matches!(self.stage, Stage::Queued | Stage::Sent)
    }

    /// The data to send, unless the socket has it.
    pub(super) fn outgoing(&self) -> &[u8] {
        match &self.data {
            Data::Out(buffer) if !self.lent => buffer,
            _ => &[],
        }
    }

    /// The memory to receive into, unless the socket has it.
    pub(super) fn incoming(&mut self) -> &mut [u8] {
        match &mut self.data {
            Data::In(buffer) if !self.lent => buffer,
            _ => &mut [],
        }
    }

    /// Takes the buffer out; it must come back through [`Slot::give_back`].
    pub(super) fn lend(&mut self) -> Option<Buffer> {
        if self.lent {
            return None;
        }
        let buffer = match std::mem::take(&mut self.data) {
            Data::None => return None,
            Data::In(buffer) | Data::Out(buffer) => buffer,
        };
        self.lent = true;
        Some(buffer)
    }

    pub(super) fn give_back(&mut self, data: Data) {
        self.data = data;
        self.lent = false;
    }
}
