//! Hosts that break the protocol: each connection ends as the specification says, or does not
//! end where only a command is wrong, and another host's I/O goes on undisturbed.

use std::rc::Rc;
use std::time::Duration;

use block::{BlockDevice, Buffer, Durability, Lba};
use initiator::Namespace;
use nvme::command::{ReadWrite, command_flags};
use nvme::fabrics::{Connect, Property, PropertyOffset};
use nvme::pdu::{
    CommonHeader, DataHeader, InitializeRequest, PduType, ResponseCapsule, TerminateRequest,
};
use nvme::{
    AdminOpcode, CompletionEntry, FatalError, FatalErrorStatus as Fes, IoOpcode, SglDescriptor,
    Status, SubmissionEntry, field,
};
use nvme_target::TargetSettings;
use reactor::{sleep, spawn};
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, IntoBytes};

use crate::raw::{End, RawHost, capsule, digested_capsule};
use crate::{Server, faulty, options, simulate};

const A_WHILE: Duration = Duration::from_secs(30);

/// Another host, that reads and writes all the time and must not notice anything.
struct Witness {
    task: reactor::Task<u64>,
    stop: Rc<std::cell::Cell<bool>>,
}

impl Witness {
    async fn start(server: &Server) -> Witness {
        let namespace: Namespace = server.namespace(options()).await;
        let stop = Rc::new(std::cell::Cell::new(false));
        let stopped = Rc::clone(&stop);
        let task = spawn(async move {
            let mut rounds = 0u64;
            while !stopped.get() {
                let byte = rounds as u8;
                let data = Buffer::copy_of(&[byte; 4096]);
                namespace
                    .write(Lba(9), data, Durability::Cached)
                    .await
                    .1
                    .unwrap();
                let (found, result) = namespace.read(Lba(9), Buffer::new(4096)).await;
                result.unwrap();
                assert!(found.iter().all(|found| *found == byte));
                rounds += 1;
                sleep(Duration::from_millis(5)).await;
            }
            rounds
        });
        Witness { task, stop }
    }

    async fn end(self) {
        sleep(Duration::from_millis(50)).await;
        self.stop.set(true);
        assert!(self.task.await > 2);
    }
}

/// What the offender is before it offends.
#[derive(Clone, Copy, Debug)]
enum Stage {
    Open,
    Initialized,
    Connected,
}

fn offend(stage: Stage, what: &'static str, bytes: Vec<u8>, expected: End) {
    println!("{what}");
    simulate(1, async move {
        let server = Server::memory(4096, 64);
        let witness = Witness::start(&server).await;
        let mut host = match stage {
            Stage::Open => RawHost::open(server.address).await,
            Stage::Initialized => RawHost::initialized(server.address, 0).await,
            Stage::Connected => RawHost::connected(server.address).await,
        };
        host.send(&bytes).await;
        let found = host.end(A_WHILE).await;
        assert_eq!(found, expected, "{what}");
        witness.end().await;
        sleep(A_WHILE).await;
        assert_eq!(
            server.target.counters().connections,
            0,
            "{what}: nothing is left"
        );
    });
}

fn terminated(status: Fes, information: u32) -> End {
    End::Terminated(FatalError::new(status, information))
}

fn invalid(field: u32) -> End {
    terminated(Fes::INVALID_HEADER_FIELD, field)
}

fn identify() -> SubmissionEntry {
    *nvme::identify::Identify::new(nvme::identify::Cns::CONTROLLER, 0).entry()
}

fn changed(mut bytes: Vec<u8>, at: usize, value: u8) -> Vec<u8> {
    bytes[at] = value;
    bytes
}

fn data_pdu(command_id: u16, transfer_tag: u16, length: u32) -> Vec<u8> {
    let mut header = DataHeader {
        common: CommonHeader::new(PduType::HOST_DATA, 24),
        command_id: U16::new(command_id),
        transfer_tag: U16::new(transfer_tag),
        offset: U32::ZERO,
        length: U32::new(length),
        reserved: [0; 4],
    };
    header.common.flags = nvme::pdu::flags::LAST_PDU;
    header.common.data_offset = 24;
    header.common.pdu_bytes = U32::new(24 + length);
    let mut bytes = header.as_bytes().to_vec();
    bytes.resize(24 + length as usize, 0);
    bytes
}

