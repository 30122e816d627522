//! The cleaner: moves what still lives out of a segment, so that the segment can be freed.
//!
//! It works in [windows](crate::cleaning::window): so many blocks are looked at and moved, then
//! upkeep decides anew, so that a checkpoint need not wait for a whole segment.

use crate::format::body::REDIRECT_BYTES;
use crate::ids::{SegmentNumber, Sequence, ShardId, StripeId};
use crate::segments::cleaned::{Cleaned, Cleaning, Window};
use crate::segments::space::Aged;
use crate::segments::victim::{Emptied, Victim};
use crate::segments::{Kind, Segment, SegmentState};
use crate::shard::coordinator::Coordinator;
use crate::shard::core::Core;
use crate::shard::messages::Order;
use crate::shard::state::State;
use block::BlockDevice;
use std::cell::Cell;
use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;

/// Redirects take such a part of the room for tables at most, as long as others can be moved to.
const REDIRECTS_PART: usize = 8;

/// Where what is moved goes.
#[derive(Clone, Copy)]
struct Moved {
    /// Drives that take data, by the bits of their indices: zones of others are nobody's gain.
    taking: u32,
    /// Blocks that go to those drives for each that is moved.
    width: f64,
}

/// How well a segment is cleaned now rather than later; `None` if it would free nothing.
///
/// If blocks die at a rate `r` each, a segment cleaned when a share `u` is left costs `u / (1 - u)`
/// blocks moved for each that it frees, and what is dead in it is space that no other has. The two
/// are least together over all segments, whatever their rates, where all are cleaned at the same
/// `(1 / u - 1 + ln u) / r`. What has become of a segment at its age says its rate: `-ln u / age`.
fn score(segment: &Segment, zone_rows: u32, moved: Moved, now: Sequence) -> Option<f64> {
    let frees = segment.columns_on(moved.taking) as f64 * f64::from(zone_rows);
    // Headers and padding of the stripes that take the blocks in: about one row in sixteen.
    let takes = segment.live() as f64 * moved.width * 1.07;
    let age = 1.0 + now.stripes_since(segment.sequence) as f64;
    let left = takes.max(1.0) / frees;
    (frees > takes).then(|| age * (1.0 / left - 1.0 + left.ln()) / -left.ln())
}

impl State {
    /// All rows of a victim have been looked at, and what was taken out has been moved.
    fn end_victim(&self, victim: Victim) -> Emptied {
        let stays = self.attempts.is_stuck(victim.number);
        victim.end(&self.segments, self.tables.version(), stays)
    }

    /// Everything that could be moved out of a segment was. What is certain to have been replaced
    /// was by each shard's stripes up to the one in `through`.
    fn note_empty(&mut self, number: SegmentNumber, emptied: Emptied, through: Vec<StripeId>) {
        self.victims.emptied(number);
        let segment = self.segments.get(number);
        let all = segment.map(|segment| u64::from(segment.live_tree));
        // One that lacks a drive is emptied although a former holder's stripes may still come.
        let stays = self.attempts.is_stuck(number) || self.quarantined.contains(&number);
        if emptied.accounted.is_some() && emptied.accounted == all && !stays {
            self.emptied.await_logs(number, through);
        } else {
            // What still counts as live was replaced and awaits the next merge, or cannot be read,
            // or the zones are not to be used yet.
            self.emptied.await_merge(number, emptied.whole);
            self.unmapped.extend(emptied.unmapped);
        }
    }
}

