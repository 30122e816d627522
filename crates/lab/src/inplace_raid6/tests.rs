//! The array against the contract of devices, with and without lost drives, and what it costs.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use block::conformance::{self, Plan};
use block::{BlockDevice, BlockRange, Buffer, Durability, Geometry, IoError, Lba};
use drive::{Drive, FaultControl, FaultyDrive, MemoryDrive, Operation};
use reactor::Reactor;

use super::{ArrayError, InplaceRaid6, Traffic};
use crate::load::SplitMix;

const BLOCK: usize = 4096;
const STRIP: u32 = 4 * BLOCK as u32;

fn memory_drives(count: usize, block_bytes: u32, blocks: u64) -> Vec<Drive> {
    let geometry = Geometry::new(block_bytes, blocks).unwrap();
    (0..count)
        .map(|_| Drive::from(MemoryDrive::new(geometry)))
        .collect()
}

fn faulty_drives(count: usize, blocks: u64) -> (Vec<FaultyDrive>, Vec<FaultControl>) {
    let geometry = Geometry::new(BLOCK as u32, blocks).unwrap();
    let drives: Vec<FaultyDrive> = (0..count)
        .map(|nth| FaultyDrive::over_memory(geometry, nth as u64))
        .collect();
    let controls = drives.iter().map(FaultyDrive::control).collect();
    (drives, controls)
}

impl<D> InplaceRaid6<D> {
    /// Undoes [`InplaceRaid6::fail`], which nothing was written since.
    fn find_all_drives(&self) {
        self.members
            .iter()
            .for_each(|member| member.lost.set(false));
    }
}

async fn write(array: &InplaceRaid6<impl BlockDevice>, start: u64, data: &[u8]) {
    let (_, result) = array
        .write(Lba(start), Buffer::copy_of(data), Durability::Cached)
        .await;
    assert_eq!(result, Ok(()));
}

async fn read(
    array: &InplaceRaid6<impl BlockDevice>,
    start: u64,
    blocks: usize,
) -> Result<Buffer, IoError> {
    let (buffer, result) = array.read(Lba(start), Buffer::new(blocks * BLOCK)).await;
    result.map(|()| buffer)
}

#[test]
fn a_whole_array_is_a_device() {
    for (seed, drives, block_bytes, strip_bytes) in [
        (1, 4, 512, 512),
        (2, 6, 4096, 16384),
        (3, 9, 512, 2048),
        (4, 24, 4096, 4096),
    ] {
        Reactor::simulated(seed).run(async move {
            let drives = memory_drives(drives, block_bytes, 100);
            let array = InplaceRaid6::create(drives, strip_bytes).await.unwrap();
            conformance::check(&array, Plan::quick(seed)).await.unwrap();
        });
    }
}

#[test]
fn an_array_without_one_or_two_drives_is_a_device() {
    for first in 0..5 {
        for second in first..5 {
            let seed = first as u64 * 5 + second as u64;
            Reactor::simulated(seed).run(async move {
                let array = InplaceRaid6::create(memory_drives(5, 512, 100), 2048)
                    .await
                    .unwrap();
                assert!(array.fail(first) && array.fail(second));
                let plan = Plan {
                    operations: 200,
                    ..Plan::quick(seed)
                };
                conformance::check(&array, plan).await.unwrap();
            });
        }
    }
}

#[test]
fn what_was_written_to_a_whole_array_is_there_without_any_two_drives() {
    Reactor::simulated(7).run(async {
        let array = InplaceRaid6::create(memory_drives(6, 4096, 64), STRIP)
            .await
            .unwrap();
        let blocks = array.geometry().block_count as usize;
        let mut model = vec![0; blocks * BLOCK];
        let mut random = SplitMix::new(7);
        for _ in 0..300 {
            let start = random.below(blocks as u64) as usize;
            let count = 1 + random.below((blocks - start).min(40) as u64) as usize;
            let bytes = &mut model[start * BLOCK..][..count * BLOCK];
            bytes.fill_with(|| random.below(256) as u8);
            write(&array, start as u64, bytes).await;
        }
        for first in 0..6 {
            for second in first..6 {
                assert!(array.fail(first) && array.fail(second));
                let found = read(&array, 0, blocks).await.unwrap();
                assert!(
                    found[..] == model[..],
                    "without drives {first} and {second}"
                );
                array
                    .members
                    .iter()
                    .for_each(|member| member.lost.set(false));
            }
        }
    });
}

