//! The checkpoint's tables: segments, layers, volumes, snapshots; a run of little-endian fields.

mod steps;

use crate::format::body::steps::{Decoder, Encoder};
use crate::ids::{Generation, Incarnation, LayerId, SegmentNumber, Sequence, SnapshotId, VolumeId};
use crate::location::{Entry, Location, Mapping};
use crate::segments::slices::{SHARDS_MAX, SLICE_BLOCKS};
use crate::segments::zones::Zone;
use crate::segments::{Kind, Segment, SegmentState, Table};
use crate::volumes::{Fold, Layer, Redirect, Root, Snapshot, Tables, Volume};
use std::sync::Arc;

/// Everything that a checkpoint says besides the superblock itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Body {
    /// Blocks of a slice, by which the blocks of volumes are dealt to shards.
    pub slice_blocks: u32,
    /// For each shard: stripes up to this sequence number are in the map.
    pub sequences: Vec<Sequence>,
    pub next_generation: Generation,
    /// Nodes of all maps together.
    pub map_nodes: u64,
    pub segments: Table,
    pub tables: Arc<Tables>,
    /// What the last recovery decided about the logs it found, until the maps have them.
    pub decided: Option<Decided>,
}

/// The logs of an incarnation that is over, as recovery found them. Stripes of later ones begin
/// in segments that were made ready since.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Decided {
    pub incarnation: Incarnation,
    /// Blocks of a slice at that time.
    pub slice_blocks: u32,
    /// The log of each shard that there was.
    pub logs: Vec<DecidedLog>,
}

/// What counts of one shard's log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DecidedLog {
    /// Stripes up to this one are in the maps.
    pub since: Sequence,
    /// Nothing behind this one counts, whatever may come to light.
    pub through: Sequence,
    /// In between these do not count: they are torn.
    pub torn: Vec<Sequence>,
}

impl Default for Body {
    /// Of a pool that holds nothing.
    fn default() -> Body {
        Body {
            slice_blocks: SLICE_BLOCKS as u32,
            sequences: vec![Sequence::NONE],
            next_generation: Generation::NONE,
            map_nodes: 0,
            segments: Table::default(),
            tables: Arc::default(),
            decided: None,
        }
    }
}

/// The tables do not parse although their checksum is right: another version, or a bug.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

struct Writer(Vec<u8>);

impl Writer {
    fn number(&mut self, value: u64, bytes: usize) {
        self.0.extend_from_slice(&value.to_le_bytes()[..bytes]);
    }

    fn count(&mut self, value: usize) {
        self.number(value as u64, 4);
    }

    fn text(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64, 2);
        self.0.extend_from_slice(bytes);
    }
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, bytes: usize) -> Result<&'a [u8], Malformed> {
        let (head, rest) = self.0.split_at_checked(bytes).ok_or(Malformed)?;
        self.0 = rest;
        Ok(head)
    }

    fn number(&mut self, bytes: usize) -> Result<u64, Malformed> {
        let head = self.take(bytes)?;
        Ok(head
            .iter()
            .rev()
            .fold(0, |word, byte| word << 8 | u64::from(*byte)))
    }

    fn word(&mut self) -> Result<u32, Malformed> {
        Ok(self.number(4)? as u32)
    }

    fn text(&mut self) -> Result<Vec<u8>, Malformed> {
        let bytes = self.number(2)? as usize;
        Ok(self.take(bytes)?.to_vec())
    }

    fn name(&mut self) -> Result<String, Malformed> {
        String::from_utf8(self.text()?).map_err(|_| Malformed)
    }
}

impl Body {
    pub fn encode(&self) -> Vec<u8> {
        let mut encoder = Encoder::new(self);
        while encoder.step(usize::MAX) {}
        encoder.into_bytes()
    }

    /// How many bytes that makes.
    pub fn encoded_bytes(&self) -> usize {
        let segments = self.segments.values();
        let segments = segments.map(|segment| segment_bytes(segment.columns.len()));
        let empty = self.tables.layers.values().filter(|it| it.is_empty());
        let tables = tables_bytes(&self.tables) - ROOT_BYTES * empty.count();
        let logs = self.decided.iter().flat_map(|decided| &decided.logs);
        let logs = logs.map(|log| LOG_BYTES + 8 * log.torn.len());
        let decided = self.decided.as_ref().map_or(0, |_| DECIDED_BYTES);
        HEAD_BYTES
            + 8 * self.sequences.len()
            + segments.sum::<usize>()
            + tables
            + decided
            + logs.sum::<usize>()
    }

