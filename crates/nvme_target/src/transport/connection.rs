//! [`Connection`]: the state of one NVMe/TCP connection, seen from the controller.

use std::collections::VecDeque;

use block::Buffer;
use nvme::{
    Direction, FatalError, HeaderRules, IoOpcode, Receiver, RunningDigest, Status, SubmissionEntry,
};

use super::keyed::Keyed;
use super::outbox::Outbox;
use super::transfer::Transfer;
use crate::portions::Portions;

/// What a connection offers and allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionSettings {
    /// MAXH2CDATA: the longest data of one H2CData PDU; a multiple of 4, at least 4096.
    pub host_data_bytes_max: u32,
    /// The longest data of one command (MDTS in bytes).
    pub transfer_bytes_max: u32,
    /// The longest in-capsule data.
    pub in_capsule_bytes_max: u32,
    /// How much one R2T asks for at most.
    pub ready_to_transfer_bytes: u32,
    /// How much write data may be asked for and not yet executed, over all commands.
    pub write_bytes_max: usize,
    /// Agree to header digests when the host asks for them.
    pub header_digest_allowed: bool,
    /// Agree to data digests when the host asks for them.
    pub data_digest_allowed: bool,
}

impl Default for ConnectionSettings {
    fn default() -> ConnectionSettings {
        ConnectionSettings {
            host_data_bytes_max: 1 << 20,
            transfer_bytes_max: 1 << 20,
            in_capsule_bytes_max: 8 << 10,
            ready_to_transfer_bytes: 512 << 10,
            write_bytes_max: 16 << 20,
            header_digest_allowed: true,
            data_digest_allowed: true,
        }
    }
}

/// Names a command in flight on its connection, from [`Connection::take_work`] to
/// [`Connection::respond`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tag(pub(super) u16);

#[cfg(test)]
impl Tag {
    pub(crate) fn for_test(index: u16) -> Tag {
        Tag(index)
    }
}

/// A command, with all its data.
#[derive(Debug)]
pub struct Command {
    /// Names it until it is answered.
    pub tag: Tag,
    /// The submission queue entry.
    pub entry: SubmissionEntry,
    /// The data, for commands that bring some.
    pub data: Option<Buffer>,
}

/// What there is to execute, by tag: small, so that it travels cheaply between tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ready {
    /// One command.
    One(Tag),
    /// A fused pair: both are answered, the first one first.
    Fused(Tag, Tag),
}

/// What there is to execute, with the commands themselves.
#[derive(Debug)]
pub enum Work {
    /// One command.
    One(Command),
    /// A fused pair: both are answered, the first one first.
    Fused(Command, Command),
}

/// The answer to a command.
#[derive(Debug)]
pub struct Reply {
    /// Status.
    pub status: Status,
    /// Dwords 0 and 1 of the completion.
    pub result: u64,
    /// Data for the host, only with success.
    pub data: Option<Buffer>,
    /// Bytes of zeroes that follow the data.
    pub zeroes: usize,
}

impl Reply {
    /// Success, with nothing to say.
    pub fn success() -> Reply {
        Reply::status(Status::SUCCESS)
    }

    /// This status and nothing else.
    pub fn status(status: Status) -> Reply {
        Reply {
            status,
            result: 0,
            data: None,
            zeroes: 0,
        }
    }

    /// Success with this result.
    pub fn result(result: u64) -> Reply {
        Reply {
            result,
            ..Reply::success()
        }
    }

    /// Success with this data.
    pub fn data(data: Buffer) -> Reply {
        Reply {
            data: Some(data),
            ..Reply::success()
        }
    }
}

/// Why a connection has ended, as far as the protocol is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The host broke the protocol; a C2HTermReq that says how is in the outbox.
    Fatal(FatalError),
    /// The host sent an H2CTermReq.
    HostTerminated(FatalError),
    /// The host has more commands outstanding than its queue has entries (NVMe 2.0 §3.3.1.6): the
    /// association is to be ended.
    TooManyCommands,
}

/// Commands that may be outstanding before Connect says how large the queue is.
const ENTRIES_BEFORE_CONNECT: u16 = 2;

/// Commands that may be outstanding before the host has proved who it is, however large its queue
/// is: hosts authenticate with one at a time.
const ENTRIES_UNPROVEN: u16 = 4;

/// What a connection has of commands and data once its core holds as much as it may: enough to go
/// on, one command at a time.
pub(crate) const PRESSED_BYTES: usize = 64 << 10;

/// What a Copy holds of data at a time.
pub(crate) const COPY_PIECE_BYTES: u32 = 256 << 10;

/// How far the other end is trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// Nobody knows who it is: it may connect and authenticate, with data in its capsules.
    Unproven,
    /// It may discover, as everybody may: it is not asked for data either.
    Guest,
    /// A host of a subsystem.
    Host,
}

/// Awaited data of this length on average is worth a receive of its own.
const LONG_DATA_BYTES: usize = 16 << 10;
/// A receive that is to bring the header of such data and little of the data.
const SHORT_RECEIVE_BYTES: usize = 2 << 10;

