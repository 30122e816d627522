//! Seeded randomness: a generator and a permutation, both without memory worth mentioning.

/// SplitMix64: fast, seeded, good enough to choose addresses and fill blocks.
#[derive(Clone, Debug)]
pub struct SplitMix(u64);

impl SplitMix {
    /// A generator that always yields the same numbers for the same seed.
    pub fn new(seed: u64) -> SplitMix {
        SplitMix(seed)
    }

    /// The next 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// A number below `bound`, which must not be zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// Overwrites `bytes` with random ones.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        let mut chunks = bytes.chunks_exact_mut(8);
        for chunk in &mut chunks {
            chunk.copy_from_slice(&self.next_u64().to_le_bytes());
        }
        let rest = chunks.into_remainder();
        let random = self.next_u64().to_le_bytes();
        rest.copy_from_slice(&random[..rest.len()]);
    }
}

/// SplitMix64's output function: every input bit affects every output bit.
pub(crate) fn mix(value: u64) -> u64 {
    let mut mixed = value;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// A seeded permutation of `0..size`: visits every number once, in random order, and keeps no map.
///
/// Built from steps that are each reversible on `k` bits (add, multiply by an odd number, xor with
/// a right shift), hence a permutation of `0..2^k`; numbers outside `0..size` are mapped again
/// until they fall inside, which is a permutation of `0..size`.
#[derive(Clone, Debug)]
pub struct Permutation {
    size: u64,
    mask: u64,
    shift: u32,
    keys: [u64; 3],
}

impl Permutation {
    /// The permutation of `0..size` that `seed` names; `size` zero has nothing to permute.
    pub fn new(size: u64, seed: u64) -> Permutation {
        let bits = 64 - size.saturating_sub(1).leading_zeros();
        let mut random = SplitMix::new(seed);
        Permutation {
            size,
            mask: if bits == 64 {
                u64::MAX
            } else {
                (1 << bits) - 1
            },
            shift: (bits / 2).max(1),
            keys: std::array::from_fn(|_| random.next_u64()),
        }
    }

    /// Where the permutation sends `index`, which is taken modulo the size.
    pub fn at(&self, index: u64) -> u64 {
        let mut value = index % self.size.max(1);
        loop {
            value = self.scramble(value);
            if value < self.size.max(1) {
                return value;
            }
        }
    }

    fn scramble(&self, mut value: u64) -> u64 {
        for key in self.keys {
            value = value.wrapping_add(key) & self.mask;
            value ^= value >> self.shift;
            value = value.wrapping_mul((key >> 1) | 1) & self.mask;
            value ^= value >> self.shift;
        }
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_permutation_visits_every_number_once(size in 1u64..5000, seed: u64) {
            let permutation = Permutation::new(size, seed);
            let mut seen = vec![false; size as usize];
            for index in 0..size {
                let value = permutation.at(index) as usize;
                prop_assert!(!seen[value], "{value} twice");
                seen[value] = true;
            }
        }
    }

    #[test]
    fn a_permutation_does_not_keep_neighbours_together() {
        let permutation = Permutation::new(1 << 20, 7);
        let close = (0..10_000u64)
            .filter(|index| permutation.at(*index).abs_diff(permutation.at(index + 1)) < 1024)
            .count();
        // Uniform choice would put about 20 of 10,000 pairs within 1024 of 2^20.
        assert!(close < 60, "{close} of 10,000 neighbours stayed close");
    }

    #[test]
    fn below_is_uniform_enough_and_never_out_of_range() {
        let mut random = SplitMix::new(3);
        let mut counts = [0u32; 10];
        for _ in 0..100_000 {
            counts[random.below(10) as usize] += 1;
        }
        assert!(
            counts.iter().all(|count| (9_500..10_500).contains(count)),
            "{counts:?}"
        );
    }
}
