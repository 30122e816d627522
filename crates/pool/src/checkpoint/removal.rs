//! Layers that nobody needs go piece by piece, at checkpoints: this task takes those that nothing
//! else asks for, and gives way to hosts between them.

use crate::checkpoint::Resume;
use crate::shard::coordinator::Coordinator;
use crate::shard::pace::Pace;
use block::BlockDevice;
use std::rc::Rc;
use std::time::Duration;

const AFTER_A_FAILURE: Duration = Duration::from_secs(1);

impl<D: BlockDevice + 'static> Coordinator<D> {
    /// Runs until the pool stops.
    pub async fn keep_removing(self: Rc<Self>) {
        let mut pace = Pace::new(&self.shard);
        while !self.ends() {
            if !self.shard.state.borrow().tables.unneeded() {
                self.unneeded.notified().await;
                pace = Pace::new(&self.shard);
                continue;
            }
            if self
                .checkpoint_with(Resume::AtFreeze, |_| Ok(()))
                .await
                .is_err()
            {
                // The pool is offline, or about to be.
                reactor::sleep(AFTER_A_FAILURE).await;
            }
            pace.rest(&self.shard).await;
        }
    }
}
