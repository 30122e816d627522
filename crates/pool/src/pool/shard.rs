//! [`Shard`]: a part of an open pool on a core of its own, and how it does what the coordinator
//! tells it.

use crate::drives::array::Array;
use crate::drives::drive::Drive;
use crate::error::PoolError;
use crate::format::node::Node;
use crate::ids::{SegmentNumber, Sequence, SnapshotId, StripeId, VolumeId};
use crate::labels;
use crate::membership::unresponsive_drives::watch_silence;
use crate::mutation::Mutation;
use crate::offline::OfflineReason;
use crate::pool::volume::PoolVolume;
use crate::reporting::event::PoolEvent;
use crate::segments::shown::Shown;
use crate::segments::{SegmentState, Segments};
use crate::shard::coordinator::AtFreeze;
use crate::shard::core::{Core, Link};
use crate::shard::messages::{
    Begin, End, Frozen, MemberDrive, Order, Outbox, Report, Turnover, Usage, View, Wiring, Written,
};
use crate::shard::state::State;
use crate::volumes::Holder;
use block::{BlockDevice, IoError};
use reactor::mailbox::{Receiver, Sender};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

/// How late [`Mutation::ViewsComeLate`] has them come.
const LATE: Duration = Duration::from_millis(1);

/// Segments of a new view that are looked at before others have a turn.
const SEGMENTS_IN_A_ROW: usize = 4096;

/// A shard of a pool that another core opened. Handles may be cloned; they stay on their core.
pub struct Shard<D: BlockDevice + 'static> {
    core: Rc<Core<D>>,
    /// Handles of drives that are about to join.
    offered: Rc<RefCell<VecDeque<D>>>,
}

impl<D: BlockDevice + 'static> Clone for Shard<D> {
    fn clone(&self) -> Shard<D> {
        Shard {
            core: self.core.clone(),
            offered: self.offered.clone(),
        }
    }
}

