//! What the scenarios share: a pool over simulated drives, and blocks that say who wrote them.

use block::{BlockDevice, Buffer, Durability, IoError, Lba};
use pool::{
    CreateOptions, Entropy, HostId, Level, OpenOptions, Pool, PoolError, PoolEvent, PoolState,
    PoolVolume, Settings, VolumeId, VolumeOptions,
};
use reactor::Reactor;
use sim::{Power, SimDrive};
use std::rc::Rc;
use std::time::Duration;

/// Bytes of a block.
pub const BLOCK: usize = 4096;

/// Who opens the pools.
pub const HOST: HostId = HostId([1; 16]);

/// Who takes them.
pub const OTHER: HostId = HostId([2; 16]);

/// Runs `work` on a new pool of `level` over `drives` drives that do nothing wrong, then closes it.
pub fn with_pool<F: Future>(
    level: Level,
    drives: usize,
    work: impl FnOnce(Pool<SimDrive>, Vec<SimDrive>) -> F,
) {
    with_drives(drives, async |drives| {
        let pool = create(&drives, level).await;
        work(pool.clone(), drives).await;
        if pool.status().state != PoolState::Offline {
            pool.close().await.expect("closed");
        }
    });
}

/// Runs `work` with drives that carry nothing.
pub fn with_drives<F: Future>(drives: usize, work: impl FnOnce(Vec<SimDrive>) -> F) {
    with_drives_of(drives, 1300, work);
}

/// Runs `work` with drives of `blocks` blocks that carry nothing.
pub fn with_drives_of<F: Future>(
    drives: usize,
    blocks: u64,
    work: impl FnOnce(Vec<SimDrive>) -> F,
) {
    let power = Power::new(1);
    power.switch_on(u64::MAX);
    let drives: Vec<SimDrive> = (0..drives)
        .map(|_| SimDrive::new(blocks, power.clone()))
        .collect();
    Reactor::simulated(7).run(async {
        work(drives).await;
    });
}

/// A new pool of segments so small that everything happens soon, and no cache for the map.
pub async fn create(drives: &[SimDrive], level: Level) -> Pool<SimDrive> {
    let options = CreateOptions {
        zone_bytes: Some(32 * BLOCK as u64),
        settings: Settings {
            map_cache_bytes: 0,
            ..Settings::default()
        },
        entropy: Entropy::seeded(3),
        ..CreateOptions::new("tank", level, HOST)
    };
    Pool::create(drives.to_vec(), options)
        .await
        .expect("a pool")
}

/// Opens a pool, or says why not.
pub async fn try_open(
    drives: &[SimDrive],
    seed: u64,
    accept_loss: bool,
) -> Result<Pool<SimDrive>, PoolError> {
    let options = OpenOptions {
        accept_loss,
        entropy: Entropy::seeded(seed),
        ..OpenOptions::new(HOST)
    };
    Pool::open(drives.to_vec(), options).await
}

pub async fn volume(pool: &Pool<SimDrive>, name: &str, blocks: u64) -> VolumeId {
    let options = VolumeOptions {
        bytes: blocks * BLOCK as u64,
        ..VolumeOptions::default()
    };
    pool.create_volume(name, options).await.expect("a volume")
}

/// Writes zeroes, which may be refused.
pub async fn try_write(
    device: &PoolVolume<SimDrive>,
    start: u64,
    blocks: u64,
) -> Result<(), IoError> {
    let buffer = Buffer::zeroed(blocks as usize * BLOCK);
    let written = device.write(Lba(start), buffer, Durability::Durable);
    written.await.1
}

pub async fn write(pool: &Pool<SimDrive>, id: VolumeId, start: u64, blocks: u64, byte: u8) {
    let mut buffer = Buffer::new(blocks as usize * BLOCK);
    buffer.fill(byte);
    let device = pool.volume(id).expect("the volume");
    device
        .write(Lba(start), buffer, Durability::Durable)
        .await
        .1
        .expect("written");
}

pub async fn read(pool: &Pool<SimDrive>, id: VolumeId, start: u64, blocks: u64) -> Vec<u8> {
    let device = pool.volume(id).expect("the volume");
    let (buffer, result) = device
        .read(Lba(start), Buffer::new(blocks as usize * BLOCK))
        .await;
    result.expect("read");
    buffer.to_vec()
}

/// Writes `count` runs of 16 blocks, each full of its own number.
pub async fn write_runs(pool: &Pool<SimDrive>, id: VolumeId, count: u64) {
    for run in 0..count {
        write(pool, id, run * 16, 16, run as u8).await;
    }
}

