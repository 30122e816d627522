//! [`Identities`]: which host each host identifier stands for while it is in use.
//!
//! Reservations know hosts by their identifiers, and an identifier is whatever a host says. So a
//! subsystem takes one under one name at a time: it belongs to the host that has controllers with
//! it, on any core.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use access::Nqn;

use crate::reservation::{HostId, NO_HOST};

type Key = (Nqn, HostId);

/// Identifiers in use, by subsystem; the cores of a node share them.
#[derive(Clone, Default)]
pub(crate) struct Identities(Arc<Mutex<Users>>);

#[derive(Default)]
struct Users {
    all: BTreeMap<Key, User>,
    last_number: u64,
}

/// Whose an identifier is.
struct User {
    host: Nqn,
    /// It has proved who it is.
    proven: bool,
    controllers: usize,
    /// Tells it from who had the identifier before.
    number: u64,
}

/// One controller's use of an identifier, which ends when this is dropped.
pub(crate) struct Use {
    identities: Identities,
    /// Nothing of a host that gave none.
    of: Option<(Key, u64)>,
}

impl Identities {
    /// Takes an identifier for a controller of `host`, which may have `proven` who it is; `None`
    /// while it is another host's. A proof takes it from a host that has proved nothing.
    pub fn take(&self, subsystem: &Nqn, id: HostId, (host, proven): (&Nqn, bool)) -> Option<Use> {
        let key = (id != NO_HOST).then(|| (subsystem.clone(), id));
        let of = match key {
            None => None,
            Some(key) => {
                let number = self.users().take(&key, host, proven)?;
                Some((key, number))
            }
        };
        Some(Use {
            identities: self.clone(),
            of,
        })
    }

    /// Nothing panics while it holds them, and they are whole even so.
    fn users(&self) -> MutexGuard<'_, Users> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Users {
    /// The number of who has the identifier now.
    fn take(&mut self, key: &Key, host: &Nqn, proven: bool) -> Option<u64> {
        match self.all.get_mut(key) {
            Some(user) if user.host == *host => {
                user.controllers += 1;
                user.proven |= proven;
                return Some(user.number);
            }
            Some(user) if user.proven || !proven => return None,
            _ => {}
        }
        self.last_number += 1;
        let user = User {
            host: host.clone(),
            proven,
            controllers: 1,
            number: self.last_number,
        };
        self.all.insert(key.clone(), user);
        Some(self.last_number)
    }

    fn leave(&mut self, key: &Key, number: u64) {
        let user = self.all.get_mut(key);
        let Some(user) = user.filter(|user| user.number == number) else {
            // It was taken from this one.
            return;
        };
        user.controllers -= 1;
        if user.controllers == 0 {
            self.all.remove(key);
        }
    }
}

impl Drop for Use {
    fn drop(&mut self) {
        if let Some((key, number)) = self.of.take() {
            self.identities.users().leave(&key, number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: bool = false;
    const PROVEN: bool = true;

    fn nqn(name: &str) -> Nqn {
        format!("nqn.2026-11.example:{name}").parse().unwrap()
    }

    #[test]
    fn an_identifier_is_one_hosts_until_its_last_controller_ends() {
        let [one, other, here, there] = ["one", "other", "here", "there"].map(nqn);
        let identities = Identities::default();
        let take = |at: &Nqn, id, host| identities.clone().take(at, id, (host, SAID));
        let (first, second) = (take(&here, [1; 16], &one), take(&here, [1; 16], &one));
        assert!(first.is_some() && second.is_some());
        drop(first);
        assert!(take(&here, [1; 16], &other).is_none());
        assert!(take(&here, [2; 16], &other).is_some());
        assert!(take(&there, [1; 16], &other).is_some());
        drop(second);
        assert!(take(&here, [1; 16], &other).is_some());
        let anonymous = [&one, &other].map(|host| take(&here, NO_HOST, host));
        assert!(anonymous.iter().all(Option::is_some));
        drop(anonymous);
        assert!(identities.users().all.is_empty());
    }

    /// Who says that it is somebody keeps nobody out who proves it.
    #[test]
    fn a_proof_takes_an_identifier_from_who_has_proved_nothing() {
        let [one, other, here] = ["one", "other", "here"].map(nqn);
        let identities = Identities::default();
        let take = |host, proven| identities.take(&here, [1; 16], (host, proven));
        let said = take(&other, SAID).unwrap();
        let proven = take(&one, PROVEN).unwrap();
        assert!(take(&other, SAID).is_none());
        assert!(take(&other, PROVEN).is_none());
        drop(said);
        assert!(take(&other, SAID).is_none());
        drop(proven);
        assert!(take(&other, SAID).is_some());
        assert!(identities.users().all.is_empty());
    }
}
