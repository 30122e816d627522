//! What becomes an event: space, the state of the pool, drives, rebuilds, lost blocks.

use crate::format::superblock::{MEMBER_ACTIVE, MEMBER_NONE, Member};
use crate::ids::LayerId;
use crate::location::{BLOCK_BYTES, LayerBlock};
use crate::reporting::event::PoolEvent;
use crate::reporting::lost::LostBlock;
use crate::reporting::status::PoolState;
use crate::segments::attempts::Stuck;
use crate::shard::coordinator::Coordinator;
use crate::shard::core::Core;
use crate::volumes::Tables;
use block::BlockDevice;
use std::cell::Cell;

/// Shares of the usable space at which an operator hears of it, in percent.
const MARKS: [u8; 3] = [80, 90, 95];
/// Stands for a write that was refused: whoever tries again will be, until something is freed.
const FULL: u8 = 100;
/// So much below a mark the space counts as below again, in percent.
const HYSTERESIS: u64 = 2;
/// A pool of no more than so many times 16 blocks looks at every 64th of them.
const LOOK_BLOCKS: u64 = 4096;
/// A rebuild tells of itself so many times.
const REBUILD_STEPS: u64 = 100;

/// What was told last.
#[derive(Default)]
pub(crate) struct Alerts {
    mark_percent: Cell<u8>,
    /// Blocks that were held when a write was refused for the first time.
    refused_at: Cell<u64>,
    /// Told that generations are short.
    generations_end: Cell<bool>,
    state: Cell<Option<PoolState>>,
    rebuild: Cell<Option<Rebuild>>,
}

#[derive(Clone, Copy)]
enum Rebuild {
    /// It goes on.
    Moves { total_blocks: u64, told_blocks: u64 },
    /// There are too few drives to do more.
    Waits,
}

/// The highest mark that `used` of `usable` passes, coming from `before`; `refused_at` is what was
/// in use when a write was refused.
fn mark(used: u64, usable: u64, before: u8, refused_at: u64) -> u8 {
    if before == FULL && used * 100 + HYSTERESIS * usable >= refused_at * 100 {
        return FULL;
    }
    let passes = |mark: &&u8| {
        let slack = if **mark <= before { HYSTERESIS } else { 0 };
        used * 100 >= usable * (u64::from(**mark) - slack)
    };
    MARKS.iter().rev().find(passes).copied().unwrap_or(0)
}

/// Names of the volumes and snapshots that a layer is part of.
fn holders(tables: &Tables, layer: LayerId) -> Vec<String> {
    let above = tables.tops_above(layer);
    above.map(|top| top.name.to_owned()).collect()
}

