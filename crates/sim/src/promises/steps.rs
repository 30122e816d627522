//! What hosts do in a trial, one operation after the other, and what they find at its end.

use super::{BLOCK, End, Fault, History, Promise, Redundancy, SNAPSHOTS_MAX, Trial};
use crate::drive::{Lie, SimDrive};
use crate::model;
use block::{BlockDevice, BlockRange, Buffer, Durability, IoError, Lba};
use pool::{Pool, PoolVolume};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::time::Duration;

/// Most blocks of one write: all of them go into one stripe.
const WRITE_MAX: u64 = 8;
/// After a crash so many of the last writes may be missing where the end of the log is lost: the
/// last one, and the one before it where one lie hits two places.
const LAST: u64 = 2;
/// As many as there is room for in a zone of 32 rows, with their headers, where all of it is lost.
const LAST_IN_ZONE: u64 = 16;
/// What the pool does by itself when hosts are quiet is over by then.
const QUIET: Duration = Duration::from_secs(2);

impl Trial {
    /// A host does something.
    pub(super) async fn step(&self, pool: &Pool<SimDrive>) -> Result<(), String> {
        self.requests.set(self.requests.get() + 1);
        match self.random.below(20) {
            0 => reactor::sleep(QUIET).await,
            1 => self.done(pool.checkpoint().await.is_ok()),
            2 => self.snapshot(pool).await,
            3..=6 => {
                let Ok(device) = pool.volume(self.volume.get()) else {
                    return Err("the volume is gone, with no crash in between".to_owned());
                };
                let block = self.random.below(self.blocks);
                return self.read(&device, &self.now, block).await;
            }
            7 => self.change(pool, true).await,
            _ => self.change(pool, false).await,
        }
        Ok(())
    }

    fn done(&self, well: bool) {
        if !well {
            self.kept(Promise::Fails);
        }
    }

    /// Writes some blocks, or gives them back.
    async fn change(&self, pool: &Pool<SimDrive>, erases: bool) {
        let operation = self.operation.get() + 1;
        self.operation.set(operation);
        let Ok(device) = pool.volume(self.volume.get()) else {
            return self.done(false);
        };
        let start = self.random.below(self.blocks);
        let count = 1 + self.random.below(WRITE_MAX.min(self.blocks - start));
        let stamp = |index: u64| match erases {
            true => 0,
            false => (operation << 8) + index + 1,
        };
        // Until it is answered it may have come, or not.
        for index in 0..count {
            let block = start + index;
            let mut now = self.now.borrow_mut();
            now.write(block, stamp(index), operation, false);
        }
        let result = match erases {
            true => device.deallocate(BlockRange::new(Lba(start), count)).await,
            false => {
                let mut buffer = Buffer::new(count as usize * BLOCK);
                for (index, block) in (0..).zip(buffer.chunks_mut(BLOCK)) {
                    model::fill(stamp(index), block);
                }
                device.write(Lba(start), buffer, Durability::Cached).await.1
            }
        };
        if result.is_ok() {
            self.last.set(operation);
            for index in 0..count {
                let block = start + index;
                let mut now = self.now.borrow_mut();
                now.write(block, stamp(index), operation, true);
            }
        }
        self.done(matches!(result, Ok(()) | Err(IoError::CapacityExceeded)));
    }

    async fn snapshot(&self, pool: &Pool<SimDrive>) {
        if self.snapshots.borrow().len() == SNAPSHOTS_MAX {
            return;
        }
        let operation = self.operation.get() + 1;
        self.operation.set(operation);
        let history = self.now.borrow().clone();
        let name = format!("snapshot-{operation}");
        let taken = pool.snapshot(&[(self.volume.get(), name)]).await;
        if let Ok([id]) = taken.as_deref() {
            self.last.set(operation);
            let mut snapshots = self.snapshots.borrow_mut();
            snapshots.push((*id, operation, history));
        }
        self.done(taken.is_ok());
    }

