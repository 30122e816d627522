//! The history of results: a file with a line of JSON for each run of a benchmark.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::path::Path;
use std::process::Command;
use std::time::SystemTime;

use serde_json::{Value, json};

use crate::machine::machine;
use crate::repository;

/// Where the repository keeps it.
pub const FILE: &str = "docs/results/benchmarks.jsonl";

/// One run of a benchmark.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// When it ended, as RFC 3339 has it.
    pub time: String,
    /// What was measured: a commit, with a plus sign if files were changed since.
    pub revision: String,
    /// Where.
    pub machine: String,
    /// The benchmark's name.
    pub benchmark: String,
    /// Each figure by its name.
    pub figures: BTreeMap<String, f64>,
}

impl Run {
    /// What was just measured, of the files that are here.
    pub fn now(benchmark: &str, figures: BTreeMap<String, f64>) -> Run {
        Run {
            time: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
            revision: revision(),
            machine: machine(),
            benchmark: benchmark.to_owned(),
            figures,
        }
    }

    /// Its line, without the end of the line.
    pub fn line(&self) -> String {
        let Run {
            time,
            revision,
            machine,
            benchmark,
            figures,
        } = self;
        json!({
            "time": time, "revision": revision, "machine": machine, "benchmark": benchmark,
            "figures": figures,
        })
        .to_string()
    }

    /// Adds its line to a history, in one write.
    pub fn append(&self, path: &Path) -> io::Result<()> {
        let mut file = OpenOptions::new().append(true).create(true).open(path)?;
        file.write_all(format!("{}\n", self.line()).as_bytes())
    }

    fn parse(line: &str) -> Option<Run> {
        let value: Value = serde_json::from_str(line).ok()?;
        let text = |key: &str| value.get(key)?.as_str().map(str::to_owned);
        let figures = value.get("figures")?.as_object()?.iter();
        let figures = figures.map(|(name, value)| Some((name.clone(), value.as_f64()?)));
        Some(Run {
            time: text("time")?,
            revision: text("revision")?,
            machine: text("machine")?,
            benchmark: text("benchmark")?,
            figures: figures.collect::<Option<_>>()?,
        })
    }
}

/// The runs of a history in the order of the file; none if there is no file.
///
/// # Errors
/// When the file cannot be read, or a line is not that of a run: its number is in the message.
pub fn read(path: &Path) -> io::Result<Vec<Run>> {
    let text = match std::fs::read_to_string(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        read => read?,
    };
    let lines = text.lines().enumerate();
    let runs = lines.map(|(index, line)| {
        Run::parse(line).ok_or_else(|| {
            let problem = format!("line {} is not that of a run", index + 1);
            io::Error::new(io::ErrorKind::InvalidData, problem)
        })
    });
    runs.collect()
}

/// The commit, with a plus sign if files other than the history were changed since.
fn revision() -> String {
    let git = |arguments: &[&str]| {
        let run = Command::new("git")
            .args(arguments)
            .current_dir(repository())
            .output();
        let output = run.ok().filter(|output| output.status.success())?;
        Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let Some(commit) = git(&["rev-parse", "--short=9", "HEAD"]) else {
        return "unknown".to_owned();
    };
    let others = format!(":!{FILE}");
    let changed = git(&["status", "--porcelain", "--", ".", &others]);
    let plus = changed.is_some_and(|files| !files.is_empty());
    format!("{commit}{}", if plus { "+" } else { "" })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(time: &str, iops: f64) -> Run {
        Run {
            time: time.to_owned(),
            revision: "0123abcd".to_owned(),
            machine: "a machine".to_owned(),
            benchmark: "serving".to_owned(),
            figures: BTreeMap::from([("iops".to_owned(), iops)]),
        }
    }

    /// Runs are read as they were appended, and a file that is not a history is refused by line.
    #[test]
    fn what_was_appended_is_read() {
        let directory = std::env::temp_dir().join(format!("bench-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let path = directory.join("history.jsonl");
        assert_eq!(read(&path).unwrap(), []);
        let runs = [
            run("2026-11-26T00:00:00Z", 1.5),
            run("2026-11-27T00:00:00Z", 2.0),
        ];
        for run in &runs {
            run.append(&path).unwrap();
        }
        assert_eq!(read(&path).unwrap(), runs);
        std::fs::write(&path, format!("{}\n{{}}\n", runs[0].line())).unwrap();
        let refused = read(&path).unwrap_err().to_string();
        assert_eq!(refused, "line 2 is not that of a run");
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
