//! Medians, the printed table and `target/bench/serving.json`.

use serde_json::{Value, json};

use crate::idle::Idle;
use crate::perf::Sample;
use crate::rows::ROWS;

/// The middle of what `of` finds in samples.
pub fn median<T>(samples: &[T], of: impl Fn(&T) -> f64) -> f64 {
    bench::median(samples.iter().map(of))
}

fn summary(samples: &[Sample]) -> Sample {
    Sample {
        iops: median(samples, |sample| sample.iops),
        mean_us: median(samples, |sample| sample.mean_us),
        p99_us: median(samples, |sample| sample.p99_us),
    }
}

/// Median of what each round's two neighbours had to each other.
fn ratio(ours: &[Sample], theirs: &[Sample]) -> f64 {
    let pairs = ours.iter().zip(theirs);
    bench::median(pairs.map(|(our, their)| our.iops / their.iops))
}

/// Prints a Markdown table, so that it can be pasted into `docs/performance.md` as it is.
pub fn print_and_save(
    ours: &[Vec<Sample>],
    theirs: Option<&[Vec<Sample>]>,
    idle: &Idle,
    tls: &Value,
) {
    println!("Machine: {}\n", bench::machine());
    let beside = if theirs.is_some() {
        " SPDK IOPS | mean us | p99 us | ratio |"
    } else {
        ""
    };
    println!("| workload | IOPS | MB/s | mean us | p99 us |{beside}");
    println!(
        "|---|---|---|---|---|{}",
        if theirs.is_some() {
            "---|---|---|---|"
        } else {
            ""
        }
    );
    let mut saved = Vec::new();
    for (number, row) in ROWS.iter().enumerate() {
        let our = summary(&ours[number]);
        let megabytes = our.iops * f64::from(row.block_bytes) / 1e6;
        print!("| {row} | {:.0} | {megabytes:.0} |", our.iops);
        print!(" {:.1} | {:.1} |", our.mean_us, our.p99_us);
        let their = theirs.map(|samples| summary(&samples[number]));
        if let Some(their) = their {
            print!(
                " {:.0} | {:.1} | {:.1} |",
                their.iops, their.mean_us, their.p99_us
            );
            print!(
                " {:.2} |",
                ratio(&ours[number], theirs.map_or(&[], |all| &all[number]))
            );
        }
        println!();
        saved.push(json!({
            "workload": row.to_string(),
            "flashyard": of(&our),
            "spdk": their.as_ref().map(of),
        }));
    }
    println!("\n{idle}");
    let idle = idle.percent;
    let result = json!({
        "machine": bench::machine(),
        "rows": saved,
        "idle_percent_of_a_core": idle,
        "tls": tls,
    });
    bench::save("serving", &[], &result);
}

fn of(sample: &Sample) -> Value {
    json!({ "iops": sample.iops, "mean_us": sample.mean_us, "p99_us": sample.p99_us })
}
