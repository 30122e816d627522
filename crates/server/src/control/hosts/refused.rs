//! [`Refused`]: when and why each host of the node was last refused.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use api::HostRefusal;

use crate::events::timestamp;

/// The last refusal of each host that the node knows by name. Anybody can be refused under any
/// name, so no others are kept.
#[derive(Default)]
pub(in crate::control) struct Refused {
    by_nqn: Mutex<BTreeMap<String, Option<HostRefusal>>>,
}

impl Refused {
    /// From now on the refusals of this host are kept.
    pub fn know(&self, nqn: &str) {
        self.all().entry(nqn.to_owned()).or_default();
    }

    /// The host is not the node's any more.
    pub fn forget(&self, nqn: &str) {
        self.all().remove(nqn);
    }

    /// A host was refused.
    pub fn note(&self, nqn: &str, remote: SocketAddr, subsystem: Option<&str>, reason: &str) {
        if let Some(last) = self.all().get_mut(nqn) {
            *last = Some(HostRefusal {
                time: timestamp(SystemTime::now()),
                remote: remote.to_string(),
                nqn: subsystem.map(str::to_owned),
                reason: reason.to_owned(),
            });
        }
    }

    /// When and why a host was last refused.
    pub fn last(&self, nqn: &str) -> Option<HostRefusal> {
        self.all().get(nqn).cloned().flatten()
    }

    /// The map is whole between any two statements.
    fn all(&self) -> MutexGuard<'_, BTreeMap<String, Option<HostRefusal>>> {
        self.by_nqn.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// However many names are made up, only those of the node's hosts are kept.
    #[test]
    fn the_latest_refusal_of_a_known_host_is_kept() {
        let refused = Refused::default();
        let address = "192.0.2.1:5".parse().unwrap();
        let note = |host: &str, reason| refused.note(host, address, Some("nqn.s"), reason);
        note("host", "early");
        assert_eq!(refused.last("host"), None);
        refused.know("host");
        note("host", "first");
        note("host", "second");
        (0..1000).for_each(|number| note(&format!("other{number}"), "unknown"));
        let last = refused.last("host").unwrap();
        assert_eq!(
            (last.reason.as_str(), last.nqn.as_deref()),
            ("second", Some("nqn.s"))
        );
        refused.know("host");
        assert_eq!(refused.last("host"), Some(last));
        assert_eq!(refused.all().len(), 1);
        refused.forget("host");
        assert_eq!(refused.last("host"), None);
    }
}
