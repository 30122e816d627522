//! Log lines on standard error, for people or as JSON.
//!
//! Whoever logs puts a line in a queue and goes on, the data path as well: a thread of its own
//! writes it. Where standard error is slow the queue fills, and what does not fit is counted and
//! left out, as is what standard error refuses.

use std::io::{self, IsTerminal, Write, stderr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{fmt, reload};

use crate::config::{LogConfig, LogFormat, LogLevel};

/// Lines that wait for standard error: about a megabyte.
const QUEUED_MAX: usize = 4096;

/// How long the end of the process waits for lines to be written.
const PATIENCE: Duration = Duration::from_secs(1);

/// How often a full queue is looked at again.
const PAUSE: Duration = Duration::from_millis(10);

/// Lines that were not written, by the process, which has one standard error.
static LEFT_OUT: AtomicU64 = AtomicU64::new(0);

/// The queue of the process.
static QUEUE: OnceLock<Lines> = OnceLock::new();

/// Changes the least severe line that is written.
pub type SetLogLevel = Arc<dyn Fn(LogLevel) + Send + Sync>;

/// Starts logging as `config` says. The first call in a process counts.
pub fn start(config: &LogConfig) -> SetLogLevel {
    let (level, handle) = reload::Layer::new(filter(config.level));
    let queue = QUEUE.get_or_init(Lines::start).clone();
    let lines = fmt::layer().with_writer(move || queue.clone());
    let registry = tracing_subscriber::registry().with(level);
    // A second call fails because the first one's choice stands.
    let _ = match config.format {
        LogFormat::Text => {
            let colours = stderr().is_terminal();
            let lines = lines.with_target(false).with_ansi(colours);
            registry.with(lines).try_init()
        }
        LogFormat::Json => registry.with(lines.json().flatten_event(true)).try_init(),
    };
    // A change fails only after a second call, which changes nothing either.
    Arc::new(move |level| drop(handle.reload(filter(level))))
}

/// Lines that were not written because standard error was slow or refused them.
pub fn left_out() -> u64 {
    LEFT_OUT.load(Ordering::Relaxed)
}

/// Waits a moment until what was logged so far is written.
pub fn flush() {
    let Some(Lines(queue)) = QUEUE.get() else {
        return;
    };
    let (done, written) = sync_channel(1);
    let started = Instant::now();
    let mut waiting = Item::Flush(done);
    while let Err(TrySendError::Full(back)) = queue.try_send(waiting) {
        if started.elapsed() > PATIENCE {
            return;
        }
        waiting = back;
        std::thread::sleep(PAUSE);
    }
    // Nothing is left to be done about lines that are not written in time.
    let _ = written.recv_timeout(PATIENCE);
}

/// One end of the queue of lines.
#[derive(Clone)]
struct Lines(SyncSender<Item>);

enum Item {
    Line(Vec<u8>),
    /// Everything before this is written.
    Flush(SyncSender<()>),
}

impl Lines {
    fn start() -> Lines {
        let (sender, queue) = sync_channel(QUEUED_MAX);
        let writer = std::thread::Builder::new().name("log".to_owned());
        // Without a thread there is no log; the lines are counted as left out.
        let _ = writer.spawn(move || write_all(&queue, stderr));
        Lines(sender)
    }
}

/// A whole line at a time, as a formatter gives it.
impl Write for Lines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if self.0.try_send(Item::Line(line.to_vec())).is_err() {
            LEFT_OUT.fetch_add(1, Ordering::Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes lines as they come; where some were left out, the next that is written is followed by a
/// line that says so.
fn write_all<W: Write>(queue: &Receiver<Item>, output: impl Fn() -> W) {
    let mut told = 0;
    for item in queue {
        match item {
            Item::Line(line) if output().write_all(&line).is_ok() => {
                let left_out = left_out();
                if left_out > told {
                    let missing = left_out - told;
                    told = left_out;
                    tracing::warn!("{missing} lines of the log were left out before this one");
                }
            }
            Item::Line(_) => {
                LEFT_OUT.fetch_add(1, Ordering::Relaxed);
            }
            // Whoever asked may have stopped waiting.
            Item::Flush(done) => drop(done.try_send(())),
        }
    }
}

fn filter(level: LogLevel) -> LevelFilter {
    match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nobody takes the lines: whoever logs goes on, and what there is no room for is counted.
    #[test]
    fn lines_beyond_those_that_wait_are_counted() {
        let (sender, _queue) = sync_channel(QUEUED_MAX);
        let mut lines = Lines(sender);
        let before = left_out();
        for _ in 0..QUEUED_MAX + 3 {
            lines.write_all(b"line\n").unwrap();
        }
        assert!(left_out() >= before + 3);
    }
}
