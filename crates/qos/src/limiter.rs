//! [`Limiter`]: the limits of one volume or tenant at work.

use crate::bucket::Bucket;

/// Which way the data of a command goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// To the host.
    Read,
    /// To the volume.
    Write,
}

/// At most this much; what is absent is not limited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rate {
    /// Commands a second.
    pub iops: Option<u64>,
    /// Bytes a second.
    pub bytes_per_second: Option<u64>,
}

/// What a volume or a tenant may do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rates {
    /// Reads.
    pub read: Rate,
    /// Writes.
    pub write: Rate,
    /// Both together.
    pub total: Rate,
    /// After a pause, what the rates are in this time starts at once.
    pub burst_ms: u32,
}

/// The limits of one volume or tenant at work, for all cores.
#[derive(Debug)]
pub struct Limiter {
    read: Pair,
    write: Pair,
    total: Pair,
}

/// What one direction may do.
#[derive(Debug)]
struct Pair {
    commands: Option<Bucket>,
    bytes: Option<Bucket>,
}

impl Pair {
    fn new(rate: Rate, burst_ms: u32) -> Pair {
        let bucket = |rate: Option<u64>| rate.map(|rate| Bucket::new(rate, burst_ms));
        Pair {
            commands: bucket(rate.iops),
            bytes: bucket(rate.bytes_per_second),
        }
    }

    fn opens_ns(&self) -> u64 {
        let opens = |bucket: &Option<Bucket>| bucket.as_ref().map_or(0, Bucket::opens_ns);
        opens(&self.commands).max(opens(&self.bytes))
    }

    fn take(&self, bytes: u64, now_ns: u64) {
        if let Some(commands) = &self.commands {
            commands.take(1, now_ns);
        }
        if let Some(counted) = &self.bytes {
            counted.take(bytes, now_ns);
        }
    }
}

impl Limiter {
    /// These rates, with full bursts.
    pub fn new(rates: &Rates) -> Limiter {
        let pair = |rate: Rate| Pair::new(rate, rates.burst_ms);
        Limiter {
            read: pair(rates.read),
            write: pair(rates.write),
            total: pair(rates.total),
        }
    }

    /// Counts a command in, which starts now; or says from when on to ask again.
    pub fn take(&self, direction: Direction, bytes: u64, now_ns: u64) -> Result<(), u64> {
        let own = match direction {
            Direction::Read => &self.read,
            Direction::Write => &self.write,
        };
        let opens_ns = own.opens_ns().max(self.total.opens_ns());
        if opens_ns > now_ns {
            return Err(opens_ns);
        }
        own.take(bytes, now_ns);
        self.total.take(bytes, now_ns);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

    fn iops(rate: u64) -> Rate {
        Rate {
            iops: Some(rate),
            ..Rate::default()
        }
    }

    /// Reads and writes wait for their own rates and for the common one, and not for each other's.
    #[test]
    fn directions_have_their_own_rates_and_a_common_one() {
        let limiter = Limiter::new(&Rates {
            read: iops(1000),
            total: iops(1500),
            burst_ms: 10,
            ..Rates::default()
        });
        let (mut reads, mut writes) = (0, 0);
        for now in (SECOND_NS..3 * SECOND_NS).step_by(100_000) {
            for direction in [Direction::Read, Direction::Write] {
                let taken = limiter.take(direction, 4096, now).is_ok();
                match direction {
                    Direction::Read => reads += u64::from(taken),
                    Direction::Write => writes += u64::from(taken),
                }
            }
        }
        let sum = reads + writes;
        assert!((2990..=3020).contains(&sum), "{reads} + {writes}");
        assert!(reads <= 2012 && writes >= 990, "{reads} + {writes}");
    }

    #[test]
    fn bytes_are_counted_beside_commands() {
        let limiter = Limiter::new(&Rates {
            write: Rate {
                iops: Some(1_000_000),
                bytes_per_second: Some(1 << 20),
            },
            ..Rates::default()
        });
        assert_eq!(limiter.take(Direction::Write, 1 << 20, SECOND_NS), Ok(()));
        let next = limiter.take(Direction::Write, 4096, SECOND_NS);
        assert_eq!(next, Err(2 * SECOND_NS));
        assert_eq!(limiter.take(Direction::Read, 1 << 30, SECOND_NS), Ok(()));
        assert_eq!(limiter.take(Direction::Write, 4096, 2 * SECOND_NS), Ok(()));
    }
}
