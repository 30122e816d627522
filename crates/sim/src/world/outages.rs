//! Outages: more drives than may be lost are not ready for reads for some seconds, and then are.
//! Requests meanwhile may be told to try again, and a pool may go offline. Nothing is lost by that,
//! and nothing is told to be.

use super::{BLOCK, Device, PATIENCE, Served, World};
use crate::drive::SimDrive;
use block::{BlockDevice, Buffer, IoError, Lba};
use pool::{PoolError, PoolState};
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

/// An outage begins within 2 to the power of so many microseconds, less one.
const BEGINS_MAX: u64 = 21;
/// It lasts less than 2 to the power of so many microseconds: eight seconds, which is less than
/// pools wait for drives.
const LASTS_MAX: u64 = 23;

/// A read is told so often at most that a drive is not ready, once the outage is over.
const READS_MAX: usize = 200;

/// What there has been of outages.
#[derive(Default)]
pub(crate) struct Outages {
    /// Drives are not ready now.
    going_on: Cell<bool>,
    /// The model's time when the last one ended.
    ended: Cell<u64>,
    /// There was one in this life.
    in_this_life: Cell<bool>,
    /// Places of the drives that the pool had when it was last seen.
    members: RefCell<BTreeSet<usize>>,
}

impl World {
    /// Drives are not ready soon, or do not get ready for a while after the start.
    pub(super) fn may_begin_outage(self: &Rc<Self>) {
        let chance = &self.outage_chance;
        if !self.options.outages || self.outages.going_on.get() || !chance.once_in(2) {
            return;
        }
        let begins = Duration::from_micros(chance.below(1 << chance.below(BEGINS_MAX)));
        let lasts = Duration::from_micros(chance.below(1 << (LASTS_MAX - chance.below(8))));
        self.note_members();
        let away = self.drives_of_an_outage();
        self.outages.going_on.set(true);
        self.outages.in_this_life.set(true);
        self.count(|report| report.outages += 1);
        let world = self.clone();
        drop(reactor::spawn(async move {
            reactor::sleep(begins).await;
            away.iter().for_each(|drive| drive.refuse_reads(true));
            reactor::sleep(lasts).await;
            away.iter().for_each(|drive| drive.refuse_reads(false));
            world.outages.ended.set(world.tick());
            world.outages.going_on.set(false);
        }));
    }

    /// More drives of the pool than may be lost, or bad ones: a pool goes on without drives that
    /// are away for some seconds, where it can. Those that are bad besides would be too many then.
    fn drives_of_an_outage(&self) -> Vec<SimDrive> {
        let (drives, bad) = (self.drives.borrow(), self.bad.borrow());
        let chosen = (0..drives.len()).filter(|_| self.outage_chance.once_in(2));
        let mut away: BTreeSet<usize> = chosen.collect();
        if !away.iter().all(|index| bad.contains(index)) {
            let members = self.outages.members.borrow();
            let mut others: Vec<usize> = (0..drives.len()).collect();
            others.sort_by_key(|index| !members.contains(index));
            away.extend(others.into_iter().take(self.lost_max + 1));
        }
        away.into_iter()
            .map(|index| drives[index].clone())
            .collect()
    }

    /// Remembers which drives the pool has.
    pub(super) fn note_members(&self) {
        if let Some(pool) = self.serving.borrow().as_ref() {
            let (ids, status) = (self.ids.borrow(), pool.status());
            let place = |id| ids.iter().position(|it| *it == Some(id));
            let members = status.drives.iter().filter_map(|drive| place(drive.id));
            self.outages.members.replace(members.collect());
        }
    }

    /// Waits until every drive is ready.
    pub(super) async fn outage_is_over(&self) {
        while self.outages.going_on.get() {
            reactor::sleep(Duration::from_millis(1)).await;
        }
    }

    /// Finds out what drives are, as far as they tell: the others are as what they were, and may
    /// have joined.
    pub(super) async fn identify(&self, drives: &[SimDrive]) {
        for (index, drive) in drives.iter().enumerate() {
            if drive.hangs() {
                continue;
            }
            match pool::probe(drive).await {
                Ok(label) => self.ids.borrow_mut()[index] = label.map(|label| label.drive),
                Err(_) if self.outages.in_this_life.get() => {
                    self.undecided.borrow_mut().insert(index);
                }
                Err(_) => {}
            }
        }
    }

    /// Opens the pool; where that fails in an outage, once more when all drives are ready. A drive
    /// with a late label may be one more to do without, beside one that answers nothing. Then the
    /// pool is opened when that one answers.
    pub(super) async fn open_in_time(
        &self,
        drives: Vec<SimDrive>,
        force: bool,
    ) -> Result<Served, String> {
        let open = || reactor::timeout(PATIENCE, self.open(drives.clone(), force));
        let mut opened = open().await;
        if opened.is_err() && self.late_label.get() {
            drives.iter().for_each(|drive| drive.hang(false));
            opened = open().await;
        }
        let opened = opened.map_err(|_| "the pool is not opened")?;
        if opened.is_ok() || !self.outages.in_this_life.get() {
            return opened;
        }
        self.outage_is_over().await;
        let opened = open().await;
        opened.map_err(|_| "the pool is not opened")?
    }

    /// Reads after an outage, as often as hosts would. The pool may do without drives since, and a
    /// bad one of the others may not be ready for some requests.
    pub(super) async fn read_in_time(
        &self,
        device: &Device,
        at: Lba,
        blocks: u64,
    ) -> (Buffer, Result<(), IoError>) {
        let mut reads = 1;
        loop {
            let buffer = Buffer::new(blocks as usize * BLOCK);
            let (buffer, result) = device.read(at, buffer).await;
            let waits = result == Err(IoError::NotReady) && self.outages.in_this_life.get();
            if !waits || reads == READS_MAX {
                return (buffer, result);
            }
            reads += 1;
            reactor::sleep(Duration::from_millis(10)).await;
        }
    }

    /// A life begins: its drives are ready.
    pub(super) fn end_outage(&self) {
        let drives = self.drives.borrow();
        drives.iter().for_each(|drive| drive.refuse_reads(false));
        self.outages.going_on.set(false);
        self.outages.in_this_life.set(false);
    }

    /// Since a time of the model drives were not ready.
    fn were_away_since(&self, begun: u64) -> bool {
        self.options.outages && (self.outages.going_on.get() || self.outages.ended.get() > begun)
    }

    /// A request that began at a time of the model was told to try again, as it may be.
    pub(super) fn may_be_told_to_wait(&self, error: IoError, begun: u64) -> bool {
        error == IoError::NotReady && self.were_away_since(begun)
    }

    /// The same of a change.
    pub(super) fn change_may_be_told_to_wait(&self, error: &PoolError, begun: u64) -> bool {
        let says_so = matches!(error, PoolError::Io(IoError::NotReady));
        says_so && self.were_away_since(begun)
    }

    /// The pool is offline, as drives were away for too long.
    pub(super) fn outage_ended_it(&self) -> bool {
        let offline = |pool: &Served| pool.status().state == PoolState::Offline;
        self.outages.in_this_life.get() && self.serving.borrow().as_ref().is_some_and(offline)
    }
}
