//! A tiny host for tests: speaks the wire by itself and checks every byte it gets.

use std::collections::BTreeMap;

use block::Buffer;
use nvme::command::{IoOpcode, ReadWrite};
use nvme::pdu::{
    CommandCapsule, CommonHeader, DataHeader, InitializeRequest, InitializeResponse, PduType,
    ReadyToTransfer, ResponseCapsule, flags,
};
use nvme::{HeaderRules, Receiver, SglDescriptor, Status, SubmissionEntry};
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, IntoBytes};

use crate::transport::{Connection, Part, Reply, Work};

/// How a test host behaves.
#[derive(Clone, Copy, Debug)]
pub struct Habits {
    pub header_digest: bool,
    pub data_digest: bool,
    /// HPDA.
    pub alignment: u8,
    /// MAXR2T, 0's based.
    pub transfers: u32,
    /// Longest data of one H2CData PDU.
    pub data_bytes: u32,
}

pub const PLAIN: Habits = Habits {
    header_digest: false,
    data_digest: false,
    alignment: 0,
    transfers: 0,
    data_bytes: 1 << 20,
};

/// What became of a command.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    pub data: Vec<u8>,
    pub status: Option<Status>,
}

pub struct Host {
    pub habits: Habits,
    /// Bytes on their way to the controller.
    pub sending: Vec<u8>,
    received: Vec<u8>,
    writes: BTreeMap<u16, Vec<u8>>,
    pub outcomes: BTreeMap<u16, Outcome>,
    pub requests: Vec<ReadyToTransfer>,
    pub answer_requests: bool,
    /// C2HTermReq with what it quotes.
    pub terminated: Option<Vec<u8>>,
    pub submission_heads: Vec<u16>,
}

pub fn digests_of(habits: &Habits) -> u8 {
    u8::from(habits.header_digest) | u8::from(habits.data_digest) << 1
}

impl Host {
    pub fn new(habits: Habits) -> Host {
        let digests = digests_of(&habits);
        let request = InitializeRequest::new(habits.alignment, digests, habits.transfers);
        Host {
            habits,
            sending: request.as_bytes().to_vec(),
            received: Vec::new(),
            writes: BTreeMap::new(),
            outcomes: BTreeMap::new(),
            requests: Vec::new(),
            answer_requests: true,
            terminated: None,
            submission_heads: Vec::new(),
        }
    }

    /// A PDU with digests as agreed.
    pub fn pdu(&mut self, header: &[u8], data: &[u8]) {
        let mut header = header.to_vec();
        let mut front = header.len();
        let mut bits = header[1];
        if self.habits.header_digest {
            bits |= flags::HEADER_DIGEST;
            front += 4;
        }
        let mut total = front + data.len();
        if !data.is_empty() {
            header[3] = front as u8;
            if self.habits.data_digest {
                bits |= flags::DATA_DIGEST;
                total += 4;
            }
        }
        header[1] = bits;
        header[4..8].copy_from_slice(&(total as u32).to_le_bytes());
        self.sending.extend_from_slice(&header);
        if self.habits.header_digest {
            self.sending.extend_from_slice(&nvme::digest(&header));
        }
        self.sending.extend_from_slice(data);
        if !data.is_empty() && self.habits.data_digest {
            self.sending.extend_from_slice(&nvme::digest(data));
        }
    }

    pub fn capsule(&mut self, entry: &SubmissionEntry, data: &[u8]) {
        let common = CommonHeader::new(PduType::COMMAND_CAPSULE, 72);
        let capsule = CommandCapsule {
            common,
            entry: *entry,
        };
        self.pdu(capsule.as_bytes(), data);
    }

    pub fn read(&mut self, id: u16, start: u64, bytes: u32) {
        let sgl = SglDescriptor::transport(bytes);
        let mut command = ReadWrite::new(IoOpcode::READ, 1, start, bytes / 512, sgl);
        command.command_id = id.into();
        self.capsule(command.entry(), &[]);
    }

