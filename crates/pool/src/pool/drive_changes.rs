//! Drives join a pool and leave it. What one that joins takes of the others is `balance`'s; what
//! was on one that leaves moves as in a `rebuild`.

use crate::drives::drive::{Drive, device_blocks, forget};
use crate::error::PoolError;
use crate::format::drive_layout::{DriveLayout, zones};
use crate::format::superblock::{MEMBER_ACTIVE, MEMBER_NONE, Member, Superblock};
use crate::ids::DriveId;
use crate::labels;
use crate::labels::slots::{self, Ends};
use crate::offline::OfflineReason;
use crate::pool::Pool;
use crate::pool::create::check_zones;
use crate::reporting::event::DriveChange;
use crate::segments::attempts::Stuck;
use crate::segments::zones::ZONES_MIN;
use crate::shard::coordinator::Coordinator;
use crate::shard::messages::{MemberDrive, Order};
use block::{BlockDevice, IoError};
use std::rc::Rc;
use std::time::Duration;

/// A drive that joins forgets so many zones at a time.
const FORGOTTEN_AT_ONCE: u32 = 16;
/// How often a graceful removal looks whether the drive is empty.
const REMOVAL_POLL: Duration = Duration::from_millis(20);

impl<D: BlockDevice + 'static> Coordinator<D> {
    /// Has the other shards take the handles of a new drive that were offered to them.
    async fn place_at_others(&self, drive: MemberDrive) -> Result<(), PoolError> {
        let placed = self.ask_all(|reply| Order::Place { drive, reply }).await?;
        let placed: Result<Vec<bool>, IoError> = placed.into_iter().collect();
        let offered = "a new drive is offered to every coordinator of the pool before it is added";
        let missing = match placed {
            Ok(placed) if !placed.contains(&false) => return Ok(()),
            Ok(_) => PoolError::Invalid(offered),
            Err(error) => PoolError::Io(error),
        };
        self.tell_all(|| Order::Remove(drive.index));
        Err(missing)
    }

    /// Has a drive that is to join forget what it carries, piece by piece. A look before each, as
    /// before a label: another host may have taken the pool, and the drive into it.
    async fn have_forgotten(&self, device: &D, layout: DriveLayout) -> Result<(), PoolError> {
        let all = layout.between_slots();
        let piece = u64::from(FORGOTTEN_AT_ONCE * layout.zone_blocks);
        for start in all.clone().step_by(piece as usize) {
            self.verify().await?;
            forget(device, start..all.end.min(start + piece)).await;
        }
        Ok(())
    }

    /// Has a drive take no more data, if the others are enough, and can hold what there is.
    async fn fits_without(&self, index: usize) -> Result<bool, PoolError> {
        let others = self.take_back_room(false).await?.blocks;
        // Nothing may wait while it is not yet known whether the others are enough: segments made
        // meanwhile would lack copies.
        self.shard.array.leaving.borrow_mut().insert(index);
        let committed = self.shard.state.borrow().committed_blocks() + others;
        let fits =
            self.shard.columns_without() == 0 && committed <= self.shard.size().usable_blocks();
        if !fits {
            self.shard.array.leaving.borrow_mut().remove(&index);
        }
        Ok(fits)
    }

    /// True when all that is still on a drive is beside blocks that cannot be read.
    fn holds_only_stuck(&self, index: usize) -> bool {
        let state = self.shard.state.borrow();
        if state.attempts.stuck() == 0 {
            return false;
        }
        let segments = state.segments.table().iter();
        let mut there = segments
            .filter(|(_, segment)| segment.is_on(index))
            .peekable();
        let stuck = |number| state.attempts.why_stuck(number) == Some(Stuck::Unreadable);
        // A drive that holds nothing is about to be forgotten, whatever is stuck elsewhere.
        there.peek().is_some() && there.all(|(number, _)| stuck(*number))
    }

    /// Returns once every member knows that a drive which was to leave is none of them any more.
    async fn wait_until_forgotten(&self, index: usize, drive: &Drive<D>) -> Result<(), PoolError> {
        loop {
            if let Some(reason) = self.shard.offline.get() {
                return Err(PoolError::Offline(reason));
            }
            if self.shard.stopping.get() {
                return Err(PoolError::Offline(OfflineReason::Closing));
            }
            if drive.is_failed() {
                return Err(PoolError::DriveFailed);
            }
            if self.published.borrow().superblock.members[index].id != drive.id {
                break;
            }
            if !self.shard.array.leaving.borrow().contains(&index) {
                return Err(PoolError::NoSpace);
            }
            if self.holds_only_stuck(index) {
                self.shard.array.leaving.borrow_mut().remove(&index);
                self.tell_leaving();
                return Err(PoolError::BlocksUnreadable);
            }
            reactor::sleep(REMOVAL_POLL).await;
        }
        Ok(())
    }
}

