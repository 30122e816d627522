//! The io_uring of one reactor: queues submissions, enters the kernel, hands out completions.
#![allow(unsafe_code, reason = "the ring's shared memory; see the SAFETY lines")]

mod queues;
mod receives;
mod sends;
mod set_up;
mod start;

use std::cell::{Cell, RefCell};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::rc::Rc;
use std::time::Duration;

use io_uring::types::Fd;
use io_uring::{cqueue, opcode, squeue};

use crate::operation::{Completion, Key, Operations};
use crate::start_error::StartError;
use queues::Queues;
use receives::{Receive, Receives};
use sends::{Send, Sends};
use set_up::set_up;
#[cfg(test)]
pub(crate) use set_up::{RING_KINDS, RingKind};
pub(crate) use start::{start, start_receive, start_send, start_wide, start_without_file};

/// The `user_data` of the read that waits for other threads' bell.
const BELL: u64 = u64::MAX;
/// The `user_data` of cancellations, whose own outcome says nothing new.
const CANCEL: u64 = u64::MAX - 1;

/// How long the end of a reactor waits for the kernel to let go of operations in flight.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

/// Completions taken from the ring at a time.
const REAP_BATCH: usize = 64;

pub(crate) struct Ring {
    queues: RefCell<Queues>,
    operations: RefCell<Operations>,
    /// Sends of this turn.
    sends: RefCell<Sends>,
    /// Receives that the loop tries itself for as long as it does not sleep.
    receives: RefCell<Receives>,
    /// Whether the loop polls before it sleeps, so that trying receives makes sense.
    polls: bool,
    bell: Cell<Option<RawFd>>,
    bell_armed: Cell<bool>,
    /// Where the kernel puts the bell's counter.
    bell_counter: Rc<Cell<u64>>,
}

impl Ring {
    /// A ring of `entries` entries, for a loop that does or does not poll before it sleeps; `wide`
    /// entries have room for commands to drivers.
    pub(crate) fn new(entries: u32, wide: bool, polls: bool) -> Result<Ring, StartError> {
        let queues = set_up(entries.next_power_of_two(), wide).map_err(StartError::from_setup)?;
        Ring::over(queues, polls)
    }

    /// A ring of a given kind, which this kernel has.
    #[cfg(test)]
    pub(crate) fn of_kind(kind: RingKind, wide: bool, polls: bool) -> Result<Ring, StartError> {
        let queues = set_up::set_up_kind(kind, 64, wide).map_err(StartError::from_setup)?;
        Ring::over(queues, polls)
    }

    fn over(queues: Queues, polls: bool) -> Result<Ring, StartError> {
        if !queues.parameters().is_feature_nodrop() {
            return Err(StartError::too_old("IORING_FEAT_NODROP"));
        }
        if !queues.parameters().is_feature_ext_arg() {
            return Err(StartError::too_old("IORING_FEAT_EXT_ARG"));
        }
        Ok(Ring {
            queues: RefCell::new(queues),
            operations: RefCell::default(),
            sends: RefCell::default(),
            receives: RefCell::default(),
            polls,
            bell: Cell::new(None),
            bell_armed: Cell::new(false),
            bell_counter: Rc::new(Cell::new(0)),
        })
    }

    /// From now on writes to the eventfd `bell` end a sleep.
    pub(crate) fn watch_bell(&self, bell: BorrowedFd<'_>) {
        self.bell.set(Some(bell.as_raw_fd()));
        self.arm_bell();
    }

    fn arm_bell(&self) {
        let Some(bell) = self.bell.get() else {
            return;
        };
        let read = opcode::Read::new(Fd(bell), self.bell_counter.as_ptr().cast(), 8);
        self.bell_armed.set(true);
        // SAFETY: the counter is on the heap, and the ring is drained before it is freed.
        unsafe { self.push(&read.build().user_data(BELL)) };
    }

    pub(crate) fn operations(&self) -> &RefCell<Operations> {
        &self.operations
    }

    /// Queues an entry for the next time the kernel is entered.
    ///
    /// # Safety
    /// All memory that the entry points to stays valid until its completion.
    unsafe fn push(&self, entry: &squeue::Entry) {
        // SAFETY: passed on to the caller.
        unsafe { self.queues.borrow_mut().push(entry) };
    }

    /// As [`Ring::push`], for an entry of 128 bytes.
    ///
    /// # Panics
    /// When this ring's entries have 64.
    ///
    /// # Safety
    /// As for [`Ring::push`].
    unsafe fn push_wide(&self, entry: &squeue::Entry128) {
        // SAFETY: passed on to the caller.
        unsafe { self.queues.borrow_mut().push_wide(entry) };
    }

    /// Whether entries have room for commands to drivers.
    pub(crate) fn is_wide(&self) -> bool {
        self.queues.borrow().are_wide()
    }

