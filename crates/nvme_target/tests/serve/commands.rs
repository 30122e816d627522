//! I/O commands by the book: statuses of what is wrong, effects of what is right.

use std::net::SocketAddr;
use std::rc::Rc;

use access::AllowedHosts;
use block::{BlockDevice, Buffer, Durability, Lba};
use initiator::{Data, QueuePair, discover};
use nvme::command::{
    ALL_NAMESPACES, DATASET_DEALLOCATE, DatasetManagement, DatasetRange, ReadWrite, command_flags,
    control, sgl,
};
use nvme::fabrics::{Connect, Disconnect, Property, PropertyOffset};
use nvme::{IoOpcode, SglDescriptor, Status, SubmissionEntry};
use nvme_target::{PortSet, PortSettings, TargetSettings};
use zerocopy::IntoBytes;

use crate::device::Memory;
use crate::io::geometry;
use crate::{Fixture, SUBSYSTEM, namespace, nqn, options, simulate, subsystem};

async fn status(queue: &QueuePair, entry: &SubmissionEntry, data: Data) -> Status {
    queue.submit(*entry, data).await.1.unwrap().status().code()
}

fn command(opcode: IoOpcode, nsid: u32, start: u64, blocks: u32) -> ReadWrite {
    ReadWrite::new(opcode, nsid, start, blocks, SglDescriptor::transport(0))
}

/// The same with a directive's type.
fn directed(mut command: ReadWrite) -> SubmissionEntry {
    command.control = (1 << 4).into();
    *command.entry()
}

/// Each wrong command gets the status the specification has for it, and the queue goes on.
#[test]
fn io_commands_refuse_by_the_book() {
    simulate(50, async {
        let fixture = Fixture::start(TargetSettings::default(), geometry(512, 64));
        let controller = fixture.connect(options()).await;
        let queue = controller.queue(0).unwrap();
        let out = |bytes: usize| Data::Out(Buffer::zeroed(bytes));
        let into = |bytes: usize| Data::In(Buffer::zeroed(bytes));
        let (read, write) = (IoOpcode::READ, IoOpcode::WRITE);
        let (nsid, range) = (Status::INVALID_NAMESPACE, Status::LBA_OUT_OF_RANGE);
        let (length, field) = (Status::DATA_SGL_LENGTH_INVALID, Status::INVALID_FIELD);
        let entry = |command: ReadWrite| *command.entry();
        let fused = |mut command: ReadWrite| {
            command.flags |= command_flags::FUSED_SECOND;
            *command.entry()
        };
        for (what, entry, data, expected) in [
            (
                "a good read",
                entry(command(read, 1, 0, 8)),
                into(4096),
                Status::SUCCESS,
            ),
            ("NSID 0", entry(command(read, 0, 0, 8)), into(4096), nsid),
            (
                "NSID of nothing",
                entry(command(read, 2, 0, 8)),
                into(4096),
                nsid,
            ),
            (
                "a read of all",
                entry(command(read, ALL_NAMESPACES, 0, 8)),
                into(4096),
                nsid,
            ),
            (
                "a write to nothing",
                entry(command(write, 2, 0, 8)),
                out(4096),
                nsid,
            ),
            (
                "a read past the end",
                entry(command(read, 1, 60, 8)),
                into(4096),
                range,
            ),
            (
                "a read that wraps",
                entry(command(read, 1, u64::MAX, 8)),
                into(4096),
                range,
            ),
            (
                "a write past the end",
                entry(command(write, 1, 64, 1)),
                out(512),
                range,
            ),
            (
                "a read with little room",
                entry(command(read, 1, 0, 8)),
                into(2048),
                length,
            ),
            (
                "a write of too little",
                entry(command(write, 1, 0, 8)),
                out(2048),
                length,
            ),
            (
                "a write under a directive",
                directed(command(write, 1, 0, 4)),
                out(2048),
                field,
            ),
            (
                "a write of too much",
                entry(command(write, 1, 0, 8)),
                out(8192),
                length,
            ),
            (
                "a write of nothing",
                entry(command(write, 1, 0, 8)),
                Data::None,
                length,
            ),
            (
                "a compare of too little",
                entry(command(IoOpcode::COMPARE, 1, 0, 2)),
                out(512),
                length,
            ),
            (
                "a verify past the end",
                entry(command(IoOpcode::VERIFY, 1, 60, 8)),
                Data::None,
                range,
            ),
            (
                "zeroes past the end",
                entry(command(IoOpcode::WRITE_ZEROES, 1, 60, 8)),
                Data::None,
                range,
            ),
            (
                "a flush of nothing",
                entry(command(IoOpcode::FLUSH, 9, 0, 1)),
                Data::None,
                nsid,
            ),
            (
                "an opcode we lack",
                entry(command(IoOpcode::WRITE_UNCORRECTABLE, 1, 0, 1)),
                out(512),
                Status::INVALID_OPCODE,
            ),
            (
                "an opcode with data both ways",
                entry(command(IoOpcode(0x83), 1, 0, 1)),
                Data::None,
                Status::INVALID_OPCODE,
            ),
            (
                "half a fused pair",
                fused(command(write, 1, 0, 1)),
                out(512),
                Status(0x00a),
            ),
            (
                "a property",
                *Property::get(PropertyOffset::VERSION, false).entry(),
                Data::None,
                field,
            ),
            (
                "another connect",
                *Connect::new(1, 31, 0).entry(),
                out(1024),
                Status::COMMAND_SEQUENCE_ERROR,
            ),
        ] {
            assert_eq!(status(&queue, &entry, data).await, expected, "{what}");
        }
        let errors = fixture.target.counters().namespaces[0].errors;
        assert!(errors > 0);
        let gone = status(&queue, Disconnect::new().entry(), Data::None).await;
        assert_eq!(gone, Status::SUCCESS);
    });
}

