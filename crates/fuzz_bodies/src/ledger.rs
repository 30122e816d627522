//! [`Ledger`]: commands of a host under test, from their submission to their end.

use std::collections::VecDeque;

use block::Buffer;
use initiator::{CommandId, Data};
use nvme::{IoOpcode, SglDescriptor, SubmissionEntry};

use crate::Input;

/// Bytes of the data of a fused pair's second half.
const SECOND_BYTES: usize = 512;

/// What a host is asked to submit.
pub enum Submission {
    /// One command.
    One(SubmissionEntry, Data),
    /// Two that are executed as one.
    Fused((SubmissionEntry, Data), (SubmissionEntry, Data)),
}

/// Commands that are waited for, with the bytes of data of each, and how many others there were.
#[derive(Default)]
pub struct Ledger {
    in_flight: VecDeque<(CommandId, usize)>,
    submitted: usize,
    orphaned: usize,
    finished: usize,
}

impl Submission {
    /// By the next decisions: a command with data either way or without, alone or in a pair.
    pub fn next(input: &mut Input<'_>) -> (Submission, usize) {
        let bytes = usize::from(input.short());
        let (opcode, data, bytes) = match input.byte() % 3 {
            0 => (IoOpcode::READ, Data::In(Buffer::new(bytes)), bytes),
            1 => (IoOpcode::WRITE, Data::Out(Buffer::new(bytes)), bytes),
            _ => (IoOpcode::FLUSH, Data::None, 0),
        };
        let entry = SubmissionEntry::new(opcode.0, 1, SglDescriptor::transport(0));
        let submission = match input.byte() & 3 {
            0 => {
                let other = Data::Out(Buffer::new(SECOND_BYTES));
                Submission::Fused((entry, data), (entry, other))
            }
            _ => Submission::One(entry, data),
        };
        (submission, bytes)
    }
}

impl Ledger {
    /// The host took a command, or a pair, whose first has so many bytes of data.
    pub fn submitted(&mut self, ids: &[CommandId], first_bytes: usize) {
        let bytes = [first_bytes, SECOND_BYTES];
        self.in_flight.extend(ids.iter().copied().zip(bytes));
        self.submitted += ids.len();
    }

    /// The oldest command, which nobody waits for any more.
    pub fn orphan(&mut self) -> Option<CommandId> {
        let (id, _) = self.in_flight.pop_front()?;
        self.orphaned += 1;
        Some(id)
    }

    /// Whether somebody waits for this command.
    pub fn awaits(&self, id: CommandId) -> bool {
        self.in_flight.iter().any(|(waiting, _)| *waiting == id)
    }

    /// A command that was waited for has ended, with all of its memory.
    pub fn finished(&mut self, id: CommandId, data: Data) {
        let bytes = data.into_buffer().map_or(0, |buffer| buffer.len());
        let at = self
            .in_flight
            .iter()
            .position(|ended| *ended == (id, bytes));
        let ended = at.and_then(|at| self.in_flight.remove(at));
        assert!(ended.is_some(), "{id:?} with {bytes} bytes is another one");
        self.finished += 1;
    }

    /// Every command has ended, once.
    pub fn assert_all_ended(&self) {
        assert!(
            self.in_flight.is_empty(),
            "in flight after the end: {:?}",
            self.in_flight
        );
        assert_eq!(self.finished + self.orphaned, self.submitted);
    }
}
