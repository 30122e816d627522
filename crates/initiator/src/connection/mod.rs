//! The host's side of one queue pair, as a state machine: [`Connection`] over NVMe/TCP, and
//! [`KeyedConnection`] over NVMe/RDMA. Commands in flight are the same for both.
//!
//! Nothing here waits or touches a socket. Commands go in through [`Connection::submit`]; bytes to
//! send come out through [`Connection::transmit`]; bytes received go in through
//! [`Connection::receive`] (or, for large payloads, straight into the buffer that
//! [`Connection::lend`] hands out); finished commands come out through
//! [`Connection::next_finished`] and [`Connection::take`].

mod commands;
mod keyed;
mod receive;
#[cfg(test)]
mod tests;
mod transmit;

use std::collections::VecDeque;

use block::Buffer;
use nvme::{AdminOpcode, CompletionEntry, HeaderRules, SglDescriptor, SubmissionEntry};

use crate::LossReason;
use commands::{Commands, fuse};
pub use keyed::{Device, KeyedConnection, KeyedSettings, Memory};
use receive::{Decoder, LENT_BYTES_MIN};
use transmit::Outgoing;
pub use transmit::Outlet;

/// Data that a capsule may carry on the admin queue, and in any Fabrics command.
pub const ADMIN_CAPSULE_BYTES: u32 = 8192;

/// A command in flight: its CID, which is also its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CommandId(pub u16);

/// How a command ended.
pub type Outcome = Result<CompletionEntry, LossReason>;

/// The data of a command. The buffer comes back with the completion.
#[derive(Debug, Default)]
pub enum Data {
    /// No data.
    #[default]
    None,
    /// To be filled by the controller; its length is the transfer length.
    In(Buffer),
    /// To be sent to the controller.
    Out(Buffer),
}

impl Data {
    fn len(&self) -> usize {
        match self {
            Data::None => 0,
            Data::In(buffer) | Data::Out(buffer) => buffer.len(),
        }
    }

    /// The buffer, whichever way it went.
    pub fn into_buffer(self) -> Option<Buffer> {
        match self {
            Data::None => None,
            Data::In(buffer) | Data::Out(buffer) => Some(buffer),
        }
    }
}

/// What a connection is asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Commands in flight at most.
    pub depth: u16,
    /// Ask for header digests.
    pub header_digest: bool,
    /// Ask for data digests.
    pub data_digest: bool,
    /// Write data up to this many bytes travels in the command capsule.
    pub in_capsule_bytes: u32,
    /// R2Ts that the controller may have outstanding for one command (at least 1).
    pub ready_to_transfer_max: u16,
}

/// The host's side of one queue pair.
#[derive(Debug)]
pub struct Connection {
    settings: Settings,
    phase: Phase,
    rules: HeaderRules,
    /// What the controller said when the connection was initialized.
    host_data_bytes_max: u32,
    data_alignment_bytes: u32,
    commands: Commands<Transfer>,
    outgoing: VecDeque<Outgoing>,
    /// Slots whose buffers the socket is sending, in the order it got them.
    sending: VecDeque<u16>,
    decoder: Decoder,
    reads: Reads,
}

/// What NVMe/TCP knows of a command.
#[derive(Debug, Default)]
struct Transfer {
    /// Write data goes with the capsule.
    in_capsule: bool,
    /// Bytes received so far, or asked for by the controller so far.
    transferred: u32,
    /// The controller said that no more data comes.
    last_seen: bool,
    /// Data arrived damaged: the command fails, whatever the controller says.
    damaged: bool,
    /// Transfers to the controller that are queued and not sent.
    queued: u16,
}

/// Commands in flight that bring data: what the receiver sizes its receives by.
#[derive(Clone, Copy, Debug, Default)]
struct Reads {
    all: u32,
    /// Those whose data is worth receiving straight into its buffer.
    large: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Waiting for ICResp.
    Initializing,
    Ready,
    Lost(LossReason),
}

