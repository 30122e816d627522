//! [`Pool`]: opened and closed.

pub(crate) mod accounting;
pub(crate) mod create;
pub(crate) mod drive_changes;
pub(crate) mod extents;
pub(crate) mod in_use;
pub(crate) mod shard;
pub(crate) mod sliced;
pub(crate) mod status;
pub(crate) mod tables;
pub(crate) mod volume;
pub(crate) mod volume_operations;

use crate::checkpoint::Resume;
use crate::drives::array::Array;
use crate::drives::drive::Drive;
use crate::drives::lease::{LEASE, QUARANTINE};
use crate::error::PoolError;
use crate::error::label::DamagedLabel;
use crate::format::body::Body;
use crate::format::drive_layout::zones;
use crate::format::encoded::{Encoded, WrittenTables};
use crate::format::superblock::{MEMBER_ACTIVE, Superblock, VERSION};
use crate::ids::{DriveId, Incarnation, SegmentNumber, Sequence, ShardId};
use crate::join::join_all;
use crate::labels;
use crate::labels::quorum::is_damaged;
use crate::labels::slots::{ANSWERS_WITHIN, Slot, bring_up};
use crate::level::{DRIVES_MAX, Level};
use crate::location::ATOMIC_BLOCKS;
use crate::map::overlay::Overlay;
use crate::membership::entry;
use crate::membership::survey::Survey;
use crate::membership::unresponsive_drives::watch_silence;
use crate::mutation::Mutation;
use crate::offline::OfflineReason;
use crate::options::{OpenOptions, Settings};
use crate::recovery::Before;
use crate::reporting::event::DriveChange;
use crate::reporting::lost::ScrubReport;
use crate::segments::slices::Share;
use crate::segments::{Kind, SegmentState, Segments};
use crate::shard::coordinator::{Coordinator, Published};
use crate::shard::core::{Core, Link};
use crate::shard::idle_merge::IdleMerge;
use crate::shard::messages::{End, Order, Wiring, wire};
use crate::shard::own_map::OwnMap;
use crate::shard::retries::Retries;
use crate::shard::state::State;
use crate::shard::table_room::updates_worth_tables;
use block::BlockDevice;
use reactor::Instant;
use reactor::sync::{Mutex, Notify};
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;

/// An open pool; a handle that may be cloned. Must be closed: its tasks hold it open.
pub struct Pool<D: BlockDevice + 'static> {
    pub(crate) coordinator: Rc<Coordinator<D>>,
}

impl<D: BlockDevice + 'static> Clone for Pool<D> {
    fn clone(&self) -> Pool<D> {
        Pool {
            coordinator: self.coordinator.clone(),
        }
    }
}

