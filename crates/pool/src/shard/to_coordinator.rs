//! What a shard asks of the coordinator: membership, segments, room. Where the coordinator is on
//! the same core it is called, else it is sent a report.

use crate::ids::Sequence;
use crate::offline::OfflineReason;
use crate::segments::Kind;
use crate::shard::coordinator::Coordinator;
use crate::shard::core::{Core, Link};
use crate::shard::messages::{Order, Report, Standing};
use crate::stripes::class::Class;
use block::{BlockDevice, IoError};
use reactor::mailbox::Sender;
use std::rc::Rc;

/// Another shard tells how it is doing after so many stripes.
const STRIPES_A_REPORT: u64 = 64;
/// A checkpoint is taken, too, when so many times the updates that may wait for the map would have
/// to be replayed after a crash, though some replaced others.
const REPLAYED: usize = 2;

impl<D> Core<D> {
    /// Who decides for the whole pool, if that is on this core; gone once the pool is.
    pub fn coordinator(&self) -> Option<Rc<Coordinator<D>>> {
        match self.link.get()? {
            Link::Home(coordinator) => coordinator.upgrade(),
            Link::Away(_) => None,
        }
    }

    /// Tells the coordinator, if it is on another core.
    pub fn report(&self, report: Report) {
        if let Some(Link::Away(outbox)) = self.link.get() {
            outbox.tell(report);
        }
    }

    async fn ask<A: Send>(&self, report: impl FnOnce(Sender<A>) -> Report) -> Result<A, IoError> {
        let Some(Link::Away(outbox)) = self.link.get() else {
            return Err(IoError::Internal);
        };
        let mut answer = outbox.ask(report);
        answer.recv().await.ok_or(IoError::DeviceGone)
    }

    fn is_away(&self) -> bool {
        matches!(self.link.get(), Some(Link::Away(_)))
    }

    /// Tells the others that the pool is out of service.
    pub fn pass_on_offline(&self, reason: OfflineReason) {
        self.report(Report::Offline(reason));
        if let Some(coordinator) = self.coordinator() {
            coordinator.tell_all(|| Order::Offline(reason));
        }
    }

    /// True when so many updates wait that a checkpoint is due.
    pub fn overlay_full(&self) -> bool {
        let state = self.state.borrow();
        let limit = self.settings.checkpoint_updates / state.share.shards as usize;
        let limit = limit.max(1);
        let latest = state.updates.latest();
        latest.len() >= limit || latest.given() >= REPLAYED * limit
    }

    /// True when the coordinator should hear how this shard is doing.
    pub fn report_is_due(&self) -> bool {
        self.is_away()
            && self
                .array
                .counters
                .get()
                .stripes
                .is_multiple_of(STRIPES_A_REPORT)
    }

    /// Has the coordinator hear what has been counted since it last did: fewer stripes than are
    /// told of at once may have deallocated much.
    pub fn tell_changes(&self) {
        if self.array.counters.get() != self.told.get() {
            self.upkeep.notify_one();
        }
    }

    /// How this shard is doing.
    pub fn standing(&self) -> Standing {
        let overlay_full = self.overlay_full();
        let state = self.state.borrow();
        Standing {
            starved: state.queue.starves(),
            looks: self.looks.get(),
            overlay_full,
            dirty: !state.updates.latest().is_empty(),
            overlay_blocks: state.segments.live_overlay(),
            new_blocks_most: state.new_at_most(),
            covered: state.log.covered(),
            cached_nodes: self.cache.borrow().len(),
            counters: self.array.counters.get(),
        }
    }
}

