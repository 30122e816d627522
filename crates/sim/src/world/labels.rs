//! One wrong bit in the newest label of a pool, where a single drive is left that has it.

use super::World;
use crate::crafted::{self, NewestLabel};

impl World {
    /// Where one current drive is left, and does nothing wrong otherwise, a bit of its newest label
    /// may be wrong by the next life: nothing else tells what the pool was last. It is not done
    /// again before the pool has been open, and has written its labels anew.
    pub(super) fn spoil_last_label(&self) {
        if !self.options.latecomers || !self.labels_whole.get() || !self.bits.once_in(2) {
            return;
        }
        let drives = self.drives.borrow();
        let found = drives.iter().map(crafted::newest_label);
        let found: Vec<Option<NewestLabel>> = found.collect();
        let labels = found.iter().enumerate();
        let labels = labels.filter_map(|(index, label)| Some((index, label.as_ref()?)));
        let Some((index, newest)) = labels.max_by_key(|(_, label)| label.rank) else {
            return;
        };
        let alone = newest.active == [newest.drive] && !self.bad.borrow().contains(&index);
        if !alone {
            return;
        }
        let part = &newest.parts[self.bits.below(newest.parts.len() as u64) as usize];
        let block = part.start + self.bits.below(part.end - part.start);
        let mut content = drives[index].content(block);
        let bit = self.bits.below(8 * content.len() as u64) as usize;
        content[bit / 8] ^= 1 << (bit % 8);
        drives[index].put(block, content);
        self.labels_whole.set(false);
    }
}
