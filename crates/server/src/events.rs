//! [`Events`]: the latest things that happened, kept in memory and written to the log.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use api::{Event, Severity, plain};

use crate::syslog::Syslog;

/// How many events are kept: a busy day's worth, under a megabyte.
const KEPT: usize = 2048;

/// How many of them may be of hosts. Anybody on the network can cause these, so they make room for
/// their own kind only.
const KEPT_OF_HOSTS: usize = KEPT / 2;

/// The latest events, oldest first. Every event is also one line in the log, and a message for the
/// syslog receiver.
pub struct Events {
    syslog: Arc<Syslog>,
    ring: Mutex<Ring>,
}

#[derive(Debug, Default)]
struct Ring {
    events: VecDeque<Kept>,
    /// How many of them are of hosts.
    of_hosts: usize,
    last_id: u64,
    /// How many there were of each severity.
    counts: [u64; 3],
}

#[derive(Debug)]
struct Kept {
    event: Event,
    of_hosts: bool,
}

impl Ring {
    /// Keeps an event in place of the oldest, of its own kind if that has its share.
    fn keep(&mut self, kept: Kept) {
        let oldest = if kept.of_hosts && self.of_hosts == KEPT_OF_HOSTS {
            self.events.iter().position(|kept| kept.of_hosts)
        } else {
            (self.events.len() == KEPT).then_some(0)
        };
        let gone = oldest.and_then(|index| self.events.remove(index));
        self.of_hosts -= usize::from(gone.is_some_and(|gone| gone.of_hosts));
        self.of_hosts += usize::from(kept.of_hosts);
        self.events.push_back(kept);
    }
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
        self.keep(severity, object, message, false);
    }

    /// The same of what hosts do, be they known or not. However much of that there is, other
    /// events stay.
    pub fn record_of_hosts(&self, severity: Severity, object: &str, message: &str) {
        self.keep(severity, object, message, true);
    }

    fn keep(&self, severity: Severity, object: &str, message: &str, of_hosts: bool) {
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
        ring.keep(Kept { event, of_hosts });
    }

    /// How many there were since the node started: for the record, warnings, errors.
    pub fn counts(&self) -> [u64; 3] {
        self.ring().counts
    }

    /// Kept events, oldest first.
    pub fn all(&self) -> Vec<Event> {
        let ring = self.ring();
        ring.events.iter().map(|kept| kept.event.clone()).collect()
    }

    /// The ring is whole between any two statements, so a panic elsewhere does not spoil it.
    fn ring(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Seconds since 1970.
pub(crate) fn seconds(time: SystemTime) -> u64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

/// The time so many seconds after the beginning of 1970, which stands for those that no clock has.
pub(crate) fn time_at(seconds: u64) -> SystemTime {
    let time = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds));
    time.unwrap_or(SystemTime::UNIX_EPOCH)
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

    /// Whoever is on the network can make hosts come and go, and cannot hide what else happened.
    #[test]
    fn events_of_hosts_push_no_others_out() {
        let events = Events::new(Arc::new(Syslog::new().0));
        events.record(Severity::Error, "drive/d0", "I/O failed once");
        for number in 0..KEPT * 3 {
            events.record_of_hosts(Severity::Info, "node", &format!("host {number}"));
        }
        let kept = events.all();
        assert_eq!(kept.len(), 1 + KEPT_OF_HOSTS);
        assert_eq!(kept[0].message, "I/O failed once");
        assert_eq!(kept[KEPT_OF_HOSTS].id, 1 + KEPT as u64 * 3);
        for number in 0..KEPT * 2 {
            events.record(Severity::Info, "node", &format!("event {number}"));
        }
        let kept = events.all();
        assert_eq!(kept.len(), KEPT);
        assert!(kept.iter().all(|event| event.message.starts_with("event")));
    }
}
