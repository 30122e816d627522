//! [`PoolEvent`]: what an operator should hear of, kept until somebody asks.
//!
//! What waits is bounded: an event replaces an earlier one about the same thing that nobody has
//! taken, so what is lost is never the latest state of anything.

use crate::ids::DriveId;
use crate::offline::OfflineReason;
use crate::reporting::lost::LostBlock;
use crate::reporting::status::PoolState;
use reactor::sync::Notify;
use std::cell::RefCell;
use std::collections::{BTreeSet, VecDeque};

/// Lost blocks that are told one by one; of further ones only the number is.
const LOST_TOLD_MAX: usize = 256;

/// Something that happened to a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PoolEvent {
    /// The space in use passed 80, 90 or 95% of what is usable, or fell below again.
    Space {
        /// The highest of these marks that is passed; 0 if none is, 100 if a write was refused.
        mark_percent: u8,
        /// In use, or promised to volumes that reserve space.
        used_bytes: u64,
        /// What the pool can hold.
        usable_bytes: u64,
    },
    /// The pool is online, degraded or offline as of now.
    State {
        /// How well it is.
        state: PoolState,
        /// Why it is offline, if it is.
        reason: Option<OfflineReason>,
    },
    /// A member drive failed, came, went, or behaves in another way.
    Drive {
        /// Which drive.
        id: DriveId,
        /// Its position among the members.
        index: usize,
        /// What changed.
        change: DriveChange,
    },
    /// Blocks are being moved off drives that are gone or are leaving.
    Rebuild {
        /// Blocks that still have to be moved; 0: done.
        left_blocks: u64,
        /// Blocks there were to move when it began.
        total_blocks: u64,
    },
    /// Data moves to drives that have more free space than others.
    Balance {
        /// Zones that still have to be moved, about; 0: done.
        left_zones: u64,
        /// Those and the ones that have been moved.
        total_zones: u64,
    },
    /// No more can be rebuilt: the drives that are left are too few for a stripe, or too full.
    RebuildWaits {
        /// Blocks that redundancy is missing of.
        left_blocks: u64,
    },
    /// A rebuild ended but for blocks that cannot be read.
    RebuildStuck {
        /// Blocks, readable ones in the same segments included, that stay where they are.
        left_blocks: u64,
    },
    /// A scrub goes on.
    Scrub {
        /// Segments checked.
        done_segments: u64,
        /// Segments to check in all.
        total_segments: u64,
    },
    /// A scrub ended.
    ScrubEnded {
        /// Blocks that were wrong and are right now.
        repaired_blocks: u64,
        /// Data blocks that are lost.
        lost_blocks: u64,
        /// Map nodes that are lost, and everything below them.
        lost_nodes: u64,
    },
    /// Writes are refused although there is space: each segment has a generation of its own, and
    /// those have all but come to their end.
    GenerationsEnd,
    /// Blocks could not be read with all the redundancy there is.
    BlockLost {
        /// The first of them.
        lost: LostBlock,
        /// How many: one, unless it is not known any more where they are.
        blocks: u64,
        /// Names of the volumes and snapshots above it.
        holders: Vec<String>,
    },
    /// More blocks were lost than are told one by one.
    MoreBlocksLost {
        /// How many more.
        blocks: u64,
    },
}

/// What changed about a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DriveChange {
    /// It is a member now.
    Joined,
    /// It failed requests and is out of use.
    Failed,
    /// It was not there when the pool was opened.
    Missing,
    /// It was there when the pool was opened, but no label of it was whole.
    LabelDamaged,
    /// One of its two labels was damaged, gone or unreadable when the pool was opened, and has been
    /// written anew.
    LabelMended,
    /// It is there again but missed writes; it is not used until it is added anew.
    Stale,
    /// It is no member any more: the pool does without it.
    Left {
        /// Drives that the pool can lose from now on, whichever they are, and go on.
        drives_to_spare: usize,
    },
    /// It takes much longer than the other drives.
    Slow {
        /// Half its requests take longer.
        median_us: u64,
        /// The same of the other drives.
        others_us: u64,
    },
    /// It is no longer slow.
    Steady,
    /// It does not answer.
    Silent {
        /// For so long.
        seconds: u64,
    },
    /// It fails to read blocks, or gives back other bytes than were written.
    Errors {
        /// Reads that failed, since the pool was opened.
        read_errors: u64,
        /// Blocks that came back wrong, since the pool was opened.
        corrupt_blocks: u64,
    },
}

/// What an event is about: of two about the same thing only the later is kept.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Subject {
    Space,
    State,
    Membership(DriveId),
    Pace(DriveId),
    Silence(DriveId),
    Errors(DriveId),
    Label(DriveId),
    Rebuild,
    Balance,
    Scrub,
    Generations,
    Lost(LostBlock),
    MoreLost,
}

