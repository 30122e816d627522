//! [`HistoryFile`]: a ring of records for each object, in a file that cannot outgrow its bound.
//!
//! `docs/formats/history.md` shows the file. A record names its interval, so a place that is still
//! to be written anew is told from one that was. Nothing is synced: a power cut costs some minutes
//! of figures, and what it tore is skipped when it is read.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use api::{HistoryKind, Name};

use super::rows::Row;
use super::values::{RECORD_BYTES, Values, decode, encode, together};
use crate::private;

/// How long figures of one resolution are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tier {
    /// Seconds of an interval.
    pub seconds: u32,
    /// Intervals that are kept.
    pub intervals: u32,
}

/// An hour, a day, 30 days. Each is made of the one before.
pub const TIERS: [Tier; 3] = [
    Tier {
        seconds: 10,
        intervals: 360,
    },
    Tier {
        seconds: 60,
        intervals: 1440,
    },
    Tier {
        seconds: 900,
        intervals: 2880,
    },
];

const MAGIC: [u8; 8] = *b"FYHIST01";

/// The unit of the file: a page of memory, so that writing one reads none.
const PAGE_BYTES: usize = 4096;

/// Objects whose records share a page.
const GROUP_OBJECTS: usize = PAGE_BYTES / RECORD_BYTES;

/// Groups of objects that there may be: 16,384 objects.
const GROUPS_MAX: usize = 64;

const ENTRY_BYTES: usize = 128;

const DIRECTORY_BYTES: usize = GROUP_OBJECTS * ENTRY_BYTES;

const INTERVALS: usize = (TIERS[0].intervals + TIERS[1].intervals + TIERS[2].intervals) as usize;

const GROUP_BYTES: usize = DIRECTORY_BYTES + INTERVALS * PAGE_BYTES;

/// The file is never longer than this.
pub const FILE_BYTES_MAX: u64 = (PAGE_BYTES + GROUPS_MAX * GROUP_BYTES) as u64;

/// An open file of histories.
#[derive(Debug)]
pub struct HistoryFile {
    file: File,
    /// By number.
    entries: Vec<Option<Entry>>,
    numbers: BTreeMap<(HistoryKind, Name), usize>,
    /// The latest interval of the first tier that was written; 0 before there is one.
    latest: u32,
}

/// An object, and when it was there, in intervals of the first tier.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    kind: HistoryKind,
    name: Name,
    begun: u32,
    /// Since when it is no more; 0 while it is there.
    gone: u32,
}

impl HistoryFile {
    /// Opens the file, which is made if it is missing, to be read and written.
    pub fn open(path: &Path) -> io::Result<HistoryFile> {
        let options = File::options().read(true).write(true).open(path);
        let file = match options {
            Err(error) if error.kind() == io::ErrorKind::NotFound => private::create(path)?,
            opened => opened?,
        };
        HistoryFile::of(file)
    }

    /// Opens the file to be read, where it cannot be written.
    pub fn open_to_read(path: &Path) -> io::Result<HistoryFile> {
        HistoryFile::of(File::open(path)?)
    }

