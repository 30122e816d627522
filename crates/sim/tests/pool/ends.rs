//! Pools whose numbers are near their ends: they serve, outlive crashes, and say by name what has
//! come to its end. Nothing wraps.

use crate::support::{BLOCK, create, open, read, told, try_open, try_write, volume, write};
use block::IoError;
use pool::{Level, Pool, PoolError, PoolEvent, SnapshotId, VolumeId};
use reactor::Reactor;
use sim::crafted::{self, Place};
use sim::{Power, SimDrive};

/// Identifiers below this are given.
const IDS_END: u64 = u32::MAX as u64 - (1 << 20);
/// Generations up to this one are given to segments of data.
const GENERATIONS_END: u64 = u32::MAX as u64 - (1 << 24);
/// Nothing that is counted one by one comes to more.
const COUNT_MAX: u64 = 1 << 60;
/// No segment has this number.
const SEGMENTS_MAX: u64 = 1 << 24;

/// Runs `work` as one life of a host that ends with the power.
fn live<T>(drives: &[SimDrive], turn: u64, work: impl Future<Output = T>) -> T {
    let ended = Reactor::simulated(turn).run(work);
    drives.iter().for_each(SimDrive::lose_power);
    ended
}

/// Drives of a pool that was closed, with a volume of which the first blocks are written.
fn pool_of(level: Level, count: usize) -> (Vec<SimDrive>, VolumeId) {
    let power = Power::new(5);
    power.switch_on(u64::MAX);
    let drives = (0..count).map(|_| SimDrive::new(1300, power.clone()));
    let drives: Vec<SimDrive> = drives.collect();
    let id = live(&drives, 1, async {
        let pool = create(&drives, level).await;
        let id = volume(&pool, "a", 400).await;
        write(&pool, id, 0, 32, 1).await;
        pool.close().await.expect("closed");
        id
    });
    (drives, id)
}

/// Changes numbers of labels of these names.
fn in_labels(drives: &[SimDrive], change: impl Fn(&Place, u64) -> Option<u64>) {
    for drive in drives {
        crafted::alter_labels(drive, |label| {
            for place in crafted::label_places() {
                if let Some(new) = change(&place, place.read(label)) {
                    place.write(label, new);
                }
            }
        });
    }
}

/// The same of tables.
fn in_tables(drives: &[SimDrive], change: impl Fn(&Place, u64) -> Option<u64>) {
    for drive in drives {
        crafted::alter_tables(drive, |tables| {
            for place in crafted::table_places(tables) {
                if let Some(new) = change(&place, place.read(tables)) {
                    place.write(tables, new);
                }
            }
        });
    }
}

async fn take(pool: &Pool<SimDrive>, id: VolumeId, name: String) -> Result<SnapshotId, PoolError> {
    Ok(pool.snapshot(&[(id, name)]).await?[0])
}

/// The last identifiers are given once each. Then changes that take one are refused by name, and
/// all that takes none goes on, in the next life too.
#[test]
fn identifiers_end() {
    let (drives, id) = pool_of(Level::Raid1, 2);
    in_tables(&drives, |place, _| {
        (place.name == "next_id").then_some(IDS_END - 5)
    });
    let mut taken = Vec::new();
    for turn in 0..4 {
        live(&drives, 2 + turn, async {
            let pool = open(&drives).await;
            let seen: Vec<SnapshotId> = pool.snapshots().iter().map(|it| it.id).collect();
            assert_eq!(seen, taken, "turn {turn}");
            assert_eq!(read(&pool, id, 0, 32).await, vec![1; 32 * BLOCK]);
            write(&pool, id, 40 + turn, 1, turn as u8).await;
            match take(&pool, id, format!("s{turn}")).await {
                Ok(snapshot) => taken.push(snapshot),
                Err(error) => {
                    assert!(matches!(error, PoolError::IdsUsedUp), "{error:?}");
                    let cloned = pool.clone_snapshot(taken[0], "b").await;
                    assert!(matches!(cloned, Err(PoolError::IdsUsedUp)), "{cloned:?}");
                    write(&pool, id, 40 + turn, 1, 9).await;
                    assert_eq!(read(&pool, id, 40 + turn, 1).await, vec![9; BLOCK]);
                }
            }
            if turn == 3 {
                for snapshot in &taken {
                    pool.delete_snapshot(*snapshot).await.expect("deleted");
                }
                let scrubbed = pool.scrub().await.expect("scrubbed");
                assert!(scrubbed.lost.is_empty());
                pool.close().await.expect("closed");
            }
        });
    }
    let highest = taken.iter().map(|id| u64::from(id.0)).max();
    assert!((1..4).contains(&taken.len()), "{taken:?}");
    assert!(highest < Some(IDS_END));
}

