//! [`Updates`]: what the maps do not have yet, the latest and what is being merged. No I/O.

use crate::ids::LayerId;
use crate::location::{BlockNumber, Entry, Mapping};
use crate::map::overlay::Overlay;
use crate::mutation::Mutation;
use crate::segments::slices::Share;
use std::ops::Range;
use std::sync::Arc;

/// The updates of a shard. Reads ask them before the maps: the latest first, then the frozen ones.
#[derive(Default)]
pub(crate) struct Updates {
    /// Updates since the last freeze.
    latest: Overlay,
    /// Updates that a checkpoint is merging. Nobody changes them, and other cores read them.
    frozen: Arc<Overlay>,
    /// Memory for the updates after the next freeze.
    spare: Overlay,
}

impl Updates {
    /// Updates since the last freeze.
    pub fn latest(&self) -> &Overlay {
        &self.latest
    }

    /// Updates that are being merged, to be shown to others.
    pub fn frozen(&self) -> Arc<Overlay> {
        self.frozen.clone()
    }

    /// The maps have everything.
    pub fn are_merged(&self) -> bool {
        self.latest.is_empty() && self.frozen.is_empty()
    }

    /// What is said about a block of `layer` itself.
    pub fn get(&self, layer: LayerId, block: BlockNumber) -> Option<Mapping> {
        let frozen = || match Mutation::ForgetsWhatIsMerged.is_planted() {
            true => None,
            false => self.frozen.get(layer, block),
        };
        self.latest.get(layer, block).or_else(frozen)
    }

    /// Writes down what is said about the blocks from `start` on, where nothing is said yet.
    pub fn fill(&self, layer: LayerId, start: BlockNumber, found: &mut [Option<Mapping>]) {
        self.latest.fill(layer, start, found);
        if !Mutation::ForgetsWhatIsMerged.is_planted() {
            self.frozen.fill(layer, start, found);
        }
    }

    /// As [`Overlay::put`].
    pub fn put(&mut self, layer: LayerId, block: BlockNumber, entry: Entry) -> Option<Entry> {
        self.latest.put(layer, block, entry)
    }

    /// As [`Overlay::clear`].
    pub fn clear(&mut self, layer: LayerId, run: Range<BlockNumber>, share: Share) -> Vec<Entry> {
        self.latest.clear(layer, run, share)
    }

    /// As [`Overlay::remove_layer`].
    pub fn remove_layer(&mut self, layer: LayerId) -> Vec<Entry> {
        self.latest.remove_layer(layer)
    }

    /// Sets the latest aside for a merge.
    pub fn set_aside(&mut self) {
        // A shard to which the last merge comes late still has what it set aside for that.
        let none = self.frozen.is_empty() || Mutation::ViewsComeLate.is_planted();
        assert!(none, "what was set aside is merged before more is");
        let empty = std::mem::take(&mut self.spare);
        self.frozen = Arc::new(std::mem::replace(&mut self.latest, empty));
    }

    /// The frozen ones are in the maps.
    pub fn merged(&mut self) {
        let frozen = std::mem::take(&mut self.frozen);
        // Another core may still hold it.
        self.spare = Arc::into_inner(frozen).map_or_else(Overlay::default, Overlay::emptied);
    }

    /// Updates from before the pool was opened come before all others.
    pub fn take_over(&mut self, recovered: Overlay) {
        assert!(self.are_merged(), "nothing is written before the log is");
        self.latest = recovered;
    }

    /// Takes the updates that recovery found out again.
    pub fn take_recovered(&mut self) -> Overlay {
        assert!(self.frozen.is_empty(), "no merge begins in a recovery");
        std::mem::take(&mut self.latest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::SegmentNumber;
    use crate::location::Location;

    const LAYER: LayerId = LayerId::new(1);

    fn entry(number: u32) -> Entry {
        Entry {
            at: Location {
                segment: SegmentNumber::new(number),
                column: 0,
                row: 0,
            },
            crc: number,
        }
    }

    #[test]
    fn reads_find_the_latest_then_what_is_being_merged_until_the_maps_have_it() {
        let (first, second) = (BlockNumber::new(5), BlockNumber::new(6));
        let mut updates = Updates::default();
        updates.put(LAYER, first, entry(1));
        updates.put(LAYER, second, entry(2));
        updates.set_aside();
        assert!(updates.latest().is_empty() && !updates.are_merged());
        assert_eq!(updates.put(LAYER, second, entry(3)), None, "it is frozen");
        let said = [entry(1), entry(3)].map(|entry| Some(Mapping::Block(entry)));
        assert_eq!([first, second].map(|block| updates.get(LAYER, block)), said);
        let mut found = [None; 2];
        updates.fill(LAYER, first, &mut found);
        assert_eq!(found, said);
        updates.merged();
        assert_eq!(
            [first, second].map(|block| updates.get(LAYER, block)),
            [None, said[1]]
        );
    }

    #[test]
    #[should_panic(expected = "merged before more is")]
    fn nothing_takes_the_place_of_what_is_being_merged() {
        let mut updates = Updates::default();
        for number in [1, 2] {
            updates.put(LAYER, BlockNumber::FIRST, entry(number));
            updates.set_aside();
        }
    }
}
