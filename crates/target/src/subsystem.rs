//! [`Subsystem`]: namespaces under one name, on this core.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use access::{AllowedHosts, Nqn};
use block::BlockDevice;
use nvme::Status;
use nvme::log::ErrorEntry;
use zerocopy::FromZeros;

use crate::administration::Administration;
use crate::home::{Account, Identifiers};
use crate::in_flight::InFlight;
use crate::namespace::Namespace;
use crate::settings::SubsystemSettings;

/// Entries that the error log keeps.
pub(crate) const ERROR_LOG_ENTRIES: usize = 64;

/// A subsystem on this core.
pub(crate) struct Subsystem<D> {
    pub settings: SubsystemSettings,
    pub allowed: RefCell<AllowedHosts>,
    pub namespaces: RefCell<BTreeMap<u32, Rc<Namespace<D>>>>,
    /// What its hosts administer, where it is a drive.
    pub drive: Option<Rc<dyn Administration>>,
    /// Of a drive: what each host has attached, as a subsystem of the same name.
    parts: RefCell<BTreeMap<Nqn, Rc<Subsystem<D>>>>,
    identifiers: Identifiers,
    errors: RefCell<VecDeque<ErrorEntry>>,
    error_count: Cell<u64>,
    errors_reported: Cell<u64>,
}

/// A command that failed, for the error log.
pub(crate) struct Failure {
    pub queue_id: u16,
    pub command_id: u16,
    pub status: Status,
    pub namespace_id: u32,
    pub lba: u64,
}

impl<D: BlockDevice> Subsystem<D> {
    pub fn new(
        settings: SubsystemSettings,
        drive: Option<Rc<dyn Administration>>,
        identifiers: Identifiers,
    ) -> Subsystem<D> {
        Subsystem {
            drive,
            parts: RefCell::default(),
            identifiers,
            allowed: RefCell::new(settings.allowed.clone()),
            settings,
            namespaces: RefCell::new(BTreeMap::new()),
            errors: RefCell::new(VecDeque::new()),
            error_count: Cell::new(0),
            errors_reported: Cell::new(0),
        }
    }

    pub fn namespace(&self, id: u32) -> Option<Rc<Namespace<D>>> {
        self.namespaces.borrow().get(&id).cloned()
    }

    /// The commands in flight on a namespace, of all hosts that have it.
    pub fn in_flight(self: &Rc<Self>, id: u32) -> Option<Rc<InFlight>> {
        let parts = self.with_parts();
        let found = parts.iter().find_map(|part| part.namespace(id))?;
        Some(Rc::clone(&found.in_flight))
    }

    /// What `host`, which has been admitted, sees of it: all, or of a drive the part with what the
    /// host has attached. A part that nobody uses and that has nothing is given up by the way.
    pub fn of_host(self: &Rc<Self>, host: &Nqn) -> Rc<Subsystem<D>> {
        if self.drive.is_none() {
            return Rc::clone(self);
        }
        let mut parts = self.parts.borrow_mut();
        parts.retain(|name, part| name == host || part.is_wanted());
        let part = parts.entry(host.clone()).or_insert_with(|| {
            let (settings, drive) = (self.settings.clone(), self.drive.clone());
            Rc::new(Subsystem::new(settings, drive, self.identifiers))
        });
        Rc::clone(part)
    }

    /// Whether a part is in use or has something to tell.
    fn is_wanted(self: &Rc<Self>) -> bool {
        Rc::strong_count(self) > 1
            || !self.namespaces.borrow().is_empty()
            || self.error_count.get() > 0
    }

    /// The subsystem, then its hosts' parts.
    pub fn with_parts(self: &Rc<Self>) -> Vec<Rc<Subsystem<D>>> {
        let mut all = vec![Rc::clone(self)];
        all.extend(self.parts.borrow().values().cloned());
        all
    }

    /// Enters a failure of a device into the error log.
    pub fn record(&self, failure: Failure) {
        let count = self.error_count.get() + 1;
        self.error_count.set(count);
        let mut entry = ErrorEntry::new_zeroed();
        entry.error_count = self.identifiers.error_number(count).into();
        entry.submission_queue = failure.queue_id.into();
        entry.command_id = failure.command_id.into();
        entry.status = failure.status.wire().into();
        entry.parameter = u16::MAX.into();
        entry.lba = failure.lba.into();
        entry.namespace_id = failure.namespace_id.into();
        entry.transport = nvme::log::TRANSPORT_TCP;
        let mut errors = self.errors.borrow_mut();
        errors.truncate(ERROR_LOG_ENTRIES - 1);
        errors.push_front(entry);
    }

    /// The namespace that failed last and the count of errors, if there are new ones since this
    /// was last asked.
    pub fn new_errors(&self) -> Option<(u32, u64)> {
        let count = self.error_count.get();
        if self.errors_reported.replace(count) == count {
            return None;
        }
        let nsid = self.errors.borrow().front()?.namespace_id.get();
        Some((nsid, count))
    }

    /// What hosts did to it on this core; `nsid` asks for one namespace.
    pub fn account(&self, nsid: Option<u32>) -> Account {
        let mut account = Account {
            errors: self.errors.borrow().iter().copied().collect(),
            error_count: self.error_count.get(),
            ..Account::default()
        };
        for (id, namespace) in self.namespaces.borrow().iter() {
            if nsid.is_none_or(|nsid| nsid == *id) {
                let counters = &namespace.counters;
                account.reads += counters.read_latency.read().count();
                account.read_bytes += counters.read_bytes.get();
                account.writes += counters.write_latency.read().count();
                account.write_bytes += counters.write_bytes.get();
            }
        }
        for part in self.parts.borrow().values() {
            account.add(part.account(nsid));
        }
        account
    }
}
