//! [`Held`]: what a drive answers late: reads of a block when it is told to, one by one, those of
//! blocks that begin in a certain way after some time, and all requests while it hangs.

use super::SimDrive;
use reactor::Instant;
use reactor::sync::Signal;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

/// What begins a block whose reads take longer, and by how much.
type Slow = (&'static [u8], Duration);

/// A block whose reads are held, and those that are.
#[derive(Default)]
pub(super) struct Held {
    block: Cell<Option<u64>>,
    waiting: RefCell<VecDeque<Rc<Signal<()>>>>,
    slow: Cell<Option<Slow>>,
    /// What each block takes while no other is transferred, and until when others are.
    transfer: Cell<Duration>,
    busy_until: Cell<Option<Instant>>,
}

impl Held {
    /// By how much longer it takes to read a block.
    pub fn delay(&self, content: &[u8]) -> Duration {
        let slow = self.slow.get();
        let slow = slow.filter(|(begins, _)| content.starts_with(begins));
        slow.map_or(Duration::ZERO, |(_, delay)| delay)
    }

    /// How long it is until so many blocks have been transferred.
    pub fn turn(&self, blocks: usize) -> Duration {
        if self.transfer.get() == Duration::ZERO {
            return Duration::ZERO;
        }
        let now = reactor::now();
        let begins = self.busy_until.get().map_or(now, |until| until.max(now));
        let ends = begins + self.transfer.get() * blocks as u32;
        self.busy_until.set(Some(ends));
        ends - now
    }

    /// Returns when a read of some blocks may be answered.
    pub async fn pass(&self, blocks: Range<u64>) {
        if self.block.get().is_some_and(|held| blocks.contains(&held)) {
            let signal = Rc::new(Signal::new());
            self.waiting.borrow_mut().push_back(signal.clone());
            signal.wait().await;
        }
    }
}

impl SimDrive {
    /// From now on each block takes so long, one after the other, whoever asks for it.
    pub fn take_turns(&self, transfer: Duration) {
        self.held.transfer.set(transfer);
    }

    /// Answers nothing from now on, or again, what it had been asked before included.
    pub fn hang(&self, hangs: bool) {
        self.hangs.set(hangs);
        self.answers.notify_all();
    }

    /// Whether it does.
    pub fn hangs(&self) -> bool {
        self.hangs.get()
    }

    /// From now on reads of a block wait until they are let go, if there is one.
    pub fn hold_reads_of(&self, block: Option<u64>) {
        self.held.block.set(block);
    }

    /// From now on it takes so much longer to read what begins with a block that begins so.
    pub fn slow_reads(&self, begins: &'static [u8], delay: Duration) {
        self.held.slow.set(Some((begins, delay)));
    }

    /// How many reads wait so.
    pub fn held_reads(&self) -> usize {
        self.held.waiting.borrow().len()
    }

    /// Answers the one of them that has waited longest.
    pub fn let_read_go(&self) {
        if let Some(first) = self.held.waiting.borrow_mut().pop_front() {
            first.set(());
        }
    }
}