impl<D: BlockDevice + 'static> Pool<D> {
    /// Opens the pool that the drives carry; they may come in any order. Nothing is written
    /// before it is certain that this is the pool's newest state.
    pub async fn open(drives: Vec<D>, options: OpenOptions) -> Result<Pool<D>, PoolError> {
        Pool::open_on(alone(), drives, options).await
    }

    /// As [`open`](Pool::open), with the shards that join at the other ends of the wires. Each has
    /// every so many-th slice of every volume; see [`Sliced`](crate::Sliced).
    pub async fn open_on(
        wiring: Wiring,
        drives: Vec<D>,
        options: OpenOptions,
    ) -> Result<Pool<D>, PoolError> {
        Pool::open_found(wiring, drives, options, false).await
    }

    /// `made`: the pool was made just now, by this process.
    pub(crate) async fn open_found(
        wiring: Wiring,
        drives: Vec<D>,
        options: OpenOptions,
        made: bool,
    ) -> Result<Pool<D>, PoolError> {
        let End::Coordinator { orders, reports } = wiring.end else {
            return Err(PoolError::Invalid(
                "the first end of the wires opens the pool",
            ));
        };
        let share = first_share(&options.settings, orders.len() as u64)?;
        let claim = options.entropy.word()?;
        let entered = Box::pin(entry::enter(&drives, &options, claim)).await?;
        let Survey {
            slots,
            damaged,
            choice,
            newest,
            ..
        } = entered.survey;
        let entry = Entry {
            claim,
            opened_at: entered.survey.last_sequence,
            found_at: entered.found_at,
            forced: entered.forced,
            late_until: match made {
                true => entered.looked,
                false => entered.late_until,
            },
            former_claim: entered.former_claim,
            lease_until: entered.looked + LEASE,
            damaged,
        };
        let body = newest.tables().await?;
        entry::check_fresh(&newest, entered.looked)?;
        let given = drives.into_iter().zip(&slots).zip(&choice.current);
        let (members, positions) = bring_up_all(given, &newest).await;
        let before = Before {
            accept_loss: options.accept_loss,
            content: newest.superblock.content(),
            lost: entered.lost,
            slice_blocks: u64::from(body.slice_blocks),
            sequences: body.sequences.clone(),
            decided: body.decided.clone(),
        };
        let coordinator = assemble(members, newest, body, share, options, entry)?;
        coordinator.hold_pool();
        drop(reactor::spawn(watch_silence(Rc::downgrade(
            &coordinator.shard,
        ))));
        tell_labels(
            &coordinator.shard.array,
            (&slots, &choice.current),
            &entered.halved,
        );
        let recovered = coordinator.start(before).await?;
        let others = coordinator.begin_others(orders, reports, &positions, recovered);
        others.await?;
        coordinator.fill_both_slots().await?;
        // Another host with this one's name may have opened it just as well.
        coordinator.verify().await?;
        coordinator.tell_lease();
        coordinator.serve();
        Ok(Pool { coordinator })
    }

    /// Does something as a whole, in a task of its own, whoever gives up waiting for it. Half of
    /// a change would be in memory and not on the drives, or on some of them.
    pub(crate) async fn wholly<T, F>(&self, work: impl FnOnce(Pool<D>) -> F) -> T
    where
        T: 'static,
        F: Future<Output = T> + 'static,
    {
        match Mutation::LeavesChangesHalf.is_planted() {
            true => work(self.clone()).await,
            false => reactor::spawn(work(self.clone())).await,
        }
    }

    /// Takes a checkpoint as a whole.
    pub(crate) async fn checkpoint_wholly<T: 'static>(
        &self,
        resume: Resume,
        change: impl FnOnce(&mut State) -> Result<T, PoolError> + 'static,
    ) -> Result<T, PoolError> {
        let checkpoint =
            async move |pool: Pool<D>| pool.coordinator.checkpoint_with(resume, change).await;
        self.wholly(checkpoint).await
    }

    /// Puts the map in order and stops. The pool opens quickly the next time.
    pub async fn close(&self) -> Result<(), PoolError> {
        self.wholly(async |pool: Pool<D>| pool.close_now().await)
            .await
    }

    async fn close_now(&self) -> Result<(), PoolError> {
        let coordinator = &self.coordinator;
        coordinator.shard.stopping.set(true);
        coordinator.tell_all(|| Order::Stop);
        coordinator.shard.work.notify_one();
        let result = coordinator
            .checkpoint_with(Resume::AtFreeze, |_| Ok(()))
            .await;
        coordinator.shard.upkeep.notify_one();
        coordinator.shard.array.events.close();
        coordinator.tell_all(|| Order::Quit);
        coordinator.shard.array.lease.end();
        result
    }

    /// Closes the pool and lets go of it, so that any host may open it.
    pub async fn export(&self) -> Result<(), PoolError> {
        self.coordinator.holder.set([0; 16]);
        self.close().await
    }

    /// Closes the pool and makes its drives forget it.
    pub async fn destroy(self) -> Result<(), PoolError> {
        self.wholly(async |pool: Pool<D>| {
            pool.close_now().await?;
            for (_, drive) in pool.coordinator.shard.array.live() {
                labels::wipe(drive.device()).await?;
            }
            pool.coordinator.shard.go_offline(OfflineReason::Destroyed);
            Ok(())
        })
        .await
    }

    /// Writes the map down now.
    pub async fn checkpoint(&self) -> Result<(), PoolError> {
        self.checkpoint_wholly(Resume::AtFreeze, |_| Ok(())).await
    }

    /// Calls the pool otherwise from now on, on its drives.
    pub async fn rename(&self, name: &str) -> Result<(), PoolError> {
        let mut named = self.coordinator.published.borrow().superblock.clone();
        named.set_name(name).map_err(PoolError::Invalid)?;
        let rename = move |next: &mut Superblock| next.name = named.name;
        self.wholly(async move |pool: Pool<D>| pool.coordinator.publish(Some(rename), None).await)
            .await
    }

    /// Takes a drive out of use for good, if the pool can go on without it.
    pub async fn fail_drive(&self, id: DriveId) -> Result<(), PoolError> {
        let live = self.coordinator.shard.array.live();
        let (index, drive) = live
            .iter()
            .find(|(_, drive)| drive.id == id.0)
            .ok_or(PoolError::NotFound("drive"))?;
        let (lacking, lost_max) = self.coordinator.lacking_members();
        if lacking >= lost_max {
            return Err(PoolError::Indispensable { lacking, lost_max });
        }
        self.coordinator.shard.array.fail(*index, drive);
        self.wholly(async |pool: Pool<D>| pool.coordinator.shard.settle_membership().await)
            .await?;
        self.coordinator.shard.upkeep.notify_one();
        Ok(())
    }

    /// Checks every stripe and every node of the map, and repairs what redundancy allows. Gives
    /// way to hosts.
    ///
    /// # Errors
    /// [`PoolError::ScrubStopped`] after [`stop_scrub`](Pool::stop_scrub) or when the pool closes.
    pub async fn scrub(&self) -> Result<ScrubReport, PoolError> {
        // What it repairs is not to be under way when the segment has become another.
        self.wholly(async |pool: Pool<D>| pool.coordinator.scrub().await)
            .await
    }

    /// Ends a scrub that is under way: what it has repaired stays so, and the next one begins
    /// anew.
    pub fn stop_scrub(&self) {
        self.coordinator.scrub_unwanted.set(true);
    }
}

