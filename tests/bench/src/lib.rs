//! What benchmarks share: settings, medians, results as JSON, and their history.
//!
//! A benchmark calls [`is_asked_for`] first, measures, and hands its results to [`save`]. They are
//! kept as `target/bench/NAME.json`, and a line is appended to the [`history`], which
//! `make bench-history` draws.

mod figures;
pub mod history;
mod machine;
pub mod page;

use std::path::{Path, PathBuf};
use std::str::FromStr;

use rustix::time::{ClockId, clock_gettime};
use serde_json::Value;

use crate::history::Run;
pub use crate::machine::machine;

/// Whether to measure. `cargo test --benches` runs these programs too, without `--bench`, and has
/// nothing to check there.
pub fn is_asked_for() -> bool {
    std::env::args().any(|argument| argument == "--bench")
}

/// A setting from the environment, or what holds without it.
///
/// # Panics
/// When the setting is there and means nothing: a benchmark is not run with another one instead.
pub fn setting<T: FromStr>(name: &str, default: T) -> T {
    let Ok(text) = std::env::var(name) else {
        return default;
    };
    let parsed = text.parse();
    parsed.unwrap_or_else(|_| panic!("{name}={text:?} is not a number of its kind"))
}

/// Seconds of processor time that this thread has taken.
pub fn processor_seconds() -> f64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec as f64 + now.tv_nsec as f64 / 1e9
}

/// The value in the middle, the higher of two; NaN of none.
pub fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Keeps the results of the benchmark `name`: as [`keep`] does, and as a line of the history.
///
/// Numbers of `result` are figures, and texts beside them name the row that they belong to. Numbers
/// whose keys are in `settings` name the row too, such as a queue depth.
///
/// What was measured may have taken an hour, so results are printed where they cannot be written.
pub fn save(name: &str, settings: &[&str], result: &Value) {
    keep(name, result);
    let run = Run::now(name, figures::of(settings, result));
    let path = history_file();
    if let Err(error) = run.append(&path) {
        eprintln!("{}: {error}\n{}", path.display(), run.line());
    }
}

/// Keeps what is known of the results of a benchmark so far, as `NAME.json` in the [`folder`].
pub fn keep(name: &str, result: &Value) {
    let text = format!("{result:#}\n");
    let path = folder().join(format!("{name}.json"));
    let written = std::fs::create_dir_all(folder()).and_then(|()| std::fs::write(&path, &text));
    if let Err(error) = written {
        eprintln!("{}: {error}\n{text}", path.display());
    }
}

/// Where results go: `BENCH_FOLDER`, or `target/bench`.
pub fn folder() -> PathBuf {
    chosen_folder().unwrap_or_else(|| repository().join("target/bench"))
}

/// The history: in `BENCH_FOLDER`, or a file of the repository, to commit what is worth keeping.
pub fn history_file() -> PathBuf {
    let beside = chosen_folder().map(|folder| folder.join("history.jsonl"));
    beside.unwrap_or_else(|| repository().join(history::FILE))
}

fn chosen_folder() -> Option<PathBuf> {
    std::env::var_os("BENCH_FOLDER").map(PathBuf::from)
}

/// The repository that these benchmarks are of.
fn repository() -> &'static Path {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    folder.ancestors().nth(2).unwrap_or(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The median of an even number of values is one that was measured.
    #[test]
    fn a_median_was_measured() {
        assert_eq!(median([3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median([4.0, 1.0, 3.0, 2.0]), 3.0);
        assert!(median([]).is_nan());
    }

    #[test]
    fn the_repository_is_found() {
        assert!(repository().join("Cargo.lock").is_file());
    }
}
