//! [`PoolVolume`]: a volume or a snapshot as a block device.

use crate::ids::{LayerId, VolumeId};
use crate::location::{ATOMIC_BLOCKS, BLOCK_BYTES, BlockNumber};
use crate::shard::core::Core;
use crate::stripes::buffers::put_together;
use crate::stripes::item::{Item, Request};
use crate::volumes::Holder;
use block::{
    BlockDevice, BlockRange, Buffer, Durability, Geometry, IoError, Lba, Revised, write_joined,
};
use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;

/// A volume, or a snapshot that cannot be written; 4 KiB blocks.
///
/// A write is acknowledged when it is durable, so `flush` has nothing to do. Writes of up to 64 KiB
/// that do not cross from one slice to the next are whole or absent after a power loss.
pub struct PoolVolume<D: BlockDevice + 'static> {
    pub(crate) core: Rc<Core<D>>,
    target: Holder,
    seen: Cell<Seen>,
}

/// What the tables said of a volume when they were last looked at.
#[derive(Clone, Copy)]
struct Seen {
    /// Of the tables: every request asks, and hardly ever has anything changed.
    version: u64,
    /// A deleted volume keeps its last size.
    blocks: u64,
    /// `None` if the volume is gone.
    layer: Option<LayerId>,
    reserved: bool,
}

impl<D: BlockDevice + 'static> Clone for PoolVolume<D> {
    fn clone(&self) -> PoolVolume<D> {
        PoolVolume {
            core: self.core.clone(),
            target: self.target,
            seen: self.seen.clone(),
        }
    }
}

impl<D: BlockDevice + 'static> PoolVolume<D> {
    pub(crate) fn new(core: Rc<Core<D>>, target: Holder) -> Option<PoolVolume<D>> {
        let volume = PoolVolume {
            core,
            target,
            seen: Cell::new(Seen {
                version: 0,
                blocks: 1,
                layer: None,
                reserved: false,
            }),
        };
        volume.layer().ok()?;
        Some(volume)
    }

    /// The layer that reads start from.
    pub(crate) fn layer(&self) -> Result<LayerId, IoError> {
        self.look().layer.ok_or(IoError::DeviceGone)
    }

    /// How many of its blocks read as other than never written or deallocated, those included that
    /// it shares: as of the last checkpoint, of which one comes soon after a question. Of what
    /// shares blocks it is too many until they have been counted, which takes as long as it takes.
    pub fn used_blocks(&self) -> u64 {
        let seen = self.look();
        let used = seen
            .layer
            .map(|layer| self.core.used_blocks(self.target, layer));
        used.map_or(0, |used| used.min(seen.blocks))
    }

    /// What the tables say now.
    fn look(&self) -> Seen {
        let state = self.core.state.borrow();
        let mut seen = self.seen.get();
        if seen.version == state.tables.version() {
            return seen;
        }
        let found = match self.target {
            Holder::Volume(id) => state
                .tables
                .volumes
                .get(id)
                .map(|volume| (volume.layer, volume.blocks, volume.reserved)),
            Holder::Snapshot(id) => state
                .tables
                .snapshots
                .get(id)
                .map(|found| (found.layer, found.blocks, false)),
        };
        seen.version = state.tables.version();
        seen.layer = found.map(|(layer, _, _)| layer);
        if let Some((_, blocks, reserved)) = found {
            seen.blocks = blocks;
            seen.reserved = reserved;
        }
        self.seen.set(seen);
        seen
    }

    fn writable(&self) -> Result<VolumeId, IoError> {
        if self.core.offline.get().is_some() {
            return Err(IoError::DeviceGone);
        }
        if self.core.stopping.get() {
            return Err(IoError::NotReady);
        }
        match self.target {
            Holder::Volume(id) => self.layer().map(|_| id),
            Holder::Snapshot(_) => Err(IoError::WriteProtected),
        }
    }

    /// Which blocks a transfer covers, or why there is no such transfer.
    fn range(&self, start: Lba, bytes: usize) -> Result<Range<BlockNumber>, IoError> {
        self.count_request();
        if bytes == 0 || !bytes.is_multiple_of(BLOCK_BYTES) {
            return Err(IoError::InvalidRequest);
        }
        let blocks = self.check(BlockRange::new(start, (bytes / BLOCK_BYTES) as u64))?;
        self.check_owned(blocks.clone())?;
        Ok(blocks)
    }

    fn count_request(&self) {
        self.core.requests.set(self.core.requests.get() + 1);
    }

    /// The blocks of a range, if the volume has them.
    fn check(&self, range: BlockRange) -> Result<Range<BlockNumber>, IoError> {
        let inside = range.end().filter(|end| end.0 <= self.look().blocks);
        let end = inside.ok_or(IoError::OutOfRange)?;
        Ok(range.start.into()..end.into())
    }

    /// Whether this shard serves all of these blocks.
    fn check_owned(&self, blocks: Range<BlockNumber>) -> Result<(), IoError> {
        let share = self.core.state.borrow().share;
        match share.pieces(blocks.clone()).next() {
            Some(first) if first == blocks => Ok(()),
            _ => Err(IoError::InvalidRequest),
        }
    }

    async fn unmap(&self, range: BlockRange) -> Result<(), IoError> {
        self.count_request();
        let volume = self.writable()?;
        if range.blocks == 0 && range.start.0 <= self.look().blocks {
            return Ok(());
        }
        let start = self.check(range)?.start;
        let pieces = range.blocks.div_ceil(u64::from(u32::MAX));
        let request = Request::new(pieces);
        let items = (0..pieces).map(|piece| {
            let offset = piece * u64::from(u32::MAX);
            Item::Hole {
                request: request.clone(),
                volume,
                start: start + offset,
                blocks: (range.blocks - offset).min(u64::from(u32::MAX)) as u32,
            }
        });
        self.core.enqueue(items);
        request.wait().await?;
        let blocks = range.blocks;
        self.core
            .array
            .count(|counters| counters.host_blocks_deallocated += blocks);
        Ok(())
    }

    /// Writes a buffer, if a revision is said only to that one.
    async fn write_blocks(
        &self,
        revision: Option<u64>,
        start: Lba,
        mut buffer: Buffer,
    ) -> (Buffer, Result<(), IoError>) {
        let checked = self
            .writable()
            .and_then(|volume| Ok((volume, self.range(start, buffer.len())?)));
        let (volume, mut range) = match checked {
            Ok(checked) => checked,
            Err(error) => return (buffer, Err(error)),
        };
        let mut written = Vec::new();
        loop {
            let admission = match self.look().reserved {
                true => Ok(self.core.admission_of_promised()),
                false => self.core.admit(volume, range.clone()).await,
            };
            let mut admission = match admission {
                Ok(admission) => admission,
                Err(error) => return (behind(written, buffer), Err(error)),
            };
            let request = Request::new(range.end - range.start);
            admission.begin(&request);
            self.core.enqueue([Item::Write {
                request: request.clone(),
                volume,
                revision,
                start: range.start,
                buffer,
                backing: admission.backing,
            }]);
            let result = request.wait().await;
            buffer = request.take_buffer();
            let Some(rest) = request.overtaken_from() else {
                return (behind(written, buffer), result);
            };
            // What is written may have been read by now, and overwritten by others. If it were
            // written once more, what came after it would be lost.
            let done = rest - range.start;
            if done > 0 {
                let after = buffer.split_off(done as usize * BLOCK_BYTES);
                written.push(std::mem::replace(&mut buffer, after));
            }
            range.start = rest;
        }
    }
}

