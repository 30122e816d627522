//! What is remembered of ports.

use std::collections::BTreeMap;

use api::PathState;
use node::AnaGroupId;
use serde::{Deserialize, Serialize};

/// What operators made of ports, by number.
pub type Paths = BTreeMap<u16, PathRecord>;

/// What an operator made of a port. It counts as long as the settings file has that address there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathRecord {
    /// The address, as the settings file says it.
    pub listen: String,
    /// How good a path it is to what has no state of its own.
    pub path: PathState,
    /// Of ANA groups that have a state of their own, by number.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub groups: BTreeMap<u32, PathState>,
}

impl PathRecord {
    /// Of a port of which nobody has said anything.
    pub fn of(listen: String) -> PathRecord {
        PathRecord {
            listen,
            path: PathState::default(),
            groups: BTreeMap::new(),
        }
    }

    /// How good a path it is to a group, or to those that have no state of their own.
    pub fn state_of(&self, group: Option<AnaGroupId>) -> PathState {
        let own = group.and_then(|group| self.groups.get(&group.number()));
        own.copied().unwrap_or(self.path)
    }

    /// Gives a group a state of its own, or none; without a group all that have none.
    pub fn set(&mut self, group: Option<AnaGroupId>, path: Option<PathState>) {
        match (group, path) {
            (Some(group), Some(path)) => drop(self.groups.insert(group.number(), path)),
            (Some(group), None) => drop(self.groups.remove(&group.number())),
            (None, path) => self.path = path.unwrap_or(self.path),
        }
    }

    /// Nobody is left who would end them.
    pub fn end_transitions(&mut self) {
        for path in self.groups.values_mut().chain([&mut self.path]) {
            if *path == PathState::Change {
                *path = PathState::Inaccessible;
            }
        }
    }
}

/// How good a path a port is to a group, or to those that have no state of their own.
pub fn state_of(paths: &Paths, id: u16, group: Option<AnaGroupId>) -> PathState {
    let record = paths.get(&id);
    record.map_or(PathState::default(), |record| record.state_of(group))
}
