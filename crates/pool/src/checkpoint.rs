//! The checkpoint: updates go into the maps, tables into the superblock; then space is free.

pub(crate) mod allocate;
pub(crate) mod announce;
pub(crate) mod apart;
mod cut;
pub(crate) mod lost_nodes;
pub(crate) mod map_writer;
pub(crate) mod removal;

use crate::checkpoint::cut::{AtCut, Counts, Cut, body_of};
use crate::checkpoint::lost_nodes::LostNodes;
use crate::checkpoint::map_writer::MapWriter;
use crate::error::PoolError;
use crate::format::superblock::Superblock;
use crate::ids::{LayerId, SegmentNumber};
use crate::join::join;
use crate::location::Entry;
use crate::map::overlay::{self, Counted, Overlay};
use crate::map::{fold, tree};
use crate::membership::fence::NOBODY;
use crate::mutation::Mutation;
use crate::offline::OfflineReason;
use crate::segments::{Kind, Segment, SegmentState};
use crate::shard::coordinator::Coordinator;
use crate::shard::core::Core;
use crate::shard::limbo::Freed;
use crate::shard::messages::{Order, Turnover, View, Written};
use crate::shard::state::State;
use crate::volumes::Tables;
use block::BlockDevice;
use reactor::mailbox::Receiver;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;

/// Of all nodes of a map no more than one in so many is above others.
const INNER_NODES_SHARE: u64 = 16;
/// Nodes that there is always room for beside those counted.
const MORE_NODES: u64 = 16;

/// Layers whose maps are looked at before others have a turn: many are of one node.
const LAYERS_IN_A_ROW: usize = 1024;

/// When stripes may start again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resume {
    /// As soon as the updates are set aside.
    AtFreeze,
    /// When the checkpoint is durable: for what the log does not know and the maps have to.
    WhenDurable,
}

/// Keeps stripes from starting, on every shard, while it lives.
pub(crate) struct Gate<'a, D: BlockDevice + 'static>(&'a Coordinator<D>);

impl<'a, D: BlockDevice + 'static> Gate<'a, D> {
    /// Closes it, and waits until no stripe is in flight.
    pub async fn close(coordinator: &'a Coordinator<D>) -> Result<Gate<'a, D>, PoolError> {
        coordinator.shard.state.borrow_mut().log.close_gate();
        let gate = Gate(coordinator);
        let others = coordinator.ask_all(Order::Gate);
        let (others, ()) = join(others, coordinator.shard.drained()).await;
        others?;
        Ok(gate)
    }
}

impl<D: BlockDevice + 'static> Drop for Gate<'_, D> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // What a panic found half changed may panic again, which would end the process.
            return;
        }
        self.0.shard.state.borrow_mut().log.open_gate();
        self.0.shard.work.notify_one();
        self.0.tell_all(|| Order::Open);
    }
}

impl<D: BlockDevice + 'static> Core<D> {
    /// Seals every segment of this shard, or of none, that is open or ready and lacks a drive;
    /// returns them.
    pub fn drop_dead_segments(&self, state: &mut State) -> Vec<SegmentNumber> {
        let rules = self.rules();
        let dead = |segment: &Segment| {
            segment.state != SegmentState::Sealed && !rules.accepts(&segment.columns)
        };
        let numbers: Vec<SegmentNumber> = state
            .segments
            .table()
            .iter()
            .filter(|(number, segment)| dead(segment) && !state.ready.is_lent(**number))
            .map(|(number, _)| *number)
            .collect();
        for number in &numbers {
            if let Some(segment) = state.segments.get_mut(*number) {
                segment.state = SegmentState::Sealed;
            }
            state.open.forget(*number);
            state.ready.used(*number);
        }
        numbers
    }
}

