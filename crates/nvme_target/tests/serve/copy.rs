//! Copy: what is refused, and what is copied.

use std::rc::Rc;
use std::time::Duration;

use block::{BlockDevice, BlockRange, Buffer, Durability, IoError, Lba};
use initiator::{ConnectOptions, Controller, CopySource, Data, QueuePair};
use nvme::command::control;
use nvme::copy::{CopyCommand, CopyFormat, FAST_COPY_ONLY, SourceRange};
use nvme::identify::{Cns, ControllerData, NamespaceData, oncs};
use nvme::log::{CommandEffects, ErrorEntry, LogPage, effects};
use nvme::reservation::ReservationType;
use nvme::{AdminOpcode, IoOpcode, SglDescriptor, Status, SubmissionEntry};
use nvme_target::{AnaGroupId, PathState, Target, TargetSettings};
use reactor::sim::random_below;
use zerocopy::{FromBytes, IntoBytes};

use crate::device::Memory;
use crate::io::geometry;
use crate::{Fixture, SUBSYSTEM, namespace, nqn, options, simulate};

const OTHER: &str = "nqn.2024-01.io.example:other";

pub(crate) const SECOND: u32 = 2;

/// Two namespaces with so many blocks of 4 KiB.
pub(crate) fn start(blocks: u64) -> (Fixture, Rc<Memory>) {
    let fixture = Fixture::start(TargetSettings::default(), geometry(4096, blocks));
    let second = add(&fixture.target, SECOND, 4096, blocks);
    (fixture, second)
}

fn add(target: &Target<Memory>, nsid: u32, block_bytes: u32, blocks: u64) -> Rc<Memory> {
    let device = Rc::new(Memory::new(geometry(block_bytes, blocks)));
    target
        .add_namespace(&nqn(SUBSYSTEM), namespace(nsid), Rc::clone(&device))
        .unwrap();
    device
}

/// A Copy to namespace 1.
pub(crate) fn copy(
    start: u64,
    format: CopyFormat,
    sources: &[SourceRange],
) -> (SubmissionEntry, Data) {
    let command = CopyCommand::new(1, start, format, sources.len());
    let data = Data::Out(Buffer::copy_of(sources.as_bytes()));
    (*command.entry(), data)
}

fn own(start: u64, blocks: u32) -> SourceRange {
    SourceRange::new(0, start, blocks)
}

/// The status with Do Not Retry, and dword 0.
pub(crate) async fn submit(
    queue: &QueuePair,
    (entry, data): (SubmissionEntry, Data),
) -> (Status, u64) {
    let completion = queue.submit(entry, data).await.1.unwrap();
    (completion.status(), completion.result.get())
}

pub(crate) async fn blocks_of(device: &Memory, start: u64, blocks: usize) -> Vec<u8> {
    let buffer = Buffer::new(blocks * 4096);
    let (data, result) = device.read(Lba(start), buffer).await;
    result.unwrap();
    data.chunks(4096).map(|block| block[0]).collect()
}

/// Block n holds n, and the second device's a hundred more.
pub(crate) async fn fill(device: &Memory, first: u8) {
    for block in 0..device.geometry().block_count.min(100) {
        let data = Buffer::copy_of(&[first + block as u8; 4096]);
        let written = device.write(Lba(block), data, Durability::Cached);
        written.await.1.unwrap();
    }
}

