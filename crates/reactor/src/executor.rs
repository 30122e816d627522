//! The tasks of one reactor: a slab of futures, and the queue of those that are ready.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context as PollContext, Waker};

use crate::scope::Scope;
use crate::waker::{TASKS_MAX, TaskId};

/// The slot of the future that `Reactor::run` was called with.
pub(crate) const MAIN: u32 = 0;

type BoxedFuture = Pin<Box<dyn Future<Output = ()>>>;

/// What is polled, and the scope that it belongs to.
struct Work {
    future: BoxedFuture,
    scope: Option<Scope>,
}

impl Work {
    /// True once there is no more to do: it is done, or its scope has failed.
    fn poll(&mut self, context: &mut PollContext<'_>) -> bool {
        let future = self.future.as_mut();
        match &self.scope {
            None => future.poll(context).is_ready(),
            Some(scope) => {
                let polled = scope.call(|| future.poll(context).is_ready());
                polled.unwrap_or(true)
            }
        }
    }

    fn discard(self) {
        match self.scope {
            None => drop(self.future),
            Some(scope) => scope.discard(self.future),
        }
    }
}

struct Slot {
    generation: u32,
    /// Already in the ready queue, or due to be put there by the next turn.
    queued: bool,
    occupied: bool,
    /// Absent while the task is being polled.
    work: Option<Work>,
}

pub(crate) struct Executor {
    reactor: u16,
    slots: RefCell<Vec<Slot>>,
    free: RefCell<Vec<u32>>,
    ready: RefCell<VecDeque<u32>>,
    /// Tasks that yielded: ready again once the ring has been looked at.
    yielded: RefCell<Vec<Waker>>,
}

impl Executor {
    pub(crate) fn new(reactor: u16) -> Executor {
        let main = Slot {
            generation: 0,
            queued: false,
            occupied: true,
            work: None,
        };
        Executor {
            reactor,
            slots: RefCell::new(vec![main]),
            free: RefCell::new(Vec::new()),
            ready: RefCell::new(VecDeque::with_capacity(64)),
            yielded: RefCell::new(Vec::new()),
        }
    }

    /// Takes a new task in; it is polled for the first time in this turn.
    pub(crate) fn spawn(&self, future: BoxedFuture, scope: Option<Scope>) -> TaskId {
        let mut slots = self.slots.borrow_mut();
        let index = self.free.borrow_mut().pop().unwrap_or_else(|| {
            assert!(
                slots.len() < TASKS_MAX,
                "more than {TASKS_MAX} tasks on one reactor"
            );
            slots.push(Slot {
                generation: 0,
                queued: false,
                occupied: false,
                work: None,
            });
            (slots.len() - 1) as u32
        });
        let slot = &mut slots[index as usize];
        slot.queued = true;
        slot.occupied = true;
        slot.work = Some(Work { future, scope });
        self.ready.borrow_mut().push_back(index);
        TaskId::new(self.reactor, index, slot.generation)
    }

    /// The id of the future that `Reactor::run` drives.
    pub(crate) fn main_task(&self) -> TaskId {
        TaskId::new(self.reactor, MAIN, 0)
    }

    /// Makes `task` ready, unless it is ready or gone.
    pub(crate) fn wake(&self, task: TaskId) {
        let mut slots = self.slots.borrow_mut();
        let Some(slot) = slots.get_mut(task.index() as usize) else {
            return;
        };
        if !slot.queued && slot.occupied && task.is_generation(slot.generation) {
            slot.queued = true;
            self.ready.borrow_mut().push_back(task.index());
        }
    }

    /// Makes `task` ready once the driver has been looked at.
    pub(crate) fn wake_next_turn(&self, task: Waker) {
        self.yielded.borrow_mut().push(task);
    }

    pub(crate) fn resume_yielded(&self) {
        if self.yielded.borrow().is_empty() {
            return;
        }
        let mut yielded = self.yielded.take();
        for task in yielded.drain(..) {
            task.wake();
        }
        // Nothing yields while no task runs, so the memory can go back for the next turn.
        self.yielded.replace(yielded);
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.ready.borrow().is_empty() && self.yielded.borrow().is_empty()
    }

