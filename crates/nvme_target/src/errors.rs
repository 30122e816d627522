//! [`Errors`]: the commands of a subsystem that its devices failed, on this core.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

use nvme::Status;
use nvme::log::ErrorEntry;
use zerocopy::FromZeros;

use crate::home::Identifiers;

/// Entries that the error log keeps.
pub(crate) const ERROR_LOG_ENTRIES: usize = 64;

/// A command that failed, for the error log.
pub(crate) struct Failure {
    pub queue_id: u16,
    pub command_id: u16,
    pub status: Status,
    pub namespace_id: u32,
    pub lba: u64,
}

/// The error log of a subsystem, of all its hosts.
pub(crate) struct Errors {
    identifiers: Identifiers,
    /// Newest first.
    entries: RefCell<VecDeque<ErrorEntry>>,
    count: Cell<u64>,
    reported: Cell<u64>,
}

impl Errors {
    pub fn new(identifiers: Identifiers) -> Errors {
        Errors {
            identifiers,
            entries: RefCell::default(),
            count: Cell::new(0),
            reported: Cell::new(0),
        }
    }

    /// Enters a failure of a device.
    pub fn record(&self, failure: &Failure) {
        let count = self.count.get() + 1;
        self.count.set(count);
        let mut entry = ErrorEntry::new_zeroed();
        entry.error_count = self.identifiers.error_number(count).into();
        entry.submission_queue = failure.queue_id.into();
        entry.command_id = failure.command_id.into();
        entry.status = failure.status.wire().into();
        entry.parameter = u16::MAX.into();
        entry.lba = failure.lba.into();
        entry.namespace_id = failure.namespace_id.into();
        entry.transport = nvme::log::TRANSPORT_TCP;
        let mut entries = self.entries.borrow_mut();
        entries.truncate(ERROR_LOG_ENTRIES - 1);
        entries.push_front(entry);
    }

    /// The entries of those namespaces that `are_seen`, newest first.
    pub fn of(&self, are_seen: impl Fn(u32) -> bool) -> Vec<ErrorEntry> {
        let entries = self.entries.borrow();
        let seen = |entry: &&ErrorEntry| are_seen(entry.namespace_id.get());
        entries.iter().filter(seen).copied().collect()
    }

    /// A namespace is gone: another one of its number is not to have its entries.
    pub fn forget(&self, nsid: u32) {
        let mut entries = self.entries.borrow_mut();
        entries.retain(|entry| entry.namespace_id.get() != nsid);
    }

    /// The namespace that failed last and the count of errors, if there are new ones since this
    /// was last asked.
    pub fn new_ones(&self) -> Option<(u32, u64)> {
        let count = self.count.get();
        if self.reported.replace(count) == count {
            return None;
        }
        let nsid = self.entries.borrow().front()?.namespace_id.get();
        Some((nsid, count))
    }
}
