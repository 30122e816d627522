//! The simulated file system: sparse files in memory, by path.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use crate::file::OpenOptions;

const PAGE_BYTES: u64 = 4096;

/// All files of a simulation.
#[derive(Default)]
pub(crate) struct Files {
    by_path: BTreeMap<PathBuf, Rc<SimulatedFile>>,
    page_cached: bool,
}

impl Files {
    /// Whether files that are made from now on are in the page cache alone.
    pub(crate) fn set_page_cached(&mut self, page_cached: bool) {
        self.page_cached = page_cached;
    }

    pub(crate) fn open(
        &mut self,
        path: &Path,
        options: &OpenOptions,
    ) -> io::Result<Rc<SimulatedFile>> {
        let found = self.by_path.get(path);
        match found {
            Some(_) if options.create_new => Err(ErrorKind::AlreadyExists.into()),
            Some(file) => Ok(Rc::clone(file)),
            None if options.create || options.create_new => {
                let file = Rc::new(SimulatedFile {
                    page_cached: self.page_cached,
                    ..SimulatedFile::default()
                });
                self.by_path.insert(path.to_owned(), Rc::clone(&file));
                Ok(file)
            }
            None => Err(ErrorKind::NotFound.into()),
        }
    }
}

/// One file: its size, and the pages that were written.
#[derive(Default)]
pub(crate) struct SimulatedFile {
    pages: RefCell<BTreeMap<u64, Box<[u8]>>>,
    size_bytes: Cell<u64>,
    locked: Cell<bool>,
    page_cached: bool,
}

impl SimulatedFile {
    /// Whether it is in the page cache, which copies a transfer part by part.
    pub(crate) fn is_page_cached(&self) -> bool {
        self.page_cached
    }

    pub(crate) fn size_bytes(&self) -> u64 {
        self.size_bytes.get()
    }

    pub(crate) fn set_size(&self, bytes: u64) {
        if bytes < self.size_bytes.get() {
            self.zero(bytes, self.size_bytes.get() - bytes);
        }
        self.size_bytes.set(bytes);
    }

    /// Takes the exclusive lock; false if it is taken.
    pub(crate) fn try_lock(&self) -> bool {
        !self.locked.replace(true)
    }

    pub(crate) fn unlock(&self) {
        self.locked.set(false);
    }

    /// Fills `bytes` from `offset`; how many of them the file has.
    pub(crate) fn read(&self, bytes: &mut [u8], offset: u64) -> usize {
        let available = self.size_bytes.get().saturating_sub(offset);
        let count = usize::try_from(available)
            .unwrap_or(usize::MAX)
            .min(bytes.len());
        let pages = self.pages.borrow();
        for (page, within, part) in parts(offset, count) {
            let to = &mut bytes[part];
            match pages.get(&page) {
                Some(data) => to.copy_from_slice(&data[within..within + to.len()]),
                None => to.fill(0),
            }
        }
        count
    }

    pub(crate) fn write(&self, bytes: &[u8], offset: u64) {
        let mut pages = self.pages.borrow_mut();
        for (page, within, part) in parts(offset, bytes.len()) {
            let from = &bytes[part];
            let data = pages
                .entry(page)
                .or_insert_with(|| vec![0; PAGE_BYTES as usize].into_boxed_slice());
            data[within..within + from.len()].copy_from_slice(from);
        }
        let end = offset + bytes.len() as u64;
        self.size_bytes.set(self.size_bytes.get().max(end));
    }

    /// Makes a range read as zeroes without changing the size.
    pub(crate) fn zero(&self, offset: u64, bytes: u64) {
        let end = offset.saturating_add(bytes);
        let mut pages = self.pages.borrow_mut();
        let first = offset / PAGE_BYTES;
        let last = end.div_ceil(PAGE_BYTES);
        let touched: Vec<u64> = pages.range(first..last).map(|(page, _)| *page).collect();
        for page in touched {
            let start = page * PAGE_BYTES;
            let from = offset.saturating_sub(start).min(PAGE_BYTES) as usize;
            let to = (end - start).min(PAGE_BYTES) as usize;
            if from == 0 && to == PAGE_BYTES as usize {
                pages.remove(&page);
            } else if let Some(data) = pages.get_mut(&page) {
                data[from..to].fill(0);
            }
        }
    }
}

/// Cuts a run of bytes at page boundaries: page, offset within it, and which bytes of the run.
fn parts(offset: u64, count: usize) -> impl Iterator<Item = (u64, usize, std::ops::Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        if done == count {
            return None;
        }
        let at = offset + done as u64;
        let within = (at % PAGE_BYTES) as usize;
        let length = (PAGE_BYTES as usize - within).min(count - done);
        let part = done..done + length;
        done += length;
        Some((at / PAGE_BYTES, within, part))
    })
}
