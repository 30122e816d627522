//! [`Events`]: the latest things that happened, kept in memory and written to the log.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use api::{Event, Severity, plain};

use crate::syslog::Syslog;

/// How many events are kept: a busy day's worth, under a megabyte.
const KEPT: usize = 2048;

/// The latest events, oldest first. Every event is also one line in the log, and a message for the
/// syslog receiver.
pub struct Events {
    syslog: Arc<Syslog>,
    ring: Mutex<Ring>,
}

#[derive(Debug, Default)]
struct Ring {
    events: VecDeque<Event>,
    last_id: u64,
    /// How many there were of each severity.
    counts: [u64; 3],
}

impl Events {
    /// No events yet.
    pub fn new(syslog: Arc<Syslog>) -> Events {
        Events {
            syslog,
            ring: Mutex::default(),
        }
    }

    /// Records that `message` happened to `object`, such as `drive/d0`.
    pub fn record(&self, severity: Severity, object: &str, message: &str) {
        let message = &*plain(message);
        match severity {
            Severity::Info => tracing::info!(object, "{message}"),
            Severity::Warning => tracing::warn!(object, "{message}"),
            Severity::Error => tracing::error!(object, "{message}"),
        }
        let mut ring = self.ring();
        ring.last_id += 1;
        ring.counts[severity as usize] += 1;
        let event = Event {
            id: ring.last_id,
            time: timestamp(SystemTime::now()),
            severity,
            object: object.to_owned(),
            message: message.to_owned(),
        };
        self.syslog.tell_event(&event);
        if ring.events.len() == KEPT {
            ring.events.pop_front();
        }
        ring.events.push_back(event);
    }

    /// How many there were since the node started: for the record, warnings, errors.
    pub fn counts(&self) -> [u64; 3] {
        self.ring().counts
    }

    /// Kept events, oldest first.
    pub fn all(&self) -> Vec<Event> {
        self.ring().events.iter().cloned().collect()
    }

    /// The ring is whole between any two statements, so a panic elsewhere does not spoil it.
    fn ring(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// UTC as RFC 3339 with milliseconds.
pub(crate) fn timestamp(time: SystemTime) -> String {
    humantime::format_rfc3339_millis(time).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_one_line() {
        let events = Events::new(Arc::new(Syslog::new().0));
        events.record(Severity::Info, "drive/d0", "added: /tmp/a\nb");
        assert_eq!(events.all()[0].message, "added: /tmp/a\\nb");
    }

    #[test]
    fn the_oldest_events_make_room_and_identifiers_go_on() {
        let events = Events::new(Arc::new(Syslog::new().0));
        for number in 0..KEPT + 5 {
            events.record(Severity::Info, "node", &format!("event {number}"));
        }
        let kept = events.all();
        assert_eq!(kept.len(), KEPT);
        assert_eq!(kept[0].id, 6);
        assert_eq!(kept[KEPT - 1].id, KEPT as u64 + 5);
    }
}
