//! [`Held`]: reads that a drive answers late: those of a block when it is told to, one by one, and
//! those of blocks that begin in a certain way after some time.

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
}

impl Held {
    pub fn hold(&self, block: Option<u64>) {
        self.block.set(block);
    }

    pub fn slow_down(&self, slow: Option<Slow>) {
        self.slow.set(slow);
    }

    /// By how much longer it takes to read a block.
    pub fn delay(&self, content: &[u8]) -> Duration {
        let slow = self.slow.get();
        let slow = slow.filter(|(begins, _)| content.starts_with(begins));
        slow.map_or(Duration::ZERO, |(_, delay)| delay)
    }

    pub fn waiting(&self) -> usize {
        self.waiting.borrow().len()
    }

    /// Lets the read go that has waited longest.
    pub fn let_go(&self) {
        if let Some(first) = self.waiting.borrow_mut().pop_front() {
            first.set(());
        }
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
