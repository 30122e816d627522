//! The faulty drive fails as its fault model says, and in no other way.
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use block::{BlockDevice, BlockRange, Buffer, Durability, Geometry, IoError, Lba};
use drive::{FaultControl, FaultyDrive, MemoryDrive, Operation};
use reactor::{Reactor, sim, sleep, spawn};

const BLOCKS: u64 = 32;

fn geometry() -> Geometry {
    Geometry {
        volatile_write_cache: true,
        deallocates: true,
        power_fail_atomic_blocks: 2,
        ..Geometry::new(512, BLOCKS).unwrap()
    }
}

fn faulty(seed: u64) -> (Rc<FaultyDrive>, FaultControl) {
    let drive = FaultyDrive::over_memory(geometry(), seed);
    let control = drive.control();
    (Rc::new(drive), control)
}

async fn write(drive: &FaultyDrive, at: u64, fill: &[u8], how: Durability) -> Result<(), IoError> {
    let mut buffer = Buffer::new(512 * fill.len());
    for (block, byte) in buffer.chunks_mut(512).zip(fill) {
        block.fill(*byte);
    }
    drive.write(Lba(at), buffer, how).await.1
}

/// The byte that fills the block, which must be filled with one.
async fn read(drive: &FaultyDrive, at: u64) -> Result<u8, IoError> {
    let (buffer, result) = drive.read(Lba(at), Buffer::new(512)).await;
    result?;
    assert!(
        buffer.iter().all(|byte| *byte == buffer[0]),
        "block {at} is a mixture"
    );
    Ok(buffer[0])
}

#[test]
fn errors_come_as_ordered_and_no_longer() {
    Reactor::simulated(1).run(async {
        let (drive, control) = faulty(1);
        control.fail_next(Operation::Read, IoError::UnrecoveredRead, 2);
        for expected in [
            Err(IoError::UnrecoveredRead),
            Err(IoError::UnrecoveredRead),
            Ok(0),
        ] {
            assert_eq!(read(&drive, 0).await, expected);
        }
        control.set_error_rate(Operation::Write, IoError::WriteFault, 3);
        let mut failures = 0;
        for _ in 0..300 {
            failures += u32::from(write(&drive, 0, &[1], Durability::Cached).await.is_err());
        }
        assert!((50..150).contains(&failures), "{failures} failures of 300");
        control.fail_next(Operation::Flush, IoError::WriteFault, 1);
        assert_eq!(drive.flush().await, Err(IoError::WriteFault));
        assert_eq!(drive.flush().await, Ok(()));
    });
}

#[test]
fn a_dead_drive_answers_that_it_is_gone_also_to_what_is_in_flight() {
    Reactor::simulated(2).run(async {
        let (drive, control) = faulty(2);
        write(&drive, 3, &[7], Durability::Cached).await.unwrap();
        control.set_delay(Duration::from_micros(10)..Duration::from_micros(20));
        let in_flight = {
            let drive = Rc::clone(&drive);
            spawn(async move { write(&drive, 3, &[8], Durability::Durable).await })
        };
        sleep(Duration::from_micros(1)).await;
        control.kill();
        assert!(control.is_dead());
        assert_eq!(in_flight.await, Err(IoError::DeviceGone));
        assert_eq!(drive.flush().await, Err(IoError::DeviceGone));
        control.revive();
        assert_eq!(read(&drive, 3).await, Ok(7));
        control.stall();
        let stalled = {
            let drive = Rc::clone(&drive);
            spawn(async move { read(&drive, 3).await })
        };
        sleep(Duration::from_secs(60)).await;
        assert!(!stalled.is_finished());
        control.release();
        assert_eq!(stalled.await, Ok(7));
    });
}

