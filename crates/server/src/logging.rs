//! Log lines on standard error, for people or as JSON.

use std::io::{IsTerminal, stderr};
use std::sync::Arc;

use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{fmt, reload};

use crate::config::{LogConfig, LogFormat, LogLevel};

/// Changes the least severe line that is written.
pub type SetLogLevel = Arc<dyn Fn(LogLevel) + Send + Sync>;

/// Starts logging as `config` says. The first call in a process counts.
pub fn start(config: &LogConfig) -> SetLogLevel {
    let (level, handle) = reload::Layer::new(filter(config.level));
    let lines = fmt::layer().with_writer(stderr);
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

fn filter(level: LogLevel) -> LevelFilter {
    match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    }
}
