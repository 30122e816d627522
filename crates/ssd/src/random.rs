//! [`Random`]: a small, fast, seeded generator, so that every run can be repeated.

/// A pseudo-random sequence fixed by its seed (splitmix64). Not for secrets.
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
}

impl Random {
    /// The sequence that `seed` names.
    pub fn new(seed: u64) -> Random {
        Random { state: seed }
    }

    /// The next 64 bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, by multiplication instead of division; 0 when `bound` is 0. The
    /// bias is below `bound / 2^32`, far under what any study here resolves.
    #[inline]
    pub fn below(&mut self, bound: u32) -> u32 {
        ((u64::from((self.next_u64() >> 32) as u32) * u64::from(bound)) >> 32) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_seed_is_one_sequence_and_bounds_hold() {
        let (mut first, mut second) = (Random::new(7), Random::new(7));
        let mut other = Random::new(8);
        let mut differs = false;
        for _ in 0..1000 {
            let number = first.below(10);
            assert!(number < 10);
            assert_eq!(number, second.below(10));
            differs |= number != other.below(10);
        }
        assert!(differs);
        assert_eq!(Random::new(1).below(0), 0);
    }
}
