//! [`Requests`]: the stream of requests that a load makes, seeded.

use crate::load::{Load, Pattern};
use crate::random::Random;

/// One request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) reads: bool,
    /// First page, within the namespace.
    pub(crate) page: u32,
}

/// Makes one request after another.
#[derive(Clone, Debug)]
pub(crate) struct Requests {
    load: Load,
    /// Requests that fit the namespace, without overlap.
    blocks: u32,
    random: Random,
    /// The next block of each sequential job, and the blocks of one job's part.
    next: Vec<u32>,
    blocks_per_job: u32,
    turn: usize,
}

impl Requests {
    /// Requests over `namespace_pages`, which hold at least one block for each job.
    pub(crate) fn new(load: Load, namespace_pages: u32, seed: u64) -> Requests {
        let blocks = namespace_pages / load.pages();
        let blocks_per_job = (blocks / load.jobs).max(1);
        let next = (0..load.jobs).map(|job| job * blocks_per_job).collect();
        Requests {
            load,
            blocks,
            random: Random::new(seed),
            next,
            blocks_per_job,
            turn: 0,
        }
    }

    #[inline]
    pub(crate) fn next(&mut self) -> Request {
        let reads = match self.load.read_percent {
            0 => false,
            100 => true,
            percent => self.random.below(100) < u32::from(percent),
        };
        let block = match self.load.pattern {
            Pattern::Random => self.somewhere(),
            Pattern::Sequential => {
                let job = self.turn;
                self.turn = (job + 1) % self.next.len();
                let block = self.next[job];
                let first = job as u32 * self.blocks_per_job;
                let wraps = block + 1 == first + self.blocks_per_job;
                self.next[job] = if wraps { first } else { block + 1 };
                block
            }
        };
        Request {
            reads,
            page: block * self.load.pages(),
        }
    }

    #[inline]
    fn somewhere(&mut self) -> u32 {
        let Some(hot) = self.load.hot.filter(|_| self.blocks > 1) else {
            return self.random.below(self.blocks);
        };
        let hot_blocks = hot.pages_of(self.blocks);
        if self.random.below(100) < u32::from(hot.requests_percent) {
            self.random.below(hot_blocks)
        } else {
            hot_blocks + self.random.below(self.blocks - hot_blocks)
        }
    }
}
