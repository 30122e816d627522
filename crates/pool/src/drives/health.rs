//! [`Health`]: how fast a drive answers and how often it errs, and when that is worth telling.
//! No I/O.

use reactor::Instant;
use std::cell::{Cell, RefCell};
use std::time::Duration;

/// A verdict on a drive's pace is given after so many requests of one kind.
const WINDOW: u32 = 256;
/// A drive is slow whose median is so many times that of the others, in windows running.
const SLOW_TIMES: u64 = 3;
/// It is no longer slow below so many times.
const STEADY_TIMES: u64 = 2;
/// It is called slow after this time of such windows: on a fast drive one lasts a millisecond.
const SLOW_AFTER: Duration = Duration::from_secs(5);
/// It is called slow until no window was for this time. Where a pace swings, that is told once.
const STEADY_AFTER: Duration = Duration::from_secs(30);
/// Drives that answer within this are not compared: what differs then is not the drives.
const FLOOR: Duration = Duration::from_micros(100);
/// A pace is forgotten when requests of the other kind have filled so many windows meanwhile.
const FORGOTTEN_WINDOWS: u32 = 4;
/// Errors are told when there are so many, and whenever they have doubled.
const ERRORS_TOLD_FIRST: u64 = 8;
/// Buckets of a histogram: four for each doubling of a time in microseconds.
const BUCKETS: usize = 128;

/// Reads and writes are timed apart: drives may be slow in one only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Read,
    Write,
}

/// What is known of a drive since the pool was opened.
#[derive(Debug)]
pub(crate) struct Health {
    paces: [Pace; 2],
    slow: Cell<bool>,
    read_errors: Cell<u64>,
    corrupt_blocks: Cell<u64>,
    tell_errors_at: Cell<u64>,
}

impl Default for Health {
    fn default() -> Health {
        Health {
            paces: Default::default(),
            slow: Cell::new(false),
            read_errors: Cell::new(0),
            corrupt_blocks: Cell::new(0),
            tell_errors_at: Cell::new(ERRORS_TOLD_FIRST),
        }
    }
}

#[derive(Debug)]
struct Pace {
    histogram: RefCell<[u16; BUCKETS]>,
    count: Cell<u32>,
    /// Of the last full window.
    median_us: Cell<Option<u64>>,
    /// The windows running in which it was slow.
    slow: Cell<Option<Run>>,
    /// Windows of the other kind since the last one of this.
    other_windows: Cell<u32>,
}

/// When the first and the last window of a run ended.
#[derive(Clone, Copy, Debug)]
struct Run {
    first: Instant,
    last: Instant,
}

impl Pace {
    fn was_slow(&self, now: Instant) {
        let first = self.slow.get().map_or(now, |run| run.first);
        self.slow.set(Some(Run { first, last: now }));
    }

    /// It is not slow now. Of a drive that is `called_slow` that counts after a while.
    fn was_steady(&self, called_slow: bool, now: Instant) {
        let since = |run: Run| now.saturating_since(run.last);
        if !called_slow || self.slow.get().is_none_or(|run| since(run) >= STEADY_AFTER) {
            self.slow.set(None);
        }
    }

    fn is_slow(&self, called_slow: bool) -> bool {
        let long = |run: Run| run.last.saturating_since(run.first) >= SLOW_AFTER;
        self.slow.get().is_some_and(|run| called_slow || long(run))
    }
}

impl Default for Pace {
    fn default() -> Pace {
        Pace {
            histogram: RefCell::new([0; BUCKETS]),
            count: Cell::new(0),
            median_us: Cell::new(None),
            slow: Cell::new(None),
            other_windows: Cell::new(0),
        }
    }
}

/// Each doubling of a time is cut in four equal parts: every request asks, so whole numbers only.
fn bucket(time: Duration) -> usize {
    let us = u32::try_from(time.as_micros()).unwrap_or(u32::MAX).max(1);
    let doubling = us.ilog2();
    let quarter = (u64::from(us) << 2 >> doubling) as usize & 3;
    4 * doubling as usize + quarter
}

