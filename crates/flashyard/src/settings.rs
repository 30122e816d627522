//! `flashyard settings`

use api::{LogLevel, Settings, SettingsChange};
use clap::{Args, Subcommand};

use crate::connection::{Done, Node};
use crate::output::properties;

#[derive(Subcommand)]
pub enum Verb {
    /// Show the settings that change while a node runs
    Show,
    /// Change some of them; they are remembered, and win over the settings file
    Set(Set),
}

#[derive(Args)]
#[group(required = true, multiple = true)]
pub struct Set {
    /// Least severe log line that is written
    #[arg(long, value_name = "LEVEL", value_parser = server::config::log_level)]
    log_level: Option<LogLevel>,
    /// How long a clean stop waits for I/O in flight
    #[arg(long, value_name = "SECONDS")]
    shutdown_timeout: Option<u32>,
}

impl Verb {
    pub fn run(&self, node: &Node) -> Done {
        let settings = match self {
            Verb::Show => node.client.settings()?,
            Verb::Set(set) => node.client.change_settings(&SettingsChange {
                log_level: set.log_level,
                shutdown_timeout_seconds: set.shutdown_timeout,
            })?,
        };
        node.output.show(&settings, text);
        Ok(())
    }
}

fn text(settings: &Settings) -> String {
    let level = match settings.log_level {
        LogLevel::Error => "error",
        LogLevel::Warn => "warn",
        LogLevel::Info => "info",
        LogLevel::Debug => "debug",
        LogLevel::Trace => "trace",
    };
    let seconds = settings.shutdown_timeout_seconds;
    properties(&[
        ("log level", level.to_owned()),
        ("shutdown timeout", format!("{seconds} s")),
    ])
}