/// SGLs that the transport does not have.
#[test]
fn data_pointers_refuse_by_the_book() {
    use crate::raw::{Raw, connect_data};
    simulate(51, async {
        let fixture = Fixture::start(TargetSettings::default(), geometry(512, 64));
        let raw = Raw::initialized(fixture.address).await;
        raw.connect(&Connect::new(0, 31, 0), &connect_data(0xffff))
            .await;
        let entry = |opcode: IoOpcode, kind: u8, address: u64, length: u32| {
            let mut command = command(opcode, 1, 0, 1);
            command.data.kind = kind;
            command.data.address = address.into();
            command.data.length = length.into();
            *command.entry()
        };
        let (read, write) = (IoOpcode::READ, IoOpcode::WRITE);
        let mut prp = entry(read, sgl::TRANSPORT_DATA_BLOCK, 0, 512);
        prp.flags = 0;
        for (what, entry, data, expected) in [
            ("PRPs", prp, 0, Status::INVALID_FIELD),
            (
                "more than MDTS",
                entry(read, sgl::TRANSPORT_DATA_BLOCK, 0, 2 << 20),
                0,
                Status::INVALID_FIELD,
            ),
            (
                "a read into the capsule",
                entry(read, sgl::DATA_BLOCK_OFFSET, 0, 512),
                0,
                Status::SGL_TYPE_INVALID,
            ),
            (
                "an address",
                entry(write, sgl::DATA_BLOCK_ADDRESS, 0, 512),
                512,
                Status::SGL_TYPE_INVALID,
            ),
            (
                "an offset in the capsule",
                entry(write, sgl::DATA_BLOCK_OFFSET, 256, 256),
                512,
                Status::SGL_OFFSET_INVALID,
            ),
            (
                "less in the capsule than said",
                entry(write, sgl::DATA_BLOCK_OFFSET, 0, 1024),
                512,
                Status::DATA_SGL_LENGTH_INVALID,
            ),
        ] {
            let data = vec![0; data];
            assert_eq!(
                raw.command(&entry, &data).await.status().code(),
                expected,
                "{what}"
            );
        }
    });
}

fn deallocate(nsid: u32, ranges: &[(u64, u32)], said: u8) -> (SubmissionEntry, Data) {
    let ranges: Vec<DatasetRange> = ranges
        .iter()
        .map(|(start, blocks)| DatasetRange {
            attributes: 0.into(),
            blocks: (*blocks).into(),
            start: (*start).into(),
        })
        .collect();
    let sgl = SglDescriptor::transport(0);
    let entry = SubmissionEntry::new(IoOpcode::DATASET_MANAGEMENT.0, nsid, sgl);
    let mut command = *DatasetManagement::of(&entry);
    command.ranges_minus_one = said - 1;
    command.attributes = DATASET_DEALLOCATE.into();
    (
        *command.entry(),
        Data::Out(Buffer::copy_of(ranges.as_bytes())),
    )
}

