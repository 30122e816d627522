//! Work that tasks count, so that a simulation notices a step which would keep others waiting. The
//! time that a step takes is another on each machine; what it counts follows from the seed.
//!
//! A build without debug assertions counts nothing: the data path has no instruction more.

use std::time::Duration;

/// A step of one task: from when it is polled until it waits, or gives others a turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// What was counted in it.
    pub units: u64,
    /// How long it took here.
    pub time: Duration,
}

#[cfg(debug_assertions)]
pub use counted::count_work;
#[cfg(debug_assertions)]
pub(crate) use counted::watched;

#[cfg(debug_assertions)]
mod counted {
    use super::Step;
    use std::cell::Cell;

    thread_local! {
        static COUNTED: Cell<u64> = const { Cell::new(0) };
        static MOST: Cell<u64> = const { Cell::new(u64::MAX) };
    }

    /// The task that runs has done so much, by a measure of its own.
    ///
    /// # Panics
    /// When a step under simulation counts more than it [may](crate::Reactor::bound_steps).
    pub fn count_work(units: u64) {
        let counted = COUNTED.get().saturating_add(units);
        COUNTED.set(counted);
        if counted > MOST.get() {
            // Once: what is dropped on the way out counts as well.
            MOST.set(u64::MAX);
            panic!("{counted} units of work in one step, in which no other task has a turn");
        }
    }

    /// Runs a step in which no more than `most` may be counted, and says what was.
    pub(crate) fn watched<T>(most: u64, step: impl FnOnce() -> T) -> (T, Step) {
        COUNTED.set(0);
        MOST.set(most);
        let begun = std::time::Instant::now();
        let output = step();
        MOST.set(u64::MAX);
        let counted = Step {
            units: COUNTED.get(),
            time: begun.elapsed(),
        };
        (output, counted)
    }
}

/// Nothing.
#[cfg(not(debug_assertions))]
#[inline(always)]
pub const fn count_work(_: u64) {}

#[cfg(not(debug_assertions))]
pub(crate) fn watched<T>(_: u64, step: impl FnOnce() -> T) -> (T, Step) {
    (step(), Step::default())
}

#[cfg(all(test, debug_assertions))]
mod tests {
    use crate::{Reactor, count_work, spawn, yield_now};

    #[test]
    fn the_step_that_counts_most_is_known() {
        let reactor = Reactor::simulated(1);
        reactor.run(async {
            count_work(3);
            yield_now().await;
            drop(spawn(async { count_work(20) }));
            count_work(5);
            count_work(6);
            yield_now().await;
        });
        assert_eq!(reactor.longest_step().units, 20);
    }

    /// Each of many turns is short: together they may count any number.
    #[test]
    fn work_in_turns_is_no_long_step() {
        let reactor = Reactor::simulated(1);
        reactor.bound_steps(10);
        reactor.run(async {
            for _ in 0..100 {
                count_work(10);
                yield_now().await;
            }
        });
        assert_eq!(reactor.longest_step().units, 10);
    }

    #[test]
    #[should_panic(expected = "11 units of work in one step")]
    fn a_step_that_counts_more_than_it_may_ends_the_simulation() {
        let reactor = Reactor::simulated(1);
        reactor.bound_steps(10);
        reactor.run(async {
            drop(spawn(async {
                count_work(10);
                count_work(1);
            }));
            yield_now().await;
            yield_now().await;
        });
    }
}
