//! [`Failures`]: how often an address may come with a wrong token.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use crate::routes::REFILL;

/// Failures that an address has at once: somebody who mistypes, or a program with an old token.
const BURST: u32 = 10;

/// Addresses that are remembered; the one that has been quiet longest makes room.
const ADDRESSES: usize = 4096;

/// Failures of late, by address.
#[derive(Default)]
pub struct Failures {
    by_address: Mutex<HashMap<IpAddr, Since>>,
}

/// When an address will have all its failures back, as a moment.
#[derive(Clone, Copy)]
struct Since {
    forgiven: Instant,
}

/// What to make of a failure.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    /// One of a few.
    Tolerated,
    /// The first of too many.
    JustTooMany,
    /// Another of too many.
    TooMany,
}

impl Failures {
    /// Counts a failure of `address` at the time `now`.
    pub fn count(&self, address: IpAddr, now: Instant) -> Verdict {
        let mut known = self
            .by_address
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if known.len() >= ADDRESSES && !known.contains_key(&address) {
            let quietest = known.iter().min_by_key(|(_, since)| since.forgiven);
            if let Some(quietest) = quietest.map(|(address, _)| *address) {
                known.remove(&quietest);
            }
        }
        let since = known.entry(address).or_insert(Since { forgiven: now });
        let debt = since.forgiven.saturating_duration_since(now);
        let limit = REFILL * BURST;
        if debt + REFILL <= limit {
            since.forgiven = now + debt + REFILL;
            Verdict::Tolerated
        } else if debt <= limit {
            // One refill beyond the limit marks that it has been told.
            since.forgiven = now + limit + REFILL;
            Verdict::JustTooMany
        } else {
            Verdict::TooMany
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_tolerated_and_patience_comes_back() {
        let failures = Failures::default();
        let (one, other): (IpAddr, IpAddr) = ([192, 0, 2, 1].into(), [192, 0, 2, 2].into());
        let start = Instant::now();
        for _ in 0..BURST {
            assert_eq!(failures.count(one, start), Verdict::Tolerated);
        }
        assert_eq!(failures.count(one, start), Verdict::JustTooMany);
        assert_eq!(failures.count(one, start), Verdict::TooMany);
        assert_eq!(failures.count(other, start), Verdict::Tolerated);
        let later = start + 3 * REFILL;
        assert_eq!(failures.count(one, later), Verdict::Tolerated);
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let failures = Failures::default();
        let now = Instant::now();
        for number in 0..2 * ADDRESSES as u32 {
            failures.count(std::net::Ipv4Addr::from_bits(number).into(), now);
        }
        assert_eq!(failures.by_address.lock().unwrap().len(), ADDRESSES);
    }
}
