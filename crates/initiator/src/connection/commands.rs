//! [`Commands`]: commands in flight, whatever carries them.

use std::collections::VecDeque;

use block::Buffer;
use nvme::command::command_flags;
use nvme::{SglDescriptor, SubmissionEntry};

use super::{CommandId, Data, Outcome};

/// The places for commands of one queue. `P` is what a transport knows of each.
#[derive(Debug)]
pub(super) struct Commands<P> {
    pub(super) slots: Vec<Slot<P>>,
    free: Vec<u16>,
    finished: VecDeque<u16>,
    /// Slots of orphaned commands have become free.
    released: bool,
}

/// A place for a command; its index is the command's CID.
#[derive(Debug)]
pub(super) struct Slot<P> {
    pub(super) stage: Stage,
    pub(super) entry: SubmissionEntry,
    pub(super) data: Data,
    /// The buffer is with the socket or the device; `data` holds an empty one meanwhile.
    pub(super) lent: bool,
    /// The device still has the command itself.
    pub(super) held: bool,
    /// The data comes from the controller.
    pub(super) reads: bool,
    /// Bytes of data that the command transfers.
    pub(super) data_bytes: u32,
    pub(super) outcome: Option<Outcome>,
    orphaned: bool,
    pub(super) part: P,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Stage {
    #[default]
    Free,
    /// Waiting to be sent.
    Queued,
    /// With the controller.
    Sent,
    /// Its outcome is known; what was lent or held is not back yet.
    Concluded,
    /// Waiting to be taken.
    Finished,
}

impl<P: Default> Commands<P> {
    pub(super) fn new(depth: u16) -> Commands<P> {
        let mut slots = Vec::new();
        slots.resize_with(usize::from(depth), Slot::default);
        Commands {
            slots,
            free: (0..depth).rev().collect(),
            finished: VecDeque::with_capacity(usize::from(depth)),
            released: false,
        }
    }

    pub(super) fn free_slots(&self) -> usize {
        self.free.len()
    }

    /// Puts a command in a free place, where it waits to be sent.
    pub(super) fn place(&mut self, entry: SubmissionEntry, data: Data) -> Result<u16, Data> {
        let Some(id) = self.free.pop() else {
            return Err(data);
        };
        let slot = &mut self.slots[usize::from(id)];
        *slot = Slot::queued(entry, data);
        slot.entry.command_id = id.into();
        Ok(id)
    }

    /// Notes how a command ended; it finishes now, or when everything of it is back.
    pub(super) fn conclude(&mut self, id: u16, outcome: Outcome) {
        let slot = &mut self.slots[usize::from(id)];
        slot.outcome = Some(outcome);
        slot.stage = Stage::Concluded;
        self.finish_if_whole(id);
    }

    pub(super) fn finish_if_whole(&mut self, id: u16) {
        let slot = &mut self.slots[usize::from(id)];
        if slot.stage != Stage::Concluded || slot.lent || slot.held {
            return;
        }
        slot.stage = Stage::Finished;
        if slot.orphaned {
            drop(self.take(CommandId(id)));
            self.released = true;
        } else {
            self.finished.push_back(id);
        }
    }

    pub(super) fn next_finished(&mut self) -> Option<CommandId> {
        self.finished.pop_front().map(CommandId)
    }

    pub(super) fn take(&mut self, id: CommandId) -> Option<(Data, Outcome)> {
        let slot = self.slots.get_mut(usize::from(id.0))?;
        if slot.stage != Stage::Finished {
            return None;
        }
        let outcome = slot.outcome.take()?;
        let data = std::mem::take(&mut slot.data);
        slot.stage = Stage::Free;
        self.free.push(id.0);
        Some((data, outcome))
    }

    pub(super) fn orphan(&mut self, id: CommandId) {
        if let Some(slot) = self.slots.get_mut(usize::from(id.0)) {
            slot.orphaned = true;
            if slot.stage == Stage::Finished {
                self.finished.retain(|finished| *finished != id.0);
                drop(self.take(id));
            }
        }
    }

    pub(super) fn take_released(&mut self) -> bool {
        std::mem::take(&mut self.released)
    }

    /// The slot of a command that the controller names, if the controller has been sent it.
    pub(super) fn known(&mut self, id: u16) -> Option<&mut Slot<P>> {
        self.slots
            .get_mut(usize::from(id))
            .filter(|slot| slot.stage == Stage::Sent)
    }

    /// The command in this place, if nobody knows yet how it ends.
    pub(super) fn is_in_flight(&self, id: u16) -> bool {
        let slot = self.slots.get(usize::from(id));
        slot.is_some_and(|slot| matches!(slot.stage, Stage::Queued | Stage::Sent))
    }
}

impl<P: Default> Default for Slot<P> {
    fn default() -> Slot<P> {
        let nothing = SubmissionEntry::new(0, 0, SglDescriptor::transport(0));
        Slot {
            stage: Stage::Free,
            ..Slot::queued(nothing, Data::None)
        }
    }
}

impl<P: Default> Slot<P> {
    fn queued(entry: SubmissionEntry, data: Data) -> Slot<P> {
        Slot {
            stage: Stage::Queued,
            entry,
            reads: matches!(data, Data::In(_)),
            data_bytes: data.len() as u32,
            data,
            lent: false,
            held: false,
            outcome: None,
            orphaned: false,
            part: P::default(),
        }
    }

    /// The data to send, unless it is lent.
    pub(super) fn outgoing(&self) -> &[u8] {
        match &self.data {
            Data::Out(buffer) if !self.lent => buffer,
            _ => &[],
        }
    }

    /// The memory to receive into, unless it is lent.
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
        let buffer = std::mem::take(&mut self.data).into_buffer()?;
        self.lent = true;
        Some(buffer)
    }

    pub(super) fn give_back(&mut self, buffer: Buffer) {
        self.data = match self.reads {
            true => Data::In(buffer),
            false => Data::Out(buffer),
        };
        self.lent = false;
    }
}

/// Marks two commands as halves of one.
pub(super) fn fuse(first: &mut SubmissionEntry, second: &mut SubmissionEntry) {
    first.flags |= command_flags::FUSED_FIRST;
    second.flags |= command_flags::FUSED_SECOND;
}