    /// Takes in a receive, to be tried directly for a while if it may be.
    ///
    /// # Safety
    /// The receive's socket and memory stay valid until its completion.
    unsafe fn add_receive(&self, receive: Receive, may_be_tried: bool) {
        let to_the_ring = if self.polls && may_be_tried {
            self.receives.borrow_mut().add(receive)
        } else {
            Some(receive.entry)
        };
        if let Some(entry) = to_the_ring {
            // SAFETY: passed on to the caller.
            unsafe { self.push(&entry) };
        }
    }

    /// Takes in a send, to be done when the turn ends.
    ///
    /// # Safety
    /// The send's socket and memory stay valid until its completion.
    unsafe fn add_send(&self, send: Send) {
        self.sends.borrow_mut().add(send);
    }

    /// Receives directly what is there for the latest receives; how many came to an end.
    pub(crate) fn try_receives(&self) -> usize {
        let mut count = 0;
        loop {
            let done = self.receives.borrow_mut().try_next();
            let Some((key, result)) = done else {
                return count;
            };
            self.finish(key, result);
            count += 1;
        }
    }

    /// Gives the receives that were tried directly to the ring, which can wait for them.
    pub(crate) fn hand_over_receives(&self) {
        loop {
            let entry = self.receives.borrow_mut().pop();
            let Some(entry) = entry else {
                return;
            };
            // SAFETY: promised by whoever added the receive.
            unsafe { self.push(&entry) };
        }
    }

    /// Asks the kernel to end an operation that nobody waits for.
    pub(crate) fn cancel(&self, key: Key) {
        let never_began =
            self.receives.borrow_mut().remove(key) || self.sends.borrow_mut().remove(key);
        if never_began {
            return self.finish(key, -libc::ECANCELED);
        }
        let cancel = opcode::AsyncCancel::new(key.user_data())
            .build()
            .user_data(CANCEL);
        // SAFETY: the entry points to no memory.
        unsafe { self.push(&cancel) };
    }

    /// True when a call of [`Ring::submit`] or [`Ring::reap`] would find something.
    pub(crate) fn has_completions(&self) -> bool {
        self.queues.borrow_mut().has_completions()
    }

    /// Submits everything queued and lets the kernel post what has finished.
    pub(crate) fn submit(&self) {
        let sent = self.sends.borrow_mut().try_only();
        if let Some((key, result)) = sent {
            self.finish(key, result);
        }
        for entry in self.sends.borrow_mut().drain() {
            // SAFETY: promised by whoever added the send.
            unsafe { self.push(&entry) };
        }
        self.queues.borrow_mut().submit();
    }

    /// Sleeps until something completes or `timeout` has passed.
    pub(crate) fn wait(&self, timeout: Option<Duration>) {
        self.queues.borrow().wait(timeout);
    }

    /// Hands out everything that has completed; the number of completions.
    pub(crate) fn reap(&self) -> usize {
        let mut batch = [const { MaybeUninit::<cqueue::Entry>::uninit() }; REAP_BATCH];
        let mut total = 0;
        loop {
            let completions = self.queues.borrow_mut().fill(&mut batch);
            let count = completions.len();
            for completion in &*completions {
                self.complete(completion);
            }
            total += count;
            if count < REAP_BATCH {
                return total;
            }
        }
    }

    fn complete(&self, completion: &cqueue::Entry) {
        match completion.user_data() {
            CANCEL => {}
            BELL => {
                self.bell_armed.set(false);
                if completion.result() != -libc::ECANCELED {
                    self.arm_bell();
                }
            }
            user_data => self.finish(Key::from_user_data(user_data), completion.result()),
        }
    }

    fn finish(&self, key: Key, result: i32) {
        let outcome = self.operations.borrow_mut().complete(key, result);
        match outcome {
            Completion::Wake(waker) => waker.wake(),
            Completion::Drop(released) => drop(released),
            Completion::Nothing => {}
        }
    }

    /// Cancels everything in flight and waits until the kernel has let go of all memory.
    pub(crate) fn drain(&self) {
        self.bell.set(None);
        for key in self.operations.borrow().keys_in_flight() {
            self.cancel(key);
        }
        if self.bell_armed.get() {
            self.cancel(Key::from_user_data(BELL));
        }
        let started = std::time::Instant::now();
        while self.operations.borrow().in_flight() > 0 || self.bell_armed.get() {
            if started.elapsed() > DRAIN_TIMEOUT {
                // Rather lose the memory than let the kernel write to it after it is freed.
                self.operations.borrow_mut().leak();
                std::mem::forget(Rc::clone(&self.bell_counter));
                return;
            }
            self.submit();
            if self.reap() == 0 {
                self.wait(Some(Duration::from_millis(10)));
            }
        }
    }
}

/// The result of a system call as the ring would give it; `None` if the call is to be tried again.
fn finished(result: isize) -> Option<i32> {
    if result >= 0 {
        return Some(i32::try_from(result).unwrap_or(i32::MAX));
    }
    let errno = io::Error::last_os_error()
        .raw_os_error()
        .unwrap_or(libc::EIO);
    (errno != libc::EAGAIN && errno != libc::EINTR).then_some(-errno)
}
