//! [`NodeCache`]: map nodes in memory, at most so many; second chance.

use crate::format::node::Node;
use crate::hashing::Unseeded;
use crate::location::Entry;
use std::cell::Cell;
use std::collections::HashMap;
use std::sync::Arc;

struct Slot {
    node: Arc<Node>,
    used: Cell<bool>,
    /// In the ring.
    place: usize,
}

/// Keyed by place and checksum: what was at a place earlier is never mistaken for what is now.
pub(crate) struct NodeCache {
    nodes: HashMap<Entry, Slot, Unseeded>,
    /// What is kept, in the order in which it is looked at when room is needed.
    ring: Vec<Option<Entry>>,
    /// The place in the ring that is looked at next.
    hand: usize,
    /// Places in the ring that hold nothing.
    free: Vec<usize>,
    capacity: usize,
}

impl NodeCache {
    pub fn new(capacity: usize) -> NodeCache {
        NodeCache {
            nodes: HashMap::default(),
            ring: Vec::new(),
            hand: 0,
            free: Vec::new(),
            capacity: capacity.max(16),
        }
    }

    pub fn get(&self, entry: Entry) -> Option<&Arc<Node>> {
        let slot = self.nodes.get(&entry)?;
        slot.used.set(true);
        Some(&slot.node)
    }

    pub fn contains(&self, entry: Entry) -> bool {
        self.nodes.contains_key(&entry)
    }

    pub fn insert(&mut self, entry: Entry, node: Arc<Node>) {
        if let Some(slot) = self.nodes.get_mut(&entry) {
            slot.node = node;
            return;
        }
        // A place that became free may be the very next that is looked at.
        let freed = self.free.pop();
        let place = freed.unwrap_or_else(|| self.make_room());
        self.ring[place] = Some(entry);
        let slot = Slot {
            node,
            used: Cell::new(freed.is_some()),
            place,
        };
        self.nodes.insert(entry, slot);
    }

    /// Takes in nodes that another core has just made: some of the first, if they are too many to
    /// keep beside what is used.
    pub fn insert_made(&mut self, made: impl Iterator<Item = (Entry, Arc<Node>)>) {
        for (entry, node) in made.take(self.capacity / 2) {
            self.insert(entry, node);
        }
    }

    /// Forgets nodes that are in no tree any more.
    pub fn forget_all(&mut self, gone: &[Entry]) {
        for slot in gone.iter().filter_map(|entry| self.nodes.remove(entry)) {
            self.ring[slot.place] = None;
            self.free.push(slot.place);
        }
    }

    /// A place in the ring that holds nothing, or nothing any more.
    fn make_room(&mut self) -> usize {
        if self.ring.len() < self.capacity {
            self.ring.push(None);
            return self.ring.len() - 1;
        }
        loop {
            let place = self.hand;
            self.hand = (self.hand + 1) % self.ring.len();
            let Some(entry) = self.ring[place] else {
                return place;
            };
            let slot = self.nodes.get(&entry);
            let second_chance = slot.is_some_and(|slot| slot.used.replace(false));
            if !second_chance {
                self.nodes.remove(&entry);
                self.ring[place] = None;
                return place;
            }
        }
    }

    pub fn len(&self) -> usize {
        self.nodes.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{LayerId, SegmentNumber};
    use crate::location::Location;

    const LAYER: LayerId = LayerId::new(1);

    #[test]
    fn what_others_made_leaves_room_for_what_is_used() {
        let mut cache = NodeCache::new(16);
        let entry = |number| Entry {
            at: Location {
                segment: SegmentNumber::new(number),
                column: 0,
                row: 0,
            },
            crc: number,
        };
        let made = |number| (entry(number), Arc::new(Node::build(LAYER, 0, &[])));
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
                segment: SegmentNumber::new(number),
                column: 0,
                row: 0,
            },
            crc: number,
        };
        for number in 0..100 {
            cache.insert(entry(number), Arc::new(Node::build(LAYER, 0, &[])));
            assert!(cache.get(entry(0)).is_some());
            assert!(cache.len() <= 16);
        }
        assert!(cache.get(entry(50)).is_none());
        assert!(
            cache.get(Entry { crc: 7, ..entry(0) }).is_none(),
            "same place, other content"
        );
    }

    #[test]
    fn what_is_forgotten_makes_room_without_anything_else_going() {
        let mut cache = NodeCache::new(16);
        let entry = |number| Entry {
            at: Location {
                segment: SegmentNumber::new(number),
                column: 0,
                row: 0,
            },
            crc: number,
        };
        let node = || Arc::new(Node::build(LAYER, 0, &[]));
        for number in 0..16 {
            cache.insert(entry(number), node());
        }
        for round in 1..20 {
            for number in 0..8 {
                cache.forget_all(&[entry((round - 1) * 100 + number)]);
                assert!(!cache.contains(entry((round - 1) * 100 + number)));
            }
            for number in 0..8 {
                cache.insert(entry(round * 100 + number), node());
            }
            assert_eq!(cache.len(), 16);
            assert!((8..16).all(|number| cache.contains(entry(number))));
        }
        cache.forget_all(&[entry(7777)]);
        cache.insert(entry(8888), node());
        assert_eq!(cache.len(), 16);
        assert!(cache.contains(entry(8888)));
        let kept = |number: &u32| cache.contains(entry(*number));
        let last = (8..16).chain(1900..1908);
        assert_eq!(last.filter(kept).collect::<Vec<_>>().len(), 15);
    }
}