#[test]
fn copies_refuse_by_the_book() {
    simulate(400, async {
        let (fixture, _) = start(8192);
        add(&fixture.target, 3, 512, 64);
        let host = fixture.connect(options()).await;
        let queue = host.queue(0).unwrap();
        let (plain, named) = (CopyFormat::OWN, CopyFormat::NAMED);
        let of = SourceRange::new;
        let mut fast = of(SECOND, 0, 1);
        fast.options = FAST_COPY_ONLY.into();
        let too_much = Status::COMMAND_SIZE_LIMIT_EXCEEDED;
        let (range, field) = (Status::LBA_OUT_OF_RANGE, Status::INVALID_FIELD);
        let missing = Status::INVALID_NAMESPACE;
        for (what, start, format, sources, expected) in [
            ("a copy", 8, plain, &[own(0, 8)][..], Status::SUCCESS),
            ("onto its source", 4, plain, &[own(0, 8)], Status::SUCCESS),
            (
                "the largest one",
                4096,
                plain,
                &[own(0, 2048)],
                Status::SUCCESS,
            ),
            ("a longer range", 0, plain, &[own(4090, 2049)], too_much),
            (
                "more in all",
                0,
                plain,
                &[own(4096, 2000), own(0, 49)],
                too_much,
            ),
            ("more ranges", 256, plain, &[own(0, 1); 129], too_much),
            (
                "many ranges",
                256,
                plain,
                &[own(0, 1); 128],
                Status::SUCCESS,
            ),
            ("a source behind the end", 0, plain, &[own(8190, 3)], range),
            ("a source that wraps", 0, plain, &[own(u64::MAX, 2)], range),
            ("a target behind the end", 8190, plain, &[own(0, 3)], range),
            ("a target that wraps", u64::MAX, plain, &[own(0, 1)], range),
            (
                "a format for 32-bit guards",
                0,
                CopyFormat(1),
                &[own(0, 1)],
                field,
            ),
            ("another of these", 0, CopyFormat(3), &[own(0, 1)], field),
            ("a format for memory", 0, CopyFormat(4), &[own(0, 1)], field),
            ("an unknown format", 0, CopyFormat(15), &[own(0, 1)], field),
            (
                "from another",
                0,
                named,
                &[of(SECOND, 5, 1), of(1, 9, 2)],
                Status::SUCCESS,
            ),
            ("from NSID 0", 0, named, &[of(0, 5, 1)], missing),
            ("from all", 0, named, &[of(u32::MAX, 5, 1)], missing),
            ("from beyond NN", 0, named, &[of(8193, 5, 1)], missing),
            (
                "from none",
                0,
                named,
                &[of(SECOND, 5, 1), of(4, 5, 1)],
                field,
            ),
            (
                "other blocks",
                0,
                named,
                &[of(3, 5, 1)],
                Status::INCOMPATIBLE_NAMESPACE,
            ),
            (
                "onto itself",
                7,
                named,
                &[of(1, 0, 8)],
                Status::OVERLAPPING_RANGE,
            ),
            ("beside itself", 8, named, &[of(1, 0, 8)], Status::SUCCESS),
            (
                "fast or not",
                0,
                named,
                &[fast],
                Status::FAST_COPY_NOT_POSSIBLE,
            ),
        ] {
            let (status, result) = submit(&queue, copy(start, format, sources)).await;
            assert_eq!(status.code(), expected, "{what}");
            assert_eq!(result, 0, "{what}");
            let lasts = !status.is_success();
            assert_eq!(status.is_do_not_retry(), lasts, "{what}");
        }
        // The bit is reserved in that format, and means nothing.
        fast.namespace_id = 0.into();
        assert!(submit(&queue, copy(9, plain, &[fast])).await.0.is_success());

        let refusal = async |change: fn(&mut CopyCommand), bytes: usize| {
            let mut command = CopyCommand::new(1, 0, CopyFormat::OWN, 2);
            change(&mut command);
            let data = Data::Out(Buffer::zeroed(bytes));
            submit(&queue, (*command.entry(), data)).await.0.code()
        };
        let elsewhere = refusal(|command| command.namespace_id = 9.into(), 64);
        assert_eq!(elsewhere.await, Status::INVALID_NAMESPACE);
        let short = refusal(|_| {}, 63);
        assert_eq!(short.await, Status::DATA_SGL_LENGTH_INVALID);
        let directed = refusal(|command| command.control = (1 << 4).into(), 64);
        assert_eq!(directed.await, Status::INVALID_FIELD);
    });
}

