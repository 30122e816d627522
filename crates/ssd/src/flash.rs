//! [`Flash`]: a page-mapped translation layer over superblocks, cleaned greedily.
//!
//! Over-provisioning is not a parameter here: it is whatever flash holds no live page. A page
//! that was never written, deallocated, or belongs to no namespace counts the same.
//!
//! What makes it fast: flat arrays of `u32`; a physical page is live exactly when the map of its
//! logical page points back at it, so no bitmap is kept; the number of live pages per superblock
//! is one array that cleaning scans linearly, once per superblock it frees.

use crate::FlashError;

/// The map entry of a logical page that has no physical page.
pub const UNMAPPED: u32 = u32::MAX;

/// Sizes of a flash translation layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlashGeometry {
    /// Superblocks: the unit that is erased.
    pub superblocks: u32,
    /// Pages (of 4 KiB) in a superblock.
    pub pages_per_superblock: u32,
    /// Logical pages: the capacity that all namespaces together can map.
    pub logical_pages: u32,
    /// Free superblocks at which cleaning starts; at least 1.
    pub low_water: u32,
}

impl FlashGeometry {
    /// Physical pages in all.
    pub fn raw_pages(&self) -> u64 {
        u64::from(self.superblocks) * u64::from(self.pages_per_superblock)
    }

    /// Checks that cleaning can always make progress with `streams` open superblocks: with every
    /// logical page live, some closed superblock still holds a dead page.
    pub fn validate(&self, streams: u32) -> Result<(), FlashError> {
        if self.pages_per_superblock == 0 || self.superblocks == 0 || self.low_water == 0 {
            return Err(FlashError::NoFlash);
        }
        if self.raw_pages() >= u64::from(UNMAPPED) {
            return Err(FlashError::TooManyPages(self.raw_pages()));
        }
        let reserved = u64::from(self.low_water) + u64::from(streams) + 1;
        let usable = u64::from(self.superblocks).saturating_sub(reserved)
            * u64::from(self.pages_per_superblock);
        if u64::from(self.logical_pages) > usable {
            return Err(FlashError::NoSpare {
                logical: u64::from(self.logical_pages),
                usable,
            });
        }
        Ok(())
    }
}

/// How data with different placement handles is kept apart (NVMe 2.1, Flexible Data Placement).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Isolation {
    /// Apart when written; cleaning copies all into one stream.
    #[default]
    Initially,
    /// Apart for good: each handle has a cleaning stream of its own.
    Persistently,
}

/// What the flash has done since it was made or the counters were last reset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct FlashCounters {
    /// Pages written by the host.
    pub host_pages: u64,
    /// Pages copied by cleaning.
    pub copied_pages: u64,
    /// Superblocks erased.
    pub erased_superblocks: u64,
}

impl FlashCounters {
    /// Pages programmed in all.
    pub fn media_pages(&self) -> u64 {
        self.host_pages + self.copied_pages
    }

    /// Media pages per host page; 1 before anything was written.
    pub fn write_amplification(&self) -> f64 {
        if self.host_pages == 0 {
            return 1.0;
        }
        self.media_pages() as f64 / self.host_pages as f64
    }

    /// The sum with `other`.
    pub fn and(&self, other: &FlashCounters) -> FlashCounters {
        FlashCounters {
            host_pages: self.host_pages + other.host_pages,
            copied_pages: self.copied_pages + other.copied_pages,
            erased_superblocks: self.erased_superblocks + other.erased_superblocks,
        }
    }

    /// What happened since `earlier`.
    pub fn since(&self, earlier: &FlashCounters) -> FlashCounters {
        FlashCounters {
            host_pages: self.host_pages - earlier.host_pages,
            copied_pages: self.copied_pages - earlier.copied_pages,
            erased_superblocks: self.erased_superblocks - earlier.erased_superblocks,
        }
    }
}

/// What cleaning did to make room for a write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cleaned {
    /// Pages copied.
    pub copied: u32,
    /// Superblocks erased.
    pub erased: u32,
}

/// The open superblock of one stream: the next page to program, and the page after the last.
#[derive(Clone, Copy, Debug, Default)]
struct Stream {
    next: u32,
    end: u32,
}

/// One drive's flash: the map, the superblocks and their cleaning.
#[derive(Clone, Debug)]
pub struct Flash {
    geometry: FlashGeometry,
    /// Logical to physical page; one entry more than there are logical pages, never mapped, for
    /// the back pointers of pages that hold nothing.
    map: Vec<u32>,
    /// Physical to logical page; current only where `map` points back.
    back: Vec<u32>,
    /// Live pages per superblock. An open superblock's unwritten pages count as live.
    live: Vec<u32>,
    /// 0 for a closed superblock, all ones for one that must not be cleaned (free or open).
    shield: Vec<u32>,
    /// The handle whose data a superblock was opened for.
    owner: Vec<u8>,
    erases: Vec<u32>,
    free: std::collections::VecDeque<u32>,
    /// Host streams, one per placement handle, then the cleaning streams.
    streams: Vec<Stream>,
    handles: u8,
    isolation: Isolation,
    /// Multiplying by this and keeping the high half divides by `pages_per_superblock`.
    reciprocal: u64,
    mapped_pages: u32,
    counters: FlashCounters,
}

