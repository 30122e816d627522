//! What every benchmark here prints: a table. The same is kept as JSON.

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
        let median = bench::median((0..RUNS).map(|_| measure()));
        println!("{what:<56} {median:>12.1} {unit}");
        self.rows.push((what.to_owned(), median, unit));
    }

    /// Keeps what was measured.
    pub fn write(self) {
        let rows = self.rows.iter().map(
            |(what, value, unit)| serde_json::json!({ "what": what, "value": value, "unit": unit }),
        );
        let rows: Vec<_> = rows.collect();
        let result = serde_json::json!({ "runs": RUNS, "results": rows });
        bench::save(self.name, &["runs"], &result);
    }
}