#[test]
fn damaged_blocks_heal_when_written() {
    Reactor::simulated(3).run(async {
        let drive = FaultyDrive::over(MemoryDrive::new(geometry()), 3);
        let control = drive.control();
        let block = || async {
            let (buffer, result) = drive.read(Lba(4), Buffer::new(1024)).await;
            result.map(|()| buffer.iter().filter(|byte| **byte != 5).count())
        };
        write(&drive, 4, &[5, 5], Durability::Cached).await.unwrap();
        control.corrupt(BlockRange::new(Lba(4), 1));
        assert_eq!(block().await, Ok(1));
        control.make_unreadable(BlockRange::new(Lba(5), 1));
        assert_eq!(block().await, Err(IoError::UnrecoveredRead));
        write(&drive, 4, &[5, 5], Durability::Cached).await.unwrap();
        assert_eq!(block().await, Ok(0));
        control.lose_next_writes(1);
        write(&drive, 4, &[6, 6], Durability::Durable)
            .await
            .unwrap();
        assert_eq!(block().await, Ok(0));
        control.misdirect_next_writes(1);
        write(&drive, 4, &[6, 6], Durability::Durable)
            .await
            .unwrap();
        let mut places = 0;
        for at in 0..BLOCKS {
            places += u32::from(read(&drive, at).await == Ok(6));
        }
        assert_eq!(places, 2);
    });
}

/// What a block may hold after a power cut: what was durable, or anything written since.
#[derive(Clone, Default)]
struct Allowed {
    values: BTreeSet<u8>,
    newest: u8,
}

/// One random history with a power cut at its end; whether something was lost, and whether a
/// write came apart.
async fn history(seed: u64) -> (bool, bool) {
    let (drive, control) = faulty(seed);
    control.set_delay(Duration::ZERO..Duration::from_micros(5));
    let mut allowed = vec![Allowed::default(); BLOCKS as usize];
    for block in &mut allowed {
        block.values.insert(0);
    }
    let mut last_pair = None;
    for number in 1..=60_u8 {
        match sim::random_below(8) {
            0 => {
                drive.flush().await.unwrap();
                for block in &mut allowed {
                    block.values = BTreeSet::from([block.newest]);
                }
            }
            1 => {
                let at = sim::random_below(BLOCKS);
                write(&drive, at, &[number], Durability::Durable)
                    .await
                    .unwrap();
                allowed[at as usize].newest = number;
                allowed[at as usize].values = BTreeSet::from([number]);
            }
            _ => {
                let at = sim::random_below(BLOCKS - 3);
                write(&drive, at, &[number; 4], Durability::Cached)
                    .await
                    .unwrap();
                for block in &mut allowed[at as usize..at as usize + 4] {
                    block.newest = number;
                    block.values.insert(number);
                }
                last_pair = Some((at, number));
            }
        }
    }
    control.power_cut();
    assert_eq!(drive.flush().await, Err(IoError::DeviceGone));
    control.revive();
    let mut found = Vec::new();
    for (at, allowed) in (0..).zip(&allowed) {
        let value = read(&drive, at).await.unwrap();
        assert!(
            allowed.values.contains(&value),
            "seed={seed}: block {at} holds {value}"
        );
        found.push(value);
    }
    let lost = found
        .iter()
        .zip(&allowed)
        .any(|(value, allowed)| *value != allowed.newest);
    // The last write of four blocks is two atomic units of two, if nothing has overwritten it.
    let Some((at, number)) = last_pair else {
        return (lost, false);
    };
    let at = at as usize;
    let whole = allowed[at..at + 4]
        .iter()
        .all(|block| block.newest == number);
    let survived: Vec<bool> = found[at..at + 4]
        .iter()
        .map(|value| *value == number)
        .collect();
    if whole {
        assert_eq!(
            survived[0], survived[1],
            "seed={seed}: an atomic unit was torn"
        );
        assert_eq!(
            survived[2], survived[3],
            "seed={seed}: an atomic unit was torn"
        );
    }
    (lost, whole && survived[0] != survived[2])
}

#[test]
fn a_power_cut_loses_and_tears_only_what_was_not_durable() {
    let outcomes: Vec<_> = (0..200)
        .map(|seed| Reactor::simulated(seed).run(history(seed)))
        .collect();
    let lost = outcomes.iter().filter(|outcome| outcome.0).count();
    let torn = outcomes.iter().filter(|outcome| outcome.1).count();
    assert!(
        (20..200).contains(&lost),
        "{lost} of 200 cuts lost something"
    );
    assert!(torn > 10, "{torn} of 200 cuts tore a write");
}

#[test]
fn one_seed_gives_one_history() {
    let run = |seed| {
        Reactor::simulated(seed).run(async {
            let outcome = history(seed).await;
            (outcome, sim::trace_hash())
        })
    };
    for seed in 0..10 {
        assert_eq!(run(seed), run(seed));
    }
}
