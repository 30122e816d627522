//! Reactors on threads of their own, and how other threads hand them work.
//!
//! [`Cores`] owns the threads; a [`CoreHandle`] may go anywhere, also to another runtime. What is
//! submitted costs a few allocations, a lock and perhaps a wake-up: right for control operations.
//! For a message per I/O use a [`mailbox`].

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::task::{Context as PollContext, Poll, Waker};
use std::thread::JoinHandle;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::context;
use crate::inbox::Inbox;
use crate::mailbox;
use crate::reactor::{Reactor, ReactorConfig};
use crate::start_error::StartError;
use crate::task::spawn;
use crate::usage::Usage;

/// Which reactors to start.
#[derive(Clone, Debug)]
pub struct CoresConfig {
    /// One reactor for each entry, pinned to the processor it names, or not pinned.
    pub cpus: Vec<Option<usize>>,
    /// Threads are called this and their number.
    pub name: String,
    /// For each reactor.
    pub reactor: ReactorConfig,
}

impl CoresConfig {
    /// `count` reactors that the system may move between processors.
    pub fn unpinned(count: usize) -> CoresConfig {
        CoresConfig {
            cpus: vec![None; count],
            name: "core".to_owned(),
            reactor: ReactorConfig::default(),
        }
    }

    /// `count` reactors on the first processors that this thread may use, one on each; if there
    /// are fewer, some share.
    pub fn pinned(count: usize) -> CoresConfig {
        let allowed: Vec<usize> = match sched_getaffinity(None) {
            Ok(set) => (0..CpuSet::MAX_CPU)
                .filter(|cpu| set.is_set(*cpu))
                .collect(),
            Err(_) => Vec::new(),
        };
        let mut cpus: Vec<_> = allowed
            .iter()
            .copied()
            .map(Some)
            .cycle()
            .take(count)
            .collect();
        cpus.resize(count, None);
        CoresConfig {
            cpus,
            ..CoresConfig::unpinned(0)
        }
    }
}

/// Reactors running on their own threads, until this is dropped.
pub struct Cores {
    handles: Vec<CoreHandle>,
    threads: Vec<JoinHandle<()>>,
    /// A reactor ends when the sender of its mailbox is dropped.
    stops: Vec<mailbox::Sender<()>>,
}

impl Cores {
    /// Starts the reactors; returns when all of them run.
    ///
    /// # Errors
    /// When a thread or its reactor cannot be made; those that could are ended again.
    pub fn start(config: CoresConfig) -> Result<Cores, StartError> {
        let mut cores = Cores {
            handles: Vec::new(),
            threads: Vec::new(),
            stops: Vec::new(),
        };
        for (index, cpu) in config.cpus.iter().copied().enumerate() {
            let (stop, stopped) = mailbox::channel(1);
            let (report, reported) = mpsc::channel();
            let reactor = config.reactor;
            let thread = std::thread::Builder::new()
                .name(format!("{}{index}", config.name))
                .spawn(move || run_core(index, cpu, reactor, &report, stopped))
                .map_err(|error| StartError::Thread { index, error })?;
            cores.threads.push(thread);
            cores.stops.push(stop);
            match reported.recv() {
                Ok(started) => cores.handles.push(CoreHandle {
                    index,
                    inbox: started?,
                }),
                Err(mpsc::RecvError) => unreachable!("a core reports before it runs"),
            }
        }
        Ok(cores)
    }

    /// `count` handles that all lead to the current reactor: for tests, above all simulated ones,
    /// in which one reactor plays all the cores.
    ///
    /// # Panics
    /// Outside a reactor.
    pub fn on_current(count: usize) -> Cores {
        let inbox = Arc::clone(&context::current().inbox);
        let handle = |index| CoreHandle {
            index,
            inbox: Arc::clone(&inbox),
        };
        Cores {
            handles: (0..count).map(handle).collect(),
            threads: Vec::new(),
            stops: Vec::new(),
        }
    }

    /// A handle for each reactor.
    pub fn handles(&self) -> &[CoreHandle] {
        &self.handles
    }

    /// Ends every reactor: their tasks are dropped, their operations cancelled. Waits for that.
    ///
    /// # Panics
    /// With the panic of a reactor's task, if one has ended its reactor.
    pub fn stop(mut self) {
        self.stops.clear();
        for thread in self.threads.drain(..) {
            if let Err(panic) = thread.join() {
                std::panic::resume_unwind(panic);
            }
        }
    }
}

impl Drop for Cores {
    fn drop(&mut self) {
        self.stops.clear();
        for thread in self.threads.drain(..) {
            // A panic has been printed where it happened, and `submit` reports the core stopped.
            let _ = thread.join();
        }
    }
}

type Report = mpsc::Sender<Result<Arc<Inbox>, StartError>>;

