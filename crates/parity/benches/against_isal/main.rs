//! This crate's kernels beside ISA-L's, on the same buffers in the same run: `cargo bench -p
//! parity`. Prints tables and writes `target/bench/parity.json`.
//!
//! Contenders take turns in every round; a figure is the median over rounds, a ratio the median
//! of the rounds' ratios, so that other load on the machine hits both sides alike. Time is the
//! thread's CPU time: a turn during which the thread was preempted counts as if it had not been.
#![allow(unsafe_code, reason = "calls ISA-L; see the SAFETY lines")]

mod isal;
mod limit;
mod stripes;

use std::hint;
use std::time::Duration;

use bench::median;
use isal::{EncodeTables, Isal};
use limit::Limit;
use parity::{Column, Kernel, Locality};
use serde_json::{Value, json};
use stripes::{Arena, Stripe, lost};

const DATA_COLUMNS: [usize; 6] = [2, 4, 8, 16, 22, 30];
const COLUMN_BYTES: [usize; 5] = [4 << 10, 16 << 10, 64 << 10, 128 << 10, 1 << 20];

/// Larger stripes than this do not count as resident in a cache.
const CACHE_BYTES: usize = 8 << 20;
/// Working set of the runs from memory: several times a last-level cache.
const MEMORY_BYTES: usize = 160 << 20;

const ROUNDS_CACHE: usize = 25;
const ROUNDS_MEMORY: usize = 15;
/// Passes over a stripe in a cache in the first round.
const FIRST_PASSES: u32 = 32;
/// How long one contender's turn lasts from a cache, about.
const TURN: Duration = Duration::from_millis(1);

/// What is measured.
#[derive(Clone, Copy, PartialEq)]
enum Job {
    Pq,
    Xor,
    Recover,
    Verify,
}

/// Who does it.
#[derive(Clone, Copy)]
enum Contender<'a> {
    Parity(Kernel),
    /// The function made for the job: `pq_gen`, `xor_gen`, `pq_check`.
    IsalRaid(&'a Isal),
    /// `ec_encode_data` with tables for the job.
    IsalErasure(&'a Isal, &'a EncodeTables),
    /// The same loads and stores, and nothing computed.
    Limit(Limit),
}

/// Does `job` once.
fn work(job: Job, contender: Contender<'_>, stripe: &mut Stripe<'_>) {
    let bytes = stripe.bytes();
    let data = stripe.data.len();
    match (contender, job) {
        (Contender::Parity(kernel), Job::Pq) => {
            kernel.generate_pq(&stripe.data, stripe.p, stripe.q);
        }
        (Contender::Parity(kernel), Job::Xor) => kernel.generate_p(&stripe.data, stripe.p),
        (Contender::Parity(kernel), Job::Recover) => {
            let [x, y] = lost(data).map(Column::Data);
            let (survivors, [first, second]) = stripe.after_loss();
            let recovered = kernel.recover(survivors, &mut [(x, first), (y, second)]);
            assert_eq!(recovered, Ok(()));
        }
        (Contender::Parity(kernel), Job::Verify) => {
            assert!(kernel.verify_pq(&stripe.data, stripe.p, stripe.q).none());
        }
        // SAFETY: all columns of the stripe are `bytes` long, and it is borrowed mutably.
        (Contender::IsalRaid(isal), _) => unsafe {
            match job {
                Job::Pq => isal.pq_gen(&stripe.columns, bytes),
                Job::Xor => isal.xor_gen(&stripe.columns[..=data], bytes),
                Job::Verify => assert!(isal.pq_check(&stripe.columns, bytes)),
                Job::Recover => unreachable!("ISA-L recovers by ec_encode_data"),
            }
        },
        // SAFETY: as above.
        (Contender::IsalErasure(isal, tables), _) => unsafe {
            let (data, parity) = stripe.columns.split_at(data);
            match job {
                Job::Pq => isal.encode(tables, data, parity, bytes),
                _ => isal.encode(tables, &stripe.left, &stripe.into, bytes),
            }
        },
        // SAFETY: as above.
        (Contender::Limit(limit), _) => unsafe {
            let (columns, parity) = stripe.columns.split_at(data);
            match job {
                Job::Pq => limit.carry(columns, parity, bytes),
                Job::Xor => limit.carry(columns, &parity[..1], bytes),
                Job::Recover => limit.carry(&stripe.left, &stripe.into, bytes),
                Job::Verify => limit.carry(&stripe.columns, &[], bytes),
            }
        },
    }
}