    pub fn write(&mut self, id: u16, data: &[u8], in_capsule: bool) {
        self.write_as(IoOpcode::WRITE, 0, id, data, in_capsule);
    }

    pub fn write_as(&mut self, opcode: IoOpcode, fuse: u8, id: u16, data: &[u8], in_capsule: bool) {
        let length = data.len() as u32;
        let sgl = if in_capsule {
            SglDescriptor::in_capsule(length)
        } else {
            SglDescriptor::transport(length)
        };
        let mut command = ReadWrite::new(opcode, 1, u64::from(id), length / 512, sgl);
        command.command_id = id.into();
        command.flags |= fuse;
        if in_capsule {
            self.capsule(command.entry(), data);
        } else {
            self.writes.insert(id, data.to_vec());
            self.capsule(command.entry(), &[]);
        }
    }

    /// Takes what the controller sent and reacts to it.
    pub fn receive(&mut self, connection: &mut Connection) {
        while let Some(part) = connection.outbox().pop() {
            match part {
                Part::Bytes(bytes) => self.received.extend_from_slice(bytes),
                Part::Buffer(buffer, range) => self.received.extend_from_slice(&buffer[range]),
            }
        }
        while self.take_pdu() {}
    }

    fn take_pdu(&mut self) -> bool {
        let Ok((common, _)) = CommonHeader::read_from_prefix(&self.received) else {
            return false;
        };
        let total = common.pdu_bytes.get() as usize;
        if self.received.len() < total {
            return false;
        }
        let pdu: Vec<u8> = self.received.drain(..total).collect();
        let initialize = common.pdu_type == PduType::INITIALIZE_RESPONSE;
        let rules = HeaderRules {
            receiver: Receiver::Host,
            header_digest: self.habits.header_digest && !initialize,
            data_digest: self.habits.data_digest,
            data_alignment_bytes: (u32::from(self.habits.alignment) + 1) * 4,
            data_bytes_max: 1 << 20,
        };
        let layout = rules.layout(&common).unwrap();
        let header = &pdu[..layout.header_bytes as usize];
        if layout.header_digest {
            let at = header.len();
            assert_eq!(pdu[at..at + 4], nvme::digest(header));
        }
        let data = layout.data_offset as usize..(layout.data_offset + layout.data_bytes) as usize;
        if layout.data_digest {
            assert_eq!(pdu[data.end..], nvme::digest(&pdu[data.clone()]));
        }
        self.react(common, header, &pdu[data]);
        true
    }

    fn react(&mut self, common: CommonHeader, header: &[u8], data: &[u8]) {
        match common.pdu_type {
            PduType::INITIALIZE_RESPONSE => {
                let response = InitializeResponse::read_from_bytes(header).unwrap();
                assert_eq!(response.digests, digests_of(&self.habits));
            }
            PduType::RESPONSE_CAPSULE => {
                let entry = ResponseCapsule::read_from_bytes(header).unwrap().entry;
                self.submission_heads.push(entry.submission_head.get());
                let outcome = self.outcomes.entry(entry.command_id.get()).or_default();
                assert_eq!(
                    outcome.status.replace(entry.status()),
                    None,
                    "answered twice"
                );
            }
            PduType::CONTROLLER_DATA => {
                let header = DataHeader::read_from_bytes(header).unwrap();
                let outcome = self.outcomes.entry(header.command_id.get()).or_default();
                assert_eq!(header.offset.get() as usize, outcome.data.len());
                outcome.data.extend_from_slice(data);
                if common.flags & flags::SUCCESS != 0 {
                    assert_eq!(outcome.status.replace(Status::SUCCESS), None);
                }
            }
            PduType::READY_TO_TRANSFER => {
                let request = ReadyToTransfer::read_from_bytes(header).unwrap();
                self.requests.push(request);
                if self.answer_requests {
                    self.answer(&request);
                }
            }
            _ => self.terminated = Some([header, data].concat()),
        }
    }

