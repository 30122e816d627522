//! [`blocking`]: the few system calls that no ring can do, and long arithmetic, on helper threads.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::time::Duration;

use rustix::process::{getpid, setpriority_process};
use rustix::thread::{sched_getaffinity, sched_setaffinity};

use crate::context;

/// Helper threads of the process for each kind of call; more calls than this wait their turn.
const THREADS_MAX: usize = 4;

/// A helper thread without work ends after this long.
const IDLE_TIMEOUT: Duration = Duration::from_secs(5);

type Job = Box<dyn FnOnce() + Send>;

struct Pool {
    jobs: VecDeque<Job>,
    threads: usize,
    idle: usize,
}

/// Calls of one kind, with threads of their own: none waits for those of the other.
struct Lane {
    pool: Mutex<Pool>,
    work: Condvar,
}

static CALLS: Lane = Lane::new();
static ARITHMETIC: Lane = Lane::new();

impl Lane {
    const fn new() -> Lane {
        Lane {
            pool: Mutex::new(Pool {
                jobs: VecDeque::new(),
                threads: 0,
                idle: 0,
            }),
            work: Condvar::new(),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Answer<T> {
    value: Option<std::thread::Result<T>>,
    waker: Option<Waker>,
}

/// Runs `call`, which may block, on a helper thread and waits for what it returns. Dropping the
/// future does not stop the call. Under simulation it runs at once, on this thread.
///
/// For rare operations only: each costs two thread switches. Helper threads run on any processor
/// of the process, and give way to the cores.
///
/// # Panics
/// When `call` panics; outside a reactor.
pub async fn blocking<T, F>(call: F) -> T
where
    T: Send + 'static,
    F: FnOnce() -> T + Send + 'static,
{
    help(&CALLS, call).await
}

/// As [`blocking`], for long arithmetic, on threads of its own: what strangers can have computed
/// delays no file.
///
/// # Panics
/// When `call` panics; outside a reactor.
pub async fn computing<T, F>(call: F) -> T
where
    T: Send + 'static,
    F: FnOnce() -> T + Send + 'static,
{
    help(&ARITHMETIC, call).await
}

async fn help<T, F>(lane: &'static Lane, call: F) -> T
where
    T: Send + 'static,
    F: FnOnce() -> T + Send + 'static,
{
    if context::current().world().is_some() {
        return call();
    }
    let answer = Arc::new(Mutex::new(Answer {
        value: None,
        waker: None,
    }));
    let theirs = Arc::clone(&answer);
    let job: Job = Box::new(move || {
        let value = catch_unwind(AssertUnwindSafe(call));
        let waker = {
            let mut answer = lock(&theirs);
            answer.value = Some(value);
            answer.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    });
    submit(lane, job);
    let value = std::future::poll_fn(|context| {
        let mut answer = lock(&answer);
        match answer.value.take() {
            Some(value) => Poll::Ready(value),
            None => {
                answer.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    });
    value.await.unwrap_or_else(|panic| resume_unwind(panic))
}

fn submit(lane: &'static Lane, job: Job) {
    let mut pool = lock(&lane.pool);
    pool.jobs.push_back(job);
    if pool.idle >= pool.jobs.len() || pool.threads == THREADS_MAX {
        lane.work.notify_one();
        return;
    }
    pool.threads += 1;
    drop(pool);
    let spawned = std::thread::Builder::new()
        .name("blocking".to_owned())
        .spawn(|| work(lane));
    if spawned.is_err() {
        // No thread to be had: the caller waits for itself rather than for ever.
        let job = {
            let mut pool = lock(&lane.pool);
            pool.threads -= 1;
            if pool.threads == 0 {
                pool.jobs.pop_front()
            } else {
                None
            }
        };
        if let Some(job) = job {
            job();
        }
    }
}

/// How much less than a core's a helper thread's share of a processor is: nice's ten steps are a
/// tenth, so that a core that shares its processor for a moment hardly notices.
const NICENESS: i32 = 10;

/// A thread inherits the processor of the core that started it; a helper must not stay there.
/// Where the system refuses, helpers work all the same.
fn step_aside() {
    if let Ok(processors) = sched_getaffinity(Some(getpid())) {
        let _ = sched_setaffinity(None, &processors);
    }
    let _ = setpriority_process(None, NICENESS);
}

fn work(lane: &Lane) {
    step_aside();
    let mut pool = lock(&lane.pool);
    loop {
        if let Some(job) = pool.jobs.pop_front() {
            drop(pool);
            job();
            pool = lock(&lane.pool);
            continue;
        }
        pool.idle += 1;
        let waited = lane
            .work
            .wait_timeout(pool, IDLE_TIMEOUT)
            .unwrap_or_else(PoisonError::into_inner);
        pool = waited.0;
        pool.idle -= 1;
        if waited.1.timed_out() && pool.jobs.is_empty() {
            pool.threads -= 1;
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;
    use crate::{Reactor, ReactorConfig, spawn, yield_now};

    /// However much arithmetic waits, files do not wait for it.
    #[test]
    fn arithmetic_does_not_hold_other_calls_up() {
        let reactor = Reactor::io_uring(ReactorConfig::default()).unwrap();
        reactor.run(async {
            let (go, gate) = mpsc::channel::<()>();
            let gate = Arc::new(Mutex::new(gate));
            let arithmetic = (0..4 * THREADS_MAX).map(|_| {
                let gate = Arc::clone(&gate);
                // It ends when the other end goes.
                spawn(computing(move || {
                    let _ = lock(&gate).recv();
                }))
            });
            let arithmetic: Vec<_> = arithmetic.collect();
            yield_now().await;
            assert_eq!(blocking(|| 7).await, 7);
            drop(go);
            for task in arithmetic {
                task.await;
            }
        });
    }
}
