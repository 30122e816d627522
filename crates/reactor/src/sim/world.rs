//! [`World`]: virtual time, the events to come, and the trace.

use std::cell::{Cell, RefCell, RefMut};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

use super::files::Files;
use super::network::{Endpoint, Network, Piece};
use super::random::{SplitMix, mix};
use crate::clock::Instant;
use crate::executor::Executor;
use crate::work::{Step, watched};

/// How far time moves in a turn in which tasks merely yield.
const TICK: Duration = Duration::from_micros(1);

/// Something that reaches an endpoint at a given time.
struct Event {
    at: Instant,
    sequence: u64,
    to: Rc<Endpoint>,
    piece: Piece,
}

impl Ord for Event {
    fn cmp(&self, other: &Event) -> std::cmp::Ordering {
        (self.at, self.sequence).cmp(&(other.at, other.sequence))
    }
}

impl PartialOrd for Event {
    fn partial_cmp(&self, other: &Event) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Event {
    fn eq(&self, other: &Event) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Event {}

pub(crate) struct World {
    seed: u64,
    random: RefCell<SplitMix>,
    now: Cell<Instant>,
    events: RefCell<BinaryHeap<Reverse<Event>>>,
    sequence: Cell<u64>,
    partitioned: Cell<bool>,
    /// The run fails when time gets this far.
    limit: Cell<Option<Instant>>,
    trace: Cell<u64>,
    network: RefCell<Network>,
    files: RefCell<Files>,
    /// No step of a task may count more work.
    step_most: Cell<u64>,
    longest_step: Cell<Step>,
}

impl World {
    pub(crate) fn new(seed: u64) -> World {
        World {
            seed,
            random: RefCell::new(SplitMix::new(seed)),
            now: Cell::new(Instant::from_nanos(1_000_000_000)),
            events: RefCell::default(),
            sequence: Cell::new(0),
            partitioned: Cell::new(false),
            limit: Cell::new(None),
            trace: Cell::new(seed),
            network: RefCell::default(),
            files: RefCell::default(),
            step_most: Cell::new(u64::MAX),
            longest_step: Cell::default(),
        }
    }

    /// From now on no step may count more work.
    pub(crate) fn bound_steps(&self, most: u64) {
        self.step_most.set(most);
    }

    /// The step so far that counted most.
    pub(crate) fn longest_step(&self) -> Step {
        self.longest_step.get()
    }

    /// Runs a step of a task.
    pub(crate) fn step<T>(&self, step: impl FnOnce() -> T) -> T {
        let (output, counted) = watched(self.step_most.get(), step);
        if counted.units > self.longest_step.get().units {
            self.longest_step.set(counted);
        }
        output
    }

    pub(crate) fn seed(&self) -> u64 {
        self.seed
    }

    pub(crate) fn now(&self) -> Instant {
        self.now.get()
    }

    pub(crate) fn trace_hash(&self) -> u64 {
        self.trace.get()
    }

    pub(crate) fn network(&self) -> RefMut<'_, Network> {
        self.network.borrow_mut()
    }

    pub(crate) fn files(&self) -> RefMut<'_, Files> {
        self.files.borrow_mut()
    }

    /// Adds something that happened to the trace.
    fn note(&self, what: u64) {
        self.trace.set(mix(self.trace.get()
            ^ mix(what)
            ^ self.now.get().as_nanos()));
    }

    pub(crate) fn random_below(&self, bound: u64) -> u64 {
        self.random.borrow_mut().below(bound)
    }

    pub(crate) fn random_duration(&self, range: &Range<Duration>) -> Duration {
        let width = range.end.saturating_sub(range.start).as_nanos() as u64;
        range.start + Duration::from_nanos(self.random_below(width))
    }

    /// The task to poll next.
    pub(crate) fn choose_ready(&self, executor: &Executor) -> Option<u32> {
        let count = executor.ready_count();
        let position = if count > 1 {
            self.random_below(count as u64)
        } else {
            0
        };
        let task = executor.take_ready(position as usize)?;
        self.note(u64::from(task));
        Some(task)
    }

    pub(crate) fn set_partitioned(&self, partitioned: bool) {
        self.partitioned.set(partitioned);
    }

    pub(crate) fn set_time_limit(&self, limit: Duration) {
        self.limit.set(Some(self.now.get() + limit));
    }

    /// # Panics
    /// When the run has taken longer than it may.
    fn check_limit(&self) {
        if self.limit.get().is_some_and(|limit| self.now.get() > limit) {
            panic!("simulation seed={} has run past its time limit", self.seed);
        }
    }

    /// Delivers `piece` to `endpoint` at `at`; pieces due together arrive in order of posting.
    pub(crate) fn post(&self, at: Instant, to: &Rc<Endpoint>, piece: Piece) {
        self.sequence.set(self.sequence.get() + 1);
        self.events.borrow_mut().push(Reverse(Event {
            at,
            sequence: self.sequence.get(),
            to: Rc::clone(to),
            piece,
        }));
    }

    /// Moves time a little, for tasks that yield instead of sleeping.
    pub(crate) fn tick(&self) {
        self.now.set(self.now.get() + TICK);
        self.check_limit();
        while self.deliver_due() {}
    }

    /// Moves time and nothing else.
    pub(crate) fn pass(&self, time: Duration) {
        self.now.set(self.now.get() + time);
    }

    /// Moves time to the next event or to `timer`, whichever is first; false if there is neither.
    pub(crate) fn advance(&self, timer: Option<Instant>) -> bool {
        let event = match self.events.borrow().peek() {
            Some(Reverse(event)) if !self.partitioned.get() => Some(event.at),
            _ => None,
        };
        let Some(next) = [event, timer].into_iter().flatten().min() else {
            return false;
        };
        self.now.set(self.now.get().max(next));
        self.check_limit();
        self.deliver_due();
        true
    }

    /// Delivers one event that is due; false if there is none.
    fn deliver_due(&self) -> bool {
        if self.partitioned.get() {
            return false;
        }
        let event = {
            let mut events = self.events.borrow_mut();
            match events.peek() {
                Some(Reverse(event)) if event.at <= self.now.get() => events.pop(),
                _ => None,
            }
        };
        let Some(Reverse(event)) = event else {
            return false;
        };
        self.note(event.sequence | 1 << 63);
        event.to.receive(self, event.piece);
        true
    }
}