/// Identify, the page of effects and what is done agree, and a host that has not enabled the format
/// with namespaces is refused it.
#[test]
fn what_copies_may_have_is_told_and_enabled() {
    simulate(401, async {
        let (fixture, _) = start(64);
        let mut atomic = geometry(512, 4096);
        atomic.power_fail_atomic_blocks = 1024;
        let device = Rc::new(Memory::new(atomic));
        let target = &fixture.target;
        target
            .add_namespace(&nqn(SUBSYSTEM), namespace(3), device)
            .unwrap();
        add(target, 4, 512, 64);
        let host = fixture.connect(options()).await;
        let data = host.identify_structure(Cns::CONTROLLER, 0).await.unwrap();
        let data = ControllerData::read_from_bytes(&data).unwrap();
        assert_eq!(data.copy_formats.get(), 0b101);
        let bits = oncs::COPY | oncs::COPY_SINGLE_ATOMICITY;
        assert_eq!(data.io_commands.get() & bits, bits);
        let log = host.log_page(LogPage::COMMAND_EFFECTS, 0, 0, 4096).await;
        let log = CommandEffects::read_from_bytes(&log.unwrap()).unwrap();
        let effect = log.io[usize::from(IoOpcode::COPY.0)].get();
        let expected = effects::SUPPORTED | effects::CONTENT_CHANGE | effects::OF_NAMESPACE;
        assert_eq!(effect, expected);
        // 8 MiB, and less where more would have to be written as one.
        for (nsid, most) in [(1, (2048, 2048)), (3, (512, 512)), (4, (16384, 16384))] {
            let data = host.identify_structure(Cns::NAMESPACE, nsid).await.unwrap();
            let data = NamespaceData::read_from_bytes(&data).unwrap();
            let found = (data.copy_range_blocks_max.get(), data.copy_blocks_max.get());
            assert_eq!((found, data.copy_ranges_max), (most, 127), "{nsid}");
        }
        let queue = host.queue(0).unwrap();
        let across = || copy(0, CopyFormat::NAMED, &[SourceRange::new(SECOND, 0, 1)]);
        assert!(submit(&queue, across()).await.0.is_success());
        let mut entry = SubmissionEntry::new(
            AdminOpcode::SET_FEATURES.0,
            0,
            SglDescriptor::transport(512),
        );
        entry.dword10[0] = u32::from(nvme::feature::Feature::HOST_BEHAVIOUR.0).into();
        let (_, set) = host.admin(entry, Data::Out(Buffer::zeroed(512))).await;
        assert!(set.unwrap().status().is_success());
        let refused = submit(&queue, across()).await.0;
        assert_eq!(refused, Status::INVALID_FIELD.do_not_retry());
    });
}

/// Whatever is copied from wherever, in whatever pieces, and whatever is refused: blocks are those
/// of a model.
#[test]
fn copies_leave_what_a_model_has() {
    for seed in 410..418 {
        simulate(seed, async {
            const BLOCKS: u64 = 600;
            let (fixture, second) = start(BLOCKS);
            let devices = [Rc::clone(&fixture.device), second];
            let mut model = [vec![0u8; BLOCKS as usize], vec![0u8; BLOCKS as usize]];
            for (device, model) in devices.iter().zip(&mut model) {
                for (block, byte) in (0..).zip(model) {
                    *byte = random_below(256) as u8;
                    let data = Buffer::copy_of(&[*byte; 4096]);
                    let written = device.write(Lba(block), data, Durability::Cached);
                    written.await.1.unwrap();
                }
            }
            let host = fixture.connect(options()).await;
            for _ in 0..60 {
                let to = random_below(2) as usize;
                let volume = host.namespace(to as u32 + 1).await.unwrap();
                let start = random_below(BLOCKS);
                let mut sources = Vec::new();
                let mut blocks = Vec::new();
                for _ in 0..1 + random_below(6) {
                    let from = random_below(2) as usize;
                    let first = random_below(BLOCKS);
                    let count = random_below((BLOCKS - first).min(150) + 1);
                    let range = BlockRange::new(Lba(first), count);
                    let namespace_id = from as u32 + 1;
                    sources.push(CopySource {
                        namespace_id,
                        range,
                    });
                    let found = &model[from][first as usize..(first + count) as usize];
                    blocks.extend_from_slice(found);
                }
                let written = start..start + blocks.len() as u64;
                let overlaps = |source: &CopySource| {
                    let (first, count) = (source.range.start.0, source.range.blocks);
                    source.namespace_id == to as u32 + 1
                        && count > 0
                        && first < written.end
                        && written.start < first + count
                };
                let expected = match written.end <= BLOCKS {
                    false => Err(IoError::OutOfRange),
                    true if sources.iter().any(overlaps) => Err(IoError::InvalidRequest),
                    true => Ok(()),
                };
                let copied = volume.copy(&sources, Lba(start), Durability::Cached).await;
                assert_eq!(copied, expected, "{sources:?} to {start}");
                if copied.is_ok() {
                    model[to][start as usize..][..blocks.len()].copy_from_slice(&blocks);
                }
            }
            for (device, model) in devices.iter().zip(&model) {
                let found = blocks_of(device, 0, BLOCKS as usize).await;
                assert!(found == *model);
            }
        });
    }
}

