//! Blocks whose header is lost: the rows in which they may be, and moving them elsewhere.
//!
//! A stripe whose header cannot be had with all the redundancy there is may hold blocks that live.
//! Nothing in its segment says so; the maps do, and the scrub walks all of them. What they have in
//! rows that no header tells of is read there and then, lost or moved, so memory holds only the
//! rows. Torn stripes, which never counted, leave such rows behind as well, and nothing is in them.

use crate::error::PoolError;
use crate::ids::{Generation, SegmentNumber, ShardId};
use crate::location::Location;
use crate::scrub::Scrub;
use crate::segments::runs::Live;
use crate::shard::coordinator::Coordinator;
use crate::shard::messages::Order;
use block::BlockDevice;
use std::collections::BTreeMap;
use std::ops::Range;

/// Rows of segments that no header tells of.
#[derive(Default)]
pub(super) struct Gaps(BTreeMap<SegmentNumber, Gap>);

struct Gap {
    generation: Generation,
    /// In their order.
    rows: Vec<Range<u32>>,
}

impl Gaps {
    /// One more row, behind those that are known.
    pub fn add(&mut self, segment: SegmentNumber, generation: Generation, row: u32) {
        let rows = Vec::new();
        let gap = self.0.entry(segment).or_insert(Gap { generation, rows });
        match gap.rows.last_mut() {
            Some(last) if last.end == row => last.end += 1,
            _ => gap.rows.push(row..row + 1),
        }
    }

    pub fn has(&self, at: Location) -> bool {
        self.0.get(&at.segment).is_some_and(|gap| {
            let before = gap.rows.partition_point(|rows| rows.end <= at.row);
            let next = gap.rows.get(before);
            next.is_some_and(|rows| rows.start <= at.row)
        })
    }

    fn generation(&self, segment: SegmentNumber) -> Option<Generation> {
        self.0.get(&segment).map(|gap| gap.generation)
    }
}

impl<D: BlockDevice + 'static> Coordinator<D> {
    /// Sees to blocks that are where no header tells of them.
    pub(super) async fn see_to(
        &self,
        strays: Vec<Live>,
        scrub: &mut Scrub,
    ) -> Result<(), PoolError> {
        let mut by_segment: BTreeMap<SegmentNumber, Vec<Live>> = BTreeMap::new();
        for stray in strays {
            let segment = stray.entry.at.segment;
            by_segment.entry(segment).or_default().push(stray);
        }
        for (number, strays) in by_segment {
            let readable = self.readable(number, strays, scrub).await?;
            let moved = self.move_strays(number, readable, scrub).await;
            scrub.report.moved += moved;
        }
        Ok(())
    }

    /// Those of some blocks that can be read; the others are lost.
    async fn readable(
        &self,
        number: SegmentNumber,
        strays: Vec<Live>,
        scrub: &mut Scrub,
    ) -> Result<Vec<Live>, PoolError> {
        let _reading = self.shard.reading();
        let mut readable = Vec::with_capacity(strays.len());
        for stray in strays {
            let Some(columns) = self.shard.columns(number) else {
                break;
            };
            if self.is_readable(&columns, stray.entry).await? {
                readable.push(stray);
            } else if let Some((owner, readers)) = self.find_readers(stray).await {
                scrub.losses.lose(owner, &readers);
                self.shard.lose_block(owner);
            }
        }
        Ok(readable)
    }

    /// Has the shards that have these blocks of a segment move them elsewhere, if they have room.
    async fn move_strays(&self, number: SegmentNumber, strays: Vec<Live>, scrub: &Scrub) -> u64 {
        // The cleaner marks what it moves as well.
        let _alone = self.upkeep_lock.lock().await;
        let stays = {
            let state = self.shard.state.borrow();
            let segment = state.segments.get(number);
            let generation = segment.map(|segment| segment.generation);
            let settled = state.victims.is_settled(number) && !state.in_limbo(number);
            !settled || generation != scrub.gaps.generation(number)
        };
        if stays || self.ends() {
            return 0;
        }
        let share = self.shard.state.borrow().share;
        let mut by_shard: BTreeMap<ShardId, Vec<Live>> = BTreeMap::new();
        for stray in strays {
            by_shard
                .entry(share.owner(stray.owner.block))
                .or_default()
                .push(stray);
        }
        let mut moved = 0;
        for (shard, blocks) in by_shard {
            moved += match self.peer(shard) {
                None => self.shard.move_known(number, blocks).await,
                Some(peer) => {
                    let asked = peer.outbox.ask(|reply| Order::Move {
                        number,
                        blocks,
                        reply,
                    });
                    self.answer(asked).await.unwrap_or(0)
                }
            };
        }
        moved
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_no_header_tells_of_are_found_again() {
        let mut gaps = Gaps::default();
        let [other, number] = [4, 5].map(SegmentNumber::new);
        let generation = Generation::new(9);
        let rows = [0, 1, 2, 7, 8, 20];
        for row in rows {
            gaps.add(number, generation, row);
        }
        for row in 0..30 {
            for segment in [other, number] {
                let column = 3;
                let at = Location {
                    segment,
                    column,
                    row,
                };
                let expected = segment == number && rows.contains(&row);
                assert_eq!(gaps.has(at), expected, "{at:?}");
            }
        }
        assert_eq!(gaps.generation(number), Some(generation));
        assert_eq!(gaps.generation(other), None);
    }
}
