//! Balance: columns of full segments move to drives with more free zones, so that a drive that
//! joined takes its share and every free zone can be part of a segment.
//!
//! A column moves as it is, block for block, to another zone: where a block is, in segments,
//! columns and rows, does not change, so the maps do not either. Only the tables do, with the next
//! checkpoint, behind which nothing looks into the old zone but who looked it up before.

use crate::checkpoint::Resume;
use crate::cleaning::copy::Copied;
use crate::ids::SegmentNumber;
use crate::reporting::event::PoolEvent;
use crate::segments::attempts::Stuck;
use crate::segments::zones::{Zone, formable};
use crate::segments::{ColumnMove, Kind, Segment, SegmentState};
use crate::shard::coordinator::Coordinator;
use crate::shard::pace::Pace;
use crate::shard::state::State;
use block::BlockDevice;
use std::rc::Rc;

/// Drives may differ by this part of their zones: writing and cleaning make them differ.
const TOLERATED_PART: usize = 16;
/// And by so many zones, however few they have.
const TOLERATED_LEAST: usize = 4;
/// So many columns are copied before the tables say so.
const AT_ONCE: usize = 16;

/// Free zones by drive, those on their way included; of drives that take no data there is nothing.
struct Room {
    free: Vec<usize>,
    /// All zones of each.
    zones: Vec<usize>,
    /// Columns of a segment.
    width: usize,
    /// Segments can be formed beyond what is kept back.
    spare: bool,
    /// Few segments can be formed: half as much of a difference counts if it keeps one from it.
    short: bool,
}

impl Room {
    /// By how many free zones `to` is ahead of `from`, if a zone is to move.
    fn gap(&self, from: usize, to: usize) -> Option<usize> {
        let ahead = self.free[to].saturating_sub(self.free[from]);
        let tolerated = (self.zones[to] / TOLERATED_PART).max(TOLERATED_LEAST);
        let gains = || self.formable_after(1, from, to) > formable(&self.free, self.width);
        let there = self.zones[from] > 0 && self.zones[to] > 0;
        let wanted = ahead > tolerated || self.short && ahead > tolerated / 2 && gains();
        (there && wanted).then_some(ahead)
    }

    /// Until the tables know of it the move takes a zone and gives none.
    fn can_take(&self, to: usize) -> bool {
        self.spare || self.formable_after(0, to, to) == formable(&self.free, self.width)
    }

    /// Segments that could be formed with a zone less on `to` and `given` more on `from`.
    fn formable_after(&self, given: usize, from: usize, to: usize) -> usize {
        let mut free = self.free.clone();
        free[to] -= 1;
        free[from] += given;
        formable(&free, self.width)
    }

    /// Zones that would move if any could.
    fn uneven(&self) -> u64 {
        let drives = self.zones.iter().filter(|zones| **zones > 0).count();
        let mean = self.free.iter().sum::<usize>().div_ceil(drives.max(1));
        let above = self.free.iter().map(|free| free.saturating_sub(mean));
        above.sum::<usize>() as u64
    }
}