impl<D: BlockDevice + 'static> Core<D> {
    /// The segment that is best cleaned now, and the share of it that lives. While a writer has
    /// waited for long it is the one that frees most, however soon more of it would have died.
    pub fn victim(&self) -> Option<(SegmentNumber, f64)> {
        let state = self.state.borrow();
        let shape = self.array.shape(self.formed_width());
        let moved = Moved {
            taking: self.array.taking_mask(),
            width: self.formed_columns() as f64 / shape.data as f64,
        };
        let candidates = state.victims.settled().iter().filter(|number| {
            !state.attempts.is_stuck(**number) && !state.quarantined.contains(number)
        });
        candidates
            .filter_map(|number| {
                let segment = state.segments.get(*number)?;
                let data = segment.kind != Kind::Map && segment.state == SegmentState::Sealed;
                if !data || segment.live() == 0 {
                    return None;
                }
                let now = match state.victims.is_urgent() {
                    true => segment.sequence,
                    false => state.log.applied(),
                };
                let score = score(segment, self.zone_rows, moved, now)?;
                let blocks =
                    f64::from(self.zone_rows) * self.array.shape(segment.columns.len()).data as f64;
                Some((*number, score, segment.live() as f64 / blocks))
            })
            .max_by(|left, right| left.1.total_cmp(&right.1))
            .map(|(number, _, filled)| (number, filled))
    }

    /// Moves a window of this shard's blocks out of one segment.
    pub async fn clean_one(self: &Rc<Self>, number: SegmentNumber) -> Cleaned {
        // Another one that was left half way was given up.
        self.state.borrow_mut().victims.give_up_other_than(number);
        let chosen = Cell::new(Some(number));
        let (window, mut emptied) = self.clean(1, || chosen.take()).await;
        let state = self.state.borrow();
        let victim = emptied.pop();
        Cleaned {
            window,
            half_way: state.victims.half_way().is_some(),
            stuck: state.attempts.why_stuck(number),
            emptied: victim
                .map(|victim| state.end_victim(victim))
                .unwrap_or_default(),
            through: state.log.applied(),
        }
    }
}

