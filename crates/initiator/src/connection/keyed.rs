//! [`KeyedConnection`]: capsules that go whole, and data that the controller reaches by keys, as
//! over RDMA.

use std::collections::VecDeque;

use block::Buffer;
use nvme::rdma::{DATA_BYTES_MAX, KeyedDataBlock};
use nvme::{CompletionEntry, FatalError, SglDescriptor, Status, SubmissionEntry, field};
use zerocopy::FromBytes;

use super::commands::{Commands, Stage, fuse};
use super::{CommandId, Data, Outcome};
use crate::LossReason;

/// Byte offset of CID in a completion.
const COMMAND_ID: u32 = 12;

/// What a connection is asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyedSettings {
    /// Commands in flight at most.
    pub depth: u16,
    /// Write data up to this many bytes travels in the command capsule.
    pub in_capsule_bytes: u32,
}

/// Memory of the host as the controller reaches it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Where it begins.
    pub address: u64,
    /// Its key.
    pub key: u32,
}

/// Where capsules go, and what lets the controller reach memory.
pub trait Device {
    /// Lets the controller write a buffer where `writable`, or read it, for this command alone.
    /// The buffer comes back through [`KeyedConnection::returned`], when the controller cannot
    /// reach it any more.
    ///
    /// # Errors
    /// Why the controller cannot be let; the connection ends with that.
    fn lend(
        &mut self,
        id: CommandId,
        buffer: Buffer,
        writable: bool,
    ) -> Result<Memory, (Buffer, LossReason)>;

    /// Sends a command and the data that goes with it. [`KeyedConnection::sent`] wants to know
    /// when the device is done with that.
    ///
    /// # Errors
    /// Why nothing can be sent any more.
    fn send(
        &mut self,
        id: CommandId,
        entry: &SubmissionEntry,
        data: &[u8],
    ) -> Result<(), LossReason>;
}

/// The host's side of one queue pair over NVMe/RDMA, connected.
///
/// A command ends when its response is there, the device is done with its capsule, and its buffer
/// is back.
#[derive(Debug)]
pub struct KeyedConnection {
    settings: KeyedSettings,
    loss: Option<LossReason>,
    commands: Commands<()>,
    /// Commands that wait to be sent.
    outgoing: VecDeque<u16>,
}

impl KeyedConnection {
    /// A connection that takes commands.
    pub fn new(settings: KeyedSettings) -> KeyedConnection {
        KeyedConnection {
            settings,
            loss: None,
            commands: Commands::new(settings.depth),
            outgoing: VecDeque::with_capacity(usize::from(settings.depth)),
        }
    }

    /// Why the connection is over, if it is.
    pub fn loss(&self) -> Option<LossReason> {
        self.loss
    }

    /// How many more commands can be submitted now.
    pub fn free_slots(&self) -> usize {
        match self.loss {
            Some(_) => 0,
            None => self.commands.free_slots(),
        }
    }

    /// Queues a command. Its identifier and data pointer are set here; opcode, namespace and
    /// dwords are the caller's.
    ///
    /// # Errors
    /// Hands the data back when no slot is free or the connection is lost.
    pub fn submit(&mut self, entry: SubmissionEntry, data: Data) -> Result<CommandId, Data> {
        match self.loss {
            Some(_) => Err(data),
            None => self.queue(entry, data).map(CommandId),
        }
    }

    /// Queues two commands that the controller executes as one; nothing comes between them.
    ///
    /// # Errors
    /// Hands the data back when fewer than two slots are free or the connection is lost.
    pub fn submit_fused(
        &mut self,
        mut first: (SubmissionEntry, Data),
        mut second: (SubmissionEntry, Data),
    ) -> Result<[CommandId; 2], (Data, Data)> {
        if self.free_slots() < 2 {
            return Err((first.1, second.1));
        }
        fuse(&mut first.0, &mut second.0);
        let mut ids = [CommandId(0); 2];
        for (id, (entry, data)) in ids.iter_mut().zip([first, second]) {
            // There is a slot for each.
            if let Ok(queued) = self.queue(entry, data) {
                *id = CommandId(queued);
            }
        }
        Ok(ids)
    }

