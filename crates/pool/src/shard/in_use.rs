//! [`InUse`]: how many blocks those volumes and snapshots have in use that share blocks with
//! others, as they were counted last, and which are to be counted. No I/O.

use crate::ids::LayerId;
use crate::volumes::{Holder, Tables};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};

/// What is known, on one core.
#[derive(Default)]
pub(crate) struct InUse {
    counted: RefCell<BTreeMap<Holder, Counted>>,
    wanted: RefCell<BTreeSet<Holder>>,
    /// A task counts what is wanted.
    is_counting: Cell<bool>,
    /// Of the tables at which the coordinator was told of a question last.
    asked_at: Cell<Option<u64>>,
}

/// What was counted of one.
#[derive(Clone, Copy)]
pub(crate) struct Counted {
    /// Of the tables when it was counted.
    pub version: u64,
    /// The layer that it began with, and how many blocks that one held for itself.
    pub top: (LayerId, u64),
    /// Blocks in use.
    pub blocks: u64,
}

impl Counted {
    /// What is likely in use by now, when the layer `top` holds so many blocks for itself.
    pub fn by_now(&self, (layer, own): (LayerId, u64)) -> u64 {
        match layer == self.top.0 {
            true => (self.blocks + own).saturating_sub(self.top.1),
            // A snapshot was taken: the new layer has what was written since.
            false => self.blocks + own,
        }
    }
}

impl InUse {
    /// True once for each version of the tables.
    pub fn asks_first(&self, version: u64) -> bool {
        self.asked_at.replace(Some(version)) != Some(version)
    }

    /// What was counted last. Wants it to be counted again if that was of other tables; true if a
    /// task is to be started for that.
    pub fn look_up(&self, name: Holder, version: u64) -> (Option<Counted>, bool) {
        let counted = self.counted.borrow().get(&name).copied();
        if counted.is_some_and(|counted| counted.version == version) {
            return (counted, false);
        }
        self.wanted.borrow_mut().insert(name);
        (counted, !self.is_counting.replace(true))
    }

    /// Takes the next that is wanted; the task that counts ends when there is none.
    pub fn next(&self) -> Option<Holder> {
        let next = self.wanted.borrow_mut().pop_first();
        self.is_counting.set(next.is_some());
        next
    }

    /// Nothing is counted any more.
    pub fn give_up(&self) {
        self.wanted.borrow_mut().clear();
        self.is_counting.set(false);
    }

    /// Notes what was counted, and forgets what is gone.
    pub fn note(&self, name: Holder, counted: Counted, tables: &Tables) {
        let mut all = self.counted.borrow_mut();
        all.insert(name, counted);
        all.retain(|name, _| tables.layer_of(*name).is_some());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::VolumeId;
    use crate::volumes::tests::volume;

    #[test]
    fn what_is_wanted_is_counted_once_for_each_version_of_the_tables() {
        let mut tables = Tables::default();
        let layer = tables.add_layer(None).unwrap();
        let (id, gone) = (VolumeId(7), Holder::Volume(VolumeId(8)));
        tables.volumes.insert(id, volume(layer));
        let name = Holder::Volume(id);
        let in_use = InUse::default();
        assert!(in_use.asks_first(0) && !in_use.asks_first(0) && in_use.asks_first(1));
        assert!(in_use.look_up(name, 1).1, "a task is to count");
        assert!(!in_use.look_up(name, 1).1, "it does already");
        assert_eq!(in_use.next(), Some(name));
        let counted = Counted {
            version: 1,
            top: (layer, 10),
            blocks: 90,
        };
        in_use.note(gone, counted, &tables);
        in_use.note(name, counted, &tables);
        assert_eq!(in_use.next(), None);
        let (found, starts) = in_use.look_up(name, 1);
        assert_eq!((found.unwrap().blocks, starts), (90, false));
        assert!(in_use.look_up(name, 2).1, "other tables hold by now");
        assert!(in_use.look_up(gone, 1).0.is_none(), "it is forgotten");
        in_use.give_up();
        assert_eq!(in_use.next(), None);
    }

    #[test]
    fn what_was_written_since_counts() {
        let mut tables = Tables::default();
        let layer = tables.add_layer(None).unwrap();
        let above = tables.add_layer(Some(layer)).unwrap();
        let counted = Counted {
            version: 1,
            top: (layer, 10),
            blocks: 90,
        };
        assert_eq!(counted.by_now((layer, 10)), 90);
        assert_eq!(counted.by_now((layer, 14)), 94);
        assert_eq!(counted.by_now((layer, 3)), 83);
        assert_eq!(counted.by_now((above, 2)), 92);
    }
}
