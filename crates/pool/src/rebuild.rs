//! Rebuild: what lies on segments that lack a drive moves to segments that do not; then the drive
//! is forgotten. Drives join and leave; what one that joins takes of the others is `balance`'s.

use crate::coordinator::Coordinator;
use crate::core::{Core, State};
use crate::create::ZONES_MIN;
use crate::drive::{Drive, DriveLayout, device_blocks};
use crate::error::PoolError;
use crate::events::DriveChange;
use crate::format::superblock::{MEMBER_ACTIVE, MEMBER_FAILED, MEMBER_NONE, Member, Superblock};
use crate::labels::{self, DriveId};
use crate::level::{DRIVES_MAX, Level};
use crate::membership;
use crate::messages::{MemberDrive, Order};
use crate::pool::Pool;
use crate::segments::{Kind, Segment};
use crate::slots;
use block::BlockDevice;
use std::rc::Rc;
use std::time::Duration;

/// What could not be moved is left alone for so long at first, and at most.
pub(crate) const STUCK_FOR: Duration = Duration::from_secs(60);
const STUCK_FOR_MAX: Duration = Duration::from_secs(24 * 60 * 60);
/// How often a graceful removal looks whether the drive is empty.
const REMOVAL_POLL: Duration = Duration::from_millis(20);

impl<D: BlockDevice + 'static> Core<D> {
    /// True when there are drives enough to write segments that lack none, and room enough.
    pub fn drives_enough(&self) -> bool {
        let narrowest = match self.array.level {
            Level::Raid1 => self.width,
            level => level.shape(1).width(),
        };
        self.array.taking() >= narrowest && self.array.cramped.get().is_none()
    }
}