impl<D: BlockDevice + 'static> Shard<D> {
    /// Waits until the pool is opened at the other end and takes part in it. `drives` are this
    /// core's handles of the drives that the pool is opened with, in the same order.
    pub async fn join(wiring: Wiring, drives: Vec<D>) -> Result<Shard<D>, PoolError> {
        let End::Shard {
            mut orders,
            reports,
        } = wiring.end
        else {
            return Err(PoolError::Invalid(
                "the first end of the wires opens the pool",
            ));
        };
        let Some(Order::Begin(begin, reply)) = orders.recv().await else {
            return Err(PoolError::Offline(OfflineReason::NotOpened));
        };
        let core = match assemble(*begin, drives) {
            Ok(core) => Rc::new(core),
            Err(error) => {
                let told = error.clone();
                // Who asked may have gone.
                let _ = reply.try_send(Err(error));
                return Err(told);
            }
        };
        let _ = core.link.set(Link::Away(Outbox::new(reports)));
        let shard = Shard {
            core: core.clone(),
            offered: Rc::default(),
        };
        drop(reactor::spawn(shard.clone().obey(orders)));
        drop(reactor::spawn(core.clone().write_log()));
        drop(reactor::spawn(core.clone().attend()));
        drop(reactor::spawn(watch_silence(Rc::downgrade(&core))));
        drop(reactor::spawn(pass_events_on(core)));
        let _ = reply.try_send(Ok(()));
        Ok(shard)
    }

    /// This shard's part of a volume; see [`Sliced`](crate::Sliced).
    pub fn volume(&self, id: VolumeId) -> Result<PoolVolume<D>, PoolError> {
        PoolVolume::new(self.core.clone(), Holder::Volume(id)).ok_or(PoolError::NotFound("volume"))
    }

    /// This shard's part of a snapshot.
    pub fn snapshot_device(&self, id: SnapshotId) -> Result<PoolVolume<D>, PoolError> {
        PoolVolume::new(self.core.clone(), Holder::Snapshot(id))
            .ok_or(PoolError::NotFound("snapshot"))
    }

    /// Gives this core's handle of a drive that is about to be added to the pool.
    pub fn offer_drive(&self, device: D) {
        self.offered.borrow_mut().push_back(device);
    }

    /// Takes back the handles that were offered and not taken.
    pub fn withdraw_drives(&self) {
        self.offered.borrow_mut().clear();
    }

    /// Carries out orders until the pool is closed.
    async fn obey(self, mut orders: Receiver<Order>) {
        while let Some(order) = orders.recv().await {
            if matches!(order, Order::Quit) {
                // Another host may have the pool from now on.
                self.core.array.lease.end();
                return;
            }
            match order {
                Order::View { view, nodes, reply } if !Mutation::ViewsComeLate.is_planted() => {
                    install(&self.core, view, &nodes).await;
                    // Who asked may have gone.
                    let _ = reply.try_send(());
                }
                order => self.carry_out(order),
            }
        }
        self.core.go_offline(OfflineReason::LetGo);
    }

    /// Starts what may take time in a task of its own.
    fn carry_out(&self, order: Order) {
        let core = &self.core;
        match order {
            Order::Gate(_)
            | Order::Open
            | Order::Freeze { .. }
            | Order::View { .. }
            | Order::Tables(..)
            | Order::Retire(_) => self.take_part(order),
            Order::Look => {
                core.looks.set(core.looks.get() + 1);
                core.upkeep.notify_one();
            }
            Order::Lease(until) => {
                core.array.lease.extend(until);
                core.tell_changes();
            }
            Order::Newest(content) => core.newest.set(content),
            Order::Refuse(error) => {
                let starved = core.state.borrow().queue.is_starved();
                if starved {
                    core.fail_queue(error);
                    core.work.notify_one();
                }
            }
            Order::Frugal(frugal) => core.state.borrow_mut().frugal = frugal,
            Order::Use { exactly, reply } => {
                let usage = core.take_back_unused();
                match exactly {
                    false => drop(reply.try_send(usage)),
                    true => drop(reactor::spawn(use_exactly(core.clone(), reply))),
                }
            }
            Order::Room(blocks, reply) => {
                core.state.borrow_mut().admitted.give_room(blocks);
                let _ = reply.try_send(());
            }
            Order::Offline(reason) => core.go_offline(reason),
            Order::Stop => {
                core.stopping.set(true);
                core.work.notify_one();
                core.upkeep.notify_one();
                core.array.events.close();
            }
            Order::Clean(..) | Order::Readers { .. } | Order::Move { .. } => {
                drop(reactor::spawn(take_time(core.clone(), order)))
            }
            Order::Fail(_)
            | Order::Cramped(_)
            | Order::Leaving(_)
            | Order::Place { .. }
            | Order::Remove(_) => {
                self.change_drives(order);
            }
            Order::Begin(..) | Order::Quit => {}
        }
    }

    /// Does its part in a checkpoint, or in a change of volumes.
    fn take_part(&self, order: Order) {
        let core = &self.core;
        match order {
            // Its stripes go on.
            Order::Gate(reply) if Mutation::GateIsLocal.is_planted() => {
                let _ = reply.try_send(());
            }
            Order::Open if Mutation::GateIsLocal.is_planted() => {}
            Order::Gate(reply) => {
                core.state.borrow_mut().log.close_gate();
                drop(reactor::spawn(drain(core.clone(), reply)));
            }
            Order::Open => {
                core.state.borrow_mut().log.open_gate();
                core.work.notify_one();
            }
            Order::Freeze {
                cut_off,
                seal,
                reply,
            } => {
                let _ = reply.try_send(freeze(core, &AtFreeze { cut_off, seal }));
            }
            Order::View { view, nodes, reply } if Mutation::ViewsComeLate.is_planted() => {
                let _ = reply.try_send(());
                let core = core.clone();
                drop(reactor::spawn(async move {
                    reactor::sleep(LATE).await;
                    install(&core, view, &nodes).await;
                }));
            }
            Order::Tables(_, reply) if Mutation::TablesComeNever.is_planted() => {
                let _ = reply.try_send(());
            }
            Order::Tables(tables, reply) => {
                core.state.borrow_mut().replace_tables(tables);
                let _ = reply.try_send(());
            }
            Order::Retire(reply) => {
                let mut state = core.state.borrow_mut();
                state.eras.tell_when_over(reply);
                state.release_limbo();
            }
            _ => {}
        }
    }

    /// Takes the handle of a new drive among those that were offered: it has its label by now.
    /// Another one may be there that nobody took, of a drive that did not join after all. Fails if
    /// none is it, and one does not tell.
    async fn place_offered(&self, drive: MemberDrive) -> Result<bool, IoError> {
        let offered = self.offered.take();
        let mut found = Ok(false);
        for device in offered {
            let label = labels::probe(&device).await;
            let is_it = matches!(&label, Ok(Some(label)) if label.drive.0 == drive.id);
            if is_it && found != Ok(true) {
                let made = Drive::new(device, drive.id, drive.layout);
                self.core.array.place(drive.index, Some(Rc::new(made)));
                found = Ok(true);
                continue;
            }
            if let (Ok(false), Err(PoolError::Io(error))) = (found, label) {
                found = Err(error);
            }
            self.offered.borrow_mut().push_back(device);
        }
        self.core.work.notify_one();
        found
    }

    fn change_drives(&self, order: Order) {
        let array = &self.core.array;
        match order {
            // That the membership is to know does not mean that it does: until the coordinator
            // says so when it is asked, nothing is acknowledged that the drive has missed.
            Order::Fail(index) => {
                if let Some(drive) = array.drive(index) {
                    array.fail(index, &drive);
                }
                self.core.upkeep.notify_one();
            }
            Order::Cramped(cramped) => array.cramped.set(cramped),
            Order::Leaving(drives) => drop(array.leaving.replace(drives)),
            Order::Remove(index) => array.place(index, None),
            Order::Place { drive, reply } => {
                let shard = self.clone();
                drop(reactor::spawn(async move {
                    let placed = shard.place_offered(drive).await;
                    let _ = reply.try_send(placed);
                }));
            }
            _ => {}
        }
        self.core.work.notify_one();
    }
}

