//! Parity and checksums on a GPU beside this machine's processors: `cargo bench -p parity --bench
//! gpu`. Without a GPU it says so. `-- processors` measures the processors alone. Prints a line for
//! each figure, and writes `gpu.json` to `BENCH_FOLDER` or `target/bench`. `MIB` bounds a batch.
//!
//! A figure is the median of [`ROUNDS`], between the least and the greatest. Rates are of the
//! input: the data columns, or those that are left. Everything that a GPU computes is compared with
//! the portable kernel before it is measured.
#![allow(unsafe_code, reason = "calls the GPU's driver; see the SAFETY lines")]
#![allow(clippy::unwrap_used, reason = "a bench fails by panicking")]

mod device;
mod kernels;
mod processors;

use std::ops::RangeInclusive;
use std::time::{Duration, Instant};
use std::{env, thread};

use cudarc::driver::DriverError;
use device::{Device, IN_FLIGHT, Way};
use kernels::{BLOCK_BYTES, Batch, Job};
use parity::Kernel;
use processors::Source;
use serde_json::{Value, json};

const DATA_COLUMNS: [usize; 3] = [4, 8, 22];
const COLUMN_BYTES: [usize; 5] = [4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20];
const STRIPES: [usize; 7] = [1, 4, 16, 64, 256, 1024, 4096];
const ROUNDS: usize = 5;
/// The most mebibytes of input of a batch, where `MIB` says nothing.
const MOST_MIB: usize = 384;
/// How long a round of batches in flight takes, about.
const ROUND: Duration = Duration::from_millis(4);
/// Bytes of input under this are compared in full; of larger batches their ends.
const COMPARED_BYTES: usize = 16 << 20;
/// Bytes that a core of a pool has in flight.
const POOL_BYTES: RangeInclusive<usize> = 64 << 10..=4 << 20;
/// The longest column of a pool's stripe.
const POOL_COLUMN_BYTES: usize = 128 << 10;
/// Stripes that a core of a pool has in flight: a batch has no more of them.
const POOL_STRIPES: usize = 4;

fn jobs(data: usize) -> [Job; 4] {
    [
        Job::Pq,
        Job::PqAndChecksums,
        Job::RecoverOne { lost: data / 2 },
        Job::RecoverTwo {
            lost: [0, data / 2],
        },
    ]
}

/// The median of the rounds, the least and the greatest.
#[derive(Clone, Copy)]
struct Figure([f64; 3]);

impl Figure {
    fn of(mut rounds: Vec<f64>) -> Figure {
        rounds.sort_by(f64::total_cmp);
        Figure([
            rounds[rounds.len() / 2],
            rounds[0],
            rounds[rounds.len() - 1],
        ])
    }

    fn median(self) -> f64 {
        self.0[0]
    }

    fn scaled(self, by: f64) -> Figure {
        Figure(self.0.map(|value| value * by))
    }

    fn json(self) -> Value {
        let [median, least, greatest] = self.0;
        json!({ "median": median, "least": least, "greatest": greatest })
    }
}

/// One core's rate of what a pool has in flight, by job, data columns and bytes of a column: the
/// GPU's are counted in these.
type OneCore = ((Job, usize, usize), f64);

fn main() {
    if !bench::is_asked_for() {
        return;
    }
    let alone = env::args().any(|argument| argument == "processors");
    let context = match device::open() {
        Ok(context) => Some(context),
        Err(_) if alone => None,
        Err(reason) => {
            println!("no GPU: {reason}");
            return;
        }
    };
    let (rows, one_core) = of_processors();
    let mut all = json!({
        "kernel": Kernel::best().name(),
        "processors": thread::available_parallelism().unwrap().get(),
        "of_processors": rows,
    });
    bench::keep("gpu", &all);
    if let Some(context) = context.filter(|_| !alone) {
        let mib = env::var("MIB").map_or(MOST_MIB, |mib| mib.parse().unwrap());
        let device = Device::new(context, &random(mib << 20)).unwrap();
        all["gpu"] = device.name().unwrap().into();
        all["batches_in_flight"] = IN_FLIGHT.into();
        all["of_gpu"] = of_gpu(&device, mib << 20, &one_core).unwrap();
    }
    let settings = [
        "data_columns",
        "column_bytes",
        "threads",
        "stripes",
        "processors",
    ];
    bench::save("gpu", &settings, &all);
}