    /// The next task to poll, in the order in which they became ready.
    pub(crate) fn next_ready(&self) -> Option<u32> {
        self.ready.borrow_mut().pop_front()
    }

    /// How many tasks are ready.
    pub(crate) fn ready_count(&self) -> usize {
        self.ready.borrow().len()
    }

    /// Takes the ready task at `position` of the queue; the order of the others may change.
    pub(crate) fn take_ready(&self, position: usize) -> Option<u32> {
        self.ready.borrow_mut().swap_remove_back(position)
    }

    /// Marks the main future as about to be polled; wakes from now on queue it again.
    pub(crate) fn begin_main(&self) {
        self.slots.borrow_mut()[MAIN as usize].queued = false;
    }

    /// Polls the task in slot `index`, if it still exists, and frees the slot if it is done.
    pub(crate) fn poll(&self, index: u32) {
        let (mut work, task) = {
            let mut slots = self.slots.borrow_mut();
            let slot = &mut slots[index as usize];
            slot.queued = false;
            let Some(work) = slot.work.take() else {
                return;
            };
            (work, TaskId::new(self.reactor, index, slot.generation))
        };
        let waker = task.waker();
        let done = work.poll(&mut PollContext::from_waker(&waker));
        let mut slots = self.slots.borrow_mut();
        let slot = &mut slots[index as usize];
        let cancelled = !slot.occupied || !task.is_generation(slot.generation);
        if cancelled {
            drop(slots);
        } else if done {
            Self::release(slot);
            self.free.borrow_mut().push(index);
            drop(slots);
        } else {
            slot.work = Some(work);
            return;
        }
        work.discard();
    }

    fn release(slot: &mut Slot) -> Option<Work> {
        slot.generation = slot.generation.wrapping_add(1);
        slot.occupied = false;
        slot.work.take()
    }

    /// Drops the task's future, now or, if it is being polled, when that poll returns.
    pub(crate) fn cancel(&self, task: TaskId) {
        let work = {
            let mut slots = self.slots.borrow_mut();
            let Some(slot) = slots.get_mut(task.index() as usize) else {
                return;
            };
            if !slot.occupied || !task.is_generation(slot.generation) {
                return;
            }
            let work = Self::release(slot);
            self.free.borrow_mut().push(task.index());
            work
        };
        if let Some(work) = work {
            work.discard();
        }
    }

    /// Drops every task; done once, when the reactor ends.
    pub(crate) fn cancel_all(&self) {
        self.cancel_those(|_| true);
    }

    /// Drops every task of a scope that has failed. None of them may be being polled.
    pub(crate) fn end_scope(&self, is_it: impl Fn(&Scope) -> bool) {
        self.cancel_those(|work| work.scope.as_ref().is_some_and(&is_it));
    }

    /// Makes every task ready, whatever it waits for.
    pub(crate) fn wake_all(&self) {
        let mut slots = self.slots.borrow_mut();
        let mut ready = self.ready.borrow_mut();
        let sleeping = (0..).zip(slots.iter_mut());
        for (index, slot) in sleeping.filter(|(_, slot)| slot.occupied && !slot.queued) {
            slot.queued = true;
            ready.push_back(index);
        }
    }

    fn cancel_those(&self, chosen: impl Fn(&Work) -> bool) {
        // Dropping one task may wake, spawn or cancel others: take them one at a time, and look
        // again until a whole pass finds none.
        let mut found_any = true;
        while found_any {
            found_any = false;
            let mut index = 0;
            while let Some(found) = self.release_at(index, &chosen) {
                if let Some(work) = found {
                    found_any = true;
                    work.discard();
                }
                index += 1;
            }
        }
    }

    /// Frees slot `index` if it has chosen work, which it returns; `None` past the last slot.
    fn release_at(&self, index: usize, chosen: impl Fn(&Work) -> bool) -> Option<Option<Work>> {
        let mut slots = self.slots.borrow_mut();
        let slot = slots.get_mut(index)?;
        if !slot.work.as_ref().is_some_and(chosen) {
            return Some(None);
        }
        self.free.borrow_mut().push(index as u32);
        Some(Self::release(slot))
    }
}
