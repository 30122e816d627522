//! [`Refusals`]: how many refused changes of a token the audit log is told one by one.
//!
//! Any token can have changes refused as fast as the node answers, and each entry is a write to
//! the disk. Of a burst the first ones are kept; of the others, how many there were.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use api::Name;

/// Refusals of a token that are kept whole in one period: more than people cause by mistake.
const KEPT: u64 = 20;

/// How long a period is.
pub const PERIOD: Duration = Duration::from_secs(60);

/// Tokens that are remembered before those without a burst are forgotten.
const TOKENS: usize = 1024;

/// Refusals of late, by token.
#[derive(Default)]
pub struct Refusals {
    by_token: Mutex<HashMap<Name, Burst>>,
}

struct Burst {
    began: Instant,
    refused: u64,
}

impl Burst {
    fn is_over(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.began) >= PERIOD
    }
}

/// What the audit log is to be told of a refusal.
#[derive(Debug, PartialEq, Eq)]
pub enum Told {
    /// All of it.
    Whole,
    /// That there were more, once the period has passed: this is the first of these.
    Later,
    /// Nothing: it is counted.
    Counted,
}

impl Refusals {
    /// Counts a refusal of `token` at the time `now`.
    pub fn count(&self, token: &Name, now: Instant) -> Told {
        let mut by_token = self.by_token.lock().unwrap_or_else(PoisonError::into_inner);
        if by_token.len() >= TOKENS {
            by_token.retain(|_, burst| burst.refused > KEPT || !burst.is_over(now));
        }
        let fresh = || Burst {
            began: now,
            refused: 0,
        };
        let burst = by_token.entry(token.clone()).or_insert_with(fresh);
        // A burst whose rest is still to be told is ended by [`Refusals::end`].
        if burst.refused <= KEPT && burst.is_over(now) {
            *burst = fresh();
        }
        burst.refused += 1;
        match burst.refused {
            ..=KEPT => Told::Whole,
            refused if refused == KEPT + 1 => Told::Later,
            _ => Told::Counted,
        }
    }

    /// Ends the burst of `token`: how many of its refusals were only counted.
    pub fn end(&self, token: &Name) -> u64 {
        let mut by_token = self.by_token.lock().unwrap_or_else(PoisonError::into_inner);
        let burst = by_token.remove(token);
        burst.map_or(0, |burst| burst.refused.saturating_sub(KEPT))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_burst_the_first_are_kept_and_the_others_counted() {
        let refusals = Refusals::default();
        let [token, other]: [Name; 2] = ["a", "b"].map(|name| name.parse().unwrap());
        let start = Instant::now();
        for _ in 0..KEPT {
            assert_eq!(refusals.count(&token, start), Told::Whole);
        }
        assert_eq!(refusals.count(&token, start), Told::Later);
        for _ in 0..99 {
            assert_eq!(refusals.count(&token, start + 2 * PERIOD), Told::Counted);
        }
        assert_eq!(refusals.count(&other, start), Told::Whole);
        assert_eq!(refusals.end(&token), 100);
        assert_eq!(refusals.count(&token, start), Told::Whole);
    }

    #[test]
    fn refusals_now_and_then_are_all_kept() {
        let refusals = Refusals::default();
        let token: Name = "a".parse().unwrap();
        let mut now = Instant::now();
        for _ in 0..10 * KEPT {
            assert_eq!(refusals.count(&token, now), Told::Whole);
            now += PERIOD / 10;
        }
    }
}
