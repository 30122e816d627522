//! Progress of an experiment: one bar, with what is done now and when all will be.

use indicatif::{ProgressBar, ProgressStyle};
use lab::experiment::Event;

use crate::output::Output;

/// Steps of the bar.
const STEPS: u64 = 10_000;

pub struct Display {
    bar: ProgressBar,
}

impl Display {
    pub fn start(output: Output) -> Display {
        let bar = if output == Output::Json {
            ProgressBar::hidden()
        } else {
            ProgressBar::new(STEPS)
        };
        let template = "[{bar:30}] {percent}% {elapsed} gone, {eta} left  {msg}";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("=> "));
        }
        Display { bar }
    }

    pub fn show(&self, event: &Event<'_>) {
        match event {
            Event::Begin { what, target } => self.bar.set_message(format!("{target}: {what}")),
            Event::Share(share) => self.bar.set_position((share * STEPS as f64) as u64),
            Event::Done(run) => {
                let rate = run.measured.iops();
                let line = format!(
                    "{} on {}, repetition {}: {rate:.0} a second",
                    run.workload,
                    run.target,
                    run.repetition + 1
                );
                self.bar.println(line);
            }
        }
    }
}

impl Drop for Display {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