/// Writes until there is no segment of another generation, in lives that end with the power. What
/// is there can be read, snapshots come and go, and no header counts in another segment's place.
#[test]
fn generations_end() {
    let (drives, id) = pool_of(Level::Raid5, 3);
    let change =
        |place: &Place, _| (place.name == "next_generation").then_some(GENERATIONS_END - 40);
    in_tables(&drives, change);
    let mut refused = None;
    let mut last = [1; 400];
    for turn in 0_u64..8 {
        live(&drives, 2 + turn, async {
            let pool = open(&drives).await;
            for block in 0..32 {
                let found = read(&pool, id, block, 1).await;
                assert_eq!(
                    found,
                    vec![last[block as usize]; BLOCK],
                    "turn {turn}, {block}"
                );
            }
            let device = pool.volume(id).expect("the volume");
            for block in (0..32).cycle().take(600) {
                match try_write(&device, block, 1).await {
                    Ok(()) => last[block as usize] = 0,
                    Err(error) => {
                        refused = Some((turn, error));
                        break;
                    }
                }
            }
            let events = told(&pool).await;
            let ends = events.contains(&PoolEvent::GenerationsEnd);
            assert_eq!(ends, refused.is_some(), "turn {turn}: {events:?}");
            let snapshot = take(&pool, id, "s".to_owned()).await.expect("taken");
            pool.delete_snapshot(snapshot).await.expect("deleted");
        });
    }
    let (turn, error) = refused.expect("generations end");
    assert_eq!(error, IoError::CapacityExceeded, "turn {turn}");
    let next = crafted::tables(&drives[0]);
    let places = crafted::table_places(&next);
    let generation = places.iter().find(|place| place.name == "next_generation");
    let generation = generation.expect("one").read(&next);
    assert!(
        (GENERATIONS_END - 8..GENERATIONS_END + 4096).contains(&generation),
        "{generation}"
    );
}

/// Behind the end a pool is refused by name, and nothing is written to it.
#[test]
fn counts_behind_their_end_are_refused() {
    for name in ["sequence", "incarnation", "epoch"] {
        let (drives, _) = pool_of(Level::Raid0, 1);
        in_labels(&drives, |place, _| {
            (place.name == name).then_some(COUNT_MAX + 2)
        });
        let before = drives[0].blocks_written();
        let refused = live(&drives, 2, async {
            try_open(&drives, 4, false).await.err()
        });
        let refused = refused.expect("refused").to_string();
        assert!(refused.contains(name), "{refused}");
        assert_eq!(drives[0].blocks_written(), before);
    }
}

/// Numbers of segments come round: the next one after the last is one that nobody has.
#[test]
fn numbers_of_segments_come_round() {
    let (drives, id) = pool_of(Level::Raid1, 2);
    live(&drives, 2, async {
        let pool = open(&drives).await;
        pool.delete_volume(id).await.expect("deleted");
        for _ in 0..4 {
            pool.checkpoint().await.expect("a checkpoint");
        }
        pool.close().await.expect("closed");
    });
    for drive in &drives {
        crafted::alter_tables(drive, |tables| {
            let places = crafted::table_places(tables);
            let mut numbers = places.iter().filter(|it| it.name == "segment number");
            // Nothing lives anywhere, so nobody names the last of them.
            numbers
                .next_back()
                .expect("some")
                .write(tables, SEGMENTS_MAX - 2);
        });
    }
    let mut made = None;
    for turn in 0_u64..3 {
        live(&drives, 3 + turn, async {
            let pool = open(&drives).await;
            let id = match made {
                Some(id) => id,
                None => *made.insert(volume(&pool, "b", 400).await),
            };
            for round in 0..60 {
                write(&pool, id, round % 40 * 10, 10, (turn + round) as u8).await;
            }
            for block in 0..40 {
                let round = if block < 20 { 40 + block } else { block };
                let found = read(&pool, id, block * 10, 10).await;
                assert!(found.iter().all(|byte| *byte == (turn + round) as u8));
            }
        });
    }
    let tables = crafted::tables(&drives[0]);
    let places = crafted::table_places(&tables);
    let numbers = places.iter().filter(|it| it.name == "segment number");
    let numbers: Vec<u64> = numbers.map(|place| place.read(&tables)).collect();
    assert!(numbers.iter().all(|number| *number < SEGMENTS_MAX));
    assert!(
        numbers.contains(&(SEGMENTS_MAX - 1)) || numbers.iter().any(|it| *it < 100),
        "{numbers:?}"
    );
}
/// Stripes, superblocks, openings and changes of members count on near the end of what is taken for
/// a count: a pool serves, and is replayed, as any other.
#[test]
fn counts_go_on_near_their_end() {
    let behind = COUNT_MAX - 4000;
    for (level, count) in [(Level::Raid0, 1), (Level::Raid6, 4)] {
        let (drives, id) = pool_of(level, count);
        let of_labels = ["sequence", "closed", "content", "incarnation", "epoch"];
        in_labels(&drives, |place, now| {
            (of_labels.contains(&place.name) && now > 0).then(|| now + behind)
        });
        let of_tables = ["shard sequence", "segment sequence"];
        in_tables(&drives, |place, now| {
            of_tables.contains(&place.name).then(|| now + behind)
        });
        for turn in 0_u64..5 {
            live(&drives, 2 + turn, async {
                let pool = open(&drives).await;
                assert_eq!(pool.snapshots().len() as u64, turn, "{level}");
                for block in 0..turn {
                    let found = read(&pool, id, 100 + block, 1).await;
                    assert_eq!(found, vec![block as u8 + 1; BLOCK], "{level}");
                }
                take(&pool, id, format!("s{turn}")).await.expect("taken");
                write(&pool, id, 100 + turn, 1, turn as u8 + 1).await;
            });
        }
        live(&drives, 9, async {
            let pool = open(&drives).await;
            let scrubbed = pool.scrub().await.expect("scrubbed");
            assert!(scrubbed.lost.is_empty(), "{level}");
            pool.close().await.expect("closed");
        });
    }
}
