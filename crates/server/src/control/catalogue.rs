//! [`Catalogue`]: what the node knows, changed by one at a time and seen by all meanwhile.
//!
//! A change may take long: it waits for drives, for a checkpoint, for another host to let go of a
//! pool, for the disk of the state. Whoever only asks is answered from what there was before it,
//! and waits for nobody.

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex as BlockingMutex, PoisonError};

use api::Name;
use tokio::sync::{Mutex, MutexGuard};

/// Objects by name. Copies share them until one of the copies is changed.
#[derive(Debug)]
pub(super) struct Shared<T>(Arc<BTreeMap<Name, T>>);

impl<T> Default for Shared<T> {
    fn default() -> Shared<T> {
        Shared(Arc::default())
    }
}

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Shared<T> {
        Shared(Arc::clone(&self.0))
    }
}

impl<T> From<BTreeMap<Name, T>> for Shared<T> {
    fn from(objects: BTreeMap<Name, T>) -> Shared<T> {
        Shared(Arc::new(objects))
    }
}

impl<T> Deref for Shared<T> {
    type Target = BTreeMap<Name, T>;

    fn deref(&self) -> &BTreeMap<Name, T> {
        &self.0
    }
}

impl<T: Clone> DerefMut for Shared<T> {
    fn deref_mut(&mut self) -> &mut BTreeMap<Name, T> {
        Arc::make_mut(&mut self.0)
    }
}

/// Something that can be changed, such as everything that exists.
pub(super) struct Catalogue<T> {
    working: Mutex<T>,
    /// As it was when nothing was being changed for the last time.
    seen: BlockingMutex<Arc<T>>,
}

impl<T: Clone> Catalogue<T> {
    pub fn new(now: T) -> Catalogue<T> {
        Catalogue {
            seen: BlockingMutex::new(Arc::new(now.clone())),
            working: Mutex::new(now),
        }
    }

    /// Waits for the changes before this one.
    pub async fn change(&self) -> Changing<'_, T> {
        Changing {
            working: self.working.lock().await,
            seen: &self.seen,
        }
    }

    /// The same, unless something is being changed.
    pub fn try_change(&self) -> Option<Changing<'_, T>> {
        let working = self.working.try_lock().ok()?;
        Some(Changing {
            working,
            seen: &self.seen,
        })
    }

    /// All of it as it was before the change that is under way, if one is.
    pub fn seen(&self) -> Arc<T> {
        Arc::clone(&self.seen.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The right to change all of it. What was changed is seen by others when this is dropped, which
/// is before its client is answered.
pub(super) struct Changing<'a, T: Clone> {
    working: MutexGuard<'a, T>,
    seen: &'a BlockingMutex<Arc<T>>,
}

impl<T: Clone> Deref for Changing<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.working
    }
}

impl<T: Clone> DerefMut for Changing<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.working
    }
}

impl<T: Clone> Drop for Changing<'_, T> {
    fn drop(&mut self) {
        let now = Arc::new(self.working.clone());
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = now;
    }
}

#[cfg(test)]
mod tests {
    use api::HostSpec;

    use super::*;
    use crate::control::Objects;

    #[tokio::test]
    async fn what_is_being_changed_is_seen_as_it_was_until_it_is_done() {
        let catalogue = Catalogue::new(Objects::default());
        let host = HostSpec {
            nqn: "nqn.2014-08.org.nvmexpress:uuid:x".into(),
            tenant: None,
        };
        let mut changing = catalogue.change().await;
        changing.hosts.insert("h".parse().unwrap(), host);
        assert!(catalogue.try_change().is_none());
        let before = catalogue.seen();
        assert!(before.hosts.is_empty());
        drop(changing);
        assert!(before.hosts.is_empty(), "what was seen stays as it was");
        let after = catalogue.seen();
        assert_eq!(after.hosts.len(), 1);
        drop(catalogue.try_change().unwrap());
        assert!(Arc::ptr_eq(&after.hosts.0, &catalogue.seen().hosts.0));
    }
}
