//! A controller that answers every command, cutting and aligning as told.

use std::collections::HashMap;
use std::ops::Range;

use block::Buffer;
use nvme::command::sgl;
use nvme::pdu::*;
use nvme::{
    CompletionEntry, Direction, HeaderRules, PduLayout, Receiver, Status, SubmissionEntry, digest,
};
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, IntoBytes};

use super::super::{CommandId, Connection, Outlet};

/// Collects what a connection sends.
#[derive(Default)]
pub struct Wire {
    pub bytes: Vec<u8>,
    pub buffers: Vec<Buffer>,
}

impl Outlet for Wire {
    fn push_bytes(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    fn push_buffer(&mut self, buffer: Buffer, range: Range<usize>) {
        self.bytes.extend_from_slice(&buffer[range]);
        self.buffers.push(buffer);
    }

    fn is_full(&self) -> bool {
        self.bytes.len() > 20_000
    }
}

/// How the controller behaves.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    pub header_digest: bool,
    pub data_digest: bool,
    pub alignment: u8,
    pub host_data_bytes_max: u32,
    /// Longest data PDU, and longest R2T.
    pub transfer_bytes: u32,
    pub success_flag: bool,
    /// Longest piece in which its bytes arrive.
    pub piece_bytes: usize,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            header_digest: false,
            data_digest: false,
            alignment: 0,
            host_data_bytes_max: 128 << 10,
            transfer_bytes: 1 << 20,
            success_flag: true,
            piece_bytes: 1 << 20,
        }
    }
}

pub struct FakeController {
    options: Options,
    rules: HeaderRules,
    pub commands: Vec<SubmissionEntry>,
    pub transfers_asked: u32,
    reads: HashMap<u16, Vec<u8>>,
    writes: HashMap<u16, Vec<u8>>,
    expected: HashMap<u16, usize>,
    asked_bytes: HashMap<u16, usize>,
    ready_to_transfer_max: usize,
    pending: Vec<u8>,
}

pub fn initialize_response(options: &Options) -> Vec<u8> {
    let digests = u8::from(options.header_digest) | u8::from(options.data_digest) << 1;
    InitializeResponse::new(options.alignment, digests, options.host_data_bytes_max)
        .as_bytes()
        .to_vec()
}

pub fn response(id: u16, status: Status) -> Vec<u8> {
    let capsule = ResponseCapsule {
        common: CommonHeader::new(PduType::RESPONSE_CAPSULE, 24),
        entry: CompletionEntry::new(id, status),
    };
    capsule.as_bytes().to_vec()
}

pub fn data_header(pdu_type: PduType, id: u16, tag: u16, offset: u32, length: u32) -> DataHeader {
    DataHeader {
        common: CommonHeader::new(pdu_type, 24),
        command_id: U16::new(id),
        transfer_tag: U16::new(tag),
        offset: U32::new(offset),
        length: U32::new(length),
        reserved: [0; 4],
    }
}

impl FakeController {
    pub fn new(options: Options) -> FakeController {
        FakeController {
            options,
            rules: HeaderRules::before_initialize(Receiver::Controller),
            commands: Vec::new(),
            transfers_asked: 0,
            reads: HashMap::new(),
            writes: HashMap::new(),
            expected: HashMap::new(),
            asked_bytes: HashMap::new(),
            ready_to_transfer_max: 1,
            pending: Vec::new(),
        }
    }

    /// What a read of this command will be answered with.
    pub fn will_read(&mut self, id: CommandId, content: Vec<u8>) {
        self.reads.insert(id.0, content);
    }

    pub fn written(&self, id: CommandId) -> &[u8] {
        &self.writes[&id.0]
    }

    /// Lets both sides talk until neither has anything to say.
    pub fn exchange(&mut self, connection: &mut Connection) {
        loop {
            let stream = self.answer(connection);
            if stream.is_empty() {
                return;
            }
            for piece in stream.chunks(self.options.piece_bytes) {
                connection
                    .receive(piece)
                    .expect("an honest controller is understood");
            }
        }
    }

    /// Takes what the connection has to send, and returns what the controller answers.
    pub fn answer(&mut self, connection: &mut Connection) -> Vec<u8> {
        let mut out = Vec::new();
        while connection.has_output() {
            let mut wire = Wire::default();
            connection.transmit(&mut wire);
            connection.transmitted(wire.buffers);
            self.pending.extend_from_slice(&wire.bytes);
        }
        while let Some(layout) = self.next_pdu() {
            let pdu: Vec<u8> = self.pending.drain(..layout.total_bytes as usize).collect();
            self.take_pdu(&layout, &pdu, &mut out);
        }
        assert!(self.pending.is_empty(), "the host sends whole PDUs");
        out
    }

    fn next_pdu(&self) -> Option<PduLayout> {
        let (header, _) = CommonHeader::ref_from_prefix(&self.pending).ok()?;
        Some(
            self.rules
                .layout(header)
                .expect("the host sends valid headers"),
        )
    }

