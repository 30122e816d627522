//! Runs many seeds: `cargo run --release -p sim --example soak -- FIRST COUNT SHARDS`. Prints every
//! failure with its seed, and totals.

use sim::{Options, Report, run};

fn main() {
    let mut arguments = std::env::args()
        .skip(1)
        .filter_map(|word| word.parse::<u64>().ok());
    let first = arguments.next().unwrap_or(1);
    let count = arguments.next().unwrap_or(100);
    let shards_max = arguments.next().unwrap_or(1);
    let mut total = Report::default();
    let mut failures = 0;
    for seed in first..first + count {
        let options = Options {
            shards_max,
            ..Options::new(seed)
        };
        let caught = std::panic::catch_unwind(|| run(&options));
        match caught {
            Ok(Ok(report)) => {
                total.crashes += report.crashes;
                total.requests += report.requests;
                total.refused += report.refused;
                total.changes += report.changes;
                total.relocated += report.relocated;
                total.reconstructed += report.reconstructed;
            }
            Ok(Err(found)) => {
                failures += 1;
                println!("FAILED {found}");
            }
            Err(_) => {
                failures += 1;
                println!("PANIC seed={seed}");
            }
        }
    }
    println!("{count} seeds, {failures} failures, {total:?}");
}
