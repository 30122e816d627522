//! Drives that lie do so: without that, nothing that survives them proves anything.

use block::{BlockDevice, BlockRange, Buffer, Durability, Lba};
use reactor::Reactor;
use sim::{Lie, Power, SimDrive};
use std::cell::Cell;
use std::collections::BTreeSet;
use std::rc::Rc;

const BLOCK: usize = 4096;
const BLOCKS: u64 = 100;
/// Where the tests write, and how much.
const AT: u64 = 40;
const COUNT: u64 = 8;

/// A drive whose blocks are all `1`, durably.
async fn full(power: &Rc<Power>) -> SimDrive {
    let drive = SimDrive::new(BLOCKS, power.clone());
    write(&drive, 0, BLOCKS, 1, Durability::Durable).await;
    drive
}

async fn write(drive: &SimDrive, at: u64, count: u64, byte: u8, durability: Durability) {
    let mut buffer = Buffer::new(count as usize * BLOCK);
    buffer.fill(byte);
    let written = drive.write(Lba(at), buffer, durability).await;
    written.1.expect("written, as it says");
}

async fn discard(drive: &SimDrive) {
    let range = BlockRange::new(Lba(AT), COUNT);
    drive.deallocate(range).await.expect("as it says");
}

/// The first byte of each block, as it reads.
async fn read(drive: &SimDrive) -> Vec<u8> {
    let buffer = Buffer::new(BLOCKS as usize * BLOCK);
    let (buffer, result) = drive.read(Lba(0), buffer).await;
    result.expect("read");
    buffer.chunks(BLOCK).map(|block| block[0]).collect()
}

/// The blocks that read otherwise than `expected`.
fn others(found: &[u8], expected: impl Fn(u64) -> u8) -> BTreeSet<u64> {
    let found = (0..).zip(found);
    let others = found.filter(|(block, byte)| **byte != expected(*block));
    others.map(|(block, _)| block).collect()
}

fn inside() -> BTreeSet<u64> {
    (AT..AT + COUNT).collect()
}

/// Runs a test with a drive that lies so, several times.
fn with_liar(lie: Lie, test: impl AsyncFn(SimDrive)) {
    for seed in 1..40 {
        let power = Power::new(seed);
        power.switch_on(u64::MAX);
        Reactor::simulated(seed).run(async {
            let drive = full(&power).await;
            drive.lie(lie, 1, 1);
            test(drive).await;
        });
    }
}

/// What was written where nothing goes wrong.
fn written(block: u64) -> u8 {
    if inside().contains(&block) { 2 } else { 1 }
}

#[test]
fn a_lost_write_leaves_what_was_there() {
    with_liar(Lie::LostWrite, async |drive| {
        write(&drive, AT, COUNT, 2, Durability::Durable).await;
        assert_eq!(others(&read(&drive).await, written), inside());
        write(&drive, AT, COUNT, 2, Durability::Durable).await;
        assert_eq!(others(&read(&drive).await, written), BTreeSet::new());
    });
}

#[test]
fn a_misdirected_write_is_elsewhere() {
    with_liar(Lie::MisdirectedWrite, async |drive| {
        write(&drive, AT, COUNT, 2, Durability::Durable).await;
        let found = others(&read(&drive).await, |_| 1);
        let first = found.first().expect("it is somewhere");
        assert_eq!(found, (*first..*first + COUNT).collect());
    });
}

/// Which blocks are lost the power decides: over all seeds some are, and none is before.
#[test]
fn an_ignored_flush_is_lost_with_the_power() {
    for forced in [true, false] {
        let lost = Cell::new(0);
        with_liar(Lie::IgnoredFlush, async |drive| {
            match forced {
                true => write(&drive, AT, COUNT, 2, Durability::Durable).await,
                false => {
                    write(&drive, AT, COUNT, 2, Durability::Cached).await;
                    drive.flush().await.expect("as it says");
                }
            }
            assert_eq!(others(&read(&drive).await, written), BTreeSet::new());
            drive.lose_power();
            let others = others(&read(&drive).await, written);
            assert!(others.is_subset(&inside()), "{others:?}");
            lost.set(lost.get() + others.len());
        });
        assert!(lost.get() > 0, "forced: {forced}");
    }
}

#[test]
fn wrong_data_is_read_once() {
    with_liar(Lie::WrongRead, async |drive| {
        write(&drive, AT, COUNT, 2, Durability::Durable).await;
        let differs = |buffer: &[u8]| {
            let blocks = (0..).zip(buffer.chunks(BLOCK));
            let wrong = blocks.filter(|(at, block)| block.iter().any(|byte| *byte != written(*at)));
            wrong.count()
        };
        let mut wrong = Vec::new();
        for _ in 0..2 {
            let buffer = Buffer::new(BLOCKS as usize * BLOCK);
            let (buffer, result) = drive.read(Lba(0), buffer).await;
            result.expect("read, as it says");
            wrong.push(differs(&buffer));
        }
        // What lies elsewhere may be the same.
        assert!(wrong[0] <= 1 && wrong[1] == 0, "{wrong:?}");
        assert!(drive.has_lied());
    });
}

#[test]
fn old_content_returns_after_a_write() {
    with_liar(Lie::OldContent, async |drive| {
        // It does not know yet of anything that was written before.
        drive.lie(Lie::OldContent, 1, 0);
        write(&drive, AT, COUNT, 2, Durability::Durable).await;
        assert_eq!(others(&read(&drive).await, written), BTreeSet::new());
        drive.lie(Lie::OldContent, 1, 1);
        let old = others(&read(&drive).await, written);
        assert!(old.len() == 1 && old.is_subset(&inside()), "{old:?}");
    });
}

#[test]
fn a_late_discard_takes_what_was_written_since() {
    with_liar(Lie::LateDiscard, async |drive| {
        discard(&drive).await;
        assert_eq!(others(&read(&drive).await, |_| 1), BTreeSet::new());
        assert!(drive.puts_off_a_discard());
        let mut writes = 0;
        while drive.puts_off_a_discard() {
            write(&drive, AT, COUNT, 2, Durability::Durable).await;
            writes += 1;
        }
        assert!((1..=4).contains(&writes), "{writes} writes");
        let gone = |block: u64| if inside().contains(&block) { 0 } else { 1 };
        assert_eq!(others(&read(&drive).await, gone), BTreeSet::new());
    });
}

#[test]
fn a_bad_discard_is_partial_or_undone_or_leaves_garbage() {
    let (partial, garbage, undone) = (Cell::new(0), Cell::new(0), Cell::new(0));
    let one_more = |count: &Cell<u64>| count.set(count.get() + 1);
    with_liar(Lie::BadDiscard, async |drive| {
        discard(&drive).await;
        let after = read(&drive).await;
        drive.lose_power();
        let later = read(&drive).await;
        let zeroes = |read: &[u8]| {
            let blocks = &read[AT as usize..(AT + COUNT) as usize];
            blocks.iter().filter(|byte| **byte == 0).count() as u64
        };
        match (zeroes(&after), zeroes(&later)) {
            (COUNT, 0) => one_more(&undone),
            (some, same) if some == same && after.iter().all(|byte| *byte < 2) => {
                one_more(&partial);
            }
            _ => one_more(&garbage),
        }
        let outside = |found: &[u8]| others(found, |_| 1).is_subset(&inside());
        assert!(outside(&after) && outside(&later));
    });
    for count in [partial, garbage, undone] {
        assert!(count.get() > 3, "{} of them", count.get());
    }
}
