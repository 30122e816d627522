//! [`Power`]: of the whole machine, and what decides how long requests take.

use crate::random::Random;
use reactor::sync::Notify;
use std::cell::{Cell, RefCell};
use std::future::pending;
use std::rc::Rc;
use std::time::Duration;

/// The power of the whole machine: it fails when so many drive operations have begun.
pub struct Power {
    /// Operations left until the power fails.
    fuse: Cell<u64>,
    on: Cell<bool>,
    cut: Notify,
    /// Operations left until the host that began them stands still.
    pause: Cell<Option<u64>>,
    pausing: Notify,
    /// Operations that have begun.
    begun: Cell<u64>,
    pub(super) random: Random,
    /// Decides which requests take long, if any do.
    tails: RefCell<Option<Random>>,
}

impl Power {
    /// Power that is off.
    pub fn new(seed: u64) -> Rc<Power> {
        Rc::new(Power {
            fuse: Cell::new(0),
            on: Cell::new(false),
            cut: Notify::new(),
            pause: Cell::new(None),
            pausing: Notify::new(),
            begun: Cell::new(0),
            random: Random::new(seed),
            tails: RefCell::default(),
        })
    }

    /// Switches on, to fail after `fuse` operations.
    pub fn switch_on(&self, fuse: u64) {
        self.fuse.set(fuse);
        self.on.set(true);
    }

    /// Waits until the power fails.
    pub async fn failed(&self) {
        while self.on.get() {
            self.cut.notified().await;
        }
    }

    /// Whoever uses the drives is to stand still after so many operations.
    pub fn pause_after(&self, operations: u64) {
        self.pause.set(Some(operations));
    }

    /// Waits for that moment.
    pub async fn paused(&self) {
        while self.pause.get().is_some() {
            self.pausing.notified().await;
        }
    }

    /// Operations that have begun since it was first switched on.
    pub fn operations(&self) -> u64 {
        self.begun.get()
    }

    /// From now on one request in many takes up to some hundred times as long as others.
    pub fn have_tails(&self, seed: u64) {
        self.tails.replace(Some(Random::new(seed)));
    }

    /// By how much longer one does.
    pub(super) fn tail(&self) -> Duration {
        let tails = self.tails.borrow();
        let tail = tails.as_ref().filter(|tails| tails.once_in(64));
        let most = tail.map(|tail| (1 << tail.below(25), tail));
        Duration::from_nanos(most.map_or(0, |(most, tail)| tail.below(most)))
    }

    /// How long a drive takes to forget something, beside the time that any request takes.
    pub(super) fn forgetting(&self) -> Duration {
        let tails = self.tails.borrow();
        let most = tails.as_ref().map(|tails| (1 << tails.below(23), tails));
        Duration::from_nanos(most.map_or(0, |(most, tails)| tails.below(most)))
    }

    /// True until it fails.
    pub fn is_on(&self) -> bool {
        self.on.get()
    }

    /// An operation begins, or never does.
    pub(super) async fn spend(&self) {
        if self.on.get() {
            self.begun.set(self.begun.get() + 1);
            match self.pause.get() {
                Some(0) => {
                    self.pause.set(None);
                    self.pausing.notify_all();
                }
                left => self.pause.set(left.map(|left| left - 1)),
            }
            let left = self.fuse.get();
            self.fuse.set(left.saturating_sub(1));
            if left == 0 {
                self.on.set(false);
                self.cut.notify_all();
            }
        }
        self.go_on().await;
    }

    pub(super) async fn go_on(&self) {
        if !self.on.get() {
            pending::<()>().await;
        }
    }
}
