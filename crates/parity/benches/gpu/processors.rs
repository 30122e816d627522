//! The same jobs on this machine's processors, some or all of them at once.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use parity::{Kernel, Locality};

use crate::kernels::{self, BLOCK_BYTES, Batch, Job};

/// What each thread works on when its columns come from memory: more than its share of any cache.
const MEMORY_BYTES: usize = 96 << 20;
/// Stripes that are larger do not count as being in a cache.
pub const CACHE_BYTES: usize = 1 << 20;
/// How long a round is.
const ROUND: Duration = Duration::from_millis(30);

/// Bytes of input a second in each round, of `threads` threads together. From a cache, each has one
/// stripe, over and over.
pub fn measure(job: Job, batch: Batch, threads: usize, cached: bool, rounds: usize) -> Vec<f64> {
    let stripe_bytes = (batch.data + job.results()) * batch.column_bytes;
    let stripes = if cached {
        1
    } else {
        (MEMORY_BYTES / stripe_bytes).max(1)
    };
    let batch = Batch { stripes, ..batch };
    let start = Barrier::new(threads + 1);
    let end = Barrier::new(threads + 1);
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|_| scope.spawn(|| worker(job, batch, cached, (&start, &end, &stop), rounds)))
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
        (1..=rounds).map(rate).collect()
    })
}

/// Bytes of input that one thread got through in each round.
fn worker(
    job: Job,
    batch: Batch,
    cached: bool,
    (start, end, stop): (&Barrier, &Barrier, &AtomicBool),
    rounds: usize,
) -> Vec<usize> {
    let locality = if cached {
        Locality::Temporal
    } else {
        Locality::NonTemporal
    };
    let kernel = Kernel::best().with_locality(locality);
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