    fn take_pdu(&mut self, layout: &PduLayout, pdu: &[u8], out: &mut Vec<u8>) {
        let header = &pdu[..layout.header_bytes as usize];
        if layout.header_digest {
            assert_eq!(
                pdu[header.len()..header.len() + 4],
                digest(header),
                "header digest"
            );
        }
        let at = layout.data_offset as usize;
        let data = &pdu[at..at + layout.data_bytes as usize];
        if layout.data_digest {
            assert_eq!(pdu[at + data.len()..], digest(data), "data digest");
        }
        match layout.pdu_type {
            PduType::INITIALIZE_REQUEST => self.initialize(header, out),
            PduType::COMMAND_CAPSULE => {
                let capsule = CommandCapsule::read_from_bytes(header).unwrap();
                self.command(capsule.entry, data, out);
            }
            PduType::HOST_DATA => {
                let transfer = DataHeader::read_from_bytes(header).unwrap();
                let id = transfer.command_id.get();
                assert_eq!(transfer.transfer_tag.get(), id ^ 0x5555);
                let written = self.writes.get_mut(&id).expect("an R2T was sent");
                assert_eq!(transfer.offset.get() as usize, written.len(), "in order");
                written.extend_from_slice(data);
                if written.len() == self.expected[&id] {
                    self.respond(id, out);
                } else if written.len() == self.asked_bytes[&id] {
                    self.ask_for_more(id, out);
                }
            }
            other => panic!("unexpected {other:?}"),
        }
    }

    fn initialize(&mut self, header: &[u8], out: &mut Vec<u8>) {
        let request = InitializeRequest::read_from_bytes(header).unwrap();
        self.ready_to_transfer_max = request.ready_to_transfer_max.get() as usize + 1;
        self.options.header_digest &= request.digests & digests::HEADER != 0;
        self.options.data_digest &= request.digests & digests::DATA != 0;
        self.rules.header_digest = self.options.header_digest;
        self.rules.data_digest = self.options.data_digest;
        self.rules.data_alignment_bytes = (u32::from(self.options.alignment) + 1) * 4;
        self.rules.data_bytes_max = u32::MAX;
        out.extend(initialize_response(&self.options));
    }

    fn command(&mut self, entry: SubmissionEntry, data: &[u8], out: &mut Vec<u8>) {
        let id = entry.command_id.get();
        let bytes = entry.data.length.get() as usize;
        self.commands.push(entry);
        match Direction::of(entry.opcode) {
            Direction::ToController if entry.data.kind == sgl::DATA_BLOCK_OFFSET => {
                assert_eq!(data.len(), bytes);
                self.writes.insert(id, data.to_vec());
                self.respond(id, out);
            }
            Direction::ToController => self.start_write(id, bytes, out),
            Direction::ToHost => self.send(id, bytes, out),
            _ => self.respond(id, out),
        }
    }

    fn start_write(&mut self, id: u16, bytes: usize, out: &mut Vec<u8>) {
        self.writes.insert(id, Vec::new());
        self.expected.insert(id, bytes);
        self.ask_for_more(id, out);
    }

    /// As many R2Ts as the host lets be outstanding, in parts of the controller's size.
    fn ask_for_more(&mut self, id: u16, out: &mut Vec<u8>) {
        let bytes = self.expected[&id];
        let start = self.writes[&id].len();
        let step = self.options.transfer_bytes as usize;
        let asked = (start..bytes)
            .step_by(step)
            .take(self.ready_to_transfer_max);
        for offset in asked {
            let length = step.min(bytes - offset) as u32;
            let kind = PduType::READY_TO_TRANSFER;
            let mut request = data_header(kind, id, id ^ 0x5555, offset as u32, length);
            self.finish_header(&mut request.common, 0);
            self.push(request.as_bytes(), out);
            self.transfers_asked += 1;
            self.asked_bytes.insert(id, offset + length as usize);
        }
    }

    fn send(&mut self, id: u16, bytes: usize, out: &mut Vec<u8>) {
        let content = self.reads.remove(&id).expect("the test says what is read");
        assert_eq!(content.len(), bytes);
        let mut offset = 0;
        for part in content.chunks(self.options.transfer_bytes as usize) {
            let last = offset + part.len() == bytes;
            let mut header = data_header(
                PduType::CONTROLLER_DATA,
                id,
                0,
                offset as u32,
                part.len() as u32,
            );
            if last {
                header.common.flags |= flags::LAST_PDU;
            }
            if last && self.options.success_flag {
                header.common.flags |= flags::SUCCESS;
            }
            self.finish_header(&mut header.common, part.len() as u32);
            self.push(header.as_bytes(), out);
            out.extend_from_slice(part);
            if self.options.data_digest {
                out.extend_from_slice(&digest(part));
            }
            offset += part.len();
        }
        if !self.options.success_flag {
            self.respond(id, out);
        }
    }

    fn respond(&mut self, id: u16, out: &mut Vec<u8>) {
        let mut capsule = ResponseCapsule {
            common: CommonHeader::new(PduType::RESPONSE_CAPSULE, 24),
            entry: CompletionEntry::new(id, Status::SUCCESS),
        };
        self.finish_header(&mut capsule.common, 0);
        self.push(capsule.as_bytes(), out);
    }

    fn finish_header(&self, header: &mut CommonHeader, data_bytes: u32) {
        let mut front = 24;
        if self.options.header_digest {
            header.flags |= flags::HEADER_DIGEST;
            front += 4;
        }
        let mut total = front + data_bytes;
        if data_bytes > 0 {
            header.data_offset = front as u8;
            if self.options.data_digest {
                header.flags |= flags::DATA_DIGEST;
                total += 4;
            }
        }
        header.pdu_bytes = U32::new(total);
    }

    fn push(&self, header: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(header);
        if self.options.header_digest {
            out.extend_from_slice(&digest(header));
        }
    }
}
