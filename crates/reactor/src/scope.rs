//! [`Scope`]: tasks that end together once one of them panics, on every reactor that they run on.
//!
//! A panic in a task of no scope leaves the reactor, and ends its core. One inside a scope ends
//! the scope only: who entered it is told, nothing of it is polled again, and its tasks are dropped
//! by the loop, when nothing of it is on the stack. Memory that the kernel uses by then
//! belongs to the ring, and stays until the kernel is done.
#![allow(unsafe_code, reason = "pin projection; see the SAFETY lines")]

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, Mutex, Once, OnceLock, PoisonError};
use std::task::{Context as PollContext, Poll};

use crate::context;
use crate::inbox::Inbox;

thread_local! {
    /// Inside which scope this thread is.
    static INSIDE: RefCell<Option<Scope>> = const { RefCell::new(None) };
    /// Where the last panic inside a scope was.
    static PLACE: Cell<Option<String>> = const { Cell::new(None) };
}

/// The panic that ended a scope.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Its message.
    pub message: String,
    /// File, line and column, unless it came from a helper thread.
    pub place: Option<String>,
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)?;
        match &self.place {
            Some(place) => write!(formatter, " ({place})"),
            None => Ok(()),
        }
    }
}

impl Failure {
    fn of(panic: &(dyn Any + Send)) -> Failure {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        Failure {
            message: text.unwrap_or("a panic without a message").to_owned(),
            place: PLACE.try_with(Cell::take).ok().flatten(),
        }
    }
}

/// The scope has failed: see [`Scope::failure`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a panic ended it")]
pub struct Failed;

#[derive(Default)]
struct Shared {
    failure: OnceLock<Failure>,
    /// Those whose tasks may be inside.
    reactors: Mutex<Vec<Arc<Inbox>>>,
}

/// A scope on its way to other reactors.
#[derive(Clone)]
pub struct SharedScope(Arc<Shared>);

impl SharedScope {
    /// The scope for the current reactor.
    ///
    /// # Panics
    /// Outside a reactor.
    pub fn here(&self) -> Scope {
        let inbox = Arc::clone(&context::current().inbox);
        let mut reactors = self
            .0
            .reactors
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if !reactors.iter().any(|known| Arc::ptr_eq(known, &inbox)) {
            reactors.push(inbox);
        }
        drop(reactors);
        Scope(Rc::new(Arc::clone(&self.0)))
    }
}

/// What belongs together and ends together, as one reactor has it. Clones are the same scope.
///
/// A task that is spawned inside belongs to it, and so do those that this task spawns. To get the
/// output of such a task from outside, wait for it inside: it never comes once the scope failed.
#[derive(Clone)]
#[allow(
    clippy::redundant_allocation,
    reason = "the inner count is of reactors: cores do not contend for it while they work"
)]
pub struct Scope(Rc<Arc<Shared>>);

/// Has this thread be inside a scope until dropped.
struct Inside(Option<Scope>);

impl Inside {
    fn enter(scope: &Scope) -> Inside {
        let inner = Some(scope.clone());
        let outer = INSIDE.try_with(|inside| inside.replace(inner));
        // At its end a thread has dropped what says where it is.
        Inside(outer.ok().flatten())
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        let outer = self.0.take();
        let _ = INSIDE.try_with(|inside| inside.replace(outer));
    }
}

/// Whether a panic here and now would end a scope, and no more.
pub fn in_scope() -> bool {
    let inside = INSIDE.try_with(|inside| inside.borrow().is_some());
    inside.unwrap_or(false)
}

pub(crate) fn current() -> Option<Scope> {
    INSIDE.with_borrow(Clone::clone)
}

/// Has panics inside scopes leave their place.
fn note_places() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let report = take_hook();
        set_hook(Box::new(move |panic| {
            if in_scope() {
                let place = panic.location().map(ToString::to_string);
                let _ = PLACE.try_with(|last| last.set(place));
            }
            report(panic);
        }));
    });
}

