//! What other threads leave for a reactor: wakes and jobs, behind a lock that only they contend.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::event::{EventfdFlags, eventfd};

use crate::usage::Counters;
use crate::waker::TaskId;

/// Work to be started on the reactor's own thread.
pub(crate) type Job = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct Content {
    wakes: Vec<TaskId>,
    jobs: Vec<Job>,
    closed: bool,
}

pub(crate) struct Inbox {
    id: u16,
    content: Mutex<Content>,
    /// Something is in `content`.
    pending: AtomicBool,
    /// The reactor is in the kernel, or about to be: whoever adds something rings the bell.
    asleep: AtomicBool,
    /// An eventfd that the sleeping reactor's ring watches; a simulated reactor never sleeps.
    bell: Option<OwnedFd>,
    pub(crate) usage: Counters,
}

/// The reactors of this process, by id.
static REACTORS: Mutex<Vec<Option<Arc<Inbox>>>> = Mutex::new(Vec::new());

fn reactors() -> MutexGuard<'static, Vec<Option<Arc<Inbox>>>> {
    REACTORS.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Inbox {
    /// A new inbox under an id that no other reactor of the process has.
    pub(crate) fn register(sleeps: bool) -> std::io::Result<Arc<Inbox>> {
        let bell = if sleeps {
            Some(eventfd(0, EventfdFlags::CLOEXEC)?)
        } else {
            None
        };
        let mut reactors = reactors();
        let place = reactors
            .iter()
            .position(Option::is_none)
            .unwrap_or_else(|| {
                reactors.push(None);
                reactors.len() - 1
            });
        let id = u16::try_from(place).expect("fewer than 65536 reactors in one process");
        let inbox = Arc::new(Inbox {
            id,
            content: Mutex::default(),
            pending: AtomicBool::new(false),
            asleep: AtomicBool::new(false),
            bell,
            usage: Counters::default(),
        });
        reactors[place] = Some(Arc::clone(&inbox));
        Ok(inbox)
    }

    /// Takes no more, gives the id back, and drops the jobs that had not started.
    pub(crate) fn close(&self) {
        reactors()[usize::from(self.id)] = None;
        let content = {
            let mut content = self.content();
            content.closed = true;
            (
                std::mem::take(&mut content.jobs),
                std::mem::take(&mut content.wakes),
            )
        };
        drop(content);
    }

    pub(crate) fn id(&self) -> u16 {
        self.id
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.content().closed
    }

    pub(crate) fn bell(&self) -> Option<BorrowedFd<'_>> {
        self.bell.as_ref().map(AsFd::as_fd)
    }

    fn content(&self) -> MutexGuard<'_, Content> {
        self.content.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Leaves a job; gives it back if the reactor has ended.
    pub(crate) fn push_job(&self, job: Job) -> Result<(), Job> {
        {
            let mut content = self.content();
            if content.closed {
                return Err(job);
            }
            content.jobs.push(job);
        }
        self.announce();
        Ok(())
    }

    fn push_wake(&self, task: TaskId) {
        self.content().wakes.push(task);
        self.announce();
    }

    fn announce(&self) {
        self.pending.store(true, Ordering::SeqCst);
        if self.asleep.swap(false, Ordering::SeqCst)
            && let Some(bell) = &self.bell
        {
            // The counter saturates only after 2^64 rings, so the write cannot block or fail.
            let _ = rustix::io::write(bell, &1_u64.to_ne_bytes());
        }
    }

    /// True when something waits to be taken.
    pub(crate) fn is_pending(&self) -> bool {
        self.pending.load(Ordering::Relaxed)
    }

    /// Says that the reactor is about to sleep; false if it must not, because something came.
    pub(crate) fn fall_asleep(&self) -> bool {
        self.asleep.store(true, Ordering::SeqCst);
        let sleep = !self.pending.load(Ordering::SeqCst);
        if !sleep {
            self.wake_up();
        }
        sleep
    }

    pub(crate) fn wake_up(&self) {
        self.asleep.store(false, Ordering::SeqCst);
    }

    /// Exchanges what is there with two empty vectors, whose memory is thereby reused.
    pub(crate) fn take(&self, wakes: &mut Vec<TaskId>, jobs: &mut Vec<Job>) {
        let mut content = self.content();
        self.pending.store(false, Ordering::SeqCst);
        std::mem::swap(&mut content.wakes, wakes);
        std::mem::swap(&mut content.jobs, jobs);
    }
}

/// Wakes a task of a reactor that does not run on this thread, or not now.
pub(crate) fn wake_elsewhere(task: TaskId) {
    let inbox = reactors()
        .get(usize::from(task.reactor()))
        .cloned()
        .flatten();
    if let Some(inbox) = inbox {
        inbox.push_wake(task);
    }
}