/// One connection, seen from the controller, without its socket: of NVMe/TCP, or one that takes
/// whole capsules (see [`Connection::keyed`]).
#[derive(Debug)]
pub struct Connection {
    pub(super) settings: ConnectionSettings,
    pub(super) rules: HeaderRules,
    pub(super) phase: Phase,
    pub(super) receiving: Receiving,
    pub(super) slots: Vec<Slot>,
    pub(super) free: Vec<u16>,
    pub(super) outstanding: u16,
    pub(super) work: VecDeque<Ready>,
    /// Write data that was asked for, under `write_bytes_max`, and transfers that wait for room.
    pub(super) writes: Portions<u16>,
    /// R2Ts that are not answered in full, and the bytes they asked for.
    pub(super) requests_open: usize,
    pub(super) bytes_awaited: usize,
    /// First of a fused pair whose second has not come yet.
    pub(super) fused_first: Option<u16>,
    /// A command was refused for how it came, before anybody has seen it.
    pub(super) refused: bool,
    pub(super) transfers_per_command: u8,
    pub(super) host_alignment: usize,
    pub(super) queue_entries: u16,
    pub(super) flow_control: bool,
    pub(super) trust: Trust,
    /// The core holds as much data as it may.
    pub(super) pressed: bool,
    pub(super) submission_head: u16,
    /// Commands answered since the host was last told the submission queue head.
    pub(super) heads_untold: u16,
    pub(super) outbox: Outbox,
    /// What there is to do for capsules with keys, where they come so.
    pub(super) keyed: Option<Box<Keyed>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// ICReq has not come yet.
    Initialize,
    /// Commands may come.
    Live,
    /// Nothing is read any more.
    Ended(End),
}

/// Where in the stream the machine is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Receiving {
    /// At the start of a PDU.
    Header,
    /// In the data of a PDU.
    Data(Payload),
    /// At the data digest.
    Digest(Payload),
    /// In bytes that nobody wants.
    Skip(u32),
}

/// The data of the PDU being received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Payload {
    pub slot: u16,
    /// The R2T it answers; none for in-capsule data.
    pub window: Option<u8>,
    /// Bytes before the data that mean nothing.
    pub padding: u32,
    /// Where in the command's data the next byte belongs.
    pub at: u32,
    /// Where this PDU's data ends.
    pub end: u32,
    pub digest: Option<RunningDigest>,
}

/// One command in flight. Slots are reused, so a command allocates nothing.
#[derive(Debug)]
pub(super) struct Slot {
    pub command_id: u16,
    pub state: SlotState,
    pub partner: Partner,
    pub transfer: Transfer,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SlotState {
    Free,
    /// Its data is on the way.
    Transferring,
    /// Complete, waiting for the other one of its fused pair.
    Ready,
    /// Given out, or about to be, and to be answered.
    Executing,
}

/// The other one of a fused pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Partner {
    /// Not fused.
    None,
    /// The second has not come yet.
    Awaited,
    /// First (with its second) or second (with its first).
    First(u16),
    Second(u16),
}

impl Connection {
    /// A connection on which nothing was received yet.
    pub fn new(settings: ConnectionSettings) -> Connection {
        Connection {
            settings,
            rules: HeaderRules {
                data_bytes_max: u32::MAX,
                ..HeaderRules::before_initialize(Receiver::Controller)
            },
            phase: Phase::Initialize,
            receiving: Receiving::Header,
            slots: Vec::new(),
            free: Vec::new(),
            outstanding: 0,
            work: VecDeque::new(),
            writes: Portions::default(),
            requests_open: 0,
            bytes_awaited: 0,
            fused_first: None,
            refused: false,
            transfers_per_command: 1,
            host_alignment: 4,
            queue_entries: ENTRIES_BEFORE_CONNECT,
            flow_control: true,
            trust: Trust::Host,
            pressed: false,
            submission_head: 0,
            heads_untold: 0,
            outbox: Outbox::default(),
            keyed: None,
        }
    }

    /// Tells the machine what Connect agreed on: entries of the submission queue, and whether the
    /// host wants to be told its head.
    pub fn set_queue(&mut self, entries: u16, flow_control: bool) {
        self.queue_entries = entries.max(2);
        self.flow_control = flow_control;
        self.submission_head %= self.queue_entries;
    }

    /// Tells the machine how far its host is trusted; as a host of a subsystem unless told.
    pub fn set_trust(&mut self, trust: Trust) {
        self.trust = trust;
    }

    /// Tells the machine whether it may ask for write data as settings allow, or for little.
    pub fn set_pressed(&mut self, pressed: bool) {
        self.pressed = pressed;
    }

    /// Whether a command was refused for how it came since this was last asked.
    pub fn take_refused(&mut self) -> bool {
        std::mem::take(&mut self.refused)
    }

    /// Bytes of write data that were asked for and whose commands have not ended.
    pub fn write_bytes(&self) -> usize {
        self.writes.bytes()
    }

