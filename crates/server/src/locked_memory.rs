//! [`LockedMemory`]: what ports of RDMA lock, beside what this process may lock.

use std::fmt;

use api::Size;
use node::TargetSettings;
use rustix::process::{Resource, getrlimit};
use rustix::thread::{CapabilitySet, capabilities};

/// Entries of an I/O queue as Linux asks for them.
const QUEUE_ENTRIES: u32 = 128;

/// I/O queues of a host that the limit has to suffice for: one for each processor of a small one.
const HOST_QUEUES: u64 = 8;

/// Bytes that are locked, and those that may be.
pub struct LockedMemory {
    queue: u64,
    transfers: u64,
    /// None: any amount.
    allowed: Option<u64>,
}

impl LockedMemory {
    /// What this process may lock by its limit and its capabilities.
    pub fn of_this_process() -> LockedMemory {
        let any =
            capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::IPC_LOCK));
        let limit = getrlimit(Resource::Memlock).current;
        LockedMemory::with(limit.filter(|_| !any))
    }

    fn with(allowed: Option<u64>) -> LockedMemory {
        let settings = TargetSettings::default();
        LockedMemory {
            queue: settings.rdma_queue_bytes(QUEUE_ENTRIES),
            transfers: settings.data_bytes_max as u64,
            allowed,
        }
    }

    /// Whether queues of one host take more than may be locked.
    pub fn is_too_little(&self) -> bool {
        let needed = self.queue * HOST_QUEUES;
        self.allowed.is_some_and(|allowed| allowed < needed)
    }
}

impl fmt::Display for LockedMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (queue, transfers) = (Size(self.queue), Size(self.transfers));
        write!(
            f,
            "RDMA locks {queue} of memory for each I/O queue of {QUEUE_ENTRIES} entries, and up to \
             {transfers} on each core for transfers; this process may lock "
        )?;
        match self.allowed {
            None => f.write_str("any amount"),
            Some(allowed) => write!(f, "{} (LimitMEMLOCK, ulimit -l)", Size(allowed)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_too_little_only_below_the_queues_of_a_small_host() {
        let needed = HOST_QUEUES * LockedMemory::with(None).queue;
        assert!(!LockedMemory::with(None).is_too_little());
        assert!(!LockedMemory::with(Some(needed)).is_too_little());
        assert!(LockedMemory::with(Some(needed - 1)).is_too_little());
    }

    #[test]
    fn what_is_locked_and_what_may_be_is_said_in_bytes() {
        let said = LockedMemory::with(Some(8 << 20)).to_string();
        assert!(said.contains("this process may lock 8 MiB"), "{said}");
        assert!(said.contains("up to 1 GiB on each core"), "{said}");
    }
}
