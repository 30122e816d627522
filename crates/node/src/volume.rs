//! [`Volume`]: what a namespace stands on, the same type on every core.

pub mod member;
pub mod placed;
pub mod pool_device;
pub mod remote;
pub mod watched;

use std::cell::RefCell;
use std::rc::Rc;

use block::{BlockDevice, BlockRange, Buffer, Durability, Geometry, IoError, Lba};
use drive::Emulate512;
use pool::{BLOCK_BYTES, PoolVolume, Settings, Sliced};
use reactor::Failed;

use crate::error::NodeError;
use crate::volume::member::Member;
use crate::volume::placed::Placed;
use crate::volume::pool_device::PoolDevice;
use crate::volume::remote::{Post, RemoteVolume, VolumeId};
use crate::volume::watched::WatchedDrive;

/// A volume of a pool, as the shards have it.
type Slices<D> = Sliced<Placed<D>>;

/// Which cores have the slices of a volume of a pool.
#[derive(Clone)]
pub(crate) struct Parts {
    /// Under what number each core answers for its part.
    pub id: VolumeId,
    /// The cores of the pool, the first shard's first.
    pub cores: Vec<usize>,
    /// What the volume is.
    pub geometry: Geometry,
}

/// A volume as one core's target serves it. What it stands on may be exchanged under I/O: an
/// operation finishes on what it began with.
pub struct Volume {
    path: RefCell<Rc<Path>>,
}

/// Where a volume's requests go from this core.
pub(crate) enum Path {
    /// To a drive of this core, block for block.
    Drive(WatchedDrive),
    /// To a drive of this core with larger blocks.
    Emulated(Emulate512<WatchedDrive>),
    /// To the shards of a pool that have a volume's slices, block for block.
    Pool(PoolDevice<Slices<PoolVolume<Member>>>),
    /// The same, for hosts that see smaller blocks: the core that has a slice puts them together.
    PoolEmulated(PoolDevice<Slices<Rc<Emulate512<PoolVolume<Member>>>>>),
    /// To the core where the volume lives.
    Remote(RemoteVolume),
    /// Nowhere for now.
    Offline(Geometry),
}

impl Path {
    /// The way to `drive` for hosts that see blocks of `block_bytes`.
    pub fn to_drive(drive: WatchedDrive, block_bytes: u32) -> Result<Path, NodeError> {
        match (drive.geometry().block_bytes, block_bytes) {
            (drive_bytes, wanted) if drive_bytes == wanted => Ok(Path::Drive(drive)),
            (4096, 512) => Ok(Path::Emulated(Emulate512::new(drive))),
            (drive, wanted) => Err(NodeError::BlockSize { wanted, drive }),
        }
    }

    /// The way to what the shard of this core has of `volume`, for hosts that see blocks of
    /// `block_bytes`.
    pub fn to_part(
        pool: &str,
        volume: &PoolDevice<PoolVolume<Member>>,
        block_bytes: u32,
    ) -> Result<Path, NodeError> {
        let path = match (volume.geometry().block_bytes, block_bytes) {
            (pool_bytes, wanted) if pool_bytes == wanted => {
                let whole = volume.derive(|volume| only(volume.clone()));
                whole.map(Path::Pool)
            }
            (4096, 512) => {
                let emulated = |volume: &PoolVolume<_>| Rc::new(Emulate512::new(volume.clone()));
                let whole = volume.derive(|volume| only(emulated(volume)));
                whole.map(Path::PoolEmulated)
            }
            (drive, wanted) => return Err(NodeError::BlockSize { wanted, drive }),
        };
        path.map_err(|Failed| NodeError::panicked(pool, volume.scope()))
    }

    /// The way to all of a volume of a pool, of which every core has a part; nowhere if the pool
    /// has failed.
    pub fn to_parts(post: &Rc<Post>, parts: &Parts) -> Path {
        let own = post.volume(parts.id).map(|volume| volume.path());
        let whole = match own.as_deref() {
            Some(Path::PoolEmulated(own)) => {
                let whole = own.derive(|own| all(post, parts, own.parts()));
                whole.map(Path::PoolEmulated)
            }
            Some(Path::Pool(own)) => {
                let whole = own.derive(|own| all(post, parts, own.parts()));
                whole.map(Path::Pool)
            }
            _ => Err(Failed),
        };
        whole.unwrap_or(Path::Offline(parts.geometry))
    }
}

fn slice_blocks() -> u32 {
    Settings::default().slice_blocks
}

fn only<D: BlockDevice>(part: D) -> Slices<D> {
    Sliced::new(vec![Placed::Here(part)], slice_blocks())
}

/// What this core's part says, which knows the tables of the whole pool.
fn own<D: BlockDevice>(whole: &Slices<D>, ask: impl FnOnce(&D) -> u64) -> Option<u64> {
    let here = whole.parts().iter().find_map(|part| match part {
        Placed::Here(part) => Some(part),
        Placed::Elsewhere(_) => None,
    });
    here.map(ask)
}

/// Puts the slices of all shards together; `own` has this core's part.
fn all<D: BlockDevice + Clone>(post: &Rc<Post>, parts: &Parts, own: &[Placed<D>]) -> Slices<D> {
    let part = |home: &usize| match own {
        [own] if *home == post.core() => own.clone(),
        _ => Placed::Elsewhere(RemoteVolume::new(
            Rc::clone(post),
            *home,
            parts.id,
            parts.geometry,
        )),
    };
    let here = parts.cores.iter().position(|home| *home == post.core());
    let sliced = Sliced::new(parts.cores.iter().map(part).collect(), slice_blocks());
    sliced.nearest(here.unwrap_or(0))
}

