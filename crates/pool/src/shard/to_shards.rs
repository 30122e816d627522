//! The coordinator's side of the wires: telling the other shards, and hearing them.

use crate::error::PoolError;
use crate::ids::{SegmentNumber, ShardId};
use crate::map::overlay::Overlay;
use crate::offline::OfflineReason;
use crate::reporting::status::Counters;
use crate::segments::slices::Share;
use crate::segments::{Kind, Segment};
use crate::shard::coordinator::Coordinator;
use crate::shard::messages::{Begin, MemberDrive, Order, Outbox, Report, Standing, View};
use crate::stripes::class::Class;
use block::BlockDevice;
use reactor::mailbox::{Receiver, Sender};
use std::cell::Cell;
use std::collections::VecDeque;
use std::rc::{Rc, Weak};

/// Another shard, as the coordinator sees it.
pub(crate) struct Peer {
    pub shard: ShardId,
    pub outbox: Outbox<Order>,
    /// What it said last.
    pub standing: Cell<Standing>,
}

impl Peer {
    /// It has set its updates aside, when it had counted so much.
    pub fn heard_frozen(&self, counters: Counters) {
        self.correct(|standing| {
            standing.overlay_full = false;
            standing.counters = counters;
        });
    }

    /// It is known better than the shard said it.
    fn correct(&self, change: impl Fn(&mut Standing)) {
        let mut standing = self.standing.get();
        change(&mut standing);
        self.standing.set(standing);
    }
}

impl<D> Coordinator<D> {
    pub fn peers(&self) -> &[Peer] {
        self.peers.get().map_or(&[], Vec::as_slice)
    }

    /// Another shard; the first one is here.
    pub fn peer(&self, shard: ShardId) -> Option<&Peer> {
        self.peers().iter().find(|peer| peer.shard == shard)
    }

    /// Blocks in stripes of other shards that the maps do not have yet, as they last told.
    pub fn overlay_blocks_of_others(&self) -> u64 {
        let others = self.peers().iter().map(|peer| peer.standing.get());
        others.map(|standing| standing.overlay_blocks).sum()
    }

    pub fn tell_all(&self, order: impl Fn() -> Order) {
        for peer in self.peers() {
            peer.outbox.tell(order());
        }
    }
}

