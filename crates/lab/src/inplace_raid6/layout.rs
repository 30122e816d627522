//! Where the blocks of the array are on its drives.

use std::ops::Range;

use block::{BlockRange, Lba};
use parity::Column;

/// Strips of consecutive blocks, one on each drive to a stripe; P and Q move one drive down with
/// every stripe (Linux MD's left-symmetric layout).
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    pub drives: usize,
    pub strip_blocks: u64,
    pub stripes: u64,
}

/// Consecutive blocks of a request in one strip.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub stripe: u64,
    /// Number of the data column.
    pub column: usize,
    /// Blocks within the strip.
    pub rows: Range<u64>,
    /// Where the piece starts in the request, in blocks.
    pub at_block: u64,
}

/// Rows of one stripe that a request writes in the same columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Band {
    pub stripe: u64,
    pub rows: Range<u64>,
    /// Each written data column, and where its part starts in the request, in blocks.
    pub parts: Vec<(usize, u64)>,
}

impl Layout {
    pub fn data_columns(&self) -> usize {
        self.drives - 2
    }

    /// Blocks of data in a stripe.
    pub fn stripe_blocks(&self) -> u64 {
        self.strip_blocks * self.data_columns() as u64
    }

    /// Which drive has `column` of `stripe`.
    pub fn drive_of(&self, stripe: u64, column: Column) -> usize {
        let p = self.drives - 1 - (stripe % self.drives as u64) as usize;
        let after_p = match column {
            Column::P => 0,
            Column::Q => 1,
            Column::Data(number) => 2 + number,
        };
        (p + after_p) % self.drives
    }

    /// Where row `row` of `stripe` is on every drive.
    pub fn lba(&self, stripe: u64, row: u64) -> Lba {
        Lba(stripe * self.strip_blocks + row)
    }

    /// A request cut at the ends of strips.
    pub fn pieces(&self, range: BlockRange) -> impl Iterator<Item = Piece> {
        let layout = *self;
        let mut done = 0;
        std::iter::from_fn(move || {
            if done == range.blocks {
                return None;
            }
            let block = range.start.0 + done;
            let within = block % layout.stripe_blocks();
            let row = within % layout.strip_blocks;
            let blocks = (layout.strip_blocks - row).min(range.blocks - done);
            let piece = Piece {
                stripe: block / layout.stripe_blocks(),
                column: (within / layout.strip_blocks) as usize,
                rows: row..row + blocks,
                at_block: done,
            };
            done += blocks;
            Some(piece)
        })
    }

    /// A request cut into bands: at most three in a stripe.
    pub fn bands(&self, range: BlockRange) -> Vec<Band> {
        let pieces: Vec<Piece> = self.pieces(range).collect();
        let mut bands = Vec::new();
        for pieces in pieces.chunk_by(|one, next| one.stripe == next.stripe) {
            let ends = pieces
                .iter()
                .flat_map(|piece| [piece.rows.start, piece.rows.end]);
            let mut cuts: Vec<u64> = ends.collect();
            cuts.sort_unstable();
            cuts.dedup();
            for (&start, &end) in cuts.iter().zip(cuts.iter().skip(1)) {
                let covering = pieces.iter().filter(|piece| piece.rows.contains(&start));
                let parts: Vec<(usize, u64)> = covering
                    .map(|piece| (piece.column, piece.at_block + start - piece.rows.start))
                    .collect();
                if let (Some(first), false) = (pieces.first(), parts.is_empty()) {
                    bands.push(Band {
                        stripe: first.stripe,
                        rows: start..end,
                        parts,
                    });
                }
            }
        }
        bands
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIX: Layout = Layout {
        drives: 6,
        strip_blocks: 4,
        stripes: 10,
    };

    #[test]
    fn every_stripe_uses_every_drive_once_and_parity_moves() {
        for stripe in 0..12 {
            let columns = (0..4).map(Column::Data).chain([Column::P, Column::Q]);
            let mut drives: Vec<usize> =
                columns.map(|column| SIX.drive_of(stripe, column)).collect();
            drives.sort_unstable();
            assert_eq!(drives, [0, 1, 2, 3, 4, 5]);
            assert_eq!(SIX.drive_of(stripe, Column::P), (5 - stripe % 6) as usize);
        }
    }

    #[test]
    fn bands_cover_exactly_the_pieces_of_every_request() {
        for start in 0..40 {
            for blocks in 1..40 {
                let range = BlockRange::new(Lba(start), blocks);
                let mut by_piece: Vec<(u64, usize, u64, u64)> = SIX
                    .pieces(range)
                    .flat_map(|piece| {
                        let Piece {
                            stripe,
                            column,
                            rows,
                            at_block,
                        } = piece;
                        let first = rows.start;
                        rows.map(move |row| (stripe, column, row, at_block + row - first))
                    })
                    .collect();
                let mut by_band: Vec<(u64, usize, u64, u64)> = Vec::new();
                for band in SIX.bands(range) {
                    for (column, at) in band.parts {
                        let rows = band.rows.clone();
                        by_band.extend(
                            rows.clone()
                                .map(|row| (band.stripe, column, row, at + row - rows.start)),
                        );
                    }
                }
                by_piece.sort_unstable();
                by_band.sort_unstable();
                assert_eq!(by_piece.len() as u64, blocks);
                assert_eq!(by_piece, by_band, "{range:?}");
            }
        }
    }
}
