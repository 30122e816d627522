//! What keeps the node from remembering or telling. Hosts do not notice any of it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Mutex as BlockingMutex, MutexGuard, PoisonError};

use api::{ErrorBody, ErrorCode, Severity};

use crate::control::Control;
use crate::tokens::ADMIN_TOKEN_FILE;

/// Something that may not work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Means {
    /// What changes are remembered in.
    State,
    /// What says who changed what.
    AuditLog,
    /// What says where the node is reached.
    Endpoints,
    /// What it is managed through.
    Api,
    /// What figures are recorded in.
    History,
    /// What hosts find the node by.
    Announcements,
}

impl Means {
    /// What is said when it works again.
    fn works_again(self) -> &'static str {
        match self {
            Means::State => "the state can be written again: changes are made again",
            Means::AuditLog => "the audit log is written again",
            Means::Endpoints => "endpoints.json is written",
            Means::Api => "the REST API listens",
            Means::History => "the history of figures is written again",
            Means::Announcements => "hosts find the node by mDNS again",
        }
    }
}

/// What does not work now, and why.
#[derive(Default)]
pub(in crate::control) struct Problems(BlockingMutex<BTreeMap<Means, String>>);

impl Problems {
    /// In words, for people.
    pub fn in_words(&self) -> Vec<String> {
        self.map().values().cloned().collect()
    }

    /// The map is whole between any two statements.
    fn map(&self) -> MutexGuard<'_, BTreeMap<Means, String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Control {
    /// Notes what is wrong with something, or that nothing is. That it begins and that it ends are
    /// events.
    pub fn note_problem(&self, means: Means, problem: Option<String>) {
        let before = match &problem {
            Some(problem) => self.problems.map().insert(means, problem.clone()),
            None => self.problems.map().remove(&means),
        };
        match (before, problem) {
            (None, Some(problem)) => self.events.record(Severity::Error, "node", &problem),
            (Some(_), None) => {
                let message = means.works_again();
                self.events.record(Severity::Info, "node", message);
            }
            _ => {}
        }
    }

    /// Notes how the state is.
    pub(in crate::control) fn look_at_state(&self) {
        let problem = self.state.problem().map(|reason| {
            format!(
                "the state cannot be written, changes are refused, hosts are served on: {reason}"
            )
        });
        self.note_problem(Means::State, problem);
    }

    /// Refuses changes while the disk of the state does not answer: they would wait for it.
    pub fn check_state(&self) -> Result<(), ErrorBody> {
        match self.state.silence() {
            None => Ok(()),
            Some(silence) => {
                let message = format!("the state cannot be written, nothing is changed: {silence}");
                Err(ErrorBody::new(ErrorCode::NotReady, message))
            }
        }
    }

    /// Whether changes can be remembered.
    pub(in crate::control) fn is_state_written(&self) -> bool {
        !self.problems.map().contains_key(&Means::State)
    }

    /// Says it where a node that was there before has lost its state.
    pub(in crate::control) fn tell_if_begun_anew(&self, directory: &Path) {
        if self.state.is_new() && directory.join(ADMIN_TOKEN_FILE).exists() {
            let message = format!(
                "{} has a token of a former node and no state.redb: this is a new node, without \
                 drives, volumes and hosts",
                directory.display()
            );
            self.events.record(Severity::Warning, "node", &message);
        }
    }
}