/// The middle of a bucket, in microseconds.
fn bucket_us(bucket: usize) -> u64 {
    let eighths = 2 * (4 + bucket as u64 % 4) + 1;
    eighths << (bucket / 4) >> 3
}

/// A change in what is thought of a drive's pace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Slow { median_us: u64, others_us: u64 },
    Steady,
}

impl Health {
    /// Enters a request's time. True when a window is full and [`judge`](Health::judge) may say
    /// something new.
    pub fn measured(&self, kind: Kind, time: Duration) -> bool {
        let pace = &self.paces[kind as usize];
        let mut histogram = pace.histogram.borrow_mut();
        histogram[bucket(time)] += 1;
        pace.count.set(pace.count.get() + 1);
        if pace.count.get() < WINDOW {
            return false;
        }
        pace.count.set(0);
        let mut seen = 0;
        let middle = histogram.iter().position(|count| {
            seen += u32::from(*count);
            seen * 2 >= WINDOW
        });
        histogram.fill(0);
        pace.median_us.set(middle.map(bucket_us));
        pace.other_windows.set(0);
        let other = &self.paces[1 - kind as usize];
        other.other_windows.set(other.other_windows.get() + 1);
        true
    }

    /// Half the requests of the last window took longer, in microseconds.
    pub fn median_us(&self, kind: Kind) -> Option<u64> {
        self.paces[kind as usize].median_us.get()
    }

    /// Compares the drive's last window, which ends `now`, with the medians of the other drives.
    pub fn judge(&self, kind: Kind, others: &mut [u64], now: Instant) -> Option<Verdict> {
        let pace = &self.paces[kind as usize];
        let median_us = pace.median_us.get()?;
        others.sort_unstable();
        let others_us = *others.get(others.len() / 2)?;
        let base = others_us.max(FLOOR.as_micros() as u64);
        let called_slow = self.slow.get();
        if median_us < STEADY_TIMES * base {
            pace.was_steady(called_slow, now);
        } else if called_slow || median_us >= SLOW_TIMES * base {
            pace.was_slow(now);
        }
        let other = &self.paces[1 - kind as usize];
        if other.other_windows.get() >= FORGOTTEN_WINDOWS {
            other.was_steady(called_slow, now);
        }
        let slow = self.paces.iter().any(|pace| pace.is_slow(called_slow));
        if self.slow.replace(slow) == slow {
            return None;
        }
        Some(match slow {
            true => Verdict::Slow {
                median_us,
                others_us,
            },
            false => Verdict::Steady,
        })
    }

    pub fn is_slow(&self) -> bool {
        self.slow.get()
    }

    /// A read failed. True when the errors are worth telling.
    pub fn read_failed(&self) -> bool {
        self.read_errors.set(self.read_errors.get() + 1);
        self.errors_worth_telling()
    }

    /// Blocks came back other than they were written. True when the errors are worth telling.
    pub fn corrupt(&self, blocks: u64) -> bool {
        self.corrupt_blocks.set(self.corrupt_blocks.get() + blocks);
        self.errors_worth_telling()
    }

    fn errors_worth_telling(&self) -> bool {
        let errors = self.read_errors() + self.corrupt_blocks();
        let tell = errors >= self.tell_errors_at.get();
        if tell {
            self.tell_errors_at.set(2 * errors);
        }
        tell
    }

    pub fn read_errors(&self) -> u64 {
        self.read_errors.get()
    }

