//! [`Owed`]: the requests that a drive has not answered, and since when.

use reactor::Instant;
use std::cell::Cell;
use std::time::Duration;

/// A drive that has answered nothing for so long is told of.
pub(crate) const TOLD_AFTER: Duration = Duration::from_secs(5);

/// Whether a drive owes answers, and since when it has given none.
#[derive(Debug, Default)]
pub(crate) struct Owed {
    requests: Cell<usize>,
    since: Cell<Instant>,
    /// When it was last told of.
    told: Cell<Instant>,
}

/// A request that is under way.
pub(crate) struct Owing<'a>(&'a Owed);

impl Owed {
    pub fn begin(&self) -> Owing<'_> {
        if self.requests.get() == 0 {
            self.since.set(reactor::turn_started());
        }
        self.requests.set(self.requests.get() + 1);
        Owing(self)
    }

    /// Something has been answered.
    pub fn answered(&self) {
        self.since.set(reactor::turn_started());
    }

    /// For how long nothing has been answered of what was asked.
    pub fn silent_for(&self) -> Duration {
        match self.requests.get() {
            0 => Duration::ZERO,
            _ => reactor::now().saturating_since(self.since.get()),
        }
    }

    /// True once in [`TOLD_AFTER`], whoever asks and however late: a drive that has been silent for
    /// that long is to be told of.
    pub fn tells_again(&self) -> bool {
        let now = reactor::now();
        let again = now.saturating_since(self.told.get()) >= TOLD_AFTER;
        if again {
            self.told.set(now);
        }
        again
    }
}

impl Drop for Owing<'_> {
    fn drop(&mut self) {
        self.0.requests.set(self.0.requests.get() - 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks at these times, in tenths of a second since a drive was asked something, which it
    /// never answers; returns those at which it is told.
    fn told_at(looks: &'static [u64]) -> Vec<u64> {
        reactor::Reactor::simulated(1).run(async {
            let owed = Owed::default();
            let _owing = owed.begin();
            let begun = reactor::now();
            let mut told = Vec::new();
            for look in looks {
                reactor::sleep_until(begun + Duration::from_millis(look * 100)).await;
                if owed.silent_for() >= TOLD_AFTER && owed.tells_again() {
                    told.push(*look);
                }
            }
            told
        })
    }

    #[test]
    fn a_silent_drive_is_told_of_every_few_seconds_though_looks_come_late() {
        assert_eq!(told_at(&[40, 50, 60, 70, 80, 90, 100, 110]), [50, 100]);
        assert_eq!(
            told_at(&[49, 60, 70, 80, 90, 109, 119, 169]),
            [60, 119, 169]
        );
        // Several cores look.
        assert_eq!(told_at(&[50, 50, 51, 60, 100, 100]), [50, 100]);
    }

    #[test]
    fn a_silence_that_begins_anew_is_told_of_anew() {
        reactor::Reactor::simulated(1).run(async {
            let owed = Owed::default();
            let _owing = owed.begin();
            reactor::sleep(Duration::from_secs(9)).await;
            assert!(owed.tells_again());
            owed.answered();
            assert_eq!(owed.silent_for(), Duration::ZERO);
            reactor::sleep(TOLD_AFTER).await;
            assert!(owed.silent_for() >= TOLD_AFTER && owed.tells_again());
        });
    }
}
