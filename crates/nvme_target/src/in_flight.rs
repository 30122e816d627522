//! [`InFlight`]: the commands that are under way on blocks, on this core.
//!
//! A command enters with all of its data and leaves before its answer goes out: only the device is
//! waited for in between, never a host, nor anybody who waits here. So whoever waits for commands
//! to end waits as long as the device takes for its I/O, be it that it fails: a host that is dead
//! holds up nobody, and a drive that hangs those who want its blocks, until its pool or the system
//! gives it up.

use std::cell::Cell;

use block::BlockRange;
use reactor::sync::{Mutex, MutexGuard, Notify};

/// The commands in flight on the blocks of a namespace on this core, whichever hosts they are
/// from.
pub(crate) struct InFlight {
    /// How many there are, by the phase they entered in: see [`InFlight::lock`].
    commands: [Cell<u32>; 2],
    phase: Cell<usize>,
    left: Notify,
    /// Blocks that a Compare and Write has to itself.
    locked: Cell<Option<BlockRange>>,
    unlocked: Notify,
    exclusive: Mutex<()>,
}

impl InFlight {
    pub fn new() -> InFlight {
        InFlight {
            commands: [Cell::new(0), Cell::new(0)],
            phase: Cell::new(0),
            left: Notify::new(),
            locked: Cell::new(None),
            unlocked: Notify::new(),
            exclusive: Mutex::new(()),
        }
    }

    /// Returns when nobody has any of `range` to himself.
    pub async fn free(&self, range: BlockRange) {
        while self
            .locked
            .get()
            .is_some_and(|locked| locked.overlaps(range))
        {
            self.unlocked.notified().await;
        }
    }

    /// Counts a command in until it drops what this gives.
    pub fn enter(&self) -> Entered<'_> {
        let phase = self.phase.get();
        let counter = &self.commands[phase & 1];
        counter.set(counter.get() + 1);
        Entered {
            in_flight: self,
            phase,
        }
    }

    /// Holds back commands that overlap `range` and come later; those that came earlier may still
    /// be under way until [`Locked::alone`]. Costs other commands one look at `locked`.
    pub async fn lock(&self, range: BlockRange) -> Locked<'_> {
        let turn = self.exclusive.lock().await;
        let earlier = self.next_phase().await;
        self.locked.set(Some(range));
        Locked {
            in_flight: self,
            earlier,
            _turn: turn,
        }
    }

    /// Returns when the commands that are in flight now have ended.
    pub async fn drain(&self) {
        let _turn = self.exclusive.lock().await;
        let earlier = self.next_phase().await;
        self.end_of(earlier).await;
    }

    /// Tells commands that come from now on from those that are in flight; gives the phase of
    /// these. For whoever is exclusive.
    async fn next_phase(&self) -> usize {
        let earlier = self.phase.get();
        // There are some only where the last one who was exclusive gave up waiting for them.
        self.end_of(earlier ^ 1).await;
        self.phase.set(earlier ^ 1);
        earlier
    }

    async fn end_of(&self, phase: usize) {
        while self.commands[phase & 1].get() > 0 {
            self.left.notified().await;
        }
    }
}

/// A command in flight.
pub(crate) struct Entered<'a> {
    in_flight: &'a InFlight,
    phase: usize,
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        let counter = &self.in_flight.commands[self.phase & 1];
        counter.set(counter.get() - 1);
        if counter.get() == 0 {
            self.in_flight.left.notify_all();
        }
    }
}

/// A range that is held back for one command, until this is dropped.
pub(crate) struct Locked<'a> {
    in_flight: &'a InFlight,
    earlier: usize,
    _turn: MutexGuard<'a, ()>,
}

impl Locked<'_> {
    /// Returns when the commands that came earlier have ended.
    pub async fn alone(&self) {
        self.in_flight.end_of(self.earlier).await;
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        self.in_flight.locked.set(None);
        self.in_flight.unlocked.notify_all();
    }
}
