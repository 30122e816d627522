//! Pools over drives in memory, as these benches want them: fresh, or full and written over.

use std::rc::Rc;

use block::{BlockDevice, Buffer, Durability, Geometry, Lba};
use drive::MemoryDrive;
use lab::load::SplitMix;
use pool::{CreateOptions, HostId, Level, Pool, PoolVolume, VolumeOptions};

pub const BLOCK_BYTES: u64 = 4096;
const DRIVES: u64 = 6;
/// How full the full pool is; the fresh one's volume is as large as a drive.
const FULL_PERCENT: u64 = 80;

/// What is measured, in the order of the rows.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Device {
    Drive,
    FreshPool,
    FullPool,
}

pub const DEVICES: [(Device, &str); 3] = [
    (Device::Drive, "memory drive"),
    (Device::FreshPool, "pool, fresh"),
    (Device::FullPool, "pool, 80% full"),
];

/// A drive of `bytes`.
pub fn drive(bytes: u64) -> MemoryDrive {
    let geometry = Geometry::new(BLOCK_BYTES as u32, bytes / BLOCK_BYTES);
    MemoryDrive::new(geometry.expect("a block size that there is")).keeping_memory()
}

/// A raid6 pool of such drives and its one volume, every block of it written.
pub async fn pool(
    drive_bytes: u64,
    full: bool,
) -> (Pool<MemoryDrive>, Rc<PoolVolume<MemoryDrive>>) {
    let mut drives = Vec::new();
    for _ in 0..DRIVES {
        // The system provides memory when it is first written, which is no work of a pool. That it
        // trims its drives when it is made does not give it back.
        let drive = Rc::new(drive(drive_bytes));
        fill(&drive, drive_bytes / BLOCK_BYTES).await;
        drives.extend(Rc::into_inner(drive));
    }
    let options = CreateOptions::new("bench", Level::Raid6, HostId([1; 16]));
    let pool = Pool::create(drives, options).await.expect("a pool");
    let bytes = match full {
        true => pool.status().unreserved_bytes * FULL_PERCENT / 100,
        false => drive_bytes,
    };
    let blocks = bytes / BLOCK_BYTES;
    let volume = VolumeOptions {
        bytes: blocks * BLOCK_BYTES,
        reserved: false,
        attributes: Vec::new(),
    };
    let volume = pool.create_volume("v", volume).await.expect("a volume");
    let volume = Rc::new(pool.volume(volume).expect("just made"));
    fill(&volume, blocks).await;
    if full {
        // A quarter of it: more than a pool that is so full has room for.
        overwrite(&volume, blocks, blocks / 4).await;
    }
    (pool, volume)
}

/// Writes every block once: memory that was never written costs nothing to read.
pub async fn fill<D: BlockDevice>(device: &Rc<D>, blocks: u64) {
    let mut buffer = Buffer::copy_of(&[7; 128 << 10]);
    for start in (0..blocks).step_by(32) {
        buffer.resize(((blocks - start).min(32) * BLOCK_BYTES) as usize);
        let (back, result) = device.write(Lba(start), buffer, Durability::Durable).await;
        result.expect("it fits");
        buffer = back;
    }
}

/// Writes so many blocks anew, at random.
pub async fn overwrite<D: BlockDevice + 'static>(device: &Rc<D>, blocks: u64, writes: u64) {
    const DEPTH: u64 = 128;
    let tasks: Vec<_> = (0..DEPTH)
        .map(|slot| {
            let device = device.clone();
            reactor::spawn(async move {
                let mut random = SplitMix::new(slot);
                let mut buffer = Buffer::copy_of(&[9; BLOCK_BYTES as usize]);
                for _ in 0..writes / DEPTH {
                    let at = Lba(random.below(blocks));
                    let (back, result) = device.write(at, buffer, Durability::Durable).await;
                    result.expect("overwriting needs no room");
                    buffer = back;
                }
            })
        })
        .collect();
    for task in tasks {
        task.await;
    }
}
