//! [`Steady`]: whether rounds of one load have reached the steady state, as SNIA's performance
//! test specification defines it.

use serde::{Deserialize, Serialize};

/// Rounds that have to agree.
const WINDOW: usize = 5;

/// The highest and the lowest of a window may differ by this share of its mean.
const RANGE: f64 = 0.20;

/// The line of least squares may rise or fall by this share of the mean over the window.
const SLOPE: f64 = 0.10;

/// Rounds of one load.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Steady {
    /// What each round came to, in I/Os a second.
    pub rounds: Vec<f64>,
    /// Whether the last five agree.
    pub reached: bool,
}

impl Steady {
    /// Adds a round.
    pub fn add(&mut self, iops: f64) {
        self.rounds.push(iops);
        self.reached = self.rounds.last_chunk().is_some_and(agrees);
    }
}

fn agrees(window: &[f64; WINDOW]) -> bool {
    let mean = window.iter().sum::<f64>() / WINDOW as f64;
    let highest = window.iter().copied().fold(f64::MIN, f64::max);
    let lowest = window.iter().copied().fold(f64::MAX, f64::min);
    let middle = (WINDOW - 1) as f64 / 2.0;
    let (mut above, mut below) = (0.0, 0.0);
    for (round, iops) in window.iter().enumerate() {
        let distance = round as f64 - middle;
        above += distance * (iops - mean);
        below += distance * distance;
    }
    let rise = (above / below * (WINDOW - 1) as f64).abs();
    highest - lowest <= RANGE * mean && rise <= SLOPE * mean
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reached_after(rounds: &[f64]) -> Option<usize> {
        let mut steady = Steady::default();
        for (index, iops) in rounds.iter().enumerate() {
            steady.add(*iops);
            if steady.reached {
                return Some(index + 1);
            }
        }
        None
    }

    #[test]
    fn five_rounds_that_agree_are_steady_and_four_are_not() {
        assert_eq!(reached_after(&[100.0; 4]), None);
        assert_eq!(reached_after(&[100.0; 9]), Some(5));
        // A fresh drive that falls to its steady state.
        let cliff = [600.0, 600.0, 260.0, 310.0, 309.0, 308.0, 311.0, 309.0];
        assert_eq!(reached_after(&cliff), Some(8));
    }

    #[test]
    fn a_range_of_a_fifth_is_allowed_and_a_slope_of_a_tenth() {
        // Alternating: range 20% of the mean, slope 0.
        assert_eq!(reached_after(&[110.0, 90.0, 100.0, 90.0, 110.0]), Some(5));
        assert_eq!(reached_after(&[111.0, 89.0, 100.0, 89.0, 111.0]), None);
        // A steady rise of 2.5 a round is 10 over the window.
        assert_eq!(reached_after(&[95.0, 97.5, 100.0, 102.5, 105.0]), Some(5));
        assert_eq!(reached_after(&[94.0, 97.0, 100.0, 103.0, 106.0]), None);
    }

    #[test]
    fn nothing_at_all_is_not_steady_by_accident() {
        let mut steady = Steady::default();
        for iops in [0.0, 0.0, 10.0, 0.0, 0.0] {
            steady.add(iops);
        }
        assert!(!steady.reached);
    }
}
