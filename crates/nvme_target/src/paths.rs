//! [`Paths`]: how good a path a port is to each ANA group (NVMe 2.1 §8.1.1).

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use nvme::Status;
use nvme::log::AnaState;

/// ANATT: how long a group may be in [`PathState::Change`]. Hosts give a path up that is in it for
/// twice as long.
pub const TRANSITION: Duration = Duration::from_secs(10);

/// Groups of one subsystem at most, which hosts make room for (NANAGRPID). What tools make room for
/// they read in pieces of 4 KiB, and no piece may begin beyond the end of a short log.
pub const GROUPS_MAX: usize = 127;

/// ANAGRPID: namespaces that change state together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AnaGroupId(u32);

impl AnaGroupId {
    /// Of namespaces that are no pool's.
    pub const POOLLESS: AnaGroupId = AnaGroupId(1);
    /// The largest (ANAGRPMAX).
    pub(crate) const MAX: AnaGroupId = AnaGroupId(u32::MAX);

    /// Of a pool with this identity, wherever the pool is served: the first four bytes, which are
    /// random. Two pools whose bytes are the same are one group.
    pub fn of_pool(identity: [u8; 16]) -> AnaGroupId {
        let [first, second, third, fourth, ..] = identity;
        let number = u32::from_be_bytes([first, second, third, fourth]);
        AnaGroupId(number.max(AnaGroupId::POOLLESS.0 + 1))
    }

    /// The number that hosts see.
    pub fn number(self) -> u32 {
        self.0
    }
}

/// How good a path a port is to the namespaces of a group; the best first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PathState {
    /// As good as any.
    #[default]
    Optimized,
    /// To be used where no optimized path is left.
    NonOptimized,
    /// Between two others, for [`TRANSITION`] at most: hosts wait, or go another way.
    Change,
    /// Not to be used: hosts keep their connections, and their I/O goes another way or waits.
    Inaccessible,
    /// As inaccessible, and for good: no connection that was told so gets another state.
    PersistentLoss,
}

impl PathState {
    /// As the ANA log says it.
    pub(crate) fn ana(self) -> AnaState {
        match self {
            PathState::Optimized => AnaState::OPTIMIZED,
            PathState::NonOptimized => AnaState::NON_OPTIMIZED,
            PathState::Change => AnaState::CHANGE,
            PathState::Inaccessible => AnaState::INACCESSIBLE,
            PathState::PersistentLoss => AnaState::PERSISTENT_LOSS,
        }
    }

    /// The status of commands that are not executed in this state. Without Do Not Retry: hosts are
    /// to try them on another path.
    pub(crate) fn refusal(self) -> Option<Status> {
        match self {
            PathState::Optimized | PathState::NonOptimized => None,
            PathState::Change => Some(Status::ANA_TRANSITION),
            PathState::Inaccessible => Some(Status::ANA_INACCESSIBLE),
            PathState::PersistentLoss => Some(Status::ANA_PERSISTENT_LOSS),
        }
    }

    /// In which what a namespace holds is not told either (Figure 589, Identify).
    pub(crate) fn hides_capacity(self) -> bool {
        matches!(self, PathState::Inaccessible | PathState::PersistentLoss)
    }
}

/// The states of one port: one for all groups, but for those that have one of their own.
#[derive(Default)]
pub(crate) struct Paths {
    common: Cell<PathState>,
    common_changes: Cell<u64>,
    own: RefCell<BTreeMap<AnaGroupId, Own>>,
    /// Some state refuses commands.
    refuses: Cell<bool>,
}

/// What is known of a group that has, or had, a state of its own.
struct Own {
    state: Option<PathState>,
    /// How often the group's state has changed, whatever changed it.
    changes: u64,
}

/// Groups that are in another state than before.
pub(crate) struct Changed {
    /// The state that they were in.
    pub from: PathState,
    groups: Groups,
}

enum Groups {
    One(AnaGroupId),
    AllBut(BTreeSet<AnaGroupId>),
}

impl Changed {
    pub fn concerns(&self, group: AnaGroupId) -> bool {
        match &self.groups {
            Groups::One(one) => *one == group,
            Groups::AllBut(others) => !others.contains(&group),
        }
    }
}

impl Paths {
    pub fn state_of(&self, group: AnaGroupId) -> PathState {
        let own = self.own.borrow();
        let own = own.get(&group).and_then(|own| own.state);
        own.unwrap_or(self.common.get())
    }

    /// How often the state of a group has changed.
    pub fn changes_of(&self, group: AnaGroupId) -> u64 {
        let own = self.own.borrow();
        let own = own.get(&group).map(|own| own.changes);
        own.unwrap_or(self.common_changes.get())
    }

    /// True where commands for some group may be refused.
    pub fn refuses(&self) -> bool {
        self.refuses.get()
    }

