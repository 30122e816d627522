//! Which blocks of a snapshot hold something, and which may differ from another snapshot's.
//!
//! Two snapshots read the same wherever no layer says anything that is of one of them only. So
//! only the maps of such layers are read, a piece at a time: what a piece is about is made shorter
//! whenever a map has much to say of it. Memory holds what is said of one piece.

use crate::error::PoolError;
use crate::format::node::NodeRecord;
use crate::ids::{LayerId, SnapshotId};
use crate::location::{BlockNumber, Mapping};
use crate::map::said::{Said, Says};
use crate::map::tree;
use crate::pool::Pool;
use crate::shard::core::Core;
use crate::volumes::{Root, Snapshot, Tables};
use block::{BlockDevice, IoError};
use std::ops::Range;

/// Leaves of one map that are read for a piece: what is freed meanwhile is kept from hosts.
const LEAVES_A_PIECE: usize = 64;
/// An answer ends after the piece with which so many leaves have been read.
const LEAVES_AN_ANSWER: usize = 4096;
/// Runs that are known of a piece, at most.
const RUNS_A_PIECE: usize = 16 * 1024;
/// Others on the core have a turn after so many leaves.
const LEAVES_IN_A_ROW: usize = 8;

/// A run of bytes of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Where it begins.
    pub start: u64,
    /// How long it is.
    pub bytes: u64,
    /// It reads as zeroes.
    pub zeroes: bool,
}

/// Some extents of a snapshot, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Extents {
    /// The size of the snapshot.
    pub bytes: u64,
    /// As many as were asked for, or less; also none.
    pub extents: Vec<Extent>,
    /// Where to go on; nothing at the end.
    pub next: Option<u64>,
}

/// The layers that tell of a difference, as the tables had them in one version.
struct Telling {
    version: u64,
    /// Of the snapshot that is asked about, the uppermost first.
    own: Vec<Root>,
    /// Of the other one only.
    others: Vec<Root>,
    /// One past the last block of the snapshot.
    end: BlockNumber,
    /// Holes matter: blocks may have been there before.
    holes: bool,
}

impl<D: BlockDevice + 'static> Pool<D> {
    /// The bytes of a snapshot that hold something; or with `since` those that may differ from
    /// what that snapshot has there. At most `limit` extents are given, of what lies behind `from`.
    ///
    /// What both have read as the same may be among the differences where it was written again or
    /// deallocated. Costs in proportion to what was written between the two.
    ///
    /// # Errors
    /// [`PoolError::NotFound`] when a snapshot is not there, or is deleted meanwhile.
    pub async fn extents(
        &self,
        snapshot: SnapshotId,
        since: Option<SnapshotId>,
        from: u64,
        limit: usize,
    ) -> Result<Extents, PoolError> {
        let coordinator = &self.coordinator;
        let mut telling = coordinator.shard.telling(snapshot, since)?;
        let newest = since.map_or(snapshot, |since| since.max(snapshot));
        self.have_merged(newest).await?;
        let mut found = Extents {
            bytes: telling.end.first_byte(),
            ..Extents::default()
        };
        let mut at = BlockNumber::of_byte(from);
        let mut leaves = 0;
        while at < telling.end {
            if telling.version != coordinator.shard.state.borrow().tables.version() {
                telling = coordinator.shard.telling(snapshot, since)?;
            }
            let (said, end) = coordinator
                .shard
                .extents_of_piece(&telling, at, &mut leaves)
                .await?;
            found.next = found.take(&said, telling.holes, limit.max(1));
            if found.next.is_some() {
                break;
            }
            at = end;
            if leaves >= LEAVES_AN_ANSWER && at < telling.end {
                found.next = Some(at.first_byte());
                break;
            }
            reactor::yield_now().await;
        }
        Ok(found)
    }

    /// Has the maps know all that was written before a snapshot was taken. Nothing is written to
    /// its layers later, so one checkpoint is enough for it and all that are older.
    async fn have_merged(&self, snapshot: SnapshotId) -> Result<(), PoolError> {
        let merged = &self.coordinator.merged_before;
        if snapshot.0 < merged.get() {
            return Ok(());
        }
        let next = self.coordinator.shard.state.borrow().tables.next_id;
        self.checkpoint().await?;
        merged.set(next.max(merged.get()));
        Ok(())
    }
}

impl Extents {
    /// Adds what is said of a piece; returns where to go on if there is more than the limit.
    fn take(&mut self, said: &Said, holes: bool, limit: usize) -> Option<u64> {
        for (run, says) in said.runs() {
            let zeroes = says == Says::Zeroes;
            if zeroes && !holes {
                continue;
            }
            let (start, bytes) = bytes_of(&run);
            if let Some(last) = self.extents.last_mut()
                && (last.start + last.bytes, last.zeroes) == (start, zeroes)
            {
                last.bytes += bytes;
                continue;
            }
            if self.extents.len() == limit {
                return Some(start);
            }
            self.extents.push(Extent {
                start,
                bytes,
                zeroes,
            });
        }
        None
    }
}