    fn queue(&mut self, mut entry: SubmissionEntry, data: Data) -> Result<u16, Data> {
        let bytes = data.len();
        let in_capsule = matches!(data, Data::Out(_))
            && bytes > 0
            && bytes <= self.settings.in_capsule_bytes as usize;
        entry.data = match in_capsule {
            true => SglDescriptor::in_capsule(bytes as u32),
            // What has data elsewhere gets its key when it is sent.
            false => KeyedDataBlock::new(0, 0, 0, false).descriptor(),
        };
        let id = self.commands.place(entry, data)?;
        match bytes > DATA_BYTES_MAX as usize {
            // No descriptor says so much, and no controller need be asked.
            true => {
                let status = Status::DATA_SGL_LENGTH_INVALID.do_not_retry();
                self.commands
                    .conclude(id, Ok(CompletionEntry::new(id, status)));
            }
            false => self.outgoing.push_back(id),
        }
        Ok(id)
    }

    /// Sends what waits to be sent. If that fails, the connection is lost.
    pub fn transmit(&mut self, device: &mut impl Device) {
        while let Some(id) = self.outgoing.pop_front() {
            if let Err(reason) = self.send(id, device) {
                return self.fail(reason);
            }
        }
    }

    fn send(&mut self, id: u16, device: &mut impl Device) -> Result<(), LossReason> {
        let slot = &mut self.commands.slots[usize::from(id)];
        slot.stage = Stage::Sent;
        let is_keyed = KeyedDataBlock::of(&slot.entry.data).is_some();
        if is_keyed
            && slot.data_bytes > 0
            && let Some(buffer) = slot.lend()
        {
            match device.lend(CommandId(id), buffer, slot.reads) {
                Ok(Memory { address, key }) => {
                    let block = KeyedDataBlock::new(address, slot.data_bytes, key, false);
                    slot.entry.data = block.descriptor();
                }
                Err((buffer, reason)) => {
                    slot.give_back(buffer);
                    return Err(reason);
                }
            }
        }
        slot.held = true;
        let data = if is_keyed { &[] } else { slot.outgoing() };
        device.send(CommandId(id), &slot.entry, data)
    }

    /// The device is done with the capsule of a command.
    pub fn sent(&mut self, id: CommandId) {
        if let Some(slot) = self.commands.slots.get_mut(usize::from(id.0)) {
            slot.held = false;
            self.commands.finish_if_whole(id.0);
        }
    }

    /// Takes a response. The buffer of the command that it names, if it has one, is to come back
    /// through [`KeyedConnection::returned`].
    ///
    /// # Errors
    /// The reason for which the connection is over.
    pub fn receive(&mut self, response: &[u8]) -> Result<CommandId, LossReason> {
        if let Some(reason) = self.loss {
            return Err(reason);
        }
        let broken = |offset| LossReason::Protocol(FatalError::invalid_field(offset));
        let found = CompletionEntry::read_from_bytes(response)
            .map_err(|_| broken(field::PDU_BYTES))
            .and_then(|entry| {
                let id = entry.command_id.get();
                let known = self.commands.known(id).is_some();
                known.then_some((id, entry)).ok_or(broken(COMMAND_ID))
            });
        match found {
            Ok((id, entry)) => {
                self.commands.conclude(id, Ok(entry));
                Ok(CommandId(id))
            }
            Err(reason) => {
                self.fail(reason);
                Err(reason)
            }
        }
    }

    /// Takes back a buffer that the controller cannot reach any more.
    pub fn returned(&mut self, id: CommandId, buffer: Buffer) {
        if let Some(slot) = self.commands.slots.get_mut(usize::from(id.0)) {
            slot.give_back(buffer);
            self.commands.finish_if_whole(id.0);
        }
    }

    /// The next command that has come to its end and whose outcome waits to be taken.
    pub fn next_finished(&mut self) -> Option<CommandId> {
        self.commands.next_finished()
    }

    /// Takes the outcome of a finished command and frees its slot; `None` while it is in flight.
    pub fn take(&mut self, id: CommandId) -> Option<(Data, Outcome)> {
        self.commands.take(id)
    }

    /// Nobody waits for this command any more: its slot frees itself when it ends.
    pub fn orphan(&mut self, id: CommandId) {
        self.commands.orphan(id);
    }

    /// True once after slots of orphaned commands have become free: whoever waits for one may try.
    pub fn take_released(&mut self) -> bool {
        self.commands.take_released()
    }

    /// Ends the connection, which the device has ended too or ends at once: everything in flight
    /// finishes with `reason`. Buffers that are lent are waited for.
    pub fn fail(&mut self, reason: LossReason) {
        if self.loss.is_some() {
            return;
        }
        self.loss = Some(reason);
        self.outgoing.clear();
        for id in 0..self.settings.depth {
            // Nobody uses its place of the device again.
            self.commands.slots[usize::from(id)].held = false;
            match self.commands.is_in_flight(id) {
                true => self.commands.conclude(id, Err(reason)),
                false => self.commands.finish_if_whole(id),
            }
        }
    }
}