impl<D: BlockDevice + 'static> Pool<D> {
    /// Adds a drive: it takes new segments from now on, and what lacks a drive is moved.
    ///
    /// Nothing may be under way on it that a former user began. A pool waits for no answer of a
    /// drive that has failed, and what that was given to write would land on what is written now.
    pub async fn add_drive(&self, device: D) -> Result<DriveId, PoolError> {
        self.wholly(async move |pool: Pool<D>| pool.add_drive_now(device).await)
            .await
    }

    async fn add_drive_now(&self, device: D) -> Result<DriveId, PoolError> {
        let coordinator = &self.coordinator;
        // Who joins twice at once would be told to forget what it has been given.
        let _joins = coordinator.joining_lock.lock().await;
        self.check_joinable(&device).await?;
        let layout = self.layout_of_new(&device)?;
        coordinator.have_forgotten(&device, layout).await?;
        let _alone = coordinator.upkeep_lock.lock().await;
        // A label on a drive that the others never hear of would be one more set used apart.
        if let Some(reason) = coordinator.shard.offline.get() {
            return Err(PoolError::Offline(reason));
        }
        let index = self.place_for_new()?;
        let (id, word) = (coordinator.entropy.bytes16()?, coordinator.entropy.word()?);
        let join = |next: &mut Superblock| {
            next.raise_epoch(word);
            next.members[index] = Member {
                id,
                state: MEMBER_ACTIVE,
                reserved0: 0,
                domain: 0.into(),
                reserved1: [0; 4],
                blocks: layout.blocks.into(),
                joined: next.epoch.number,
            };
        };
        // The newcomer first: no membership may list a drive that does not know of it.
        let (mut first, tables) = {
            let published = coordinator.published.borrow();
            (published.superblock.clone(), published.tables.clone())
        };
        join(&mut first);
        first.drive_index = index as u8;
        first.drive_id = id;
        // Both slots: whichever is written next, the other one is left. A look before each: a host
        // that stood still for long, and has not noticed, takes from who has the pool by now one
        // label of a drive at most, and the other one says more.
        for odd in [false, true] {
            coordinator.verify().await?;
            let (tables, ends) = (&tables.encoded, Ends::AtOnce);
            slots::write_in(&device, &first, layout, odd, tables, ends).await?;
        }
        coordinator
            .place_at_others(MemberDrive {
                index,
                position: 0,
                id,
                layout,
            })
            .await?;
        coordinator
            .shard
            .array
            .place(index, Some(Rc::new(Drive::new(device, id, layout))));
        coordinator.set_drive(index, layout.zones());
        if let Err(error) = coordinator.publish(Some(join), None).await {
            // It has zones that no membership knows of.
            coordinator.shard.go_offline(OfflineReason::JoiningFailed);
            return Err(error);
        }
        coordinator.shard.array.tell(index, id, DriveChange::Joined);
        coordinator.shard.upkeep.notify_one();
        coordinator.unbalanced.notify_one();
        Ok(DriveId(id))
    }

    /// Refuses a drive that [`add_drive`](Pool::add_drive) would refuse; changes nothing. True if
    /// it carries a label of this pool, as one does that was a member.
    pub async fn check_joining(&self, device: &D) -> Result<bool, PoolError> {
        let known = self.check_joinable(device).await?;
        self.layout_of_new(device)?;
        match self.coordinator.shard.offline.get() {
            Some(reason) => Err(PoolError::Offline(reason)),
            None => Ok(known),
        }
    }

    /// What will be where on a drive that is to join, if it is large enough and there is a place.
    fn layout_of_new(&self, device: &D) -> Result<DriveLayout, PoolError> {
        self.place_for_new()?;
        let rows = self.coordinator.shard.zone_rows;
        let slot_blocks = self
            .coordinator
            .published
            .borrow()
            .superblock
            .slot_blocks
            .get();
        let layout = DriveLayout::new(device_blocks(device), rows, slot_blocks);
        if layout.zones() < ZONES_MIN {
            return Err(PoolError::DriveTooSmall {
                index: 0,
                found: layout.blocks,
                min: 2 * u64::from(slot_blocks) + u64::from(rows * (ZONES_MIN + 1)),
            });
        }
        let members = zones(&self.coordinator.published.borrow().superblock);
        let all = members.into_iter().map(u64::from).sum::<u64>();
        check_zones(all + u64::from(layout.zones()))?;
        Ok(layout)
    }

    fn place_for_new(&self) -> Result<usize, PoolError> {
        let published = self.coordinator.published.borrow();
        let mut members = published.superblock.members.iter();
        let found = members.position(|member| member.state == MEMBER_NONE);
        found.ok_or(PoolError::Invalid("a pool has at most 32 drives"))
    }

    /// A drive may join if it carries no pool, or is a stale one of this: then true.
    async fn check_joinable(&self, device: &D) -> Result<bool, PoolError> {
        let Some(label) = labels::probe(device).await? else {
            return Ok(false);
        };
        let published = self.coordinator.published.borrow();
        let superblock = &published.superblock;
        let active = |member: &Member| member.id == label.drive.0 && member.state == MEMBER_ACTIVE;
        if label.pool.0 != superblock.pool_id || superblock.members.iter().any(active) {
            return Err(PoolError::DriveInUse {
                index: 0,
                pool: label.pool_name,
            });
        }
        Ok(true)
    }

    /// Moves everything off a drive and lets go of it; it is blank afterwards. Fails with
    /// [`PoolError::NoSpace`] when the others cannot hold it all, and with
    /// [`PoolError::DriveFailed`] when it fails before it is empty: it keeps its labels then.
    pub async fn remove_drive(&self, id: DriveId) -> Result<(), PoolError> {
        let coordinator = &self.coordinator;
        let live = coordinator.shard.array.live();
        let found = live.into_iter().find(|(_, drive)| drive.id == id.0);
        let (index, drive) = found.ok_or(PoolError::NotFound("drive"))?;
        let mut fits = coordinator.fits_without(index).await?;
        if !fits {
            // What was overwritten since the last merge counts twice.
            self.checkpoint().await?;
            fits = coordinator.fits_without(index).await?;
        }
        if !fits {
            return Err(PoolError::NoSpace);
        }
        coordinator.tell_leaving();
        coordinator.shard.upkeep.notify_one();
        coordinator.wait_until_forgotten(index, &drive).await?;
        let forgotten = async move |pool: Pool<D>| {
            let coordinator = &pool.coordinator;
            // What was published last may still be on its way to some.
            coordinator
                .publish(None::<fn(&mut Superblock)>, None)
                .await?;
            // As when it joined.
            for odd in [false, true] {
                coordinator.verify().await?;
                slots::wipe_slot(drive.device(), drive.layout, odd).await?;
            }
            Ok(())
        };
        self.wholly(forgotten).await
    }
}