#[test]
fn before_initialization() {
    use Stage::Open;
    let request = InitializeRequest::new(0, 0, 0).as_bytes().to_vec();
    let unsupported = terminated(Fes::UNSUPPORTED_PARAMETER, field::FORMAT_VERSION);
    offend(
        Open,
        "an unknown version",
        changed(request.clone(), 8, 1),
        unsupported,
    );
    offend(
        Open,
        "a short header",
        changed(request.clone(), 2, 64),
        invalid(field::HEADER_BYTES),
    );
    offend(
        Open,
        "a long PDU",
        changed(request.clone(), 4, 129),
        invalid(field::PDU_BYTES),
    );
    offend(
        Open,
        "an unknown PDU type",
        changed(request, 0, 0x0a),
        invalid(field::TYPE),
    );
    let early = capsule(&identify(), &[]);
    offend(
        Open,
        "a command first",
        early,
        terminated(Fes::SEQUENCE_ERROR, 0),
    );
    let garbage: Vec<u8> = (0..500).map(|at| (at * 7 + 13) as u8).collect();
    offend(Open, "garbage", garbage, invalid(field::TYPE));
}

#[test]
fn after_initialization() {
    use Stage::Initialized;
    let again = InitializeRequest::new(0, 0, 0).as_bytes().to_vec();
    offend(
        Initialized,
        "a second ICReq",
        again,
        terminated(Fes::SEQUENCE_ERROR, 0),
    );
    let theirs = ResponseCapsule {
        common: CommonHeader::new(PduType::RESPONSE_CAPSULE, 24),
        entry: CompletionEntry::new(0, Status::SUCCESS),
    };
    let theirs = theirs.as_bytes().to_vec();
    offend(
        Initialized,
        "a controller's PDU",
        theirs,
        invalid(field::TYPE),
    );
    let command = capsule(&identify(), &[]);
    let digest_flag = changed(command.clone(), 1, 1);
    offend(
        Initialized,
        "a digest not agreed on",
        digest_flag,
        invalid(field::FLAGS),
    );
    let huge = [&command[..4], &u32::MAX.to_le_bytes(), &command[8..]].concat();
    offend(
        Initialized,
        "an oversized PDU",
        huge,
        invalid(field::DATA_OFFSET),
    );
    let short = changed(command, 4, 71);
    offend(
        Initialized,
        "a PDU shorter than its header",
        short,
        invalid(field::DATA_OFFSET),
    );
}

#[test]
fn on_a_running_controller() {
    use Stage::Connected;
    let stray = data_pdu(7, 7, 512);
    offend(
        Connected,
        "data nobody asked for",
        stray,
        terminated(Fes::SEQUENCE_ERROR, 0),
    );
    let terminate = TerminateRequest::new(PduType::HOST_TERMINATE, FatalError::sequence(), 0);
    let terminate = terminate.as_bytes().to_vec();
    offend(Connected, "the host terminates", terminate, End::Closed);
}

#[test]
fn a_wrong_header_digest_ends_the_connection_and_a_right_one_does_not() {
    simulate(2, async {
        let server = Server::memory(4096, 64);
        let witness = Witness::start(&server).await;
        let property = Property::get(PropertyOffset::VERSION, false);
        let mut host = RawHost::initialized(server.address, nvme::pdu::digests::HEADER).await;
        host.send(&digested_capsule(property.entry(), false)).await;
        let answer = host.next_pdu().await.unwrap();
        assert_eq!(answer[0], PduType::RESPONSE_CAPSULE.0);
        host.send(&digested_capsule(property.entry(), true)).await;
        let End::Terminated(error) = host.end(A_WHILE).await else {
            panic!("ends")
        };
        assert_eq!(error.status, Fes::HEADER_DIGEST_ERROR);
        witness.end().await;
    });
}

/// Errors in a command, not in the protocol: a status, and the connection goes on.
#[test]
fn wrong_commands_get_a_status() {
    simulate(3, async {
        let server = Server::memory(4096, 64);
        let witness = Witness::start(&server).await;
        let namespace = server.namespace(options()).await;
        let queue = namespace.controller().queue(0).unwrap();
        let read = |nsid, start, blocks: u32| {
            let data = SglDescriptor::transport(0);
            *ReadWrite::new(IoOpcode::READ, nsid, start, blocks, data).entry()
        };
        let cases = [
            (
                "an unknown namespace",
                read(5, 0, 1),
                Status::INVALID_NAMESPACE,
            ),
            (
                "every namespace",
                read(u32::MAX, 0, 1),
                Status::INVALID_NAMESPACE,
            ),
            ("past the end", read(1, 64, 1), Status::LBA_OUT_OF_RANGE),
            (
                "a start that wraps",
                read(1, u64::MAX, 1),
                Status::LBA_OUT_OF_RANGE,
            ),
            (
                "an unknown opcode",
                SubmissionEntry {
                    opcode: 0xc2,
                    ..read(1, 0, 1)
                },
                Status::INVALID_OPCODE,
            ),
        ];
        for (what, entry, expected) in cases {
            let data = initiator::Data::In(Buffer::new(4096));
            let (_, completion) = queue.submit(entry, data).await;
            assert_eq!(completion.unwrap().status().code(), expected, "{what}");
        }
        let mut lonely = read(1, 0, 1);
        lonely.flags |= command_flags::FUSED_SECOND;
        let (_, completion) = queue
            .submit(lonely, initiator::Data::In(Buffer::new(4096)))
            .await;
        let status = completion.unwrap().status();
        assert!(!status.is_success(), "half of a fused pair");
        let (_, result) = namespace.read(Lba(0), Buffer::new(4096)).await;
        result.unwrap();
        witness.end().await;
    });
}