impl<D: BlockDevice + 'static> Coordinator<D> {
    /// Segments with live blocks that lack a drive, if there are drives enough to do better.
    pub fn degraded<'a>(&'a self, state: &'a State) -> impl Iterator<Item = (u32, Kind)> + 'a {
        let better = self.drives_enough();
        let lacking = state.segments.lacking(self.array.taking_mask());
        lacking
            .filter(move |(number, segment)| {
                better && segment.live() > 0 && !state.stuck.contains(number)
            })
            .map(|(number, segment)| (number, segment.kind))
    }

    /// True when a checkpoint would get rid of a segment that lacks a drive, or let it be emptied.
    pub fn lingering(&self, state: &State) -> bool {
        let mut lacking = state.segments.lacking(self.array.taking_mask());
        // A map that found no room elsewhere waits until there is more of it.
        let waits = |segment: &Segment| {
            let waits = segment.kind == Kind::Map && segment.live() > 0;
            let then = self.map_waits.get().filter(|_| waits);
            then.is_some_and(|then| self.nodes_storable(state) <= then)
        };
        self.drives_enough()
            && lacking.any(|(number, segment)| {
                !state.stuck.contains(&number)
                    && !state.quarantined.contains(&number)
                    && !state.in_limbo(number)
                    && !waits(segment)
            })
    }

    /// A look at regular intervals: has what could not be moved, for a block that could not be
    /// read, tried again. What is so for good is tried ever more seldom.
    pub fn look_for_stuck(&self) {
        let mut state = self.state.borrow_mut();
        if state.stuck.is_empty() {
            self.stuck_until.set(None);
            self.stuck_for.set(STUCK_FOR);
            return;
        }
        let now = reactor::now();
        match self.stuck_until.get() {
            None => self.stuck_until.set(Some(now + self.stuck_for.get())),
            Some(until) if until <= now => {
                self.stuck_until.set(None);
                self.stuck_for
                    .set((self.stuck_for.get() * 2).min(STUCK_FOR_MAX));
                state.stuck.clear();
                state.attempts.clear();
                self.upkeep.notify_one();
            }
            Some(_) => {}
        }
    }

    /// Finds out whether what the pool holds has room in segments that do without the drives that
    /// are gone. Narrower ones hold less of the same zones, and the last of the room is kept for
    /// the map by what could be formed before: a pool that is all but full would be out of it at
    /// once. It goes on with segments that lack what the old ones lack, until there is a drive in
    /// the place of the one that is gone, or less to hold.
    pub fn judge_room(&self) {
        let lacks_room = || {
            let before = self.array.cramped.replace(None);
            let size = self.size();
            let state = self.state.borrow();
            let held = state.held_blocks() + state.new_at_most() + self.overlay_blocks_of_others();
            let updates = self.settings.checkpoint_updates as u64;
            let kept = size.map_reserve_nodes(state.map_nodes, updates);
            let lacks = held > size.usable_blocks() || self.nodes_storable(&state) < kept;
            self.array.cramped.set(before);
            lacks
        };
        self.set_cramped(self.width_with_gone().filter(|_| lacks_room()));
    }

    /// How wide new segments would be with the drives that are gone and not forgotten, which they
    /// lack: no more than those, or the pool could lose fewer drives than it promises. `None` where
    /// none would be lacking, one is about to leave, or mirrors are as wide as ever in any case.
    pub fn width_with_gone(&self) -> Option<usize> {
        let level = self.array.level;
        if level == Level::Raid1 || !self.array.leaving.borrow().is_empty() {
            return None;
        }
        let members = membership::members(&self.published.borrow().superblock);
        let width = level.shape(self.width.min(members)).width();
        let missing = width.saturating_sub(self.array.taking());
        let allowed = 1..=level.drives_lost_max(width);
        (width <= members && allowed.contains(&missing)).then_some(width)
    }

    pub fn set_cramped(&self, cramped: Option<usize>) {
        if self.array.cramped.replace(cramped) != cramped {
            tracing::warn!(?cramped, "room without the drives that are gone");
            self.tell_all(|| Order::Cramped(cramped));
            self.work.notify_one();
        }
    }

    /// The next segment whose blocks are to be moved for want of a drive.
    pub fn degraded_victim(&self) -> Option<u32> {
        let state = self.state.borrow();
        let mut degraded = self.degraded(&state);
        let settled = |number: &u32| state.settled.contains(number);
        degraded
            .find(|(number, kind)| *kind != Kind::Map && settled(number))
            .map(|found| found.0)
    }

    /// A member that failed or is leaving, once nothing is on it and no segment lacks a drive: a
    /// pool that forgets a member promises to survive the loss of others again.
    pub fn retirable(&self) -> Option<usize> {
        let published = self.published.borrow();
        let members = published.superblock.members.iter().enumerate();
        let mut going = members.filter(|(index, member)| {
            member.state == MEMBER_FAILED
                || member.state == MEMBER_ACTIVE && self.array.leaving.borrow().contains(index)
        });
        let (index, _) = going.next()?;
        let state = self.state.borrow();
        let taking = self.array.taking_mask();
        let whole = |segment: &Segment| !segment.lacks_drive(taking) && !segment.is_on(index);
        // The tables on the drives may not yet know that a column has left it.
        let known = !state
            .vacated
            .iter()
            .any(|zone| usize::from(zone.drive) == index);
        let segments = state.segments.table();
        let ready = self.drives_enough() && known && segments.values().all(whole);
        ready.then_some(index)
    }

    /// Tells the other shards which drives take no new segments.
    pub fn tell_leaving(&self) {
        self.tell_all(|| Order::Leaving(self.array.leaving.borrow().clone()));
    }

    /// Has the other shards take the handles of a new drive that were offered to them.
    async fn place_at_others(&self, drive: MemberDrive) -> Result<(), PoolError> {
        let placed = self.ask_all(|reply| Order::Place { drive, reply }).await?;
        if placed.contains(&false) {
            self.tell_all(|| Order::Remove(drive.index));
            return Err(PoolError::Invalid(
                "a new drive is offered to every core of the pool before it is added",
            ));
        }
        Ok(())
    }

    /// Takes a member off the list if it may go; true if it has gone. It goes with tables that
    /// name none of its zones any more: those may be another drive's the next time.
    pub async fn retire(&self) -> Result<bool, PoolError> {
        // A checkpoint may give up that it leaves, and write to it.
        let _alone = self.upkeep_lock.lock().await;
        let Some(index) = self.retirable() else {
            return Ok(false);
        };
        if self.stopping.get() {
            return Err(PoolError::Offline("closing"));
        }
        let word = self.entropy.word()?;
        let id = self.published.borrow().superblock.members[index].id;
        let forget = |next: &mut Superblock| {
            next.members[index].state = MEMBER_NONE;
            next.members[index].id = [0; 16];
            next.raise_epoch(word);
        };
        let tables = Rc::new(self.body_with_ready()?.encode());
        self.publish(Some(forget), Some(tables)).await?;
        // Not before every member knows: nobody may wipe the drive until then.
        {
            let mut state = self.state.borrow_mut();
            state.unannounced.clear();
            state.set_drive(index, 0);
        }
        self.array.place(index, None);
        self.tell_all(|| Order::Remove(index));
        self.array.tell(index, id, DriveChange::Left);
        Ok(true)
    }

    /// Has a drive take no more data, if the others are enough, and can hold what there is.
    async fn fits_without(&self, index: usize) -> Result<bool, PoolError> {
        let others = self.take_back_room(false).await?.blocks;
        // Nothing may wait while it is not yet known whether the others are enough: segments made
        // meanwhile would lack copies.
        self.array.leaving.borrow_mut().insert(index);
        let committed = self.state.borrow().committed_blocks() + others;
        let fits = self.drives_enough() && committed <= self.size().usable_blocks();
        if !fits {
            self.array.leaving.borrow_mut().remove(&index);
        }
        Ok(fits)
    }

    /// True when all that is still on a drive is beside blocks that cannot be read.
    fn holds_only_stuck(&self, index: usize) -> bool {
        let state = self.state.borrow();
        if state.stuck.is_empty() {
            return false;
        }
        let mut segments = state.segments.table().iter();
        segments.all(|(number, segment)| !segment.is_on(index) || state.stuck.contains(number))
    }

    /// Returns once every member knows that a drive which was to leave is none of them any more.
    async fn wait_until_forgotten(&self, index: usize, drive: &Drive<D>) -> Result<(), PoolError> {
        loop {
            if let Some(reason) = self.offline.get() {
                return Err(PoolError::Offline(reason));
            }
            if self.stopping.get() {
                return Err(PoolError::Offline("closing"));
            }
            if drive.is_failed() {
                return Err(PoolError::DriveFailed);
            }
            if self.published.borrow().superblock.members[index].id != drive.id {
                break;
            }
            if !self.array.leaving.borrow().contains(&index) {
                return Err(PoolError::NoSpace);
            }
            if self.holds_only_stuck(index) {
                self.array.leaving.borrow_mut().remove(&index);
                self.tell_leaving();
                return Err(PoolError::BlocksUnreadable);
            }
            reactor::sleep(REMOVAL_POLL).await;
        }
        // What was published last may still be on its way to some.
        self.publish(None::<fn(&mut Superblock)>, None).await
    }
}

