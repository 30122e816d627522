//! [`Journal`]: which write of each block was acknowledged, and which may have happened.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::Path;

use super::stamp::{STAMP_BYTES, Stamp, StampError};

/// Remembers, for every block of a region, the last acknowledged write and the last one begun.
///
/// Writes of one block never overlap (the journal refuses to begin a second), so its generations
/// reach the device in order, and a read that starts after generation `a` was acknowledged and
/// ends before generation `b + 1` begins must find one of `a..=b`. Eight bytes per block; nothing
/// is allocated per I/O. The journal lives with whoever generates the load, so it outlives the
/// node under test; [`Journal::save`] carries it over to a later run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Journal {
    seed: u64,
    first_block: u64,
    block_bytes: u32,
    entries: Vec<Entry>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Entry {
    /// Generation of the last acknowledged write; 0 before the first.
    acknowledged: u32,
    /// Generation of the last write begun, with [`IN_FLIGHT`] while it has not ended.
    begun: u32,
}

const IN_FLIGHT: u32 = 1 << 31;

impl Entry {
    fn newest(self) -> u32 {
        self.begun & !IN_FLIGHT
    }
}

/// A block that does not hold what the journal allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Mismatch {
    /// An acknowledged write is gone: the block holds an older one.
    #[error("block {block}: holds generation {found}, but {acknowledged} was acknowledged")]
    Stale {
        /// The logical block.
        block: u64,
        /// What it holds.
        found: u64,
        /// What it must hold at least.
        acknowledged: u64,
    },
    /// The block holds a write that was never begun.
    #[error("block {block}: holds generation {found}, but {newest} is the newest begun")]
    FromNowhere {
        /// The logical block.
        block: u64,
        /// What it holds.
        found: u64,
        /// The newest there can be.
        newest: u64,
    },
    /// The block holds another block's content.
    #[error("block {block}: holds what was written to block {found}")]
    Misplaced {
        /// The logical block.
        block: u64,
        /// Where its content belongs.
        found: u64,
    },
    /// The block was acknowledged and holds something that no write of this journal put there.
    #[error("block {block}: generation {acknowledged} was acknowledged, found {found}")]
    Lost {
        /// The logical block.
        block: u64,
        /// What it must hold at least.
        acknowledged: u64,
        /// What it holds instead.
        found: StampError,
    },
    /// The block starts like a stamped one and is not whole.
    #[error("block {block}: torn or corrupted: {found}")]
    Torn {
        /// The logical block.
        block: u64,
        /// What does not fit.
        found: StampError,
    },
}