    fn of(file: File) -> io::Result<HistoryFile> {
        let mut found = HistoryFile {
            file,
            entries: Vec::new(),
            numbers: BTreeMap::new(),
            latest: 0,
        };
        let mut head = [0; 12];
        match found.file.read_exact_at(&mut head, 0) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(found),
            read => read?,
        }
        let (magic, latest) = head.split_at(MAGIC.len());
        if magic != MAGIC {
            // Figures of a version that is not this one's: they are begun anew.
            return Ok(found);
        }
        found.latest = number_at(latest, 0);
        found.read_directory()?;
        Ok(found)
    }

    fn read_directory(&mut self) -> io::Result<()> {
        let length = self.file.metadata()?.len();
        for group in 0..GROUPS_MAX {
            let mut directory = vec![0; DIRECTORY_BYTES];
            if group_offset(group) + DIRECTORY_BYTES as u64 > length {
                break;
            }
            self.file
                .read_exact_at(&mut directory, group_offset(group))?;
            let entries = directory.chunks_exact(ENTRY_BYTES).map(Entry::decode);
            self.entries.extend(entries);
        }
        let entries = self.entries.iter().enumerate();
        self.numbers = entries
            .filter_map(|(number, entry)| Some((entry.as_ref()?.key(), number)))
            .collect();
        Ok(())
    }

    /// Writes the figures of an interval of the first tier, and of the longer ones that ended
    /// before it. Says how many objects there was no place for.
    pub fn write(&mut self, interval: u32, rows: &[Row]) -> io::Result<usize> {
        if self.latest == 0 {
            let mut page = [0; PAGE_BYTES];
            page[..MAGIC.len()].copy_from_slice(&MAGIC);
            self.file.write_all_at(&page, 0)?;
        } else {
            self.roll_up(interval)?;
        }
        let left_out = self.take_in(interval, rows)?;
        let mut pages = vec![[0; PAGE_BYTES]; self.entries.len().div_ceil(GROUP_OBJECTS)];
        for row in rows {
            if let Some(number) = self.numbers.get(&(row.kind, row.name.clone())) {
                let (group, at) = place(*number);
                if let Some(page) = pages.get_mut(group) {
                    page[at..at + RECORD_BYTES].copy_from_slice(&encode(interval, &row.values));
                }
            }
        }
        for (group, page) in pages.iter().enumerate() {
            self.file
                .write_all_at(page, page_offset(group, 0, interval))?;
        }
        self.latest = interval;
        let latest = interval.to_le_bytes();
        self.file.write_all_at(&latest, MAGIC.len() as u64)?;
        Ok(left_out)
    }

    /// Writes the longer intervals that `latest` was in and `next` is not.
    fn roll_up(&self, next: u32) -> io::Result<()> {
        // A clock that was set back begins no earlier interval anew.
        if self.latest > next {
            return Ok(());
        }
        for (tier, longer) in TIERS.iter().enumerate().skip(1) {
            let parts = longer.seconds / TIERS[0].seconds;
            if self.latest / parts != next / parts {
                self.roll_up_one(tier, self.latest / parts)?;
            }
        }
        Ok(())
    }

    fn roll_up_one(&self, tier: usize, interval: u32) -> io::Result<()> {
        let count = TIERS[tier].seconds / TIERS[tier - 1].seconds;
        for group in 0..self.entries.len().div_ceil(GROUP_OBJECTS) {
            let mut parts = Vec::new();
            for part in (interval * count..).take(count as usize) {
                let mut page = [0; PAGE_BYTES];
                self.read(&mut page, page_offset(group, tier - 1, part))?;
                parts.push((part, page));
            }
            let mut page = [0; PAGE_BYTES];
            let entries = self
                .entries
                .iter()
                .skip(group * GROUP_OBJECTS)
                .take(GROUP_OBJECTS);
            for (entry, at) in entries.zip((0..).step_by(RECORD_BYTES)) {
                let Some(entry) = entry else { continue };
                let values: Vec<Values> = parts
                    .iter()
                    .filter(|(part, _)| entry.was_there(tier - 1, *part))
                    .filter_map(|(part, page)| decode(&page[at..at + RECORD_BYTES], *part))
                    .collect();
                if !values.is_empty() {
                    let all = together(entry.kind, &values);
                    page[at..at + RECORD_BYTES].copy_from_slice(&encode(interval, &all));
                }
            }
            self.file
                .write_all_at(&page, page_offset(group, tier, interval))?;
        }
        Ok(())
    }

    /// Notes which objects are gone, and gives new ones a place. Says for how many there is none.
    fn take_in(&mut self, interval: u32, rows: &[Row]) -> io::Result<usize> {
        let mut there = vec![false; self.entries.len()];
        let mut new = Vec::new();
        for row in rows {
            let key = (row.kind, row.name.clone());
            let known = self.numbers.get(&key).copied();
            let entry = known.and_then(|number| self.entries[number].as_ref());
            match known.zip(entry) {
                Some((number, entry)) if entry.gone == 0 => there[number] = true,
                // What has its name now is another.
                _ => new.push((key, known)),
            }
        }
        for (number, there) in there.into_iter().enumerate() {
            let gone = self.entries[number]
                .as_mut()
                .filter(|entry| !there && entry.gone == 0);
            if let Some(entry) = gone {
                entry.gone = interval;
                self.write_entry(number)?;
            }
        }
        // Those that were there before have their places back before others look for one.
        new.sort_by_key(|(_, known)| known.is_none());
        let mut left_out = 0;
        for (key, known) in new {
            let Some(number) = known.or_else(|| self.free_place(interval)) else {
                left_out += 1;
                continue;
            };
            let former = self.entries[number].replace(Entry::new(key.clone(), interval));
            if let Some(former) = former {
                self.numbers.remove(&former.key());
            }
            self.numbers.insert(key, number);
            self.write_entry(number)?;
        }
        Ok(left_out)
    }

    /// A place that was never taken, or else that of the object which has been gone for longest.
    fn free_place(&mut self, now: u32) -> Option<usize> {
        if let Some(number) = self.entries.iter().position(Option::is_none) {
            return Some(number);
        }
        let gone = self
            .entries
            .iter()
            .enumerate()
            .filter_map(|(number, entry)| {
                let gone = entry.as_ref().map_or(0, |entry| entry.gone);
                (gone > 0).then_some((gone, number))
            });
        let oldest = gone.min();
        let kept = TIERS[2].intervals * (TIERS[2].seconds / TIERS[0].seconds);
        match oldest {
            Some((gone, number)) if now.saturating_sub(gone) > kept => Some(number),
            _ if self.entries.len() < GROUPS_MAX * GROUP_OBJECTS => {
                self.entries
                    .resize(self.entries.len() + GROUP_OBJECTS, None);
                Some(self.entries.len() - GROUP_OBJECTS)
            }
            oldest => oldest.map(|(_, number)| number),
        }
    }

    fn write_entry(&self, number: usize) -> io::Result<()> {
        let Some(entry) = &self.entries[number] else {
            return Ok(());
        };
        let within = (number % GROUP_OBJECTS * ENTRY_BYTES) as u64;
        let at = group_offset(number / GROUP_OBJECTS) + within;
        self.file.write_all_at(&entry.encode(), at)
    }

    /// The figures of an object from `first` on, one for each of `count` intervals of a tier.
    pub fn history(
        &self,
        (kind, name): (HistoryKind, &Name),
        tier: usize,
        (first, count): (u32, u32),
    ) -> io::Result<Vec<Values>> {
        let mut found = vec![Values::default(); count as usize];
        let Some(number) = self.numbers.get(&(kind, name.clone())) else {
            return Ok(found);
        };
        let Some(entry) = &self.entries[*number] else {
            return Ok(found);
        };
        let (group, at) = place(*number);
        for (interval, values) in (first..).zip(&mut found) {
            if entry.was_there(tier, interval) {
                let mut record = [0; RECORD_BYTES];
                self.read(&mut record, page_offset(group, tier, interval) + at as u64)?;
                *values = decode(&record, interval).unwrap_or_default();
            }
        }
        Ok(found)
    }

    /// Reads; behind the file's end there are zeroes, as in its holes.
    fn read(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        match self.file.read_exact_at(buffer, offset) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                buffer.fill(0);
                Ok(())
            }
            read => read,
        }
    }

    /// Objects that have a place, those that are gone among them.
    pub fn objects(&self) -> u64 {
        self.numbers.len() as u64
    }

    /// What the file takes of its disk.
    pub fn bytes(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.blocks() * 512)
    }
}

