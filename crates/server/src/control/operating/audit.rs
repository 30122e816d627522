//! The audit log. What cannot be written to it waits in memory, in order; what there is no room for
//! even there is counted, and an entry says so.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex as BlockingMutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use api::{AuditEntry, ErrorBody, ErrorCode};

use crate::control::Control;
use crate::control::operating::problems::Means;
use crate::events::timestamp;
use crate::state::{State, StateError};

/// Entries that wait: more than people make in the time that they take to make room on a disk.
const WAITING_MAX: usize = 1000;

/// Bytes of requests that wait with them.
const WAITING_BYTES_MAX: usize = 4 << 20;

/// The method of an entry that stands for others.
const LOST: &str = "LOST";

/// Its status: there was no room for them.
const LOST_STATUS: u16 = 507;

/// Entries that are not in the log yet.
#[derive(Default)]
pub(in crate::control) struct Unwritten {
    /// Taken before `waiting` by whoever writes: entries are written in order, and once.
    turn: BlockingMutex<()>,
    waiting: BlockingMutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    entries: VecDeque<AuditEntry>,
    body_bytes: usize,
    /// Entries that were given up since the log was last written.
    lost: u64,
    /// All that ever were.
    lost_in_all: u64,
}

impl Unwritten {
    /// Entries that wait now, and those that were ever given up.
    pub fn counts(&self) -> (u64, u64) {
        let waiting = lock(&self.waiting);
        (waiting.entries.len() as u64, waiting.lost_in_all)
    }

    fn add(&self, entry: AuditEntry) {
        let mut waiting = lock(&self.waiting);
        let bytes = waiting.body_bytes + body_bytes(&entry);
        if waiting.entries.len() == WAITING_MAX || bytes > WAITING_BYTES_MAX {
            waiting.lost += 1;
            waiting.lost_in_all += 1;
        } else {
            waiting.body_bytes = bytes;
            waiting.entries.push_back(entry);
        }
    }

    /// Writes what waits. Blocks on the disk.
    fn write(&self, state: &State) -> Result<(), StateError> {
        let _turn = lock(&self.turn);
        let (mut entries, count, lost) = {
            let waiting = lock(&self.waiting);
            let entries: Vec<_> = waiting.entries.iter().cloned().collect();
            let count = entries.len();
            (entries, count, waiting.lost)
        };
        if lost > 0 {
            entries.push(for_lost(lost));
        }
        if entries.is_empty() {
            return Ok(());
        }
        state.append_audit(&entries)?;
        let mut waiting = lock(&self.waiting);
        waiting.lost -= lost;
        for entry in waiting.entries.drain(..count).collect::<Vec<_>>() {
            waiting.body_bytes -= body_bytes(&entry);
        }
        Ok(())
    }
}

fn body_bytes(entry: &AuditEntry) -> usize {
    entry.body.as_ref().map_or(0, String::len) + entry.path.len()
}

/// Says that there were others before it.
fn for_lost(count: u64) -> AuditEntry {
    AuditEntry {
        id: 0,
        time: timestamp(SystemTime::now()),
        token: "node".parse().expect("it is a name"),
        from: "-".to_owned(),
        request: "-".to_owned(),
        method: LOST.to_owned(),
        path: "/v1/audit".to_owned(),
        body: Some(format!(
            "{count} entries before this one could not be written"
        )),
        status: LOST_STATUS,
        code: Some(ErrorCode::Internal),
        others: 0,
    }
}

fn lock<T>(mutex: &BlockingMutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Control {
    /// Adds to the audit log; durable when it returns, unless the log cannot be written: then the
    /// entry waits until it can.
    pub async fn audit(&self, entry: AuditEntry) {
        self.syslog.tell_audit(&entry);
        self.unwritten.add(entry);
        // A client does not wait for a disk that does not answer.
        if self.state.silence().is_none() {
            self.write_audit().await;
        }
    }

    /// Writes what waits for the audit log, and notes whether that worked.
    pub(in crate::control) async fn write_audit(&self) {
        let (unwritten, state) = (Arc::clone(&self.unwritten), Arc::clone(&self.state));
        let written = tokio::task::spawn_blocking(move || unwritten.write(&state)).await;
        self.look_at_state();
        let failed = match written {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error.to_string()),
            Err(panicked) => Some(panicked.to_string()),
        };
        let problem = failed.map(|reason| {
            let (waiting, lost) = self.unwritten.counts();
            format!(
                "{waiting} entries of the audit log wait to be written, {lost} are lost: {reason}"
            )
        });
        self.note_problem(Means::AuditLog, problem);
    }

    /// Whether entries wait for the audit log.
    pub(in crate::control) fn is_audit_waiting(&self) -> bool {
        let waiting = lock(&self.unwritten.waiting);
        waiting.lost > 0 || !waiting.entries.is_empty()
    }

    /// Says in the log, at the end, what the audit log lacks.
    pub async fn leave_audit(&self) {
        if self.is_audit_waiting() {
            self.write_audit().await;
        }
        let (waiting, _) = self.unwritten.counts();
        if waiting > 0 {
            tracing::warn!("{waiting} entries of the audit log were never written");
        }
    }

    /// At most `count` entries of the audit log after the one with the identifier `after`.
    pub async fn audit_log(&self, after: u64, count: usize) -> Result<Vec<AuditEntry>, ErrorBody> {
        let read = self.read_state(move |state| state.audit_after(after, count));
        let failed = |error| ErrorBody::new(ErrorCode::Internal, error);
        read.await.map_err(failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(number: usize, body_bytes: usize) -> AuditEntry {
        AuditEntry {
            path: format!("/v1/hosts/h{number}"),
            body: Some("x".repeat(body_bytes)),
            method: "PUT".to_owned(),
            ..for_lost(0)
        }
    }

    fn state() -> (tempfile::TempDir, State) {
        let directory = tempfile::tempdir().unwrap();
        let state = State::open(directory.path()).unwrap();
        (directory, state)
    }

    #[test]
    fn entries_wait_in_order_and_what_is_given_up_is_said() {
        let unwritten = Unwritten::default();
        for number in 0..WAITING_MAX + 7 {
            unwritten.add(entry(number, 0));
        }
        assert_eq!(unwritten.counts(), (WAITING_MAX as u64, 7));
        let (_directory, state) = state();
        unwritten.write(&state).unwrap();
        let written = state.audit_after(0, WAITING_MAX + 7).unwrap();
        assert_eq!(written.len(), WAITING_MAX + 1);
        for (number, entry) in written[..WAITING_MAX].iter().enumerate() {
            assert_eq!(entry.path, format!("/v1/hosts/h{number}"));
        }
        let last = &written[WAITING_MAX];
        assert_eq!((last.method.as_str(), last.status), (LOST, LOST_STATUS));
        assert!(
            last.body.as_ref().unwrap().starts_with("7 entries"),
            "{last:?}"
        );
        unwritten.write(&state).unwrap();
        assert_eq!(state.audit_after(last.id, 1).unwrap(), []);
        assert_eq!(unwritten.counts(), (0, 7));
    }

    #[test]
    fn large_requests_do_not_fill_the_memory() {
        let unwritten = Unwritten::default();
        for number in 0..10 {
            unwritten.add(entry(number, 1 << 20));
        }
        let (waiting, lost) = unwritten.counts();
        assert_eq!(waiting + lost, 10);
        assert!(waiting <= 4, "{waiting}");
        let (_directory, state) = state();
        unwritten.write(&state).unwrap();
        unwritten.add(entry(10, 1 << 20));
        assert_eq!(unwritten.counts(), (1, lost));
    }
}
