//! Settings that change while the node runs.

use api::{ErrorBody, SettingsChange, Severity};
use tokio::sync::Mutex;

use super::Control;
use crate::config::{Config, check_shutdown_seconds};
use crate::logging::SetLogLevel;

/// What the settings file said, and what was changed since.
pub(super) struct Settings {
    configured: api::Settings,
    changed: Mutex<SettingsChange>,
    set_log_level: SetLogLevel,
}

impl Settings {
    /// The file's settings under the remembered ones.
    pub fn new(config: &Config, changed: SettingsChange, set_log_level: SetLogLevel) -> Settings {
        if let Some(level) = changed.log_level {
            set_log_level(level);
        }
        Settings {
            configured: api::Settings {
                log_level: config.log.level,
                shutdown_timeout_seconds: config.shutdown.timeout_seconds,
            },
            changed: Mutex::new(changed),
            set_log_level,
        }
    }

    fn with(&self, changed: &SettingsChange) -> api::Settings {
        api::Settings {
            log_level: changed.log_level.unwrap_or(self.configured.log_level),
            shutdown_timeout_seconds: changed
                .shutdown_timeout_seconds
                .unwrap_or(self.configured.shutdown_timeout_seconds),
        }
    }
}

impl Control {
    /// The settings in force.
    pub async fn settings(&self) -> api::Settings {
        self.settings.with(&*self.settings.changed.lock().await)
    }

    /// Changes what `change` names, remembers it, and puts it in force.
    pub async fn change_settings(
        &self,
        change: SettingsChange,
    ) -> Result<api::Settings, ErrorBody> {
        if let Some(seconds) = change.shutdown_timeout_seconds {
            check_shutdown_seconds(seconds)
                .map_err(|problem| ErrorBody::invalid("shutdown_timeout_seconds", problem))?;
        }
        let mut changed = self.settings.changed.lock().await;
        let merged = SettingsChange {
            log_level: change.log_level.or(changed.log_level),
            shutdown_timeout_seconds: change
                .shutdown_timeout_seconds
                .or(changed.shutdown_timeout_seconds),
        };
        let before = self.settings.with(&changed);
        let after = self.settings.with(&merged);
        if before != after {
            let record = merged.clone();
            self.with_state(move |state| state.put_settings(&record))
                .await?;
            (self.settings.set_log_level)(after.log_level);
            self.events
                .record(Severity::Info, "settings", "changed through the API");
        }
        *changed = merged;
        Ok(after)
    }
}
