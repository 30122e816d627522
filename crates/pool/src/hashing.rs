//! Hashing of numbers, for tables that are looked up for every block.

use std::hash::{BuildHasher, BuildHasherDefault, Hasher, RandomState};

/// For block numbers, which hosts choose: hashes with a number that nobody outside knows.
#[derive(Clone, Debug)]
pub(crate) struct Seed(u64);

impl Default for Seed {
    fn default() -> Seed {
        Seed(RandomState::new().hash_one(0))
    }
}

impl BuildHasher for Seed {
    type Hasher = NumberHasher;

    fn build_hasher(&self) -> NumberHasher {
        NumberHasher(self.0)
    }
}

/// As [`Seed`], for tables in which blocks that follow each other are to lie side by side: who
/// writes or reads them in their order waits for memory once for several.
#[derive(Clone, Debug, Default)]
pub(crate) struct NearSeed(Seed);

impl BuildHasher for NearSeed {
    type Hasher = NearHasher;

    fn build_hasher(&self) -> NearHasher {
        NearHasher(self.0.build_hasher())
    }
}

/// Blocks that are hashed as one.
const NEAR_BLOCKS: u64 = 8;

/// Hashes one block number: those of eight differ in the lowest bits only, which a table takes as
/// the place, and in some of the highest, which it compares before it looks there.
pub(crate) struct NearHasher(NumberHasher);

impl Hasher for NearHasher {
    fn write(&mut self, bytes: &[u8]) {
        self.0.write(bytes);
    }

    fn write_u64(&mut self, block: u64) {
        let within = block % NEAR_BLOCKS;
        self.0.write_u64(block / NEAR_BLOCKS);
        let place = self.0.0 & !(NEAR_BLOCKS - 1) | within;
        self.0.0 = place ^ within << 60;
    }

    fn finish(&self) -> u64 {
        self.0.finish()
    }
}

/// For places and checksums, which nobody chooses to collide.
pub(crate) type Unseeded = BuildHasherDefault<NumberHasher>;

/// Multiplies to twice the width and folds, so that every bit of a number counts in every bit.
#[derive(Default)]
pub(crate) struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes
            .iter()
            .for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u8(&mut self, value: u8) {
        self.write_u64(u64::from(value));
    }

    fn write_u32(&mut self, value: u32) {
        self.write_u64(u64::from(value));
    }

    fn write_u64(&mut self, value: u64) {
        // An odd number without a pattern: 2^64 over the golden ratio.
        let wide = u128::from(self.0 ^ value) * 0x9e37_79b9_7f4a_7c15;
        self.0 = wide as u64 ^ (wide >> 64) as u64;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn places_close_to_each_other_hash_apart() {
        let hashed = |place: (u32, u8, u32)| Unseeded::default().hash_one(place);
        let places = (0..64).flat_map(|segment| (0..8).map(move |column| (segment, column)));
        let places =
            places.flat_map(|(segment, column)| (0..64).map(move |row| (segment, column, row)));
        // A table takes the low bits as the bucket.
        let buckets: HashSet<u64> = places.map(|place| hashed(place) % 32768).collect();
        assert!(buckets.len() > 18_000, "{} of 32768 buckets", buckets.len());
    }

    #[test]
    fn blocks_side_by_side_hash_so_and_others_apart() {
        let seed = NearSeed::default();
        let place = |block: u64| seed.hash_one(block) % 32768;
        let tag = |block: u64| seed.hash_one(block) >> 57;
        for first in (0..1 << 20).step_by(8) {
            assert_eq!(place(first) % 8, 0);
            for within in 1..8 {
                assert_eq!(place(first + within), place(first) + within);
                assert_ne!(tag(first + within), tag(first));
            }
        }
        let places: HashSet<u64> = (0..32768).map(|nth| place(nth * 37)).collect();
        assert!(places.len() > 18_000, "{} of 32768 places", places.len());
    }
}