impl<D: BlockDevice + 'static> Coordinator<D> {
    /// Tells of the space in use, as of the last checkpoint, if a mark was passed.
    pub fn watch_space(&self) {
        let (used, with_pending) = {
            let state = self.shard.state.borrow();
            (state.held_blocks(), state.live_at_most())
        };
        let usable = self.shard.size().usable_blocks();
        let before = self.alerts.mark_percent.get();
        let now = mark(used, usable, before, self.alerts.refused_at.get());
        let next = MARKS.iter().find(|mark| **mark > now);
        let next = next.map_or(u64::MAX, |mark| usable * u64::from(*mark) / 100);
        // Blocks that were overwritten count twice until a checkpoint: not at every one of them,
        // and more seldom in large pools, where a look takes longer.
        let step = (usable / 16).saturating_sub(LOOK_BLOCKS);
        let later = with_pending + step.max(usable / 64).max(1);
        self.shard.look_at_blocks.set(next.max(later));
        self.tell_space(now);
    }

    /// A write was refused for want of space.
    pub fn refused(&self) {
        if self.alerts.mark_percent.get() != FULL {
            let held = self.shard.state.borrow().held_blocks();
            self.alerts.refused_at.set(held);
        }
        self.tell_space(FULL);
        let short = self.generations_are_short(&self.shard.state.borrow());
        if short && !self.alerts.generations_end.replace(true) {
            self.shard.array.events.push(PoolEvent::GenerationsEnd);
        }
    }

    fn tell_space(&self, mark_percent: u8) {
        if self.alerts.mark_percent.replace(mark_percent) == mark_percent {
            return;
        }
        let bytes = |blocks: u64| blocks * BLOCK_BYTES as u64;
        self.shard.array.events.push(PoolEvent::Space {
            mark_percent,
            used_bytes: bytes(self.shard.state.borrow().held_blocks()),
            usable_bytes: bytes(self.shard.size().usable_blocks()),
        });
    }

    /// A member is in use: it has not failed, and is there.
    pub fn works(&self, index: usize, member: &Member) -> bool {
        member.state == MEMBER_ACTIVE && self.shard.array.is_live(index)
    }

    /// How well the pool is now.
    pub fn state_now(&self) -> PoolState {
        if self.shard.offline.get().is_some() {
            return PoolState::Offline;
        }
        let published = self.published.borrow();
        let members = published.superblock.members.iter().enumerate();
        let mut listed = members.filter(|(_, member)| member.state != MEMBER_NONE);
        match listed.all(|(index, member)| self.works(index, member)) {
            true => PoolState::Online,
            false => PoolState::Degraded,
        }
    }

    /// Tells of the pool's state if it changed.
    pub fn watch_state(&self) {
        let state = self.state_now();
        let before = self.alerts.state.replace(Some(state));
        // A pool is online unless it says otherwise.
        if before.unwrap_or(PoolState::Online) != state {
            let reason = self.shard.offline.get();
            self.shard
                .array
                .events
                .push(PoolEvent::State { state, reason });
        }
    }

    /// Blocks that are to move to segments which lack fewer drives, those that no such segments can
    /// be made for, and those that cannot be moved.
    fn left_to_rebuild(&self) -> (u64, u64, u64) {
        let state = self.shard.state.borrow();
        let lacks_more = self.lacks_more();
        let (mut left, mut waiting, mut stuck) = (0, 0, 0);
        for (number, segment) in state.segments.lacking(self.shard.array.taking_mask()) {
            let unreadable = state.attempts.why_stuck(number) == Some(Stuck::Unreadable);
            let blocks = match (unreadable, lacks_more(segment)) {
                (true, _) => &mut stuck,
                (false, true) => &mut left,
                (false, false) => &mut waiting,
            };
            *blocks += segment.live();
        }
        (left, waiting, stuck)
    }

    /// Tells how far a rebuild is, or that there can be none.
    pub fn watch_rebuild(&self) {
        let (left, waiting, stuck) = self.left_to_rebuild();
        let told = |left_blocks, total_blocks| {
            self.shard.array.events.push(PoolEvent::Rebuild {
                left_blocks,
                total_blocks,
            });
        };
        let before = self.alerts.rebuild.get();
        let next = match before {
            _ if left == 0 && waiting > 0 => {
                if !matches!(before, Some(Rebuild::Waits)) {
                    let left_blocks = waiting + stuck;
                    self.shard
                        .array
                        .events
                        .push(PoolEvent::RebuildWaits { left_blocks });
                }
                Some(Rebuild::Waits)
            }
            None | Some(Rebuild::Waits) if left > 0 => {
                told(left, left);
                Some(Rebuild::Moves {
                    total_blocks: left,
                    told_blocks: left,
                })
            }
            Some(Rebuild::Moves { .. }) if left == 0 && stuck > 0 => {
                self.shard
                    .array
                    .events
                    .push(PoolEvent::RebuildStuck { left_blocks: stuck });
                None
            }
            Some(Rebuild::Moves { total_blocks, .. }) if left == 0 => {
                told(0, total_blocks);
                None
            }
            Some(Rebuild::Moves {
                total_blocks,
                mut told_blocks,
            }) => {
                // Another drive may have gone meanwhile.
                let total_blocks = total_blocks.max(left);
                if left + total_blocks / REBUILD_STEPS < told_blocks {
                    told(left, total_blocks);
                    told_blocks = left;
                }
                Some(Rebuild::Moves {
                    total_blocks,
                    told_blocks,
                })
            }
            None | Some(Rebuild::Waits) => None,
        };
        self.alerts.rebuild.set(next);
    }
}

impl<D: BlockDevice + 'static> Core<D> {
    /// True when the space in use of this shard alone may have passed a mark.
    pub fn own_space_may_pass_a_mark(&self) -> bool {
        self.state.borrow().live_at_most() >= self.look_at_blocks.get()
    }

    /// A block cannot be read with all the redundancy there is.
    pub fn lose_block(&self, lost: LayerBlock) {
        self.lose_blocks(lost, 1);
    }

    /// As many of a layer from `first` on: where they are cannot be read.
    pub fn lose_blocks(&self, first: LayerBlock, blocks: u64) {
        let holders = || holders(&self.state.borrow().tables, first.layer);
        let lost = LostBlock {
            layer: first.layer.get(),
            block: first.block.get(),
        };
        self.array.events.lose(lost, blocks, holders);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_passed_at_once_and_left_with_some_slack() {
        assert_eq!(mark(79, 100, 0, 0), 0);
        assert_eq!(mark(80, 100, 0, 0), 80);
        assert_eq!(mark(96, 100, 0, 0), 95);
        assert_eq!(mark(94, 100, 95, 0), 95, "not back yet");
        assert_eq!(mark(92, 100, 95, 0), 90);
        assert_eq!(mark(79, 100, 80, 0), 80);
        assert_eq!(mark(77, 100, 80, 0), 0);
        assert_eq!(mark(97, 100, 100, 99), 100, "after a write was refused");
        assert_eq!(mark(96, 100, 100, 99), 95);
        assert_eq!(
            mark(87, 100, 100, 88),
            100,
            "what waits for the map filled it"
        );
        assert_eq!(mark(50, 100, 100, 88), 0);
    }
}
