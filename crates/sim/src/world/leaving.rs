//! Requests that are given up: whoever asked for something waits no more, and goes on.
//!
//! Changes and reads of volumes are given up in all worlds, see `or_give_up`. Here is what else is,
//! in half of them.

use super::{Served, World};
use crate::drive::SimDrive;
use pool::{Entropy, OpenOptions, PoolError};
use std::time::Duration;

/// One request of so many is given up.
const LEFT: u64 = 10;
/// An opening is given up within 2 to the power of so many microseconds: it takes a tenth of a
/// second, most of which it waits.
const OPENING_MAX: u64 = 18;
/// One opening of so many is given up, and one of so many of those after it.
const AGAIN: u64 = 3;

impl World {
    /// Waits for something, or for a while only, now and then.
    pub(super) async fn or_leave<T>(&self, asked: impl Future<Output = T>) -> Option<T> {
        let chance = &self.leaving;
        if !self.leaves || !chance.once_in(LEFT) {
            return Some(asked.await);
        }
        let time = Duration::from_micros(chance.below(1 << chance.below(14)));
        reactor::timeout(time, asked).await.ok()
    }

    /// Asks once more, and waits then, where it gave up waiting.
    pub(super) async fn at_last<T, F: Future<Output = T>>(&self, ask: impl Fn() -> F) -> T {
        match self.or_leave(ask()).await {
            Some(found) => found,
            None => ask().await,
        }
    }

    /// Begins to open the pool, and gives that up, some times over. The process goes on. Returns
    /// what came of the last if that ended in time.
    pub(super) async fn may_leave_an_opening(
        &self,
        shards: usize,
        drives: &[SimDrive],
        options: &OpenOptions,
    ) -> Option<Result<Served, PoolError>> {
        while self.leaves && self.leaving.once_in(AGAIN) {
            let options = OpenOptions {
                entropy: Entropy::seeded(self.leaving.word()),
                ..options.clone()
            };
            let opening = Served::open(shards, drives.to_vec(), options);
            let time = self.leaving.below(1 << self.leaving.below(OPENING_MAX));
            let opened = reactor::timeout(Duration::from_micros(time), opening).await;
            if let Ok(opened) = opened {
                return Some(opened);
            }
            drives
                .iter()
                .for_each(|drive| self.land_what_was_left(drive));
        }
        None
    }

    /// The pool has been opened anew: nothing is under way of what was written before.
    pub(super) fn end_what_was_left(&self) {
        let mut model = self.model.borrow_mut();
        let model = &mut *model;
        let images = model
            .volumes
            .values_mut()
            .chain(model.snapshots.values_mut());
        images.for_each(crate::model::Image::end_left);
    }
}
