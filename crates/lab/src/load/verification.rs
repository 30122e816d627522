//! Judging what reads found, and reading back everything that was acknowledged.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicU64, Ordering};

use block::{BlockDevice, Buffer, Lba};

use super::journal::{Journal, Mismatch};
use super::report::{EXAMPLES, Verification};
use super::stamp::{Stamp, StampError};
use crate::join::join_all;

/// Gathers what verification finds.
#[derive(Debug, Default)]
pub(crate) struct Findings(Verification);

impl Findings {
    /// What was found so far.
    pub(crate) fn verification(&self) -> Verification {
        self.0.clone()
    }

    fn add(&mut self, found: Result<(), Mismatch>) {
        if let Err(mismatch) = found {
            self.note(mismatch.to_string());
        }
    }

    fn note(&mut self, text: String) {
        self.0.mismatches += 1;
        if self.0.examples.len() < EXAMPLES {
            self.0.examples.push(text);
        }
    }

    /// Judges a read by the journal.
    pub(crate) fn judge(&mut self, journal: &Journal, start: u64, data: &[u8], floors: &[u32]) {
        self.0.blocks_checked += floors.len() as u64;
        self.0.blocks_acknowledged += floors.iter().filter(|floor| **floor > 0).count() as u64;
        self.add(journal.check(start, data, floors));
    }

    /// Judges a read without a journal: stamped blocks must be whole and in their place.
    pub(crate) fn judge_alone(&mut self, start: u64, data: &[u8], block_bytes: u64) {
        for (block, bytes) in (start..).zip(data.chunks_exact(block_bytes as usize)) {
            self.0.blocks_checked += 1;
            match Stamp::read(bytes) {
                Err(StampError::Absent) => {}
                Err(found) => self.add(Err(Mismatch::Torn { block, found })),
                Ok(stamp) if stamp.block != block => {
                    self.add(Err(Mismatch::Misplaced {
                        block,
                        found: stamp.block,
                    }));
                }
                Ok(_) => {}
            }
        }
    }
}

/// How a journal is read back.
#[derive(Clone, Copy)]
pub struct Pass<'a> {
    /// Reads in flight.
    pub depth: u32,
    /// Blocks per read.
    pub transfer_blocks: u64,
    /// Counts the blocks judged, for watching.
    pub progress: &'a AtomicU64,
}

/// Reads every block that `journal` knows to have been acknowledged and judges it. A block that
/// cannot be read counts as a mismatch.
pub async fn verify<D: BlockDevice>(device: &D, journal: &Journal, pass: Pass<'_>) -> Verification {
    let findings = RefCell::new(Findings::default());
    let next = Cell::new(journal.first_block());
    let step = pass.transfer_blocks.max(1);
    let readers = (0..pass.depth.max(1)).map(|_| async {
        let mut floors = Vec::new();
        while let Some((start, blocks)) = next_run(journal, &next, step) {
            let bytes = blocks as usize * journal.block_bytes() as usize;
            journal.floors(start, blocks, &mut floors);
            let (buffer, result) = device.read(Lba(start), Buffer::new(bytes)).await;
            let mut findings = findings.borrow_mut();
            match result {
                Ok(()) => findings.judge(journal, start, &buffer, &floors),
                Err(error) => {
                    findings.note(format!(
                        "read of {blocks} blocks at {}: {error}",
                        Lba(start)
                    ));
                }
            }
            pass.progress.fetch_add(blocks, Ordering::Relaxed);
        }
    });
    join_all(readers).await;
    findings.into_inner().0
}

/// The next stretch that holds an acknowledged block, and moves on behind it.
fn next_run(journal: &Journal, next: &Cell<u64>, step: u64) -> Option<(u64, u64)> {
    let end = journal.first_block() + journal.blocks();
    while next.get() < end {
        let start = next.get();
        let blocks = step.min(end - start);
        next.set(start + blocks);
        if (start..start + blocks).any(|block| journal.is_acknowledged(block)) {
            return Some((start, blocks));
        }
    }
    None
}