impl PoolEvent {
    fn subject(&self) -> Subject {
        match self {
            PoolEvent::Space { .. } => Subject::Space,
            PoolEvent::State { .. } => Subject::State,
            PoolEvent::Drive { id, change, .. } => match change {
                DriveChange::Slow { .. } | DriveChange::Steady => Subject::Pace(*id),
                DriveChange::Silent { .. } => Subject::Silence(*id),
                DriveChange::Errors { .. } => Subject::Errors(*id),
                DriveChange::LabelMended => Subject::Label(*id),
                _ => Subject::Membership(*id),
            },
            PoolEvent::Rebuild { .. }
            | PoolEvent::RebuildWaits { .. }
            | PoolEvent::RebuildStuck { .. } => Subject::Rebuild,
            PoolEvent::Balance { .. } => Subject::Balance,
            PoolEvent::Scrub { .. } | PoolEvent::ScrubEnded { .. } => Subject::Scrub,
            PoolEvent::GenerationsEnd => Subject::Generations,
            PoolEvent::BlockLost { lost, .. } => Subject::Lost(*lost),
            PoolEvent::MoreBlocksLost { .. } => Subject::MoreLost,
        }
    }
}

#[derive(Default)]
struct Waiting {
    events: VecDeque<PoolEvent>,
    /// Lost blocks that have been told.
    told: BTreeSet<LostBlock>,
    more_lost: u64,
    closed: bool,
}

/// The events that nobody has taken yet.
#[derive(Default)]
pub(crate) struct Events {
    waiting: RefCell<Waiting>,
    arrived: Notify,
}

impl Events {
    pub fn push(&self, event: PoolEvent) {
        let mut waiting = self.waiting.borrow_mut();
        let subject = event.subject();
        waiting.events.retain(|other| other.subject() != subject);
        waiting.events.push_back(event);
        drop(waiting);
        self.arrived.notify_one();
    }

    /// Blocks from `lost` on are lost; `holders` names who has them. They are told once.
    pub fn lose(&self, lost: LostBlock, blocks: u64, holders: impl FnOnce() -> Vec<String>) {
        let mut waiting = self.waiting.borrow_mut();
        if waiting.told.contains(&lost) {
            return;
        }
        let event = if waiting.told.len() < LOST_TOLD_MAX {
            waiting.told.insert(lost);
            PoolEvent::BlockLost {
                lost,
                blocks,
                holders: holders(),
            }
        } else {
            waiting.more_lost += blocks;
            PoolEvent::MoreBlocksLost {
                blocks: waiting.more_lost,
            }
        };
        drop(waiting);
        self.push(event);
    }

    /// Nothing will happen any more.
    pub fn close(&self) {
        self.waiting.borrow_mut().closed = true;
        self.arrived.notify_all();
    }

    pub async fn next(&self) -> Option<PoolEvent> {
        loop {
            {
                let mut waiting = self.waiting.borrow_mut();
                let event = waiting.events.pop_front();
                if event.is_some() || waiting.closed {
                    return event;
                }
            }
            self.arrived.notified().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn space(mark_percent: u8) -> PoolEvent {
        PoolEvent::Space {
            mark_percent,
            used_bytes: 1,
            usable_bytes: 2,
        }
    }

    fn drive(index: usize, change: DriveChange) -> PoolEvent {
        let id = DriveId([index as u8; 16]);
        PoolEvent::Drive { id, index, change }
    }

    fn taken(events: Events) -> Vec<PoolEvent> {
        events.close();
        reactor::Reactor::simulated(1).run(async {
            let mut taken = Vec::new();
            while let Some(event) = events.next().await {
                taken.push(event);
            }
            taken
        })
    }

    #[test]
    fn the_latest_state_of_everything_is_kept() {
        let events = Events::default();
        events.push(space(80));
        events.push(drive(1, DriveChange::Failed));
        events.push(drive(1, DriveChange::Steady));
        events.push(drive(2, DriveChange::Failed));
        events.push(space(90));
        let left = DriveChange::Left { drives_to_spare: 2 };
        events.push(drive(1, left));
        assert_eq!(
            taken(events),
            [
                drive(1, DriveChange::Steady),
                drive(2, DriveChange::Failed),
                space(90),
                drive(1, left),
            ]
        );
    }

    #[test]
    fn however_many_blocks_are_lost_what_waits_is_bounded() {
        let events = Events::default();
        for block in 0..10_000 {
            let lost = LostBlock { layer: 1, block };
            events.lose(lost, 1, Vec::new);
            events.lose(lost, 1, Vec::new);
        }
        let taken = taken(events);
        assert_eq!(taken.len(), LOST_TOLD_MAX + 1);
        assert!(
            matches!(taken.last(), Some(PoolEvent::MoreBlocksLost { blocks }) if *blocks > 9000)
        );
    }

    #[test]
    fn a_reader_that_waits_is_woken() {
        let events = std::rc::Rc::new(Events::default());
        reactor::Reactor::simulated(1).run(async {
            let reader = reactor::spawn({
                let events = events.clone();
                async move { (events.next().await, events.next().await) }
            });
            reactor::yield_now().await;
            events.push(space(80));
            reactor::yield_now().await;
            events.close();
            assert_eq!(reader.await, (Some(space(80)), None));
        });
    }
}
