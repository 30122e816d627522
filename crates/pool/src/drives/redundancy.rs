//! Redundant columns: making them, and getting a lost block back out of a row. No I/O.

use crate::level::{Level, Shape};
use crate::mutation::Mutation;
use block::Buffer;
use parity::{Column, Survivors};

/// Fills the redundant columns, from byte `at` on, from pieces of the data columns, all of one
/// length.
pub(crate) fn generate(shape: Shape, data: &[&[u8]], redundant: &mut [Buffer], at: usize) {
    if Mutation::WritesNoRedundancy.is_planted() {
        return;
    }
    let piece = at..at + data.first().map_or(0, |first| first.len());
    match (shape.level, redundant) {
        (Level::Raid0, _) => {}
        (Level::Raid1 | Level::Raid10, copies) => {
            for (index, copy) in copies.iter_mut().enumerate() {
                copy[piece.clone()].copy_from_slice(data[index % shape.data]);
            }
        }
        (_, [p]) => parity::generate_p(data, &mut p[piece]),
        (_, [p, q]) => parity::generate_pq(data, &mut p[piece.clone()], &mut q[piece]),
        (_, others) => unreachable!("{} redundant columns", others.len()),
    }
}

/// Gets the block of column `wanted` back from the others of its row, or the same piece of it that
/// the others are given as. `row` has one slice per column, `None` where the column cannot be
/// read; what `valid` refuses is not it. A further
/// column may be wrong without anyone having noticed: where redundancy is left, each is suspected.
pub(crate) fn rebuild(
    shape: Shape,
    row: &[Option<&[u8]>],
    wanted: usize,
    valid: &dyn Fn(&[u8]) -> bool,
) -> Option<Buffer> {
    if shape.mirrors() {
        let data = wanted % shape.data;
        let mut copies = shape.copies(data).filter(|column| *column != wanted);
        let found = copies.find_map(|column| row[column].filter(|copy| valid(copy)))?;
        return Some(Buffer::copy_of(found));
    }
    let mut columns = row.to_vec();
    columns[wanted] = None;
    let attempt =
        |columns: &[Option<&[u8]>]| recover(shape, columns, wanted).filter(|block| valid(block));
    if let Some(found) = attempt(&columns) {
        return Some(found);
    }
    for suspect in 0..shape.width() {
        if let Some(column) = columns[suspect].take() {
            if let Some(found) = attempt(&columns) {
                return Some(found);
            }
            columns[suspect] = Some(column);
        }
    }
    None
}

fn recover(shape: Shape, columns: &[Option<&[u8]>], wanted: usize) -> Option<Buffer> {
    if columns.iter().filter(|column| column.is_none()).count() > shape.redundant {
        return None;
    }
    let mut block = Buffer::new(columns.iter().flatten().next()?.len());
    let column = match wanted.checked_sub(shape.data) {
        None => Column::Data(wanted),
        Some(0) => Column::P,
        Some(_) => Column::Q,
    };
    let survivors = Survivors {
        data: &columns[..shape.data],
        p: columns.get(shape.data).copied().flatten(),
        q: columns.get(shape.data + 1).copied().flatten(),
    };
    parity::recover(survivors, &mut [(column, &mut block[..])]).ok()?;
    Some(block)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::location::BLOCK_BYTES;

    /// A row of `shape`, its data bytes from `seed`.
    fn row(shape: Shape, seed: u8) -> Vec<Buffer> {
        let mut row: Vec<Buffer> = (0..shape.width())
            .map(|column| {
                let byte = |index: usize| (index as u8).wrapping_mul(seed) ^ column as u8;
                let bytes: Vec<u8> = (0..BLOCK_BYTES).map(byte).collect();
                Buffer::copy_of(&bytes)
            })
            .collect();
        let (data, redundant) = row.split_at_mut(shape.data);
        let data: Vec<&[u8]> = data.iter().map(|column| &column[..]).collect();
        generate(shape, &data, redundant, 0);
        row
    }

    #[test]
    fn every_block_comes_back_whatever_promised_columns_are_lost() {
        for level in Level::ALL {
            for drives in level.drives_min()..9 {
                let shape = level.shape(level.default_width(drives));
                let row = row(shape, drives as u8 * 7 + 1);
                for first in 0..shape.width() {
                    for second in 0..shape.width() {
                        let lost = |column| column == first || column == second;
                        if !shape.survives(lost) {
                            continue;
                        }
                        let seen: Vec<Option<&[u8]>> = (0..shape.width())
                            .map(|column| (!lost(column)).then_some(&row[column][..]))
                            .collect();
                        let found = rebuild(shape, &seen, first, &|block| block == &row[first][..]);
                        assert!(
                            found.is_some(),
                            "{level} {drives}: {first} of {first},{second}"
                        );
                        let heads: Vec<Option<&[u8]>> = seen
                            .iter()
                            .map(|column| column.map(|bytes| &bytes[..64]))
                            .collect();
                        let head = rebuild(shape, &heads, first, &|head| head == &row[first][..64]);
                        assert!(head.is_some(), "a piece of it");
                    }
                }
            }
        }
    }

    #[test]
    fn raid6_finds_a_block_although_another_column_lies() {
        let shape = Level::Raid6.shape(6);
        let mut row = row(shape, 3);
        row[2][77] ^= 1;
        let good = Buffer::copy_of(&row[1]);
        let seen: Vec<Option<&[u8]>> = row
            .iter()
            .enumerate()
            .map(|(c, b)| (c != 1).then_some(&b[..]))
            .collect();
        let found = rebuild(shape, &seen, 1, &|block| block == &good[..]);
        assert!(found.is_some());
    }
}
