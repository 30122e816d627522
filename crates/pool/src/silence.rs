//! Drives that answer nothing: told, and taken out of use where the pool can do without them, so
//! that hosts need not wait as long as a kernel does.

use crate::coordinator::Coordinator;
use crate::core::Core;
use crate::format::superblock::{MEMBER_ACTIVE, MEMBER_NONE};
use crate::membership::lost_max;
use crate::messages::Report;
use crate::reporting::event::DriveChange;
use block::BlockDevice;
use reactor::Instant;
use std::cell::Cell;
use std::rc::Weak;
use std::time::Duration;

/// How often a core looks whether its drives answer.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// A drive that has answered nothing for so long is told of.
const TOLD_AFTER: Duration = Duration::from_secs(5);
/// And taken out of use after so long: Linux hosts give a request up after 30 seconds.
const FAILED_AFTER: Duration = Duration::from_secs(20);

/// Whether a drive owes answers, and since when it has given none.
#[derive(Debug, Default)]
pub(crate) struct Owed {
    requests: Cell<usize>,
    since: Cell<Instant>,
    /// When it was last told of.
    told: Cell<Instant>,
}

/// A request that is under way.
pub(crate) struct Owing<'a>(&'a Owed);

impl Owed {
    pub fn begin(&self) -> Owing<'_> {
        if self.requests.get() == 0 {
            self.since.set(reactor::turn_started());
        }
        self.requests.set(self.requests.get() + 1);
        Owing(self)
    }

    /// Something has been answered.
    pub fn answered(&self) {
        self.since.set(reactor::turn_started());
    }

    /// For how long nothing has been answered of what was asked.
    pub fn silent_for(&self) -> Duration {
        match self.requests.get() {
            0 => Duration::ZERO,
            _ => reactor::now().saturating_since(self.since.get()),
        }
    }

    /// True once in [`TOLD_AFTER`], whoever asks and however late: a drive that has been silent for
    /// that long is to be told of.
    fn tells_again(&self) -> bool {
        let now = reactor::now();
        let again = now.saturating_since(self.told.get()) >= TOLD_AFTER;
        if again {
            self.told.set(now);
        }
        again
    }
}

impl Drop for Owing<'_> {
    fn drop(&mut self) {
        self.0.requests.set(self.0.requests.get() - 1);
    }
}

/// A drive that one core waits for: its place, its identifier and for how long.
pub(crate) type Silent = (usize, [u8; 16], Duration);

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
        let live = self.array.live();
        let drive = live.iter().find(|(_, drive)| drive.id == id);
        if drive.is_some_and(|(_, drive)| drive.owed.tells_again()) {
            let seconds = silent.as_secs();
            self.array.tell(index, id, DriveChange::Silent { seconds });
        }
        let mut others = live.iter().filter(|(other, _)| *other != index);
        let alone = others.all(|(_, drive)| drive.owed.silent_for() < TOLD_AFTER);
        if silent >= FAILED_AFTER && alone && self.can_lose_one() {
            self.array.fail_member(index, id);
            self.upkeep.notify_one();
        }
    }

    /// True while every block can be had without one more of the drives that work.
    fn can_lose_one(&self) -> bool {
        let published = self.published.borrow();
        let superblock = &published.superblock;
        let members = superblock.members.iter().enumerate();
        let listed = members.filter(|(_, member)| member.state != MEMBER_NONE);
        let lost = listed
            .filter(|(index, member)| member.state != MEMBER_ACTIVE || !self.array.is_live(*index));
        lost.count() < lost_max(superblock)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks at these times, in tenths of a second since a drive was asked something, which it
    /// never answers; returns those at which it is told.
    fn told_at(looks: &'static [u64]) -> Vec<u64> {
        reactor::Reactor::simulated(1).run(async {
            let owed = Owed::default();
            let _owing = owed.begin();
            let begun = reactor::now();
            let mut told = Vec::new();
            for look in looks {
                reactor::sleep_until(begun + Duration::from_millis(look * 100)).await;
                if owed.silent_for() >= TOLD_AFTER && owed.tells_again() {
                    told.push(*look);
                }
            }
            told
        })
    }

    #[test]
    fn a_silent_drive_is_told_of_every_few_seconds_though_looks_come_late() {
        assert_eq!(told_at(&[40, 50, 60, 70, 80, 90, 100, 110]), [50, 100]);
        assert_eq!(
            told_at(&[49, 60, 70, 80, 90, 109, 119, 169]),
            [60, 119, 169]
        );
        // Several cores look.
        assert_eq!(told_at(&[50, 50, 51, 60, 100, 100]), [50, 100]);
    }

    #[test]
    fn a_silence_that_begins_anew_is_told_of_anew() {
        reactor::Reactor::simulated(1).run(async {
            let owed = Owed::default();
            let _owing = owed.begin();
            reactor::sleep(Duration::from_secs(9)).await;
            assert!(owed.tells_again());
            owed.answered();
            assert_eq!(owed.silent_for(), Duration::ZERO);
            reactor::sleep(TOLD_AFTER).await;
            assert!(owed.silent_for() >= TOLD_AFTER && owed.tells_again());
        });
    }
}