impl<D: BlockDevice + 'static> Coordinator<D> {
    /// Balances, until the pool stops.
    pub async fn keep_balance(self: Rc<Self>) {
        // Since the drives were even.
        let mut moved = 0;
        while !self.ends() {
            if let Some(more) = self.balance().await {
                moved += more;
                self.tell_balance(moved, self.room(&[]).uneven().max(1));
                continue;
            }
            self.tell_balance(std::mem::take(&mut moved), 0);
            if self.a_writer_waits() {
                self.shard.upkeep.notify_one();
            }
            self.unbalanced.notified().await;
        }
    }

    /// Moves some columns, and says how many. `None` when there is nothing to move.
    async fn balance(self: &Rc<Self>) -> Option<u64> {
        let mut copied = Vec::new();
        let mut pace = Pace::new(&self.shard);
        // What was copied to a drive says nothing of another one in its place.
        let drives = self.shard.array.changes.get();
        let same = || self.shard.array.changes.get() == drives;
        while copied.len() < AT_ONCE && same() {
            let Some(next) = self.begin_column_move(&copied).await else {
                break;
            };
            let end = self.copy(&next, &mut pace).await;
            if end == Copied::Whole {
                copied.push(next);
                continue;
            }
            let mut state = self.shard.state.borrow_mut();
            state.segments.zones_mut().give_back(next.to);
            match end {
                Copied::Stuck(Stuck::Unreadable) => {
                    self.unmovable.borrow_mut().insert(next.generation);
                }
                Copied::Stuck(Stuck::Away) => state.attempts.fail(next.number, Stuck::Away),
                Copied::Whole | Copied::GivenUp => {}
            }
        }
        if copied.is_empty() || self.ends() {
            return None;
        }
        let settle = |state: &mut State| Ok(self.settle_moves(state, &copied, same()));
        // A failure has taken the pool offline.
        let settled = self.checkpoint_with(Resume::AtFreeze, settle).await;
        settled.ok()
    }

    /// Has the tables say of columns that were copied where they are, if the drives are the `same`.
    fn settle_moves(&self, state: &mut State, copied: &[ColumnMove], same: bool) -> u64 {
        let mut moved = 0;
        for one in copied {
            let wanted = same && self.shard.array.takes_data(usize::from(one.to.drive));
            let settled = state.victims.is_settled(one.number);
            if wanted && settled && state.segments.move_column(one) {
                self.vacated.borrow_mut().push(one.from);
                let rows = state.segments.get(one.number).map_or(0, |found| found.rows);
                self.shard
                    .array
                    .count(|counters| counters.rebalanced_blocks += u64::from(rows));
                moved += 1;
            } else {
                state.segments.zones_mut().give_back(one.to);
            }
        }
        moved
    }

    /// Chooses a column, and takes the zone to which it is to move.
    async fn begin_column_move(&self, copied: &[ColumnMove]) -> Option<ColumnMove> {
        let _alone = self.upkeep_lock.lock().await;
        let rebuilds = self.degraded(&self.shard.state.borrow()).next().is_some();
        // Redundancy that is missing comes first, but for who waits for space.
        if self.ends() || rebuilds && !self.a_writer_waits() {
            return None;
        }
        let (number, column, to) = self.next_move(copied)?;
        let mut state = self.shard.state.borrow_mut();
        let segment = state.segments.get(number)?;
        let (generation, from) = (segment.generation, segment.columns[column]?);
        Some(ColumnMove {
            number,
            generation,
            column,
            from,
            to: state.segments.zones_mut().begin_filling(to)?,
        })
    }

    /// True when columns are about to move, or could to some good, or have left zones that are free
    /// when a checkpoint under way is durable.
    pub fn is_uneven(&self) -> bool {
        let moving = {
            let state = self.shard.state.borrow();
            state.segments.zones().are_filling() || !self.vacated.borrow().is_empty()
        };
        moving || self.next_move(&[]).is_some()
    }

    /// A segment, a column of it, and the drive that it is best moved to: from where free zones are
    /// fewest to where they are most, and of the segments there the one with most that lives.
    fn next_move(&self, copied: &[ColumnMove]) -> Option<(SegmentNumber, usize, usize)> {
        let room = self.room(copied);
        let there = self.shard.state.borrow().segments.free_zones(|_| true);
        let mut drives: Vec<usize> = (0..room.free.len()).collect();
        drives.sort_by_key(|drive| std::cmp::Reverse(room.free[*drive]));
        drives.into_iter().find_map(|to| {
            let gaps = (0..room.free.len()).map(|from| room.gap(from, to));
            let gaps: Vec<Option<usize>> = gaps.collect();
            let worth = gaps.iter().any(Option::is_some) && room.can_take(to) && there[to] > 0;
            worth.then(|| self.column_for(to, &gaps, copied))?
        })
    }

    fn column_for(
        &self,
        to: usize,
        gaps: &[Option<usize>],
        copied: &[ColumnMove],
    ) -> Option<(SegmentNumber, usize, usize)> {
        let state = self.shard.state.borrow();
        let unmovable = self.unmovable.borrow();
        let taking = self.shard.array.taking_mask();
        let may_move = |number: SegmentNumber, segment: &Segment| {
            segment.kind != Kind::Map
                && segment.state == SegmentState::Sealed
                && segment.live() > 0
                && state.victims.is_settled(number)
                && !state.attempts.is_stuck(number)
                && !state.quarantined.contains(&number)
                && !segment.lacks_drive(taking)
                && !segment.is_on(to)
                && !unmovable.contains(&segment.generation)
                && !copied.iter().any(|one| one.number == number)
        };
        let table = state.segments.table().iter();
        let movable = table.filter(|(number, segment)| may_move(**number, segment));
        let columns = movable.flat_map(|(number, segment)| {
            let zones = segment.columns.iter().enumerate();
            zones.filter_map(|(column, zone)| {
                let gap = gaps[usize::from((*zone)?.drive)]?;
                // Data and parity in turn.
                let turn = (segment.generation.get() as usize + column) % segment.columns.len();
                Some(((gap, segment.live(), turn), (*number, column, to)))
            })
        });
        columns.max_by_key(|found| found.0).map(|found| found.1)
    }

    fn room(&self, copied: &[ColumnMove]) -> Room {
        let state = self.shard.state.borrow();
        let takes = |drive: usize| self.shard.array.takes_data(drive);
        let mut free = state.segments.vacant_zones(takes);
        let mut count = |zone: &Zone| {
            let drive = usize::from(zone.drive);
            free[drive] += usize::from(takes(drive));
        };
        state
            .segments
            .zones()
            .discarding()
            .iter()
            .for_each(&mut count);
        self.vacated.borrow().iter().for_each(&mut count);
        copied.iter().for_each(|one| count(&one.from));
        state.zones_in_limbo().for_each(|zone| count(&zone));
        let spare = self.free_segments(&state).spare;
        Room {
            free,
            zones: self.shard.zones(),
            width: self.shard.rules().wide().width(),
            spare: spare > 0,
            short: spare < self.shard.size().ready_target(),
        }
    }

    fn tell_balance(&self, moved: u64, left_zones: u64) {
        if moved > 0 {
            self.shard.array.events.push(PoolEvent::Balance {
                left_zones,
                total_zones: moved + left_zones,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn room(free: &[usize], zones: usize, width: usize) -> Room {
        Room {
            free: free.to_vec(),
            zones: free.iter().map(|_| zones).collect(),
            width,
            spare: true,
            short: false,
        }
    }

    #[test]
    fn zones_move_where_the_difference_is_more_than_writing_makes() {
        let new_drive = room(&[10, 10, 10, 60], 100, 3);
        assert_eq!(new_drive.gap(0, 3), Some(50));
        assert_eq!(new_drive.gap(3, 0), None);
        assert_eq!(new_drive.uneven(), 37);
        assert_eq!(room(&[10, 16, 10, 10], 100, 3).gap(0, 1), None);
        assert_eq!(room(&[10, 17, 10, 10], 100, 3).gap(0, 1), Some(7));
        assert_eq!(room(&[3, 7], 10, 2).gap(0, 1), None);
        assert_eq!(room(&[3, 8], 10, 2).gap(0, 1), Some(5));
    }

    #[test]
    fn where_space_is_short_every_segment_counts() {
        let mut short = room(&[2, 6, 6], 100, 3);
        assert_eq!(short.gap(0, 1), None);
        short.short = true;
        assert_eq!(short.gap(0, 1), Some(4));
        short.free = vec![2, 5, 5];
        assert_eq!(short.gap(0, 1), None, "writing alone may do that");
        short.free = vec![2, 2, 6];
        assert_eq!(short.gap(0, 2), None, "another drive has as few");
    }

    #[test]
    fn no_segment_is_given_up_for_a_move_but_where_one_is_spare() {
        let mut room = room(&[4, 4, 0], 100, 2);
        assert!(room.can_take(0));
        room.spare = false;
        assert!(!room.can_take(0), "4 segments, then 3");
        room.free = vec![9, 4, 1];
        assert!(room.can_take(0));
    }

    #[test]
    fn drives_that_take_no_data_are_left_alone() {
        let mut room = room(&[0, 50, 10], 100, 2);
        room.zones[0] = 0;
        assert_eq!((room.gap(0, 1), room.gap(2, 1)), (None, Some(40)));
    }
}