/// Every byte is what [`write_runs`] left.
pub async fn assert_runs(pool: &Pool<SimDrive>, id: VolumeId, count: u64) {
    for run in 0..count {
        let found = read(pool, id, run * 16, 16).await;
        assert!(found.iter().all(|byte| *byte == run as u8));
    }
}

/// Opens the pool on `drives`.
pub async fn open(drives: &[SimDrive]) -> Pool<SimDrive> {
    let options = OpenOptions {
        entropy: Entropy::seeded(4),
        ..OpenOptions::new(HOST)
    };
    Pool::open(drives.to_vec(), options)
        .await
        .expect("the pool opens")
}

/// Runs `work` until the power of the simulation, which ends it, fails.
pub fn until_cut(power: &Rc<Power>, seed: u64, work: impl Future<Output = ()> + 'static) {
    Reactor::simulated(seed).run(async {
        drop(reactor::spawn(work));
        power.failed().await;
    });
}

/// Takes the pool from whoever has it.
pub async fn take(
    drives: &[SimDrive],
    host: HostId,
    seed: u64,
) -> Result<Pool<SimDrive>, PoolError> {
    let options = OpenOptions {
        force: true,
        entropy: Entropy::seeded(seed),
        ..OpenOptions::new(host)
    };
    Pool::open(drives.to_vec(), options).await
}

/// Everything that waits to be told.
pub async fn told(pool: &Pool<SimDrive>) -> Vec<PoolEvent> {
    let mut told = Vec::new();
    while let Ok(Some(event)) = reactor::timeout(Duration::from_millis(1), pool.next_event()).await
    {
        told.push(event);
    }
    told
}

/// Time for what the pool does by itself.
pub async fn settle() {
    reactor::sleep(Duration::from_secs(1)).await;
}

/// Time for everything that a pool does by itself.
pub async fn rest() {
    for _ in 0..600 {
        settle().await;
    }
}

/// Longer than anything takes that is not stopped by the power's failing.
const LONG: Duration = Duration::from_secs(10);

/// Drives that share a power supply, and outlive what uses them.
pub struct Machine {
    seed: u64,
    pub power: Rc<Power>,
    pub drives: Vec<SimDrive>,
}

impl Machine {
    pub fn new(seed: u64, drives: usize) -> Machine {
        let power = Power::new(seed);
        let drives = (0..drives).map(|_| SimDrive::new(1300, power.clone()));
        Machine {
            seed,
            drives: drives.collect(),
            power,
        }
    }

    /// Lives until `work` ends or the power fails, after so many operations.
    pub fn live<T>(&self, turn: u64, fuse: u64, work: impl Future<Output = T>) -> Option<T> {
        self.power.switch_on(fuse);
        let reactor = Reactor::simulated(self.seed * 10 + turn);
        let done = reactor.run(async { reactor::timeout(LONG, work).await.ok() });
        drop(reactor);
        self.drives.iter().for_each(SimDrive::lose_power);
        done
    }

    pub async fn open(&self, drives: &[SimDrive], turn: u64) -> Result<Pool<SimDrive>, PoolError> {
        let options = OpenOptions {
            entropy: Entropy::seeded(self.seed * 10 + turn),
            ..OpenOptions::new(HOST)
        };
        Pool::open(drives.to_vec(), options).await
    }
}

/// Where the superblocks of a drive lie.
pub fn heads(drive: &SimDrive) -> [u64; 2] {
    [1, drive.geometry().block_count - 1]
}

/// Where their copies are, in the same order, of a drive that has a superblock.
pub fn copies(drive: &SimDrive) -> [u64; 2] {
    let heads = heads(drive).map(|at| drive.content(at));
    let head = heads.iter().find(|head| head.starts_with(b"FLSHYARD"));
    let slot = head.map(|head| &head[128..132]).expect("a superblock");
    let slot = u32::from_le_bytes(slot.try_into().expect("four bytes"));
    [
        u64::from(slot),
        drive.geometry().block_count - u64::from(slot),
    ]
}

/// Gives a drive the content that it had.
pub fn put_back(drive: &SimDrive, image: &[(u64, Vec<u8>)]) {
    for (block, _) in drive.blocks_written() {
        drive.put(block, vec![0; BLOCK]);
    }
    for (block, content) in image {
        drive.put(*block, content.clone());
    }
}