/// Many tasks write interleaved blocks, so that they meet in every stripe, while drives die.
#[test]
fn drives_that_die_under_concurrent_writes_lose_nothing() {
    const TASKS: u64 = 16;
    for seed in 0..20 {
        Reactor::simulated(seed).run(async move {
            let (drives, controls) = faulty_drives(6, 64);
            for control in &controls {
                control.set_delay(Duration::from_micros(10)..Duration::from_micros(200));
            }
            let array = Rc::new(InplaceRaid6::create(drives, STRIP).await.unwrap());
            let blocks = array.geometry().block_count;
            let model = Rc::new(RefCell::new(vec![0u64; blocks as usize]));
            let tasks: Vec<_> = (0..TASKS)
                .map(|task| {
                    let (array, model) = (array.clone(), model.clone());
                    reactor::spawn(async move {
                        let mut random = SplitMix::new(seed * TASKS + task);
                        for _ in 0..60 {
                            let block = random.below(blocks / TASKS) * TASKS + task;
                            if random.below(3) == 0 {
                                let found = read(&array, block, 1).await.unwrap();
                                let expected = model.borrow()[block as usize];
                                assert_eq!(found[..8], expected.to_le_bytes());
                            } else {
                                let stamp = random.below(u64::MAX);
                                let data = stamp.to_le_bytes().repeat(BLOCK / 8);
                                write(&array, block, &data).await;
                                model.borrow_mut()[block as usize] = stamp;
                            }
                        }
                    })
                })
                .collect();
            let first = (seed % 6) as usize;
            reactor::sleep(Duration::from_millis(2)).await;
            controls[first].kill();
            reactor::sleep(Duration::from_millis(2)).await;
            controls[(first + 1 + (seed % 5) as usize) % 6].kill();
            for task in tasks {
                task.await;
            }
            assert_eq!(
                array.lost_drives(),
                2,
                "seed {seed}: both dead drives were noticed"
            );
            for block in 0..blocks {
                let found = read(&array, block, 1).await.unwrap();
                let expected = model.borrow()[block as usize]
                    .to_le_bytes()
                    .repeat(BLOCK / 8);
                assert!(found[..] == expected[..], "seed {seed}: block {block}");
            }
        });
    }
}

#[test]
fn a_small_write_is_three_reads_and_three_writes_in_two_round_trips() {
    Reactor::simulated(1).run(async {
        let (drives, controls) = faulty_drives(24, 64);
        let array = InplaceRaid6::create(drives, STRIP).await.unwrap();
        for control in &controls {
            control.set_delay(Duration::from_micros(100)..Duration::from_micros(101));
        }
        let start = reactor::now();
        write(&array, 5, &[1; BLOCK]).await;
        let took = reactor::now() - start;
        let expected = Traffic {
            reads: 3,
            read_blocks: 3,
            writes: 3,
            written_blocks: 3,
        };
        assert_eq!(array.traffic(), expected);
        assert!(
            (200..220).contains(&took.as_micros()),
            "virtual time: {took:?}"
        );
    });
}

#[test]
fn a_write_of_whole_stripes_reads_nothing() {
    Reactor::simulated(1).run(async {
        let array = InplaceRaid6::create(memory_drives(6, 4096, 64), STRIP)
            .await
            .unwrap();
        write(&array, 16, &[1; 32 * BLOCK]).await;
        let expected = Traffic {
            reads: 0,
            read_blocks: 0,
            writes: 12,
            written_blocks: 48,
        };
        assert_eq!(array.traffic(), expected);
    });
}

