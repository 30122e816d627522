//! The queues that a ring shares with the kernel, whose submission entries have one of two widths.
#![allow(
    unsafe_code,
    reason = "submits entries that point to memory; see the SAFETY lines"
)]

use std::collections::VecDeque;
use std::io;
use std::mem::MaybeUninit;
use std::time::Duration;

use io_uring::squeue::{Entry, Entry128, EntryMarker};
use io_uring::types::{SubmitArgs, Timespec};
use io_uring::{IoUring, Parameters, cqueue};

/// The queues of a ring whose submission entries are `S`.
pub(super) struct Pair<S: EntryMarker> {
    ring: IoUring<S>,
    /// Submissions that found the queue full.
    backlog: VecDeque<S>,
}

impl<S: EntryMarker> Pair<S> {
    pub(super) fn of(ring: IoUring<S>) -> Pair<S> {
        Pair {
            ring,
            backlog: VecDeque::new(),
        }
    }

    /// # Safety
    /// All memory that the entry points to stays valid until its completion.
    unsafe fn push(&mut self, entry: &S) {
        // SAFETY: passed on to the caller.
        if self.backlog.is_empty() && unsafe { self.ring.submission().push(entry) }.is_ok() {
            return;
        }
        // The kernel takes everything it is given, so one call makes room; if it is short of
        // memory the entry waits here for the next turn.
        let _ = self.ring.submit();
        // SAFETY: passed on to the caller.
        if !self.backlog.is_empty() || unsafe { self.ring.submission().push(entry) }.is_err() {
            self.backlog.push_back(entry.clone());
        }
    }

    fn has_completions(&mut self) -> bool {
        if !self.ring.completion().is_empty() {
            return true;
        }
        let submission = self.ring.submission();
        submission.taskrun() || submission.cq_overflow()
    }

    fn submit(&mut self) {
        let idle = {
            let submission = self.ring.submission();
            submission.is_empty() && !submission.taskrun() && !submission.cq_overflow()
        };
        if !idle {
            check_entered(self.ring.submit());
        }
        while let Some(entry) = self.backlog.front() {
            // SAFETY: the entry's memory was promised valid when it was first pushed.
            if unsafe { self.ring.submission().push(entry) }.is_err() {
                break;
            }
            self.backlog.pop_front();
        }
    }

    fn wait(&self, timeout: Option<Duration>) {
        let timespec = Timespec::from(timeout.unwrap_or_default());
        let mut arguments = SubmitArgs::new();
        if timeout.is_some() {
            arguments = arguments.timespec(&timespec);
        }
        check_entered(self.ring.submitter().submit_with_args(1, &arguments));
    }
}

/// The queues of a ring.
pub(super) enum Queues {
    /// Entries of 64 bytes.
    Narrow(Pair<Entry>),
    /// Entries of 128 bytes, with room for a driver's own command.
    Wide(Pair<Entry128>),
}

/// The same for either width.
macro_rules! of_either {
    ($queues:expr, $pair:ident => $act:expr) => {
        match $queues {
            Queues::Narrow($pair) => $act,
            Queues::Wide($pair) => $act,
        }
    };
}

impl Queues {
    pub(super) fn parameters(&self) -> &Parameters {
        of_either!(self, pair => pair.ring.params())
    }

    pub(super) fn are_wide(&self) -> bool {
        matches!(self, Queues::Wide(_))
    }

    /// Queues an entry for the next time the kernel is entered.
    ///
    /// # Safety
    /// All memory that the entry points to stays valid until its completion.
    pub(super) unsafe fn push(&mut self, entry: &Entry) {
        // SAFETY: passed on to the caller.
        unsafe {
            match self {
                Queues::Narrow(pair) => pair.push(entry),
                Queues::Wide(pair) => pair.push(&Entry128::from(entry.clone())),
            }
        }
    }

    /// As [`Queues::push`], for an entry that only a wide ring takes.
    ///
    /// # Panics
    /// When this is a narrow one.
    ///
    /// # Safety
    /// As for [`Queues::push`].
    pub(super) unsafe fn push_wide(&mut self, entry: &Entry128) {
        let Queues::Wide(pair) = self else {
            panic!("an entry of 128 bytes on a ring whose entries have 64");
        };
        // SAFETY: passed on to the caller.
        unsafe { pair.push(entry) };
    }

    /// True when [`Queues::submit`] or [`Queues::fill`] would find something.
    pub(super) fn has_completions(&mut self) -> bool {
        of_either!(self, pair => pair.has_completions())
    }

    /// Submits everything queued and lets the kernel post what has finished.
    pub(super) fn submit(&mut self) {
        of_either!(self, pair => pair.submit());
    }

    /// Sleeps until something completes or `timeout` has passed.
    pub(super) fn wait(&self, timeout: Option<Duration>) {
        of_either!(self, pair => pair.wait(timeout));
    }

    /// Takes out completions, as many as there are and fit into `batch`.
    pub(super) fn fill<'batch>(
        &mut self,
        batch: &'batch mut [MaybeUninit<cqueue::Entry>],
    ) -> &'batch mut [cqueue::Entry] {
        of_either!(self, pair => pair.ring.completion().fill(batch))
    }
}

/// # Panics
/// On errors that only a broken ring can give.
fn check_entered(result: io::Result<usize>) {
    let Err(error) = result else {
        return;
    };
    match error.raw_os_error() {
        // Time is up, a signal came, or completions have to be taken out first.
        Some(libc::ETIME | libc::EINTR | libc::EBUSY | libc::EAGAIN) => {}
        _ => panic!("io_uring_enter failed: {error}"),
    }
}
