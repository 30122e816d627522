//! Log lines on standard error, for people or as JSON.

use std::io::{IsTerminal, stderr};

use tracing_subscriber::filter::LevelFilter;

use crate::config::{LogConfig, LogFormat, LogLevel};

/// Starts logging as `config` says. The first call in a process counts.
pub fn start(config: &LogConfig) {
    let level = match config.level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    };
    let lines = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(stderr);
    // A second call fails because the first one's choice stands.
    let _ = match config.format {
        LogFormat::Text => lines
            .with_target(false)
            .with_ansi(stderr().is_terminal())
            .try_init(),
        LogFormat::Json => lines.json().flatten_event(true).try_init(),
    };
}