/// The part of the first shard, of a pool that has `others` besides.
fn first_share(settings: &Settings, others: u64) -> Result<Share, PoolError> {
    let slice_blocks = u64::from(settings.slice_blocks);
    if slice_blocks == 0 || !slice_blocks.is_multiple_of(ATOMIC_BLOCKS) {
        return Err(PoolError::Invalid("a slice is a multiple of 16 blocks"));
    }
    Ok(Share {
        slice_blocks,
        shards: 1 + others,
        shard: ShardId::FIRST,
    })
}

/// Where superblocks are lost there may have been so many openings of which none is left to tell:
/// what they wrote is not to be taken for what is written from now on.
const INCARNATIONS_APART: u64 = 1 << 20;

/// How a host came by the pool.
struct Entry {
    /// Tells this opening from every other.
    claim: u64,
    opened_at: u64,
    found_at: u64,
    /// Of the newest superblock, which tells the last opening.
    former_claim: Option<u64>,
    /// Another host has held it.
    forced: bool,
    late_until: Instant,
    lease_until: Instant,
    /// Labels of drives that are there and of which none is whole.
    damaged: Vec<DamagedLabel>,
}

/// Tells of drives that are there but missed what the others know, and of those that had only one
/// label.
fn tell_labels<D: BlockDevice>(
    array: &Array<D>,
    (slots, current): (&[Option<Box<Slot>>], &[Option<usize>]),
    halved: &[(usize, [u8; 16])],
) {
    for (index, id) in halved {
        array.tell(*index, *id, DriveChange::LabelMended);
    }
    let stale = slots.iter().zip(current);
    for (slot, _) in stale.filter(|(_, index)| index.is_none()) {
        if let Some(slot) = slot {
            let superblock = &slot.superblock;
            let index = usize::from(superblock.drive_index);
            array.tell(index, superblock.drive_id, DriveChange::Stale);
        }
    }
}

/// The members at their places, and where each was among the drives that were given.
type Members<D> = (Vec<Option<Rc<Drive<D>>>>, Vec<(usize, usize)>);

/// Brings every current drive up to the newest superblock. One that refuses, or does not answer, is
/// as good as absent.
async fn bring_up_all<'a, D: BlockDevice>(
    given: impl Iterator<Item = ((D, &'a Option<Box<Slot>>), &'a Option<usize>)>,
    newest: &Slot,
) -> Members<D> {
    let brought = given
        .enumerate()
        .map(|(position, ((device, slot), index))| async move {
            let (slot, index) = (slot.as_ref()?, (*index)?);
            let written = bring_up(&device, index, slot, newest);
            let written = reactor::timeout(ANSWERS_WITHIN, written).await;
            written.is_ok_and(|written| written.is_ok()).then(|| {
                let drive = Drive::new(device, slot.superblock.drive_id, slot.layout());
                (index, position, Rc::new(drive))
            })
        });
    let mut members: Vec<Option<Rc<Drive<D>>>> = Vec::new();
    members.resize_with(DRIVES_MAX, || None);
    let mut positions = Vec::new();
    for (index, position, drive) in join_all(brought).await.into_iter().flatten() {
        members[index] = Some(drive);
        positions.push((index, position));
    }
    (members, positions)
}

