//! Settings that change while the node runs.

use api::{
    ErrorBody, GraphiteTarget, SCRUB_INTERVAL_DAYS, SettingsChange, Severity, SyslogTarget,
    SyslogTransport,
};
use tokio::sync::watch;

use crate::config::{Config, SHUTDOWN_SECONDS, seconds_within};
use crate::control::Control;
use crate::control::catalogue::Catalogue;
use crate::control::pools::check_interval_days;
use crate::logging::SetLogLevel;
use crate::syslog::authorities;

/// The most seconds between two batches of figures.
const GRAPHITE_INTERVAL_SECONDS_MAX: u32 = 3600;

/// The longest address of a receiver: a host's name has 253 bytes at most.
const ADDRESS_BYTES_MAX: usize = 260;

/// The longest prefix of figures' paths.
const GRAPHITE_PREFIX_BYTES_MAX: usize = 128;

/// What the settings file said, and what was changed since.
pub(in crate::control) struct Settings {
    configured: api::Settings,
    changed: Catalogue<SettingsChange>,
    set_log_level: SetLogLevel,
    /// What is in force, for those who act on it.
    in_force: watch::Sender<api::Settings>,
}

impl Settings {
    /// The file's settings under the remembered ones.
    pub fn new(config: &Config, changed: SettingsChange, set_log_level: SetLogLevel) -> Settings {
        if let Some(level) = changed.log_level {
            set_log_level(level);
        }
        let configured = api::Settings {
            log_level: config.log.level,
            shutdown_timeout_seconds: config.shutdown.timeout_seconds,
            scrub_interval_days: SCRUB_INTERVAL_DAYS,
            ..api::Settings::default()
        };
        let in_force = watch::Sender::new(merged(&configured, &changed));
        Settings {
            configured,
            changed: Catalogue::new(changed),
            set_log_level,
            in_force,
        }
    }

    fn with(&self, changed: &SettingsChange) -> api::Settings {
        merged(&self.configured, changed)
    }
}

fn merged(configured: &api::Settings, changed: &SettingsChange) -> api::Settings {
    let graphite = changed.graphite.clone();
    let syslog = changed.syslog.clone();
    api::Settings {
        log_level: changed.log_level.unwrap_or(configured.log_level),
        shutdown_timeout_seconds: changed
            .shutdown_timeout_seconds
            .unwrap_or(configured.shutdown_timeout_seconds),
        scrub_interval_days: changed
            .scrub_interval_days
            .unwrap_or(configured.scrub_interval_days),
        graphite: graphite.unwrap_or_else(|| configured.graphite.clone()),
        syslog: syslog.unwrap_or_else(|| configured.syslog.clone()),
    }
}

/// Refuses times out of bounds, and receivers that nothing could be sent to.
fn check(change: &SettingsChange) -> Result<(), ErrorBody> {
    if let Some(seconds) = change.shutdown_timeout_seconds {
        seconds_within(seconds.into(), SHUTDOWN_SECONDS)
            .map_err(|problem| ErrorBody::invalid("shutdown_timeout_seconds", problem))?;
    }
    if let Some(days) = change.scrub_interval_days {
        check_interval_days(days)?;
    }
    if let Some(Some(target)) = &change.graphite {
        check_graphite(target)?;
    }
    if let Some(Some(target)) = &change.syslog {
        check_syslog(target)?;
    }
    Ok(())
}

fn check_graphite(target: &GraphiteTarget) -> Result<(), ErrorBody> {
    check_address("graphite.address", &target.address, "graphite.example:2003")?;
    let prefix = &target.prefix;
    let allowed = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let part = |part: &str| !part.is_empty() && part.chars().all(allowed);
    if prefix.len() > GRAPHITE_PREFIX_BYTES_MAX || !prefix.split('.').all(part) {
        let message = format!(
            "{prefix:?}; allowed: up to {GRAPHITE_PREFIX_BYTES_MAX} characters, words of letters, \
             digits, - and _ with dots between them"
        );
        return Err(ErrorBody::invalid("graphite.prefix", message));
    }
    let seconds = target.interval_seconds;
    if !(1..=GRAPHITE_INTERVAL_SECONDS_MAX).contains(&seconds) {
        let message = format!("{seconds}; allowed: 1 to {GRAPHITE_INTERVAL_SECONDS_MAX}");
        return Err(ErrorBody::invalid("graphite.interval_seconds", message));
    }
    Ok(())
}

fn check_syslog(target: &SyslogTarget) -> Result<(), ErrorBody> {
    check_address("syslog.address", &target.address, "logs.example:514")?;
    let Some(pem) = &target.ca_certificate else {
        return Ok(());
    };
    if target.transport != SyslogTransport::Tls {
        let message = "a certificate without TLS; allowed: with transport tls";
        return Err(ErrorBody::invalid("syslog.ca_certificate", message));
    }
    let found = authorities(Some(pem));
    found.map(drop).map_err(|error| {
        let message = format!("{error}; allowed: one or more certificates in PEM");
        ErrorBody::invalid("syslog.ca_certificate", message)
    })
}

fn check_address(field: &str, address: &str, example: &str) -> Result<(), ErrorBody> {
    let port = address
        .rsplit_once(':')
        .filter(|_| address.len() <= ADDRESS_BYTES_MAX)
        .filter(|(host, _)| !host.is_empty() && !host.contains([' ', '/']))
        .filter(|(host, _)| !host.contains(char::is_control))
        .and_then(|(_, port)| port.parse::<u16>().ok());
    match port {
        Some(1..) => Ok(()),
        _ => {
            let message = format!(
                "{address:?}; allowed: HOST:PORT of up to {ADDRESS_BYTES_MAX} bytes, such as \
                 {example}"
            );
            Err(ErrorBody::invalid(field, message))
        }
    }
}

impl Control {
    /// The settings in force.
    pub fn settings(&self) -> api::Settings {
        self.settings.with(&self.settings.changed.seen())
    }

    /// The settings in force, now and whenever they change.
    pub fn watch_settings(&self) -> watch::Receiver<api::Settings> {
        self.settings.in_force.subscribe()
    }

    /// Changes what `change` names, remembers it, and puts it in force.
    pub async fn change_settings(
        &self,
        change: SettingsChange,
    ) -> Result<api::Settings, ErrorBody> {
        check(&change)?;
        let mut changed = self.settings.changed.change().await;
        let merged = SettingsChange {
            log_level: change.log_level.or(changed.log_level),
            shutdown_timeout_seconds: change
                .shutdown_timeout_seconds
                .or(changed.shutdown_timeout_seconds),
            scrub_interval_days: change.scrub_interval_days.or(changed.scrub_interval_days),
            graphite: change.graphite.or_else(|| changed.graphite.clone()),
            syslog: change.syslog.or_else(|| changed.syslog.clone()),
        };
        let before = self.settings.with(&changed);
        let after = self.settings.with(&merged);
        if before != after {
            let record = merged.clone();
            self.with_state(move |state| state.put_settings(&record))
                .await?;
            (self.settings.set_log_level)(after.log_level);
            self.settings.in_force.send_replace(after.clone());
            self.events
                .record(Severity::Info, "settings", "changed through the API");
        }
        *changed = merged;
        Ok(after)
    }
}