    /// The same; others on this core have a turn after so many entries.
    pub async fn encode_in_turns(&self, in_a_row: usize) -> Vec<u8> {
        let mut encoder = Encoder::new(self);
        while encoder.step(in_a_row.max(1)) {
            reactor::yield_now().await;
        }
        encoder.into_bytes()
    }

    /// Tables as this version of the format has them, or an earlier one.
    pub fn decode(bytes: &[u8], version: u32) -> Result<Body, Malformed> {
        let mut decoder = Decoder::new(bytes, version);
        while decoder.step(usize::MAX)? {}
        Ok(decoder.into_body())
    }

    /// The same; others on this core have a turn after so many entries.
    pub async fn decode_in_turns(
        bytes: &[u8],
        version: u32,
        in_a_row: usize,
    ) -> Result<Body, Malformed> {
        let mut decoder = Decoder::new(bytes, version);
        while decoder.step(in_a_row.max(1))? {
            reactor::yield_now().await;
        }
        Ok(decoder.into_body())
    }
}

fn read_fold(from: &mut Reader<'_>) -> Result<Option<Fold>, Malformed> {
    let (layer, child) = (from.word()?, from.word()?);
    Ok((layer != 0).then_some(Fold {
        layer: LayerId::new(layer),
        child: LayerId::new(child),
    }))
}

/// The first version that has lists behind the snapshots.
const LATER_LISTS_SINCE: u32 = 3;
/// Lists that have no entries before a feature says so: further members, failure domains, and keys
/// of layers.
const EMPTY_LISTS: usize = 3;
/// Bytes that the time of a snapshot takes.
const TIME_BYTES: usize = 12;

fn write_later_lists(out: &mut Writer, tables: &Tables) {
    let snapshots = tables.snapshots.iter();
    let times: Vec<(SnapshotId, u64)> = snapshots
        .filter_map(|(id, snapshot)| Some((*id, snapshot.taken?)))
        .collect();
    out.count(times.len());
    for (id, taken) in times {
        out.number(u64::from(id.0), 4);
        out.number(taken, 8);
    }
    for _ in 0..EMPTY_LISTS {
        out.count(0);
    }
}

fn read_later_lists(from: &mut Reader<'_>, tables: &mut Tables) -> Result<(), Malformed> {
    for _ in 0..from.word()? {
        let (id, taken) = (SnapshotId(from.word()?), from.number(8)?);
        let snapshot = tables.snapshots.get_mut(id).ok_or(Malformed)?;
        once(snapshot.taken.replace(taken))?;
    }
    for _ in 0..EMPTY_LISTS {
        if from.word()? != 0 {
            return Err(Malformed);
        }
    }
    Ok(())
}

/// Bytes of what is before the segments, without the logs of shards.
const HEAD_BYTES: usize = 32;
/// Bytes that the root of a layer takes.
const ROOT_BYTES: usize = 11;
/// Bytes of what was decided, and of what was about each log, without those of torn stripes.
const DECIDED_BYTES: usize = 16;
const LOG_BYTES: usize = 20;
/// Bytes that a redirect takes.
pub(crate) const REDIRECT_BYTES: usize = 12;

/// Bytes that a segment of so many columns takes.
pub(crate) fn segment_bytes(columns: usize) -> usize {
    27 + 5 * columns
}

/// Bytes that volumes, snapshots and layers take, or will when each layer holds something.
pub(crate) fn tables_bytes(tables: &Tables) -> usize {
    let volumes = tables.volumes.values();
    let volumes = volumes.map(|volume| 25 + volume.name.len() + volume.attributes.len());
    let snapshots = tables.snapshots.values();
    let times = |taken: Option<u64>| taken.map_or(0, |_| TIME_BYTES);
    let snapshots = snapshots.map(|it| 22 + it.name.len() + times(it.taken));
    let lists = 4
        + 4 * (4 + 1 + EMPTY_LISTS)
        + 28 * tables.layers.len()
        + REDIRECT_BYTES * tables.redirects.len();
    lists + volumes.sum::<usize>() + snapshots.sum::<usize>()
}

fn read_sequence(from: &mut Reader<'_>) -> Result<Sequence, Malformed> {
    from.number(8).map(Sequence::new)
}