impl Scope {
    /// A scope with nothing in it.
    ///
    /// # Panics
    /// Outside a reactor.
    #[allow(
        clippy::new_without_default,
        reason = "a default is not expected to need a reactor"
    )]
    pub fn new() -> Scope {
        note_places();
        SharedScope(Arc::default()).here()
    }

    /// The same scope, for other reactors.
    pub fn share(&self) -> SharedScope {
        SharedScope(Arc::clone(&self.0))
    }

    /// The panic that ended it, if one has.
    pub fn failure(&self) -> Option<&Failure> {
        self.0.failure.get()
    }

    /// Whether a panic has ended it.
    pub fn has_failed(&self) -> bool {
        self.failure().is_some()
    }

    /// Waits, in a task outside, until a panic has ended it.
    pub fn failed(&self) -> impl Future<Output = Failure> + use<> {
        let scope = self.clone();
        // A failure wakes every task of every reactor that has the scope.
        poll_fn(move |_| match scope.failure() {
            Some(failure) => Poll::Ready(failure.clone()),
            None => Poll::Pending,
        })
    }

    /// Calls `work` inside.
    ///
    /// # Errors
    /// When the scope has failed, before or now.
    pub fn call<T>(&self, work: impl FnOnce() -> T) -> Result<T, Failed> {
        match self.has_failed() {
            true => Err(Failed),
            false => self.contain(work),
        }
    }

    /// Runs `future` inside, as a part of the calling task. It is dropped, with an error, as soon
    /// as the scope has failed, wherever that was.
    pub fn run<F: Future>(&self, future: F) -> Within<'_, F> {
        Within {
            scope: self,
            future: Some(future),
        }
    }

    /// Drops `value` inside, also once the scope has failed.
    pub fn discard<T>(&self, value: T) {
        // What fails here has failed before, or says so now.
        let _ = self.contain(|| drop(value));
    }

    pub(crate) fn contain<T>(&self, work: impl FnOnce() -> T) -> Result<T, Failed> {
        let inside = Inside::enter(self);
        let done = catch_unwind(AssertUnwindSafe(work));
        drop(inside);
        done.map_err(|panic| {
            self.fail(Failure::of(&*panic));
            Failed
        })
    }

    /// Only the first failure counts. Nothing of the scope is polled from here on.
    fn fail(&self, failure: Failure) {
        if self.0.failure.set(failure).is_err() {
            return;
        }
        let reactors = {
            let reactors = &self.0.reactors;
            reactors
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .clone()
        };
        for inbox in reactors {
            let shared = self.share();
            // A reactor that has ended has dropped its tasks.
            let _ = inbox.push_job(Box::new(move || shared.end_here()));
        }
    }

    fn is(&self, other: &SharedScope) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl SharedScope {
    /// Drops the tasks that the current reactor has of it, and has all others look.
    fn end_here(&self) {
        let context = context::current();
        context.executor.end_scope(|scope| scope.is(self));
        // Who waits inside or for the failure left no waker: that would cost every request.
        context.executor.wake_all();
    }
}

/// The future of [`Scope::run`].
#[must_use = "futures do nothing unless awaited"]
pub struct Within<'a, F> {
    scope: &'a Scope,
    future: Option<F>,
}

impl<'a, F> Within<'a, F> {
    fn project(self: Pin<&mut Self>) -> (&'a Scope, Pin<&mut Option<F>>) {
        // SAFETY: `future` is pinned with `self` and never moved; `scope` is not pinned.
        unsafe {
            let this = self.get_unchecked_mut();
            (this.scope, Pin::new_unchecked(&mut this.future))
        }
    }
}

impl<F: Future> Future for Within<'_, F> {
    type Output = Result<F::Output, Failed>;

    fn poll(self: Pin<&mut Self>, context: &mut PollContext<'_>) -> Poll<Self::Output> {
        let (scope, mut future) = self.project();
        let polled = scope.call(|| match future.as_mut().as_pin_mut() {
            Some(future) => future.poll(context),
            None => Poll::Pending,
        });
        match polled {
            Ok(polled) => polled.map(Ok),
            Err(Failed) => {
                let _ = scope.contain(|| future.set(None));
                Poll::Ready(Err(Failed))
            }
        }
    }
}

impl<F> Drop for Within<'_, F> {
    fn drop(&mut self) {
        // SAFETY: `self` is not used any more, and was not moved if it was pinned.
        let (scope, mut future) = unsafe { Pin::new_unchecked(self) }.project();
        if future.is_some() {
            let _ = scope.contain(|| future.set(None));
        }
    }
}
