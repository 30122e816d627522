//! [`View`]: a subsystem as one host has it, on this core.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use access::Nqn;
use nvme::Status;
use nvme::command::ALL_NAMESPACES;

use crate::administration::Administration;
use crate::errors::Errors;
use crate::namespace::Namespace;
use crate::paths::{AnaGroupId, Paths};
use crate::settings::SubsystemSettings;

/// What a host sees of a subsystem. Its controllers and queues look for namespaces here and nowhere
/// else, so one that is not here does not exist for them.
pub(crate) struct View<D> {
    pub settings: Rc<SubsystemSettings>,
    pub host: Nqn,
    /// What the host administers, where the subsystem is a drive.
    pub drive: Option<Rc<dyn Administration>>,
    pub namespaces: RefCell<BTreeMap<u32, Rc<Namespace<D>>>>,
    /// How often the list of namespaces has changed of each group that it has, or had.
    changes: RefCell<BTreeMap<AnaGroupId, u64>>,
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
        namespaces: BTreeMap<u32, Rc<Namespace<D>>>,
    ) -> View<D> {
        let groups = namespaces.values().map(|seen| (seen.settings.group, 0));
        View {
            changes: RefCell::new(groups.collect()),
            settings,
            host,
            drive,
            namespaces: RefCell::new(namespaces),
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
        let group = namespace.as_ref().map(|seen| seen.settings.group);
        let before = match namespace {
            Some(namespace) => namespaces.insert(nsid, namespace),
            None => namespaces.remove(&nsid),
        };
        let is_lost = before.is_some() && !is_seen;
        self.has_lost.set(self.has_lost.get() || is_lost);
        let is_change = before.is_some() != is_seen;
        let group = group.or(before.map(|seen| seen.settings.group));
        if let Some(group) = group.filter(|_| is_change) {
            *self.changes.borrow_mut().entry(group).or_default() += 1;
        }
        is_change
    }

    /// How often the list of namespaces has changed of each group that it has, or had.
    pub fn changes(&self) -> BTreeMap<AnaGroupId, u64> {
        self.changes.borrow().clone()
    }

    /// True when the host sees a namespace of such a group.
    pub fn sees_any(&self, group: impl Fn(AnaGroupId) -> bool) -> bool {
        let namespaces = self.namespaces.borrow();
        namespaces.values().any(|seen| group(seen.settings.group))
    }

    /// The status of commands for a namespace that are not executed on this path; of those for all
    /// (FFFFFFFFh) where one of them is in such a state (NVMe 2.1 §8.1.1.10).
    pub fn refusal(&self, nsid: u32, paths: &Paths) -> Option<Status> {
        if !paths.refuses() {
            return None;
        }
        let of = |seen: &Rc<Namespace<D>>| paths.state_of(seen.settings.group).refusal();
        let namespaces = self.namespaces.borrow();
        match nsid {
            ALL_NAMESPACES => namespaces.values().find_map(of),
            nsid => namespaces.get(&nsid).and_then(of),
        }
    }

    /// Whether the host still sees a namespace that it saw when a command of it came.
    pub fn still_has(&self, namespace: &Rc<Namespace<D>>) -> bool {
        let is_this = |found: &Rc<Namespace<D>>| Rc::ptr_eq(found, namespace);
        let nsid = namespace.settings.nsid;
        !self.has_lost.get() || self.namespaces.borrow().get(&nsid).is_some_and(is_this)
    }
}
