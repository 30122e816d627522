//! The log: requests queue up, batches become stripes, stripes land and are applied in order.

use crate::ids::Sequence;
use crate::location::{LayerBlock, Location};
use crate::mutation::Mutation;
use crate::offline::OfflineReason;
use crate::shard::core::Core;
use crate::shard::state::State;
use crate::stripes::item::{Batch, Completed, Item};
use crate::stripes::layout::{When, give_back, lay_out};
use crate::stripes::patience::{self, Patience};
use crate::writing::batch::{self, Next, next_batch};
use block::{BlockDevice, Buffer, Durability, IoError};
use std::rc::Rc;

impl<D: BlockDevice + 'static> Core<D> {
    /// Queues requests' parts; the writer takes it from here.
    pub fn enqueue(&self, items: impl IntoIterator<Item = Item>) {
        if self.stopping.get() {
            // The writer may have looked at the queue for the last time.
            items
                .into_iter()
                .for_each(|item| item.fail(IoError::NotReady));
            return;
        }
        let mut state = self.state.borrow_mut();
        for item in items {
            state.queue.push(item);
        }
        drop(state);
        self.work.notify_one();
    }

    /// Fails everything that waits for a stripe.
    pub fn fail_queue(&self, error: IoError) {
        let items = self.state.borrow_mut().queue.take_all();
        for item in items {
            item.fail(error);
        }
    }

    /// Turns the queue into stripes until the pool stops.
    pub async fn write_log(self: Rc<Self>) {
        let mut patience = Patience::default();
        loop {
            if self.offline.get().is_some() {
                self.fail_queue(IoError::DeviceGone);
            }
            if self.stopping.get() {
                self.fail_queue(IoError::NotReady);
                self.end_left();
                return;
            }
            self.wait_for_more(&mut patience).await;
            let next = self.next_host_batch();
            self.end_left();
            match next {
                Next::Batch(batch) => self.clone().launch(*batch),
                Next::NoSpace => {
                    self.upkeep.notify_one();
                    self.work.notified().await;
                }
                Next::Nothing => self.work.notified().await,
            }
        }
    }

    /// Lets others who write get in line before a row is padded: with a large write until a stripe
    /// is full, if others came of late; with a small one for a turn, where space is short. Else
    /// nobody is waited for: what arrives while a stripe is written makes the next one larger, and
    /// hosts prepare more while it is.
    async fn wait_for_more(&self, patience: &mut Patience) {
        if self.head_is_large() && patience.is_worth_it() {
            patience.learn(self.wait_for_a_stripe().await);
        } else if self.pads_while_short() {
            reactor::yield_now().await;
        }
    }

    /// Waits until a stripe is full, or as long as a large write does; true if anything came.
    async fn wait_for_a_stripe(&self) -> bool {
        let queued = || self.state.borrow().queue.parts();
        let (before, full) = (queued(), batch::host_stripe_blocks(&self.rules()));
        let mut turns = patience::TURNS;
        while turns > 0 && queued() < full {
            reactor::yield_now().await;
            turns -= 1;
        }
        before >= full || queued() > before
    }

    fn pads_while_short(&self) -> bool {
        let state = self.state.borrow();
        let data = self.array.shape(self.width).data as u64;
        state.frugal && (1..data - 1).contains(&state.queue.parts())
    }

    fn head_is_large(&self) -> bool {
        let state = self.state.borrow();
        let head = state.queue.head();
        head.is_some_and(|item| item.parts() >= patience::LARGE_WRITE_BLOCKS)
    }

    fn next_host_batch(&self) -> Next {
        let mut state = self.state.borrow_mut();
        let state = &mut *state;
        if state.log.gate() > 0 || self.offline.get().is_some() || state.queue.is_empty() {
            return Next::Nothing;
        }
        let full = state.queue.parts() >= batch::FULL_BLOCKS;
        let limit = if full {
            self.settings.stripes_in_flight
        } else {
            1
        };
        if state.log.hosts_in_flight() >= limit {
            return Next::Nothing;
        }
        let next = next_batch(state, &self.rules());
        if state.open.take_opened() {
            self.upkeep.notify_one();
        }
        next
    }

    /// Writes a stripe in a task of its own.
    pub fn launch(self: Rc<Self>, mut batch: Batch) {
        self.state.borrow_mut().log.begin(batch.moved);
        drop(reactor::spawn(async move {
            let when = When {
                incarnation: self.incarnation.get(),
                newest: self.newest.get(),
            };
            let mut stripe = lay_out(&mut batch, &self.secret, when);
            if Mutation::AnswersEarly.is_planted() {
                give_back(std::mem::take(&mut stripe.owners), copies(&stripe.columns));
                for (request, parts) in batch.requests.drain(..) {
                    request.finish(parts, Ok(()));
                }
            }
            let blocks = u64::from(batch.rows) * batch.shape.width() as u64;
            let (columns, written) = self
                .array
                .write_columns(
                    &batch.columns,
                    batch.row,
                    stripe.columns,
                    Durability::Durable,
                )
                .await;
            give_back(stripe.owners, columns);
            self.array.count(|counters| {
                counters.stripe_blocks_written += blocks;
                counters.stripes += 1;
            });
            let result = match written {
                // Nobody may learn of a stripe that misses a column before the membership says so.
                Ok(()) => self.settle_membership().await,
                Err(error) => {
                    self.go_offline(OfflineReason::TooManyDrivesFailed);
                    Err(error)
                }
            };
            let completed = Completed {
                segment: batch.segment,
                row: batch.row,
                rows: batch.rows,
                durable_through: batch.durable_through,
                records: batch.records,
                requests: batch.requests,
                result,
            };
            self.land(batch.sequence, batch.moved, completed);
        }));
    }

    /// Applies stripes in the order of their sequence numbers, which is the order of a replay.
    fn land(&self, sequence: Sequence, moved: bool, completed: Completed) {
        let mut finished = Vec::new();
        let frees_segments;
        {
            let mut state = self.state.borrow_mut();
            let state = &mut *state;
            state.log.landed(sequence, moved, completed);
            let covered_before = state.log.covered();
            while let Some(stripe) = state.log.apply_next() {
                if stripe.result.is_ok() {
                    let share = state.share;
                    state.apply(&stripe, share, take_moving);
                }
                finished.push(stripe);
            }
            let (shard, covered) = (state.share.shard, state.log.covered());
            frees_segments = state.emptied.waits_between(shard, covered_before, covered);
        }
        let mut blocks = 0;
        for stripe in finished {
            for (request, parts) in stripe.requests {
                blocks += parts;
                request.finish(parts, stripe.result);
            }
        }
        self.array
            .count(|counters| counters.host_blocks_written += blocks);
        self.landed.notify_all();
        self.work.notify_one();
        let full = self.overlay_full();
        if full || frees_segments || self.report_is_due() || self.own_space_may_pass_a_mark() {
            self.upkeep.notify_one();
        }
    }
}

fn copies(columns: &[Vec<Buffer>]) -> Vec<Vec<Buffer>> {
    let copy = |column: &Vec<Buffer>| {
        column
            .iter()
            .map(|buffer| Buffer::copy_of(buffer))
            .collect()
    };
    columns.iter().map(copy).collect()
}

/// A moved block counts while nobody wrote or gave back the block in the meantime.
fn take_moving(state: &mut State, block: LayerBlock, from: Location) -> bool {
    state.moving.arrive(block, from) || Mutation::MovesOverWrites.is_planted()
}
