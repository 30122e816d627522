//! The host's connection against a controller that says anything at any time.

use std::ops::Range;

use block::Buffer;
use initiator::{Connection, LossReason, Outlet, Settings};
use nvme::digest;
use nvme::pdu::{CommonHeader, DIGEST_BYTES, InitializeResponse, PduType, flags};
use zerocopy::IntoBytes;
use zerocopy::little_endian::U32;

use crate::Input;
use crate::ledger::{Ledger, Submission};

const DEPTH: u16 = 6;

/// Runs the decisions in `bytes` on a host's connection.
pub fn host(bytes: &[u8]) {
    let mut run = Run::new(Input::new(bytes));
    while !run.input.is_empty() {
        run.step();
    }
    run.end();
}

/// What the connection has given to be sent: the buffers are still out.
#[derive(Default)]
struct Wire {
    buffers: Vec<Buffer>,
    bytes: usize,
    bytes_max: usize,
}

impl Outlet for Wire {
    fn push_bytes(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len();
    }

    fn push_buffer(&mut self, buffer: Buffer, range: Range<usize>) {
        self.bytes += buffer[range].len();
        self.buffers.push(buffer);
    }

    fn is_full(&self) -> bool {
        self.bytes > self.bytes_max
    }
}

struct Run<'a> {
    input: Input<'a>,
    connection: Connection,
    /// The batch being sent.
    sending: Option<Vec<Buffer>>,
    ledger: Ledger,
}

impl<'a> Run<'a> {
    fn new(mut input: Input<'a>) -> Run<'a> {
        let choices = input.byte();
        let connection = Connection::new(Settings {
            depth: DEPTH,
            header_digest: choices & 1 != 0,
            data_digest: choices & 2 != 0,
            in_capsule_bytes: if choices & 4 != 0 { 4096 } else { 0 },
            ready_to_transfer_max: u16::from(choices >> 4),
        });
        Run {
            input,
            connection,
            sending: None,
            ledger: Ledger::default(),
        }
    }

    fn step(&mut self) {
        match self.input.byte() % 12 {
            0..=2 => self.submit(),
            3 => self.transmit(),
            4 => self.sent(),
            5 => {
                let count = usize::from(self.input.byte());
                let bytes = self.input.take(count);
                self.receive(bytes);
            }
            6 => self.initialize(),
            7 | 8 => self.plausible(),
            9 => self.direct(),
            10 => self.orphan(),
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

    fn transmit(&mut self) {
        if self.sending.is_none() {
            let bytes_max = usize::from(self.input.short());
            let mut wire = Wire {
                bytes_max,
                ..Wire::default()
            };
            self.connection.transmit(&mut wire);
            self.sending = Some(wire.buffers);
        }
    }

    fn sent(&mut self) {
        if let Some(buffers) = self.sending.take() {
            self.connection.transmitted(buffers);
        }
    }

    fn receive(&mut self, bytes: &[u8]) {
        if let Err(reason) = self.connection.receive(bytes) {
            assert_eq!(self.connection.loss(), Some(reason));
            assert_eq!(
                self.connection.receive(bytes),
                Err(reason),
                "and it stays lost"
            );
        }
    }

    fn initialize(&mut self) {
        let limit = 4096 * (1 + u32::from(self.input.byte() % 4));
        let (alignment, digests) = (self.input.byte() % 40, self.input.byte() % 4);
        let response = InitializeResponse::new(alignment, digests, limit);
        self.receive(response.as_bytes());
    }

    /// A PDU that is well formed, for a command that may exist, with fields that may fit.
    fn plausible(&mut self) {
        let pdu_type = self.input.choice(&[
            PduType::RESPONSE_CAPSULE,
            PduType::CONTROLLER_DATA,
            PduType::CONTROLLER_DATA,
            PduType::READY_TO_TRANSFER,
        ]);
        let id = u16::from(self.input.byte() % 8).to_le_bytes();
        let (offset, length) = (self.input.short(), self.input.short());
        let mut header = CommonHeader::new(pdu_type, 24);
        let (header_digest, data_digest) = self.connection.digests();
        let mut front = 24;
        if header_digest {
            header.flags |= flags::HEADER_DIGEST;
            front += DIGEST_BYTES;
        }
        let mut total = front;
        let carries = pdu_type == PduType::CONTROLLER_DATA;
        if carries {
            header.flags |= self.input.byte() & (flags::LAST_PDU | flags::SUCCESS);
            header.data_offset = front as u8;
            total += usize::from(length);
            if data_digest {
                header.flags |= flags::DATA_DIGEST;
                total += DIGEST_BYTES;
            }
        }
        header.pdu_bytes = U32::new(total as u32);
        let mut pdu = header.as_bytes().to_vec();
        if pdu_type == PduType::RESPONSE_CAPSULE {
            pdu.extend_from_slice(&[0; 12]);
            pdu.extend_from_slice(&id);
            pdu.extend_from_slice(&u16::from(self.input.byte() % 2).to_le_bytes());
        } else {
            pdu.extend_from_slice(&[id[0], id[1], self.input.byte(), 0]);
            pdu.extend_from_slice(&u32::from(offset).to_le_bytes());
            pdu.extend_from_slice(&u32::from(length).to_le_bytes());
            pdu.extend_from_slice(&[0; 4]);
        }
        if header_digest {
            let computed = digest(&pdu);
            pdu.extend_from_slice(&computed);
        }
        if carries {
            pdu.resize(front + usize::from(length), 0x5a);
            if data_digest {
                let computed = digest(&pdu[front..]);
                pdu.extend_from_slice(&computed);
            }
        }
        self.deliver(&pdu);
    }

    /// In one piece, in two, or only the first part.
    fn deliver(&mut self, pdu: &[u8]) {
        let cut = usize::from(self.input.short()).min(pdu.len());
        let (first, second) = pdu.split_at(cut);
        self.receive(first);
        if self.input.byte() & 3 > 0 {
            self.receive(second);
        }
    }

    fn direct(&mut self) {
        let Some((mut buffer, range)) = self.connection.lend() else {
            return;
        };
        let received = usize::from(self.input.short()).min(range.len());
        buffer[range.start..range.start + received].fill(0xa5);
        if self.input.byte() & 7 == 0 {
            self.connection.fail(LossReason::Closed);
            self.connection.returned(buffer, 0);
        } else {
            self.connection.returned(buffer, received);
        }
    }

    fn orphan(&mut self) {
        if let Some(id) = self.ledger.orphan() {
            self.connection.orphan(id);
        }
    }

    fn collect(&mut self) {
        while let Some(id) = self.connection.next_finished() {
            if self.ledger.awaits(id) {
                let (data, outcome) = self
                    .connection
                    .take(id)
                    .expect("finished commands can be taken");
                assert!(outcome.is_ok() || self.connection.loss().is_some());
                self.ledger.finished(id, data);
            }
        }
    }

    /// Whatever happened: losing the connection ends every command, once.
    fn end(mut self) {
        self.connection.fail(LossReason::Closed);
        self.sent();
        self.collect();
        self.ledger.assert_all_ended();
        let before = self.connection.free_slots();
        assert_eq!(before, 0, "a lost connection takes nothing more");
    }
}