fn write_segment(out: &mut Writer, number: SegmentNumber, segment: &Segment) {
    out.number(u64::from(number.get()), 4);
    out.number(u64::from(segment.generation.get()), 4);
    out.number(u64::from(segment.kind.code()), 1);
    out.number(u64::from(segment.state.code()), 1);
    out.number(u64::from(segment.rows), 4);
    out.number(u64::from(segment.live_tree), 4);
    out.number(segment.sequence.get(), 8);
    out.number(segment.columns.len() as u64, 1);
    for zone in &segment.columns {
        let (drive, index) = zone.map_or((u8::MAX, 0), |zone| (zone.drive, zone.index));
        out.number(u64::from(drive), 1);
        out.number(u64::from(index), 4);
    }
}

fn read_segment(from: &mut Reader<'_>) -> Result<(SegmentNumber, Segment), Malformed> {
    let number = SegmentNumber::new(from.word()?);
    let generation = Generation::new(from.word()?);
    let kind = Kind::from_code(from.number(1)? as u8).ok_or(Malformed)?;
    let state = SegmentState::from_code(from.number(1)? as u8).ok_or(Malformed)?;
    let rows = from.word()?;
    let live_tree = from.word()?;
    let sequence = read_sequence(from)?;
    let mut columns = Vec::new();
    for _ in 0..from.number(1)? {
        let drive = from.number(1)? as u8;
        let index = from.word()?;
        columns.push((drive != u8::MAX).then_some(Zone { drive, index }));
    }
    let mut segment = Segment::new(kind, generation, columns);
    segment.state = state;
    segment.rows = rows;
    segment.live_tree = live_tree;
    segment.sequence = sequence;
    Ok((number, segment))
}

fn write_layer(out: &mut Writer, id: LayerId, layer: &Layer) {
    out.number(u64::from(id.get()), 4);
    out.number(layer.parent.map_or(0, |parent| parent.get().into()), 4);
    out.number(layer.mapped, 8);
    let root = layer.root;
    match root.and_then(|root| Some((root.level, root.mapping.entry()?))) {
        Some((level, entry)) => {
            out.number(1 + u64::from(level), 1);
            out.number(entry.at.pack(), 7);
            out.number(u64::from(entry.crc), 4);
        }
        None => out.number(0, 1),
    }
}

fn write_redirect(out: &mut Writer, from: LayerId, redirect: &Redirect) {
    out.number(u64::from(from.get()), 4);
    out.number(redirect.to.map_or(0, |heir| heir.get().into()), 4);
    out.number(u64::from(redirect.generation.get()), 4);
}

fn write_volume(out: &mut Writer, id: VolumeId, volume: &Volume) {
    out.number(u64::from(id.0), 4);
    out.text(volume.name.as_bytes());
    out.number(volume.blocks, 8);
    out.number(u64::from(volume.layer.get()), 4);
    out.number(volume.origin.map_or(0, |origin| origin.0.into()), 4);
    out.text(&volume.attributes);
    out.number(u64::from(volume.reserved), 1);
}

fn write_snapshot(out: &mut Writer, id: SnapshotId, snapshot: &Snapshot) {
    out.number(u64::from(id.0), 4);
    out.text(snapshot.name.as_bytes());
    out.number(snapshot.blocks, 8);
    out.number(u64::from(snapshot.layer.get()), 4);
    out.number(u64::from(snapshot.volume.0), 4);
}

fn once<T>(before: Option<T>) -> Result<(), Malformed> {
    before.map_or(Ok(()), |_| Err(Malformed))
}

fn some(id: u32) -> Option<u32> {
    (id != 0).then_some(id)
}

fn read_layer(from: &mut Reader<'_>) -> Result<(LayerId, Layer), Malformed> {
    let id = LayerId::new(from.word()?);
    let parent = some(from.word()?).map(LayerId::new);
    let mapped = from.number(8)?;
    let root = match from.number(1)? {
        0 => None,
        level => Some(Root {
            level: (level - 1) as u8,
            mapping: Mapping::Block(Entry {
                at: Location::unpack(from.number(7)?),
                crc: from.word()?,
            }),
        }),
    };
    let layer = Layer {
        parent,
        mapped,
        root,
    };
    Ok((id, layer))
}

fn read_redirect(from: &mut Reader<'_>) -> Result<(LayerId, Redirect), Malformed> {
    let id = LayerId::new(from.word()?);
    let to = some(from.word()?).map(LayerId::new);
    let generation = Generation::new(from.word()?);
    Ok((id, Redirect { to, generation }))
}

