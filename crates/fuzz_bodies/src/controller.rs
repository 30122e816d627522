//! The controller's connection against a host that says anything at any time, with completions
//! coming in between.

use block::Buffer;
use nvme::command::ReadWrite;
use nvme::pdu::{CommandCapsule, CommonHeader, DataHeader, InitializeRequest, PduType, flags};
use nvme::{IoOpcode, SglDescriptor, Status, SubmissionEntry, digest};
use nvme_target::transport::{Command, Connection, ConnectionSettings, Part, Reply, Work};
use zerocopy::IntoBytes;
use zerocopy::little_endian::{U16, U32};

use crate::Input;

/// Write data held at a time: small, so that the limit is met.
const WRITE_BYTES_MAX: usize = 64 << 10;

/// Runs the decisions in `bytes` on a controller's connection.
pub fn controller(bytes: &[u8]) {
    let mut run = Run::new(Input::new(bytes));
    while !run.input.is_empty() {
        run.step();
    }
    run.end();
}

struct Run<'a> {
    input: Input<'a>,
    connection: Connection,
    /// Bytes that the connection has not used yet.
    stream: Vec<u8>,
    executing: Vec<Command>,
    /// Transfer tags seen in R2Ts: what honest data PDUs refer to.
    sent: usize,
}

impl<'a> Run<'a> {
    fn new(mut input: Input<'a>) -> Run<'a> {
        let choices = input.byte();
        let connection = Connection::new(ConnectionSettings {
            host_data_bytes_max: 4096 << (choices & 3),
            transfer_bytes_max: 32 << 10,
            in_capsule_bytes_max: 8192,
            ready_to_transfer_bytes: 4096 << (choices >> 2 & 3),
            write_bytes_max: WRITE_BYTES_MAX,
            header_digest_allowed: choices & 16 != 0,
            data_digest_allowed: choices & 32 != 0,
        });
        Run {
            input,
            connection,
            stream: Vec::new(),
            executing: Vec::new(),
            sent: 0,
        }
    }

    fn step(&mut self) {
        match self.input.byte() % 12 {
            0 => {
                let count = usize::from(self.input.byte());
                let bytes = self.input.take(count).to_vec();
                self.receive(&bytes);
            }
            1 => self.initialize(),
            2..=4 => self.command(),
            5 | 6 => self.data(),
            7 => self.direct(),
            8 => self.drain(),
            9 => {
                let (entries, flow_control) = (self.input.byte(), self.input.byte() & 1 != 0);
                self.connection.set_queue(u16::from(entries), flow_control);
            }
            _ => self.respond(),
        }
        self.take_work();
    }

    fn receive(&mut self, bytes: &[u8]) {
        self.stream.extend_from_slice(bytes);
        let used = self.connection.receive(&self.stream);
        assert!(used <= self.stream.len());
        self.stream.drain(..used);
        assert!(
            self.stream.len() < 140,
            "only an incomplete header is left over"
        );
    }

    fn initialize(&mut self) {
        let (alignment, digests) = (self.input.byte() % 40, self.input.byte() % 4);
        let transfers = u32::from(self.input.byte());
        let request = InitializeRequest::new(alignment, digests, transfers);
        self.deliver(request.as_bytes().to_vec());
    }

    /// A command capsule that is well formed, with data in it or to be asked for.
    fn command(&mut self) {
        let opcode = self.input.choice(&[
            IoOpcode::READ,
            IoOpcode::WRITE,
            IoOpcode::COMPARE,
            IoOpcode::FLUSH,
            IoOpcode::FABRICS,
        ]);
        let bytes = u32::from(self.input.short());
        let kind = self.input.byte();
        let in_capsule = kind & 1 != 0 && bytes <= 8192;
        let data = match in_capsule {
            true => SglDescriptor::in_capsule(bytes),
            false => SglDescriptor::transport(bytes),
        };
        let mut entry = SubmissionEntry::new(opcode.0, 1, data);
        if matches!(opcode, IoOpcode::READ | IoOpcode::WRITE | IoOpcode::COMPARE) {
            entry = *ReadWrite::new(opcode, 1, 0, bytes / 512, data).entry();
        }
        entry.command_id = U16::new(u16::from(self.input.byte() % 8));
        entry.flags |= kind >> 1 & 0b11;
        let common = CommonHeader::new(PduType::COMMAND_CAPSULE, 72);
        let capsule = CommandCapsule { common, entry };
        let data_bytes = if in_capsule { bytes } else { 0 };
        let pdu = self.whole(capsule.as_bytes(), data_bytes, 0);
        self.deliver(pdu);
    }

    /// A data PDU that may answer an R2T.
    fn data(&mut self) {
        let (offset, length) = (self.input.short(), self.input.short());
        let header = DataHeader {
            common: CommonHeader::new(PduType::HOST_DATA, 24),
            command_id: U16::new(u16::from(self.input.byte() % 8)),
            transfer_tag: U16::new(u16::from(self.input.byte() % 16)),
            offset: U32::new(u32::from(offset) & !511),
            length: U32::new(u32::from(length)),
            reserved: [0; 4],
        };
        let last = self.input.byte() & flags::LAST_PDU;
        let pdu = self.whole(header.as_bytes(), u32::from(length), last);
        self.deliver(pdu);
    }

    /// Header, digests as negotiated, and data.
    fn whole(&self, header: &[u8], data_bytes: u32, extra_flags: u8) -> Vec<u8> {
        let (header_digest, data_digest) = self.connection.digests();
        let mut pdu = header.to_vec();
        let mut front = header.len();
        pdu[1] = extra_flags;
        if header_digest {
            pdu[1] |= flags::HEADER_DIGEST;
            front += 4;
        }
        let mut total = front as u32 + data_bytes;
        if data_bytes > 0 {
            pdu[3] = front as u8;
            if data_digest {
                pdu[1] |= flags::DATA_DIGEST;
                total += 4;
            }
        }
        pdu[4..8].copy_from_slice(&total.to_le_bytes());
        if header_digest {
            let computed = digest(&pdu);
            pdu.extend_from_slice(&computed);
        }
        pdu.resize(front + data_bytes as usize, 0x5a);
        if data_bytes > 0 && data_digest {
            let computed = digest(&pdu[front..]);
            pdu.extend_from_slice(&computed);
        }
        pdu
    }

    /// In one piece, in two, or only the first part.
    fn deliver(&mut self, pdu: Vec<u8>) {
        let cut = usize::from(self.input.short()).min(pdu.len());
        let (first, second) = pdu.split_at(cut);
        self.receive(first);
        self.take_work();
        if self.input.byte() & 3 > 0 {
            self.receive(second);
        }
    }

    fn direct(&mut self) {
        if let Some((mut buffer, range)) = self.connection.take_direct(1) {
            assert!(
                self.stream.is_empty(),
                "the stream is in the middle of data"
            );
            let received = usize::from(self.input.short()).min(range.len());
            buffer[range.start..range.start + received].fill(0xa5);
            self.connection.direct_received(buffer, received);
        }
    }

    fn take_work(&mut self) {
        while let Some(work) = self.connection.take_work() {
            match work {
                Work::One(command) => self.execute(command),
                Work::Fused(first, second) => {
                    self.execute(first);
                    self.execute(second);
                }
            }
        }
        assert!(self.executing.len() <= usize::from(self.connection.outstanding()));
    }

    fn execute(&mut self, command: Command) {
        if let Some(data) = &command.data {
            assert!(data.len() <= 32 << 10, "no more than MDTS");
        }
        self.executing.push(command);
    }

    fn respond(&mut self) {
        if self.executing.is_empty() {
            return;
        }
        let at = usize::from(self.input.byte()) % self.executing.len();
        let command = self.executing.remove(at);
        let reads = command.entry.opcode == IoOpcode::READ.0;
        let reply = match self.input.byte() % 3 {
            0 => Reply::status(Status::LBA_OUT_OF_RANGE),
            _ if reads => {
                let bytes = command.entry.data.length.get().min(32 << 10);
                Reply::data(Buffer::zeroed(bytes as usize))
            }
            _ => Reply::success(),
        };
        self.connection.respond(command.tag, reply);
    }

    fn drain(&mut self) {
        let outbox = self.connection.outbox();
        let waiting = outbox.len_bytes();
        let mut sent = 0;
        while let Some(part) = outbox.pop() {
            sent += match part {
                Part::Bytes(bytes) => bytes.len(),
                Part::Buffer(_, range) => range.len(),
            };
        }
        assert_eq!(sent, waiting);
        assert!(outbox.is_empty());
        self.sent += sent;
    }

    /// Everything given out can still be answered, whatever state the connection is in.
    fn end(mut self) {
        while let Some(command) = self.executing.pop() {
            self.connection.respond(command.tag, Reply::success());
            self.take_work();
        }
        self.drain();
    }
}
