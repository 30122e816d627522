//! Pools that are all but full, and then lose a drive, or are to let one go.

use crate::sharded;
use crate::support::{
    BLOCK, HOST, assert_runs, rest, settle, try_write, volume, with_drives_of, with_pool,
    write_runs,
};
use block::{BlockDevice, BlockRange, IoError, Lba};
use pool::{
    CreateOptions, Entropy, Level, OpenOptions, Pool, PoolError, PoolState, PoolVolume, Settings,
};
use sim::{Random, SimDrive};
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

/// As many updates to a checkpoint, beside what the maps hold, as by default in a pool of some
/// terabytes: what is kept for them must not hide what is kept for the maps.
fn settings() -> Settings {
    Settings {
        checkpoint_updates: 64,
        ..Settings::default()
    }
}

pub async fn create_large(
    drives: &[SimDrive],
    level: Level,
    width: Option<usize>,
) -> Pool<SimDrive> {
    let options = CreateOptions {
        width,
        zone_bytes: Some(32 * BLOCK as u64),
        settings: settings(),
        entropy: Entropy::seeded(3),
        ..CreateOptions::new("tank", level, HOST)
    };
    Pool::create(drives.to_vec(), options)
        .await
        .expect("a pool")
}

/// Fills a volume of so many runs of 16 blocks, each once.
async fn filled(pool: &Pool<SimDrive>, runs: u64) -> PoolVolume<SimDrive> {
    let id = volume(pool, "a", runs * 16).await;
    let device = pool.volume(id).expect("the volume");
    for run in 0..runs {
        let written = try_write(&device, run * 1009 % runs * 16, 16).await;
        written.expect("filled");
    }
    device
}

/// Hosts that overwrite blocks at random until they are stopped.
struct Hosts {
    tasks: Vec<reactor::Task<Result<(), IoError>>>,
    written: Rc<Cell<u64>>,
    ends: Rc<Cell<bool>>,
}

impl Hosts {
    fn overwrite(device: &PoolVolume<SimDrive>, blocks: u64) -> Hosts {
        let random = Rc::new(Random::new(5));
        let written = Rc::new(Cell::new(0));
        let ends = Rc::new(Cell::new(false));
        let tasks = (0..8).map(|_| {
            let (device, random) = (device.clone(), random.clone());
            let (written, ends) = (written.clone(), ends.clone());
            reactor::spawn(async move {
                while !ends.get() {
                    written.set(written.get() + 1);
                    try_write(&device, random.below(blocks), 1).await?;
                }
                Ok(())
            })
        });
        Hosts {
            tasks: tasks.collect(),
            written,
            ends,
        }
    }

    async fn stop(self) -> Result<(), IoError> {
        self.ends.set(true);
        let mut all = Ok(());
        for task in self.tasks {
            all = all.and(task.await);
        }
        all
    }
}

/// The next checkpoint found no room for the maps in segments that were narrower by the drive, and
/// neither did the next opening; what was kept for the cleaner was as good as gone.
fn loses_a_drive_while_full(level: Level, count: usize) {
    with_drives_of(count + 1, 33_000, async |drives| {
        let pool = create_large(&drives[..count], level, None).await;
        let runs = pool.status().usable_bytes / BLOCK as u64 * 99 / 100 / 16;
        let device = filled(&pool, runs).await;
        let hosts = Hosts::overwrite(&device, runs * 16);
        // Right after a checkpoint that has freed nothing, while hosts wait for space.
        let short = || {
            let said = pool.describe();
            let free = pool.status().segments.free;
            free <= 5 && said.contains("replaced: 0") && said.contains("freeable: 0")
        };
        while hosts.written.get() < 4000 || hosts.written.get() < 80_000 && !short() {
            reactor::yield_now().await;
        }
        drives[1].die_after(0);
        settle().await;
        assert_eq!(hosts.stop().await, Ok(()), "{level}");
        settle().await;
        assert_eq!(pool.status().state, PoolState::Degraded);
        let given_back = device.deallocate(BlockRange::new(Lba(0), 8)).await;
        assert_eq!(given_back, Ok(()), "{level}");
        pool.close().await.expect("closed");
        drop((device, pool));
        let left = drives[..count].iter().enumerate();
        let left = left.filter(|(index, _)| *index != 1);
        let left = left.map(|(_, drive)| drive.clone()).collect();
        let options = OpenOptions {
            entropy: Entropy::seeded(4),
            settings: settings(),
            ..OpenOptions::new(HOST)
        };
        let pool = Pool::open(left, options).await.expect("opens");
        assert_eq!(pool.status().state, PoolState::Degraded);
        pool.add_drive(drives[count].clone()).await.expect("joins");
        rest().await;
        assert_eq!(pool.status().state, PoolState::Online, "{level}");
        pool.close().await.expect("closed");
    });
}

#[test]
fn a_full_raid5_goes_on_without_a_drive() {
    loses_a_drive_while_full(Level::Raid5, 3);
}

#[test]
fn a_full_raid6_goes_on_without_a_drive() {
    loses_a_drive_while_full(Level::Raid6, 4);
}

