//! [`Retries`]: when upkeep tries again what it could not do.

use reactor::Instant;
use std::cell::Cell;
use std::time::Duration;

/// What could not be moved is left alone for so long at first.
pub(crate) const STUCK_FOR: Duration = Duration::from_secs(60);

/// When what could not be done is tried again, or given up.
pub(crate) struct Retries {
    /// When what could not be read is tried again, and how long it is then left alone.
    pub stuck_until: Cell<Option<Instant>>,
    pub stuck_for: Cell<Duration>,
    /// Since when writes wait for space on drives that are not ready.
    pub away_since: Cell<Option<Instant>>,
}

impl Default for Retries {
    fn default() -> Retries {
        Retries {
            stuck_until: Cell::default(),
            stuck_for: Cell::new(STUCK_FOR),
            away_since: Cell::default(),
        }
    }
}