/// Dataset Management deallocates all of its ranges or, when one is wrong, none; Write Zeroes
/// with DEAC deallocates.
#[test]
fn deallocation_is_all_or_nothing() {
    simulate(52, async {
        let fixture = Fixture::start(TargetSettings::default(), geometry(512, 64));
        let controller = fixture.connect(options()).await;
        let queue = controller.queue(0).unwrap();
        let namespace = controller.namespace(1).await.unwrap();
        let ones = Buffer::copy_of(&[1; 64 * 512]);
        namespace
            .write(Lba(0), ones, Durability::Cached)
            .await
            .1
            .unwrap();
        let written = async || {
            let (data, result) = namespace.read(Lba(0), Buffer::new(64 * 512)).await;
            result.unwrap();
            let ones = |block: &&[u8]| block.iter().all(|byte| *byte == 1);
            data.chunks(512).filter(ones).count()
        };
        for (ranges, said, expected, left) in [
            (&[(0, 4), (63, 2)][..], 2, Status::LBA_OUT_OF_RANGE, 64),
            (&[(0, 4)][..], 2, Status::DATA_SGL_LENGTH_INVALID, 64),
            (&[(0, 4), (10, 0), (60, 4)][..], 3, Status::SUCCESS, 56),
        ] {
            let (entry, data) = deallocate(1, ranges, said);
            assert_eq!(status(&queue, &entry, data).await, expected, "{ranges:?}");
            assert_eq!(written().await, left, "{ranges:?}");
        }
        let mut zeroes = command(IoOpcode::WRITE_ZEROES, 1, 8, 8);
        zeroes.control = (control::DEALLOCATE | control::FORCE_UNIT_ACCESS).into();
        assert_eq!(
            status(&queue, zeroes.entry(), Data::None).await,
            Status::SUCCESS
        );
        assert_eq!((written().await, fixture.device.flushes.get()), (48, 1));
    });
}

/// Flush of NSID FFFFFFFFh reaches every namespace.
#[test]
fn flush_of_all_namespaces() {
    simulate(53, async {
        let fixture = Fixture::start(TargetSettings::default(), geometry(512, 64));
        let second = Rc::new(Memory::new(geometry(4096, 64)));
        let added = fixture
            .target
            .add_namespace(&nqn(SUBSYSTEM), namespace(2), Rc::clone(&second));
        added.unwrap();
        let controller = fixture.connect(options()).await;
        let flush = command(IoOpcode::FLUSH, ALL_NAMESPACES, 0, 1);
        let queue = controller.queue(0).unwrap();
        assert_eq!(
            status(&queue, flush.entry(), Data::None).await,
            Status::SUCCESS
        );
        assert_eq!((fixture.device.flushes.get(), second.flushes.get()), (1, 1));
    });
}

/// Discovery reports each port with its family and the address hosts are to use, and each
/// subsystem only on its ports.
#[test]
fn discovery_reports_ports_as_hosts_reach_them() {
    simulate(54, async {
        let fixture = Fixture::start(TargetSettings::default(), geometry(512, 64));
        let port = |id, listen: &str, advertise: Option<&str>| PortSettings {
            id,
            listen: listen.parse().unwrap(),
            advertise: advertise.map(|address| address.parse().unwrap()),
            reuse_port: false,
            tls: false,
            transport: nvme_target::Transport::Tcp,
        };
        fixture
            .target
            .add_port(port(2, "[::1]:4420", None))
            .unwrap();
        let advertised = port(3, "127.0.0.1:4421", Some("10.0.2.2:9000"));
        fixture.target.add_port(advertised).unwrap();
        let mut elsewhere = subsystem("nqn.2024-01.io.flashyard:two", AllowedHosts::Any);
        elsewhere.ports = PortSet::List(vec![2]);
        fixture.target.add_subsystem(elsewhere).unwrap();
        let v6: SocketAddr = "[::1]:4420".parse().unwrap();
        let mut found: Vec<(String, String)> = discover(v6, &options())
            .await
            .unwrap()
            .into_iter()
            .filter(|record| record.subsystem_nqn.contains("flashyard"))
            .map(|record| {
                let address = record.endpoint().unwrap().address;
                (record.subsystem_nqn, address.to_string())
            })
            .collect();
        found.sort();
        let record = |name: &str, address: &str| {
            (
                format!("nqn.2024-01.io.flashyard:{name}"),
                address.to_owned(),
            )
        };
        assert_eq!(
            found,
            [
                record("test", "10.0.2.2:9000"),
                record("test", "127.0.0.1:4420"),
                record("test", "[::1]:4420"),
                record("two", "[::1]:4420"),
            ]
        );
        fixture.target.remove_port(3).unwrap();
        let name = "nqn.2024-01.io.flashyard:two";
        let wrong_port = initiator::Controller::connect(fixture.address, name, options()).await;
        assert!(
            wrong_port.is_err(),
            "a subsystem on a port that is not its own"
        );
    });
}