fn of_processors() -> (Vec<Value>, Vec<OneCore>) {
    let most = thread::available_parallelism().unwrap().get();
    let mut counts: Vec<usize> = (0..)
        .map(|nth| 1 << nth)
        .take_while(|n| *n < most)
        .collect();
    counts.push(most);
    let (mut rows, mut one_core) = (Vec::new(), Vec::new());
    println!("job, stripe, KiB of a column, from, processors: GB/s, least to greatest");
    for (job, batch) in shapes() {
        let sources = |threads: &usize| Source::ALL.map(|source| (*threads, source));
        for (threads, source) in counts.iter().flat_map(sources) {
            let Some(rounds) = processors::measure(job, batch, threads, source, ROUNDS) else {
                continue;
            };
            let rate = Figure::of(rounds).scaled(1e-9);
            let from = source.name();
            let [median, least, greatest] = rate.0;
            println!(
                "{}, {from}, {threads}: {median:.1}, {least:.1} to {greatest:.1}",
                name(job, batch)
            );
            rows.push(json!({
                "job": job.name(), "data_columns": batch.data, "column_bytes": batch.column_bytes,
                "from": from, "threads": threads, "gb_s": rate.json(),
            }));
            if threads == 1 && source == Source::InFlight {
                one_core.push(((job, batch.data, batch.column_bytes), median));
            }
        }
    }
    (rows, one_core)
}

/// Every job of every stripe, with no number of stripes yet.
fn shapes() -> impl Iterator<Item = (Job, Batch)> {
    DATA_COLUMNS.into_iter().flat_map(|data| {
        jobs(data).into_iter().flat_map(move |job| {
            let batch = move |column_bytes| Batch {
                data,
                column_bytes,
                stripes: 1,
            };
            COLUMN_BYTES
                .into_iter()
                .map(move |bytes| (job, batch(bytes)))
        })
    })
}

fn of_gpu(device: &Device, most_bytes: usize, one_core: &[OneCore]) -> Result<Value, DriverError> {
    let mut rows = Vec::new();
    let mut most = (f64::NEG_INFINITY, String::new());
    println!(
        "job, stripe, KiB of a column, stripes, way: us alone; GB/s, least to greatest; \
         us of processor; cores saved"
    );
    for (job, shape) in shapes() {
        let key = (job, shape.data, shape.column_bytes);
        let found = one_core.iter().find(|(other, _)| *other == key);
        let core = found.expect("the processors were measured").1;
        for stripes in STRIPES {
            let batch = Batch { stripes, ..shape };
            if batch.bytes().max(batch.result_bytes(job)) > most_bytes {
                continue;
            }
            compare(device, job, batch)?;
            for way in Way::ALL {
                let row = measure(device, way, job, batch)?;
                let saved = row.rate.median() / core - row.busy;
                let what = format!("{}, {stripes}, {}", name(job, batch), way.name());
                let [median, least, greatest] = row.rate.0;
                println!(
                    "{what}: {:.1}; {median:.2}, {least:.2} to {greatest:.2}; {:.1}; {saved:.1}",
                    row.alone_us.median(),
                    row.submit_us.median(),
                );
                if way == Way::Host && is_of_a_pool(batch) && saved > most.0 {
                    most = (saved, what);
                }
                rows.push(json!({
                    "job": job.name(), "data_columns": batch.data,
                    "column_bytes": batch.column_bytes, "stripes": stripes, "way": way.name(),
                    "alone_us": row.alone_us.json(), "gb_s": row.rate.json(),
                    "submit_us": row.submit_us.json(), "one_core_gb_s": core,
                    "cores_saved": saved,
                }));
            }
        }
    }
    println!(
        "at most {:.1} cores saved with batches of a pool, in host memory: {}",
        most.0, most.1
    );
    Ok(rows.into())
}

/// Whether a core of a pool could have such a batch on its way.
fn is_of_a_pool(batch: Batch) -> bool {
    POOL_BYTES.contains(&batch.bytes())
        && batch.column_bytes <= POOL_COLUMN_BYTES
        && batch.stripes <= POOL_STRIPES
}

