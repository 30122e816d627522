//! [`Precondition`]: the state a drive is in before a study starts.

use crate::flash::Flash;
use crate::random::Random;
use crate::theory;

/// The state of the flash before a study.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Precondition {
    /// The steady state of uniform random writes, laid out directly from the closed form.
    #[default]
    SteadyRandom,
    /// Every page written once, in order.
    Sequential,
    /// Erased; nothing is mapped.
    Purge,
    /// Every page written once in order, then random writes of twice the capacity: the slow way
    /// to the steady state, which [`Precondition::SteadyRandom`] is checked against.
    Warmed,
}

impl Precondition {
    /// Puts `flash`, which must be erased, into this state, with every page of `live` mapped
    /// (unless it is [`Precondition::Purge`]). Counters start from zero.
    pub fn apply(self, flash: &mut Flash, live: &[u32], seed: u64) {
        let mut random = Random::new(seed);
        match self {
            Precondition::Purge => {}
            Precondition::Sequential => {
                flash.write_batch(live);
            }
            Precondition::SteadyRandom => steady_random(flash, live, &mut random),
            Precondition::Warmed => {
                flash.write_batch(live);
                let count = u32::try_from(live.len()).unwrap_or(u32::MAX);
                let mut batch = [0; 64];
                for _ in 0..(2 * live.len()) / batch.len() {
                    for slot in &mut batch {
                        *slot = live[random.below(count) as usize];
                    }
                    flash.write_batch(&batch);
                }
            }
        }
        flash.reset_counters();
    }
}

/// Lays out the steady state: a superblock at age rank `x` in (0, 1) has a valid fraction of
/// `v^x`, whose mean over the ranks is exactly live over raw.
fn steady_random(flash: &mut Flash, live: &[u32], random: &mut Random) {
    let geometry = flash.geometry();
    let pages = geometry.pages_per_superblock;
    let closed = geometry.superblocks - geometry.low_water - flash.open_streams();
    let capacity = f64::from(closed) * f64::from(pages);
    let fraction = theory::valid_fraction(capacity / live.len() as f64);
    let mut order = live.to_vec();
    for last in (1..order.len()).rev() {
        let other = random.below(u32::try_from(last + 1).unwrap_or(u32::MAX)) as usize;
        order.swap(last, other);
    }
    let mut placed = 0;
    let mut wanted = 0.0;
    for index in 0..closed {
        let rank = (f64::from(index) + 0.5) / f64::from(closed);
        // Cumulative rounding: the counts add up to the live pages within one page.
        wanted += fraction.powf(rank) * f64::from(pages);
        let upto = if index + 1 == closed {
            order.len()
        } else {
            wanted.round() as usize
        };
        let upto = upto.min(order.len()).min(placed + pages as usize);
        flash.fill_superblock(&order[placed..upto]);
        placed = upto;
    }
    for page in &order[placed..] {
        flash.write(*page);
    }
}
