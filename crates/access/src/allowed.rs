//! [`AllowedHosts`]: which hosts may use a subsystem.

use std::collections::BTreeSet;

use crate::Nqn;

/// Which hosts may connect to a subsystem, and see it in discovery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AllowedHosts {
    /// Every host.
    Any,
    /// These hosts and no other; an empty list admits nobody.
    List(BTreeSet<Nqn>),
}

impl AllowedHosts {
    /// A list of these hosts.
    pub fn list(hosts: impl IntoIterator<Item = Nqn>) -> AllowedHosts {
        AllowedHosts::List(hosts.into_iter().collect())
    }

    /// True when `host` may connect.
    pub fn admits(&self, host: &Nqn) -> bool {
        match self {
            AllowedHosts::Any => true,
            AllowedHosts::List(hosts) => hosts.contains(host),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_listed_hosts_are_admitted() {
        let one: Nqn = "nqn.2024-01.io.flashyard:host1".parse().unwrap();
        let other: Nqn = "nqn.2024-01.io.flashyard:host2".parse().unwrap();
        let allowed = AllowedHosts::list([one.clone()]);
        assert!(allowed.admits(&one) && !allowed.admits(&other));
        assert!(AllowedHosts::Any.admits(&other));
        assert!(!AllowedHosts::list([]).admits(&one));
    }
}
