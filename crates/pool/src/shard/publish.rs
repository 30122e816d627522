//! Publishing a superblock: on every live drive before it counts, and never without a quorum.

use crate::error::PoolError;
use crate::format::body::Body;
use crate::format::encoded::{Encoded, WrittenTables};
use crate::format::superblock::{MEMBER_ACTIVE, MEMBER_FAILED, MEMBER_NONE, Superblock};
use crate::join::join_all;
use crate::labels::quorum::lost_max;
use crate::labels::slots::{self, Ends};
use crate::mutation::Mutation;
use crate::offline::OfflineReason;
use crate::reporting::event::DriveChange;
use crate::segments::zones::Zone;
use crate::shard::coordinator::Coordinator;
use crate::shard::messages::Order;
use block::{BlockDevice, IoError};
use std::rc::Rc;

impl<D: BlockDevice + 'static> Coordinator<D> {
    /// Returns once the membership on the drives knows every drive that has failed so far.
    pub async fn settle(&self) -> Result<(), IoError> {
        let settled = self.publish(None::<fn(&mut Superblock)>, None).await;
        // There may be something to rebuild.
        self.shard.upkeep.notify_one();
        settled.map_err(|_| IoError::DeviceGone)
    }

    /// Tables to publish. Others have their turns meanwhile.
    pub async fn write_down(&self, body: Body) -> Rc<WrittenTables> {
        Rc::new(WrittenTables::of(body, self.shard.settings.entries_in_a_row).await)
    }

    /// Writes the next superblock, changed by `change`, to every live drive, with new tables or
    /// the last ones again. With neither it only settles the membership, if that is needed.
    ///
    /// What a process has left on its way that died may land on a slot. While it may, each is
    /// written to both, and to one end of each after the other.
    pub async fn publish(
        &self,
        mut change: Option<impl FnOnce(&mut Superblock)>,
        tables: Option<Rc<WrittenTables>>,
    ) -> Result<(), PoolError> {
        let _alone = self.publishing.lock().await;
        let mut settled = tables.is_none() && change.is_none();
        let (mut new_tables, mut once_more) = (tables.is_some(), false);
        // Only now: another task may have published later tables while this one waited.
        let tables = tables.unwrap_or_else(|| self.published.borrow().tables.clone());
        loop {
            if let Some(reason) = self.shard.offline.get() {
                return Err(PoolError::Offline(reason));
            }
            let failed = self.shard.array.newly_failed.borrow().clone();
            if failed.is_empty() && settled && !std::mem::take(&mut once_more) {
                self.tell_newest();
                return Ok(());
            }
            let mut next = self.published.borrow().superblock.clone();
            next.sequence = (next.sequence.get() + 1).into();
            if let Some(change) = change.take() {
                change(&mut next);
            }
            self.exclude(&mut next, &failed)?;
            next.set_apart(&self.named_apart());
            self.check_quorum(&next)?;
            if tables.encoded.bytes().len() > self.slot_bytes() {
                return Err(PoolError::NoSpace);
            }
            self.verify().await?;
            self.outrank_intruder(&mut next)?;
            let is_new = std::mem::take(&mut new_tables)
                || !next.says_as(&self.published.borrow().superblock);
            let requests_may_land = reactor::now() < self.late_until;
            if is_new {
                next.content = next.sequence;
                once_more = requests_may_land;
            }
            let ends = match requests_may_land {
                true => Ends::InTurn,
                false => Ends::AtOnce,
            };
            let written = self.write_everywhere(&next, &tables.encoded, ends).await;
            settled = written;
            {
                let mut published = self.published.borrow_mut();
                published.superblock = next;
                published.tables = tables.clone();
            }
            self.shard
                .array
                .newly_failed
                .borrow_mut()
                .retain(|drive| !failed.contains(drive));
            if self.shard.array.serving.get() {
                self.watch_state();
            }
        }
    }

    /// Every drive has the last superblock: stripes tell of it from now on.
    fn tell_newest(&self) {
        let content = self.published.borrow().superblock.content();
        if self.shard.newest.replace(content) != content {
            self.tell_all(|| Order::Newest(content));
        }
    }

    /// Marks `failed` drives in the member list; a change of members is a new epoch.
    fn exclude(&self, next: &mut Superblock, failed: &[usize]) -> Result<(), PoolError> {
        let mut changed = false;
        for index in failed {
            self.tell_all(|| Order::Fail(*index));
            let member = next.members.get_mut(*index);
            if let Some(member) = member.filter(|member| member.state == MEMBER_ACTIVE) {
                member.state = MEMBER_FAILED;
                changed = true;
                let change = match self.shard.array.is_placed(*index) {
                    true => DriveChange::Failed,
                    false if self.label_damaged.contains(index) => DriveChange::LabelDamaged,
                    false => DriveChange::Missing,
                };
                self.shard.array.tell(*index, member.id, change);
            }
        }
        if changed {
            next.raise_epoch(self.entropy.word()?);
        }
        Ok(())
    }

    fn check_quorum(&self, next: &Superblock) -> Result<(), PoolError> {
        let count = |state| {
            next.members
                .iter()
                .filter(|member| member.state == state)
                .count()
        };
        let (active, listed) = (
            count(MEMBER_ACTIVE),
            next.members.len() - count(MEMBER_NONE),
        );
        if active == 0 || active + lost_max(next) < listed {
            self.shard.go_offline(OfflineReason::TooManyDrivesFailed);
            return Err(PoolError::Offline(OfflineReason::TooManyDrivesFailed));
        }
        Ok(())
    }

    /// A superblock that a former holder has left must not count at the next opening, whatever
    /// membership it names.
    fn outrank_intruder(&self, next: &mut Superblock) -> Result<(), PoolError> {
        let Some(theirs) = self.intruder.take() else {
            return Ok(());
        };
        next.raise_epoch_beyond(theirs, self.entropy.word()?);
        Ok(())
    }

    /// True when every live drive that the superblock lists has it.
    async fn write_everywhere(&self, next: &Superblock, tables: &Encoded, ends: Ends) -> bool {
        let live = self.shard.array.live().into_iter();
        let listed = live.filter(|(index, drive)| next.members[*index].id == drive.id);
        let writes = listed.map(|(index, drive)| {
            let mut superblock = next.clone();
            superblock.drive_index = index as u8;
            superblock.drive_id = drive.id;
            async move {
                let write = slots::write(drive.device(), &superblock, drive.layout, tables, ends);
                let result = drive.ask(write).await;
                if result.is_err() {
                    self.shard.array.fail(index, &drive);
                }
                result.is_ok()
            }
        });
        join_all(writes).await.into_iter().all(|written| written)
    }

    /// Zones that the next superblock names.
    pub fn named_apart(&self) -> Vec<Zone> {
        let state = self.shard.state.borrow();
        let zones = state.segments.zones();
        match Mutation::NamesWhatItUses.is_planted() {
            true => zones.used_next(),
            false => zones.apart(),
        }
    }
}
