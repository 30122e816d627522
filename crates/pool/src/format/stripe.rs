//! The stripe header: which blocks a stripe holds, and proof that this pool wrote it just here.

use crate::format::plausible::COUNT_MAX;
use crate::ids::{Generation, Incarnation, LayerId, SegmentNumber, Sequence, ShardId};
use crate::location::{BLOCK_BYTES, BlockNumber, LayerBlock, Location};
use crate::mutation::Mutation;
use siphasher::sip128::{Hasher128, SipHasher24};
use std::hash::Hasher;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

pub(crate) const MAGIC: [u8; 4] = *b"FYST";
pub(crate) const VERSION: u16 = 1;
/// 16-byte records that fit behind the fixed part.
pub(crate) const RECORDS: usize = (BLOCK_BYTES - FIXED_BYTES) / RECORD_BYTES;
const FIXED_BYTES: usize = size_of::<Fixed>();
const RECORD_BYTES: usize = 16;
const CHECKSUM: std::ops::Range<usize> = 56..72;

/// A stripe has at most so many rows; recovery looks so far past a torn one.
pub(crate) const ROWS_MAX: u32 = 32;

/// The fixed part of the header block.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub(crate) struct Fixed {
    pub magic: [u8; 4],
    pub version: U16,
    pub rows: U16,
    pub records: U16,
    pub reserved0: [u8; 6],
    pub segment: U32,
    pub generation: U32,
    pub row: U32,
    pub shard: U32,
    pub incarnation: U64,
    pub sequence: U64,
    pub durable_through: U64,
    pub checksum: [u8; 16],
    /// The newest superblock when this was written; 0 where that was not noted yet.
    pub newest: U64,
}

const _: () = assert!(FIXED_BYTES == 80);
const _: () = assert!(std::mem::offset_of!(Fixed, checksum) == CHECKSUM.start);

/// One record on disk: kind in the top byte of the first word, a block number below it.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
struct Raw {
    kind_and_block: U64,
    layer: U32,
    value: U32,
}

const KIND_DATA: u8 = 1;
const KIND_MOVED: u8 = 2;
const KIND_FROM: u8 = 3;
const KIND_HOLE: u8 = 4;
const KIND_PAD: u8 = 5;

/// What one record says. Data, moved and pad records each own the next block of the stripe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Record {
    /// A block that the host wrote.
    Data {
        layer: LayerId,
        block: BlockNumber,
        crc: u32,
    },
    /// A live block brought here from a segment that is being cleaned; counts only if the map
    /// still says `from`, in the segment's life `generation`.
    Moved {
        layer: LayerId,
        block: BlockNumber,
        crc: u32,
        from: Location,
        generation: Generation,
    },
    /// Blocks that the host gave back; owns no block of the stripe.
    Hole {
        layer: LayerId,
        block: BlockNumber,
        blocks: u32,
    },
    /// A block of zeroes that fills up the last row.
    Pad { crc: u32 },
}

impl Record {
    /// Whose a block of a host is, and its checksum.
    pub fn owner(&self) -> Option<(LayerBlock, u32)> {
        match *self {
            Record::Data { layer, block, crc }
            | Record::Moved {
                layer, block, crc, ..
            } => Some((LayerBlock { layer, block }, crc)),
            Record::Hole { .. } | Record::Pad { .. } => None,
        }
    }

    /// Takes the checksum of the block that the record owns. What is moved keeps the one by which
    /// it was found to be right.
    pub fn set_checksum(&mut self, block: &[u8]) {
        match self {
            Record::Data { crc, .. } | Record::Pad { crc } => *crc = crc_fast::crc32_iscsi(block),
            Record::Moved { .. } | Record::Hole { .. } => {}
        }
    }

    /// Checksum of the block that the record owns, if it owns one.
    pub fn crc(&self) -> Option<u32> {
        match self {
            Record::Data { crc, .. } | Record::Moved { crc, .. } | Record::Pad { crc } => {
                Some(*crc)
            }
            Record::Hole { .. } => None,
        }
    }
}

/// Where a header claims to be, and in which life of the segment and of the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub segment: SegmentNumber,
    pub generation: Generation,
    pub row: u32,
    pub incarnation: Incarnation,
}

/// What a stripe can be: the segment has so many data columns, and its zones have so many rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    pub data: usize,
    pub rows: u32,
}