/// The host library makes as many commands of a copy as limits make necessary.
#[test]
fn a_copy_beyond_the_limits_takes_several_commands() {
    simulate(420, async {
        let (fixture, second) = start(10_000);
        fill(&second, 100).await;
        let host = fixture.connect(options()).await;
        let volume = host.namespace(1).await.unwrap();
        let source = |start, blocks| CopySource {
            namespace_id: SECOND,
            range: BlockRange::new(Lba(start), blocks),
        };
        let whole = [source(0, 9000)];
        volume
            .copy(&whole, Lba(7), Durability::Durable)
            .await
            .unwrap();
        let found = blocks_of(&fixture.device, 7, 100).await;
        assert_eq!(found, (100..200).collect::<Vec<u8>>());
        // Pieces of 256 KiB: 64 each, and of what is left of 8 MiB.
        assert_eq!(fixture.device.durable_writes.get(), 141);
        let single: Vec<CopySource> = (0..100).rev().map(|block| source(block, 1)).collect();
        let many = single.repeat(3);
        volume
            .copy(&many, Lba(0), Durability::Cached)
            .await
            .unwrap();
        let found = blocks_of(&fixture.device, 0, 300).await;
        let once: Vec<u8> = (100..200).rev().collect();
        assert_eq!(found, once.repeat(3));
    });
}

/// What is not longer than what a device writes whole is written at once, whatever number of
/// sources it has.
#[test]
fn a_copy_is_written_as_one_write_where_one_would_be_whole() {
    simulate(421, async {
        let (fixture, second) = start(64);
        let host = fixture.connect(options()).await;
        let queue = host.queue(0).unwrap();
        let sources: Vec<SourceRange> = (0..16)
            .map(|block| SourceRange::new(SECOND, block * 2, 1))
            .collect();
        second.delay.set(Duration::from_secs(1));
        let mut command = CopyCommand::new(1, 3, CopyFormat::NAMED, sources.len());
        command.control = control::FORCE_UNIT_ACCESS.into();
        let data = Data::Out(Buffer::copy_of(sources.as_bytes()));
        let (status, _) = submit(&queue, (*command.entry(), data)).await;
        assert!(status.is_success());
        assert_eq!(fixture.device.durable_writes.get(), 1);
    });
}

/// Dword 0 of a Copy that fails is its first source range that may not be copied, and the error log
/// says which block of which namespace failed.
#[test]
fn a_copy_that_fails_says_where() {
    simulate(422, async {
        let (fixture, second) = start(512);
        let host = fixture.connect(options()).await;
        let queue = host.queue(0).unwrap();
        let of = SourceRange::new;
        let sources = [of(1, 300, 10), of(1, 310, 60), of(SECOND, 20, 30)];
        second.failing.set(Some(IoError::UnrecoveredRead));
        let command = || copy(0, CopyFormat::NAMED, &sources);
        // The first piece has all of the first source and some of the second.
        let (status, range) = submit(&queue, command()).await;
        assert_eq!((status.code(), range), (Status::UNRECOVERED_READ_ERROR, 1));
        let log = host.log_page(LogPage::ERROR, u32::MAX, 0, 64).await;
        let error = ErrorEntry::read_from_bytes(&log.unwrap()).unwrap();
        assert_eq!((error.namespace_id.get(), error.lba.get()), (SECOND, 20));
        let counted = &fixture.target.counters().namespaces;
        assert_eq!((counted[0].errors, counted[1].errors), (0, 1));

        fixture.device.failing.set(Some(IoError::WriteFault));
        let (status, range) = submit(&queue, command()).await;
        assert_eq!((status.code(), range), (Status::WRITE_FAULT, 0));
    });
}

