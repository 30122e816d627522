//! Medians, the printed table and `target/bench/serving.json`.

use std::path::PathBuf;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::idle::Idle;
use crate::rows::{ROWS, Sample};

fn median(samples: &[Sample], of: impl Fn(&Sample) -> f64) -> f64 {
    let mut values: Vec<f64> = samples.iter().map(of).collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
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
    let mut ratios: Vec<f64> = ours
        .iter()
        .zip(theirs)
        .map(|(our, their)| our.iops / their.iops)
        .collect();
    ratios.sort_by(f64::total_cmp);
    ratios.get(ratios.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Prints a Markdown table, so that it can be pasted into `docs/performance.md` as it is.
pub fn print_and_save(
    ours: &[Vec<Sample>],
    theirs: Option<&[Vec<Sample>]>,
    idle: &Idle,
) -> Result<()> {
    println!("Machine: {}\n", machine());
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
    save(json!({ "machine": machine(), "rows": saved, "idle_percent_of_a_core": idle.percent }))
}

fn of(sample: &Sample) -> Value {
    json!({ "iops": sample.iops, "mean_us": sample.mean_us, "p99_us": sample.p99_us })
}

fn save(result: Value) -> Result<()> {
    let directory = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../target/bench");
    std::fs::create_dir_all(&directory)?;
    let path = directory.join("serving.json");
    std::fs::write(&path, serde_json::to_vec_pretty(&result)?)
        .with_context(|| format!("writing {}", path.display()))
}

/// Processor, cores and kernel, as the machine itself names them.
fn machine() -> String {
    let of_file = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let processors = of_file("/proc/cpuinfo");
    let model = processors
        .lines()
        .find_map(|line| line.strip_prefix("model name"))
        .map_or("unknown processor", |rest| {
            rest.trim_start_matches([' ', '\t', ':'])
        });
    let cores = processors
        .lines()
        .filter(|line| line.starts_with("processor"))
        .count();
    let kernel = of_file("/proc/sys/kernel/osrelease");
    format!("{model}, {cores} cores, Linux {}", kernel.trim())
}
