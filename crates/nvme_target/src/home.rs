//! Messages between the cores: a controller lives where its admin queue is, its I/O queues may be
//! elsewhere. Only connecting, closing, resets, aborts, rules, signs of life and the
//! locks of Compare and Write cross; never an I/O command.

use std::cmp::Reverse;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use access::Nqn;
use nvme::Status;
use nvme::fabrics::{CONTROLLER_ID_MAX, InvalidParameter};
use nvme::log::ErrorEntry;
use reactor::mailbox;

use crate::errors::ERROR_LOG_ENTRIES;
use crate::identities::Identities;
use crate::instance::{Impacted, Instance};
use crate::lock::Blocks;
use crate::report::{Fault, RefusalReason};
use crate::reservation::HostId;
use crate::rules::Asked;
use crate::rules::shared::News;

/// The core that decides on rules of namespaces, and who has blocks to himself.
pub(crate) const OWNER: u16 = 0;

/// Messages that may wait at one core.
const MAILBOX_MESSAGES: usize = 1024;

/// Where an I/O queue's connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QueuePlace {
    pub core: u16,
    pub session: u64,
}

/// Connect of an I/O queue, for the controller's core to decide.
#[derive(Clone, Debug)]
pub(crate) struct AttachRequest {
    pub controller_id: u16,
    pub queue_id: u16,
    pub host_nqn: Nqn,
    pub host_id: [u8; 16],
    pub subsystem_nqn: Nqn,
    pub place: QueuePlace,
    /// It joins now; otherwise it only asks whether it might, and joins once its host has proved
    /// who it is.
    pub joins: bool,
}

/// What an I/O queue learns of the controller that it joins.
#[derive(Clone, Debug)]
pub(crate) struct Joined {
    pub instance: Instance,
    pub behaviour: Behaviour,
}

/// Why a Connect is refused.
///
/// Do Not Retry makes hosts give a volume up for good (Linux from 6.10 on deletes the controller),
/// so only what no passing of time mends says it: `docs/decisions/connecting.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub status: Status,
    pub parameter: Option<InvalidParameter>,
    pub reason: RefusalReason,
}

impl Refusal {
    /// The host is to come again later.
    pub const fn passing(status: Status, reason: RefusalReason) -> Refusal {
        Refusal {
            status,
            parameter: None,
            reason,
        }
    }

    /// The host need not come again as it is.
    pub fn lasting(status: Status, reason: RefusalReason) -> Refusal {
        Refusal::passing(status.do_not_retry(), reason)
    }

    /// This part of the data will not do.
    pub fn in_data(offset: u16, reason: RefusalReason) -> Refusal {
        Refusal {
            parameter: Some(InvalidParameter {
                offset,
                in_data: true,
            }),
            ..Refusal::lasting(Status::CONNECT_INVALID_PARAMETERS, reason)
        }
    }

    /// This part of the command is not as the specification wants it.
    pub fn in_command(offset: u16, fault: Fault) -> Refusal {
        Refusal {
            parameter: Some(InvalidParameter {
                offset,
                in_data: false,
            }),
            ..Refusal::malformed(Status::CONNECT_INVALID_PARAMETERS, fault)
        }
    }

    pub fn malformed(status: Status, fault: Fault) -> Refusal {
        Refusal::lasting(status, RefusalReason::Malformed(fault))
    }

    /// What this part of the data names is not there now, and may be later.
    pub const fn absent(offset: u16, reason: RefusalReason) -> Refusal {
        Refusal {
            parameter: Some(InvalidParameter {
                offset,
                in_data: true,
            }),
            ..Refusal::passing(Status::CONNECT_INVALID_PARAMETERS, reason)
        }
    }
}

/// What hosts did to a subsystem, or to one namespace of it, on one core or on several.
#[derive(Clone, Debug, Default)]
pub(crate) struct Account {
    pub reads: u64,
    pub read_bytes: u64,
    pub writes: u64,
    pub write_bytes: u64,
    /// The error log, newest first.
    pub errors: Vec<ErrorEntry>,
    pub error_count: u64,
}

impl Account {
    /// Adds what another core has.
    pub fn add(&mut self, other: Account) {
        self.reads += other.reads;
        self.read_bytes += other.read_bytes;
        self.writes += other.writes;
        self.write_bytes += other.write_bytes;
        self.error_count += other.error_count;
        self.errors.extend(other.errors);
        self.errors
            .sort_by_key(|entry| Reverse(entry.error_count.get()));
        self.errors.truncate(ERROR_LOG_ENTRIES);
    }
}