/// The buffer of a write that was written in parts, mostly one.
fn behind(mut written: Vec<Buffer>, last: Buffer) -> Buffer {
    if written.is_empty() {
        return last;
    }
    written.push(last);
    put_together(written)
}

impl<D: BlockDevice + 'static> BlockDevice for PoolVolume<D> {
    fn geometry(&self) -> Geometry {
        Geometry {
            block_bytes: BLOCK_BYTES as u32,
            block_count: self.look().blocks,
            optimal_write_blocks: 1,
            power_fail_atomic_blocks: ATOMIC_BLOCKS as u32,
            power_fail_atomic_boundary_blocks: self.core.settings.slice_blocks,
            volatile_write_cache: false,
            deallocates: true,
        }
    }

    async fn read(&self, start: Lba, buffer: Buffer) -> (Buffer, Result<(), IoError>) {
        let checked = self
            .layer()
            .and_then(|layer| Ok((layer, self.range(start, buffer.len())?)));
        match checked {
            Ok((layer, range)) => {
                let (buffer, result) = self
                    .core
                    .read_blocks(self.target, layer, range, buffer)
                    .await;
                // Somebody else may have written meanwhile.
                let held = self.core.array.lease.hold().await;
                (buffer, result.and(held))
            }
            Err(error) => (buffer, Err(error)),
        }
    }

    fn write(
        &self,
        start: Lba,
        buffer: Buffer,
        _: Durability,
    ) -> impl Future<Output = (Buffer, Result<(), IoError>)> {
        self.write_blocks(None, start, buffer)
    }

    async fn write_vectored(
        &self,
        start: Lba,
        buffers: Vec<Buffer>,
        durability: Durability,
    ) -> (Vec<Buffer>, Result<(), IoError>) {
        write_joined(self, start, buffers, durability).await
    }

    async fn flush(&self) -> Result<(), IoError> {
        match self.core.offline.get() {
            None => self.layer().map(|_| ()),
            Some(_) => Err(IoError::DeviceGone),
        }
    }

    async fn deallocate(&self, range: BlockRange) -> Result<(), IoError> {
        self.unmap(range).await
    }

    async fn write_zeroes(&self, range: BlockRange, _: Durability) -> Result<(), IoError> {
        self.unmap(range).await
    }
}

impl<D: BlockDevice + 'static> Revised for PoolVolume<D> {
    fn revision(&self) -> u64 {
        self.layer().map_or(0, |layer| layer.get().into())
    }

    async fn write_to_revision(
        &self,
        revision: u64,
        start: Lba,
        buffer: Buffer,
        _: Durability,
    ) -> (Buffer, Result<(), IoError>) {
        self.write_blocks(Some(revision), start, buffer).await
    }
}
