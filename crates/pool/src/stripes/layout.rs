//! A stripe as its columns' buffers: those of hosts, and what the cleaner has read, are cut where a
//! column ends and written from where they lie. No I/O.

use crate::drives::redundancy;
use crate::format::stripe::{Header, Place, Record};
use crate::ids::Incarnation;
use crate::location::BLOCK_BYTES;
use crate::mutation::break_at;
use crate::stripes::item::{Batch, Owner, Source};
use block::Buffer;

/// In which life of the pool a stripe is written, and behind which superblock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct When {
    pub incarnation: Incarnation,
    pub newest: u64,
}

/// A stripe in memory.
pub(crate) struct Stripe {
    /// The buffers of each column, one behind the other.
    pub columns: Vec<Vec<Buffer>>,
    /// Of the buffers behind the header, column after column.
    pub owners: Vec<Option<Owner>>,
}

/// Lays a stripe out: checksums the blocks, writes the header, makes the redundancy.
pub(crate) fn lay_out(batch: &mut Batch, secret: &[u8; 16], when: When) -> Stripe {
    let mut stripe = cut(batch);
    let (data, rows) = (batch.shape.data, batch.rows as usize);
    let mut redundant: Vec<Buffer> = (data..batch.shape.width())
        .map(|_| Buffer::new(rows * BLOCK_BYTES))
        .collect();
    let buffers = stripe.columns.iter().flatten();
    // Block `index` of the stripe is the one before it here: block 0 is the header.
    let mut blocks: Vec<&[u8]> = Vec::with_capacity(rows * data);
    blocks.extend(buffers.flat_map(|buffer| buffer.chunks(BLOCK_BYTES)));
    assert_eq!(blocks.len() + 1, rows * data, "a stripe has whole rows");
    break_at(&blocks);
    let mut records: Vec<&mut Record> = batch.records.iter_mut().collect();
    records.retain(|record| record.crc().is_some());
    // Row by row, so that a block is still in the cache when the redundancy is made of it. The
    // header is in the first row, and has the checksums of all.
    let mut row_blocks: Vec<&[u8]> = Vec::with_capacity(data);
    for row in (0..rows).rev() {
        row_blocks.clear();
        for index in (row..rows * data).step_by(rows).filter(|index| *index > 0) {
            records[index - 1].set_checksum(blocks[index - 1]);
            row_blocks.push(blocks[index - 1]);
        }
        if row > 0 {
            let at = row * BLOCK_BYTES;
            redundancy::generate(batch.shape, &row_blocks, &mut redundant, at);
        }
    }
    let header = header(batch, secret, when);
    row_blocks.insert(0, &header);
    redundancy::generate(batch.shape, &row_blocks, &mut redundant, 0);
    stripe.columns[0].insert(0, header);
    let redundant = redundant.into_iter().map(|column| vec![column]);
    stripe.columns.extend(redundant);
    stripe
}

/// Cuts the sources, and padding behind them, where data columns end.
fn cut(batch: &mut Batch) -> Stripe {
    let is_pad = |record: &&Record| matches!(record, Record::Pad { .. });
    let pads = batch.records.iter().rev().take_while(is_pad).count();
    let padding = (pads > 0).then(|| Source {
        buffer: Buffer::zeroed(pads * BLOCK_BYTES),
        owner: None,
    });
    let rows = batch.rows as usize;
    let mut columns: Vec<Vec<Buffer>> = (0..batch.shape.data).map(|_| Vec::new()).collect();
    let mut owners = Vec::with_capacity(batch.sources.len() + 1);
    // The header is to be block 0.
    let mut index = 1;
    for Source { buffer, mut owner } in batch.sources.drain(..).chain(padding) {
        let mut left = Some(buffer);
        while let Some(mut buffer) = left {
            let room = (rows - index % rows) * BLOCK_BYTES;
            left = (buffer.len() > room).then(|| buffer.split_off(room));
            let column = index / rows;
            let blocks = buffer.len() / BLOCK_BYTES;
            index += blocks;
            columns[column].push(buffer);
            owners.push(owner.clone());
            if let Some(owner) = &mut owner {
                owner.start += blocks as u64;
            }
        }
    }
    Stripe { columns, owners }
}

fn header(batch: &mut Batch, secret: &[u8; 16], when: When) -> Buffer {
    let header = Header {
        place: Place {
            segment: batch.segment,
            generation: batch.generation,
            row: batch.row,
            incarnation: when.incarnation,
        },
        rows: batch.rows,
        shard: batch.shard,
        sequence: batch.sequence,
        durable_through: batch.durable_through,
        newest: when.newest,
        records: std::mem::take(&mut batch.records),
    };
    let mut block = Buffer::new(BLOCK_BYTES);
    header.encode(secret, &mut block);
    batch.records = header.records;
    block
}