impl Volume {
    pub(crate) fn new(path: Path) -> Rc<Volume> {
        Rc::new(Volume {
            path: RefCell::new(Rc::new(path)),
        })
    }

    /// Sends requests from now on along `path`.
    pub(crate) fn set_path(&self, path: Path) {
        self.path.replace(Rc::new(path));
    }

    /// Blocks that are in use, in those that hosts see. All of them, where they are not counted or
    /// there is nobody to ask.
    pub(crate) fn used_blocks(&self) -> u64 {
        let used = match &*self.path() {
            Path::Pool(device) => device.look(|whole| own(whole, PoolVolume::used_blocks)),
            Path::PoolEmulated(device) => {
                let used = |part: &Rc<Emulate512<PoolVolume<Member>>>| {
                    let block_bytes = u64::from(part.geometry().block_bytes);
                    part.inner().used_blocks() * (BLOCK_BYTES as u64 / block_bytes)
                };
                device.look(|whole| own(whole, used))
            }
            Path::Drive(_) | Path::Emulated(_) | Path::Remote(_) | Path::Offline(_) => None,
        };
        let all = self.geometry().block_count;
        used.flatten().map_or(all, |used| used.min(all))
    }

    fn path(&self) -> Rc<Path> {
        Rc::clone(&self.path.borrow())
    }
}

impl BlockDevice for Volume {
    fn geometry(&self) -> Geometry {
        match &*self.path() {
            Path::Drive(device) => device.geometry(),
            Path::Emulated(device) => device.geometry(),
            Path::Pool(device) => device.geometry(),
            Path::PoolEmulated(device) => device.geometry(),
            Path::Remote(device) => device.geometry(),
            Path::Offline(geometry) => *geometry,
        }
    }

    async fn read(&self, start: Lba, buffer: Buffer) -> (Buffer, Result<(), IoError>) {
        match &*self.path() {
            Path::Drive(device) => device.read(start, buffer).await,
            Path::Emulated(device) => device.read(start, buffer).await,
            Path::Pool(device) => device.read(start, buffer).await,
            Path::PoolEmulated(device) => device.read(start, buffer).await,
            Path::Remote(device) => device.read(start, buffer).await,
            Path::Offline(_) => (buffer, Err(IoError::NotReady)),
        }
    }

    async fn write(
        &self,
        start: Lba,
        buffer: Buffer,
        durability: Durability,
    ) -> (Buffer, Result<(), IoError>) {
        match &*self.path() {
            Path::Drive(device) => device.write(start, buffer, durability).await,
            Path::Emulated(device) => device.write(start, buffer, durability).await,
            Path::Pool(device) => device.write(start, buffer, durability).await,
            Path::PoolEmulated(device) => device.write(start, buffer, durability).await,
            Path::Remote(device) => device.write(start, buffer, durability).await,
            Path::Offline(_) => (buffer, Err(IoError::NotReady)),
        }
    }

    async fn write_vectored(
        &self,
        start: Lba,
        buffers: Vec<Buffer>,
        durability: Durability,
    ) -> (Vec<Buffer>, Result<(), IoError>) {
        match &*self.path() {
            Path::Drive(device) => device.write_vectored(start, buffers, durability).await,
            Path::Emulated(device) => device.write_vectored(start, buffers, durability).await,
            Path::Pool(device) => device.write_vectored(start, buffers, durability).await,
            Path::PoolEmulated(device) => device.write_vectored(start, buffers, durability).await,
            Path::Remote(device) => device.write_vectored(start, buffers, durability).await,
            Path::Offline(_) => (buffers, Err(IoError::NotReady)),
        }
    }

    async fn flush(&self) -> Result<(), IoError> {
        match &*self.path() {
            Path::Drive(device) => device.flush().await,
            Path::Emulated(device) => device.flush().await,
            Path::Pool(device) => device.flush().await,
            Path::PoolEmulated(device) => device.flush().await,
            Path::Remote(device) => device.flush().await,
            Path::Offline(_) => Err(IoError::NotReady),
        }
    }

    async fn deallocate(&self, range: BlockRange) -> Result<(), IoError> {
        match &*self.path() {
            Path::Drive(device) => device.deallocate(range).await,
            Path::Emulated(device) => device.deallocate(range).await,
            Path::Pool(device) => device.deallocate(range).await,
            Path::PoolEmulated(device) => device.deallocate(range).await,
            Path::Remote(device) => device.deallocate(range).await,
            Path::Offline(_) => Err(IoError::NotReady),
        }
    }

    async fn write_zeroes(&self, range: BlockRange, durability: Durability) -> Result<(), IoError> {
        match &*self.path() {
            Path::Drive(device) => device.write_zeroes(range, durability).await,
            Path::Emulated(device) => device.write_zeroes(range, durability).await,
            Path::Pool(device) => device.write_zeroes(range, durability).await,
            Path::PoolEmulated(device) => device.write_zeroes(range, durability).await,
            Path::Remote(device) => device.write_zeroes(range, durability).await,
            Path::Offline(_) => Err(IoError::NotReady),
        }
    }
}
