//! [`Media`]: what a drive has, what it only says that it has, and what is on its way.

use super::{BLOCK, Content};
use crate::crafted::LABEL;
use crate::random::Random;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;

/// A write that power loss may undo, in whole or by sectors.
#[derive(Clone)]
pub(super) struct Unflushed {
    pub number: u64,
    pub block: u64,
    pub content: Content,
}

/// A change on its way to the media.
#[derive(Clone)]
pub(super) enum Flight {
    Write {
        block: u64,
        bytes: Vec<u8>,
        first_number: u64,
        durable: bool,
    },
    Discard(Range<u64>, Forgets),
}

/// What a discard leaves.
#[derive(Clone)]
pub(super) enum Forgets {
    /// Nothing, for good.
    All,
    /// Nothing, until the power fails: then there is what was there before.
    UntilPowerLoss,
    /// What somebody else has written, or nobody.
    ForGarbage(Random),
}

#[derive(Clone, Default)]
pub(super) struct Media {
    pub durable: BTreeMap<u64, Content>,
    /// What reads see where it is not (yet) what is durable.
    pub cached: BTreeMap<u64, Content>,
    pub unflushed: Vec<Unflushed>,
    pub flights: BTreeMap<u64, Flight>,
    /// Those that are under way although the host has died that began them.
    pub late: Vec<u64>,
    pub next_number: u64,
    pub latent: BTreeSet<u64>,
    /// Blocks that were written last, the latest at the end.
    pub recent: VecDeque<u64>,
    /// What blocks were before each write, while that is remembered.
    remembered: Option<Vec<(u64, Option<Content>)>>,
    /// Discards that were answered and have not taken place: after so many writes to their blocks.
    put_off: Vec<(Range<u64>, u64)>,
    /// What discards took that a power loss brings back.
    pub undone: BTreeMap<u64, Content>,
}

/// How many blocks are known that were written last.
const RECENT: usize = 64;

impl Media {
    /// A change that is on its way arrives, unless it has.
    pub fn land(&mut self, flight: u64) {
        match self.flights.remove(&flight) {
            Some(Flight::Write {
                block,
                bytes,
                first_number,
                durable,
            }) => {
                for (index, content) in bytes.chunks(BLOCK).enumerate() {
                    let (block, own) = (block + index as u64, first_number + index as u64);
                    self.latent.remove(&block);
                    self.recent.push_back(block);
                    if durable {
                        self.unflushed
                            .retain(|write| write.block != block || write.number > own);
                        self.cached.remove(&block);
                        self.keep(block, content.into());
                    } else {
                        // Of several that wait for a flush, the one that came last counts.
                        let known = self.unflushed.iter().rposition(|it| it.number == own);
                        let write = known.map(|at| self.unflushed.remove(at));
                        self.unflushed.push(write.unwrap_or_else(|| Unflushed {
                            number: own,
                            block,
                            content: content.into(),
                        }));
                        self.cached.insert(block, content.into());
                    }
                }
                let more = self.recent.len().saturating_sub(RECENT);
                self.recent.drain(..more);
                self.catch_up(block..block + (bytes.len() / BLOCK) as u64);
            }
            Some(Flight::Discard(inside, forgets)) => self.forget(inside, &forgets),
            None => {}
        }
    }

    /// Whether a superblock is on its way in a write.
    pub fn is_label(&self, flight: u64) -> bool {
        match self.flights.get(&flight) {
            Some(Flight::Write { bytes, .. }) => {
                let mut blocks = bytes.chunks(BLOCK);
                blocks.any(|block| block.starts_with(LABEL))
            }
            _ => false,
        }
    }

    /// Whether a write is on its way, so that no flush has to do with it.
    pub fn is_under_way(&self, number: u64) -> bool {
        match self.flights.range(..=number).next_back() {
            Some((first, Flight::Write { bytes, .. })) => {
                number - first < (bytes.len() / BLOCK) as u64
            }
            _ => false,
        }
    }

    /// A block is durable.
    pub fn keep(&mut self, block: u64, content: Content) {
        let before = self.durable.insert(block, content);
        if let Some(remembered) = &mut self.remembered {
            remembered.push((block, before));
        }
    }

    /// From now on what blocks were is remembered, or no more.
    pub fn remember(&mut self, remembers: bool) {
        self.remembered = match remembers {
            true => Some(self.remembered.take().unwrap_or_default()),
            false => None,
        };
    }

    /// One of the blocks of which it is remembered is what it was, as often as not one of those
    /// that were written last.
    pub fn bring_back(&mut self, random: &Random) {
        let Some(remembered) = &mut self.remembered else {
            return;
        };
        let all = remembered.len() as u64;
        let among = if random.once_in(2) { all } else { all.min(8) };
        let Some(place) = all.checked_sub(1 + random.below(among)) else {
            return;
        };
        let (block, before) = remembered.remove(place as usize);
        self.cached.remove(&block);
        self.unflushed.retain(|write| write.block != block);
        match before {
            Some(content) => self.durable.insert(block, content),
            None => self.durable.remove(&block),
        };
    }

    /// A discard is to take place when its blocks have been written so often.
    pub fn put_off(&mut self, inside: Range<u64>, writes: u64) {
        self.put_off.push((inside, writes));
    }

    /// Whether there is such a one.
    pub fn puts_off(&self) -> bool {
        !self.put_off.is_empty()
    }

    /// Some blocks were written: discards of them take place whose time has come.
    fn catch_up(&mut self, written: Range<u64>) {
        let put_off = std::mem::take(&mut self.put_off);
        let meet = |inside: &Range<u64>| inside.start < written.end && written.start < inside.end;
        let mut due = Vec::new();
        for (inside, writes) in put_off {
            match writes.checked_sub(u64::from(meet(&inside))) {
                Some(left) => self.put_off.push((inside, left)),
                None => due.push(inside),
            }
        }
        for inside in due {
            self.forget(inside, &Forgets::All);
        }
    }

    /// Blocks are what a discard leaves.
    fn forget(&mut self, inside: Range<u64>, forgets: &Forgets) {
        let other = match forgets {
            Forgets::ForGarbage(random) => {
                let nth = random.below(self.durable.len() as u64) as usize;
                self.durable.values().nth(nth).cloned()
            }
            _ => None,
        };
        for block in inside.clone() {
            let before = self.durable.remove(&block);
            let before = self.cached.remove(&block).or(before);
            match (forgets, before) {
                (Forgets::UntilPowerLoss, Some(before)) => {
                    self.undone.insert(block, before);
                }
                (Forgets::ForGarbage(random), Some(mut before)) => {
                    match (&other, random.once_in(2)) {
                        (Some(other), true) => before.copy_from_slice(other),
                        _ => before.fill_with(|| random.word() as u8),
                    }
                    self.durable.insert(block, before);
                }
                _ => {}
            }
        }
        self.unflushed
            .retain(|write| !inside.contains(&write.block));
    }

    /// Discards that were put off take place no more, and none is undone.
    pub fn forget_discards(&mut self) {
        self.put_off.clear();
        self.undone.clear();
    }

    /// The power fails: discards that were put off take place no more, and some are undone.
    pub fn undo_discards(&mut self) {
        self.put_off.clear();
        for (block, content) in std::mem::take(&mut self.undone) {
            self.durable.entry(block).or_insert(content);
        }
    }
}
