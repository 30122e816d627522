//! Drives that answer nothing: told, and taken out of use where the pool can do without them, so
//! that hosts need not wait as long as a kernel does.

use crate::drives::owed::TOLD_AFTER;
use crate::format::superblock::{MEMBER_ACTIVE, MEMBER_NONE};
use crate::labels::quorum::lost_max;
use crate::reporting::event::DriveChange;
use crate::shard::coordinator::Coordinator;
use crate::shard::core::Core;
use crate::shard::messages::{Report, Silent};
use block::BlockDevice;
use std::rc::Weak;
use std::time::Duration;

/// How often a core looks whether its drives answer.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// A drive is taken out of use that has answered nothing for so long: Linux hosts give a request up
/// after 30 seconds.
const FAILED_AFTER: Duration = Duration::from_secs(20);

/// Looks at a core's handles of the drives until the pool is closed, for what it writes last may be
/// waited for as well; does not keep them.
pub(crate) async fn watch_silence<D: BlockDevice + 'static>(core: Weak<Core<D>>) {
    while let Some(core) = core.upgrade() {
        if core.array.lease.has_ended() || core.offline.get().is_some() {
            return;
        }
        core.tell_silence();
        drop(core);
        reactor::sleep(LOOK_EVERY).await;
    }
}

impl<D: BlockDevice + 'static> Core<D> {
    fn tell_silence(&self) {
        let live = self.array.live().into_iter();
        let silent = live.map(|(index, drive)| (index, drive.id, drive.owed.silent_for()));
        for silent in silent.filter(|(_, _, silent)| *silent >= TOLD_AFTER) {
            match self.coordinator() {
                Some(coordinator) => coordinator.judge_silence(silent),
                None => self.report(Report::Silent(silent)),
            }
        }
    }
}

impl<D: BlockDevice + 'static> Coordinator<D> {
    /// Decides about a drive that does not answer. If others do not either, or too few would be
    /// left, it is waited for: what keeps them from answering may be none of theirs.
    pub fn judge_silence(&self, (index, id, silent): Silent) {
        let live = self.shard.array.live();
        let drive = live.iter().find(|(_, drive)| drive.id == id);
        if drive.is_some_and(|(_, drive)| drive.owed.tells_again()) {
            let seconds = silent.as_secs();
            self.shard
                .array
                .tell(index, id, DriveChange::Silent { seconds });
        }
        let mut others = live.iter().filter(|(other, _)| *other != index);
        let alone = others.all(|(_, drive)| drive.owed.silent_for() < TOLD_AFTER);
        if silent >= FAILED_AFTER && alone && self.can_lose_one() {
            self.shard.array.fail_member(index, id);
            self.shard.upkeep.notify_one();
        }
    }

    /// True while every block can be had without one more of the drives that work.
    fn can_lose_one(&self) -> bool {
        let published = self.published.borrow();
        let superblock = &published.superblock;
        let members = superblock.members.iter().enumerate();
        let listed = members.filter(|(_, member)| member.state != MEMBER_NONE);
        let lost = listed.filter(|(index, member)| {
            member.state != MEMBER_ACTIVE || !self.shard.array.is_live(*index)
        });
        lost.count() < lost_max(superblock)
    }
}
