//! Which reactor runs on this thread, and the state that all its parts share.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use crate::clock::Instant;
use crate::executor::Executor;
use crate::inbox::{Inbox, Job};
use crate::ring::Ring;
use crate::sim::World;
use crate::timers::Timers;
use crate::waker::TaskId;

/// What makes things happen outside the tasks.
#[allow(
    clippy::large_enum_variant,
    reason = "there is one for each reactor, in its Rc"
)]
pub(crate) enum Driver {
    Ring(Ring),
    Simulation(World),
}

/// One reactor's state, shared by its loop, its tasks and their operations.
pub(crate) struct Context {
    pub(crate) executor: Executor,
    pub(crate) timers: RefCell<Timers>,
    pub(crate) driver: Driver,
    pub(crate) inbox: Arc<Inbox>,
    /// Memory that is exchanged with the inbox's when that is emptied.
    pub(crate) inbox_scratch: RefCell<(Vec<TaskId>, Vec<Job>)>,
    /// The clock as read at the start of this turn.
    pub(crate) turn_started: Cell<Instant>,
}

thread_local! {
    static CURRENT: RefCell<Option<Rc<Context>>> = const { RefCell::new(None) };
    /// The current reactor's id plus one, or zero outside a reactor: the fast answer for wakers.
    static CURRENT_ID: Cell<u32> = const { Cell::new(0) };
}

impl Context {
    pub(crate) fn now(&self) -> Instant {
        match &self.driver {
            Driver::Ring(_) => Instant::read_clock(),
            Driver::Simulation(world) => world.now(),
        }
    }

    pub(crate) fn ring(&self) -> Option<&Ring> {
        match &self.driver {
            Driver::Ring(ring) => Some(ring),
            Driver::Simulation(_) => None,
        }
    }

    pub(crate) fn world(&self) -> Option<&World> {
        match &self.driver {
            Driver::Ring(_) => None,
            Driver::Simulation(world) => Some(world),
        }
    }
}

/// The reactor that runs the calling task.
///
/// # Panics
/// Outside a reactor.
pub(crate) fn current() -> Rc<Context> {
    try_current().expect("called outside a reactor: run this inside Reactor::run")
}

pub(crate) fn try_current() -> Option<Rc<Context>> {
    CURRENT.try_with(|current| current.borrow().clone()).ok()?
}

/// Runs `with` on the current reactor without touching its reference count.
pub(crate) fn with_current<T>(with: impl FnOnce(&Rc<Context>) -> T) -> T {
    CURRENT.with_borrow(|current| {
        with(
            current
                .as_ref()
                .expect("called outside a reactor: run this inside Reactor::run"),
        )
    })
}

/// Wakes `task` if its reactor runs on this thread; false if it does not.
pub(crate) fn wake_here(task: TaskId) -> bool {
    let here = CURRENT_ID.try_with(Cell::get).unwrap_or(0) == u32::from(task.reactor()) + 1;
    if here {
        with_current(|context| context.executor.wake(task));
    }
    here
}

/// Makes a reactor current until dropped.
pub(crate) struct Entered(());

/// # Panics
/// Inside another reactor: reactors do not nest.
pub(crate) fn enter(context: &Rc<Context>) -> Entered {
    CURRENT.with_borrow_mut(|current| {
        assert!(
            current.is_none(),
            "a reactor runs on this thread already; they do not nest"
        );
        *current = Some(Rc::clone(context));
    });
    CURRENT_ID.set(u32::from(context.inbox.id()) + 1);
    Entered(())
}

impl Drop for Entered {
    fn drop(&mut self) {
        CURRENT_ID.set(0);
        let left = CURRENT.with_borrow_mut(Option::take);
        drop(left);
    }
}
