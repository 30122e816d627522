//! What redb reads and writes: the state's file, or that file under changes that stay in memory.
//!
//! The file is opened and locked once, by whoever makes these: so a database that is opened anew
//! over it never lets go of the lock.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use redb::StorageBackend;

/// The file itself.
#[derive(Debug)]
pub struct Whole(pub Arc<File>);

impl StorageBackend for Whole {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.read_exact_at(out, offset)
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.0.set_len(length)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.write_all_at(data, offset)
    }
}

const PAGE_BYTES: usize = 4096;

/// The file as it is, under changes that are forgotten with this: what a database that cannot be
/// written needs to be read, since opening one writes to it.
#[derive(Debug)]
pub struct Overlaid {
    file: Arc<File>,
    changes: Mutex<Changes>,
}

#[derive(Debug)]
struct Changes {
    length: u64,
    /// Up to where the file counts: less than its length once that was cut.
    file_length: u64,
    pages: BTreeMap<u64, Box<[u8; PAGE_BYTES]>>,
}

impl Overlaid {
    /// No changes yet.
    pub fn new(file: Arc<File>) -> io::Result<Overlaid> {
        let length = file.metadata()?.len();
        let changes = Mutex::new(Changes {
            length,
            file_length: length,
            pages: BTreeMap::new(),
        });
        Ok(Overlaid { file, changes })
    }

    /// Changes are whole between any two statements but for those of a write that panicked, which
    /// nobody reads.
    fn changes(&self) -> MutexGuard<'_, Changes> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A page as the file has it, with zeroes where that has ended.
    fn page_of_file(&self, page: u64, file_length: u64) -> io::Result<Box<[u8; PAGE_BYTES]>> {
        let mut bytes = Box::new([0; PAGE_BYTES]);
        let start = page * PAGE_BYTES as u64;
        let there = file_length.saturating_sub(start).min(PAGE_BYTES as u64) as usize;
        self.file.read_exact_at(&mut bytes[..there], start)?;
        Ok(bytes)
    }
}

/// The pages that a range touches: which, from where in it, and how much of it.
fn pages(offset: u64, length: usize) -> impl Iterator<Item = (u64, usize, usize)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let at = offset + done as u64;
        let within = (at % PAGE_BYTES as u64) as usize;
        let count = (PAGE_BYTES - within).min(length - done);
        done += count;
        (count > 0).then_some((at / PAGE_BYTES as u64, within, count))
    })
}

impl StorageBackend for Overlaid {
    fn len(&self) -> io::Result<u64> {
        Ok(self.changes().length)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let changes = self.changes();
        let mut out = out;
        if offset + out.len() as u64 > changes.length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        for (page, within, count) in pages(offset, out.len()) {
            let (now, later) = out.split_at_mut(count);
            match changes.pages.get(&page) {
                Some(bytes) => now.copy_from_slice(&bytes[within..within + count]),
                None => {
                    let bytes = self.page_of_file(page, changes.file_length)?;
                    now.copy_from_slice(&bytes[within..within + count]);
                }
            }
            out = later;
        }
        Ok(())
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        let mut changes = self.changes();
        if length < changes.length {
            let whole = length.div_ceil(PAGE_BYTES as u64);
            changes.pages.split_off(&whole);
            changes.file_length = changes.file_length.min(length);
            let cut = (length % PAGE_BYTES as u64) as usize;
            if cut > 0
                && let Some(last) = changes.pages.get_mut(&(length / PAGE_BYTES as u64))
            {
                last[cut..].fill(0);
            }
        }
        changes.length = length;
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut changes = self.changes();
        let mut data = data;
        for (page, within, count) in pages(offset, data.len()) {
            if !changes.pages.contains_key(&page) {
                let bytes = self.page_of_file(page, changes.file_length)?;
                changes.pages.insert(page, bytes);
            }
            let (now, later) = data.split_at(count);
            if let Some(bytes) = changes.pages.get_mut(&page) {
                bytes[within..within + count].copy_from_slice(now);
            }
            data = later;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Beside a file of which the same is asked: each read as there, and the file never changed.
    #[test]
    fn changes_are_read_back_and_stay_out_of_the_file() {
        let before: Vec<u8> = (0..20_000u32).map(|byte| byte as u8).collect();
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(&before, 0).unwrap();
        let model = tempfile::tempfile().unwrap();
        model.write_all_at(&before, 0).unwrap();
        let (file, model) = (Arc::new(file), Whole(Arc::new(model)));
        let overlaid = Overlaid::new(Arc::clone(&file)).unwrap();
        let mut number = 7u64;
        let mut random = |below: u64| {
            number = number
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (number >> 33) % below
        };
        for step in 0..2000 {
            if random(10) == 0 {
                let length = random(30_000);
                model.set_len(length).unwrap();
                overlaid.set_len(length).unwrap();
            }
            let length = model.len().unwrap();
            assert_eq!(overlaid.len().unwrap(), length, "step {step}");
            let offset = random(length + 1);
            let count = random(9000).min(length - offset) as usize;
            if random(2) == 0 {
                let bytes = vec![step as u8; count];
                model.write(offset, &bytes).unwrap();
                overlaid.write(offset, &bytes).unwrap();
            }
            let (mut expected, mut found) = (vec![0; count], vec![0; count]);
            model.read(offset, &mut expected).unwrap();
            overlaid.read(offset, &mut found).unwrap();
            assert!(
                expected == found,
                "step {step}: {count} bytes from {offset}"
            );
        }
        assert!(overlaid.read(overlaid.len().unwrap(), &mut [0]).is_err());
        let mut after = vec![0; before.len()];
        file.read_exact_at(&mut after, 0).unwrap();
        assert!(after == before);
    }
}