    /// Reads a block, of which nothing may be missing while the pool is open.
    async fn read(
        &self,
        device: &PoolVolume<SimDrive>,
        history: &RefCell<History>,
        block: u64,
    ) -> Result<(), String> {
        if let Some(stamp) = self.stamp(device, block).await? {
            let kept = history.borrow().judge(block, stamp, None)?;
            self.kept(kept);
        }
        Ok(())
    }

    /// What a block reads as, if it does.
    async fn stamp(
        &self,
        device: &PoolVolume<SimDrive>,
        block: u64,
    ) -> Result<Option<u64>, String> {
        let (buffer, result) = device.read(Lba(block), Buffer::new(BLOCK)).await;
        if result.is_err() {
            self.kept(Promise::Fails);
            return Ok(None);
        }
        let stamp = model::stamp_of(&buffer);
        let stamp = stamp.ok_or_else(|| format!("block {block} reads as a mixture"))?;
        Ok(Some(stamp))
    }

    /// The third life: what is there is compared with all that was, and stays so.
    pub(super) async fn judge_all(&self) -> Result<End, String> {
        let Ok(pool) = self.open().await else {
            self.kept(Promise::Fails);
            return Ok(End::Closed);
        };
        let through = self.kept_through();
        let Ok(device) = pool.volume(self.volume.get()) else {
            self.kept(Promise::MayBeStale);
            return Ok(End::Death);
        };
        let mut now = self.now.borrow().clone();
        self.judge_image(&device, &mut now, through).await?;
        self.now.replace(now);
        let mut snapshots = self.snapshots.take();
        let mut found = Vec::new();
        for (id, operation, mut history) in snapshots.drain(..) {
            match pool.snapshot_device(id) {
                Ok(device) => {
                    self.judge_image(&device, &mut history, through).await?;
                    found.push((id, operation, history));
                }
                Err(_) => self.kept(Promise::MayBeStale),
            }
        }
        self.snapshots.replace(found);
        if self.redundancy == Redundancy::Whole {
            let report = pool.scrub().await;
            let sound = |report: &pool::ScrubReport| {
                report.lost.is_empty() && report.lost_nodes == 0 && report.recounted == 0
            };
            self.done(report.is_ok_and(|report| sound(&report)));
        }
        for _ in 0..self.random.below(20) {
            self.step(&pool).await?;
        }
        let closed = pool.close().await;
        self.done(closed.is_ok());
        match closed {
            Ok(()) => {
                self.crashed.set(None);
                Ok(End::Closed)
            }
            Err(_) => Ok(End::Death),
        }
    }

    /// After a crash, the last operation that is not one of the last writes, which may be missing.
    fn kept_through(&self) -> Option<u64> {
        let last = match self.fault {
            Fault::Lie(Lie::LateDiscard) => LAST_IN_ZONE,
            _ => LAST,
        };
        Some(self.crashed.get()?.saturating_sub(last))
    }

    /// Judges every block, and holds the pool to what it is from now on.
    async fn judge_image(
        &self,
        device: &PoolVolume<SimDrive>,
        history: &mut History,
        through: Option<u64>,
    ) -> Result<(), String> {
        let mut failed = BTreeSet::new();
        for block in 0..self.blocks {
            match self.stamp(device, block).await? {
                Some(stamp) => {
                    let kept = history.judge(block, stamp, through)?;
                    self.kept(kept);
                    history.settle(block, stamp, self.operation.get());
                }
                None => drop(failed.insert(block)),
            }
        }
        history.unsettle(failed);
        Ok(())
    }

    /// The fourth life: nothing has changed since.
    pub(super) async fn judge_again(&self) -> Result<End, String> {
        let Ok(pool) = self.open().await else {
            self.kept(Promise::Fails);
            return Ok(End::Closed);
        };
        if let Ok(device) = pool.volume(self.volume.get()) {
            for block in 0..self.blocks {
                self.read(&device, &self.now, block).await?;
            }
        }
        Ok(End::Death)
    }
}