/// Every segment that lay ready was on the drive that left, and none was made until hosts wanted.
#[test]
fn a_removal_that_fits_ends_although_hosts_are_quiet() {
    let others = Cell::new(0);
    with_drives_of(5, 2600, async |drives| {
        let pool = create_large(&drives, Level::Raid6, Some(5)).await;
        others.set(pool.status().usable_bytes / BLOCK as u64);
        pool.close().await.expect("closed");
    });
    let runs = others.get() * 97 / 100 / 16;
    for seed in 1..9 {
        with_drives_of(6, 2600, async move |drives| {
            let pool = create_large(&drives, Level::Raid6, None).await;
            let device = filled(&pool, runs).await;
            let random = Random::new(seed);
            for _ in 0..4 * runs {
                let written = try_write(&device, random.below(runs * 16), 1).await;
                written.expect("overwritten");
            }
            settle().await;
            let removal = pool.remove_drive(pool.status().drives[5].id);
            let removed = reactor::timeout(Duration::from_secs(300), removal).await;
            assert_eq!(removed, Ok(Ok(())), "{seed}: {}", pool.describe());
            pool.close().await.expect("closed");
        });
    }
}

#[test]
fn a_removal_ends_where_blocks_cannot_be_read() {
    with_pool(Level::Raid0, 4, async |pool, drives| {
        let id = volume(&pool, "a", 400).await;
        write_runs(&pool, id, 25).await;
        pool.checkpoint().await.expect("a checkpoint");
        let written = drives[3].blocks_written();
        let (middle, _) = written[written.len() / 2];
        for block in middle..middle + 3 {
            drives[3].make_unreadable(block);
        }
        let removal = pool.remove_drive(pool.status().drives[3].id);
        let removed = reactor::timeout(Duration::from_secs(3600), removal).await;
        assert_eq!(removed, Ok(Err(PoolError::BlocksUnreadable)));
    });
}

#[test]
fn a_rebuild_ends_when_what_could_not_be_read_for_a_moment_can_be() {
    with_pool(Level::Raid5, 5, async |pool, drives| {
        let id = volume(&pool, "a", 1600).await;
        write_runs(&pool, id, 100).await;
        pool.checkpoint().await.expect("a checkpoint");
        let of_runs = |content: &[u8]| content[0] > 0 && content.iter().all(|it| *it == content[0]);
        let mut data = drives[2].blocks_written();
        data.retain(|(_, content)| of_runs(content));
        for (block, _) in &data {
            drives[2].make_unreadable(*block);
        }
        drives[1].die_after(0);
        let _ = pool.checkpoint().await;
        settle().await;
        settle().await;
        assert_eq!(pool.status().state, PoolState::Degraded);
        for (block, content) in data {
            drives[2].put(block, content);
        }
        assert_runs(&pool, id, 100).await;
        for _ in 0..3600 {
            settle().await;
        }
        assert_eq!(
            pool.status().state,
            PoolState::Online,
            "{}",
            pool.describe()
        );
    });
}

/// Another drive goes while new segments lack one already: what was written to them has as much
/// redundancy left as the rest.
#[test]
fn a_full_raid6_that_lacks_a_drive_can_lose_another() {
    with_drives_of(6, 2600, async |drives| {
        let pool = create_large(&drives[..4], Level::Raid6, None).await;
        let runs = pool.status().usable_bytes / BLOCK as u64 * 97 / 100 / 16;
        let id = volume(&pool, "a", runs * 16).await;
        write_runs(&pool, id, runs).await;
        for lost in [1, 3] {
            drives[lost].die_after(0);
            for _ in 0..3 {
                write_runs(&pool, id, runs).await;
                settle().await;
            }
            assert_eq!(pool.status().state, PoolState::Degraded);
            assert_runs(&pool, id, runs).await;
        }
        let found = pool.scrub().await.expect("a scrub");
        assert!(found.lost.is_empty(), "{found:?}");
        for joins in &drives[4..] {
            pool.add_drive(joins.clone()).await.expect("joins");
        }
        rest().await;
        let state = pool.status().state;
        assert_eq!(state, PoolState::Online, "{}", pool.describe());
        assert_runs(&pool, id, runs).await;
        pool.close().await.expect("closed");
    });
}

/// They are narrower than before, so there are some.
#[test]
fn free_segments_are_counted_as_they_can_be_made_without_a_drive() {
    with_drives_of(4, 2600, async |drives| {
        let pool = create_large(&drives, Level::Raid6, None).await;
        let id = volume(&pool, "a", 160).await;
        drives[1].die_after(0);
        write_runs(&pool, id, 10).await;
        settle().await;
        assert!(pool.status().segments.free > 0, "{}", pool.describe());
        pool.close().await.expect("closed");
    });
}

/// Shards beside the first did not know that segments lack a drive, and took none.
#[test]
fn a_full_pool_opened_without_a_drive_is_written_by_every_shard() {
    with_drives_of(4, 5200, async |drives| {
        let pool = sharded::create(2, &drives, Level::Raid6).await;
        let blocks = pool.status().usable_bytes / BLOCK as u64 * 97 / 100 / 16 * 16;
        let id = sharded::volume(&pool, blocks).await;
        let device = pool.volume(id).expect("the volume");
        for start in (0..blocks).step_by(16) {
            sharded::write(&device, start, 16, 1).await;
        }
        pool.close().await.expect("closed");
        drop((device, pool));
        let pool = sharded::open(2, &drives[1..]).await;
        let device = pool.volume(id).expect("the volume");
        for round in 2..5 {
            for start in (0..blocks).step_by(8) {
                sharded::write(&device, start, 4, round).await;
            }
        }
        assert_eq!(pool.status().state, PoolState::Degraded);
        for start in (0..blocks).step_by(8) {
            let found = sharded::read(&device, start, 8).await;
            assert_eq!(found, [4, 4, 4, 4, 1, 1, 1, 1]);
        }
        pool.close().await.expect("closed");
    });
}