/// Gives the buffers of a stripe's columns back to those who wait for them.
pub(crate) fn give_back(owners: Vec<Option<Owner>>, columns: Vec<Vec<Buffer>>) {
    let behind_header = columns.into_iter().flatten().skip(1);
    for (owner, buffer) in owners.into_iter().zip(behind_header) {
        if let Some(Owner { request, start }) = owner {
            request.give_back(start, buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::stripe::Bounds;
    use crate::ids::{Generation, LayerId, SegmentNumber, Sequence, ShardId};
    use crate::level::Level;
    use crate::location::{BlockNumber, each_of, numbered};
    use crate::stripes::item::Request;
    use std::rc::Rc;

    const SECRET: [u8; 16] = [5; 16];

    /// Blocks from `start` on, each full of its number.
    fn blocks(start: u64, count: u64) -> Buffer {
        let numbers = (start..start + count).flat_map(|block| [block as u8; BLOCK_BYTES]);
        Buffer::copy_of(&numbers.collect::<Vec<u8>>())
    }

    /// A stripe of what two hosts write, from block 10 and 100 on, and a hole between them.
    fn batch(
        level: Level,
        width: usize,
        rows: u32,
        lengths: [u64; 2],
    ) -> (Batch, [Rc<Request>; 2]) {
        let shape = level.shape(width);
        let requests = lengths.map(Request::new);
        let mut batch = Batch {
            segment: SegmentNumber::new(3),
            generation: Generation::new(4),
            columns: vec![None; width],
            shape,
            row: 8,
            rows,
            shard: ShardId::FIRST,
            sequence: Sequence::new(7),
            durable_through: Sequence::new(6),
            records: Vec::new(),
            sources: Vec::new(),
            requests: Vec::new(),
            moved: false,
        };
        let (layer, crc) = (LayerId::new(1), 0);
        for ((start, count), request) in [10, 100].into_iter().zip(lengths).zip(&requests) {
            let numbers = each_of(numbered(start..start + count));
            let data = |block| Record::Data { layer, block, crc };
            batch.records.extend(numbers.map(data));
            batch.records.push(Record::Hole {
                layer,
                block: BlockNumber::FIRST,
                blocks: 9,
            });
            let request = request.clone();
            batch.sources.push(Source {
                buffer: blocks(start, count),
                owner: Some(Owner {
                    request,
                    start: BlockNumber::new(start),
                }),
            });
        }
        let pads = u64::from(rows) * shape.data as u64 - 1 - lengths.iter().sum::<u64>();
        batch.records.extend((0..pads).map(|_| Record::Pad { crc }));
        (batch, requests)
    }

    #[test]
    fn a_stripe_is_made_of_the_hosts_own_buffers_and_each_gets_its_own_back() {
        for (level, width, rows, lengths) in [
            (Level::Raid6, 6, 9, [32, 1]),
            (Level::Raid6, 6, 9, [1, 16]),
            (Level::Raid5, 4, 1, [1, 1]),
            (Level::Raid1, 3, 4, [2, 1]),
            (Level::Raid0, 3, 5, [9, 5]),
        ] {
            let (mut batch, requests) = batch(level, width, rows, lengths);
            let places = [0, 1].map(|nth: usize| batch.sources[nth].buffer.as_ptr());
            let shape = batch.shape;
            let when = When {
                incarnation: Incarnation::new(2),
                newest: 5,
            };
            let stripe = lay_out(&mut batch, &SECRET, when);
            let place = Place {
                segment: SegmentNumber::new(3),
                generation: Generation::new(4),
                row: 8,
                incarnation: Incarnation::new(2),
            };
            let columns: Vec<Vec<u8>> = stripe
                .columns
                .iter()
                .map(|column| {
                    column
                        .iter()
                        .flat_map(|buffer| buffer.iter().copied())
                        .collect()
                })
                .collect();
            let bytes = rows as usize * BLOCK_BYTES;
            assert!(columns.len() == shape.width() && columns.iter().all(|it| it.len() == bytes));
            let bounds = Bounds {
                data: shape.data,
                rows: 64,
            };
            let head = &columns[0][..BLOCK_BYTES];
            let header = Header::decode(&SECRET, place, false, bounds, head).unwrap();
            assert_eq!(header.newest, 5);
            let all = columns[..shape.data].concat();
            let owning = header
                .records
                .iter()
                .filter(|record| record.crc().is_some());
            for (record, block) in owning.zip(all.chunks(BLOCK_BYTES).skip(1)) {
                let number = record
                    .owner()
                    .map_or(0, |(owner, _)| owner.block.get() as u8);
                assert!(block.iter().all(|byte| *byte == number));
                assert_eq!(record.crc(), Some(crc_fast::crc32_iscsi(block)));
            }
            let data: Vec<&[u8]> = columns[..shape.data].iter().map(|it| &it[..]).collect();
            let mut expected: Vec<Buffer> =
                (shape.data..width).map(|_| Buffer::zeroed(bytes)).collect();
            redundancy::generate(shape, &data, &mut expected, 0);
            for (column, expected) in columns[shape.data..].iter().zip(&expected) {
                assert!(column[..] == expected[..], "{level}");
            }
            give_back(stripe.owners, stripe.columns);
            for (nth, request) in requests.iter().enumerate() {
                let buffer = request.take_buffer();
                assert_eq!(
                    (buffer.as_ptr(), buffer.len()),
                    (places[nth], lengths[nth] as usize * BLOCK_BYTES)
                );
            }
        }
    }
}
