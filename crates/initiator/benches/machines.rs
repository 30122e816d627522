//! What a 4 KiB read costs the machines of host and controller, over NVMe/TCP and over NVMe/RDMA:
//! without sockets, devices, network and drive.
#![allow(clippy::unwrap_used, reason = "a benchmark may fail by panicking")]

#[path = "../../reactor/benches/report/mod.rs"]
mod report;

use std::ops::Range;
use std::time::Instant;

use block::Buffer;
use initiator::{
    CommandId, Connection, Data, Device, KeyedConnection, KeyedSettings, LossReason, Memory,
    Outlet, Settings,
};
use nvme::command::ReadWrite;
use nvme::{IoOpcode, SglDescriptor, SubmissionEntry};
use nvme_target::transport::{self, ConnectionSettings, Part, Reply, Trust, Work};
use report::Report;
use zerocopy::IntoBytes;

const DATA_BYTES: usize = 4096;
const DEPTH: u16 = 128;
const COMMANDS: u32 = 1_000_000;

fn main() {
    let mut report = Report::new("machines");
    report.median("4 KiB read, NVMe/TCP, host and controller", "ns", || {
        let mut pair = OverTcp::new();
        nanoseconds_per_command(|| pair.read())
    });
    report.median("4 KiB read, NVMe/RDMA, host and controller", "ns", || {
        let mut pair = OverRdma::new();
        nanoseconds_per_command(|| pair.read())
    });
    report.write();
}

fn nanoseconds_per_command(mut command: impl FnMut()) -> f64 {
    // Whatever grows has grown then.
    for _ in 0..COMMANDS / 100 {
        command();
    }
    let started = Instant::now();
    for _ in 0..COMMANDS {
        command();
    }
    started.elapsed().as_nanos() as f64 / f64::from(COMMANDS)
}

fn entry() -> SubmissionEntry {
    let nowhere = SglDescriptor::transport(0);
    *ReadWrite::new(IoOpcode::READ, 1, 0, 1, nowhere).entry()
}

/// Answers the command that a connection has taken with data that lies ready.
fn respond(target: &mut transport::Connection, data: &mut Option<Buffer>) {
    let Some(Work::One(command)) = target.take_work() else {
        panic!("a read is work");
    };
    target.respond(command.tag, Reply::data(data.take().unwrap()));
}

/// Ends the command of a host: its buffer, for the next one.
fn ended(taken: Option<(Data, initiator::Outcome)>) -> Buffer {
    let (data, outcome) = taken.unwrap();
    assert!(outcome.unwrap().status().is_success());
    data.into_buffer().unwrap()
}

fn controller(connection: &mut transport::Connection) {
    connection.set_trust(Trust::Host);
    connection.set_queue(DEPTH, true);
}

/// What a host sends, as a socket gets it.
#[derive(Default)]
struct Wire(Vec<u8>);

impl Outlet for Wire {
    fn push_bytes(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    fn push_buffer(&mut self, _: Buffer, _: Range<usize>) {
        unreachable!("a read sends no data");
    }

    fn is_full(&self) -> bool {
        false
    }
}

struct OverTcp {
    host: Connection,
    target: transport::Connection,
    wire: Wire,
    /// The target's data, and the host's memory, between two commands.
    data: Option<Buffer>,
    memory: Option<Buffer>,
}

impl OverTcp {
    fn new() -> OverTcp {
        let mut target = transport::Connection::new(ConnectionSettings::default());
        controller(&mut target);
        let host = Connection::new(Settings {
            depth: DEPTH,
            header_digest: false,
            data_digest: false,
            in_capsule_bytes: 8192,
            ready_to_transfer_max: 1,
        });
        let mut pair = OverTcp {
            host,
            target,
            wire: Wire::default(),
            data: Some(Buffer::zeroed(DATA_BYTES)),
            memory: Some(Buffer::zeroed(DATA_BYTES)),
        };
        pair.ask();
        pair.answer();
        assert!(pair.host.is_ready());
        pair
    }

    fn ask(&mut self) {
        self.wire.0.clear();
        self.host.transmit(&mut self.wire);
        let used = self.target.receive(&self.wire.0);
        assert_eq!(used, self.wire.0.len());
    }

    fn answer(&mut self) {
        while let Some(part) = self.target.outbox().pop() {
            match part {
                Part::Bytes(bytes) => self.host.receive(bytes).unwrap(),
                Part::Buffer(buffer, range) => {
                    self.host.receive(&buffer[range]).unwrap();
                    self.data = Some(buffer);
                }
            }
        }
    }

    fn read(&mut self) {
        let memory = Data::In(self.memory.take().unwrap());
        self.host.submit(entry(), memory).unwrap();
        self.ask();
        respond(&mut self.target, &mut self.data);
        self.answer();
        let id = self.host.next_finished().unwrap();
        self.memory = Some(ended(self.host.take(id)));
    }
}

/// A device that has done everything at once.
#[derive(Default)]
struct Fabric {
    lent: Option<Buffer>,
    capsule: Vec<u8>,
}

impl Device for Fabric {
    fn lend(
        &mut self,
        _: CommandId,
        buffer: Buffer,
        _: bool,
    ) -> Result<Memory, (Buffer, LossReason)> {
        self.lent = Some(buffer);
        Ok(Memory {
            address: 4096,
            key: 7,
        })
    }

    fn send(
        &mut self,
        _: CommandId,
        entry: &SubmissionEntry,
        data: &[u8],
    ) -> Result<(), LossReason> {
        self.capsule.clear();
        self.capsule.extend_from_slice(entry.as_bytes());
        self.capsule.extend_from_slice(data);
        Ok(())
    }
}

struct OverRdma {
    host: KeyedConnection,
    target: transport::Connection,
    fabric: Fabric,
    data: Option<Buffer>,
    memory: Option<Buffer>,
}

impl OverRdma {
    fn new() -> OverRdma {
        let mut target = transport::Connection::keyed(ConnectionSettings::default());
        controller(&mut target);
        OverRdma {
            host: KeyedConnection::new(KeyedSettings {
                depth: DEPTH,
                in_capsule_bytes: 8192,
            }),
            target,
            fabric: Fabric::default(),
            data: Some(Buffer::zeroed(DATA_BYTES)),
            memory: Some(Buffer::zeroed(DATA_BYTES)),
        }
    }

    fn read(&mut self) {
        let memory = Data::In(self.memory.take().unwrap());
        let id = self.host.submit(entry(), memory).unwrap();
        self.host.transmit(&mut self.fabric);
        self.host.sent(id);
        self.target.receive_capsule(&self.fabric.capsule);
        respond(&mut self.target, &mut self.data);
        let answer = self.target.take_answer().unwrap();
        let id = self.host.receive(answer.entry.as_bytes()).unwrap();
        self.data = answer.data.map(|(data, ..)| data);
        self.host.returned(id, self.fabric.lent.take().unwrap());
        let id = self.host.next_finished().unwrap();
        self.memory = Some(ended(self.host.take(id)));
    }
}
