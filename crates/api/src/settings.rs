//! Settings that change while a node runs.

use serde::{Deserialize, Serialize};
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

/// What a node does and can change while it runs. Values that were changed here are remembered,
/// and win over the settings file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Settings {
    /// The least severe log line that is written.
    pub log_level: LogLevel,
    /// How long a clean stop waits for I/O in flight.
    pub shutdown_timeout_seconds: u32,
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
}
