//! Which block comes next: sequential, random with repeats, or random covering every block once.

use super::random::{Permutation, SplitMix};

/// Yields the positions of one job's I/O, in units of its transfer size from the region's start.
#[derive(Clone, Debug)]
pub struct Offsets {
    count: u64,
    next: u64,
    order: Order,
}

#[derive(Clone, Debug)]
enum Order {
    Sequential,
    Uniform(SplitMix),
    EachOnce {
        seed: u64,
        pass: u64,
        permutation: Permutation,
    },
}

impl Offsets {
    /// One position after the other, starting over at the end.
    pub fn sequential(count: u64) -> Offsets {
        Offsets::new(count, Order::Sequential)
    }

    /// Each position drawn independently (fio: `norandommap`).
    pub fn uniform(count: u64, seed: u64) -> Offsets {
        Offsets::new(count, Order::Uniform(SplitMix::new(seed)))
    }

    /// Every position once per pass, each pass in another random order.
    pub fn each_once(count: u64, seed: u64) -> Offsets {
        let permutation = Permutation::new(count, seed);
        Offsets::new(
            count,
            Order::EachOnce {
                seed,
                pass: 0,
                permutation,
            },
        )
    }

    fn new(count: u64, order: Order) -> Offsets {
        Offsets {
            count: count.max(1),
            next: 0,
            order,
        }
    }

    /// The next position, below the count the sequence was made with.
    pub fn next_position(&mut self) -> u64 {
        let index = self.next;
        self.next += 1;
        if self.next == self.count {
            self.next = 0;
        }
        match &mut self.order {
            Order::Sequential => index,
            Order::Uniform(random) => random.below(self.count),
            Order::EachOnce {
                seed,
                pass,
                permutation,
            } => {
                if index == 0 && *pass > 0 {
                    *permutation = Permutation::new(self.count, seed.wrapping_add(*pass));
                }
                if index == 0 {
                    *pass += 1;
                }
                permutation.at(index)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequential_starts_over_at_the_end() {
        let mut offsets = Offsets::sequential(3);
        let found: Vec<u64> = (0..7).map(|_| offsets.next_position()).collect();
        assert_eq!(found, [0, 1, 2, 0, 1, 2, 0]);
    }

    #[test]
    fn each_pass_covers_everything_and_passes_differ() {
        let mut offsets = Offsets::each_once(1000, 5);
        let passes: Vec<Vec<u64>> = (0..3)
            .map(|_| (0..1000).map(|_| offsets.next_position()).collect())
            .collect();
        for pass in &passes {
            let mut sorted = pass.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, (0..1000).collect::<Vec<u64>>());
        }
        assert_ne!(passes[0], passes[1]);
        assert_ne!(passes[1], passes[2]);
    }

    #[test]
    fn uniform_repeats_with_its_seed_and_stays_in_range() {
        let mut one = Offsets::uniform(100, 9);
        let mut other = Offsets::uniform(100, 9);
        for _ in 0..1000 {
            let position = one.next_position();
            assert_eq!(position, other.next_position());
            assert!(position < 100);
        }
    }
}