#[test]
fn more_commands_than_the_queue_holds_end_the_association() {
    simulate(4, async {
        let server = Server::memory(4096, 64);
        let witness = Witness::start(&server).await;
        let mut host = RawHost::connected(server.address).await;
        let event = AdminOpcode::ASYNC_EVENT_REQUEST.0;
        let mut request = SubmissionEntry::new(event, 0, SglDescriptor::transport(0));
        let mut flood = Vec::new();
        for id in 0..200u16 {
            request.command_id = U16::new(id);
            flood.extend(capsule(&request, &[]));
        }
        host.send(&flood).await;
        assert_ne!(host.end(A_WHILE).await, End::Open);
        witness.end().await;
    });
}

#[test]
fn half_a_pdu_and_then_nothing_is_not_waited_for_forever_before_connect() {
    simulate(5, async {
        let server = Server::memory(4096, 64);
        let witness = Witness::start(&server).await;
        for bytes in [0, 3, 8, 60, 127] {
            let mut host = RawHost::open(server.address).await;
            host.send(&InitializeRequest::new(0, 0, 0).as_bytes()[..bytes])
                .await;
            assert_eq!(
                host.end(A_WHILE).await,
                End::Closed,
                "{bytes} bytes of ICReq"
            );
        }
        let mut host = RawHost::initialized(server.address, 0).await;
        host.send(&capsule(Connect::new(0, 31, 0).entry(), &[0; 1024])[..500])
            .await;
        assert_eq!(host.end(A_WHILE).await, End::Closed, "half a Connect");
        witness.end().await;
    });
}

#[test]
fn a_host_that_vanishes_in_the_middle_leaves_nothing_behind() {
    for seed in 0..10 {
        simulate(seed, async {
            let (drive, control) = faulty(64, 6);
            let server = Server::start(TargetSettings::default(), 4420, drive);
            let witness = Witness::start(&server).await;
            control.set_delay(Duration::from_micros(100)..Duration::from_millis(3));
            for _ in 0..5 {
                let host = RawHost::connected(server.address).await;
                let pdu = capsule(&identify(), &[]);
                let cut = 1 + reactor::sim::random_below(pdu.len() as u64 - 1) as usize;
                host.send(&pdu).await;
                host.send(&pdu[..cut]).await;
                host.vanish();
            }
            witness.end().await;
            sleep(A_WHILE).await;
            assert_eq!(server.target.counters().connections, 0);
        });
    }
}

/// Random damage to a stream that starts honestly: whatever the connection comes to, the witness
/// goes on, and nothing is left.
#[test]
fn damaged_streams_hurt_only_themselves() {
    for seed in 0..40 {
        simulate(seed, async {
            let server = Server::memory(4096, 64);
            let witness = Witness::start(&server).await;
            let mut host = RawHost::connected(server.address).await;
            let mut stream = Vec::new();
            for id in 0..6u16 {
                let mut entry = identify();
                entry.command_id = U16::new(id);
                stream.extend(capsule(&entry, &[]));
            }
            for _ in 0..1 + reactor::sim::random_below(4) {
                let at = reactor::sim::random_below(stream.len() as u64) as usize;
                stream[at] = reactor::sim::random_below(256) as u8;
            }
            host.send(&stream).await;
            let _ = host.end(Duration::from_secs(1)).await;
            host.vanish();
            witness.end().await;
            sleep(A_WHILE).await;
            assert_eq!(server.target.counters().connections, 0);
        });
    }
}

#[test]
fn answers_carry_the_identifier_that_was_asked_with() {
    simulate(8, async {
        let server = Server::memory(4096, 64);
        let mut host = RawHost::connected(server.address).await;
        let mut entry = *Property::get(PropertyOffset::VERSION, false).entry();
        entry.command_id = U16::new(0xbeef);
        host.send(&capsule(&entry, &[])).await;
        let answer = host.next_pdu().await.unwrap();
        let (response, _) = ResponseCapsule::ref_from_prefix(&answer).unwrap();
        assert_eq!(response.entry.command_id.get(), 0xbeef);
        assert!(response.entry.status().is_success());
    });
}
