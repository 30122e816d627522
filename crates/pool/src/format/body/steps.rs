//! Tables to bytes and back, some entries at a time. Those of a large pool take longer than others
//! on the core should wait.

use crate::chunked::{Chunked, Iter};
use crate::format::body::{
    Body, LATER_LISTS_SINCE, Malformed, Reader, Writer, once, read_decided, read_fold,
    read_later_lists, read_layer, read_redirect, read_segment, read_sequence, read_snapshot,
    read_volume, write_decided, write_later_lists, write_layer, write_redirect, write_segment,
    write_snapshot, write_volume,
};
use crate::ids::{Generation, LayerId, Number, SegmentNumber, SnapshotId, VolumeId};
use crate::segments::Segment;
use crate::segments::slices::SHARDS_MAX;
use crate::volumes::{Fold, Layer, Redirect, Snapshot, Tables, Volume};
use std::sync::Arc;

/// What an entry that is written or read counts as work: so many looks at one.
const ENTRY: u64 = 16;

/// Where it stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Head,
    Segments,
    Layers,
    Redirects,
    Volumes,
    Snapshots,
    Rest,
    Done,
}

impl Part {
    const fn next(self) -> Part {
        match self {
            Part::Head => Part::Segments,
            Part::Segments => Part::Layers,
            Part::Layers => Part::Redirects,
            Part::Redirects => Part::Volumes,
            Part::Volumes => Part::Snapshots,
            Part::Snapshots => Part::Rest,
            Part::Rest | Part::Done => Part::Done,
        }
    }
}

/// Writes tables down.
pub(super) struct Encoder<'a> {
    body: &'a Body,
    out: Writer,
    part: Part,
    segments: Iter<'a, SegmentNumber, Segment>,
    layers: Iter<'a, LayerId, Layer>,
    redirects: Iter<'a, LayerId, Redirect>,
    volumes: Iter<'a, VolumeId, Volume>,
    snapshots: Iter<'a, SnapshotId, Snapshot>,
}

/// Writes so many entries at most; returns how many there were.
fn write_some<'a, N: Copy + 'a, T: 'a>(
    out: &mut Writer,
    entries: &mut Iter<'a, N, T>,
    most: usize,
    write: fn(&mut Writer, N, &T),
) -> usize {
    let before = entries.len();
    for (id, entry) in entries.by_ref().take(most) {
        write(out, *id, entry);
        reactor::count_work(ENTRY);
    }
    before - entries.len()
}

impl<'a> Encoder<'a> {
    pub fn new(body: &'a Body) -> Encoder<'a> {
        Encoder {
            body,
            out: Writer(Vec::with_capacity(body.encoded_bytes())),
            part: Part::Head,
            segments: body.segments.iter(),
            layers: body.tables.layers.iter(),
            redirects: body.tables.redirects.iter(),
            volumes: body.tables.volumes.iter(),
            snapshots: body.tables.snapshots.iter(),
        }
    }

    /// Goes on by so many entries; false when all is written.
    pub fn step(&mut self, entries: usize) -> bool {
        let mut left = entries;
        while left > 0 && self.part != Part::Done {
            let written = self.write_on(left);
            // A part that has ended: what is left goes to the next one.
            if written < left {
                self.part = self.part.next();
                self.begin();
            }
            left -= written;
        }
        self.part != Part::Done
    }

    fn write_on(&mut self, most: usize) -> usize {
        let out = &mut self.out;
        match self.part {
            Part::Head => self.write_head(),
            Part::Segments => write_some(out, &mut self.segments, most, write_segment),
            Part::Layers => write_some(out, &mut self.layers, most, write_layer),
            Part::Redirects => write_some(out, &mut self.redirects, most, write_redirect),
            Part::Volumes => write_some(out, &mut self.volumes, most, write_volume),
            Part::Snapshots => write_some(out, &mut self.snapshots, most, write_snapshot),
            Part::Rest => self.write_rest(),
            Part::Done => 0,
        }
    }

    /// Says how many entries are next.
    fn begin(&mut self) {
        match self.part {
            Part::Segments => self.out.count(self.segments.len()),
            Part::Layers => {
                self.out.number(u64::from(self.body.tables.next_id), 4);
                self.out.count(self.layers.len());
            }
            Part::Redirects => self.out.count(self.redirects.len()),
            Part::Volumes => self.out.count(self.volumes.len()),
            Part::Snapshots => self.out.count(self.snapshots.len()),
            Part::Head | Part::Rest | Part::Done => {}
        }
    }

    fn write_head(&mut self) -> usize {
        let (out, body) = (&mut self.out, self.body);
        out.number(u64::from(body.slice_blocks), 4);
        out.count(body.sequences.len());
        for sequence in &body.sequences {
            out.number(sequence.get(), 8);
        }
        out.number(u64::from(body.next_generation.get()), 4);
        out.number(body.map_nodes, 8);
        let folding = body.tables.folding;
        out.number(folding.map_or(0, |fold| fold.layer.get().into()), 4);
        out.number(folding.map_or(0, |fold| fold.child.get().into()), 4);
        0
    }

    fn write_rest(&mut self) -> usize {
        write_later_lists(&mut self.out, &self.body.tables);
        if let Some(decided) = &self.body.decided {
            write_decided(&mut self.out, decided);
        }
        0
    }

    pub fn into_bytes(self) -> Vec<u8> {
        self.out.0
    }
}

/// Reads tables.
pub(super) struct Decoder<'a> {
    from: Reader<'a>,
    version: u32,
    body: Body,
    tables: Tables,
    folding: Option<Fold>,
    part: Part,
    /// Entries of this part that are still to come.
    left: u32,
}