/// What this opening publishes is of this version of the format, and so are the tables.
fn as_of_now(newest: Slot, body: Body, claim: u64) -> Published {
    let mut superblock = newest.superblock;
    superblock.claim = claim.into();
    superblock.content = superblock.content().into();
    let encoded = match superblock.version.get() {
        VERSION => newest.body,
        _ => Encoded::new(body.encode()),
    };
    superblock.version = VERSION.into();
    let tables = Rc::new(WrittenTables { body, encoded });
    Published { superblock, tables }
}

/// The settings of a pool whose tables are as large as those of this one.
fn settings_for(superblock: &Superblock, level: Level, mut settings: Settings) -> Settings {
    let wide = level.shape(usize::from(superblock.width));
    let zones = zones(superblock);
    let drives = zones.iter().filter(|zones| **zones > 0).count() as u64;
    let zones = zones.into_iter().map(u64::from).sum();
    let worth = updates_worth_tables(wide, zones, drives);
    settings.checkpoint_updates = settings.checkpoint_updates.max(worth);
    settings
}

fn assemble<D: BlockDevice + 'static>(
    members: Vec<Option<Rc<Drive<D>>>>,
    newest: Slot,
    body: Body,
    share: Share,
    options: OpenOptions,
    entry: Entry,
) -> Result<Rc<Coordinator<D>>, PoolError> {
    let published = as_of_now(newest, body.clone(), entry.claim);
    let superblock = &published.superblock;
    let level = Level::from_code(superblock.level).ok_or(PoolError::Damaged("superblock"))?;
    let array = Array::new(level, members);
    let label_damaged = note_absent(&array, superblock, &entry.damaged);
    array.lease.extend(entry.lease_until);
    let (map_nodes, quarantined) = (body.map_nodes, still_written(&body, entry.forced));
    let segments = Segments::new(&zones(superblock), body.segments, body.next_generation);
    let mut state = State::new(segments, body.tables, share, Sequence::NONE);
    state.quarantined = quarantined;
    hold_while_late(&mut state, superblock, entry.late_until);
    let shard = Rc::new(Core::new(
        array,
        settings_for(superblock, level, options.settings),
        superblock.secret,
        Incarnation::new(superblock.incarnation.get()),
        usize::from(superblock.width),
        superblock.zone_blocks.get(),
        state,
    ));
    Ok(Rc::new_cyclic(|this| {
        let _ = shard.link.set(Link::Home(this.clone()));
        Coordinator {
            shard,
            entropy: options.entropy,
            published: RefCell::new(published),
            publishing: Mutex::new(()),
            upkeep_lock: Mutex::new(()),
            holder: Cell::new(options.host.0),
            alerts: Default::default(),
            peers: OnceCell::new(),
            room_lock: Mutex::new(()),
            joining_lock: Mutex::new(()),
            changes_lock: Mutex::new(()),
            room_due: Cell::new(true),
            unbalanced: Notify::new(),
            unmovable: RefCell::default(),
            cleaning: Cell::new(None),
            others_dirty: Cell::new(false),
            live_nodes: RefCell::default(),
            scrub_unwanted: Cell::new(false),
            changes_memory: RefCell::default(),
            merged_before: Cell::new(0),
            towards: Cell::new(None),
            unneeded: Notify::new(),
            nodes_lost: Cell::new(false),
            merge_due: Cell::new(false),
            own_map: OwnMap::of(map_nodes),
            vacated: RefCell::default(),
            at_freeze: RefCell::default(),
            retries: Retries::default(),
            idle_merge: IdleMerge::default(),
            opened_at: entry.opened_at,
            found_at: entry.found_at,
            former_claim: entry.former_claim,
            label_damaged,
            intruder: Cell::new(None),
            late_until: entry.late_until,
            quarantine_until: Cell::new(reactor::now() + QUARANTINE),
        }
    }))
}

/// Keeps apart what is set apart, and has no other zone used before that time.
fn hold_while_late(state: &mut State, superblock: &Superblock, until: Instant) {
    let zones = state.segments.zones_mut();
    zones.keep_apart(&superblock.apart());
    if reactor::now() < until {
        zones.hold();
    }
}