fn read_volume(from: &mut Reader<'_>) -> Result<(VolumeId, Volume), Malformed> {
    let id = VolumeId(from.word()?);
    let volume = Volume {
        name: from.name()?,
        blocks: from.number(8)?,
        layer: LayerId::new(from.word()?),
        origin: some(from.word()?).map(SnapshotId),
        attributes: from.text()?,
        reserved: from.number(1)? & 1 != 0,
    };
    Ok((id, volume))
}

fn read_snapshot(from: &mut Reader<'_>) -> Result<(SnapshotId, Snapshot), Malformed> {
    let id = SnapshotId(from.word()?);
    let snapshot = Snapshot {
        name: from.name()?,
        blocks: from.number(8)?,
        layer: LayerId::new(from.word()?),
        volume: VolumeId(from.word()?),
        taken: None,
    };
    Ok((id, snapshot))
}

fn write_decided(out: &mut Writer, decided: &Decided) {
    out.number(decided.incarnation.get(), 8);
    out.number(u64::from(decided.slice_blocks), 4);
    out.count(decided.logs.len());
    for log in &decided.logs {
        out.number(log.since.get(), 8);
        out.number(log.through.get(), 8);
        out.count(log.torn.len());
        for sequence in &log.torn {
            out.number(sequence.get(), 8);
        }
    }
}

