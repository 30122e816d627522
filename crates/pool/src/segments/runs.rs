//! Runs: blocks of a segment that are worth one read together, and cut out of it. No I/O.

use crate::ids::LayerId;
use crate::location::{BLOCK_BYTES, Entry};
use block::Buffer;

/// Dead blocks between two live ones of a column that are read with them rather than skipped.
const GAP_ROWS: u32 = 4;
/// Blocks of one read.
const RUN_ROWS: u32 = 64;

/// A block that lives: its owner, and where it is.
pub(crate) type Live = (LayerId, u64, Entry);

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
        let copy = |(_, _, entry): &Live| match (self.read, entry.at.column) {
            (true, 0) => self.block(entry.at.row).map(Buffer::copy_of),
            _ => None,
        };
        run.iter().map(copy).collect()
    }
}

/// Cuts the blocks of a run out of what was read; what lies between them is given up.
pub(crate) fn cut(mut buffer: Buffer, run: &[Live]) -> Vec<Buffer> {
    let first = run.first().map_or(0, |(_, _, entry)| entry.at.row);
    let mut blocks = Vec::with_capacity(run.len());
    for (_, _, entry) in run.iter().rev() {
        let start = (entry.at.row - first) as usize * BLOCK_BYTES;
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
        let (_, _, first) = rest.first()?;
        let mut length = 1;
        while let Some((_, _, next)) = rest.get(length) {
            let row = rest[length - 1].2.at.row;
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
    use crate::ids::SegmentNumber;
    use crate::location::Location;

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
                (LayerId::new(1), 0, Entry { at, crc: 0 })
            })
            .collect();
        live.sort_unstable_by_key(|(_, _, entry)| (entry.at.column, entry.at.row));
        live.dedup();
        let mut seen = Vec::new();
        for run in runs(&live) {
            let (first, last) = (run[0].2.at, run[run.len() - 1].2.at);
            assert_eq!(first.column, last.column);
            assert!(last.row - first.row < RUN_ROWS);
            seen.extend_from_slice(run);
        }
        assert_eq!(seen, live);
    }
}