impl Flash {
    /// Erased flash with one host stream and one cleaning stream.
    pub fn new(geometry: FlashGeometry) -> Result<Flash, FlashError> {
        Flash::with_handles(geometry, 1, Isolation::Initially)
    }

    /// Erased flash with `handles` placement handles.
    pub fn with_handles(
        geometry: FlashGeometry,
        handles: u8,
        isolation: Isolation,
    ) -> Result<Flash, FlashError> {
        if handles == 0 {
            return Err(FlashError::NoHandles);
        }
        let cleaning_streams = match isolation {
            Isolation::Initially => 1,
            Isolation::Persistently => u32::from(handles),
        };
        let streams = u32::from(handles) + cleaning_streams;
        geometry.validate(streams)?;
        let superblocks = geometry.superblocks as usize;
        Ok(Flash {
            geometry,
            map: vec![UNMAPPED; geometry.logical_pages as usize + 1],
            back: vec![geometry.logical_pages; geometry.raw_pages() as usize],
            live: vec![0; superblocks],
            shield: vec![u32::MAX; superblocks],
            owner: vec![0; superblocks],
            erases: vec![0; superblocks],
            free: (0..geometry.superblocks).collect(),
            streams: vec![Stream::default(); streams as usize],
            handles,
            isolation,
            reciprocal: u64::MAX / u64::from(geometry.pages_per_superblock) + 1,
            mapped_pages: 0,
            counters: FlashCounters::default(),
        })
    }

    /// The sizes it was made with.
    pub fn geometry(&self) -> FlashGeometry {
        self.geometry
    }

    /// Open superblocks, host and cleaning.
    pub fn open_streams(&self) -> u32 {
        self.streams.len() as u32
    }

    /// Logical pages that hold data.
    pub fn mapped_pages(&self) -> u32 {
        self.mapped_pages
    }

    /// What was written, copied and erased so far.
    pub fn counters(&self) -> FlashCounters {
        self.counters
    }

    /// Starts counting from zero; wear (erase counts) stays.
    pub fn reset_counters(&mut self) {
        self.counters = FlashCounters::default();
    }

    /// Forgets all data and closes every superblock; wear stays.
    pub fn erase_all(&mut self) {
        self.map.fill(UNMAPPED);
        self.live.fill(0);
        self.shield.fill(u32::MAX);
        self.free = (0..self.geometry.superblocks).collect();
        self.streams.fill(Stream::default());
        self.mapped_pages = 0;
    }

    /// The fewest and the most erasures of any superblock.
    pub fn erase_range(&self) -> (u32, u32) {
        let fewest = self.erases.iter().copied().min().unwrap_or(0);
        let most = self.erases.iter().copied().max().unwrap_or(0);
        (fewest, most)
    }

    /// The physical page of `logical`, or `None` when it holds no data or does not exist.
    #[inline]
    pub fn lookup(&self, logical: u32) -> Option<u32> {
        let physical = *self.map.get(logical as usize)?;
        (physical != UNMAPPED).then_some(physical)
    }

    /// Writes one logical page with placement handle 0; returns what cleaning did to make room. A
    /// page beyond the capacity is ignored.
    #[inline]
    pub fn write(&mut self, logical: u32) -> Cleaned {
        self.write_placed(logical, 0)
    }

    /// Writes one logical page with `handle` (a handle that does not exist counts as 0).
    #[inline]
    pub fn write_placed(&mut self, logical: u32, handle: u8) -> Cleaned {
        if logical >= self.geometry.logical_pages {
            return Cleaned::default();
        }
        let handle = if handle < self.handles { handle } else { 0 };
        let stream = usize::from(handle);
        let mut cleaned = Cleaned::default();
        if self.streams[stream].next == self.streams[stream].end {
            cleaned = self.open_host_superblock(stream);
        }
        let previous = self.map[logical as usize];
        if previous == UNMAPPED {
            self.mapped_pages += 1;
        } else {
            let superblock = self.superblock_of(previous);
            self.live[superblock] -= 1;
        }
        self.place(stream, logical);
        self.counters.host_pages += 1;
        cleaned
    }

    /// Writes a batch of pages with handle 0. The map entries are touched ahead, so that their
    /// cache misses overlap.
    pub fn write_batch(&mut self, logical: &[u32]) {
        for chunk in logical.chunks(32) {
            let mut touched = 0_u32;
            for page in chunk {
                touched ^= self.map.get(*page as usize).copied().unwrap_or(0);
            }
            std::hint::black_box(touched);
            for page in chunk {
                self.write(*page);
            }
        }
    }