impl<D: BlockDevice + 'static> Coordinator<D> {
    /// Tells every other shard something and waits for their answers, in their order.
    pub async fn ask_all<A: Send>(
        &self,
        order: impl Fn(Sender<A>) -> Order,
    ) -> Result<Vec<A>, PoolError> {
        let asked: Vec<Receiver<A>> = self
            .peers()
            .iter()
            .map(|peer| peer.outbox.ask(&order))
            .collect();
        let mut answers = Vec::with_capacity(asked.len());
        for answer in asked {
            answers.push(self.answer(answer).await?);
        }
        Ok(answers)
    }

    /// Waits for an answer; a shard that has gone takes the pool with it.
    pub async fn answer<A: Send>(&self, mut answer: Receiver<A>) -> Result<A, PoolError> {
        let gone = OfflineReason::CoreStopped;
        match answer.recv().await {
            Some(answer) => Ok(answer),
            None if self.shard.array.lease.has_ended() => {
                Err(PoolError::Offline(OfflineReason::Closing))
            }
            None => {
                self.shard.go_offline(gone);
                Err(PoolError::Offline(self.shard.offline.get().unwrap_or(gone)))
            }
        }
    }

    /// What other shards need to know of a member, for the handle at a position.
    pub fn member(&self, index: usize, position: usize) -> Option<MemberDrive> {
        let drive = self.shard.array.drive(index)?;
        Some(MemberDrive {
            index,
            position,
            id: drive.id,
            layout: drive.layout,
        })
    }

    /// Lets the other shards begin from the checkpoint that has just been taken, or from the one
    /// before and what each has of the updates since.
    pub async fn begin_others(
        self: &Rc<Self>,
        orders: Vec<Sender<Order>>,
        reports: Receiver<Report>,
        positions: &[(usize, usize)],
        mut recovered: VecDeque<Overlay>,
    ) -> Result<(), PoolError> {
        let peers = (1..)
            .map(ShardId::new)
            .zip(orders)
            .map(|(shard, orders)| Peer {
                shard,
                outbox: Outbox::new(orders),
                standing: Cell::default(),
            });
        let _ = self.peers.set(peers.collect());
        let view = self.view();
        let begun: Vec<_> = self
            .peers()
            .iter()
            .map(|peer| {
                let recovered = recovered.pop_front().unwrap_or_default();
                let begin = Box::new(self.begin(peer.shard, positions, recovered, view.clone()));
                peer.outbox.ask(|reply| Order::Begin(begin, reply))
            })
            .collect();
        for answer in begun {
            self.answer(answer).await??;
        }
        drop(reactor::spawn(hear(Rc::downgrade(self), reports)));
        Ok(())
    }

    fn begin(
        &self,
        shard: ShardId,
        positions: &[(usize, usize)],
        recovered: Overlay,
        view: View,
    ) -> Begin {
        let members = positions
            .iter()
            .filter_map(|(index, position)| self.member(*index, *position))
            .collect();
        let share = self.shard.state.borrow().share;
        Begin {
            settings: self.shard.settings,
            level: self.shard.array.level,
            secret: self.shard.secret,
            incarnation: self.shard.incarnation.get(),
            newest: self.shard.newest.get(),
            width: self.shard.width,
            zone_rows: self.shard.zone_rows,
            members,
            cramped: self.shard.array.cramped.get(),
            share: Share { shard, ..share },
            sequence: self.shard.state.borrow().log.applied(),
            view,
            recovered,
        }
    }

    /// The maps and segments as they are now.
    pub fn view(&self) -> View {
        let state = self.shard.state.borrow();
        View {
            tables: state.tables.shown(),
            segments: state.segments.table().clone(),
        }
    }

    /// The writes that waited for a segment have been refused.
    pub fn heard_refused(&self) {
        self.correct_all(|standing| standing.starved = false);
    }

    /// There may be segments where there were none.
    pub fn have_others_look(&self) {
        self.shard.looks.set(self.shard.looks.get() + 1);
        self.tell_all(|| Order::Look);
    }

    fn correct_all(&self, change: impl Fn(&mut Standing)) {
        for peer in self.peers() {
            peer.correct(&change);
        }
    }

    /// Tells every shard whether space is short.
    pub fn be_frugal(&self, frugal: bool) {
        let before = std::mem::replace(&mut self.shard.state.borrow_mut().frugal, frugal);
        if before != frugal {
            self.tell_all(|| Order::Frugal(frugal));
        }
    }

    /// Blocks that hosts have written, as far as is known.
    pub fn host_blocks_written(&self) -> u64 {
        self.counters_as_known().host_blocks_written
    }

    /// Blocks that hosts have written or deallocated, as far as is known.
    pub fn host_blocks_changed(&self) -> u64 {
        let counters = self.counters_as_known();
        counters.host_blocks_written + counters.host_blocks_deallocated
    }

    /// The totals of all shards, of the others as they last told.
    fn counters_as_known(&self) -> Counters {
        let mut counters = self.shard.array.counters.get();
        for peer in self.peers().iter() {
            counters.add(peer.standing.get().counters);
        }
        counters
    }

    /// True when the space in use of all shards may have passed a mark.
    pub fn space_may_pass_a_mark(&self) -> bool {
        let others = self.peers().iter().map(|peer| peer.standing.get());
        let others: u64 = others.map(|standing| standing.new_blocks_most).sum();
        let at_most = self.shard.state.borrow().live_at_most();
        at_most + others >= self.shard.look_at_blocks.get()
    }

    /// Acts on what another shard reports.
    fn hear(self: Rc<Self>, report: Report) {
        match report {
            Report::Failed { drives, reply } => {
                for (index, id) in drives {
                    self.shard.array.fail_member(index, id);
                }
                drop(reactor::spawn(async move {
                    let settled = self.shard.settle_membership().await;
                    // A shard that has gone waits for nothing.
                    let _ = reply.try_send(settled);
                }));
            }
            Report::Segment {
                shard,
                class,
                ahead,
                reply,
            } => {
                let lent = self.lend(shard, class, ahead);
                let _ = reply.try_send(lent);
            }
            Report::Room {
                shard,
                blocks,
                reply,
            } => {
                drop(reactor::spawn(async move {
                    let dealt = self.deal_room(shard, blocks).await;
                    let _ = reply.try_send(dealt);
                }));
            }
            Report::Silent(silent) => self.judge_silence(silent),
            Report::Asked => self.idle_merge.ask(),
            Report::Standing(shard, mut standing) => {
                // Who complained before it was told to look will do so again, or not.
                standing.starved &= standing.looks == self.shard.looks.get();
                if let Some(peer) = self.peer(shard) {
                    peer.standing.set(*standing);
                }
                let frees = self.shard.state.borrow().emptied.awaiting_logs() > 0;
                if standing.starved
                    || standing.overlay_full
                    || frees
                    || self.space_may_pass_a_mark()
                {
                    self.shard.upkeep.notify_one();
                }
                let dirty = self.others_dirty.get() || standing.dirty;
                self.others_dirty.set(dirty);
            }
            Report::Event(event) => self.shard.array.events.push(event),
            Report::Offline(reason) => self.shard.go_offline(reason),
        }
    }

    /// Gives another shard a segment to write, if there is one for its purpose.
    fn lend(&self, shard: ShardId, class: Class, ahead: bool) -> Option<(SegmentNumber, Segment)> {
        let rules = self.shard.rules();
        let mut state = self.shard.state.borrow_mut();
        let state = &mut *state;
        let (kind, kept) = match class {
            Class::HostWide => (
                Kind::Wide,
                state.kept_for_cleaner(&rules) + usize::from(ahead),
            ),
            Class::HostNarrow => (Kind::Narrow, 0),
            Class::Moved | Class::MovedAgain => (Kind::Wide, 0),
        };
        let ready: Vec<SegmentNumber> = state
            .announced(kind)
            .filter(|(_, segment)| rules.accepts(&segment.columns))
            .map(|(number, _)| number)
            .collect();
        if ready.len() <= kept {
            self.shard.upkeep.notify_one();
            return None;
        }
        let number = ready[0];
        let segment = state.segments.get_mut(number)?;
        segment.writer = Some(shard);
        let given = segment.clone();
        state.ready.lend(number);
        if let Some(peer) = self.peer(shard) {
            peer.correct(|standing| standing.starved = false);
        }
        Some((number, given))
    }

    /// A merge is done: upkeep deals what it gave back, where there is anybody to deal it to.
    pub fn room_came_back(&self) {
        if !self.peers().is_empty() {
            self.room_due.set(true);
            self.shard.upkeep.notify_one();
        }
    }

    /// Tells the other shards which drives take no new segments.
    pub fn tell_leaving(&self) {
        self.tell_all(|| Order::Leaving(self.shard.array.leaving.borrow().clone()));
    }
}

/// Hears the other shards while the pool is open.
async fn hear<D: BlockDevice + 'static>(
    coordinator: Weak<Coordinator<D>>,
    mut reports: Receiver<Report>,
) {
    while let Some(report) = reports.recv().await {
        let Some(coordinator) = coordinator.upgrade() else {
            return;
        };
        coordinator.hear(report);
    }
}