/// The shard as it begins, with its own handles of the drives.
fn assemble<D: BlockDevice>(begin: Begin, drives: Vec<D>) -> Result<Core<D>, PoolError> {
    let mut drives: Vec<Option<D>> = drives.into_iter().map(Some).collect();
    let mut members: Vec<Option<Rc<Drive<D>>>> = Vec::new();
    members.resize_with(crate::level::DRIVES_MAX, || None);
    for MemberDrive {
        index,
        position,
        id,
        layout,
    } in begin.members
    {
        let device = drives.get_mut(position).and_then(Option::take);
        let device = device.ok_or(PoolError::Invalid("every core is given every drive"))?;
        members[index] = Some(Rc::new(Drive::new(device, id, layout)));
    }
    let array = Array::new(begin.level, members);
    array.serving.set(true);
    array.cramped.set(begin.cramped);
    let mut segments = Segments::default();
    let mut shown = Shown::new(begin.view.segments);
    while shown.step(SEGMENTS_IN_A_ROW) {}
    segments.replace(begin.share.shard, shown);
    let mut state = State::new(segments, begin.view.tables, begin.share, begin.sequence);
    state.take_over(begin.recovered);
    let core = Core::new(
        array,
        begin.settings,
        begin.secret,
        begin.incarnation,
        begin.width,
        begin.zone_rows,
        state,
    );
    core.newest.set(begin.newest);
    // The coordinator watches the space of the whole pool.
    core.look_at_blocks.set(u64::MAX);
    Ok(core)
}

async fn drain<D: BlockDevice + 'static>(core: Rc<Core<D>>, reply: Sender<()>) {
    core.drained().await;
    let _ = reply.try_send(());
}

/// With no room left that is not used nobody guesses anew.
async fn use_exactly<D: BlockDevice + 'static>(core: Rc<Core<D>>, reply: Sender<Usage>) {
    drop(core.outlast_guesses().await);
    let _ = reply.try_send(core.take_back_unused());
}