/// One line of the tables: gigabytes of data columns a second, for each contender.
struct Row {
    job: &'static str,
    setting: &'static str,
    data: usize,
    column_bytes: usize,
    /// This crate; then ISA-L's own function, its erasure code and the limit, if measured.
    gigabytes_per_second: [Option<f64>; 4],
    /// This crate over each of the others.
    ratios: [Option<f64>; 3],
}

/// CPU time of this thread.
fn cpu_time() -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the call only writes the time; Linux has this clock.
    let failed = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    assert_eq!(failed, 0, "the thread's clock can be read");
    Duration::new(
        time.tv_sec.unsigned_abs(),
        time.tv_nsec.unsigned_abs() as u32,
    )
}

/// Every contender's turn in each round, in seconds a pass over all `stripes`.
fn rounds(
    job: Job,
    contenders: &[Contender<'_>],
    stripes: &mut [Stripe<'_>],
    cached: bool,
) -> Vec<Vec<f64>> {
    let mut seconds = vec![Vec::new(); contenders.len()];
    // Reading the clock takes as long as a small stripe: once a turn, not once a pass.
    let mut passes = vec![if cached { FIRST_PASSES } else { 1 }; contenders.len()];
    let rounds = if cached { ROUNDS_CACHE } else { ROUNDS_MEMORY };
    for round in 0..=rounds {
        for (nth, contender) in contenders.iter().enumerate() {
            let mut pass = || {
                for stripe in stripes.iter_mut() {
                    work(job, *contender, hint::black_box(stripe));
                }
            };
            if cached {
                pass();
            }
            let start = cpu_time();
            for _ in 0..passes[nth] {
                pass();
            }
            let each = (cpu_time() - start).as_secs_f64() / f64::from(passes[nth]);
            if round > 0 {
                seconds[nth].push(each);
            } else if cached {
                // The first round brings code and pages in, and says how long a turn is.
                passes[nth] = (TURN.as_secs_f64() / each).ceil().clamp(1.0, 1e6) as u32;
            }
        }
    }
    seconds
}

/// Measures one line.
fn measure(
    (name, job): (&'static str, Job),
    isal: Option<&Isal>,
    arena: &mut Arena,
    (data, column_bytes): (usize, usize),
    cached: bool,
) -> Row {
    let set_bytes = if cached { 1 } else { MEMORY_BYTES };
    let mut stripes = arena.stripes(data, column_bytes, set_bytes);
    let tables = isal.map(|isal| match job {
        Job::Pq => isal.raid6(data),
        _ => isal.recovery(data, lost(data)),
    });
    let locality = if cached {
        Locality::Auto
    } else {
        Locality::NonTemporal
    };
    let mut contenders = vec![Contender::Parity(Kernel::best().with_locality(locality))];
    if let Some((isal, tables)) = isal.zip(tables.as_ref()) {
        match job {
            Job::Pq => {
                contenders.push(Contender::IsalRaid(isal));
                contenders.push(Contender::IsalErasure(isal, tables));
            }
            Job::Xor | Job::Verify => contenders.push(Contender::IsalRaid(isal)),
            Job::Recover => contenders.push(Contender::IsalErasure(isal, tables)),
        }
    }
    // From memory, the order of the columns decides what there is to be had.
    if cached {
        contenders.extend(Limit::of(data).map(Contender::Limit));
    }
    for stripe in &mut stripes {
        agree(job, &contenders, stripe);
    }
    let seconds = rounds(job, &contenders, &mut stripes, cached);
    let bytes = (stripes.len() * data * column_bytes) as f64;
    let mut row = Row {
        job: name,
        setting: if cached { "cache" } else { "memory" },
        data,
        column_bytes,
        gigabytes_per_second: [None; 4],
        ratios: [None; 3],
    };
    for (nth, contender) in contenders.iter().enumerate() {
        let column = match contender {
            Contender::Parity(_) => 0,
            Contender::IsalRaid(_) => 1,
            Contender::IsalErasure(..) => 2,
            Contender::Limit(_) => 3,
        };
        row.gigabytes_per_second[column] = Some(bytes / median(seconds[nth].clone()) / 1e9);
        if column > 0 {
            let ratios = seconds[nth]
                .iter()
                .zip(&seconds[0])
                .map(|(other, own)| other / own);
            row.ratios[column - 1] = Some(median(ratios));
        }
    }
    row
}

/// Checks that all contenders compute the same, and leaves valid parity behind.
fn agree(job: Job, contenders: &[Contender<'_>], stripe: &mut Stripe<'_>) {
    Kernel::portable().generate_pq(&stripe.data, stripe.p, stripe.q);
    let parity = (stripe.p.to_vec(), stripe.q.to_vec());
    for contender in contenders {
        if matches!(contender, Contender::Limit(_)) {
            continue;
        }
        if job == Job::Pq {
            stripe.p.fill(1);
            stripe.q.fill(2);
        }
        work(job, *contender, stripe);
        assert!(
            stripe.p == parity.0 && stripe.q == parity.1,
            "contenders differ"
        );
        if job == Job::Recover {
            let [x, y] = lost(stripe.data.len());
            assert_eq!(stripe.recovered[0], stripe.data[x], "contenders differ");
            assert_eq!(stripe.recovered[1], stripe.data[y], "contenders differ");
            stripe
                .recovered
                .iter_mut()
                .for_each(|column| column.fill(3));
        }
    }
}

fn print(row: &Row) {
    let figure = |value: Option<f64>| value.map_or("-".into(), |value| format!("{value:.1}"));
    let ratio = |value: Option<f64>| value.map_or("-".into(), |value| format!("{value:.2}"));
    println!(
        "{:<8} {:<7} {:>4}+2 {:>6} KiB {:>9} {:>9} {:>9} {:>9} {:>8} {:>8} {:>8}",
        row.job,
        row.setting,
        row.data,
        row.column_bytes >> 10,
        figure(row.gigabytes_per_second[0]),
        figure(row.gigabytes_per_second[1]),
        figure(row.gigabytes_per_second[2]),
        figure(row.gigabytes_per_second[3]),
        ratio(row.ratios[0]),
        ratio(row.ratios[1]),
        ratio(row.ratios[2]),
    );
}

/// The row as it is saved.
fn json(row: &Row) -> Value {
    json!({
        "job": row.job, "setting": row.setting, "data_columns": row.data,
        "column_bytes": row.column_bytes,
        "parity_gb_s": row.gigabytes_per_second[0],
        "isal_raid_gb_s": row.gigabytes_per_second[1],
        "isal_erasure_gb_s": row.gigabytes_per_second[2],
        "limit_gb_s": row.gigabytes_per_second[3],
        "ratio_raid": row.ratios[0], "ratio_erasure": row.ratios[1], "ratio_limit": row.ratios[2],
    })
}

fn main() {
    if !bench::is_asked_for() {
        return;
    }
    let only: Vec<String> = std::env::args()
        .skip(1)
        .filter(|argument| !argument.starts_with('-'))
        .collect();
    let chosen = |word: &str, among: &[&str]| {
        let any = only.iter().any(|only| among.contains(&only.as_str()));
        !any || only.iter().any(|only| only == word)
    };
    let isal = Isal::load();
    if isal.is_none() {
        println!("libisal.so.2 not found (Debian: libisal2); measuring this crate alone");
    }
    println!(
        "{}, kernel {}; GB of data columns a second",
        bench::machine(),
        Kernel::best().name()
    );
    println!(
        "{:<8} {:<7} {:>6} {:>10} {:>9} {:>9} {:>9} {:>9} {:>8} {:>8} {:>8}",
        "job",
        "columns",
        "stripe",
        "column",
        "parity",
        "isal",
        "isal ec",
        "limit",
        "/isal",
        "/isal ec",
        "/limit"
    );
    let jobs = [
        ("pq", Job::Pq),
        ("xor", Job::Xor),
        ("recover", Job::Recover),
        ("verify", Job::Verify),
    ];
    let mut arena = Arena::new(MEMORY_BYTES);
    let mut rows = Vec::new();
    for (name, job) in jobs {
        for (setting, cached) in [("cache", true), ("memory", false)] {
            if !chosen(name, &jobs.map(|(name, _)| name)) || !chosen(setting, &["cache", "memory"])
            {
                continue;
            }
            for data in DATA_COLUMNS {
                for column_bytes in COLUMN_BYTES {
                    if cached && (data + 2) * column_bytes > CACHE_BYTES {
                        continue;
                    }
                    let shape = (data, column_bytes);
                    let row = measure((name, job), isal.as_ref(), &mut arena, shape, cached);
                    print(&row);
                    rows.push(row);
                }
            }
        }
    }
    let rows: Vec<Value> = rows.iter().map(json).collect();
    let result = json!({
        "machine": bench::machine(), "kernel": Kernel::best().name(), "rows": rows,
    });
    bench::save("parity", &["data_columns", "column_bytes"], &result);
}
