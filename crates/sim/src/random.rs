//! [`Random`]: SplitMix64, so that a seed is all it takes to see a run again.

use std::cell::Cell;

/// A word that stands for `bytes`: FNV-1a, to notice that a file is another one.
pub fn checksum(bytes: &[u8]) -> u64 {
    let mix = |word: u64, byte: &u8| (word ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, mix)
}

/// A seeded generator.
#[derive(Clone, Debug)]
pub struct Random(Cell<u64>);

impl Random {
    /// The generator of `seed`.
    pub fn new(seed: u64) -> Random {
        Random(Cell::new(seed))
    }

    /// The next word.
    pub fn word(&self) -> u64 {
        self.0.set(self.0.get().wrapping_add(0x9e37_79b9_7f4a_7c15));
        let mut mixed = self.0.get();
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`.
    pub fn below(&self, bound: u64) -> u64 {
        self.word() % bound.max(1)
    }

    /// True once in `times`.
    pub fn once_in(&self, times: u64) -> bool {
        self.below(times) == 0
    }
}