impl Bounds {
    /// Says whether a stripe lies in the segment, in rows that are full, and speaks of blocks that
    /// volumes can have.
    fn allow(self, header: &Header) -> bool {
        let lies = (1..=ROWS_MAX).contains(&header.rows)
            && u64::from(header.place.row) + u64::from(header.rows) <= u64::from(self.rows);
        let owning = header
            .records
            .iter()
            .filter(|record| record.crc().is_some());
        let full = owning.count() + 1 == header.rows as usize * self.data;
        let counted = header.durable_through < header.sequence
            && [header.sequence.get(), header.newest]
                .iter()
                .all(|it| *it <= 2 * COUNT_MAX);
        lies && full && counted && header.records.iter().all(is_within_volumes)
    }
}

fn is_within_volumes(record: &Record) -> bool {
    match *record {
        Record::Data { block, .. } | Record::Moved { block, .. } => block < BlockNumber::END,
        Record::Hole { block, blocks, .. } => block + u64::from(blocks) <= BlockNumber::END,
        Record::Pad { .. } => true,
    }
}

/// A stripe header, decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub place: Place,
    /// Rows of the stripe, the header's own included.
    pub rows: u32,
    /// Which shard wrote it; sequence numbers of different shards say nothing about each other.
    pub shard: ShardId,
    pub sequence: Sequence,
    /// Every stripe up to this sequence number was durable when this one was built.
    pub durable_through: Sequence,
    /// [`content`](super::superblock::Superblock::content) of the newest superblock that every
    /// drive had by then.
    pub newest: u64,
    pub records: Vec<Record>,
}

fn raw(kind: u8, low: u64, layer: u32, value: u32) -> Raw {
    Raw {
        kind_and_block: (u64::from(kind) << 56 | low).into(),
        layer: layer.into(),
        value: value.into(),
    }
}

fn keyed_checksum(block: &[u8], secret: &[u8; 16]) -> [u8; 16] {
    let mut hasher = SipHasher24::new_with_key(secret);
    hasher.write(&block[..CHECKSUM.start]);
    hasher.write(&[0; 16]);
    hasher.write(&block[CHECKSUM.end..]);
    hasher.finish128().as_bytes()
}

impl Header {
    /// Writes the header into `block`, which is one block long.
    pub fn encode(&self, secret: &[u8; 16], block: &mut [u8]) {
        block.fill(0);
        let mut count = 0;
        let mut push = |record: Raw| {
            let start = FIXED_BYTES + count * RECORD_BYTES;
            block[start..start + RECORD_BYTES].copy_from_slice(record.as_bytes());
            count += 1;
        };
        for record in &self.records {
            match *record {
                Record::Data { layer, block, crc } => {
                    push(raw(KIND_DATA, block.get(), layer.get(), crc))
                }
                Record::Moved {
                    layer,
                    block,
                    crc,
                    from,
                    generation,
                } => {
                    push(raw(KIND_MOVED, block.get(), layer.get(), crc));
                    push(raw(KIND_FROM, from.pack(), generation.get(), 0));
                }
                Record::Hole {
                    layer,
                    block,
                    blocks,
                } => {
                    push(raw(KIND_HOLE, block.get(), layer.get(), blocks));
                }
                Record::Pad { crc } => push(raw(KIND_PAD, 0, 0, crc)),
            }
        }
        let fixed = Fixed {
            magic: MAGIC,
            version: VERSION.into(),
            rows: (self.rows as u16).into(),
            records: (count as u16).into(),
            reserved0: [0; 6],
            segment: self.place.segment.get().into(),
            generation: self.place.generation.get().into(),
            row: self.place.row.into(),
            shard: (self.shard.get() as u32).into(),
            incarnation: self.place.incarnation.get().into(),
            sequence: self.sequence.get().into(),
            durable_through: self.durable_through.get().into(),
            checksum: [0; 16],
            newest: self.newest.into(),
        };
        block[..FIXED_BYTES].copy_from_slice(fixed.as_bytes());
        let checksum = keyed_checksum(block, secret);
        block[CHECKSUM].copy_from_slice(&checksum);
    }

