//! What a person sees while the demonstration runs: one line a step on standard error, with a
//! moving bar where there is a terminal.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use lab::load::Snapshot;

use crate::output::{self, Output};

/// Steps of the bar in a second.
const STEPS_PER_SECOND: f64 = 10.0;

/// Where progress is shown: nowhere when the answer is for programs.
pub struct Display {
    quiet: bool,
}

impl Display {
    pub fn new(output: Output) -> Display {
        Display {
            quiet: output == Output::Json,
        }
    }

    /// Says what begins.
    pub fn step(&self, what: &str) {
        if !self.quiet {
            output::tell(&what);
        }
    }

    /// Says how it ended.
    pub fn done(&self, how: &str) {
        self.step(&format!("  {how}"));
    }

    /// A bar for something that takes `expected`.
    pub fn bar(&self, what: &str, expected: Duration) -> Bar {
        let steps = (expected.as_secs_f64() * STEPS_PER_SECOND) as u64;
        let bar = if self.quiet {
            ProgressBar::hidden()
        } else {
            ProgressBar::new(steps)
        };
        let template = "  {prefix:26} [{bar:24}] {msg}";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.set_prefix(what.to_owned());
        Bar {
            bar,
            last: Snapshot::default(),
            last_seconds: 0.0,
        }
    }
}

/// The progress of one run.
pub struct Bar {
    bar: ProgressBar,
    last: Snapshot,
    last_seconds: f64,
}

impl Bar {
    /// Shows how far the run is and how fast it was since the last time.
    pub fn show(&mut self, snapshot: Snapshot) {
        let seconds = self.bar.elapsed().as_secs_f64();
        let passed = seconds - self.last_seconds;
        if passed <= 0.0 {
            return;
        }
        let operations =
            (snapshot.reads + snapshot.writes).saturating_sub(self.last.reads + self.last.writes);
        let bytes = snapshot.bytes.saturating_sub(self.last.bytes);
        let message = if operations == 0 && snapshot.verified_blocks > 0 {
            format!(
                "reading back, {} blocks are right",
                snapshot.verified_blocks
            )
        } else {
            let (iops, rate) = (operations as f64 / passed, bytes as f64 / passed / 1e6);
            format!("{iops:8.0} IOPS  {rate:7.0} MB/s")
        };
        self.bar.set_position((seconds * STEPS_PER_SECOND) as u64);
        self.bar.set_message(message);
        (self.last, self.last_seconds) = (snapshot, seconds);
    }

    /// Leaves nothing of the bar.
    pub fn clear(&self) {
        self.bar.finish_and_clear();
    }
}