    /// The next thing to execute, with its commands.
    pub fn take_work(&mut self) -> Option<Work> {
        match self.take_ready()? {
            Ready::One(tag) => Some(Work::One(self.command(tag)?)),
            Ready::Fused(first, second) => {
                Some(Work::Fused(self.command(first)?, self.command(second)?))
            }
        }
    }

    /// The next thing to execute; [`Connection::command`] gives its commands when they are wanted.
    pub fn take_ready(&mut self) -> Option<Ready> {
        self.work.pop_front()
    }

    /// A command that is ready, with its data, which is given once.
    pub fn command(&mut self, tag: Tag) -> Option<Command> {
        let slot = self.slots.get_mut(usize::from(tag.0))?;
        Some(Command {
            tag,
            entry: slot.transfer.entry,
            data: slot.transfer.data.take(),
        })
    }

    /// The identifier of a command that was received and not answered.
    pub fn command_id(&self, tag: Tag) -> Option<u16> {
        let slot = self.slots.get(usize::from(tag.0))?;
        (slot.state != SlotState::Free).then_some(slot.command_id)
    }

    /// The namespace of a command, and the bytes of data that its answer may carry, or that it
    /// holds while it is executed.
    pub fn answer_of(&self, tag: Tag) -> (u32, u32) {
        self.slots.get(usize::from(tag.0)).map_or((0, 0), |slot| {
            let entry = &slot.transfer.entry;
            let bytes = match Direction::of(entry.opcode) {
                Direction::ToHost => entry.data.length.get(),
                _ if entry.opcode == IoOpcode::COPY.0 => COPY_PIECE_BYTES,
                _ => 0,
            };
            (entry.namespace_id.get(), bytes)
        })
    }

    /// True when [`Connection::take_ready`] has something.
    pub fn has_work(&self) -> bool {
        !self.work.is_empty()
    }

    /// What there is to send.
    pub fn outbox(&mut self) -> &mut Outbox {
        &mut self.outbox
    }

    /// Bytes that wait to be sent.
    pub fn unsent_bytes(&self) -> usize {
        let keyed = self.keyed.as_ref();
        self.outbox.len_bytes() + keyed.map_or(0, |keyed| keyed.unsent_bytes())
    }

    /// True once the connection is initialized and has not ended.
    pub fn is_live(&self) -> bool {
        self.phase == Phase::Live
    }

    /// Why the connection ended, if it has: nothing more is received or answered then, only the
    /// outbox may still hold a last word.
    pub fn end(&self) -> Option<End> {
        match self.phase {
            Phase::Ended(end) => Some(end),
            Phase::Initialize | Phase::Live => None,
        }
    }

    /// How much to receive at once, of `most`: little while long data is awaited, so that what
    /// follows its header can be received straight into place (see [`Connection::take_direct`]).
    pub fn receive_hint(&self, most: usize) -> usize {
        if self.requests_open > 0 && self.bytes_awaited / self.requests_open >= LONG_DATA_BYTES {
            most.min(SHORT_RECEIVE_BYTES)
        } else {
            most
        }
    }

    /// Commands received and not answered.
    pub fn outstanding(&self) -> u16 {
        self.outstanding
    }

    /// Header and data digests in use.
    pub fn digests(&self) -> (bool, bool) {
        (self.rules.header_digest, self.rules.data_digest)
    }

    /// Takes a slot for a command; `None` when the queue has no entry left for it.
    pub(super) fn open_slot(&mut self, entry: &SubmissionEntry) -> Option<u16> {
        let entries = match self.trust {
            Trust::Unproven => self.queue_entries.min(ENTRIES_UNPROVEN),
            Trust::Guest | Trust::Host => self.queue_entries,
        };
        if self.outstanding >= entries {
            return None;
        }
        let index = match self.free.pop() {
            Some(index) => index,
            None => {
                let index = u16::try_from(self.slots.len()).ok()?;
                self.slots.push(Slot {
                    command_id: 0,
                    state: SlotState::Free,
                    partner: Partner::None,
                    transfer: Transfer::of(entry),
                });
                index
            }
        };
        let slot = self.slots.get_mut(usize::from(index))?;
        slot.command_id = entry.command_id.get();
        slot.partner = Partner::None;
        slot.state = SlotState::Executing;
        slot.transfer = Transfer::of(entry);
        self.outstanding += 1;
        Some(index)
    }

    /// Frees a slot whose command is being answered; gives the command's identifier.
    pub(super) fn close_slot(&mut self, index: u16) -> Option<u16> {
        let slot = self.slots.get_mut(usize::from(index))?;
        if slot.state != SlotState::Executing {
            return None;
        }
        slot.state = SlotState::Free;
        slot.transfer.data = None;
        let granted = std::mem::take(&mut slot.transfer.granted_bytes);
        let nsid = slot.transfer.entry.namespace_id.get();
        let command_id = slot.command_id;
        self.free.push(index);
        self.outstanding -= 1;
        if granted > 0 {
            self.writes.give_back(nsid, granted);
            self.grant_waiting();
        }
        Some(command_id)
    }
}