impl Connection {
    /// A connection that will ask to be initialized with `settings`.
    pub fn new(settings: Settings) -> Connection {
        Connection {
            settings,
            phase: Phase::Initializing,
            rules: HeaderRules::before_initialize(nvme::Receiver::Host),
            host_data_bytes_max: 0,
            data_alignment_bytes: 4,
            commands: Commands::new(settings.depth),
            outgoing: VecDeque::from([Outgoing::Initialize]),
            sending: VecDeque::new(),
            decoder: Decoder::default(),
            reads: Reads::default(),
        }
    }

    /// True once the controller has answered the initialization.
    pub fn is_ready(&self) -> bool {
        self.phase == Phase::Ready
    }

    /// Why the connection is over, if it is.
    pub fn loss(&self) -> Option<LossReason> {
        match self.phase {
            Phase::Lost(reason) => Some(reason),
            _ => None,
        }
    }

    /// How many more commands can be submitted now.
    pub fn free_slots(&self) -> usize {
        if self.loss().is_some() {
            0
        } else {
            self.commands.free_slots()
        }
    }

    /// Header digests and data digests, as agreed with the controller.
    pub fn digests(&self) -> (bool, bool) {
        (self.rules.header_digest, self.rules.data_digest)
    }

    /// Queues a command. Its identifier and data pointer are set here; opcode, namespace and
    /// dwords are the caller's.
    ///
    /// # Errors
    /// Hands the data back when no slot is free or the connection is lost: see
    /// [`Connection::free_slots`] and [`Connection::loss`].
    pub fn submit(&mut self, entry: SubmissionEntry, data: Data) -> Result<CommandId, Data> {
        if self.loss().is_some() {
            return Err(data);
        }
        self.queue(entry, data).map(CommandId)
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
        let bytes = data.len() as u32;
        let in_capsule = matches!(data, Data::Out(_)) && bytes <= self.capsule_limit(&entry);
        match &data {
            Data::None => {}
            Data::Out(_) if in_capsule => entry.data = SglDescriptor::in_capsule(bytes),
            Data::In(_) | Data::Out(_) => entry.data = SglDescriptor::transport(bytes),
        }
        let reads = matches!(data, Data::In(_));
        let id = self.commands.place(entry, data)?;
        if reads {
            self.reads.all += 1;
            self.reads.large += u32::from(bytes >= LENT_BYTES_MIN);
        }
        self.commands.slots[usize::from(id)].part.in_capsule = in_capsule;
        self.outgoing.push_back(Outgoing::Capsule(id));
        Ok(id)
    }

    /// How much data may travel with this command: Fabrics commands always take theirs along, on
    /// every queue (NVMe/TCP 1.0 §3.3.2).
    fn capsule_limit(&self, entry: &SubmissionEntry) -> u32 {
        if entry.opcode == AdminOpcode::FABRICS.0 {
            self.settings.in_capsule_bytes.max(ADMIN_CAPSULE_BYTES)
        } else {
            self.settings.in_capsule_bytes
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

    /// Ends the connection: everything in flight finishes with `reason`. Buffers lent out are
    /// waited for, so every command still ends only once its memory is back.
    pub fn fail(&mut self, reason: LossReason) {
        if self.loss().is_some() {
            return;
        }
        self.phase = Phase::Lost(reason);
        self.outgoing
            .retain(|item| matches!(item, Outgoing::Terminate { .. }));
        for id in 0..self.settings.depth {
            if self.commands.is_in_flight(id) {
                self.conclude(id, Err(reason));
            }
        }
    }

    /// Notes how a command ended; it finishes now, or when its buffer is back.
    fn conclude(&mut self, id: u16, outcome: Outcome) {
        let slot = &mut self.commands.slots[usize::from(id)];
        if slot.reads {
            self.reads.all -= 1;
            self.reads.large -= u32::from(slot.data_bytes >= LENT_BYTES_MIN);
        }
        if slot.part.queued > 0 {
            slot.part.queued = 0;
            self.outgoing.retain(|item| !item.is_transfer_of(id));
        }
        self.commands.conclude(id, outcome);
    }
}