    /// Gives every group that has none of its own this state.
    pub fn set_common(&self, state: PathState) -> Option<Changed> {
        let from = self.common.replace(state);
        if from == state {
            return None;
        }
        self.common_changes.set(self.common_changes.get() + 1);
        let mut others = BTreeSet::new();
        for (group, own) in self.own.borrow_mut().iter_mut() {
            match own.state {
                Some(_) => drop(others.insert(*group)),
                None => own.changes += 1,
            }
        }
        self.note_refusals();
        let groups = Groups::AllBut(others);
        Some(Changed { from, groups })
    }

    /// Gives a group a state of its own, or that of all others again.
    pub fn set_own(&self, group: AnaGroupId, state: Option<PathState>) -> Option<Changed> {
        let from = self.state_of(group);
        let changes = self.changes_of(group);
        let is_change = from != state.unwrap_or(self.common.get());
        let own = Own {
            state,
            changes: changes + u64::from(is_change),
        };
        self.own.borrow_mut().insert(group, own);
        self.note_refusals();
        let groups = Groups::One(group);
        is_change.then_some(Changed { from, groups })
    }

    fn note_refusals(&self) {
        let own = self.own.borrow();
        let mut states = own.values().filter_map(|own| own.state);
        let refuses = |state: PathState| state.refusal().is_some();
        self.refuses
            .set(refuses(self.common.get()) || states.any(refuses));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: AnaGroupId = AnaGroupId(7);
    const OTHER: AnaGroupId = AnaGroupId(9);

    fn states(paths: &Paths) -> [PathState; 2] {
        [paths.state_of(ONE), paths.state_of(OTHER)]
    }

    fn changes(paths: &Paths) -> [u64; 2] {
        [paths.changes_of(ONE), paths.changes_of(OTHER)]
    }

    /// Whether a change concerns either of the two, and what they were before.
    fn seen(changed: Option<Changed>) -> Option<(PathState, [bool; 2])> {
        let changed = changed?;
        Some((changed.from, [ONE, OTHER].map(|id| changed.concerns(id))))
    }

    #[test]
    fn a_group_has_its_own_state_until_it_follows_the_port_again() {
        use PathState::{Inaccessible, NonOptimized, Optimized};
        let paths = Paths::default();
        assert_eq!(states(&paths), [Optimized; 2]);
        assert!(!paths.refuses());
        let changed = seen(paths.set_common(NonOptimized));
        assert_eq!(changed, Some((Optimized, [true, true])));
        let changed = seen(paths.set_own(ONE, Some(Inaccessible)));
        assert_eq!(changed, Some((NonOptimized, [true, false])));
        assert_eq!(states(&paths), [Inaccessible, NonOptimized]);
        assert_eq!(changes(&paths), [2, 1]);
        assert!(paths.refuses());
        let changed = seen(paths.set_common(Optimized));
        assert_eq!(changed, Some((NonOptimized, [false, true])));
        assert_eq!(changes(&paths), [2, 2], "the one was not concerned");
        let changed = seen(paths.set_own(ONE, None));
        assert_eq!(changed, Some((Inaccessible, [true, false])));
        assert_eq!(states(&paths), [Optimized; 2]);
        assert!(!paths.refuses());
        let changed = seen(paths.set_common(Inaccessible));
        assert_eq!(changed, Some((Optimized, [true, true])));
        assert_eq!(changes(&paths), [4, 3]);
        assert!(paths.refuses());
    }

    /// What is said again, or says what holds already, is no change.
    #[test]
    fn what_a_group_has_already_is_no_change() {
        let paths = Paths::default();
        assert!(paths.set_common(PathState::Optimized).is_none());
        assert!(paths.set_own(ONE, None).is_none());
        assert!(paths.set_own(ONE, Some(PathState::Optimized)).is_none());
        let changed = seen(paths.set_common(PathState::Change));
        assert_eq!(changed, Some((PathState::Optimized, [false, true])));
        assert!(paths.set_own(OTHER, Some(PathState::Change)).is_none());
        assert_eq!(changes(&paths), [0, 1]);
    }

    #[test]
    fn pools_have_groups_of_their_own() {
        let mut identity = [0; 16];
        assert_eq!(AnaGroupId::of_pool(identity).number(), 2);
        identity[3] = 1;
        assert_ne!(AnaGroupId::of_pool(identity), AnaGroupId::POOLLESS);
        identity[..4].fill(0xff);
        assert_eq!(AnaGroupId::of_pool(identity), AnaGroupId::MAX);
        identity[..4].copy_from_slice(&[0x1a, 0x2b, 0x3c, 0x4d]);
        assert_eq!(AnaGroupId::of_pool(identity).number(), 0x1a2b_3c4d);
    }
}
