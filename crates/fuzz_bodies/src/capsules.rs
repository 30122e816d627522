//! The controller's connection over RDMA: capsules of any kind, data that comes when it likes, and
//! what a host says while it connects.

use block::Buffer;
use nvme::rdma::{ConnectRequest, KeyedDataBlock};
use nvme::{IoOpcode, SglDescriptor, Status, SubmissionEntry};
use nvme_target::transport::{Command, Connection, ConnectionSettings, Fetch, Reply, Work};
use zerocopy::IntoBytes;

use crate::Input;

const TRANSFER_BYTES_MAX: u32 = 32 << 10;
/// Data under way at a time: small, so that the limit is met.
const WRITE_BYTES_MAX: usize = 64 << 10;

/// Runs the decisions in `bytes` on a controller's connection.
pub fn capsules(bytes: &[u8]) {
    if let Ok(request) = ConnectRequest::of(bytes) {
        assert!((1..=1 << 16).contains(&request.entries()));
    }
    let mut run = Run::new(Input::new(bytes));
    while !run.input.is_empty() {
        run.step();
    }
    run.end();
}

struct Run<'a> {
    input: Input<'a>,
    connection: Connection,
    fetching: Vec<Fetch>,
    executing: Vec<Command>,
    taken: usize,
    answered: usize,
}

impl<'a> Run<'a> {
    fn new(mut input: Input<'a>) -> Run<'a> {
        let mut connection = Connection::keyed(ConnectionSettings {
            transfer_bytes_max: TRANSFER_BYTES_MAX,
            write_bytes_max: WRITE_BYTES_MAX,
            ..ConnectionSettings::default()
        });
        connection.set_queue(u16::from(input.byte()), true);
        Run {
            input,
            connection,
            fetching: Vec::new(),
            executing: Vec::new(),
            taken: 0,
            answered: 0,
        }
    }

    fn step(&mut self) {
        match self.input.byte() % 8 {
            0 => {
                let count = usize::from(self.input.byte());
                let capsule = self.input.take(count).to_vec();
                self.receive(&capsule);
            }
            1..=3 => self.command(),
            4 | 5 => self.fetched(),
            _ => self.respond(),
        }
        self.look();
    }

    fn receive(&mut self, capsule: &[u8]) {
        let before = self.connection.end();
        self.connection.receive_capsule(capsule);
        if before.is_none() && self.connection.end().is_none() {
            self.taken += 1;
        }
    }

    /// A command that is well formed, with data in the capsule, at a key or nowhere.
    fn command(&mut self) {
        let opcodes = [
            IoOpcode::READ,
            IoOpcode::WRITE,
            IoOpcode::COMPARE,
            IoOpcode::FLUSH,
        ];
        let opcode = self.input.choice(&opcodes);
        let (length, kind) = (u32::from(self.input.short()), self.input.byte());
        let data = match kind & 3 {
            0 => SglDescriptor::in_capsule(length),
            1 => SglDescriptor::transport(length),
            _ => KeyedDataBlock::new(4096, length, 7, kind & 1 != 0).descriptor(),
        };
        let mut entry = SubmissionEntry::new(opcode.0, 1, data);
        entry.flags |= kind >> 2 & 0b11;
        let mut capsule = entry.as_bytes().to_vec();
        if kind & 3 == 0 {
            capsule.resize(capsule.len() + length as usize, kind);
        }
        self.receive(&capsule);
    }

    /// Data of one of the commands comes.
    fn fetched(&mut self) {
        let which = usize::from(self.input.byte());
        if self.fetching.is_empty() {
            return;
        }
        let fetch = self.fetching.swap_remove(which % self.fetching.len());
        let data = Buffer::new(fetch.from.length_bytes() as usize);
        self.connection.fetched(fetch.tag, data);
    }

    fn respond(&mut self) {
        let which = usize::from(self.input.byte());
        let failed = which & 1 != 0;
        if self.executing.is_empty() {
            return;
        }
        let command = self.executing.swap_remove(which % self.executing.len());
        let reply = match failed {
            true => Reply::status(Status::INTERNAL_ERROR),
            false => {
                // Whatever a capsule says, an answer has no more data than one command transfers.
                let length = command.entry.data.length.get().min(TRANSFER_BYTES_MAX);
                Reply::data(Buffer::new(length as usize))
            }
        };
        self.connection.respond(command.tag, reply);
    }

    /// Takes whatever there is to take, and looks whether it may be.
    fn look(&mut self) {
        while let Some(fetch) = self.connection.take_fetch() {
            assert!(fetch.from.length_bytes() <= TRANSFER_BYTES_MAX);
            self.fetching.push(fetch);
        }
        assert!(self.connection.write_bytes() <= 4 * WRITE_BYTES_MAX);
        while let Some(work) = self.connection.take_work() {
            match work {
                Work::One(command) => self.executing.push(command),
                Work::Fused(first, second) => self.executing.extend([first, second]),
            }
        }
        while let Some(answer) = self.connection.take_answer() {
            self.answered += 1;
            if let Some((data, length, to)) = answer.data {
                assert!(length <= data.len() && length <= to.length_bytes() as usize);
            }
        }
        assert!(self.answered <= self.taken);
    }

    /// All commands end; only the first of a fused pair may still wait for its second.
    fn end(mut self) {
        while !self.fetching.is_empty() || !self.executing.is_empty() {
            while let Some(fetch) = self.fetching.pop() {
                let data = Buffer::new(fetch.from.length_bytes() as usize);
                self.connection.fetched(fetch.tag, data);
            }
            while let Some(command) = self.executing.pop() {
                self.connection.respond(command.tag, Reply::success());
            }
            self.look();
        }
        if self.connection.end().is_none() {
            assert!(self.taken - self.answered <= 1);
            assert_eq!(self.connection.unsent_bytes(), 0);
        }
    }
}