fn read_decided(from: &mut Reader<'_>) -> Result<Decided, Malformed> {
    let incarnation = Incarnation::new(from.number(8)?);
    let slice_blocks = from.word()?;
    let shards = from.word()? as usize;
    if slice_blocks == 0 || !(1..=SHARDS_MAX).contains(&shards) {
        return Err(Malformed);
    }
    let mut logs = Vec::with_capacity(shards);
    for _ in 0..shards {
        let (since, through) = (read_sequence(from)?, read_sequence(from)?);
        let torn = (0..from.word()?).map(|_| read_sequence(from));
        let torn: Result<Vec<Sequence>, Malformed> = torn.collect();
        logs.push(DecidedLog {
            since,
            through,
            torn: torn?,
        });
    }
    Ok(Decided {
        incarnation,
        slice_blocks,
        logs,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::superblock::VERSION;
    use std::cell::Cell;
    use std::rc::Rc;

    fn sample() -> Body {
        let zone = Some(Zone { drive: 3, index: 9 });
        let mut segment = Segment::new(Kind::Map, Generation::new(5), vec![zone, None]);
        segment.state = SegmentState::Sealed;
        segment.rows = 4;
        segment.live_tree = 2;
        let at = Location {
            segment: SegmentNumber::new(1),
            column: 1,
            row: 1,
        };
        let root = Root {
            level: 2,
            mapping: Mapping::Block(Entry { at, crc: 3 }),
        };
        let mut body = Body {
            slice_blocks: 256,
            sequences: [8, 3].map(Sequence::new).to_vec(),
            next_generation: Generation::new(6),
            map_nodes: 4,
            ..Body::default()
        };
        body.segments.insert(SegmentNumber::new(7), segment);
        let tables = Arc::make_mut(&mut body.tables);
        tables.next_id = 30;
        tables.layers.insert(
            LayerId::new(1),
            Layer {
                parent: None,
                mapped: 5,
                root: Some(root),
            },
        );
        tables.layers.insert(
            LayerId::new(2),
            Layer {
                parent: Some(LayerId::new(1)),
                mapped: 0,
                root: None,
            },
        );
        tables.folding = Some(Fold {
            layer: LayerId::new(1),
            child: LayerId::new(2),
        });
        tables.redirects.insert(
            LayerId::new(9),
            Redirect {
                to: Some(LayerId::new(2)),
                generation: Generation::new(3),
            },
        );
        let volume = Volume {
            name: "a".into(),
            blocks: 9,
            layer: LayerId::new(2),
            origin: Some(SnapshotId(4)),
            attributes: vec![1, 2],
            reserved: true,
        };
        tables.volumes.insert(VolumeId(3), volume);
        let snapshot = Snapshot {
            name: "s".into(),
            blocks: 9,
            layer: LayerId::new(1),
            volume: VolumeId(3),
            taken: Some(1_700_000_000_000),
        };
        tables.snapshots.insert(SnapshotId(4), snapshot);
        body
    }

    #[test]
    fn tables_round_trip_and_a_cut_at_any_byte_is_refused() {
        let body = sample();
        let bytes = body.encode();
        assert_eq!(bytes.len(), body.encoded_bytes());
        assert_eq!(Body::decode(&bytes, VERSION), Ok(body));
        for end in 0..bytes.len() {
            assert!(
                Body::decode(&bytes[..end], VERSION).is_err(),
                "cut at {end}"
            );
        }
    }

    #[test]
    fn tables_of_earlier_versions_are_read_too() {
        let mut body = sample();
        let tables = Arc::make_mut(&mut body.tables);
        tables.folding = None;
        tables
            .snapshots
            .change_some(SnapshotId(0), usize::MAX, |_, snapshot| {
                snapshot.taken = None
            });
        let mut bytes = body.encode();
        // Four lists that are empty.
        bytes.truncate(bytes.len() - 16);
        assert_eq!(Body::decode(&bytes, 2).as_ref(), Ok(&body));
        // Behind the head's other fields, of which two are by shard.
        bytes.drain(36..44);
        assert_eq!(Body::decode(&bytes, 1), Ok(body));
    }

    #[test]
    fn lists_that_are_for_later_are_empty_and_times_are_of_snapshots() {
        let bytes = sample().encode();
        let refused = |change: &dyn Fn(&mut Vec<u8>)| {
            let mut bytes = bytes.clone();
            change(&mut bytes);
            Body::decode(&bytes, VERSION).is_err()
        };
        assert!(!refused(&|_| ()));
        for list in 1..=EMPTY_LISTS {
            let at = bytes.len() - 4 * list;
            assert!(refused(&|bytes| bytes[at] = 1), "{list}");
        }
        let time = bytes.len() - 4 * EMPTY_LISTS - TIME_BYTES;
        assert!(refused(&|bytes| bytes[time] ^= 1), "of no snapshot");
    }

    #[test]
    fn what_entries_take_is_known() {
        let mut body = sample();
        let bytes = body.encode().len();
        let without = body.segments.remove(SegmentNumber::new(7));
        let without = without.expect("a segment").columns.len();
        assert_eq!(bytes - body.encode().len(), segment_bytes(without));
        let root = body.tables.layers[&LayerId::new(1)].root;
        let layers = &mut Arc::make_mut(&mut body.tables).layers;
        layers.change_some(LayerId::LEAST, usize::MAX, |_, layer| layer.root = root);
        let bytes = body.encode().len();
        body.tables = Arc::default();
        let least = tables_bytes(&body.tables);
        let more = tables_bytes(&sample().tables) - least;
        assert_eq!(bytes - body.encode().len(), more);
    }

    #[test]
    fn what_was_decided_round_trips_and_a_cut_in_it_is_refused() {
        let mut body = sample();
        let without = body.encode().len();
        let log = |since, through, torn: &[u64]| DecidedLog {
            since: Sequence::new(since),
            through: Sequence::new(through),
            torn: torn.iter().copied().map(Sequence::new).collect(),
        };
        body.decided = Some(Decided {
            incarnation: Incarnation::new(9),
            slice_blocks: 16,
            logs: vec![log(1, 7, &[4, 6]), log(2, 2, &[])],
        });
        let bytes = body.encode();
        assert_eq!(bytes.len(), body.encoded_bytes());
        assert_eq!(Body::decode(&bytes, VERSION), Ok(body));
        for end in without + 1..bytes.len() {
            assert!(
                Body::decode(&bytes[..end], VERSION).is_err(),
                "cut at {end}"
            );
        }
    }

    /// Others have a turn after so many entries, and the bytes are the same.
    #[test]
    fn tables_are_written_and_read_in_turns() {
        const IN_A_ROW: usize = 100;
        const SNAPSHOTS: u32 = 1000;
        let mut body = sample();
        let tables = Arc::make_mut(&mut body.tables);
        let snapshot = tables.snapshots.values().next().unwrap().clone();
        for id in 1000..1000 + SNAPSHOTS {
            tables.snapshots.insert(SnapshotId(id), snapshot.clone());
        }
        let turns = Rc::new(Cell::new(0));
        reactor::Reactor::simulated(1).run(async {
            let counting = turns.clone();
            let others = reactor::spawn(async move {
                loop {
                    counting.set(counting.get() + 1);
                    reactor::yield_now().await;
                }
            });
            let bytes = body.encode_in_turns(IN_A_ROW).await;
            assert!(turns.take() >= 9, "while it writes");
            assert_eq!(bytes, body.encode());
            let read = Body::decode_in_turns(&bytes, VERSION, IN_A_ROW).await;
            assert!(turns.take() >= 9, "while it reads");
            assert_eq!(read, Ok(body));
            others.cancel();
        });
    }
}
