//! [`View`]: a subsystem as one host has it, on this core.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use access::Nqn;

use crate::administration::Administration;
use crate::errors::Errors;
use crate::namespace::Namespace;
use crate::settings::SubsystemSettings;

/// What a host sees of a subsystem. Its controllers and queues look for namespaces here and nowhere
/// else, so one that is not here does not exist for them.
pub(crate) struct View<D> {
    pub settings: Rc<SubsystemSettings>,
    pub host: Nqn,
    /// What the host administers, where the subsystem is a drive.
    pub drive: Option<Rc<dyn Administration>>,
    pub namespaces: RefCell<BTreeMap<u32, Rc<Namespace<D>>>>,
    /// How often its list of namespaces has changed.
    changes: Cell<u64>,
    /// A namespace was taken from it: commands that found theirs earlier look again.
    has_lost: Cell<bool>,
    /// Of all hosts of the subsystem.
    pub errors: Rc<Errors>,
}

impl<D> View<D> {
    pub fn new(
        settings: Rc<SubsystemSettings>,
        host: Nqn,
        drive: Option<Rc<dyn Administration>>,
        errors: Rc<Errors>,
    ) -> View<D> {
        View {
            settings,
            host,
            drive,
            namespaces: RefCell::default(),
            changes: Cell::new(0),
            has_lost: Cell::new(false),
            errors,
        }
    }

    pub fn namespace(&self, nsid: u32) -> Option<Rc<Namespace<D>>> {
        self.namespaces.borrow().get(&nsid).cloned()
    }

    /// Has the host see this namespace under that number, or none; true if that is a change.
    pub fn put(&self, nsid: u32, namespace: Option<Rc<Namespace<D>>>) -> bool {
        let mut namespaces = self.namespaces.borrow_mut();
        let is_seen = namespace.is_some();
        let before = match namespace {
            Some(namespace) => namespaces.insert(nsid, namespace),
            None => namespaces.remove(&nsid),
        };
        let is_lost = before.is_some() && !is_seen;
        self.has_lost.set(self.has_lost.get() || is_lost);
        let is_change = before.is_some() != is_seen;
        self.changes.set(self.changes.get() + u64::from(is_change));
        is_change
    }

    /// How often its list of namespaces has changed.
    pub fn changes(&self) -> u64 {
        self.changes.get()
    }

    /// Whether the host still sees a namespace that it saw when a command of it came.
    pub fn still_has(&self, namespace: &Rc<Namespace<D>>) -> bool {
        let is_this = |found: &Rc<Namespace<D>>| Rc::ptr_eq(found, namespace);
        let nsid = namespace.settings.nsid;
        !self.has_lost.get() || self.namespaces.borrow().get(&nsid).is_some_and(is_this)
    }
}
