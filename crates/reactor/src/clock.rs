//! [`Instant`]: nanoseconds on the reactor's clock, real or virtual.

use std::ops::{Add, AddAssign, Sub};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// A point in time on the reactor's clock: monotonic nanoseconds that go on while the machine is
/// suspended, virtual under simulation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(u64);

impl Instant {
    /// The instant `nanoseconds` after the clock's origin.
    pub const fn from_nanos(nanoseconds: u64) -> Instant {
        Instant(nanoseconds)
    }

    /// Nanoseconds since the clock's origin.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// The time from `earlier` to this instant; zero if `earlier` is later.
    pub fn saturating_since(self, earlier: Instant) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// The time since the machine booted, while it was suspended included: a lease that others
    /// count on must run out meanwhile.
    pub(crate) fn read_clock() -> Instant {
        let time = clock_gettime(ClockId::Boottime);
        Instant(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
    }
}

impl Add<Duration> for Instant {
    type Output = Instant;

    /// The instant `duration` later, or the end of the clock's range.
    fn add(self, duration: Duration) -> Instant {
        let nanoseconds = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        Instant(self.0.saturating_add(nanoseconds))
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, duration: Duration) {
        *self = *self + duration;
    }
}

impl Sub for Instant {
    type Output = Duration;

    /// As [`Instant::saturating_since`].
    fn sub(self, earlier: Instant) -> Duration {
        self.saturating_since(earlier)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::env;
    use std::process::Command;

    /// Is in the environment of a process to which its machine seems to have been suspended.
    const SEEMS: &str = "FLASHYARD_TEST_SEEMS_SUSPENDED";
    /// For so many seconds.
    const SUSPENDED: &str = "1000000";

    /// The test runs itself in a time namespace, for which it has to be root. There the clock that
    /// counts suspension is ahead of the others, as where the machine was suspended.
    #[test]
    fn the_time_for_which_the_machine_was_suspended_counts() {
        if env::var_os(SEEMS).is_none() {
            let mut again = Command::new("unshare");
            again.args(["--time", "--fork", "--boottime", SUSPENDED]);
            again.arg(env::current_exe().expect("this program"));
            again.arg("the_time_for_which_the_machine_was_suspended_counts");
            let ran = again.env(SEEMS, "").output().expect("util-linux is there");
            let told = String::from_utf8_lossy(&ran.stdout);
            let right = ran.status.success() && told.contains("1 passed");
            assert!(right, "{told}{}", String::from_utf8_lossy(&ran.stderr));
            return;
        }
        let awake = clock_gettime(ClockId::Monotonic);
        let counted = Instant::read_clock() - Instant(awake.tv_sec as u64 * 1_000_000_000);
        let suspended = SUSPENDED.parse().expect("seconds");
        assert!(counted >= Duration::from_secs(suspended), "{counted:?}");
    }
}