/// Carries out what has to read from drives.
async fn take_time<D: BlockDevice + 'static>(core: Rc<Core<D>>, order: Order) {
    match order {
        Order::Clean(number, reply) => {
            let cleaned = core.clean_one(number).await;
            core.forget_cleaning(number, cleaned.through);
            let _ = reply.try_send(cleaned);
        }
        Order::Readers(live, reply) => {
            let _reading = core.reading();
            let readers = core.readers_of(live).await;
            let _ = reply.try_send(readers);
        }
        Order::Move {
            number,
            blocks,
            reply,
        } => {
            let moved = core.move_known(number, blocks).await;
            // What cannot be moved the coordinator has found out before.
            core.state.borrow_mut().attempts.retry_all();
            let _ = reply.try_send(moved);
        }
        _ => {}
    }
}

/// Sets the updates aside; no stripe is in flight.
fn freeze<D: BlockDevice + 'static>(core: &Core<D>, orders: &AtFreeze) -> Frozen {
    let mut state = core.state.borrow_mut();
    let state = &mut *state;
    let share = state.share;
    for (layer, blocks) in &orders.cut_off {
        state.unmap(share, *layer, blocks.clone());
    }
    if orders.seal {
        state.seal_open();
    }
    core.drop_dead_segments(state);
    state.set_aside();
    let table = state.segments.table().iter();
    let own = table.filter(|(_, segment)| segment.writer == Some(share.shard));
    let written = own.map(|(number, segment)| Written {
        number: *number,
        state: segment.state,
        rows: segment.rows,
        sequence: segment.sequence,
    });
    let segments: Vec<Written> = written.collect();
    for written in &segments {
        // The coordinator knows all there is to know of it from now on.
        if written.state == SegmentState::Sealed
            && let Some(segment) = state.segments.get_mut(written.number)
        {
            segment.writer = None;
        }
    }
    Frozen {
        sequence: state.log.applied(),
        overlay: state.updates.frozen(),
        segments,
        counters: core.array.counters.get(),
    }
}

/// Puts the merged maps in place of what was set aside, and keeps those nodes of them that say
/// something of this shard's blocks. They are made ready in turns: nothing here sees them before,
/// as if they came later.
async fn install<D: BlockDevice + 'static>(core: &Core<D>, view: View, nodes: &Turnover) {
    let mut shown = Shown::new(view.segments);
    while shown.step(SEGMENTS_IN_A_ROW) {
        reactor::yield_now().await;
    }
    let merged = core.state.borrow().updates.frozen();
    let gone = merged.count_by_segment().await;
    drop(merged);
    let mut state = core.state.borrow_mut();
    let state = &mut *state;
    state.drop_frozen(&gone);
    state.replace_tables(view.tables);
    let share = state.share;
    state.segments.replace(share.shard, shown);
    state.eras.begin_next();
    let own = |node: &Node| node.level() > 0 || share.pieces(node.blocks()).next().is_some();
    let own = nodes.made.iter().filter(|(_, node)| own(node));
    let mut cache = core.cache.borrow_mut();
    cache.insert_made(own.cloned());
    cache.forget_all(&nodes.gone);
}

async fn pass_events_on<D: BlockDevice + 'static>(core: Rc<Core<D>>) {
    while let Some(event) = core.array.events.next().await {
        let concerns_all = matches!(
            event,
            PoolEvent::Drive { .. }
                | PoolEvent::BlockLost { .. }
                | PoolEvent::MoreBlocksLost { .. }
        );
        if concerns_all {
            core.report(Report::Event(event));
        }
    }
}

impl<D: BlockDevice + 'static> Core<D> {
    /// Which segments are empty, or cannot be emptied, is for the coordinator to remember. It is to
    /// hear when every stripe up to `through` is certain to count.
    fn forget_cleaning(&self, number: SegmentNumber, through: Sequence) {
        let mut state = self.state.borrow_mut();
        state.victims.settle(Default::default());
        state.attempts.retry_all();
        let through = StripeId {
            shard: state.share.shard,
            sequence: through,
        };
        state.emptied.await_own_log(number, through);
    }
}
