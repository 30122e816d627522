//! `flashyard settings`

use api::{
    GRAPHITE_INTERVAL_SECONDS, GRAPHITE_PREFIX, GraphiteTarget, LogLevel, Settings, SettingsChange,
    SyslogTarget, SyslogTransport,
};
use clap::{Args, Subcommand};

use crate::connection::{Done, Node};
use crate::output::properties;

#[derive(Subcommand)]
pub enum Verb {
    /// Show the settings that change while a node runs
    Show,
    /// Change some of them; they are remembered, and win over the settings file
    Set(Box<Set>),
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
    /// Days between automatic scrubs of a pool; 0: never
    #[arg(long, value_name = "DAYS")]
    scrub_interval: Option<u32>,
    /// Graphite receiver of figures, or `none`
    #[arg(long, value_name = "HOST:PORT")]
    graphite: Option<String>,
    /// Prefix of the paths of figures
    #[arg(long, value_name = "PREFIX", requires = "graphite", default_value = GRAPHITE_PREFIX)]
    graphite_prefix: String,
    /// Seconds between two batches of figures
    #[arg(
        long,
        value_name = "SECONDS",
        requires = "graphite",
        default_value_t = GRAPHITE_INTERVAL_SECONDS
    )]
    graphite_interval: u32,
    /// Syslog receiver of events and audit lines: udp://, tcp:// or tls:// HOST:PORT, or `none`
    #[arg(long, value_name = "URL", value_parser = receiver)]
    syslog: Option<Receiver>,
    /// Certificates of the authorities to trust for tls://, in PEM
    #[arg(long, value_name = "FILE", requires = "syslog", value_parser = contents)]
    syslog_ca: Option<String>,
}

/// A syslog receiver as it is named on the command line.
#[derive(Clone)]
enum Receiver {
    Nowhere,
    At(SyslogTransport, String),
}

fn receiver(text: &str) -> Result<Receiver, String> {
    let at = |transport, address: &str| Ok(Receiver::At(transport, address.to_owned()));
    match text.split_once("://") {
        None if text == "none" => Ok(Receiver::Nowhere),
        Some(("udp", address)) => at(SyslogTransport::Udp, address),
        Some(("tcp", address)) => at(SyslogTransport::Tcp, address),
        Some(("tls", address)) => at(SyslogTransport::Tls, address),
        _ => Err("allowed: udp://HOST:PORT, tcp://HOST:PORT, tls://HOST:PORT, none".to_owned()),
    }
}

fn contents(path: &str) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| error.to_string())
}

impl Set {
    fn change(&self) -> SettingsChange {
        SettingsChange {
            log_level: self.log_level,
            shutdown_timeout_seconds: self.shutdown_timeout,
            scrub_interval_days: self.scrub_interval,
            graphite: self.graphite.as_ref().map(|address| {
                (address != "none").then(|| GraphiteTarget {
                    address: address.clone(),
                    prefix: self.graphite_prefix.clone(),
                    interval_seconds: self.graphite_interval,
                })
            }),
            syslog: self.syslog.as_ref().map(|receiver| match receiver {
                Receiver::Nowhere => None,
                Receiver::At(transport, address) => Some(SyslogTarget {
                    address: address.clone(),
                    transport: *transport,
                    ca_certificate: self.syslog_ca.clone(),
                }),
            }),
        }
    }
}

impl Verb {
    pub fn run(&self, node: &Node) -> Done {
        let settings = match self {
            Verb::Show => node.client.settings()?,
            Verb::Set(set) => node.client.change_settings(&set.change())?,
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
    let graphite = settings.graphite.as_ref().map(|target| {
        let (prefix, interval) = (&target.prefix, target.interval_seconds);
        format!("{}, as {prefix}, every {interval} s", target.address)
    });
    let syslog = settings.syslog.as_ref().map(|target| {
        let scheme = match target.transport {
            SyslogTransport::Udp => "udp",
            SyslogTransport::Tcp => "tcp",
            SyslogTransport::Tls => "tls",
        };
        format!("{scheme}://{}", target.address)
    });
    let scrub = match settings.scrub_interval_days {
        0 => "never".to_owned(),
        days => format!("every {days} days"),
    };
    let nowhere = || "-".to_owned();
    properties(&[
        ("log level", level.to_owned()),
        ("shutdown timeout", format!("{seconds} s")),
        ("scrub", scrub),
        ("graphite", graphite.unwrap_or_else(nowhere)),
        ("syslog", syslog.unwrap_or_else(nowhere)),
    ])
}
