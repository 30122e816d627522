//! What did not work, tried again until it does.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::control::Control;
use crate::control::operating::problems::Means;
use crate::endpoints::Endpoints;

/// How often.
const PERIOD: Duration = Duration::from_secs(2);

impl Control {
    /// Writes to `directory` where the node is reached; tries again until that works.
    pub async fn tell_endpoints(&self, directory: &Path, endpoints: &Endpoints) {
        while !self.write_endpoints(directory, endpoints).await {
            tokio::time::sleep(PERIOD).await;
        }
    }

    /// Tries again whatever else cannot be written, until the node stops.
    pub async fn retry(&self, directory: &Path) {
        loop {
            tokio::time::sleep(PERIOD).await;
            self.end_transitions(PERIOD).await;
            self.look_at_state();
            if self.state.silence().is_some() {
                continue;
            }
            if !self.is_state_written() {
                self.probe_state().await;
            }
            if self.is_audit_waiting() && self.is_state_written() {
                self.write_audit().await;
            }
            if self.is_state_written() {
                self.take_admin_reset(directory).await;
            }
        }
    }

    /// Looks whether the state's disk answers, until the node stops. Everything else that does may
    /// wait for it.
    pub async fn watch_state(&self) {
        loop {
            tokio::time::sleep(PERIOD).await;
            self.look_at_state();
        }
    }

    /// Finds out whether changes can be remembered, which shows in the state itself.
    pub(in crate::control) async fn probe_state(&self) {
        let state = Arc::clone(&self.state);
        let _ = tokio::task::spawn_blocking(move || state.probe()).await;
        self.look_at_state();
    }

    /// Whether it worked.
    async fn write_endpoints(&self, directory: &Path, endpoints: &Endpoints) -> bool {
        let (endpoints, directory) = (endpoints.clone(), directory.to_owned());
        let write = move || {
            let written = endpoints.write(&directory);
            if written.is_err() {
                // Better none than one of a process that has ended.
                Endpoints::remove(&directory);
            }
            written
        };
        let problem = match tokio::task::spawn_blocking(write).await {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error.to_string()),
            Err(panicked) => Some(panicked.to_string()),
        };
        let problem = problem.map(|reason| format!("endpoints.json cannot be written: {reason}"));
        let written = problem.is_none();
        self.note_problem(Means::Endpoints, problem);
        written
    }
}