impl<D: BlockDevice + 'static> Coordinator<D> {
    /// Looks whether redirects take more of the tables than they should. Each is kept until every
    /// segment has gone that was there when its layer went; one that is full of what lives is worth
    /// no cleaning for the space in it, and would stay for ever.
    pub fn aged(&self) -> Aged {
        let most = self.slot_bytes() / REDIRECTS_PART / REDIRECT_BYTES;
        let state = self.shard.state.borrow();
        if state.tables.redirects.len() <= most {
            return Aged::No;
        }
        // Those that are empty go with the next checkpoint.
        let stays = |number: &SegmentNumber, segment: &Segment| {
            let sealed = segment.state == SegmentState::Sealed;
            let emptied = state.emptied.has(*number);
            segment.tells_of_layers() && !(sealed && (segment.live() == 0 || emptied))
        };
        let table = state.segments.table().iter();
        let staying = table.filter(|(number, segment)| stays(number, segment));
        let Some((number, oldest)) = staying.min_by_key(|(_, segment)| segment.generation) else {
            return Aged::No;
        };
        if state.tables.redirects_since(oldest.generation) <= most {
            return Aged::No;
        }
        let bound = state.attempts.is_stuck(*number) || state.quarantined.contains(number);
        match (oldest.state, state.victims.is_settled(*number) && !bound) {
            (SegmentState::Sealed, true) => Aged::Victim(*number),
            (SegmentState::Sealed, false) => Aged::No,
            _ => Aged::Open,
        }
    }

    /// Moves live blocks out of segments that `choose` names, a window of them. The caller holds
    /// the upkeep lock.
    pub async fn clean_window(
        &self,
        wanted: usize,
        choose: impl Fn() -> Option<SegmentNumber>,
    ) -> Window {
        if self.peers().is_empty() {
            let (window, emptied) = self
                .shard
                .clean(wanted, || self.shard.attempt(&choose))
                .await;
            let mut state = self.shard.state.borrow_mut();
            let through = vec![StripeId {
                shard: ShardId::FIRST,
                sequence: state.log.applied(),
            }];
            for victim in emptied {
                let number = victim.number;
                let emptied = state.end_victim(victim);
                state.note_empty(number, emptied, through.clone());
            }
            return window;
        }
        let task = self
            .cleaning
            .take()
            .or_else(|| self.begin_cleaning(&choose));
        let Some(mut task) = task else {
            return Window::Moved;
        };
        let Some(shard) = task.shards.pop_front() else {
            return Window::Moved;
        };
        let cleaned = self.clean_at(shard, task.number).await;
        let Some(cleaned) = cleaned else {
            return Window::NoRoom;
        };
        let mut state = self.shard.state.borrow_mut();
        if let Some(why) = cleaned.stuck {
            state.attempts.fail(task.number, why);
        }
        if cleaned.window == Window::NoRoom {
            state.attempts.forget_count(task.number);
            state.victims.not_emptied(task.number);
            return Window::NoRoom;
        }
        match cleaned.half_way {
            true => task.shards.push_front(shard),
            false => task.note(shard, cleaned.emptied, cleaned.through),
        }
        if task.shards.is_empty() {
            let (number, through) = (task.number, std::mem::take(&mut task.through));
            let emptied = task.end(state.tables.version());
            state.note_empty(number, emptied, through);
        } else {
            self.cleaning.set(Some(task));
        }
        Window::Moved
    }

    /// Shards are still to move their blocks out of a segment. Those that have none there need no
    /// room, and others may have some: only they know.
    pub fn has_begun_cleaning(&self) -> bool {
        let task = self.cleaning.take();
        let has_begun = task.is_some();
        self.cleaning.set(task);
        has_begun
    }

    fn begin_cleaning(&self, choose: &impl Fn() -> Option<SegmentNumber>) -> Option<Cleaning> {
        let number = self.shard.attempt(choose)?;
        let writer = self.shard.state.borrow().segments.get(number)?.writer;
        let shards = match writer {
            Some(shard) => VecDeque::from([shard]),
            // Before the pool was opened blocks may have been dealt in another way.
            None => (0..self.shard.state.borrow().share.shards)
                .map(ShardId::new)
                .collect(),
        };
        Some(Cleaning {
            number,
            shards,
            emptied: Emptied {
                accounted: Some(0),
                whole: true,
                unmapped: BTreeSet::new(),
            },
            tables_version: self.shard.state.borrow().tables.version(),
            through: Vec::new(),
        })
    }

    /// Has a shard move a window of its blocks out of a segment. `None` if the shard has gone.
    async fn clean_at(&self, shard: ShardId, number: SegmentNumber) -> Option<Cleaned> {
        let Some(peer) = self.peer(shard) else {
            return Some(self.shard.clean_one(number).await);
        };
        let asked = peer.outbox.ask(|reply| Order::Clean(number, reply));
        self.answer(asked).await.ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Generation;
    use crate::segments::zones::Zone;

    /// A segment with a column on each of four drives.
    fn segment(live: u32) -> Segment {
        let columns = (0..4).map(|drive| Some(Zone { drive, index: 7 }));
        let mut segment = Segment::new(Kind::Wide, Generation::new(1), columns.collect());
        segment.live_tree = live;
        segment
    }

    #[test]
    fn a_zone_of_a_drive_that_is_gone_is_no_space_gained() {
        const ROWS: u32 = 100;
        // Three columns hold data, then two.
        let whole = Moved {
            taking: 0b1111,
            width: 4.0 / 3.0,
        };
        let degraded = Moved {
            taking: 0b1101,
            width: 3.0 / 2.0,
        };
        let now = Sequence::new(9);
        let scored = |live: u32, moved: Moved| score(&segment(live), ROWS, moved, now);
        assert!(scored(270, whole).is_some());
        assert_eq!(scored(290, whole), None, "it would take more than it frees");
        assert_eq!(
            scored(240, degraded),
            None,
            "of 300 blocks there are as many left"
        );
        assert!(scored(150, degraded) < scored(150, whole));
        let mut never_written = segment(240);
        never_written.columns[1] = None;
        let there = Moved {
            taking: 0b1111,
            ..degraded
        };
        assert_eq!(score(&never_written, ROWS, there, now), None);
    }
}
