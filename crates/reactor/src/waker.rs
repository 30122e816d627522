//! Wakers that are plain integers: no allocation, no reference count, no atomics on their own core.
//!
//! A waker's data pointer is a [`TaskId`]. Waking on the thread that runs the task's reactor puts
//! the task on its ready queue; waking anywhere else goes through that reactor's inbox. A waker
//! that outlives its task or its reactor wakes nothing, or at worst some task that then finds
//! nothing to do, which the contract of `Future::poll` allows.
#![allow(unsafe_code, reason = "raw wakers; see the SAFETY lines")]

use std::task::{RawWaker, RawWakerVTable, Waker};

use crate::context;
use crate::inbox;

const INDEX_BITS: u32 = 24;
const GENERATION_BITS: u32 = 24;
const INDEX_MASK: u64 = (1 << INDEX_BITS) - 1;
const GENERATION_MASK: u64 = (1 << GENERATION_BITS) - 1;

/// Most tasks that one reactor holds at a time.
pub(crate) const TASKS_MAX: usize = 1 << INDEX_BITS;

/// Names a task anywhere in the process: reactor (16 bits), generation (24), index (24).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TaskId(u64);

impl TaskId {
    pub(crate) fn new(reactor: u16, index: u32, generation: u32) -> TaskId {
        let generation = u64::from(generation) & GENERATION_MASK;
        let index = u64::from(index) & INDEX_MASK;
        TaskId(
            u64::from(reactor) << (INDEX_BITS + GENERATION_BITS) | generation << INDEX_BITS | index,
        )
    }

    pub(crate) fn reactor(self) -> u16 {
        (self.0 >> (INDEX_BITS + GENERATION_BITS)) as u16
    }

    pub(crate) fn index(self) -> u32 {
        (self.0 & INDEX_MASK) as u32
    }

    /// Whether `generation` is the one this id names, as far as the id can tell them apart.
    pub(crate) fn is_generation(self, generation: u32) -> bool {
        (self.0 >> INDEX_BITS) & GENERATION_MASK == u64::from(generation) & GENERATION_MASK
    }

    pub(crate) fn waker(self) -> Waker {
        // SAFETY: the functions of VTABLE treat the pointer as an integer and are thread-safe.
        unsafe { Waker::from_raw(raw_waker(self)) }
    }

    fn wake(self) {
        if !context::wake_here(self) {
            inbox::wake_elsewhere(self);
        }
    }
}

const _: () = assert!(size_of::<*const ()>() == 8, "task ids need 64-bit pointers");

static VTABLE: RawWakerVTable = RawWakerVTable::new(
    |data| RawWaker::new(data, &VTABLE),
    |data| TaskId(data.addr() as u64).wake(),
    |data| TaskId(data.addr() as u64).wake(),
    |_| {},
);

fn raw_waker(task: TaskId) -> RawWaker {
    RawWaker::new(std::ptr::without_provenance(task.0 as usize), &VTABLE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_keeps_its_three_parts() {
        let id = TaskId::new(u16::MAX, INDEX_MASK as u32, 7);
        assert_eq!(id.reactor(), u16::MAX);
        assert_eq!(id.index(), INDEX_MASK as u32);
        assert!(id.is_generation(7));
        assert!(!id.is_generation(8));
    }

    #[test]
    fn waking_a_task_of_no_reactor_does_nothing() {
        TaskId::new(u16::MAX, 1, 1).waker().wake();
    }
}