/// Has the membership know of members that do not count; returns those of which a damaged label is
/// there.
fn note_absent<D: BlockDevice>(
    array: &Array<D>,
    superblock: &Superblock,
    damaged: &[DamagedLabel],
) -> BTreeSet<usize> {
    let members = superblock.members.iter().enumerate();
    let absent =
        members.filter(|(index, member)| member.state == MEMBER_ACTIVE && !array.is_live(*index));
    let absent: Vec<usize> = absent.map(|(index, _)| index).collect();
    let is_there = |index: &&usize| {
        let mut labels = damaged.iter();
        labels.any(|label| is_damaged(superblock, **index, label))
    };
    let there = absent.iter().filter(is_there).copied().collect();
    array.newly_failed.replace(absent);
    there
}

/// Segments that a last holder who was not asked may still write to.
fn still_written(body: &Body, forced: bool) -> BTreeSet<SegmentNumber> {
    let forced = forced && !Mutation::UsesWhatAnotherWrites.is_planted();
    let segments = body.segments.iter();
    let open = segments.filter(|(_, segment)| forced && segment.state != SegmentState::Sealed);
    open.map(|(number, _)| *number).collect()
}

/// The wires of a pool of one shard.
pub(crate) fn alone() -> Wiring {
    wire(1).swap_remove(0)
}

impl<D: BlockDevice + 'static> Coordinator<D> {
    /// Recovers and makes the decisions last. Returns what the other shards are to begin with: the
    /// updates are merged while the pool serves, so what is mapped does not delay it. Only what a
    /// recovery found that was not followed by a merge is merged before.
    async fn start(self: &Rc<Self>, before: Before) -> Result<VecDeque<Overlay>, PoolError> {
        let again = before.decided.is_some();
        self.shard.newest.set(before.content);
        // Without zones nothing can be merged, but that can be left for later.
        let held = self.shard.state.borrow().segments.zones().are_held();
        self.free_dead();
        let decided = self.shard.recover(before).await?;
        let apart = decided.lost.map_or(1, |_| INCARNATIONS_APART);
        let next = self.shard.incarnation.get().later_by(apart);
        self.shard.incarnation.set(next);
        if let Some(lost) = decided.lost {
            self.published.borrow_mut().superblock.go_beyond(lost);
        }
        let decided = decided.log;
        self.seal_map();
        let mut dealt = VecDeque::new();
        if again || self.shard.state.borrow().updates.latest().is_empty() && !held {
            self.checkpoint_with(Resume::AtFreeze, |_| Ok(())).await?;
        } else {
            self.announce_decided(decided).await?;
            let mut state = self.shard.state.borrow_mut();
            dealt = state.deal_recovered();
            let own = dealt.pop_front().unwrap_or_default();
            state.take_over(own);
            self.others_dirty.set(!dealt.is_empty());
        }
        self.shard.array.serving.set(true);
        self.watch_state();
        Ok(dealt)
    }

    /// Frees what the tables, which every drive has by now, have nothing in. The last host may not
    /// have come to it, and each opening begins a segment for the map: after a few of them in a
    /// pool that is all but full there would be none left for it. Where another host may still
    /// write, that waits for the first checkpoint.
    fn free_dead(&self) {
        let mut state = self.shard.state.borrow_mut();
        if !state.quarantined.is_empty() {
            return;
        }
        let table = state.segments.table().iter();
        let dead = table.filter(|(_, it)| it.state == SegmentState::Sealed && it.live() == 0);
        let dead: BTreeSet<SegmentNumber> = dead.map(|(number, _)| *number).collect();
        state.segments.release(&dead);
        // Nobody has the time to let the drives forget them: they are written again soon.
        state.segments.zones_mut().all_discarded();
    }

    /// Behind its last row the map's segment may hold nodes that were never published.
    fn seal_map(&self) {
        let mut state = self.shard.state.borrow_mut();
        let open = state.segments.numbers(Kind::Map, SegmentState::Open);
        let open: Vec<SegmentNumber> = open.collect();
        for number in open {
            if let Some(segment) = state.segments.get_mut(number) {
                segment.state = SegmentState::Sealed;
            }
        }
    }

    /// Starts the pool's tasks.
    fn serve(self: &Rc<Self>) {
        drop(reactor::spawn(self.shard.clone().write_log()));
        drop(reactor::spawn(self.clone().keep_up()));
        drop(reactor::spawn(self.clone().keep_balance()));
        drop(reactor::spawn(self.clone().keep_removing()));
        self.shard.upkeep.notify_one();
    }
}