/// Two drives cannot read their part of the first stripe: it reads all the same, small writes
/// get around it, and once they have been everywhere, parity is right again.
async fn survives_unreadable(unreadable: [usize; 2]) {
    let (drives, controls) = faulty_drives(6, 64);
    let array = InplaceRaid6::create(drives, STRIP).await.unwrap();
    let data: Vec<u8> = (0..16 * BLOCK).map(|byte| (byte / 5) as u8).collect();
    write(&array, 0, &data).await;
    for drive in unreadable {
        controls[drive].make_unreadable(BlockRange::new(Lba(0), 4));
    }
    let found = read(&array, 0, 16).await.unwrap();
    assert!(found[..] == data[..], "{unreadable:?} unreadable");
    for block in 0..16 {
        write(&array, block, &[9; BLOCK]).await;
    }
    assert_eq!(array.lost_drives(), 0);
    for first in 0..6 {
        for second in first..6 {
            assert!(array.fail(first) && array.fail(second));
            let found = read(&array, 0, 16).await.unwrap();
            let right = found.iter().all(|&byte| byte == 9);
            assert!(
                right,
                "{unreadable:?} were unreadable, {first} and {second} are lost"
            );
            array.find_all_drives();
        }
    }
}

#[test]
fn blocks_that_drives_cannot_read_are_reconstructed_and_renewed() {
    for first in 0..6 {
        for second in first..6 {
            Reactor::simulated(1).run(survives_unreadable([first, second]));
        }
    }
}

#[test]
fn a_drive_that_fails_a_write_is_not_read_again() {
    for drive in 0..6 {
        Reactor::simulated(drive).run(async move {
            let (drives, controls) = faulty_drives(6, 64);
            let array = InplaceRaid6::create(drives, STRIP).await.unwrap();
            write(&array, 0, &[1; 16 * BLOCK]).await;
            controls[drive as usize].fail_next(Operation::Write, IoError::WriteFault, 1);
            write(&array, 0, &[2; 16 * BLOCK]).await;
            let found = read(&array, 0, 16).await.unwrap();
            assert!(found.iter().all(|&byte| byte == 2), "drive {drive}");
            assert_eq!(array.lost_drives(), 1);
        });
    }
}

#[test]
fn a_third_lost_drive_is_an_error_and_nothing_else() {
    Reactor::simulated(1).run(async {
        let (drives, controls) = faulty_drives(6, 64);
        let array = InplaceRaid6::create(drives, STRIP).await.unwrap();
        write(&array, 0, &[3; 16 * BLOCK]).await;
        controls.iter().take(3).for_each(FaultControl::kill);
        let everything = read(&array, 0, 16).await.map(|_| ());
        assert_eq!(everything, Err(IoError::UnrecoveredRead));
        let (_, result) = array
            .write(Lba(0), Buffer::zeroed(16 * BLOCK), Durability::Cached)
            .await;
        assert_eq!(result, Err(IoError::WriteFault));
        assert_eq!(array.flush().await, Err(IoError::WriteFault));
        assert_eq!(array.lost_drives(), 3);
    });
}

#[test]
fn drives_that_make_no_array_are_refused() {
    let refused = |drives, strip_bytes| {
        let Err(error) = InplaceRaid6::open(drives, strip_bytes) else {
            panic!("accepted")
        };
        error
    };
    assert_eq!(
        refused(memory_drives(3, 4096, 64), STRIP),
        ArrayError::Drives(3)
    );
    assert_eq!(
        refused(memory_drives(258, 4096, 64), STRIP),
        ArrayError::Drives(258)
    );
    assert_eq!(
        refused(memory_drives(4, 4096, 3), STRIP),
        ArrayError::StripBytes(STRIP)
    );
    assert_eq!(
        refused(memory_drives(4, 4096, 64), 0),
        ArrayError::StripBytes(0)
    );
    assert_eq!(
        refused(memory_drives(4, 4096, 64), 5000),
        ArrayError::StripBytes(5000)
    );
    let mut mixed = memory_drives(4, 4096, 64);
    mixed.extend(memory_drives(1, 512, 64));
    assert_eq!(refused(mixed, STRIP), ArrayError::BlockBytes(4096, 512));
}
