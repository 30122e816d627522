//! [`NodeCache`]: map nodes in memory, at most so many; second chance.

use crate::format::node::Node;
use crate::hashing::Unseeded;
use crate::location::Entry;
use std::cell::Cell;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

struct Slot {
    node: Arc<Node>,
    used: Cell<bool>,
}

/// Keyed by place and checksum: what was at a place earlier is never mistaken for what is now.
pub(crate) struct NodeCache {
    nodes: HashMap<Entry, Slot, Unseeded>,
    order: VecDeque<Entry>,
    capacity: usize,
}

impl NodeCache {
    pub fn new(capacity: usize) -> NodeCache {
        NodeCache {
            nodes: HashMap::default(),
            order: VecDeque::new(),
            capacity: capacity.max(16),
        }
    }

    pub fn get(&self, entry: Entry) -> Option<&Arc<Node>> {
        let slot = self.nodes.get(&entry)?;
        slot.used.set(true);
        Some(&slot.node)
    }

    pub fn insert(&mut self, entry: Entry, node: Arc<Node>) {
        let slot = Slot {
            node,
            used: Cell::new(false),
        };
        if self.nodes.insert(entry, slot).is_some() {
            return;
        }
        self.order.push_back(entry);
        while self.order.len() > self.capacity {
            self.evict();
        }
    }

    /// Takes in nodes that another core has just made: some of the first, if they are too many to
    /// keep beside what is used.
    pub fn insert_made(&mut self, made: impl Iterator<Item = (Entry, Arc<Node>)>) {
        for (entry, node) in made.take(self.capacity / 2) {
            self.insert(entry, node);
        }
    }

    fn evict(&mut self) {
        while let Some(entry) = self.order.pop_front() {
            let second_chance = self
                .nodes
                .get(&entry)
                .is_some_and(|slot| slot.used.replace(false));
            if !second_chance {
                self.nodes.remove(&entry);
                return;
            }
            self.order.push_back(entry);
        }
    }

    pub fn len(&self) -> usize {
        self.nodes.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::location::Location;

    #[test]
    fn what_others_made_leaves_room_for_what_is_used() {
        let mut cache = NodeCache::new(16);
        let entry = |number| Entry {
            at: Location {
                segment: number,
                column: 0,
                row: 0,
            },
            crc: number,
        };
        let made = |number| (entry(number), Arc::new(Node::build(1, 0, &[])));
        cache.insert_made((0..4).map(made));
        for number in 0..4 {
            assert!(cache.get(entry(number)).is_some());
        }
        cache.insert_made((100..200).map(made));
        assert_eq!(cache.len(), 4 + 8);
        assert!(cache.get(entry(0)).is_some() && cache.get(entry(107)).is_some());
    }

    #[test]
    fn it_stays_small_and_keeps_what_is_used() {
        let mut cache = NodeCache::new(16);
        let entry = |number| Entry {
            at: Location {
                segment: number,
                column: 0,
                row: 0,
            },
            crc: number,
        };
        for number in 0..100 {
            cache.insert(entry(number), Arc::new(Node::build(1, 0, &[])));
            assert!(cache.get(entry(0)).is_some());
            assert!(cache.len() <= 16);
        }
        assert!(cache.get(entry(50)).is_none());
        assert!(
            cache.get(Entry { crc: 7, ..entry(0) }).is_none(),
            "same place, other content"
        );
    }
}