/// What a host has said of itself (Host Behavior Support). Its controller's core sets it; the cores
/// of its queues look when it matters.
#[derive(Clone, Debug, Default)]
pub(crate) struct Behaviour(Arc<AtomicU8>);

impl Behaviour {
    /// It waits as it is told before it sends a command again (ACRE).
    const KEEPS_DELAYS: u8 = 1 << 0;
    /// It has enabled Copy from other namespaces than the one that is written (CDF2E).
    const COPIES_FROM_OTHERS: u8 = 1 << 1;

    pub fn set(&self, keeps_delays: bool, copies_from_others: bool) {
        let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
        let flags = flag(keeps_delays, Behaviour::KEEPS_DELAYS)
            | flag(copies_from_others, Behaviour::COPIES_FROM_OTHERS);
        self.0.store(flags, Ordering::Relaxed);
    }

    pub fn keeps_delays(&self) -> bool {
        self.0.load(Ordering::Relaxed) & Behaviour::KEEPS_DELAYS != 0
    }

    pub fn copies_from_others(&self) -> bool {
        self.0.load(Ordering::Relaxed) & Behaviour::COPIES_FROM_OTHERS != 0
    }
}

/// What comes of something that another core was asked for.
pub(crate) type Done = Result<(), Status>;

/// What one core tells another.
#[derive(Debug)]
pub(crate) enum Message {
    /// May this queue join?
    Attach { token: u64, request: AttachRequest },
    /// The answer.
    Attached {
        token: u64,
        result: Result<Joined, Refusal>,
    },
    /// What was done with your part of what a host sees of this subsystem?
    Account {
        token: u64,
        from: u16,
        subsystem_nqn: Nqn,
        host_nqn: Nqn,
        /// One namespace, or all.
        nsid: Option<u32>,
    },
    /// The answer.
    Accounted { token: u64, account: Account },
    /// This queue's connection is gone.
    Detach {
        controller_id: u16,
        queue_id: u16,
        place: QueuePlace,
    },
    /// Close this connection: its controller is gone.
    Close { session: u64 },
    /// End this controller: its host broke the rules.
    Abandon { controller_id: u16 },
    /// End this controller: its host says so through another one.
    Reset {
        token: u64,
        from: u16,
        impacted: Impacted,
    },
    /// Say when no command of this controller, which has ended, is under way at your place.
    Quiesce {
        token: u64,
        from: u16,
        instance: Instance,
    },
    /// End every controller that this host has in a subsystem: it has asked for that.
    ResetSubsystem {
        subsystem_nqn: Nqn,
        host: (HostId, Nqn),
    },
    /// A host asks for a change of a namespace's rules.
    Ask {
        token: u64,
        from: u16,
        subsystem_nqn: Nqn,
        nsid: u32,
        host: HostId,
        name: Nqn,
        asked: Asked,
    },
    /// Go by these rules from now on, and say so.
    Rules { token: u64, from: u16, news: News },
    /// Hold back commands that overlap these blocks, and say so once those that began earlier have
    /// ended.
    Lock {
        token: u64,
        from: u16,
        blocks: Blocks,
    },
    /// Abort this command of that connection, and say whether it has ended for that.
    Abort {
        token: u64,
        from: u16,
        session: u64,
        command_id: u16,
    },
    /// The answer to any of these.
    Done { token: u64, result: Done },
    /// What you hold back for me may go on.
    Unlock { token: u64, from: u16 },
    /// An I/O queue of this controller had traffic.
    Traffic { controller_id: u16 },
}

/// One core's ends of the mailboxes between the targets of a process.
pub struct Links {
    pub(crate) index: u16,
    pub(crate) others: Vec<mailbox::Sender<Message>>,
    pub(crate) inbox: mailbox::Receiver<Message>,
    pub(crate) identities: Identities,
    pub(crate) node: NodeIdentity,
}

impl Links {
    /// Links for this many cores, at least one and at most 1024: `links[i]` is for core `i`. Their
    /// node is the only one.
    pub fn connect(cores: usize) -> Vec<Links> {
        Links::of_node(cores, &NodeIdentity::default())
    }

    /// The same for a node among others.
    pub fn of_node(cores: usize, node: &NodeIdentity) -> Vec<Links> {
        let cores = cores.clamp(1, 1024);
        let (senders, receivers): (Vec<_>, Vec<_>) = (0..cores)
            .map(|_| mailbox::channel(MAILBOX_MESSAGES))
            .unzip();
        let identities = Identities::default();
        receivers
            .into_iter()
            .enumerate()
            .map(|(index, inbox)| Links {
                index: index as u16,
                others: senders.clone(),
                inbox,
                identities: identities.clone(),
                node: node.clone(),
            })
            .collect()
    }

