//! [`Guests`]: which hosts may see which namespaces of a subsystem.

use std::collections::{BTreeMap, BTreeSet};

use access::{AllowedHosts, Nqn};

/// The lists of a subsystem's namespaces, found by host as well: a host that connects, and a change
/// of one list, cost what is concerned and not what there is.
#[derive(Debug, Default)]
pub(crate) struct Guests {
    lists: BTreeMap<u32, AllowedHosts>,
    /// Namespaces that every host may see.
    open: BTreeSet<u32>,
    /// Namespaces whose lists name a host.
    named: BTreeMap<Nqn, BTreeSet<u32>>,
}

impl Guests {
    /// These hosts, and no others, may see a namespace.
    pub fn set(&mut self, nsid: u32, allowed: AllowedHosts) {
        self.remove(nsid);
        match &allowed {
            AllowedHosts::Any => {
                self.open.insert(nsid);
            }
            AllowedHosts::List(hosts) => {
                for host in hosts {
                    self.named.entry(host.clone()).or_default().insert(nsid);
                }
            }
        }
        self.lists.insert(nsid, allowed);
    }

    /// No host may see a namespace.
    pub fn remove(&mut self, nsid: u32) {
        self.open.remove(&nsid);
        let Some(AllowedHosts::List(hosts)) = self.lists.remove(&nsid) else {
            return;
        };
        for host in hosts {
            if let Some(of_host) = self.named.get_mut(&host) {
                of_host.remove(&nsid);
                if of_host.is_empty() {
                    self.named.remove(&host);
                }
            }
        }
    }

    /// True when a host may see any namespace.
    pub fn admits(&self, host: &Nqn) -> bool {
        self.admits_anybody() || self.named.contains_key(host)
    }

    /// True when every host may see some namespace.
    pub fn admits_anybody(&self) -> bool {
        !self.open.is_empty()
    }

    /// True when the list of any namespace names a host.
    pub fn names(&self, host: &Nqn) -> bool {
        self.named.contains_key(host)
    }

    /// True when a host may see this namespace.
    pub fn sees(&self, host: &Nqn, nsid: u32) -> bool {
        let named = self.named.get(host);
        self.open.contains(&nsid) || named.is_some_and(|named| named.contains(&nsid))
    }

    /// The namespaces that a host may see; one may come twice.
    pub fn of<'a>(&'a self, host: &Nqn) -> impl Iterator<Item = u32> + 'a {
        let named = self.named.get(host).into_iter().flatten();
        self.open.iter().chain(named).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_found_by_namespace_and_by_host() {
        let host =
            |name: &str| -> Nqn { format!("nqn.2024-01.io.example:{name}").parse().unwrap() };
        let (one, two) = (host("one"), host("two"));
        let seen = |guests: &Guests, host: &Nqn| guests.of(host).collect::<BTreeSet<u32>>();
        let mut guests = Guests::default();
        guests.set(1, AllowedHosts::list([one.clone()]));
        guests.set(2, AllowedHosts::list([one.clone(), two.clone()]));
        guests.set(3, AllowedHosts::list([]));
        assert_eq!(seen(&guests, &one), BTreeSet::from([1, 2]));
        assert_eq!(seen(&guests, &two), BTreeSet::from([2]));
        assert!(guests.sees(&one, 1) && !guests.sees(&two, 1) && !guests.sees(&one, 3));

        guests.set(2, AllowedHosts::list([one.clone()]));
        assert!(!guests.admits(&two) && guests.admits(&one));
        guests.set(3, AllowedHosts::Any);
        assert_eq!(seen(&guests, &two), BTreeSet::from([3]));
        guests.remove(3);
        guests.remove(1);
        guests.remove(2);
        assert!(!guests.admits(&one) && guests.named.is_empty() && guests.lists.is_empty());
    }
}
