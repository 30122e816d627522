//! Pools over drives in memory, as these benches want them: fresh, or full and written over.

use std::rc::Rc;

use block::{BlockDevice, Buffer, Durability, Geometry, Lba};
use drive::MemoryDrive;
use lab::load::SplitMix;
use pool::{CreateOptions, HostId, Level, Pool, PoolVolume, VolumeOptions};

pub const BLOCK_BYTES: u64 = 4096;
const DRIVES: u64 = 6;
/// Of the drive that is measured and those of pools that are full, and of volumes elsewhere.
const DRIVE_BYTES: u64 = 512 << 20;
/// What the loads write in a few seconds finds room in a pool of such drives: there is nothing to
/// clean yet.
const ROOMY_DRIVE_BYTES: u64 = 3 << 29;

/// What is measured.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Device {
    Drive,
    /// Of roomy drives, with little in it.
    FreshPool,
    /// Full to so many percent, and written over: what is written has to be cleaned up behind.
    WornPool(u64),
}

/// In the order of the rows.
pub const DEVICES: [(Device, &str); 4] = [
    (Device::Drive, "memory drive"),
    (Device::FreshPool, "pool, fresh"),
    (Device::WornPool(25), "pool, 25% full"),
    (Device::WornPool(80), "pool, 80% full"),
];

/// A drive, every block of it written: the system provides memory when it is first written, which
/// is no work of what is measured.
pub async fn drive() -> Rc<MemoryDrive> {
    filled_drive(DRIVE_BYTES).await
}

async fn filled_drive(bytes: u64) -> Rc<MemoryDrive> {
    let geometry = Geometry::new(BLOCK_BYTES as u32, bytes / BLOCK_BYTES);
    let drive = MemoryDrive::new(geometry.expect("a block size that there is"));
    let drive = Rc::new(drive.keeping_memory());
    fill(&drive, bytes / BLOCK_BYTES).await;
    drive
}

/// A raid6 pool of memory drives, worn if `device` is, and its one volume, every block of it
/// written: in a fresh pool one as large as the drive beside it.
pub async fn pool(device: Device) -> (Pool<MemoryDrive>, Rc<PoolVolume<MemoryDrive>>) {
    let (drive_bytes, full) = match device {
        Device::WornPool(percent) => (DRIVE_BYTES, Some(percent)),
        _ => (ROOMY_DRIVE_BYTES, None),
    };
    let mut drives = Vec::new();
    for _ in 0..DRIVES {
        // That a pool trims its drives when it is made does not give the memory back.
        drives.extend(Rc::into_inner(filled_drive(drive_bytes).await));
    }
    let options = CreateOptions::new("bench", Level::Raid6, HostId([1; 16]));
    let pool = Pool::create(drives, options).await.expect("a pool");
    let bytes = match full {
        Some(percent) => pool.status().unreserved_bytes * percent / 100,
        None => DRIVE_BYTES,
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
    if full.is_some() {
        // More than there is room for beside it.
        let room = pool.status().unreserved_bytes - bytes;
        overwrite(&volume, blocks, room * 5 / 4 / BLOCK_BYTES).await;
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
