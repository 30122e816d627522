//! Reads in the model: each may bring what a block held at some instant while the read was under
//! way, and nothing else; what it brought was there from then on, until a later write.
//!
//! A read remembers what its blocks may have been when it began and what was submitted since: all
//! that any of these instants allows. It forgets that when it ends, so the history is as long as
//! the reads under way need it.

use super::{BlockModel, Candidate, Fate, Image, Open, Settled, Stamp, Write, zero_block};

/// A read under way.
#[derive(Clone, Debug)]
pub(super) struct Read {
    began: u64,
    start: u64,
    /// What each block may have held since it began.
    may: Vec<Vec<Candidate>>,
    /// What writes had brought by then: each was one of these.
    settled: Vec<Vec<Stamp>>,
}

impl Read {
    /// A write is submitted while it is under way.
    pub fn beside(&mut self, write: &Write) {
        for (block, stamp) in (write.start..).zip(&write.stamps) {
            let place = block.checked_sub(self.start);
            let may = place.and_then(|place| self.may.get_mut(place as usize));
            let candidate = Candidate {
                stamp: *stamp,
                submitted: write.submitted,
            };
            may.into_iter().for_each(|may| may.push(candidate));
        }
    }

    /// Which write brought what was read of a block, if there was one.
    fn origin(&self, place: usize, stamp: Stamp) -> Option<Origin> {
        let may = self.may.get(place)?.iter();
        let of_stamp = may.filter(|candidate| candidate.stamp == stamp);
        let submitted = of_stamp
            .clone()
            .map(|candidate| candidate.submitted)
            .min()?;
        let is_one = of_stamp.count() == 1;
        Some(Origin { submitted, is_one })
    }
}

/// The write that brought what was read of a block, or one of several that may have.
#[derive(Clone, Copy, Debug)]
struct Origin {
    /// When it was submitted, at the earliest.
    submitted: u64,
    /// No other brings the same. Of several it cannot be told which has come: what was read may be
    /// of one that has been overwritten since, and another with the same is yet to come.
    is_one: bool,
}

impl BlockModel {
    /// A read that began at a time, and has ended `now`, found what a write had brought: whatever
    /// had come before both has been overwritten.
    fn saw(&mut self, stamp: Stamp, origin: Origin, (began, now): (u64, u64)) {
        let since = began.max(origin.submitted);
        self.settled
            .retain(|settled| settled.stamp == stamp || settled.by >= since);
        let is_over = |fate| match fate {
            Fate::UnderWay => false,
            Fate::Failed(ended) => ended < since,
            Fate::Left(ended) => ended < origin.submitted,
        };
        self.open
            .retain(|open| open.stamp == stamp || !is_over(open.fate));
        if origin.is_one
            && let Some(found) = self.open.iter().position(|open| open.stamp == stamp)
        {
            let Open { submitted, .. } = self.open.remove(found);
            self.settled.push(Settled {
                stamp,
                submitted,
                by: now,
            });
        }
    }
}

impl Image {
    /// A read begins, of so many blocks from `start` on.
    pub fn begin_read(&mut self, number: u64, start: u64, blocks: u64) {
        let zero = zero_block();
        let models = (start..start + blocks).map(|block| self.blocks.get(&block).unwrap_or(&zero));
        let read = Read {
            began: number,
            start,
            may: models
                .clone()
                .map(|model| model.candidates().collect())
                .collect(),
            settled: models.map(|model| model.settled().collect()).collect(),
        };
        self.reads.insert(number, read);
    }

    /// True while any is under way.
    pub fn is_being_read(&self) -> bool {
        !self.reads.is_empty()
    }

    /// A read ends without having brought anything.
    pub fn give_up_read(&mut self, number: u64) {
        self.reads.remove(&number);
        let oldest = self.reads.values().map(|read| read.began).min();
        let needed = |ended: u64| oldest.is_some_and(|began| began <= ended);
        self.beside_reads.retain(|(ended, _)| needed(*ended));
    }

    /// A read ends `now`, having brought a stamp for each of its blocks.
    ///
    /// # Errors
    /// A block never was so while the read was under way, or half of an atomic write was seen.
    pub fn end_read(&mut self, number: u64, now: u64, stamps: &[Stamp]) -> Result<(), String> {
        let Some(read) = self.reads.get(&number) else {
            return Ok(());
        };
        let mut origins = Vec::with_capacity(stamps.len());
        for (place, stamp) in stamps.iter().enumerate() {
            let origin = read.origin(place, *stamp).ok_or_else(|| {
                let (block, may) = (read.start + place as u64, &read.may[place]);
                let since = read.began;
                format!("block {block} reads {stamp}, but from {since} to {now} was of {may:?}")
            });
            origins.push(origin?);
        }
        if let Some(write) = self.half_seen(read, stamps) {
            return Err(format!(
                "a read of {}+{} saw half of the write of {}+{}",
                read.start,
                stamps.len(),
                write.start,
                write.stamps.len()
            ));
        }
        let (start, time) = (read.start, (read.began, now));
        for ((block, stamp), origin) in (start..).zip(stamps).zip(origins) {
            if let Some(model) = self.blocks.get_mut(&block) {
                model.saw(*stamp, origin, time);
            }
        }
        self.give_up_read(number);
        Ok(())
    }

    /// An image that nobody writes to was read from `start` on: it was always so, and stays so.
    ///
    /// # Errors
    /// A block was not.
    pub fn end_read_of_frozen(&mut self, start: u64, stamps: &[Stamp]) -> Result<(), String> {
        for (block, stamp) in (start..).zip(stamps) {
            let allowed = self.allowed(block);
            if !allowed.contains(stamp) {
                return Err(format!("block {block} reads {stamp}, not {allowed:?}"));
            }
            self.pin(block, *stamp);
        }
        Ok(())
    }

    /// A write that is atomic and of which a read saw a part (NAWUN): some of its blocks, and
    /// others as what was there when the read began. `stamps` is what it brought.
    fn half_seen(&self, read: &Read, stamps: &[Stamp]) -> Option<&Write> {
        let ended = self.beside_reads.iter().map(|(_, write)| write);
        let under_way = || self.writes.values().chain(self.left.values());
        let beside = || under_way().chain(ended.clone());
        beside().filter(|write| write.atomic).find(|write| {
            let (mut new, mut old) = (false, false);
            for ((block, seen), settled) in (read.start..).zip(stamps).zip(&read.settled) {
                if write.brings(block, *seen) {
                    new = true;
                } else if write.covers(block) && settled.contains(seen) {
                    // Zeroes may have come by another that gave the block back.
                    old |= !beside().any(|other| other.brings(block, *seen));
                }
            }
            new && old
        })
    }
}
