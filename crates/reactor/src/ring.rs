//! The io_uring of one reactor: queues submissions, enters the kernel, hands out completions.
#![allow(unsafe_code, reason = "the ring's shared memory; see the SAFETY lines")]

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::rc::Rc;
use std::time::Duration;

use io_uring::types::{Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, opcode, squeue};

use crate::context::Context;
use crate::operation::{Completion, Key, Operation, Operations, Resource};
use crate::start_error::StartError;

/// The `user_data` of the read that waits for other threads' bell.
const BELL: u64 = u64::MAX;
/// The `user_data` of cancellations, whose own outcome says nothing new.
const CANCEL: u64 = u64::MAX - 1;

/// How long the end of a reactor waits for the kernel to let go of operations in flight.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

/// Completions taken from the ring at a time.
const REAP_BATCH: usize = 64;

pub(crate) struct Ring {
    ring: RefCell<IoUring>,
    operations: RefCell<Operations>,
    /// Submissions that found the queue full.
    backlog: RefCell<VecDeque<squeue::Entry>>,
    /// Submissions that go behind all others of this turn.
    last: RefCell<Vec<squeue::Entry>>,
    bell: Cell<Option<RawFd>>,
    bell_armed: Cell<bool>,
    /// Where the kernel puts the bell's counter.
    bell_counter: Box<Cell<u64>>,
}