    /// Sends what an R2T asks for.
    pub fn answer(&mut self, request: &ReadyToTransfer) {
        let data = self.writes[&request.command_id.get()].clone();
        let (start, end) = (
            request.offset.get(),
            request.offset.get() + request.length.get(),
        );
        let mut at = start;
        while at < end {
            let length = (end - at).min(self.habits.data_bytes);
            let last = at + length == end;
            self.host_data(
                request,
                at,
                &data[at as usize..(at + length) as usize],
                last,
            );
            at += length;
        }
    }

    pub fn host_data(&mut self, request: &ReadyToTransfer, offset: u32, data: &[u8], last: bool) {
        let mut common = CommonHeader::new(PduType::HOST_DATA, 24);
        common.flags = if last { flags::LAST_PDU } else { 0 };
        let header = DataHeader {
            common,
            command_id: request.command_id,
            transfer_tag: request.transfer_tag,
            offset: U32::new(offset),
            length: U32::new(data.len() as u32),
            reserved: [0; 4],
        };
        self.pdu(header.as_bytes(), data);
    }
}

/// What a read of a command gives in these tests.
pub fn content(start: u64, bytes: usize) -> Vec<u8> {
    (0..bytes)
        .map(|at| (start as usize * 31 + at * 7) as u8)
        .collect()
}

/// Executes whatever there is; returns the data of writes by command identifier.
pub fn execute(connection: &mut Connection, written: &mut BTreeMap<u16, Vec<u8>>) {
    while let Some(work) = connection.take_work() {
        let commands = match work {
            Work::One(command) => vec![command],
            Work::Fused(first, second) => vec![first, second],
        };
        for command in commands {
            let entry = ReadWrite::of(&command.entry);
            let reply = match (entry.opcode, command.data) {
                (IoOpcode::READ, _) => {
                    let bytes = entry.data.length.get() as usize;
                    Reply::data(Buffer::copy_of(&content(entry.start.get(), bytes)))
                }
                (_, Some(data)) => {
                    let twice = written.insert(entry.command_id.get(), data.to_vec());
                    assert_eq!(twice, None, "executed twice");
                    Reply::success()
                }
                (_, None) => Reply::success(),
            };
            connection.respond(command.tag, reply);
        }
    }
}

/// Brings bytes to the connection until nobody has anything to say.
pub fn converse(
    host: &mut Host,
    connection: &mut Connection,
    written: &mut BTreeMap<u16, Vec<u8>>,
    mut pieces: impl FnMut() -> usize,
) {
    let mut kept: Vec<u8> = Vec::new();
    loop {
        while !host.sending.is_empty() {
            if let Some((mut buffer, range)) = connection.take_direct(1 + pieces() % 512) {
                assert!(
                    kept.is_empty(),
                    "direct data after bytes that were not used"
                );
                let count = range.len().min(host.sending.len()).min(pieces());
                let into = range.start..range.start + count;
                buffer[into].copy_from_slice(&host.sending[..count]);
                host.sending.drain(..count);
                connection.direct_received(buffer, count);
            } else {
                let count = host.sending.len().min(pieces());
                kept.extend(host.sending.drain(..count));
                let used = connection.receive(&kept);
                kept.drain(..used);
                assert!(kept.len() < 140, "{} bytes kept", kept.len());
            }
            if pieces().is_multiple_of(3) {
                execute(connection, written);
            }
        }
        execute(connection, written);
        host.receive(connection);
        if host.sending.is_empty() && !connection.has_work() && connection.outbox().is_empty() {
            return;
        }
    }
}

/// A host and a connection that have agreed, with a queue of `entries`.
pub fn connected(habits: Habits, entries: u16, flow_control: bool) -> (Host, Connection) {
    let mut host = Host::new(habits);
    let settings = super::settings();
    let mut connection = Connection::new(settings);
    converse(&mut host, &mut connection, &mut BTreeMap::new(), || 1 << 20);
    connection.set_queue(entries, flow_control);
    assert!(connection.is_live());
    (host, connection)
}

/// As [`connected`], for the U16 of an identifier that many tests need.
pub fn id(number: u16) -> U16 {
    U16::new(number)
}