    pub fn corrupt_blocks(&self) -> u64 {
        self.corrupt_blocks.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_of_a_bucket_is_near_every_time_in_it() {
        for us in (1..5000).chain((1..1000).map(|nth| nth * 4_294_967)) {
            let bucket = bucket(Duration::from_micros(us));
            let middle = bucket_us(bucket);
            assert!(
                bucket < BUCKETS && middle.abs_diff(us) * 8 <= us,
                "{us} {middle}"
            );
        }
        assert!(bucket(Duration::from_secs(1 << 40)) < BUCKETS);
    }

    const OTHERS: [u64; 3] = [200, 210, 190];

    fn at(seconds: f64) -> Instant {
        Instant::from_nanos((seconds * 1e9) as u64)
    }

    /// A window of requests that take `us` each, which ends then; what comes of it beside `others`.
    fn window(health: &Health, us: u64, others: &[u64], seconds: f64) -> Option<Verdict> {
        for request in 1..=WINDOW {
            let full = health.measured(Kind::Write, Duration::from_micros(us));
            assert_eq!(full, request == WINDOW);
        }
        health.judge(Kind::Write, &mut others.to_vec(), at(seconds))
    }

    #[test]
    fn three_times_the_median_for_long_is_slow() {
        let health = Health::default();
        let beside_others = |us, seconds| window(&health, us, &OTHERS, seconds);
        assert_eq!(beside_others(1000, 0.0), None, "once");
        assert_eq!(beside_others(1000, 4.9), None, "not for long");
        assert!(matches!(
            beside_others(1000, 5.0),
            Some(Verdict::Slow {
                others_us: 200,
                median_us: 900..1100
            })
        ));
        assert!(health.is_slow());
        assert_eq!(beside_others(1000, 6.0), None, "told");
        assert_eq!(beside_others(500, 40.0), None, "in between");
        assert_eq!(beside_others(220, 69.9), None, "not for long");
        assert_eq!(beside_others(220, 70.0), Some(Verdict::Steady));
        assert!(!health.is_slow());
    }

    /// Hundreds of windows a second, slow and not in turns, as where others use the machine.
    #[test]
    fn a_pace_that_swings_is_told_once_if_at_all() {
        let health = Health::default();
        let swings = |first: u32| {
            let windows = first..first + 6000;
            let windows = windows.map(|nth| (f64::from(nth) / 200.0, nth.is_multiple_of(8)));
            let verdicts = windows.filter_map(|(seconds, steady)| {
                let us = if steady { 210 } else { 1000 };
                window(&health, us, &OTHERS, seconds)
            });
            verdicts.collect::<Vec<_>>()
        };
        assert_eq!(swings(0), []);
        let slow = (6000..8000).filter_map(|nth| {
            let seconds = f64::from(nth) / 200.0;
            window(&health, 1000, &OTHERS, seconds)
        });
        assert!(matches!(
            slow.collect::<Vec<_>>()[..],
            [Verdict::Slow { .. }]
        ));
        assert_eq!(swings(8000), []);
        assert!(health.is_slow());
    }

    #[test]
    fn a_drive_that_was_slow_to_read_and_is_only_written_now_is_forgiven() {
        let health = Health::default();
        for seconds in [0.0, 5.0] {
            for _ in 0..WINDOW {
                health.measured(Kind::Read, Duration::from_millis(9));
            }
            health.judge(Kind::Read, &mut [200, 200], at(seconds));
        }
        assert!(health.is_slow());
        let windows = (1..8).map(|nth| window(&health, 200, &OTHERS, f64::from(5 + 10 * nth)));
        let verdicts: Vec<_> = windows.collect();
        assert!(verdicts.contains(&Some(Verdict::Steady)), "{verdicts:?}");
    }

    #[test]
    fn drives_that_are_all_alike_or_all_fast_are_not_slow() {
        let health = Health::default();
        for seconds in [0.0, 9.0, 19.0, 29.0] {
            assert_eq!(window(&health, 5000, &[4000, 6000], seconds), None);
            let floor = window(&health, 90, &[2, 3], seconds);
            assert_eq!(floor, None, "below the floor");
            assert_eq!(window(&health, 5000, &[], seconds), None, "alone");
        }
    }

    #[test]
    fn errors_are_told_when_they_have_doubled() {
        let health = Health::default();
        let told: Vec<u64> = (1..40).filter(|_| health.read_failed()).collect();
        assert_eq!(told, [8, 16, 32]);
        assert!(health.corrupt(30));
    }
}
