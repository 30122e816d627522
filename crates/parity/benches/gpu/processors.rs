//! The same jobs on this machine's processors, some or all of them at once.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use parity::{Kernel, Locality};

use crate::POOL_BYTES;
use crate::kernels::{self, BLOCK_BYTES, Batch, Job};

/// Stripes that are larger do not count as being in a cache.
const CACHE_BYTES: usize = 1 << 20;
/// How long a round is.
const ROUND: Duration = Duration::from_millis(30);
/// What each thread works on when its columns come from memory.
const MEMORY_BYTES: usize = 96 << 20;

/// Where a thread's columns are, by how many it takes in turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// More of them than a thread's share of any cache: as in a scrub.
    Memory,
    /// As many as a core of a pool has in flight at most: as in writes.
    InFlight,
    /// One stripe, over and over.
    Cache,
}

impl Source {
    pub const ALL: [Source; 3] = [Source::Memory, Source::InFlight, Source::Cache];

    /// How the source is called in results.
    pub fn name(self) -> &'static str {
        match self {
            Source::Memory => "memory",
            Source::InFlight => "in flight",
            Source::Cache => "cache",
        }
    }

    /// The stripes that a thread takes in turns; `None` where one does not fit in a cache.
    fn stripes(self, job: Job, batch: Batch) -> Option<usize> {
        let input_bytes = batch.data * batch.column_bytes;
        let stripe_bytes = input_bytes + job.results() * batch.column_bytes;
        match self {
            Source::Memory => Some((MEMORY_BYTES / stripe_bytes).max(1)),
            Source::InFlight => Some((POOL_BYTES.end() / input_bytes).max(1)),
            Source::Cache => (stripe_bytes <= CACHE_BYTES).then_some(1),
        }
    }

    fn locality(self) -> Locality {
        match self {
            Source::Memory => Locality::NonTemporal,
            // A pool leaves the choice to the kernel.
            Source::InFlight => Locality::Auto,
            Source::Cache => Locality::Temporal,
        }
    }
}

/// Bytes of input a second in each round, of `threads` threads together; `None` where a stripe does
/// not fit in a cache.
pub fn measure(
    job: Job,
    batch: Batch,
    threads: usize,
    source: Source,
    rounds: usize,
) -> Option<Vec<f64>> {
    let stripes = source.stripes(job, batch)?;
    let batch = Batch { stripes, ..batch };
    let start = Barrier::new(threads + 1);
    let end = Barrier::new(threads + 1);
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|_| scope.spawn(|| worker(job, batch, source, (&start, &end, &stop), rounds)))
            .collect();
        let mut seconds = Vec::new();
        for _ in 0..=rounds {
            start.wait();
            let began = Instant::now();
            thread::sleep(ROUND);
            stop.store(true, Ordering::Relaxed);
            end.wait();
            seconds.push(began.elapsed().as_secs_f64());
            stop.store(false, Ordering::Relaxed);
        }
        let done = workers
            .into_iter()
            .map(|worker| worker.join().expect("workers do not panic"));
        let done: Vec<Vec<usize>> = done.collect();
        // The first round brings memory and code in.
        let rate = |round: usize| {
            let bytes: usize = done.iter().map(|bytes| bytes[round]).sum();
            bytes as f64 / seconds[round]
        };
        Some((1..=rounds).map(rate).collect())
    })
}

/// Bytes of input that one thread got through in each round.
fn worker(
    job: Job,
    batch: Batch,
    source: Source,
    (start, end, stop): (&Barrier, &Barrier, &AtomicBool),
    rounds: usize,
) -> Vec<usize> {
    let kernel = Kernel::best().with_locality(source.locality());
    let input = crate::random(batch.bytes());
    let mut results = vec![0; batch.result_bytes(job)];
    let mut done = vec![0; rounds + 1];
    for done in &mut done {
        start.wait();
        'round: loop {
            let stripes = input.chunks_exact(batch.data * batch.column_bytes);
            let parts = results.chunks_exact_mut(job.results() * batch.column_bytes);
            for (stripe, part) in stripes.zip(parts) {
                if stop.load(Ordering::Relaxed) {
                    break 'round;
                }
                work(kernel, job, batch, stripe, part);
                *done += stripe.len();
            }
        }
        end.wait();
    }
    done
}

fn work(kernel: Kernel, job: Job, batch: Batch, stripe: &[u8], part: &mut [u8]) {
    let columns: Vec<&[u8]> = stripe.chunks_exact(batch.column_bytes).collect();
    let mut into: Vec<&mut [u8]> = part.chunks_exact_mut(batch.column_bytes).collect();
    kernels::work(kernel, job, &columns, &mut into);
    if job == Job::PqAndChecksums {
        let blocks = stripe
            .chunks_exact(BLOCK_BYTES)
            .chain(part.chunks_exact(BLOCK_BYTES));
        for block in blocks {
            std::hint::black_box(kernels::checksum(block));
        }
    }
}
