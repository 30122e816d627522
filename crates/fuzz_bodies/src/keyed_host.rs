//! The host's connection over RDMA against a controller that answers anything at any time, and a
//! device that is done with things when it likes.

use std::collections::{BTreeMap, VecDeque};

use block::Buffer;
use initiator::{CommandId, Device, KeyedConnection, KeyedSettings, LossReason, Memory};
use nvme::SubmissionEntry;
use nvme::rdma::KeyedDataBlock;

use crate::Input;
use crate::ledger::{Ledger, Submission};

const DEPTH: u16 = 6;
const RESPONSE_BYTES: usize = 16;

/// Runs the decisions in `bytes` on a host's connection.
pub fn keyed_host(bytes: &[u8]) {
    let mut run = Run::new(Input::new(bytes));
    while !run.input.is_empty() {
        run.step();
    }
    run.end();
}

/// What the device has of the host: memory that the controller reaches, and capsules under way.
#[derive(Default)]
struct Fabric {
    lent: BTreeMap<u16, Buffer>,
    sending: VecDeque<CommandId>,
    /// How many more calls it takes.
    patience: u8,
}

impl Fabric {
    fn takes(&mut self) -> bool {
        let takes = self.patience > 0;
        self.patience = self.patience.saturating_sub(1);
        takes
    }
}

impl Device for Fabric {
    fn lend(
        &mut self,
        id: CommandId,
        buffer: Buffer,
        _: bool,
    ) -> Result<Memory, (Buffer, LossReason)> {
        if !self.takes() {
            return Err((buffer, LossReason::Closed));
        }
        let before = self.lent.insert(id.0, buffer);
        assert!(before.is_none(), "memory of {id:?} was reachable already");
        Ok(Memory {
            address: 4096,
            key: id.0.into(),
        })
    }

    fn send(
        &mut self,
        id: CommandId,
        entry: &SubmissionEntry,
        data: &[u8],
    ) -> Result<(), LossReason> {
        assert_eq!(entry.command_id.get(), id.0);
        match KeyedDataBlock::of(&entry.data) {
            Some(block) => {
                let reached = self.lent.get(&id.0).map_or(0, |buffer| buffer.len());
                assert_eq!(block.length_bytes() as usize, reached, "{id:?}");
            }
            None => assert!(!data.is_empty() && !self.lent.contains_key(&id.0)),
        }
        if !self.takes() {
            return Err(LossReason::Closed);
        }
        self.sending.push_back(id);
        Ok(())
    }
}

struct Run<'a> {
    input: Input<'a>,
    connection: KeyedConnection,
    fabric: Fabric,
    /// Commands that have their responses, whose memory is to come back.
    returning: Vec<u16>,
    ledger: Ledger,
}

impl<'a> Run<'a> {
    fn new(mut input: Input<'a>) -> Run<'a> {
        let connection = KeyedConnection::new(KeyedSettings {
            depth: DEPTH,
            in_capsule_bytes: input.choice(&[0, 512, 4096]),
        });
        Run {
            input,
            connection,
            fabric: Fabric::default(),
            returning: Vec::new(),
            ledger: Ledger::default(),
        }
    }

    fn step(&mut self) {
        match self.input.byte() % 10 {
            0..=2 => self.submit(),
            3 => {
                self.fabric.patience = self.input.byte();
                self.connection.transmit(&mut self.fabric);
            }
            4 => self.sent(),
            5 => {
                let count = usize::from(self.input.byte() % 24);
                let bytes = self.input.take(count);
                self.receive(bytes);
            }
            6 => self.plausible(),
            7 => self.reclaim(),
            8 => self.orphan(),
            _ => self.collect(),
        }
        assert!(self.connection.free_slots() <= usize::from(DEPTH));
    }

    fn submit(&mut self) {
        let (submission, bytes) = Submission::next(&mut self.input);
        match submission {
            Submission::One(entry, data) => {
                if let Ok(id) = self.connection.submit(entry, data) {
                    self.ledger.submitted(&[id], bytes);
                }
            }
            Submission::Fused(first, second) => {
                if let Ok(ids) = self.connection.submit_fused(first, second) {
                    self.ledger.submitted(&ids, bytes);
                }
            }
        }
    }

    /// The device is done with a capsule.
    fn sent(&mut self) {
        if let Some(id) = self.fabric.sending.pop_front() {
            self.connection.sent(id);
        }
    }

    fn receive(&mut self, response: &[u8]) {
        match self.connection.receive(response) {
            // Memory comes back at once, or later.
            Ok(id) if self.input.byte() & 1 == 0 => self.returned(id.0),
            Ok(id) => self.returning.push(id.0),
            Err(reason) => {
                assert_eq!(self.connection.loss(), Some(reason));
                let again = self.connection.receive(response);
                assert_eq!(again, Err(reason), "and it stays lost");
            }
        }
    }

    /// A response that is well formed, to a command that may exist.
    fn plausible(&mut self) {
        let mut response = [0; RESPONSE_BYTES];
        response[12] = self.input.byte() % 8;
        response[14] = self.input.byte() & 2;
        self.receive(&response);
    }

    fn returned(&mut self, id: u16) {
        if let Some(buffer) = self.fabric.lent.remove(&id) {
            self.connection.returned(CommandId(id), buffer);
        }
    }

    /// Memory comes back that the controller does not reach any more: of a command that has its
    /// response, or of any once the connection is lost.
    fn reclaim(&mut self) {
        let which = usize::from(self.input.byte());
        if self.connection.loss().is_some() {
            self.returned(which as u16 % DEPTH);
        } else if !self.returning.is_empty() {
            let id = self.returning.remove(which % self.returning.len());
            self.returned(id);
        }
    }

    fn orphan(&mut self) {
        if let Some(id) = self.ledger.orphan() {
            self.connection.orphan(id);
        }
    }

    fn collect(&mut self) {
        while let Some(id) = self.connection.next_finished() {
            if !self.ledger.awaits(id) {
                continue;
            }
            let taken = self.connection.take(id);
            let (data, outcome) = taken.expect("finished commands can be taken");
            let held = self.fabric.sending.contains(&id);
            let lost = self.connection.loss().is_some();
            assert!(outcome.is_ok() || lost);
            assert!(
                lost || !held,
                "{id:?} has finished while its capsule is under way"
            );
            let reached = self.fabric.lent.contains_key(&id.0);
            assert!(
                !reached,
                "{id:?} has finished while its memory is reachable"
            );
            self.ledger.finished(id, data);
        }
    }

    /// Whatever happened: losing the connection ends every command, once, when its memory is back.
    fn end(mut self) {
        self.connection.fail(LossReason::Closed);
        self.collect();
        for id in 0..DEPTH {
            self.returned(id);
        }
        self.collect();
        self.ledger.assert_all_ended();
        let after = self.connection.free_slots();
        assert_eq!(after, 0, "a lost connection takes nothing more");
    }
}
