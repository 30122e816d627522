//! Timers of one reactor: a binary heap that can also remove, without allocating once grown.

use std::task::Waker;

use crate::clock::Instant;

/// Names a timer until it fires or is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TimerKey {
    slot: u32,
    generation: u32,
}

struct Slot {
    generation: u32,
    /// Where the timer is in the heap.
    position: u32,
    waker: Option<Waker>,
}

#[derive(Clone, Copy)]
struct Entry {
    deadline: Instant,
    /// Breaks ties: equal deadlines fire in the order in which they were set.
    sequence: u64,
    slot: u32,
}

impl Entry {
    fn before(&self, other: &Entry) -> bool {
        (self.deadline, self.sequence) < (other.deadline, other.sequence)
    }
}

#[derive(Default)]
pub(crate) struct Timers {
    heap: Vec<Entry>,
    slots: Vec<Slot>,
    free: Vec<u32>,
    sequence: u64,
}

impl Timers {
    pub(crate) fn insert(&mut self, deadline: Instant, waker: Waker) -> TimerKey {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot {
                generation: 0,
                position: 0,
                waker: None,
            });
            (self.slots.len() - 1) as u32
        });
        self.slots[slot as usize].waker = Some(waker);
        self.sequence += 1;
        self.heap.push(Entry {
            deadline,
            sequence: self.sequence,
            slot,
        });
        self.rise(self.heap.len() - 1);
        TimerKey {
            slot,
            generation: self.slots[slot as usize].generation,
        }
    }

    /// Replaces the waker of a timer; false if the timer has fired.
    pub(crate) fn set_waker(&mut self, key: TimerKey, waker: &Waker) -> bool {
        let slot = &mut self.slots[key.slot as usize];
        if slot.generation != key.generation {
            return false;
        }
        match &mut slot.waker {
            Some(current) => current.clone_from(waker),
            empty => *empty = Some(waker.clone()),
        }
        true
    }

    /// Forgets a timer, if it has not fired.
    pub(crate) fn remove(&mut self, key: TimerKey) {
        let slot = &self.slots[key.slot as usize];
        if slot.generation == key.generation {
            let position = slot.position as usize;
            self.take(position);
        }
    }

    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.heap.first().map(|entry| entry.deadline)
    }

    /// Removes the first timer that is due at `now` and returns its waker.
    pub(crate) fn pop_due(&mut self, now: Instant) -> Option<Waker> {
        let first = self.heap.first()?;
        if first.deadline > now {
            return None;
        }
        self.take(0)
    }

    fn take(&mut self, position: usize) -> Option<Waker> {
        let entry = self.heap.swap_remove(position);
        if position < self.heap.len() {
            self.sink(position);
            self.rise(position);
        }
        let slot = &mut self.slots[entry.slot as usize];
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(entry.slot);
        slot.waker.take()
    }

    fn rise(&mut self, mut position: usize) {
        while position > 0 {
            let parent = (position - 1) / 2;
            if !self.heap[position].before(&self.heap[parent]) {
                break;
            }
            self.heap.swap(position, parent);
            self.note_position(position);
            position = parent;
        }
        self.note_position(position);
    }

    fn sink(&mut self, mut position: usize) {
        loop {
            let left = 2 * position + 1;
            let right = left + 1;
            let mut first = position;
            for child in [left, right] {
                if child < self.heap.len() && self.heap[child].before(&self.heap[first]) {
                    first = child;
                }
            }
            if first == position {
                break;
            }
            self.heap.swap(position, first);
            self.note_position(position);
            position = first;
        }
        self.note_position(position);
    }

    fn note_position(&mut self, position: usize) {
        let slot = self.heap[position].slot;
        self.slots[slot as usize].position = position as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::SplitMix;
    use std::collections::BTreeMap;

    /// Random inserts, removals and firings agree with an ordered map.
    #[test]
    fn timers_fire_in_order_of_deadline_and_insertion() {
        for seed in 0..50 {
            let mut random = SplitMix::new(seed);
            let mut timers = Timers::default();
            let mut model = BTreeMap::new();
            for sequence in 0..500_u64 {
                let deadline = Instant::from_nanos(random.below(64));
                match random.below(4) {
                    0..=1 => {
                        let key = timers.insert(deadline, Waker::noop().clone());
                        model.insert((deadline, sequence), key);
                    }
                    2 if !model.is_empty() => {
                        let nth = random.below(model.len() as u64) as usize;
                        let place = *model.keys().nth(nth).unwrap();
                        timers.remove(model.remove(&place).unwrap());
                    }
                    _ => {
                        let due = model.keys().next().is_some_and(|first| first.0 <= deadline);
                        assert_eq!(timers.pop_due(deadline).is_some(), due, "seed={seed}");
                        if due {
                            let (_, key) = model.pop_first().unwrap();
                            assert!(!timers.set_waker(key, Waker::noop()), "seed={seed}");
                        }
                    }
                }
                let first = model.keys().next().map(|place| place.0);
                assert_eq!(timers.next_deadline(), first, "seed={seed}");
            }
        }
    }
}