    /// The header in `block`, if this pool wrote it at exactly `place`, whose incarnation may be
    /// any earlier one when `past` is true, and it is within `bounds`: whoever has the drives has
    /// the secret too.
    pub fn decode(
        secret: &[u8; 16],
        place: Place,
        past: bool,
        bounds: Bounds,
        block: &[u8],
    ) -> Option<Header> {
        let (fixed, rest) = Fixed::read_from_prefix(block).ok()?;
        let found = Place {
            segment: SegmentNumber::new(fixed.segment.get()),
            generation: Generation::new(fixed.generation.get()),
            row: fixed.row.get(),
            incarnation: Incarnation::new(fixed.incarnation.get()),
        };
        let then = if past {
            found.incarnation
        } else {
            place.incarnation
        };
        let here = found
            == Place {
                incarnation: then,
                ..place
            }
            && found.incarnation <= place.incarnation;
        let anywhere = Mutation::TakesMisplacedHeaders.is_planted();
        let here = here || anywhere && then == found.incarnation;
        let plausible = fixed.magic == MAGIC && fixed.version.get() == VERSION && here;
        if !plausible || fixed.checksum != keyed_checksum(block, secret) {
            return None;
        }
        let mut raws = rest
            .chunks_exact(RECORD_BYTES)
            .take(usize::from(fixed.records.get()))
            .filter_map(|bytes| Raw::read_from_bytes(bytes).ok());
        let mut records = Vec::with_capacity(usize::from(fixed.records.get()));
        while let Some(raw) = raws.next() {
            records.push(decode_record(raw, &mut raws)?);
        }
        let header = Header {
            place: Place {
                incarnation: found.incarnation,
                ..place
            },
            rows: u32::from(fixed.rows.get()),
            shard: ShardId::new(fixed.shard.get().into()),
            sequence: Sequence::new(fixed.sequence.get()),
            durable_through: Sequence::new(fixed.durable_through.get()),
            newest: fixed.newest.get(),
            records,
        };
        bounds.allow(&header).then_some(header)
    }
}

fn split(raw: &Raw) -> (u8, u64) {
    let word = raw.kind_and_block.get();
    ((word >> 56) as u8, word & ((1 << 56) - 1))
}

fn decode_record(first: Raw, more: &mut impl Iterator<Item = Raw>) -> Option<Record> {
    let (kind, low) = split(&first);
    let block = BlockNumber::new(low);
    let (layer, value) = (LayerId::new(first.layer.get()), first.value.get());
    Some(match kind {
        KIND_DATA => Record::Data {
            layer,
            block,
            crc: value,
        },
        KIND_MOVED => {
            let second = more.next()?;
            let (kind, from) = split(&second);
            if kind != KIND_FROM {
                return None;
            }
            Record::Moved {
                layer,
                block,
                crc: value,
                from: Location::unpack(from),
                generation: Generation::new(second.layer.get()),
            }
        }
        KIND_HOLE => Record::Hole {
            layer,
            block,
            blocks: value,
        },
        KIND_PAD => Record::Pad { crc: value },
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds { data: 2, rows: 64 };

    fn sample() -> Header {
        let place = Place {
            segment: SegmentNumber::new(9),
            generation: Generation::new(4),
            row: 32,
            incarnation: Incarnation::new(3),
        };
        Header {
            place,
            rows: 2,
            shard: ShardId::new(1),
            sequence: Sequence::new(77),
            durable_through: Sequence::new(70),
            newest: 9,
            records: vec![
                Record::Data {
                    layer: LayerId::new(1),
                    block: BlockNumber::new(5),
                    crc: 6,
                },
                Record::Moved {
                    layer: LayerId::new(2),
                    block: BlockNumber::new((1 << 40) - 1),
                    crc: 7,
                    from: Location {
                        segment: SegmentNumber::new(3),
                        column: 31,
                        row: 8,
                    },
                    generation: Generation::new(2),
                },
                Record::Hole {
                    layer: LayerId::new(1),
                    block: BlockNumber::new(100),
                    blocks: u32::MAX,
                },
                Record::Pad { crc: 1 },
            ],
        }
    }

    #[test]
    fn a_header_is_accepted_only_where_and_by_whom_it_was_written() {
        let header = sample();
        let mut block = vec![0; BLOCK_BYTES];
        header.encode(&[7; 16], &mut block);
        assert_eq!(
            Header::decode(&[7; 16], header.place, false, BOUNDS, &block),
            Some(header.clone())
        );
        assert_eq!(
            Header::decode(&[8; 16], header.place, false, BOUNDS, &block),
            None,
            "another pool's"
        );
        for place in [
            Place {
                segment: SegmentNumber::new(8),
                ..header.place
            },
            Place {
                generation: Generation::new(5),
                ..header.place
            },
            Place {
                row: 33,
                ..header.place
            },
            Place {
                incarnation: Incarnation::new(4),
                ..header.place
            },
        ] {
            assert_eq!(
                Header::decode(&[7; 16], place, false, BOUNDS, &block),
                None,
                "{place:?}"
            );
        }
        for byte in 0..BLOCK_BYTES {
            block[byte] ^= 0x10;
            assert_eq!(
                Header::decode(&[7; 16], header.place, false, BOUNDS, &block),
                None,
                "byte {byte}"
            );
            block[byte] ^= 0x10;
        }
    }
}
