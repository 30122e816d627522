//! [`Held`]: reads of a block that a drive does not answer until it is told to, one by one.

use reactor::sync::Signal;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::ops::Range;
use std::rc::Rc;

/// A block whose reads are held, and those that are.
#[derive(Default)]
pub(super) struct Held {
    block: Cell<Option<u64>>,
    waiting: RefCell<VecDeque<Rc<Signal<()>>>>,
}

impl Held {
    pub fn hold(&self, block: Option<u64>) {
        self.block.set(block);
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