/// What was measured of a batch.
struct Row {
    /// From its submission to its end, nothing else being on its way.
    alone_us: Figure,
    /// Of input, [`IN_FLIGHT`] batches being on their way.
    rate: Figure,
    /// What one processor spends on submitting it.
    submit_us: Figure,
    /// Processors that are busy with submitting.
    busy: f64,
}

fn measure(device: &Device, way: Way, job: Job, batch: Batch) -> Result<Row, DriverError> {
    let mut alone = Vec::new();
    for _ in 0..=ROUNDS {
        let began = Instant::now();
        device.submit(0, way, job, batch)?;
        device.wait(0)?;
        alone.push(began.elapsed().as_secs_f64());
    }
    // The first one brings code in.
    alone.remove(0);
    let alone = Figure::of(alone);
    let batches = (ROUND.as_secs_f64() / alone.median()).ceil() as usize * IN_FLIGHT;
    let (mut rates, mut submits) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let mut submitting = Duration::ZERO;
        let began = Instant::now();
        for nth in 0..batches {
            device.wait(nth % IN_FLIGHT)?;
            let from = Instant::now();
            device.submit(nth % IN_FLIGHT, way, job, batch)?;
            submitting += from.elapsed();
        }
        for lane in 0..IN_FLIGHT {
            device.wait(lane)?;
        }
        let seconds = began.elapsed().as_secs_f64();
        rates.push((batch.bytes() * batches) as f64 / seconds);
        submits.push(submitting.as_secs_f64() / batches as f64);
    }
    let (rate, submit) = (Figure::of(rates), Figure::of(submits));
    Ok(Row {
        busy: submit.median() * rate.median() / batch.bytes() as f64,
        alone_us: alone.scaled(1e6),
        rate: rate.scaled(1e-9),
        submit_us: submit.scaled(1e6),
    })
}

/// Compares what the GPU makes of a batch with the portable kernel.
fn compare(device: &Device, job: Job, batch: Batch) -> Result<(), DriverError> {
    device.submit(0, Way::Host, job, batch)?;
    device.wait(0)?;
    let (columns, sums) = device.results(job, batch)?;
    let back = device.copied_back(job, batch);
    assert!(
        back == columns,
        "{job:?} of {batch:?}: what was copied back differs"
    );
    let input = random(batch.bytes());
    let stripe_bytes = batch.data * batch.column_bytes;
    let part_bytes = job.results() * batch.column_bytes;
    let compared = (COMPARED_BYTES / stripe_bytes / 2).max(1);
    let mut part = vec![0; part_bytes];
    for stripe in 0..batch.stripes {
        if stripe >= compared && stripe + compared < batch.stripes {
            continue;
        }
        let from = &input[stripe * stripe_bytes..][..stripe_bytes];
        let from: Vec<&[u8]> = from.chunks_exact(batch.column_bytes).collect();
        let mut into: Vec<&mut [u8]> = part.chunks_exact_mut(batch.column_bytes).collect();
        kernels::work(Kernel::portable(), job, &from, &mut into);
        let found = &columns[stripe * part_bytes..][..part_bytes];
        assert!(
            found == part,
            "{job:?} of {batch:?}: stripe {stripe} differs"
        );
    }
    if job == Job::PqAndChecksums {
        let blocks = input
            .chunks_exact(BLOCK_BYTES)
            .chain(columns.chunks_exact(BLOCK_BYTES));
        for (nth, (block, sum)) in blocks.zip(&sums).enumerate() {
            assert_eq!(
                kernels::checksum(block),
                *sum,
                "{batch:?}: block {nth} differs"
            );
        }
    }
    Ok(())
}

fn name(job: Job, batch: Batch) -> String {
    format!(
        "{}, {}+2, {}",
        job.name(),
        batch.data,
        batch.column_bytes >> 10
    )
}

/// The first so many of always the same random bytes.
fn random(bytes: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut memory = vec![0; bytes.next_multiple_of(8)];
    for chunk in memory.chunks_exact_mut(8) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        chunk.copy_from_slice(&state.to_le_bytes());
    }
    memory.truncate(bytes);
    memory
}
