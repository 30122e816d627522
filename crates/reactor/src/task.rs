//! [`spawn`] and the handle it returns, [`Task`].
#![allow(unsafe_code, reason = "pin projection; see the SAFETY lines")]

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context as PollContext, Poll, Waker};

use crate::context::{self, Context};
use crate::scope;
use crate::waker::TaskId;

/// Starts `future` as a task of the current reactor.
///
/// It is polled for the first time after the calling task suspends. A panic inside it leaves
/// [`Reactor::run`](crate::Reactor::run), or ends the [`Scope`](crate::Scope) that the caller is
/// inside.
///
/// # Panics
/// Outside a reactor.
pub fn spawn<F>(future: F) -> Task<F::Output>
where
    F: Future + 'static,
    F::Output: 'static,
{
    spawn_on(&context::current(), future)
}

pub(crate) fn spawn_on<F>(context: &Rc<Context>, future: F) -> Task<F::Output>
where
    F: Future + 'static,
    F::Output: 'static,
{
    let join = Rc::new(RefCell::new(Join::Running(None)));
    let spawned = Spawned {
        future,
        join: Rc::clone(&join),
    };
    let id = context.executor.spawn(Box::pin(spawned), scope::current());
    Task {
        join,
        id,
        context: Rc::clone(context),
    }
}

/// What a task and the handle to it share.
enum Join<T> {
    Running(Option<Waker>),
    Finished(T),
    Taken,
}

/// A task's future: runs what was spawned and leaves its output for the handle.
struct Spawned<F: Future> {
    future: F,
    join: Rc<RefCell<Join<F::Output>>>,
}

impl<F: Future> Future for Spawned<F> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut PollContext<'_>) -> Poll<()> {
        // SAFETY: `future` is pinned with `self` and never moved; `join` is not pinned.
        let (future, join) = unsafe {
            let this = self.get_unchecked_mut();
            (Pin::new_unchecked(&mut this.future), &this.join)
        };
        let Poll::Ready(output) = future.poll(context) else {
            return Poll::Pending;
        };
        let before = join.replace(Join::Finished(output));
        if let Join::Running(Some(waker)) = before {
            waker.wake();
        }
        Poll::Ready(())
    }
}

/// A handle to a task. Awaiting it gives the task's output; dropping it lets the task run on.
#[must_use = "dropping a Task detaches it: say so with `drop`, or keep it"]
pub struct Task<T> {
    join: Rc<RefCell<Join<T>>>,
    id: TaskId,
    context: Rc<Context>,
}

impl<T> Task<T> {
    /// Ends the task: its future is dropped before this returns, unless the task itself is the
    /// caller, in which case that happens when it next suspends.
    pub fn cancel(self) {
        self.context.executor.cancel(self.id);
    }

    /// True once the output is there.
    pub fn is_finished(&self) -> bool {
        !matches!(*self.join.borrow(), Join::Running(_))
    }

    /// Ties the task to a scope: it is cancelled when the returned guard is dropped.
    pub fn cancel_on_drop(self) -> CancelOnDrop<T> {
        CancelOnDrop { task: self }
    }
}

impl<T> Future for Task<T> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, context: &mut PollContext<'_>) -> Poll<T> {
        let mut join = self.join.borrow_mut();
        match &mut *join {
            Join::Running(waker) => {
                *waker = Some(context.waker().clone());
                Poll::Pending
            }
            Join::Finished(_) => match std::mem::replace(&mut *join, Join::Taken) {
                Join::Finished(output) => Poll::Ready(output),
                _ => unreachable!("the state was checked in the line above"),
            },
            Join::Taken => panic!("a Task was polled after it gave its output"),
        }
    }
}

/// A task that is cancelled when this is dropped. Awaiting it gives the task's output.
#[must_use = "dropping this cancels the task"]
pub struct CancelOnDrop<T> {
    task: Task<T>,
}

impl<T> Future for CancelOnDrop<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut PollContext<'_>) -> Poll<T> {
        Pin::new(&mut self.task).poll(context)
    }
}

impl<T> Drop for CancelOnDrop<T> {
    fn drop(&mut self) {
        self.task.context.executor.cancel(self.task.id);
    }
}

/// Lets every other ready task run, and the driver be looked at, before the caller goes on.
pub fn yield_now() -> YieldNow {
    YieldNow { yielded: false }
}

/// The future of [`yield_now`].
#[must_use = "futures do nothing unless awaited"]
pub struct YieldNow {
    yielded: bool,
}

impl Future for YieldNow {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut PollContext<'_>) -> Poll<()> {
        if self.yielded {
            return Poll::Ready(());
        }
        self.yielded = true;
        context::with_current(|current| current.executor.wake_next_turn(context.waker().clone()));
        Poll::Pending
    }
}