fn run_core(
    index: usize,
    cpu: Option<usize>,
    config: ReactorConfig,
    report: &Report,
    mut stopped: mailbox::Receiver<()>,
) {
    let started = pin_to(index, cpu).and_then(|()| Reactor::io_uring(config));
    let reactor = match started {
        Ok(reactor) => reactor,
        Err(error) => {
            let _ = report.send(Err(error));
            return;
        }
    };
    // The starter waits for this report.
    let _ = report.send(Ok(reactor.inbox()));
    reactor.run(async { while stopped.recv().await.is_some() {} });
}

fn pin_to(index: usize, cpu: Option<usize>) -> Result<(), StartError> {
    let Some(cpu) = cpu else {
        return Ok(());
    };
    let error = |error| StartError::Thread { index, error };
    if cpu >= CpuSet::MAX_CPU {
        return Err(error(std::io::ErrorKind::InvalidInput.into()));
    }
    let mut set = CpuSet::new();
    set.set(cpu);
    sched_setaffinity(None, &set).map_err(|errno| error(errno.into()))
}

/// Leads to one reactor, from any thread.
#[derive(Clone)]
pub struct CoreHandle {
    index: usize,
    inbox: Arc<Inbox>,
}

impl CoreHandle {
    /// Which of the [`Cores`] this is.
    pub fn index(&self) -> usize {
        self.index
    }

    /// False once the reactor has ended, be it by a panic in one of its tasks.
    pub fn is_running(&self) -> bool {
        !self.inbox.is_closed()
    }

    /// How the reactor's time is spent.
    pub fn usage(&self) -> Usage {
        self.inbox.usage.read()
    }

    /// Calls `make` on the reactor's thread and runs the future that it returns there as a task.
    ///
    /// What is returned may be awaited on any executor, or waited for by a thread. Dropping it
    /// lets the task run on.
    pub fn submit<T, F, M>(&self, make: M) -> Submitted<T>
    where
        M: FnOnce() -> F + Send + 'static,
        F: Future<Output = T> + 'static,
        T: Send + 'static,
    {
        let reply = Reply {
            shared: Arc::new(Shared::default()),
        };
        let shared = Arc::clone(&reply.shared);
        let job = Box::new(move || {
            drop(spawn(async move {
                let output = make().await;
                reply.send(output);
            }));
        });
        // A job that comes back is dropped, and its reply with it: that reports the core stopped.
        let _ = self.inbox.push_job(job);
        Submitted { shared }
    }
}

/// The reactor ended before the work did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the core has stopped")]
pub struct CoreStopped;

enum Outcome<T> {
    Waiting(Option<Waker>),
    Done(Result<T, CoreStopped>),
    Taken,
}

struct Shared<T> {
    outcome: Mutex<Outcome<T>>,
    /// For threads in [`Submitted::wait`].
    changed: Condvar,
}

impl<T> Default for Shared<T> {
    fn default() -> Shared<T> {
        Shared {
            outcome: Mutex::new(Outcome::Waiting(None)),
            changed: Condvar::new(),
        }
    }
}

impl<T> Shared<T> {
    fn lock(&self) -> MutexGuard<'_, Outcome<T>> {
        self.outcome.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn finish(&self, result: Result<T, CoreStopped>) {
        let before = {
            let mut outcome = self.lock();
            if !matches!(*outcome, Outcome::Waiting(_)) {
                return;
            }
            std::mem::replace(&mut *outcome, Outcome::Done(result))
        };
        self.changed.notify_all();
        if let Outcome::Waiting(Some(waker)) = before {
            waker.wake();
        }
    }
}

/// The working end: reports the core stopped if it is dropped without a result.
struct Reply<T> {
    shared: Arc<Shared<T>>,
}

impl<T> Reply<T> {
    fn send(self, output: T) {
        self.shared.finish(Ok(output));
    }
}

impl<T> Drop for Reply<T> {
    fn drop(&mut self) {
        self.shared.finish(Err(CoreStopped));
    }
}

/// The result of [`CoreHandle::submit`], when it is there.
#[must_use = "dropping this lets the work run on without anyone seeing its result"]
pub struct Submitted<T> {
    shared: Arc<Shared<T>>,
}

impl<T> Submitted<T> {
    /// Blocks the thread until the result is there. Not for reactor threads, least of all the one
    /// that does the work.
    ///
    /// # Errors
    /// When the core stopped first.
    pub fn wait(self) -> Result<T, CoreStopped> {
        let mut outcome = self.shared.lock();
        loop {
            match std::mem::replace(&mut *outcome, Outcome::Taken) {
                Outcome::Done(result) => return result,
                before => *outcome = before,
            }
            let waited = self.shared.changed.wait(outcome);
            outcome = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl<T> Future for Submitted<T> {
    type Output = Result<T, CoreStopped>;

    fn poll(self: Pin<&mut Self>, context: &mut PollContext<'_>) -> Poll<Self::Output> {
        let mut outcome = self.shared.lock();
        match std::mem::replace(&mut *outcome, Outcome::Taken) {
            Outcome::Done(result) => Poll::Ready(result),
            Outcome::Waiting(_) => {
                *outcome = Outcome::Waiting(Some(context.waker().clone()));
                Poll::Pending
            }
            Outcome::Taken => panic!("the result of a submission was taken before"),
        }
    }
}
