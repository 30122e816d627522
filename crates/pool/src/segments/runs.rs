//! Runs: blocks of a segment that are worth one read together, and cut out of it. No I/O.

use crate::location::{BLOCK_BYTES, Entry, LayerBlock};
use block::Buffer;

/// Dead blocks between two live ones of a column that are read with them rather than skipped.
const GAP_ROWS: u32 = 4;
/// Blocks of one read.
const RUN_ROWS: u32 = 64;

/// A block that lives: its owner, and where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Live {
    pub owner: LayerBlock,
    pub entry: Entry,
}

/// Rows of a victim's first column, which has all headers.
pub(crate) struct Rows {
    pub first: u32,
    pub buffer: Buffer,
    /// The drive read them.
    pub read: bool,
}

impl Rows {
    pub fn block(&self, row: u32) -> Option<&[u8]> {
        let start = row.checked_sub(self.first)? as usize * BLOCK_BYTES;
        self.buffer.get(start..start + BLOCK_BYTES)
    }

    /// Blocks of that column as [`cut`] gives them, if they are among these rows.
    pub fn copies(&self, run: &[Live]) -> Option<Vec<Buffer>> {
        let copy = |live: &Live| match (self.read, live.entry.at.column) {
            (true, 0) => self.block(live.entry.at.row).map(Buffer::copy_of),
            _ => None,
        };
        run.iter().map(copy).collect()
    }
}

/// Cuts the blocks of a run out of what was read; what lies between them is given up.
pub(crate) fn cut(mut buffer: Buffer, run: &[Live]) -> Vec<Buffer> {
    let first = run.first().map_or(0, |live| live.entry.at.row);
    let mut blocks = Vec::with_capacity(run.len());
    for live in run.iter().rev() {
        let start = (live.entry.at.row - first) as usize * BLOCK_BYTES;
        if buffer.len() > start + BLOCK_BYTES {
            drop(buffer.split_off(start + BLOCK_BYTES));
        }
        if start > 0 {
            blocks.push(buffer.split_off(start));
        }
    }
    blocks.push(buffer);
    blocks.reverse();
    blocks
}

/// Cuts blocks that are sorted by column and row into runs that are worth one read each.
pub(crate) fn runs(live: &[Live]) -> impl Iterator<Item = &[Live]> {
    let mut rest = live;
    std::iter::from_fn(move || {
        let first = rest.first()?.entry;
        let mut length = 1;
        while let Some(next) = rest.get(length) {
            let (next, row) = (next.entry, rest[length - 1].entry.at.row);
            let near = next.at.column == first.at.column
                && next.at.row - row <= 1 + GAP_ROWS
                && next.at.row - first.at.row < RUN_ROWS;
            if !near {
                break;
            }
            length += 1;
        }
        let (run, others) = rest.split_at(length);
        rest = others;
        Some(run)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::LayerId;
    use crate::ids::SegmentNumber;
    use crate::location::{BlockNumber, Location};

    #[test]
    fn runs_hold_every_block_once_and_span_little() {
        let mut state = 1u64;
        let mut live: Vec<Live> = (0..2000)
            .map(|_| {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1);
                let at = Location {
                    segment: SegmentNumber::new(1),
                    column: (state >> 60) as u8 % 5,
                    row: (state >> 33) as u32 % 3000,
                };
                Live {
                    owner: LayerBlock {
                        layer: LayerId::new(1),
                        block: BlockNumber::FIRST,
                    },
                    entry: Entry { at, crc: 0 },
                }
            })
            .collect();
        live.sort_unstable_by_key(|live| (live.entry.at.column, live.entry.at.row));
        live.dedup();
        let mut seen = Vec::new();
        for run in runs(&live) {
            let (first, last) = (run[0].entry.at, run[run.len() - 1].entry.at);
            assert_eq!(first.column, last.column);
            assert!(last.row - first.row < RUN_ROWS);
            seen.extend_from_slice(run);
        }
        assert_eq!(seen, live);
    }
}
