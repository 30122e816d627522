//! [`Admitted`]: the space that writes under way may take. No I/O.

use crate::ids::LayerId;
use crate::volumes::Volume;

/// Blocks that writes may have added to what lives since the last checkpoint.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Admitted {
    /// Of writes under way.
    under_way: u64,
    /// Those of them that were taken for new blocks, all of them, without a look at the map.
    guessed: u64,
    /// Writers that wait until none is: nobody guesses meanwhile.
    without_guesses: usize,
    /// Of writes answered since the updates were last set aside.
    answered: u64,
    /// Of writes whose updates are being merged.
    frozen: u64,
    /// Blocks that hosts wrote since the updates were last set aside, new or not, and those whose
    /// updates are being merged.
    written: u64,
    written_frozen: u64,
}

impl Admitted {
    pub fn blocks(&self) -> u64 {
        self.under_way + self.answered + self.frozen
    }

    /// True when nothing counts but writes under way, by what they add.
    pub fn is_exact(&self) -> bool {
        self.blocks() == self.under_way && self.guessed == 0
    }

    /// Blocks were written before the pool was opened, and are not in the maps.
    pub fn recovered(&mut self, blocks: u64) {
        self.answered += blocks;
        self.written += blocks;
    }

    /// A block of a host is durable.
    pub fn wrote(&mut self) {
        self.written += 1;
    }

    /// No writer waits until nothing is guessed.
    pub fn may_guess(&self) -> bool {
        self.without_guesses == 0
    }

    /// A write begins that takes at most so many new blocks.
    pub fn begin(&mut self, blocks: u64) {
        self.under_way += blocks;
    }

    /// So many blocks of a write that has begun were taken for new ones without a look at the map.
    pub fn guess(&mut self, blocks: u64) {
        self.guessed += blocks;
    }

    /// A write has ended that had begun with `blocks`, of which `guessed`. True if a writer waits
    /// for this: nothing is guessed any more.
    pub fn end(&mut self, blocks: u64, guessed: u64) -> bool {
        assert!(
            blocks <= self.under_way && guessed <= self.guessed,
            "a write ends once"
        );
        self.under_way -= blocks;
        self.answered += blocks;
        self.guessed -= guessed;
        self.guessed == 0 && self.without_guesses > 0
    }

    /// Blocks of some write were guessed.
    pub fn has_guesses(&self) -> bool {
        self.guessed > 0
    }

    /// A writer begins to wait until nothing is guessed: nobody guesses meanwhile.
    pub fn forbid_guesses(&mut self) {
        self.without_guesses += 1;
    }

    /// It waits no more.
    pub fn allow_guesses(&mut self) {
        assert!(self.without_guesses > 0, "guesses were forbidden before");
        self.without_guesses -= 1;
    }

    /// Blocks of hosts that the maps do not have yet, each as often as it was written.
    pub fn written(&self) -> u64 {
        self.written + self.written_frozen
    }

    /// The updates are set aside.
    pub fn freeze(&mut self) {
        self.frozen = std::mem::take(&mut self.answered);
        self.written_frozen = std::mem::take(&mut self.written);
    }

    /// They are merged: the maps have them. Returns how many blocks they had been taken for.
    pub fn merged(&mut self) -> u64 {
        self.written_frozen = 0;
        std::mem::take(&mut self.frozen)
    }
}

/// Where an admitted write has its space from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Backing {
    /// Every block of it counts as a new one.
    Counted,
    /// It is promised to the volume.
    Promised,
    /// The layer on top of the volume holds some of the blocks, which do not count.
    Held { layer: LayerId },
}

impl Backing {
    /// False if the volume has changed since, so that the space might be somebody else's by now: a
    /// snapshot keeps what the layer holds, and takes the layer with it.
    pub fn stands(self, volume: &Volume) -> bool {
        match self {
            Backing::Counted => true,
            Backing::Promised => volume.reserved,
            Backing::Held { layer } => volume.layer == layer,
        }
    }
}
