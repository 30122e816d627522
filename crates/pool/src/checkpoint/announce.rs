//! Announcing segments: tables are published again that name further segments as ready.
//!
//! A segment may be written once tables that are durable name it. Those of the last checkpoint
//! serve, without merging anything: what they map stays, what was freed since is taken out of
//! them, and what was made ready out of it is added. So what one checkpoint frees can be written
//! without another. What recovery decided is published the same way, and so is what becomes of
//! volumes and snapshots: the log goes on, for every layer that it names is in the new tables too.

use crate::checkpoint::{Gate, Resume};
use crate::error::PoolError;
use crate::format::body::{Body, Decided};
use crate::format::superblock::Superblock;
use crate::offline::OfflineReason;
use crate::segments::SegmentState;
use crate::shard::coordinator::Coordinator;
use crate::shard::messages::Order;
use crate::shard::state::State;
use crate::volumes::Tables;
use block::BlockDevice;
use std::rc::Rc;

impl<D: BlockDevice + 'static> Coordinator<D> {
    /// Makes segments ready and publishes that they are, unless a checkpoint just has.
    pub async fn announce(&self) -> Result<(), PoolError> {
        let _alone = self.upkeep_lock.lock().await;
        if let Some(reason) = self.shard.offline.get() {
            return Err(PoolError::Offline(reason));
        }
        if self.shard.stopping.get() {
            return Err(PoolError::Offline(OfflineReason::Closing));
        }
        let body = self.body_with_ready();
        if !self.shard.state.borrow().ready.unannounced().is_empty() {
            let tables = self.write_down(body).await;
            let published = self
                .publish(None::<fn(&mut Superblock)>, Some(tables))
                .await;
            if let Err(error) = published {
                tracing::error!(%error, "segments could not be announced");
                self.shard.go_offline(OfflineReason::AnnouncementFailed);
                return Err(error);
            }
            self.shard.state.borrow_mut().ready.announced();
        }
        self.shard.work.notify_one();
        self.have_others_look();
        Ok(())
    }

    /// Publishes what recovery has decided, in a new incarnation, and segments for it to write:
    /// from here on the pool can serve, although its maps do not have what was found.
    pub async fn announce_decided(&self, decided: Decided) -> Result<(), PoolError> {
        let _alone = self.upkeep_lock.lock().await;
        let mut body = self.body_with_ready();
        body.decided = Some(decided);
        {
            let state = self.shard.state.borrow();
            body.slice_blocks = state.share.slice_blocks as u32;
            body.sequences = vec![state.log.applied(); state.share.shards as usize];
        }
        let tables = self.write_down(body).await;
        self.publish(Some(self.entering()), Some(tables)).await?;
        self.shard.state.borrow_mut().ready.announced();
        self.merge_due.set(true);
        Ok(())
    }

    /// Changes the tables of volumes, snapshots and layers, with no stripe in flight, and returns
    /// when that is durable. `change` is given what they were, which they are again if it fails.
    ///
    /// What volumes that reserve space have written counts nowhere before it is merged: it is
    /// covered by what is promised to them. Where that may change, the maps have it all before.
    pub async fn change_tables<T>(
        self: &Rc<Self>,
        promises: bool,
        change: impl FnOnce(&mut State, &Tables) -> Result<T, PoolError>,
    ) -> Result<T, PoolError> {
        let _alone = self.upkeep_lock.lock().await;
        self.verify().await?;
        let _gate = Gate::close(self).await?;
        if let Some(reason) = self.shard.offline.get() {
            return Err(PoolError::Offline(reason));
        }
        if promises && self.updates_wait() {
            self.checkpoint_locked(Resume::WhenDurable, |_| Ok(()))
                .await?;
        }
        // Until the change is certain to fit nobody else has a turn: what is taken back was never
        // seen.
        let before = self.shard.state.borrow().tables.shown();
        let changed = change(&mut self.shard.state.borrow_mut(), &before);
        let changed = changed.and_then(|output| Ok((output, self.body_with_tables()?)));
        let (output, body) = changed.inspect_err(|_| {
            self.shard.state.borrow_mut().tables.replace(before);
        })?;
        // Nothing takes the change back any more: who sees it early sees what is, or a pool that
        // goes offline.
        let tables = self.write_down(body).await;
        let published = self
            .publish(None::<fn(&mut Superblock)>, Some(tables))
            .await;
        if let Err(error) = published {
            tracing::error!(%error, "a change of volumes could not be published");
            self.shard.go_offline(OfflineReason::ChangeFailed);
            return Err(error);
        }
        self.shard.state.borrow_mut().ready.announced();
        let tables = || self.shard.state.borrow().tables.shown();
        self.ask_all(|reply| Order::Tables(tables(), reply)).await?;
        self.unneeded.notify_one();
        Ok(output)
    }

    /// Updates may wait for the maps, here or on another shard.
    pub fn updates_wait(&self) -> bool {
        !self.peers().is_empty() || !self.shard.state.borrow().updates.latest().is_empty()
    }

    /// The tables as they are to be, if there is room for them.
    fn body_with_tables(&self) -> Result<Body, PoolError> {
        let mut body = self.body_with_ready();
        body.tables = self.shard.state.borrow().tables.shown();
        let (bytes, allowed) = (body.encoded_bytes(), self.slot_bytes());
        match bytes <= allowed {
            true => Ok(body),
            false => Err(PoolError::TablesFull {
                bytes: bytes as u64,
                allowed: allowed as u64,
            }),
        }
    }

    /// The last tables, but for the segments that have been freed, and are made ready, since.
    /// Whoever publishes others holds the lock that the caller holds.
    pub fn body_with_ready(&self) -> Body {
        let mut body = self.published.borrow().tables.body.clone();
        let mut state = self.shard.state.borrow_mut();
        let state = &mut *state;
        self.make_ready(state);
        // Only what a durable checkpoint does not refer to, or the log behind it has replaced, is
        // ever freed.
        let mut emptied = Vec::new();
        body.segments.retain(|number, then| {
            let now = state.segments.get(*number);
            let now = now.filter(|now| now.generation == then.generation);
            if now.is_some_and(|now| now.columns.is_empty()) {
                emptied.push(*number);
            }
            now.is_some()
        });
        for number in emptied {
            if let Some(then) = body.segments.get_mut(number) {
                then.columns.clear();
            }
        }
        for number in state.ready.unannounced() {
            let segment = state.segments.get(*number);
            let ready = segment.filter(|found| found.state == SegmentState::Ready);
            body.segments
                .extend(ready.map(|found| (*number, found.as_written())));
        }
        body.next_generation = state.segments.next_generation();
        body
    }
}