async fn reserve(host: &Controller, opcode: IoOpcode, nsid: u32, keys: [u64; 2]) -> Status {
    let mut entry = SubmissionEntry::new(opcode.0, nsid, SglDescriptor::transport(16));
    if opcode == IoOpcode::RESERVATION_ACQUIRE {
        let kind = ReservationType::from_number(1).unwrap();
        entry.dword10[0] = (u32::from(kind.number()) << 8).into();
    }
    let keys = Data::Out(Buffer::copy_of(&keys.map(u64::to_le_bytes).concat()));
    submit(&host.queue(0).unwrap(), (entry, keys)).await.0
}

/// A Copy reads its sources and writes to its own namespace: Write Exclusive forbids others the one
/// and not the other, and Exclusive Access both.
#[test]
fn a_copy_needs_what_reads_and_writes_need_of_reservations() {
    simulate(423, async {
        let (fixture, _) = start(64);
        let host = fixture.connect(options()).await;
        let holder = fixture.connect(ConnectOptions::new(OTHER)).await;
        let queue = host.queue(0).unwrap();
        let across = || copy(0, CopyFormat::NAMED, &[SourceRange::new(SECOND, 0, 1)]);
        let (register, acquire) = (
            IoOpcode::RESERVATION_REGISTER,
            IoOpcode::RESERVATION_ACQUIRE,
        );
        assert!(
            reserve(&holder, register, SECOND, [0, 5])
                .await
                .is_success()
        );
        assert!(reserve(&holder, acquire, SECOND, [5, 0]).await.is_success());
        assert_eq!(submit(&queue, across()).await.0, Status::SUCCESS);
        assert!(reserve(&holder, register, 1, [0, 5]).await.is_success());
        assert!(reserve(&holder, acquire, 1, [5, 0]).await.is_success());
        let refused = Status::RESERVATION_CONFLICT.do_not_retry();
        assert_eq!(submit(&queue, across()).await.0, refused);
        let own = submit(&queue, copy(0, CopyFormat::OWN, &[own(9, 1)])).await;
        assert_eq!(own.0, refused);
        let holders = holder.queue(0).unwrap();
        assert_eq!(submit(&holders, across()).await.0, Status::SUCCESS);
    });
}

/// A source that cannot be used on this path ends a Copy with its state, as a read of it.
#[test]
fn a_copy_goes_by_the_path_of_each_source() {
    simulate(424, async {
        let (fixture, _) = start(64);
        let host = fixture.connect(options()).await;
        let queue = host.queue(0).unwrap();
        let mut elsewhere = namespace(5);
        elsewhere.group = AnaGroupId::of_pool([7; 16]);
        let device = Rc::new(Memory::new(geometry(4096, 64)));
        let target = &fixture.target;
        target
            .add_namespace(&nqn(SUBSYSTEM), elsewhere, device)
            .unwrap();
        target
            .set_group_path_state(1, elsewhere.group, Some(PathState::Inaccessible))
            .unwrap();
        let across = |nsid| copy(0, CopyFormat::NAMED, &[SourceRange::new(nsid, 0, 1)]);
        let refused = submit(&queue, across(5)).await.0;
        assert_eq!(refused.code(), Status::ANA_INACCESSIBLE);
        assert_eq!(submit(&queue, across(SECOND)).await.0, Status::SUCCESS);
    });
}
