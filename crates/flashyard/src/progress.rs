//! Progress of long runs, and stopping them with Ctrl-C.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use lab::load::Stop;

use crate::interrupt::stop_on_interrupt;

/// Runs this short show no bar.
const QUIET: Duration = Duration::from_millis(400);

/// Steps of the bar.
const STEPS: u64 = 1000;

/// A bar on the terminal (nothing where standard error is none), and a flag that Ctrl-C sets.
pub struct Progress {
    bar: ProgressBar,
    started: Instant,
    stop: Stop,
}

impl Progress {
    pub fn start() -> Progress {
        let stop = Stop::default();
        stop_on_interrupt(&stop);
        let bar = ProgressBar::new(STEPS);
        if let Ok(style) = ProgressStyle::with_template("{bar:40} {percent}% {eta} left") {
            bar.set_style(style);
        }
        Progress {
            bar,
            started: Instant::now(),
            stop,
        }
    }

    /// Set by Ctrl-C.
    pub fn stop(&self) -> &Stop {
        &self.stop
    }

    /// Shows the share done, 0 to 1; says whether to go on.
    pub fn at(&self, share: f64) -> bool {
        if self.started.elapsed() > QUIET {
            self.bar.set_position((share * STEPS as f64) as u64);
        }
        !self.stop.is_stopped()
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