/// The group of an object, and where its record is in a page.
fn place(number: usize) -> (usize, usize) {
    (
        number / GROUP_OBJECTS,
        number % GROUP_OBJECTS * RECORD_BYTES,
    )
}

fn group_offset(group: usize) -> u64 {
    (PAGE_BYTES + group * GROUP_BYTES) as u64
}

fn page_offset(group: usize, tier: usize, interval: u32) -> u64 {
    let before: u32 = TIERS[..tier].iter().map(|tier| tier.intervals).sum();
    let page = before + interval % TIERS[tier].intervals;
    group_offset(group) + DIRECTORY_BYTES as u64 + u64::from(page) * PAGE_BYTES as u64
}

/// The little-endian number there; 0 where there is none.
fn number_at(bytes: &[u8], offset: usize) -> u32 {
    let found = bytes.get(offset..).and_then(|rest| rest.first_chunk::<4>());
    found.map_or(0, |found| u32::from_le_bytes(*found))
}

const KINDS: [HistoryKind; 4] = [
    HistoryKind::Node,
    HistoryKind::Volume,
    HistoryKind::Pool,
    HistoryKind::Drive,
];

impl Entry {
    fn new((kind, name): (HistoryKind, Name), begun: u32) -> Entry {
        Entry {
            kind,
            name,
            begun,
            gone: 0,
        }
    }

    fn key(&self) -> (HistoryKind, Name) {
        (self.kind, self.name.clone())
    }

    /// Whether a record of that interval is this object's, not a former one's of its place or name.
    fn was_there(&self, tier: usize, interval: u32) -> bool {
        let parts = TIERS[tier].seconds / TIERS[0].seconds;
        u64::from(interval + 1) * u64::from(parts) > u64::from(self.begun)
    }

    fn encode(&self) -> [u8; ENTRY_BYTES] {
        let mut bytes = [0; ENTRY_BYTES];
        let kind = KINDS.iter().position(|kind| *kind == self.kind);
        bytes[0] = kind.map_or(0, |kind| kind as u8 + 1);
        bytes[1] = self.name.as_str().len() as u8;
        bytes[4..8].copy_from_slice(&self.begun.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.gone.to_le_bytes());
        bytes[12..12 + self.name.as_str().len()].copy_from_slice(self.name.as_str().as_bytes());
        bytes
    }

    /// Nothing of bytes that are none: the place is free.
    fn decode(bytes: &[u8]) -> Option<Entry> {
        let kind = usize::from(*bytes.first()?).checked_sub(1)?;
        let length = usize::from(*bytes.get(1)?);
        let name = std::str::from_utf8(bytes.get(12..12 + length)?).ok()?;
        Some(Entry {
            kind: *KINDS.get(kind)?,
            name: name.parse().ok()?,
            begun: number_at(bytes, 4),
            gone: number_at(bytes, 8),
        })
    }
}

#[cfg(test)]
mod tests;