/// A checkpoint under way. One that nobody goes on with has set updates aside that no map has, and
/// the next one would set aside others in their place: the pool must not come to that.
struct Unfinished<'a, D: BlockDevice + 'static>(Option<&'a Coordinator<D>>);

impl<D: BlockDevice + 'static> Drop for Unfinished<'_, D> {
    fn drop(&mut self) {
        // A panic says itself why the pool ends.
        if let Some(core) = self.0
            && !std::thread::panicking()
        {
            core.shard.go_offline(OfflineReason::CheckpointUnfinished);
        }
    }
}

impl<D: BlockDevice + 'static> Coordinator<D> {
    /// Takes a checkpoint. `change` alters the tables with no stripe in flight.
    pub async fn checkpoint_with<T>(
        self: &Rc<Self>,
        resume: Resume,
        change: impl FnOnce(&mut State) -> Result<T, PoolError>,
    ) -> Result<T, PoolError> {
        self.outlast_late_requests().await;
        let _alone = self.upkeep_lock.lock().await;
        self.checkpoint_locked(resume, change).await
    }

    /// Returns when zones may be used that requests of a former holder might have come to.
    async fn outlast_late_requests(&self) {
        if self.shard.state.borrow().segments.zones().are_held() {
            reactor::sleep_until(self.late_until).await;
            self.let_zones_go();
        }
    }

    /// Has zones used again, if it is time; true if there were any that were not.
    pub fn let_zones_go(&self) -> bool {
        let due = reactor::now() >= self.late_until;
        let gone = due && self.shard.state.borrow_mut().segments.zones_mut().let_go();
        if gone {
            self.shard.upkeep.notify_one();
            self.unbalanced.notify_one();
        }
        gone
    }

    /// As [`checkpoint_with`](Coordinator::checkpoint_with), for who holds the upkeep lock.
    pub async fn checkpoint_locked<T>(
        self: &Rc<Self>,
        resume: Resume,
        change: impl FnOnce(&mut State) -> Result<T, PoolError>,
    ) -> Result<T, PoolError> {
        self.outlast_late_requests().await;
        self.use_what_is_apart().await?;
        // What it writes besides stripes goes to zones that somebody else may have taken.
        self.verify().await?;
        let mut gate = Some(Gate::close(self).await?);
        if let Some(reason) = self.shard.offline.get() {
            return Err(PoolError::Offline(reason));
        }
        self.judge_room();
        let output = change(&mut self.shard.state.borrow_mut())?;
        let mut unfinished = Unfinished(Some(self));
        let cut = self.freeze().await?;
        if resume == Resume::AtFreeze {
            gate = None;
        }
        // Nobody waits for what nobody needs.
        let removed = match gate.is_none() && self.shard.array.serving.get() {
            true => self.shard.settings.leaves_removed_at_once,
            false => 0,
        };
        let result = self.merge_and_publish(&cut, removed).await;
        if let Err(error) = result {
            tracing::error!(%error, "checkpoint failed");
            self.shard.go_offline(OfflineReason::CheckpointFailed);
            return Err(error);
        }
        unfinished.0 = None;
        drop(gate);
        self.shard.work.notify_one();
        Ok(output)
    }

    /// Has every shard set its updates aside, and notes where the logs stand.
    async fn freeze(&self) -> Result<Cut, PoolError> {
        let orders = self.at_freeze.take();
        let frozen = self.ask_all(|reply| Order::Freeze {
            cut_off: orders.cut_off.clone(),
            seal: orders.seal,
            reply,
        });
        let frozen = frozen.await?;
        let mut state = self.shard.state.borrow_mut();
        let state = &mut *state;
        let mut sequences = vec![state.log.applied(); state.share.shards as usize];
        let mut others = Vec::with_capacity(frozen.len());
        for (peer, found) in self.peers().iter().zip(frozen) {
            sequences[peer.shard.index()] = found.sequence;
            others.push(found.overlay);
            peer.heard_frozen(found.counters);
            for written in found.segments {
                self.note_written(state, &written);
            }
        }
        self.idle_merge.merging(self.host_blocks_changed());
        self.others_dirty
            .set(others.iter().any(|overlay| !overlay.is_empty()));
        if orders.seal {
            state.seal_open();
        }
        let dead = self.shard.drop_dead_segments(state);
        self.own_map.close(&dead);
        self.let_go(state);
        state.set_aside();
        let data = state
            .segments
            .table()
            .iter()
            .filter(|(_, found)| found.kind != Kind::Map);
        let segments: Vec<(SegmentNumber, AtCut)> = data
            .map(|(number, segment)| (*number, AtCut::of(segment)))
            .collect();
        let sealed = segments
            .iter()
            .filter(|(_, found)| found.state == SegmentState::Sealed);
        let settled = sealed.map(|(number, _)| *number).collect();
        Ok(Cut {
            sequences,
            others,
            generation: state.segments.next_generation(),
            segments,
            settled,
        })
    }

    /// Another shard has written a segment so far.
    fn note_written(&self, state: &mut State, written: &Written) {
        if let Some(segment) = state.segments.get_mut(written.number) {
            segment.state = written.state;
            segment.rows = written.rows;
            segment.sequence = written.sequence;
        }
        if written.state == SegmentState::Sealed {
            state.ready.returned(written.number);
        }
    }

    async fn merge_and_publish(
        self: &Rc<Self>,
        cut: &Cut,
        removed: usize,
    ) -> Result<(), PoolError> {
        let writer = MapWriter::new(self);
        let tables = self.merge(&writer, cut, removed).await?;
        writer.write_out().await?;
        let flushes = !Mutation::PublishesBeforeFlush.is_planted();
        for (index, drive) in self.shard.array.live().into_iter().filter(|_| flushes) {
            if drive.flush().await.is_err() {
                self.shard.array.fail(index, &drive);
            }
        }
        let merged = self.shard.state.borrow().updates.frozen();
        let gone = merged.count_by_segment().await;
        drop(merged);
        let nodes = self.swap(tables, &writer, &gone)?;
        let turnover = writer.take_turnover();
        self.shard.cache.borrow_mut().forget_all(&turnover.gone);
        let view = self.view();
        let seen = self.show_others(&view, &turnover);
        let in_a_row = self.shard.settings.entries_in_a_row;
        let body = body_of(cut, &view, nodes, in_a_row).await;
        let tables = self.write_down(body).await;
        let enter = self.entering();
        self.publish(Some(enter), Some(tables)).await?;
        self.merge_due.set(false);
        for answer in seen {
            self.answer(answer).await?;
        }
        self.shard.array.count(|counters| counters.checkpoints += 1);
        self.room_came_back();
        self.free(cut);
        self.watch_space();
        Ok(())
    }

    /// What a superblock says of who has the pool, and since when.
    pub fn entering(&self) -> impl FnOnce(&mut Superblock) + use<D> {
        let (incarnation, holder) = (self.shard.incarnation.get(), self.holder.get());
        let closes = self.shard.stopping.get();
        move |next| {
            next.incarnation = incarnation.get().into();
            next.holder = holder;
            next.taken_from = NOBODY;
            if closes {
                next.close();
            }
        }
    }

    /// Merges the frozen updates, makes room for nodes, and takes so many leaves out of layers that
    /// nobody needs.
    async fn merge(
        &self,
        writer: &MapWriter<'_, D>,
        cut: &Cut,
        removed: usize,
    ) -> Result<Tables, PoolError> {
        let lost = self.nodes_to_give_up().await?;
        let before = self.shard.state.borrow().tables.shown();
        let mut tables = Tables::clone(&before);
        drop(before);
        let own = self.shard.state.borrow().updates.frozen();
        let frozen = || std::iter::once(&*own).chain(cut.others.iter().map(|other| &**other));
        let layers: BTreeSet<LayerId> = frozen().flat_map(Overlay::layers).collect();
        let mut memory = self.changes_memory.take();
        let mut towards = self.towards.get();
        // Parents come before their children, whose numbers are higher.
        for layer in layers {
            memory = overlay::changes_of(frozen(), layer, memory).await;
            fold::lay(writer, &mut tables, layer, &mut memory, towards).await?;
        }
        self.changes_memory.replace(memory);
        self.make_room_for_nodes(writer, &mut tables, &lost).await?;
        // Last, for it is done only as far as there is room for nodes.
        let generation = cut.generation;
        fold::remove_unneeded(writer, &mut tables, &mut towards, generation, removed).await?;
        self.towards.set(towards);
        let telling = cut.segments.iter().filter(|(_, it)| it.tells_of_layers);
        let oldest = telling.map(|(_, found)| found.generation).min();
        let oldest = oldest.filter(|_| !Mutation::ForgetsRedirects.is_planted());
        tables.prune_redirects(oldest.unwrap_or(cut.generation));
        Ok(tables)
    }

    /// Moves the nodes of the emptiest map segments when the map takes more than its share, those
    /// of every segment that lacks a drive, and those that are `lost`: where one still cannot be
    /// read, what takes its place says that its blocks are lost.
    async fn make_room_for_nodes(
        &self,
        writer: &MapWriter<'_, D>,
        tables: &mut Tables,
        lost: &LostNodes,
    ) -> Result<(), PoolError> {
        let victims = {
            let state = self.shard.state.borrow();
            let nodes = self.own_map.nodes_after(writer.nodes.get());
            let share = self.shard.size().map_share(nodes);
            let mut sealed: Vec<(i64, SegmentNumber)> = state
                .segments
                .numbers(Kind::Map, SegmentState::Sealed)
                .map(|number| (writer.live_nodes_in(&state, number), number))
                .filter(|(live, _)| *live > 0)
                .collect();
            sealed.sort_unstable();
            let excess = (sealed.len() + 1).saturating_sub(share);
            sealed.truncate(2 * excess);
            self.choose_map_victims(&state, sealed, writer)
        };
        let of_lost: BTreeSet<LayerId> = lost.iter().map(|(of, _)| *of).collect();
        let concerned = |id: &LayerId| !victims.is_empty() || of_lost.contains(id);
        let layers = tables.layers.clone();
        let concerned = layers.iter().filter(|(id, _)| concerned(id));
        for (turn, (id, layer)) in (1..).zip(concerned) {
            if turn % LAYERS_IN_A_ROW == 0 {
                reactor::yield_now().await;
            }
            if let Some(root) = layer.root {
                let moves = |entry: Entry| {
                    victims.contains(&entry.at.segment) || lost.contains(&(*id, entry.at))
                };
                let moved = tree::compact(writer, *id, root, &moves).await?;
                if moved != root
                    && let Some(layer) = tables.layers.get_mut(id)
                {
                    layer.root = Some(moved);
                }
            }
        }
        writer.note_cleared(victims);
        Ok(())
    }

    /// Of the `emptiest` segments of the map, and of those that lack a drive, as many as there is
    /// room for the nodes of: the others have their turn when these are free.
    fn choose_map_victims(
        &self,
        state: &State,
        emptiest: Vec<(i64, SegmentNumber)>,
        writer: &MapWriter<'_, D>,
    ) -> BTreeSet<SegmentNumber> {
        let lacking = self.degraded(state).filter(|(_, kind)| *kind == Kind::Map);
        let lacking = lacking.map(|(number, _)| (writer.live_nodes_in(state, number), number));
        let lacking: Vec<(i64, SegmentNumber)> = lacking.collect();
        if lacking.is_empty() {
            self.own_map.waits.set(None);
            return emptiest.into_iter().map(|(_, number)| number).collect();
        }
        let storable = self.nodes_storable(state);
        // Every node above one that moves is written too.
        let mut room =
            storable.saturating_sub(self.own_map.nodes() / INNER_NODES_SHARE + MORE_NODES);
        let (mut victims, mut left_out) = (BTreeSet::new(), false);
        for (live, number) in emptiest.into_iter().chain(lacking) {
            let live = live.max(0) as u64;
            if live > room {
                left_out = true;
            } else if victims.insert(number) {
                room -= live;
            }
        }
        self.own_map.waits.set(left_out.then_some(storable));
        victims
    }

    /// Puts the merged maps in place, and makes segments ready for the time after.
    /// `gone` counts the updates that are in the maps now.
    fn swap(
        &self,
        tables: Tables,
        writer: &MapWriter<'_, D>,
        gone: &Counted,
    ) -> Result<Counts, PoolError> {
        let mut state = self.shard.state.borrow_mut();
        let state = &mut *state;
        state.drop_frozen(gone);
        if let Some(live) = &mut *self.live_nodes.borrow_mut() {
            let (nodes, blocks) = (writer.checked.borrow(), writer.handed_on.borrow());
            live.merged(&nodes, &blocks, &state.tables, &tables);
        }
        state.replace_tables(Arc::new(tables));
        self.own_map.merged(writer.nodes.get());
        let miscounted = state.segments.apply_tree_changes(&writer.changes.borrow());
        self.shard
            .array
            .count(|counters| counters.miscounted_segments += miscounted);
        self.count_off_lost(state, writer)?;
        state.eras.begin_next();
        self.make_ready(state);
        Ok(Counts {
            slice_blocks: state.share.slice_blocks as u32,
            next_generation: state.segments.next_generation(),
            map_nodes: self.own_map.nodes(),
        })
    }

    /// Tells the other shards what the maps are now, and which of their nodes came and went.
    fn show_others(&self, view: &View, turnover: &Arc<Turnover>) -> Vec<Receiver<()>> {
        self.peers()
            .iter()
            .map(|peer| {
                let (view, nodes) = (view.clone(), turnover.clone());
                peer.outbox.ask(|reply| Order::View { view, nodes, reply })
            })
            .collect()
    }

    /// The checkpoint is durable everywhere: what nothing refers to is free.
    fn free(self: &Rc<Self>, cut: &Cut) {
        let mut state = self.shard.state.borrow_mut();
        let state = &mut *state;
        state.ready.announced();
        state.emptied.merged();
        let dead: Vec<SegmentNumber> = state
            .segments
            .table()
            .iter()
            .filter(|(number, segment)| {
                let settled = match segment.kind {
                    Kind::Map => segment.state == SegmentState::Sealed,
                    Kind::Wide | Kind::Narrow => cut.settled.contains(number),
                };
                let used = || state.quarantined.contains(number) || state.in_limbo(**number);
                let settled = settled || Mutation::FreesUnderWriters.is_planted();
                settled && segment.live() == 0 && !used()
            })
            .map(|(number, _)| *number)
            .collect();
        // Readers of this era may have looked the map up before it was merged.
        let dead = dead.into_iter().map(Freed::Segment);
        let vacated = self.vacated.take().into_iter().map(Freed::Zone);
        let freed = dead.chain(vacated);
        state.eras.free(freed);
        self.hold_for_others(state);
        state.eras.begin_next();
        state.release_limbo();
        let settled = cut
            .settled
            .iter()
            .filter(|number| state.segments.get(**number).is_some());
        state.victims.settle(settled.copied().collect());
        self.shard.upkeep.notify_one();
        self.unbalanced.notify_one();
    }

    /// What is free now stays as it is until no reader of another shard is left that may have seen
    /// an earlier view: one of this shard stands for them.
    pub fn hold_for_others(self: &Rc<Self>, state: &mut State) {
        if self.peers().is_empty() || Mutation::FreesUnderOtherShards.is_planted() {
            return;
        }
        let era = state.eras.enter();
        let coordinator = self.clone();
        drop(reactor::spawn(async move {
            if coordinator.ask_all(Order::Retire).await.is_ok() {
                coordinator.shard.leave(era);
            }
        }));
        self.have_others_look();
    }
}