impl<D: BlockDevice + 'static> Pool<D> {
    /// Adds a drive: it takes new segments from now on, and what lacks a drive is moved.
    ///
    /// Nothing may be under way on it that a former user began. A pool waits for no answer of a
    /// drive that has failed, and what that was given to write would land on what is written now.
    pub async fn add_drive(&self, device: D) -> Result<DriveId, PoolError> {
        let core = &self.core;
        let _alone = core.upkeep_lock.lock().await;
        // A label on a drive that the others never hear of would be one more set used apart.
        if let Some(reason) = core.offline.get() {
            return Err(PoolError::Offline(reason));
        }
        let (index, slot_blocks) = {
            let published = core.published.borrow();
            let superblock = &published.superblock;
            let found = superblock
                .members
                .iter()
                .position(|member| member.state == MEMBER_NONE);
            (found, superblock.slot_blocks.get())
        };
        let index = index.ok_or(PoolError::Invalid("a pool has at most 32 drives"))?;
        self.check_joinable(&device).await?;
        let layout = DriveLayout::new(device_blocks(&device), core.zone_rows, slot_blocks);
        if layout.zones() < ZONES_MIN {
            let min = 2 * u64::from(slot_blocks) + u64::from(core.zone_rows * (ZONES_MIN + 1));
            return Err(PoolError::DriveTooSmall {
                index: 0,
                found: layout.blocks,
                min,
            });
        }
        let (id, word) = (core.entropy.bytes16()?, core.entropy.word()?);
        let join = |next: &mut Superblock| {
            next.raise_epoch(word);
            next.members[index] = Member {
                id,
                state: MEMBER_ACTIVE,
                reserved: [0; 7],
                blocks: layout.blocks.into(),
                joined: next.epoch.number,
            };
        };
        // The newcomer first: no membership may list a drive that does not know of it.
        let (mut first, body) = {
            let published = core.published.borrow();
            (published.superblock.clone(), published.body.clone())
        };
        join(&mut first);
        first.drive_index = index as u8;
        first.drive_id = id;
        // Both slots: whichever is written next, the other one is left. A look before each: a host
        // that stood still for long, and has not noticed, takes from who has the pool by now one
        // label of a drive at most, and the other one says more.
        for odd in [false, true] {
            core.verify().await?;
            slots::write_in(&device, &first, layout, odd, &body).await?;
        }
        core.place_at_others(MemberDrive {
            index,
            position: 0,
            id,
            layout,
        })
        .await?;
        core.array
            .place(index, Some(Rc::new(Drive::new(device, id, layout))));
        core.state.borrow_mut().set_drive(index, layout.zones());
        core.publish(Some(join), None).await?;
        core.array.tell(index, id, DriveChange::Joined);
        core.upkeep.notify_one();
        core.unbalanced.notify_one();
        Ok(DriveId(id))
    }

    /// A drive may join if it carries no pool, or is a stale one of this.
    async fn check_joinable(&self, device: &D) -> Result<(), PoolError> {
        let Some(label) = labels::probe(device).await? else {
            return Ok(());
        };
        let published = self.core.published.borrow();
        let superblock = &published.superblock;
        let active = |member: &Member| member.id == label.drive.0 && member.state == MEMBER_ACTIVE;
        if label.pool.0 != superblock.pool_id || superblock.members.iter().any(active) {
            return Err(PoolError::DriveInUse {
                index: 0,
                pool: label.pool_name,
            });
        }
        Ok(())
    }

    /// Moves everything off a drive and lets go of it; it is blank afterwards. Fails with
    /// [`PoolError::NoSpace`] when the others cannot hold it all, and with
    /// [`PoolError::DriveFailed`] when it fails before it is empty: it keeps its labels then.
    pub async fn remove_drive(&self, id: DriveId) -> Result<(), PoolError> {
        let core = &self.core;
        let live = core.array.live();
        let found = live.into_iter().find(|(_, drive)| drive.id == id.0);
        let (index, drive) = found.ok_or(PoolError::NotFound("drive"))?;
        let mut fits = core.fits_without(index).await?;
        if !fits {
            // What was overwritten since the last merge counts twice.
            self.checkpoint().await?;
            fits = core.fits_without(index).await?;
        }
        if !fits {
            return Err(PoolError::NoSpace);
        }
        core.tell_leaving();
        core.upkeep.notify_one();
        core.wait_until_forgotten(index, &drive).await?;
        // As when it joined.
        for odd in [false, true] {
            core.verify().await?;
            slots::wipe_slot(drive.device(), drive.layout, odd).await?;
        }
        Ok(())
    }

    /// Members that the pool can still lose.
    pub fn spare_members(&self) -> usize {
        let (lacking, lost_max) = self.lacking_members();
        lost_max.saturating_sub(lacking)
    }

    /// Members out of use that blocks are still on, and how many there may be.
    pub(crate) fn lacking_members(&self) -> (usize, usize) {
        let published = self.core.published.borrow();
        let superblock = &published.superblock;
        let members = superblock.members.iter().enumerate();
        let lacking = members.filter(|(index, member)| {
            member.state == MEMBER_FAILED
                || member.state == MEMBER_ACTIVE && !self.core.array.is_live(*index)
        });
        (lacking.count(), membership::lost_max(superblock))
    }
}

const _: () = assert!(DRIVES_MAX == crate::format::superblock::MEMBERS);
