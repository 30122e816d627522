//! Members that failed or leave are forgotten, when the pool can do without them.

use crate::error::PoolError;
use crate::format::superblock::{MEMBER_ACTIVE, MEMBER_FAILED, MEMBER_NONE, Member, Superblock};
use crate::ids::SegmentNumber;
use crate::labels::quorum;
use crate::offline::OfflineReason;
use crate::reporting::event::DriveChange;
use crate::segments::Segment;
use crate::segments::zones::Zone;
use crate::shard::coordinator::Coordinator;
use crate::shard::messages::Order;
use crate::shard::state::State;
use block::BlockDevice;

impl<D: BlockDevice + 'static> Coordinator<D> {
    /// A member that failed or is leaving, and that the pool can do without: one that forgets a
    /// member promises to survive the loss of as many others again. So no segment, now or soon,
    /// lacks more drives than will then count as failed, and nothing is on one that leaves.
    pub fn going(&self, state: &State) -> Option<usize> {
        let published = self.published.borrow();
        let members = published.superblock.members.iter().enumerate();
        let failed = |member: &Member| member.state == MEMBER_FAILED;
        let failed_members = members.clone().filter(|(_, member)| failed(member)).count();
        let mut going = members.filter(|(index, member)| {
            failed(member)
                || member.state == MEMBER_ACTIVE
                    && self.shard.array.leaving.borrow().contains(index)
        });
        let (index, member) = going.next()?;
        let still_failed = failed_members - usize::from(failed(member));
        let taking = self.shard.array.taking_mask();
        let spared = |segment: &Segment| {
            segment.columns_without(taking) <= still_failed
                && (failed(member) || !segment.is_on(index))
        };
        let mut segments = state.segments.table().values();
        (self.shard.columns_without() <= still_failed && segments.all(spared)).then_some(index)
    }

    /// What segments have on a failed member that is going, they have nowhere from now on: there
    /// are no columns with fewer drives to move it to. For when no stripe is in flight.
    pub fn let_go(&self, state: &mut State) {
        let Some(index) = self.going(state) else {
            return;
        };
        let segments = state.segments.table().iter();
        let on_it = segments
            .filter(|(number, segment)| segment.is_on(index) && state.is_final(**number, segment));
        let on_it: Vec<SegmentNumber> = on_it.map(|(number, _)| *number).collect();
        for number in on_it {
            let zone = state.segments.let_go(number, index);
            self.vacated.borrow_mut().extend(zone);
        }
    }

    /// A member that may be forgotten at once: nothing is on it, the tables on the drives know, and
    /// nobody reads there any more.
    pub fn retirable(&self) -> Option<usize> {
        let state = self.shard.state.borrow();
        let index = self.going(&state)?;
        let on_it = |zone: &Zone| usize::from(zone.drive) == index;
        let mut segments = state.segments.table().values();
        let left = !segments.any(|segment| segment.is_on(index))
            && !self.vacated.borrow().iter().any(on_it)
            && !state.zones_in_limbo().any(|zone| on_it(&zone));
        left.then_some(index)
    }

    /// Takes a member off the list if it may go; true if it has gone. It goes with tables that
    /// name none of its zones any more: those may be another drive's the next time.
    pub async fn retire(&self) -> Result<bool, PoolError> {
        // A checkpoint may give up that it leaves, and write to it.
        let _alone = self.upkeep_lock.lock().await;
        let Some(index) = self.retirable() else {
            return Ok(false);
        };
        if self.shard.stopping.get() {
            return Err(PoolError::Offline(OfflineReason::Closing));
        }
        let word = self.entropy.word()?;
        let id = self.published.borrow().superblock.members[index].id;
        let forget = |next: &mut Superblock| {
            next.members[index].state = MEMBER_NONE;
            next.members[index].id = [0; 16];
            next.raise_epoch(word);
        };
        let tables = self.write_down(self.body_with_ready()).await;
        self.publish(Some(forget), Some(tables)).await?;
        // Not before every member knows: nobody may wipe the drive until then.
        self.shard.state.borrow_mut().ready.announced();
        self.set_drive(index, 0);
        self.shard.array.place(index, None);
        self.tell_all(|| Order::Remove(index));
        let drives_to_spare = self.drives_to_spare();
        let left = DriveChange::Left { drives_to_spare };
        self.shard.array.tell(index, id, left);
        Ok(true)
    }

    /// Members out of use that blocks are still on, and how many there may be.
    pub fn lacking_members(&self) -> (usize, usize) {
        let published = self.published.borrow();
        let superblock = &published.superblock;
        let members = superblock.members.iter().enumerate();
        let lacking = members
            .filter(|(index, member)| member.state != MEMBER_NONE && !self.works(*index, member));
        (lacking.count(), quorum::lost_max(superblock))
    }

    /// Members that the pool can lose from now on, whichever they are.
    pub fn drives_to_spare(&self) -> usize {
        let (lacking, lost_max) = self.lacking_members();
        lost_max.saturating_sub(lacking)
    }
}
