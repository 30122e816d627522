//! Hosts that register with volumes, reserve them and have them write protected. A host's name,
//! identifier and key come from its number.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(dead_code, reason = "each test file uses what it needs")]

use std::net::SocketAddr;

use crate::support::{Node, name, wait_until};
use api::Volume;
use block::Buffer;
use initiator::{ConnectOptions, Controller, Data, Error};
use nvme::command::ReadWrite;
use nvme::feature::{Feature, Features};
use nvme::reservation::{
    EXTENDED, Keys, Registrant, ReportHeader, Reservation, ReservationType, action,
};
use nvme::{AdminOpcode, IoOpcode, SglDescriptor, Status, SubmissionEntry};
use reactor::{Reactor, ReactorConfig};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, IntoBytes};

/// Bytes of a report with as many registrants as there may be.
const REPORT_BYTES: u32 = 64 * 130;

/// CPTPL: what is registered survives a power loss.
pub const PERSIST: u8 = 0b11 << 6;

/// What a host is told of the reservations of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    pub generation: u32,
    pub kind: Option<ReservationType>,
    pub persistent: bool,
    /// Number and key of each, and whether it holds the reservation.
    pub registrants: Vec<(u8, u64, bool)>,
}

pub fn key(host: u8) -> u64 {
    0xc0de_0000_0000_0000 + u64::from(host)
}

fn name_of(host: u8) -> String {
    format!("nqn.2026-11.example.flashyard:host-{host}")
}

/// Connects as a host with a number and a name.
pub async fn connect(
    address: SocketAddr,
    nqn: &str,
    (host, called): (u8, String),
) -> Result<Controller, Error> {
    let options = ConnectOptions {
        host_id: [host; 16],
        io_queues: 1,
        ..ConnectOptions::new(called)
    };
    Controller::connect(address, nqn, options).await
}

/// Runs `work` as a host that is connected to a volume's subsystem; by the end the node knows that
/// it is no more.
pub fn as_host<T, F: Future<Output = T>>(
    node: &Node,
    volume: &Volume,
    host: u8,
    work: impl FnOnce(Controller) -> F,
) -> T {
    as_named(node, volume, (host, name_of(host)), work)
}

/// The same under another name than that of the host's number.
pub fn as_named<T, F: Future<Output = T>>(
    node: &Node,
    volume: &Volume,
    host: (u8, String),
    work: impl FnOnce(Controller) -> F,
) -> T {
    let reactor = Reactor::io_uring(ReactorConfig::default()).unwrap();
    let address = node.endpoints().nvme[0];
    let done = reactor.run(async {
        let controller = connect(address, &volume.nqn, host).await.unwrap();
        let done = work(controller.clone()).await;
        controller.disconnect().await;
        done
    });
    wait_until("the node has seen the host go", || {
        let sessions = node.client().sessions().unwrap().items;
        !sessions.iter().any(|session| session.nqn == volume.nqn)
    });
    done
}

/// What comes of a host's write at an address that may not be served, or not yet.
pub fn try_to_write(address: SocketAddr, volume: &Volume, host: u8) -> Option<Status> {
    let reactor = Reactor::io_uring(ReactorConfig::default()).unwrap();
    reactor.run(async {
        let host = (host, name_of(host));
        let controller = connect(address, &volume.nqn, host).await.ok()?;
        let status = access(&controller, volume.nsid, IoOpcode::WRITE).await;
        controller.disconnect().await;
        Some(status)
    })
}

async fn submit(host: &Controller, entry: SubmissionEntry, data: Data) -> (Data, Status) {
    let (data, completion) = host.queue(0).unwrap().submit(entry, data).await;
    (data, completion.unwrap().status().code())
}

async fn ask(host: &Controller, command: Reservation, keys: [u64; 2]) -> Status {
    let keys = Keys {
        current: U64::new(keys[0]),
        other: U64::new(keys[1]),
    };
    let data = Data::Out(Buffer::copy_of(keys.as_bytes()));
    submit(host, *command.entry(), data).await.1
}

fn command(opcode: IoOpcode, nsid: u32, bytes: u32) -> Reservation {
    let transport = SglDescriptor::transport(bytes);
    *Reservation::of(&SubmissionEntry::new(opcode.0, nsid, transport))
}

pub async fn register(controller: &Controller, nsid: u32, host: u8, persistence: u8) -> Status {
    let mut command = command(IoOpcode::RESERVATION_REGISTER, nsid, 16);
    command.persistence = persistence;
    ask(controller, command, [0, key(host)]).await
}

pub async fn acquire(
    controller: &Controller,
    nsid: u32,
    host: u8,
    kind: ReservationType,
) -> Status {
    let mut command = command(IoOpcode::RESERVATION_ACQUIRE, nsid, 16);
    command.kind = kind.number();
    ask(controller, command, [key(host), 0]).await
}

pub async fn clear(controller: &Controller, nsid: u32, host: u8) -> Status {
    let mut command = command(IoOpcode::RESERVATION_RELEASE, nsid, 16);
    command.action = action::CLEAR;
    ask(controller, command, [key(host), 0]).await
}

pub async fn report(controller: &Controller, nsid: u32) -> Result<Report, Status> {
    let mut command = command(IoOpcode::RESERVATION_REPORT, nsid, REPORT_BYTES);
    let dwords = (REPORT_BYTES / 4 - 1).to_le_bytes();
    [command.action, command.kind] = [dwords[0], dwords[1]];
    command.report = U32::new(EXTENDED);
    let data = Data::In(Buffer::zeroed(REPORT_BYTES as usize));
    let (data, status) = submit(controller, *command.entry(), data).await;
    if !status.is_success() {
        return Err(status);
    }
    let bytes = data.into_buffer().unwrap();
    let (header, rest) = ReportHeader::read_from_prefix(&bytes).unwrap();
    let count = usize::from(header.registrants.get());
    let (registrants, _) = <[Registrant]>::ref_from_prefix_with_elems(rest, count).unwrap();
    let registrants = registrants.iter();
    Ok(Report {
        generation: header.generation.get(),
        kind: ReservationType::from_number(header.kind),
        persistent: header.persistent == 1,
        registrants: registrants
            .map(|one| (one.host_id[0], one.key.get(), one.status == 1))
            .collect(),
    })
}

pub async fn access(controller: &Controller, nsid: u32, opcode: IoOpcode) -> Status {
    let transport = SglDescriptor::transport(4096);
    let entry = *ReadWrite::new(opcode, nsid, 0, 1, transport).entry();
    let data = match opcode {
        IoOpcode::READ => Data::In(Buffer::zeroed(4096)),
        _ => Data::Out(Buffer::zeroed(4096)),
    };
    submit(controller, entry, data).await.1
}

/// Asks for write protection of a namespace, or that it is lifted.
pub async fn protect(controller: &Controller, nsid: u32, on: bool) -> Status {
    let opcode = AdminOpcode::SET_FEATURES.0;
    let entry = SubmissionEntry::new(opcode, nsid, SglDescriptor::transport(0));
    let mut command = *Features::of(&entry);
    command.feature = Feature::WRITE_PROTECTION;
    command.value = u32::from(on).into();
    let (_, completion) = controller.admin(*command.entry(), Data::None).await;
    completion.unwrap().status().code()
}

pub fn volume(node: &Node, of: &str) -> Volume {
    node.client().volume(&name(of)).unwrap()
}