/// Why a journal could not be kept or fetched.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The file could not be read or written.
    #[error("verification journal: {0}")]
    Io(#[from] io::Error),
    /// The file is not a journal, or a damaged one.
    #[error("verification journal: {0}")]
    Format(&'static str),
}

impl Journal {
    /// A journal for `blocks` blocks of `block_bytes` (at least 512) from `first_block`.
    pub fn new(seed: u64, first_block: u64, blocks: u64, block_bytes: u32) -> Journal {
        debug_assert!(block_bytes as usize >= STAMP_BYTES);
        Journal {
            seed,
            first_block,
            block_bytes,
            entries: vec![Entry::default(); blocks as usize],
        }
    }

    /// The first block covered.
    pub fn first_block(&self) -> u64 {
        self.first_block
    }

    /// How many blocks are covered.
    pub fn blocks(&self) -> u64 {
        self.entries.len() as u64
    }

    /// Bytes per block.
    pub fn block_bytes(&self) -> u32 {
        self.block_bytes
    }

    /// The seed that the stamps carry.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// How many blocks have at least one acknowledged write.
    pub fn acknowledged_blocks(&self) -> u64 {
        self.entries
            .iter()
            .filter(|entry| entry.acknowledged > 0)
            .count() as u64
    }

    /// True when some write of `block` was acknowledged.
    pub fn is_acknowledged(&self, block: u64) -> bool {
        self.index(block, 1)
            .is_some_and(|at| self.entries[at.start].acknowledged > 0)
    }

    fn index(&self, start: u64, blocks: u64) -> Option<std::ops::Range<usize>> {
        let from = start.checked_sub(self.first_block)?;
        let to = from.checked_add(blocks)?;
        (to <= self.blocks()).then_some(from as usize..to as usize)
    }

    /// Begins a write at block `start`: stamps `data` with each block's next generation. False,
    /// with nothing changed, when a block lies outside the journal or a write of it is in flight.
    pub fn begin(&mut self, start: u64, data: &mut [u8]) -> bool {
        let block_bytes = self.block_bytes as usize;
        let blocks = (data.len() / block_bytes) as u64;
        let Some(range) = self.index(start, blocks) else {
            return false;
        };
        let entries = &mut self.entries[range];
        let refused = |entry: &Entry| entry.begun & IN_FLIGHT != 0 || entry.begun == IN_FLIGHT - 1;
        if entries.iter().any(refused) {
            return false;
        }
        let stamped = entries.iter_mut().zip(data.chunks_exact_mut(block_bytes));
        for (block, (entry, bytes)) in (start..).zip(stamped) {
            let generation = entry.begun + 1;
            entry.begun = generation | IN_FLIGHT;
            Stamp {
                seed: self.seed,
                block,
                generation: u64::from(generation),
            }
            .write(bytes);
        }
        true
    }

    /// The device acknowledged the write of `blocks` blocks at `start` that was begun last.
    pub fn acknowledge(&mut self, start: u64, blocks: u64) {
        self.end(start, blocks, |entry| entry.acknowledged = entry.begun);
    }

    /// The write of `blocks` blocks at `start` that was begun last ended without an
    /// acknowledgement: it may have happened or not.
    pub fn abandon(&mut self, start: u64, blocks: u64) {
        self.end(start, blocks, |_| ());
    }

    fn end(&mut self, start: u64, blocks: u64, change: impl Fn(&mut Entry)) {
        let range = self.index(start, blocks).unwrap_or_default();
        for entry in &mut self.entries[range] {
            entry.begun &= !IN_FLIGHT;
            change(entry);
        }
    }

    /// Notes what a read that starts now must at least find; `floors` is reused memory.
    pub fn floors(&self, start: u64, blocks: u64, floors: &mut Vec<u32>) {
        floors.clear();
        let range = self.index(start, blocks).unwrap_or_default();
        floors.extend(self.entries[range].iter().map(|entry| entry.acknowledged));
    }

    /// Judges what a read from `start` found, given the floors noted when it was submitted.
    ///
    /// # Errors
    /// The first block that holds what it must not.
    pub fn check(&self, start: u64, data: &[u8], floors: &[u32]) -> Result<(), Mismatch> {
        let blocks = data.chunks_exact(self.block_bytes as usize);
        for ((block, bytes), floor) in (start..).zip(blocks).zip(floors) {
            self.check_block(block, bytes, *floor)?;
        }
        Ok(())
    }

    fn check_block(&self, block: u64, bytes: &[u8], floor: u32) -> Result<(), Mismatch> {
        let acknowledged = u64::from(floor);
        let stamp = match Stamp::read(bytes) {
            Ok(stamp) => stamp,
            Err(found @ StampError::Checksum { .. }) => {
                return Err(Mismatch::Torn { block, found });
            }
            Err(_) if floor == 0 => return Ok(()),
            Err(found) => {
                return Err(Mismatch::Lost {
                    block,
                    acknowledged,
                    found,
                });
            }
        };
        if stamp.seed != self.seed {
            // An older run's stamp: as good as no stamp at all.
            let found = StampError::Absent;
            let lost = Mismatch::Lost {
                block,
                acknowledged,
                found,
            };
            return if floor == 0 { Ok(()) } else { Err(lost) };
        }
        if stamp.block != block {
            return Err(Mismatch::Misplaced {
                block,
                found: stamp.block,
            });
        }
        let newest = self
            .index(block, 1)
            .map_or(0, |at| self.entries[at.start].newest());
        let (found, newest) = (stamp.generation, u64::from(newest));
        if found < acknowledged {
            Err(Mismatch::Stale {
                block,
                found,
                acknowledged,
            })
        } else if found > newest {
            Err(Mismatch::FromNowhere {
                block,
                found,
                newest,
            })
        } else {
            Ok(())
        }
    }

    /// Writes the journal to `path`; writes in flight are kept as ones that may have happened.
    ///
    /// # Errors
    /// Whatever the file system says.
    pub fn save(&self, path: &Path) -> Result<(), JournalError> {
        let mut file = BufWriter::new(File::create(path)?);
        let mut body = Vec::with_capacity(HEADER_BYTES + self.entries.len() * 8);
        body.extend_from_slice(MAGIC);
        body.extend_from_slice(&self.seed.to_le_bytes());
        body.extend_from_slice(&self.first_block.to_le_bytes());
        body.extend_from_slice(&self.blocks().to_le_bytes());
        body.extend_from_slice(&self.block_bytes.to_le_bytes());
        for entry in &self.entries {
            body.extend_from_slice(&entry.acknowledged.to_le_bytes());
            body.extend_from_slice(&entry.newest().to_le_bytes());
        }
        file.write_all(&body)?;
        file.write_all(&crc_fast::crc32_iscsi(&body).to_le_bytes())?;
        file.into_inner().map_err(io::Error::from)?.sync_all()?;
        Ok(())
    }

    /// Reads what [`Journal::save`] wrote.
    ///
    /// # Errors
    /// [`JournalError`] when the file is unreadable or not a whole journal.
    pub fn load(path: &Path) -> Result<Journal, JournalError> {
        let mut body = Vec::new();
        BufReader::new(File::open(path)?).read_to_end(&mut body)?;
        let checksum = body.split_off(body.len().saturating_sub(4));
        if checksum[..] != crc_fast::crc32_iscsi(&body).to_le_bytes() {
            return Err(JournalError::Format("checksum does not match"));
        }
        let rest = body
            .strip_prefix(MAGIC)
            .ok_or(JournalError::Format("not a journal"))?;
        let short = JournalError::Format("too short");
        let Some((header, entries)) = rest.split_at_checked(HEADER_BYTES - MAGIC.len()) else {
            return Err(short);
        };
        let block_bytes = u32_at(header, 24);
        if u64_at(header, 16) != (entries.len() / 8) as u64 || !(512..=4096).contains(&block_bytes)
        {
            return Err(short);
        }
        let entry = |bytes: &[u8]| Entry {
            acknowledged: u32_at(bytes, 0),
            begun: u32_at(bytes, 4) & !IN_FLIGHT,
        };
        Ok(Journal {
            seed: u64_at(header, 0),
            first_block: u64_at(header, 8),
            block_bytes,
            entries: entries.chunks_exact(8).map(entry).collect(),
        })
    }
}

const MAGIC: &[u8; 8] = b"FYJRNL01";
const HEADER_BYTES: usize = 8 + 8 + 8 + 8 + 4;

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(word)
}

#[cfg(test)]
mod tests;
