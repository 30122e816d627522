//! [`Queue`]: what waits to be put into a stripe. No I/O.

use crate::stripes::item::Item;
use std::collections::VecDeque;

/// Writes and deallocations that are in no stripe yet, in the order in which they came.
#[derive(Default)]
pub(crate) struct Queue {
    items: VecDeque<Item>,
    /// Parts of all of them: blocks of writes, and one for each deallocation.
    parts: u64,
    /// The writer found no segment for the first.
    starved: bool,
}

impl Queue {
    pub fn push(&mut self, item: Item) {
        self.parts += item.parts();
        self.items.push_back(item);
    }

    /// Takes the first out.
    pub fn pop(&mut self) -> Option<Item> {
        let item = self.items.pop_front()?;
        let parts = item.parts();
        assert!(parts <= self.parts, "every part that waits is counted");
        self.parts -= parts;
        Some(item)
    }

    /// Puts what is left of an item that was taken out before all others.
    pub fn put_back(&mut self, item: Item) {
        self.parts += item.parts();
        self.items.push_front(item);
    }

    /// Takes everything out: nothing of it is to be written.
    pub fn take_all(&mut self) -> VecDeque<Item> {
        std::mem::take(self).items
    }

    pub fn head(&self) -> Option<&Item> {
        self.items.front()
    }

    pub fn iter(&self) -> impl Iterator<Item = &Item> {
        self.items.iter()
    }

    pub fn len(&self) -> usize {
        self.items.len()
    }

    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Parts of all that waits.
    pub fn parts(&self) -> u64 {
        self.parts
    }

    /// The writer has looked for a segment for the first, and found one or none.
    pub fn note_room(&mut self, found: bool) {
        self.starved = !found;
    }

    /// The writer found no segment when it last looked.
    pub fn is_starved(&self) -> bool {
        self.starved
    }

    /// Something waits for a segment.
    pub fn starves(&self) -> bool {
        self.starved && !self.items.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::VolumeId;
    use crate::location::BlockNumber;
    use crate::stripes::item::Request;

    fn hole() -> Item {
        Item::Hole {
            request: Request::new(1),
            volume: VolumeId(1),
            start: BlockNumber::FIRST,
            blocks: 100,
        }
    }

    #[test]
    fn what_is_put_back_counts_again_and_nothing_counts_once_all_is_taken() {
        let mut queue = Queue::default();
        queue.push(hole());
        queue.push(hole());
        assert_eq!(queue.parts(), 2);
        let first = queue.pop().expect("one waits");
        assert_eq!(queue.parts(), 1);
        queue.put_back(first);
        assert_eq!((queue.parts(), queue.len()), (2, 2));
        queue.note_room(false);
        assert!(queue.starves());
        assert_eq!(queue.take_all().len(), 2);
        assert_eq!((queue.parts(), queue.is_starved()), (0, false));
    }
}