/// Where blocks begin, and how many bytes they are.
fn bytes_of(run: &Range<BlockNumber>) -> (u64, u64) {
    let start = run.start.first_byte();
    (start, run.end.first_byte() - start)
}

/// The layers that only one of two has, those of the first and those of the second, the uppermost
/// first each. A layer has a higher number than the one it stands on.
fn apart(tables: &Tables, first: LayerId, second: Option<LayerId>) -> (Vec<LayerId>, Vec<LayerId>) {
    let (mut left, mut right) = (Some(first), second);
    let (mut own, mut others) = (Vec::new(), Vec::new());
    while left != right {
        // Nothing is below everything.
        let side = match left > right {
            true => (&mut left, &mut own),
            false => (&mut right, &mut others),
        };
        let (at, layers) = side;
        layers.extend(*at);
        *at = at.and_then(|layer| tables.parent(layer));
    }
    (own, others)
}

fn snapshot_of(tables: &Tables, id: SnapshotId) -> Result<&Snapshot, PoolError> {
    let found = tables.snapshots.get(id);
    found.ok_or(PoolError::NotFound("snapshot"))
}

impl<D: BlockDevice + 'static> Core<D> {
    /// The layers to ask, as they are now.
    fn telling(
        &self,
        snapshot: SnapshotId,
        since: Option<SnapshotId>,
    ) -> Result<Telling, PoolError> {
        let state = self.state.borrow();
        let tables = &state.tables;
        let asked = snapshot_of(tables, snapshot)?;
        let since = since.map(|since| snapshot_of(tables, since)).transpose()?;
        let (own, others) = apart(tables, asked.layer, since.map(|since| since.layer));
        let root = |id: &LayerId| tables.layers.get(id)?.root;
        Ok(Telling {
            version: state.tables.version(),
            own: own.iter().filter_map(root).collect(),
            others: others.iter().filter_map(root).collect(),
            end: BlockNumber::FIRST + asked.blocks,
            holes: since.is_some(),
        })
    }

    /// What layers say of blocks from `start` on, and up to where.
    async fn extents_of_piece(
        &self,
        telling: &Telling,
        start: BlockNumber,
        leaves: &mut usize,
    ) -> Result<(Said, BlockNumber), IoError> {
        let _reading = self.reading();
        let mut said = Said::default();
        let mut end = telling.end;
        let own = telling.own.iter().map(|root| (root, Says::Zeroes));
        // Where only the other one had a hole, what is below both shows: it may be anything.
        let others = telling.others.iter().map(|root| (root, Says::Data));
        for (root, hole) in own.chain(others) {
            let blocks = start..end;
            end = self
                .extents_of_layer(*root, blocks, hole, &mut said, leaves)
                .await?;
            end = said.end_of(RUNS_A_PIECE).map_or(end, |most| most.min(end));
            said.cut(end);
        }
        Ok((said, end))
    }

    /// Adds what one layer says of blocks; returns up to where it has been asked.
    async fn extents_of_layer(
        &self,
        root: Root,
        blocks: Range<BlockNumber>,
        hole: Says,
        said: &mut Said,
        leaves: &mut usize,
    ) -> Result<BlockNumber, IoError> {
        let mut at = blocks.start;
        for turn in 1..=LEAVES_A_PIECE {
            let (records, next) = tree::leaf_from(self, root, at).await?;
            for (run, says) in runs_of(&records, &blocks, hole) {
                said.add(run, says);
            }
            *leaves += 1;
            match next.filter(|next| *next < blocks.end) {
                None => return Ok(blocks.end),
                Some(next) => at = next,
            }
            if turn.is_multiple_of(LEAVES_IN_A_ROW) {
                reactor::yield_now().await;
            }
        }
        Ok(at)
    }
}

/// What the records of a leaf say of some blocks; those that follow each other are one run.
fn runs_of(
    records: &[NodeRecord],
    blocks: &Range<BlockNumber>,
    hole: Says,
) -> Vec<(Range<BlockNumber>, Says)> {
    let mut runs: Vec<(Range<BlockNumber>, Says)> = Vec::new();
    for record in records.iter().take_while(|it| it.block < blocks.end) {
        let says = match record.mapping {
            // A backup that reads what is lost says so.
            Mapping::Block(_) | Mapping::Lost => Says::Data,
            Mapping::Hole => hole,
        };
        let run = record.block.max(blocks.start)..record.end().min(blocks.end);
        match runs.last_mut() {
            Some((last, said)) if last.end == run.start && *said == says => last.end = run.end,
            _ => runs.push((run, says)),
        }
    }
    runs
}
