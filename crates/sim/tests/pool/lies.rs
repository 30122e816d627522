//! Drives that lie, one lie at a time: what redundancy makes up for, and what is left to promise
//! where there is none. The table of `docs/pool.md` has the rest, and `promises.rs` tries it.

use crate::support::{BLOCK, Machine, create, read, volume, with_pool, write};
use block::{BlockDevice, Buffer, IoError, Lba};
use pool::{Level, Pool, PoolError, VolumeId};
use sim::{Lie, SimDrive};

/// What the first write leaves in each block, and the second.
const BEFORE: u8 = 1;
const AFTER: u8 = 2;

async fn try_read(pool: &Pool<SimDrive>, id: VolumeId, block: u64) -> Result<u8, IoError> {
    let device = pool.volume(id).expect("the volume");
    let (buffer, result) = device.read(Lba(block), Buffer::new(BLOCK)).await;
    result.map(|()| buffer[0])
}

/// A write that never came, or came to another place, is found out by the first read.
#[test]
fn a_write_that_is_not_where_it_should_be_is_rebuilt_or_fails() {
    let levels = [
        (Level::Raid0, 1, false),
        (Level::Raid1, 2, true),
        (Level::Raid5, 3, true),
        (Level::Raid6, 4, true),
        (Level::Raid10, 4, true),
    ];
    for (level, count, rebuilds) in levels {
        for lie in [Lie::LostWrite, Lie::MisdirectedWrite] {
            with_pool(level, count, async |pool, drives| {
                let id = volume(&pool, "a", 100).await;
                write(&pool, id, 0, 4, BEFORE).await;
                for liar in &drives {
                    liar.lie(lie, 1, 1);
                    write(&pool, id, 0, 4, AFTER).await;
                    liar.tell_truth();
                    for block in 0..4 {
                        let found = try_read(&pool, id, block).await;
                        let is_right = found == Ok(AFTER);
                        let fails = !rebuilds && found == Err(IoError::UnrecoveredRead);
                        assert!(is_right || fails, "{level} {lie:?}: {found:?}");
                    }
                }
            });
        }
    }
}

/// The drive has it right, and brings it wrong once: hosts do not notice.
#[test]
fn wrong_data_on_one_read_is_read_again() {
    with_pool(Level::Raid0, 1, async |pool, drives| {
        let id = volume(&pool, "a", 100).await;
        write(&pool, id, 0, 16, AFTER).await;
        for block in 0..16 {
            drives[0].lie(Lie::WrongRead, 1, 1);
            let found = try_read(&pool, id, block).await;
            assert!(drives[0].has_lied());
            assert_eq!(found, Ok(AFTER), "block {block}");
        }
        let lost = pool.counters().unrecovered_reads;
        assert_eq!(lost, 0, "nothing was lost");
    });
}

/// A pool on one drive, whose host has died after a few writes of which no map knows.
fn dead(machine: &Machine, lie_at: Option<u64>) -> VolumeId {
    let drive = &machine.drives[0];
    let written = machine.live(1, u64::MAX, async {
        let pool = create(&machine.drives, Level::Raid0).await;
        let id = volume(&pool, "a", 100).await;
        for block in 0..WRITES {
            write(&pool, id, block, 1, BEFORE).await;
        }
        pool.checkpoint().await.expect("a checkpoint");
        for block in 0..WRITES {
            if lie_at == Some(block) {
                drive.lie(Lie::LostWrite, 1, 1);
            }
            write(&pool, id, block, 1, AFTER).await;
        }
        id
    });
    drive.tell_truth();
    written.expect("written")
}

const WRITES: u64 = 5;

/// A stripe that one read calls torn is read again: it was acknowledged.
#[test]
fn wrong_data_on_one_read_of_a_replay_tears_no_stripe() {
    for nth in 0..60 {
        let machine = Machine::new(3 + nth, 1);
        let id = dead(&machine, None);
        let drive = &machine.drives[0];
        drive.lie(Lie::WrongRead, 1 + nth % 20, 1);
        let found = machine.live(2, u64::MAX, async {
            let pool = machine.open(&machine.drives, 2).await.expect("it opens");
            let mut found = Vec::new();
            for block in 0..WRITES {
                found.push(read(&pool, id, block, 1).await[0]);
            }
            pool.close().await.expect("closed");
            found
        });
        assert_eq!(found, Some(vec![AFTER; WRITES as usize]), "{nth}");
    }
}

/// A lost write is known by the stripes behind it: the pool is refused. Behind the last one there
/// is none, and the block is what it was before.
#[test]
fn a_stripe_that_was_lost_is_missed_but_for_the_last_one() {
    for lie_at in 0..WRITES {
        let machine = Machine::new(7, 1);
        let id = dead(&machine, Some(lie_at));
        let opened = machine.live(2, u64::MAX, async {
            let pool = machine.open(&machine.drives, 2).await?;
            Ok::<u8, PoolError>(read(&pool, id, lie_at, 1).await[0])
        });
        match opened.expect("it ends") {
            Ok(byte) => assert_eq!((lie_at, byte), (WRITES - 1, BEFORE)),
            Err(error) => {
                let misses = matches!(error, PoolError::LogDamaged(_));
                assert!(misses && lie_at < WRITES - 1, "{lie_at}: {error}");
            }
        }
    }
}
