//! [`HostIds`]: which host identifiers came under which names. Reservations know hosts by
//! identifier, so two hosts with one of them pass for one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use node::NO_HOST;

/// Identifiers that are remembered; a node has fewer hosts.
const IDS_MAX: usize = 4096;

/// Names of one identifier that are told.
const NAMES_MAX: usize = 8;

/// What hosts called themselves since the node started.
#[derive(Default)]
pub(in crate::control) struct HostIds {
    names: Mutex<BTreeMap<[u8; 16], BTreeSet<String>>>,
}

impl HostIds {
    /// Notes a host; gives another name under which the same identifier came, the first time.
    pub fn note(&self, id: [u8; 16], host: &str) -> Option<String> {
        // Many hosts have none, and reservations take no such host.
        if id == NO_HOST {
            return None;
        }
        let mut all = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= IDS_MAX && !all.contains_key(&id) {
            return None;
        }
        let names = all.entry(id).or_default();
        if names.len() >= NAMES_MAX || names.contains(host) {
            return None;
        }
        let other = names.first().cloned();
        names.insert(host.to_owned());
        other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identifier_under_a_second_name_is_told_once() {
        let ids = HostIds::default();
        assert_eq!(ids.note([1; 16], "a"), None);
        assert_eq!(ids.note([2; 16], "b"), None);
        assert_eq!(ids.note([1; 16], "a"), None);
        assert_eq!(ids.note([1; 16], "b"), Some("a".to_owned()));
        assert_eq!(ids.note([1; 16], "b"), None);
        assert_eq!(ids.note([1; 16], "c"), Some("a".to_owned()));
    }

    #[test]
    fn hosts_without_an_identifier_are_nobodys_twins() {
        let ids = HostIds::default();
        assert_eq!(ids.note([0; 16], "a"), None);
        assert_eq!(ids.note([0; 16], "b"), None);
    }
}
