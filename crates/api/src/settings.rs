//! Settings that change while a node runs.

use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;

/// The least severe log line that is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the field's own words")]
pub enum LogLevel {
    Error,
    Warn,
    #[default]
    Info,
    Debug,
    Trace,
}

/// The longest that a clean stop may be told to wait.
pub const SHUTDOWN_SECONDS_MAX: u32 = 3600;

/// How often pools are checked, unless told otherwise.
pub const SCRUB_INTERVAL_DAYS: u32 = 30;

/// The longest that pools may be left unchecked, if they are checked at all: ten years.
pub const SCRUB_INTERVAL_DAYS_MAX: u32 = 3650;

/// A Graphite receiver that figures are sent to, in its plain text protocol.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct GraphiteTarget {
    /// Its address and port.
    #[schema(examples("graphite.example:2003"))]
    pub address: String,
    /// What the paths of figures begin with.
    #[serde(default = "default_prefix")]
    pub prefix: String,
    /// Seconds between two batches.
    #[serde(default = "default_interval")]
    #[schema(minimum = 1, maximum = 3600)]
    pub interval_seconds: u32,
}

/// What the paths of figures begin with, unless told otherwise.
pub const GRAPHITE_PREFIX: &str = "flashyard";

/// Seconds between two batches of figures, unless told otherwise.
pub const GRAPHITE_INTERVAL_SECONDS: u32 = 10;

fn default_prefix() -> String {
    GRAPHITE_PREFIX.to_owned()
}

fn default_interval() -> u32 {
    GRAPHITE_INTERVAL_SECONDS
}

/// How messages get to a syslog receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SyslogTransport {
    /// A message a datagram; some may be lost.
    Udp,
    /// Over a connection, each message with its length before it.
    Tcp,
    /// The same in TLS.
    Tls,
}

/// A syslog receiver that events and audit lines are sent to, as RFC 5424 has them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SyslogTarget {
    /// Its address and port.
    #[schema(examples("logs.example:6514"))]
    pub address: String,
    /// How messages get there.
    pub transport: SyslogTransport,
    /// For TLS: the certificates of the authorities to trust, in PEM; none: those that the
    /// machine trusts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_certificate: Option<String>,
}

/// What a node does and can change while it runs. Values that were changed here are remembered,
/// and win over the settings file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Settings {
    /// The least severe log line that is written.
    pub log_level: LogLevel,
    /// How long a clean stop waits for I/O in flight.
    pub shutdown_timeout_seconds: u32,
    /// Every pool is checked when so many days have passed since it was; 0: never.
    pub scrub_interval_days: u32,
    /// Where figures are sent to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub graphite: Option<GraphiteTarget>,
    /// Where events and audit lines are sent to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub syslog: Option<SyslogTarget>,
}

/// What to change; the body of `PATCH /v1/settings`. What is absent stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SettingsChange {
    /// The least severe log line that is written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_level: Option<LogLevel>,
    /// How long a clean stop waits for I/O in flight, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 3600)]
    pub shutdown_timeout_seconds: Option<u32>,
    /// After how many days a pool is checked again; 0: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 3650)]
    pub scrub_interval_days: Option<u32>,
    /// Where figures are sent to; `null`: nowhere.
    #[serde(
        default,
        deserialize_with = "present",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Option<GraphiteTarget>)]
    pub graphite: Option<Option<GraphiteTarget>>,
    /// Where events and audit lines are sent to; `null`: nowhere.
    #[serde(
        default,
        deserialize_with = "present",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Option<SyslogTarget>)]
    pub syslog: Option<Option<SyslogTarget>>,
}

/// Tells `null` from what is absent.
fn present<'de, D, T>(deserializer: D) -> Result<Option<Option<T>>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    Option::deserialize(deserializer).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_is_a_change_and_absence_is_none() {
        let change = |text| serde_json::from_str::<SettingsChange>(text).unwrap();
        assert_eq!(change("{}").graphite, None);
        assert_eq!(change(r#"{"graphite":null}"#).graphite, Some(None));
        let target = change(r#"{"graphite":{"address":"g:2003"}}"#).graphite;
        let target = target.flatten().unwrap();
        assert_eq!(
            (target.prefix.as_str(), target.interval_seconds),
            ("flashyard", 10)
        );
        let text = serde_json::to_string(&change(r#"{"syslog":null}"#)).unwrap();
        assert_eq!(change(&text).syslog, Some(None), "as it is remembered");
    }
}