impl<D: BlockDevice + 'static> Core<D> {
    /// Sees to what a shard away from the coordinator needs, until the pool stops.
    pub async fn attend(self: Rc<Self>) {
        while !self.stopping.get() && self.offline.get().is_none() {
            if !self.array.newly_failed.borrow().is_empty() {
                // A failure takes the pool offline.
                let _ = self.settle_membership().await;
            }
            let looks = self.looks.get();
            let given = self.keep_segments().await;
            let standing = self.standing();
            self.forget_reported(standing.covered);
            self.told.set(standing.counters);
            // With a segment given, the writer looks again before it complains.
            let shard = self.state.borrow().share.shard;
            let starved = standing.starved && !given;
            let standing = Standing {
                starved,
                looks,
                ..standing
            };
            self.report(Report::Standing(shard, Box::new(standing)));
            self.upkeep.notified().await;
        }
    }

    /// The coordinator hears that stripes up to `covered` are certain to count.
    fn forget_reported(&self, covered: Sequence) {
        self.state.borrow_mut().emptied.forget_covered(covered);
    }

    /// Asks for segments to be written next, before they are needed. True if one was given, or is
    /// there that the writer has not looked at yet: it may be kept from it by a checkpoint.
    async fn keep_segments(&self) -> bool {
        let rules = self.rules();
        let (wide, narrow) = (rules.wide(), rules.narrow());
        let mut given = false;
        for (class, kind) in [
            (Class::HostWide, Kind::Wide),
            (Class::HostNarrow, Kind::Narrow),
        ] {
            let wanted = class == Class::HostWide || narrow != wide;
            let lies_ready = {
                let state = self.state.borrow();
                // One that lacks a drive by now is of no use.
                state.announced(kind).any(|(number, segment)| {
                    !state.ready.is_for_moves(number) && rules.accepts(&segment.columns)
                })
            };
            if wanted {
                let ahead = !self.state.borrow().queue.is_starved();
                given |= lies_ready || self.get_segment(class, ahead).await;
            }
        }
        let gives_back = {
            let state = self.state.borrow();
            state.queue.is_starved()
                && state
                    .queue
                    .head()
                    .is_some_and(crate::stripes::item::Item::is_hole)
        };
        // Deallocations free space, so they may use the last of it.
        if gives_back && !given {
            given = self.get_segment(Class::Moved, false).await;
        }
        given
    }

    /// Asks the coordinator, if it is on another core, for a segment to write.
    pub async fn get_segment(&self, class: Class, ahead: bool) -> bool {
        if !self.is_away() {
            return false;
        }
        let shard = self.state.borrow().share.shard;
        let asked = self.ask(|reply| Report::Segment {
            shard,
            class,
            ahead,
            reply,
        });
        let Ok(Some((number, segment))) = asked.await else {
            return false;
        };
        let mut state = self.state.borrow_mut();
        state.segments.adopt(number, segment);
        if class.moves() {
            state.ready.borrowed_for_moves(number);
        }
        drop(state);
        self.work.notify_one();
        true
    }

    /// Returns once the membership on the drives knows every drive that has failed so far.
    pub async fn settle_membership(&self) -> Result<(), IoError> {
        let failed = self.array.newly_failed.borrow().clone();
        if failed.is_empty() {
            // Whoever holds the pool by now has, or has not, what is settled.
            return self.array.lease.hold().await;
        }
        if let Some(coordinator) = self.coordinator() {
            coordinator.settle().await?;
            return self.array.lease.hold().await;
        }
        let drives = self.array.members(&failed);
        self.ask(|reply| Report::Failed { drives, reply }).await??;
        let still = |drive: &usize| !failed.contains(drive);
        self.array.newly_failed.borrow_mut().retain(still);
        self.array.lease.hold().await
    }

    /// Sees to it that this shard has room for `blocks` more, or says that there is none.
    pub async fn make_room(&self, blocks: u64) -> Result<(), IoError> {
        let shard = self.state.borrow().share.shard;
        if let Some(coordinator) = self.coordinator() {
            return coordinator.deal_room(shard, blocks).await;
        }
        let asked = self.ask(|reply| Report::Room {
            shard,
            blocks,
            reply,
        });
        asked.await?
    }
}