impl Ring {
    pub(crate) fn new(entries: u32) -> Result<Ring, StartError> {
        let ring = set_up(entries.next_power_of_two()).map_err(StartError::from_setup)?;
        if !ring.params().is_feature_nodrop() {
            return Err(StartError::too_old("IORING_FEAT_NODROP"));
        }
        if !ring.params().is_feature_ext_arg() {
            return Err(StartError::too_old("IORING_FEAT_EXT_ARG"));
        }
        Ok(Ring {
            ring: RefCell::new(ring),
            operations: RefCell::default(),
            backlog: RefCell::default(),
            last: RefCell::default(),
            bell: Cell::new(None),
            bell_armed: Cell::new(false),
            bell_counter: Box::new(Cell::new(0)),
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
        let mut ring = self.ring.borrow_mut();
        // SAFETY: passed on to the caller.
        if unsafe { ring.submission().push(entry) }.is_ok() {
            return;
        }
        // The kernel takes everything it is given, so one call makes room; if it is short of
        // memory the entry waits here for the next turn.
        let _ = ring.submit();
        // SAFETY: passed on to the caller.
        if unsafe { ring.submission().push(entry) }.is_err() {
            self.backlog.borrow_mut().push_back(entry.clone());
        }
    }

    /// Queues an entry behind all others of this turn.
    ///
    /// # Safety
    /// As for [`Ring::push`].
    unsafe fn push_last(&self, entry: squeue::Entry) {
        self.last.borrow_mut().push(entry);
    }

    /// Asks the kernel to end an operation that nobody waits for.
    pub(crate) fn cancel(&self, key: Key) {
        let cancel = opcode::AsyncCancel::new(key.user_data())
            .build()
            .user_data(CANCEL);
        // SAFETY: the entry points to no memory.
        unsafe { self.push(&cancel) };
    }

    /// True when a call of [`Ring::submit`] or [`Ring::reap`] would find something.
    pub(crate) fn has_completions(&self) -> bool {
        let mut ring = self.ring.borrow_mut();
        if !ring.completion().is_empty() {
            return true;
        }
        let submission = ring.submission();
        submission.taskrun() || submission.cq_overflow()
    }

    /// Submits everything queued and lets the kernel post what has finished.
    pub(crate) fn submit(&self) {
        for entry in self.last.borrow_mut().drain(..) {
            // SAFETY: the entry's memory was promised valid when it was put here.
            unsafe { self.push(&entry) };
        }
        let mut ring = self.ring.borrow_mut();
        let idle = {
            let submission = ring.submission();
            submission.is_empty() && !submission.taskrun() && !submission.cq_overflow()
        };
        if !idle {
            check_entered(ring.submit());
        }
        let mut backlog = self.backlog.borrow_mut();
        while let Some(entry) = backlog.front() {
            // SAFETY: the entry's memory was promised valid when it was first pushed.
            if unsafe { ring.submission().push(entry) }.is_err() {
                break;
            }
            backlog.pop_front();
        }
    }

    /// Sleeps until something completes or `timeout` has passed.
    pub(crate) fn wait(&self, timeout: Option<Duration>) {
        let ring = self.ring.borrow_mut();
        let timespec = Timespec::from(timeout.unwrap_or_default());
        let mut arguments = SubmitArgs::new();
        if timeout.is_some() {
            arguments = arguments.timespec(&timespec);
        }
        check_entered(ring.submitter().submit_with_args(1, &arguments));
    }

    /// Hands out everything that has completed; the number of completions.
    pub(crate) fn reap(&self) -> usize {
        let mut batch = [const { MaybeUninit::<cqueue::Entry>::uninit() }; REAP_BATCH];
        let mut total = 0;
        loop {
            let completions = self.ring.borrow_mut().completion().fill(&mut batch);
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
            user_data => {
                let key = Key::from_user_data(user_data);
                let outcome = self
                    .operations
                    .borrow_mut()
                    .complete(key, completion.result());
                match outcome {
                    Completion::Wake(waker) => waker.wake(),
                    Completion::Drop(released) => drop(released),
                    Completion::Nothing => {}
                }
            }
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
                self.operations.borrow_mut().leak();
                return;
            }
            self.submit();
            if self.reap() == 0 {
                self.wait(Some(Duration::from_millis(10)));
            }
        }
    }
}

/// The best ring this kernel offers. Without deferred task work completions interrupt the thread
/// instead of waiting for it, which costs time but changes nothing else.
fn set_up(entries: u32) -> io::Result<IoUring> {
    // A recv in flight on every connection, besides what is submitted in one turn.
    let completions = entries.saturating_mul(8).min(65536);
    let deferred = IoUring::builder()
        .setup_clamp()
        .setup_cqsize(completions)
        .setup_submit_all()
        .setup_single_issuer()
        .setup_defer_taskrun()
        .setup_taskrun_flag()
        .build(entries);
    match deferred {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {}
        other => return other,
    }
    let cooperative = IoUring::builder()
        .setup_clamp()
        .setup_cqsize(completions)
        .setup_coop_taskrun()
        .setup_taskrun_flag()
        .build(entries);
    match cooperative {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {}
        other => return other,
    }
    IoUring::builder()
        .setup_clamp()
        .setup_cqsize(completions)
        .build(entries)
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

/// Starts an operation on `file`; `build` makes the entry from the resource's final place.
///
/// # Safety
/// The entry that `build` returns points to no memory but the heap memory of the resource it is
/// given, within its bounds.
pub(crate) unsafe fn start(
    context: &Rc<Context>,
    file: &Rc<OwnedFd>,
    resource: Resource,
    build: impl FnOnce(Fd, &mut Resource) -> squeue::Entry,
) -> Operation {
    let (fd, file) = (Fd(file.as_raw_fd()), Some(Rc::clone(file)));
    // SAFETY: passed on to the caller; `file` is kept open by the entry.
    unsafe { start_on(context, fd, file, resource, build, Place::Next) }
}

/// As [`start`], behind everything else of this turn: for operations that are expected to wait,
/// so that they do not hold up those that do something at once.
///
/// # Safety
/// As for [`start`].
pub(crate) unsafe fn start_last(
    context: &Rc<Context>,
    file: &Rc<OwnedFd>,
    resource: Resource,
    build: impl FnOnce(Fd, &mut Resource) -> squeue::Entry,
) -> Operation {
    let (fd, file) = (Fd(file.as_raw_fd()), Some(Rc::clone(file)));
    // SAFETY: passed on to the caller; `file` is kept open by the entry.
    unsafe { start_on(context, fd, file, resource, build, Place::Last) }
}

/// As [`start`], for operations on no open file.
///
/// # Safety
/// As for [`start`].
pub(crate) unsafe fn start_without_file(
    context: &Rc<Context>,
    resource: Resource,
    build: impl FnOnce(Fd, &mut Resource) -> squeue::Entry,
) -> Operation {
    // SAFETY: passed on to the caller.
    unsafe {
        start_on(
            context,
            Fd(libc::AT_FDCWD),
            None,
            resource,
            build,
            Place::Next,
        )
    }
}

/// Where an operation goes among those of its turn.
enum Place {
    Next,
    Last,
}

unsafe fn start_on(
    context: &Rc<Context>,
    fd: Fd,
    file: Option<Rc<OwnedFd>>,
    resource: Resource,
    build: impl FnOnce(Fd, &mut Resource) -> squeue::Entry,
    place: Place,
) -> Operation {
    let ring = context.ring().expect("this reactor has a ring");
    let (key, entry) = {
        let mut operations = ring.operations.borrow_mut();
        let (key, resource) = operations.insert(resource, file);
        (key, build(fd, resource).user_data(key.user_data()))
    };
    // SAFETY: the entry points only into the resource, which the table keeps until completion.
    unsafe {
        match place {
            Place::Next => ring.push(&entry),
            Place::Last => ring.push_last(entry),
        }
    }
    Operation::new(Rc::clone(context), key)
}
