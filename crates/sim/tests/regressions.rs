//! Every fault that the simulation found in the pool, as small as it could be made.

use block::{BlockDevice, Buffer, Durability, Lba};
use pool::{CreateOptions, Entropy, HostId, Level, Pool, Settings, VolumeId, VolumeOptions};
use reactor::Reactor;
use sim::{Power, SimDrive};

const BLOCK: usize = 4096;

/// Runs `work` on a new pool of `level` over `drives` drives that do nothing wrong.
fn with_pool<F: Future>(
    level: Level,
    drives: usize,
    work: impl FnOnce(Pool<SimDrive>, Vec<SimDrive>) -> F,
) {
    let power = Power::new(1);
    power.switch_on(u64::MAX);
    let drives: Vec<SimDrive> = (0..drives)
        .map(|_| SimDrive::new(1300, power.clone()))
        .collect();
    let reactor = Reactor::simulated(7);
    reactor.run(async {
        let options = CreateOptions {
            zone_bytes: Some(32 * BLOCK as u64),
            settings: Settings {
                map_cache_bytes: 0,
                ..Settings::default()
            },
            entropy: Entropy::seeded(3),
            ..CreateOptions::new("tank", level, HostId([1; 16]))
        };
        let pool = Pool::create(drives.clone(), options).await.expect("a pool");
        work(pool.clone(), drives).await;
        pool.close().await.expect("closed");
    });
}

async fn volume(pool: &Pool<SimDrive>, name: &str, blocks: u64) -> VolumeId {
    let options = VolumeOptions {
        bytes: blocks * BLOCK as u64,
        attributes: Vec::new(),
    };
    pool.create_volume(name, options).await.expect("a volume")
}

async fn write(pool: &Pool<SimDrive>, id: VolumeId, start: u64, blocks: u64, byte: u8) {
    let mut buffer = Buffer::new(blocks as usize * BLOCK);
    buffer.fill(byte);
    let device = pool.volume(id).expect("the volume");
    device
        .write(Lba(start), buffer, Durability::Durable)
        .await
        .1
        .expect("written");
}

async fn read(pool: &Pool<SimDrive>, id: VolumeId, start: u64, blocks: u64) -> Vec<u8> {
    let device = pool.volume(id).expect("the volume");
    let (buffer, result) = device
        .read(Lba(start), Buffer::new(blocks as usize * BLOCK))
        .await;
    result.expect("read");
    buffer.to_vec()
}

/// The read had looked up the volume's layer once; the layer was folded away under it and the rest
/// of its blocks read as zeroes.
#[test]
fn a_read_that_outlasts_a_snapshot_sees_the_volume() {
    with_pool(Level::Raid1, 2, async |pool, _| {
        let id = volume(&pool, "a", 200).await;
        for block in (0..200).rev() {
            write(&pool, id, block, 1, 9).await;
        }
        pool.checkpoint().await.expect("checkpoint");
        let reader = reactor::spawn({
            let pool = pool.clone();
            async move { read(&pool, id, 0, 200).await }
        });
        reactor::yield_now().await;
        let snapshots = pool
            .snapshot(&[(id, "s".to_owned())])
            .await
            .expect("a snapshot");
        pool.delete_snapshot(snapshots[0]).await.expect("deleted");
        assert!(!reader.is_finished(), "the read is to outlast both");
        assert!(reader.await.iter().all(|byte| *byte == 9));
    });
}

/// With a drive lost, segments are narrower: the room behind the last stripe was reckoned as if
/// they were not, and a write that did not fit waited for ever.
#[test]
fn writes_go_on_in_the_narrower_segments_of_a_degraded_pool() {
    with_pool(Level::Raid6, 6, async |pool, _| {
        let id = volume(&pool, "a", 600).await;
        let drive = pool.status().drives[2].id;
        pool.fail_drive(drive).await.expect("one drive may fail");
        for start in 0..36 {
            write(&pool, id, start * 16, 16, start as u8).await;
        }
        for start in 0..36 {
            assert!(
                read(&pool, id, start * 16, 16)
                    .await
                    .iter()
                    .all(|byte| *byte == start as u8)
            );
        }
    });
}

/// A lost drive's blocks move to the others, the pool forgets the drive, and may lose more.
#[test]
fn a_pool_that_has_rebuilt_survives_the_next_losses() {
    with_pool(Level::Raid6, 7, async |pool, drives| {
        let id = volume(&pool, "a", 400).await;
        for start in 0..25 {
            write(&pool, id, start * 16, 16, start as u8).await;
        }
        for lost in 0..4 {
            let drive = pool.status().drives[0].id;
            pool.fail_drive(drive).await.expect("a drive may fail");
            reactor::sleep(std::time::Duration::from_secs(1)).await;
            let status = pool.status();
            assert_eq!(
                status.drives.len(),
                drives.len() - 1 - lost,
                "{}",
                pool.describe()
            );
            assert_eq!(pool.spare_members(), 2);
        }
        for start in 0..25 {
            assert!(
                read(&pool, id, start * 16, 16)
                    .await
                    .iter()
                    .all(|byte| *byte == start as u8)
            );
        }
    });
}
