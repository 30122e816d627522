//! What every benchmark here prints: a table, and the same as JSON under `target/bench/`.

use std::path::PathBuf;

/// Each figure is the median of this many runs.
pub const RUNS: usize = 3;

/// The figures of one benchmark program.
pub struct Report {
    name: &'static str,
    rows: Vec<(String, f64, &'static str)>,
    /// Only what contains this is measured.
    filter: Option<String>,
}

impl Report {
    /// An empty report; `name` is the file's. An argument on the command line selects what is
    /// measured.
    pub fn new(name: &'static str) -> Report {
        Report {
            name,
            rows: Vec::new(),
            filter: std::env::args()
                .skip(1)
                .find(|argument| !argument.starts_with('-')),
        }
    }

    /// Adds and prints the median of what `measure` gives, run [`RUNS`] times.
    pub fn median(&mut self, what: &str, unit: &'static str, mut measure: impl FnMut() -> f64) {
        if self
            .filter
            .as_ref()
            .is_some_and(|filter| !what.contains(filter.as_str()))
        {
            return;
        }
        let mut values: Vec<f64> = (0..RUNS).map(|_| measure()).collect();
        values.sort_unstable_by(f64::total_cmp);
        let median = values[RUNS / 2];
        println!("{what:<56} {median:>12.1} {unit}");
        self.rows.push((what.to_owned(), median, unit));
    }

    /// Writes the JSON file.
    pub fn write(self) {
        let rows: Vec<_> = self
            .rows
            .iter()
            .map(|(what, value, unit)| {
                serde_json::json!({ "what": what, "value": value, "unit": unit })
            })
            .collect();
        let json = serde_json::json!({ "benchmark": self.name, "runs": RUNS, "results": rows });
        let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("../bench");
        let path = directory.join(format!("{}.json", self.name));
        let written = std::fs::create_dir_all(&directory)
            .and_then(|()| std::fs::write(&path, format!("{json:#}\n")));
        if let Err(error) = written {
            eprintln!("{}: {error}", path.display());
        }
    }
}