/// Reads so many of the entries that are left at most; returns how many there were.
fn read_some<N: Number, T: Clone>(
    from: &mut Reader<'_>,
    left: &mut u32,
    most: usize,
    into: &mut Chunked<N, T>,
    read: fn(&mut Reader<'_>) -> Result<(N, T), Malformed>,
) -> Result<usize, Malformed> {
    let mut done = 0;
    while done < most
        && let Some(rest) = left.checked_sub(1)
    {
        *left = rest;
        let (id, entry) = read(from)?;
        reactor::count_work(ENTRY);
        // Entries are told apart by their numbers: none is there twice.
        once(into.insert(id, entry))?;
        done += 1;
    }
    Ok(done)
}

impl<'a> Decoder<'a> {
    pub fn new(bytes: &'a [u8], version: u32) -> Decoder<'a> {
        Decoder {
            from: Reader(bytes),
            version,
            body: Body::default(),
            tables: Tables::default(),
            folding: None,
            part: Part::Head,
            left: 0,
        }
    }

    /// Goes on by so many entries; false when all is read.
    pub fn step(&mut self, entries: usize) -> Result<bool, Malformed> {
        let mut left = entries;
        while left > 0 && self.part != Part::Done {
            let read = self.read_on(left)?;
            if self.left == 0 {
                self.part = self.part.next();
                self.begin()?;
            }
            left -= read;
        }
        Ok(self.part != Part::Done)
    }

    fn read_on(&mut self, most: usize) -> Result<usize, Malformed> {
        let (from, left, tables) = (&mut self.from, &mut self.left, &mut self.tables);
        match self.part {
            Part::Head => self.read_head().map(|()| 0),
            Part::Segments => read_some(from, left, most, &mut self.body.segments, read_segment),
            Part::Layers => read_some(from, left, most, &mut tables.layers, read_layer),
            Part::Redirects => read_some(from, left, most, &mut tables.redirects, read_redirect),
            Part::Volumes => read_some(from, left, most, &mut tables.volumes, read_volume),
            Part::Snapshots => read_some(from, left, most, &mut tables.snapshots, read_snapshot),
            Part::Rest => self.read_rest().map(|()| 0),
            Part::Done => Ok(0),
        }
    }

    /// Reads how many entries are next.
    fn begin(&mut self) -> Result<(), Malformed> {
        match self.part {
            Part::Layers => {
                self.tables.next_id = self.from.word()?;
                self.left = self.from.word()?;
            }
            Part::Segments | Part::Redirects | Part::Volumes | Part::Snapshots => {
                self.left = self.from.word()?;
            }
            Part::Head | Part::Rest | Part::Done => {}
        }
        Ok(())
    }

    fn read_head(&mut self) -> Result<(), Malformed> {
        let (from, body) = (&mut self.from, &mut self.body);
        body.slice_blocks = from.word()?;
        let shards = from.word()? as usize;
        if body.slice_blocks == 0 || !(1..=SHARDS_MAX).contains(&shards) {
            return Err(Malformed);
        }
        let sequences = (0..shards).map(|_| read_sequence(from));
        body.sequences = sequences.collect::<Result<_, _>>()?;
        body.next_generation = Generation::new(from.word()?);
        body.map_nodes = from.number(8)?;
        self.folding = match self.version {
            1 => None,
            _ => read_fold(from)?,
        };
        Ok(())
    }

    fn read_rest(&mut self) -> Result<(), Malformed> {
        let from = &mut self.from;
        self.tables.folding = self.folding;
        if self.version >= LATER_LISTS_SINCE {
            read_later_lists(from, &mut self.tables)?;
        }
        if !from.0.is_empty() {
            self.body.decided = Some(read_decided(from)?);
        }
        match from.0.is_empty() {
            true => Ok(()),
            false => Err(Malformed),
        }
    }

    pub fn into_body(mut self) -> Body {
        self.body.tables = Arc::new(self.tables);
        self.body
    }
}