    /// How many cores there are.
    pub fn cores(&self) -> usize {
        self.others.len()
    }
}

/// What tells a node from others to a host that knows several.
#[derive(Clone, Debug)]
pub struct NodeIdentity {
    /// Identifiers of its controllers.
    pub controller_ids: ControllerIds,
    /// NQN of its discovery subsystem. Without one it has the well-known NQN alone, as others have.
    pub discovery_nqn: Option<Nqn>,
}

impl Default for NodeIdentity {
    fn default() -> NodeIdentity {
        NodeIdentity {
            controller_ids: ControllerIds::ALL,
            discovery_nqn: None,
        }
    }
}

/// Identifiers that a node gives its controllers. Nodes that serve one subsystem give different
/// ones: for a host, controllers of one identifier are one controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ControllerIds {
    first: u16,
    last: u16,
}

impl ControllerIds {
    /// Every one that a controller may have.
    pub const ALL: ControllerIds = ControllerIds {
        first: 1,
        last: CONTROLLER_ID_MAX,
    };

    /// From `first` to `last`, both included; `None` where that is no range of
    /// [`ControllerIds::ALL`].
    pub fn new(first: u16, last: u16) -> Option<ControllerIds> {
        let all = ControllerIds::ALL;
        let is_range = all.first <= first && first <= last && last <= all.last;
        is_range.then_some(ControllerIds { first, last })
    }

    /// How many there are.
    pub fn count(self) -> u16 {
        self.last - self.first + 1
    }

    /// Whether one is among them.
    pub(crate) fn contains(self, controller_id: u16) -> bool {
        (self.first..=self.last).contains(&controller_id)
    }
}

/// Controller identifiers name their core: first + core + cores * n.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Identifiers {
    pub index: u16,
    pub cores: u16,
    pub ids: ControllerIds,
}

impl Identifiers {
    /// The core that a controller lives on.
    pub fn core_of(self, controller_id: u16) -> u16 {
        controller_id.wrapping_sub(self.ids.first) % self.cores
    }

    /// The identifier after `last` on this core, going round, if it has any.
    pub fn after(self, last: u16) -> Option<u16> {
        let first = self.ids.first.checked_add(self.index);
        let first = first.filter(|first| *first <= self.ids.last)?;
        match last.checked_add(self.cores) {
            Some(next) if last >= first && next <= self.ids.last => Some(next),
            _ => Some(first),
        }
    }

    /// A number for this core's error `count` that rises and that no other core gives.
    pub fn error_number(self, count: u64) -> u64 {
        (count - 1) * u64::from(self.cores) + u64::from(self.index) + 1
    }

    /// How many identifiers this core has.
    pub fn count(self) -> u16 {
        let beyond_first = (self.ids.count() - 1).checked_sub(self.index);
        beyond_first.map_or(0, |beyond| beyond / self.cores + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every identifier names its core, none is outside the node's range, and all are used before
    /// one is used again.
    #[test]
    fn controller_identifiers_name_their_core() {
        let ranges = [
            (1, CONTROLLER_ID_MAX),
            (1, 32767),
            (32768, 65519),
            (7, 1030),
        ];
        for (first, last) in ranges {
            let ids = ControllerIds::new(first, last).unwrap();
            for cores in [1, 2, 3, 64, 1024] {
                let mut seen = std::collections::BTreeSet::new();
                for index in 0..cores {
                    let identifiers = Identifiers { index, cores, ids };
                    let mut id = 0;
                    for _ in 0..identifiers.count() {
                        id = identifiers.after(id).unwrap();
                        assert!((first..=last).contains(&id));
                        assert_eq!(identifiers.core_of(id), index);
                        assert!(seen.insert(id), "{id} comes twice");
                    }
                    assert_eq!(identifiers.after(id), Some(first + index));
                }
                assert_eq!(seen.len(), usize::from(ids.count()));
            }
        }
    }

    /// A core for which no identifier is left has none, and takes no other's.
    #[test]
    fn a_range_is_never_exceeded() {
        let ids = ControllerIds::new(65_518, CONTROLLER_ID_MAX).unwrap();
        let of = |index| Identifiers {
            index,
            cores: 4,
            ids,
        };
        assert_eq!(
            (of(1).count(), of(1).after(0)),
            (1, Some(CONTROLLER_ID_MAX))
        );
        assert_eq!((of(2).count(), of(2).after(0)), (0, None));
        assert_eq!(of(1).after(CONTROLLER_ID_MAX), Some(CONTROLLER_ID_MAX));
        for (first, last) in [(0, 9), (9, 8), (1, 0xfff0)] {
            assert_eq!(ControllerIds::new(first, last), None);
        }
    }
}