    /// Forgets the data of one logical page. Returns whether there was any.
    pub fn deallocate(&mut self, logical: u32) -> bool {
        if logical >= self.geometry.logical_pages {
            return false;
        }
        let physical = std::mem::replace(&mut self.map[logical as usize], UNMAPPED);
        if physical == UNMAPPED {
            return false;
        }
        let superblock = self.superblock_of(physical);
        self.live[superblock] -= 1;
        self.mapped_pages -= 1;
        true
    }

    /// Points `logical` at the stream's next page.
    #[inline]
    fn place(&mut self, stream: usize, logical: u32) {
        let open = &mut self.streams[stream];
        let physical = open.next;
        open.next += 1;
        self.map[logical as usize] = physical;
        self.back[physical as usize] = logical;
    }

    #[inline]
    fn superblock_of(&self, physical: u32) -> usize {
        ((u128::from(physical) * u128::from(self.reciprocal)) >> 64) as usize
    }

    #[cold]
    fn open_host_superblock(&mut self, stream: usize) -> Cleaned {
        let mut cleaned = Cleaned::default();
        while self.free.len() <= self.geometry.low_water as usize {
            cleaned.copied += self.clean_one();
            cleaned.erased += 1;
        }
        self.open(stream);
        cleaned
    }

    /// Gives `stream` a free superblock; its full one becomes a candidate for cleaning.
    fn open(&mut self, stream: usize) {
        self.close(stream);
        let superblock = self.free.pop_front();
        let superblock = superblock.expect("cleaning keeps low_water superblocks free");
        let pages = self.geometry.pages_per_superblock;
        let handle = match self.isolation {
            _ if stream < usize::from(self.handles) => stream as u8,
            Isolation::Initially => 0,
            Isolation::Persistently => (stream - usize::from(self.handles)) as u8,
        };
        self.owner[superblock as usize] = handle;
        self.live[superblock as usize] = pages;
        self.shield[superblock as usize] = u32::MAX;
        self.streams[stream] = Stream {
            next: superblock * pages,
            end: superblock * pages + pages,
        };
    }

    fn close(&mut self, stream: usize) {
        let end = self.streams[stream].end;
        if end != 0 {
            let superblock = self.superblock_of(end - 1);
            self.shield[superblock] = 0;
        }
    }

    /// The closed superblock with the fewest live pages.
    fn victim(&self) -> usize {
        let mut best = u32::MAX;
        for (live, shield) in self.live.iter().zip(&self.shield) {
            best = best.min(live | shield);
        }
        let found = self.live.iter().zip(&self.shield);
        let mut found = found.map(|(live, shield)| live | shield);
        found
            .position(|score| score == best)
            .expect("there is a superblock")
    }

    /// Copies the live pages of the best victim away and erases it; returns how many.
    fn clean_one(&mut self) -> u32 {
        let victim = self.victim();
        let pages = self.geometry.pages_per_superblock;
        let stream = usize::from(self.handles)
            + match self.isolation {
                Isolation::Initially => 0,
                Isolation::Persistently => usize::from(self.owner[victim]),
            };
        let first = victim as u32 * pages;
        let mut left = self.live[victim];
        let copied = left;
        let mut physical = first;
        while left > 0 {
            let logical = self.back[physical as usize];
            if self.map[logical as usize] == physical {
                if self.streams[stream].next == self.streams[stream].end {
                    self.open(stream);
                }
                self.place(stream, logical);
                left -= 1;
            }
            physical += 1;
        }
        self.counters.copied_pages += u64::from(copied);
        self.erase(victim);
        copied
    }

    /// Takes a free superblock and closes it with `logical`, none of which may be mapped yet, as
    /// its live pages; the rest of it is dead. How a precondition lays out a state directly.
    pub(crate) fn fill_superblock(&mut self, logical: &[u32]) {
        let superblock = self
            .free
            .pop_front()
            .expect("preconditions leave superblocks free");
        let first = superblock * self.geometry.pages_per_superblock;
        for (physical, logical) in (first..).zip(logical) {
            self.map[*logical as usize] = physical;
            self.back[physical as usize] = *logical;
        }
        let count = logical.len() as u32;
        self.live[superblock as usize] = count;
        self.shield[superblock as usize] = 0;
        self.mapped_pages += count;
    }

    fn erase(&mut self, superblock: usize) {
        self.live[superblock] = 0;
        self.shield[superblock] = u32::MAX;
        self.erases[superblock] = self.erases[superblock].saturating_add(1);
        self.counters.erased_superblocks += 1;
        self.free.push_back(superblock as u32);
    }
}

#[cfg(test)]
#[path = "flash_tests.rs"]
mod tests;
