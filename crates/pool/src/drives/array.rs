//! The drives of a pool as columns and rows: reading with reconstruction and repair, writing.

use crate::drives::drive::Drive;
use crate::drives::health::Kind;
use crate::drives::lease::Lease;
use crate::drives::redundancy;
use crate::join::join_all;
use crate::level::{Level, Shape};
use crate::location::{BLOCK_BYTES, Entry};
use crate::mutation::Mutation;
use crate::reporting::event::Events;
use crate::reporting::status::Counters;
use crate::segments::zones::Zone;
use block::{BlockDevice, Buffer, Durability, IoError};
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;

/// A block cannot be rebuilt if so many reads of the rest of its row say so.
const READS_OF_LOST: usize = 2;

/// The member drives, by their index in the member list.
pub(crate) struct Array<D> {
    drives: RefCell<Vec<Option<Rc<Drive<D>>>>>,
    pub level: Level,
    /// Those that work, by the bits of their indices: every write asks.
    working: Cell<u32>,
    /// How often a drive was put in place or taken away.
    pub changes: Cell<u64>,
    pub counters: Cell<Counters>,
    pub events: Events,
    /// Recovery is over: what is found wrong from now on is a drive's fault.
    pub serving: Cell<bool>,
    /// Drives that failed a request and are not yet out of the membership.
    pub newly_failed: RefCell<Vec<usize>>,
    /// Drives that are being emptied so that they can be removed.
    pub leaving: RefCell<BTreeSet<usize>>,
    /// Drives are gone, and what the pool holds has no room in segments that lack none: new ones
    /// are of this width, and lack those drives too.
    pub cramped: Cell<Option<usize>>,
    /// This core's leave to write.
    pub lease: Lease,
}

impl<D: BlockDevice> Array<D> {
    pub fn new(level: Level, drives: Vec<Option<Rc<Drive<D>>>>) -> Array<D> {
        let is_there = drives
            .iter()
            .enumerate()
            .filter(|(_, drive)| drive.is_some());
        let working = is_there.fold(0, |mask, (index, _)| mask | 1 << index);
        Array {
            drives: RefCell::new(drives),
            level,
            working: Cell::new(working),
            changes: Cell::new(0),
            counters: Cell::default(),
            events: Events::default(),
            serving: Cell::new(false),
            newly_failed: RefCell::default(),
            leaving: RefCell::default(),
            cramped: Cell::new(None),
            lease: Lease::default(),
        }
    }

    pub fn count(&self, change: impl FnOnce(&mut Counters)) {
        let mut counters = self.counters.get();
        change(&mut counters);
        self.counters.set(counters);
    }

    pub fn drive(&self, index: usize) -> Option<Rc<Drive<D>>> {
        let drives = self.drives.borrow();
        drives
            .get(index)?
            .as_ref()
            .filter(|drive| !drive.is_failed())
            .cloned()
    }

    pub fn is_live(&self, index: usize) -> bool {
        let drives = self.drives.borrow();
        drives
            .get(index)
            .and_then(Option::as_ref)
            .is_some_and(|drive| !drive.is_failed())
    }

    /// True when there is a drive at `index`, be it a failed one.
    pub fn is_placed(&self, index: usize) -> bool {
        self.drives.borrow().get(index).is_some_and(Option::is_some)
    }

    /// True when new segments may use the drive.
    pub fn takes_data(&self, index: usize) -> bool {
        self.is_live(index) && !self.leaving.borrow().contains(&index)
    }

    /// The drives that take data, each as the bit of its index.
    pub fn taking_mask(&self) -> u32 {
        let leaving = self.leaving.borrow();
        let leave = |mask: u32, index: &usize| mask & !(1 << index);
        leaving.iter().fold(self.working.get(), leave)
    }

    /// How many drives take data.
    pub fn taking(&self) -> usize {
        self.taking_mask().count_ones() as usize
    }

    /// Puts a drive at `index`, or nothing.
    pub fn place(&self, index: usize, drive: Option<Rc<Drive<D>>>) {
        self.changes.set(self.changes.get() + 1);
        if let Some(place) = self.drives.borrow_mut().get_mut(index) {
            let works = drive.as_ref().is_some_and(|drive| !drive.is_failed());
            let others = self.working.get() & !(1 << index);
            self.working.set(others | u32::from(works) << index);
            *place = drive;
        }
        self.newly_failed
            .borrow_mut()
            .retain(|failed| *failed != index);
        self.leaving.borrow_mut().remove(&index);
    }

    /// Every drive that works, with its index.
    pub fn live(&self) -> Vec<(usize, Rc<Drive<D>>)> {
        let drives = self.drives.borrow();
        let present = drives.iter().enumerate();
        present
            .filter_map(|(index, drive)| Some((index, drive.clone()?)))
            .filter(|(_, drive)| !drive.is_failed())
            .collect()
    }

    pub fn slots(&self) -> usize {
        self.drives.borrow().len()
    }

    /// Takes a drive out of use; the membership follows before anything is acknowledged. `drive`
    /// is the one that failed a request: another may have its place by now.
    pub fn fail(&self, index: usize, drive: &Rc<Drive<D>>) {
        let drives = self.drives.borrow();
        let placed = drives.get(index).and_then(Option::as_ref);
        if drive.fail() && placed.is_some_and(|placed| Rc::ptr_eq(placed, drive)) {
            self.working.set(self.working.get() & !(1 << index));
            self.newly_failed.borrow_mut().push(index);
        }
    }

    /// As [`fail`](Array::fail), of the member `id` if it is at `index`: of which another core's
    /// handle has failed.
    pub fn fail_member(&self, index: usize, id: [u8; 16]) {
        let drive = self.drive(index);
        if let Some(drive) = drive.filter(|drive| drive.id == id) {
            self.fail(index, &drive);
        }
    }

    /// The members among `indices`, failed or not.
    pub fn members(&self, indices: &[usize]) -> Vec<(usize, [u8; 16])> {
        let drives = self.drives.borrow();
        let member = |index: &usize| Some((*index, drives.get(*index)?.as_ref()?.id));
        indices.iter().filter_map(member).collect()
    }

    pub fn shape(&self, columns: usize) -> Shape {
        self.level.shape(columns)
    }

    /// Reads consecutive rows of one zone, without any check.
    pub async fn read_zone(
        &self,
        zone: Option<Zone>,
        row: u32,
        buffer: Buffer,
    ) -> (Buffer, Result<(), IoError>) {
        let found = zone.and_then(|zone| Some((zone, self.drive(usize::from(zone.drive))?)));
        let Some((zone, drive)) = found else {
            return (buffer, Err(IoError::DeviceGone));
        };
        if !drive.has_rows(zone.index, row, buffer.len()) {
            // A map may name any place: there is nothing behind a zone's end.
            return (buffer, Err(IoError::UnrecoveredRead));
        }
        let start = drive.zone_start(zone.index) + u64::from(row);
        let begun = reactor::turn_started();
        let (buffer, result) = drive.read(start, buffer).await;
        let index = usize::from(zone.drive);
        match result {
            Ok(()) => self.measured(index, &drive, Kind::Read, begun),
            Err(IoError::DeviceGone) => self.fail(index, &drive),
            Err(_) => self.read_failed(index, &drive),
        }
        (buffer, result)
    }

    /// Writes consecutive rows of one zone, from buffers that follow each other. A drive that
    /// refuses is out.
    pub async fn write_zone(
        &self,
        zone: Zone,
        row: u32,
        buffers: Vec<Buffer>,
        durability: Durability,
    ) -> (Vec<Buffer>, Result<(), IoError>) {
        let Some(drive) = self.drive(usize::from(zone.drive)) else {
            return (buffers, Err(IoError::DeviceGone));
        };
        let bytes = buffers.iter().map(|buffer| buffer.len()).sum();
        if !drive.has_rows(zone.index, row, bytes) {
            return (buffers, Err(IoError::OutOfRange));
        }
        // Nothing may wait between this and the drive.
        if let Err(error) = self.lease.hold().await {
            return (buffers, Err(error));
        }
        let start = drive.zone_start(zone.index) + u64::from(row);
        let begun = reactor::turn_started();
        let (buffers, result) = drive.write(start, buffers, durability).await;
        match result {
            Ok(()) => self.measured(usize::from(zone.drive), &drive, Kind::Write, begun),
            Err(_) => self.fail(usize::from(zone.drive), &drive),
        }
        (buffers, result)
    }

    /// Writes to each column that has a zone its buffers, all from `row` on. Fails only if what is
    /// left could not be read back. The buffers come back as they were given.
    pub async fn write_columns(
        &self,
        columns: &[Option<Zone>],
        row: u32,
        buffers: Vec<Vec<Buffer>>,
        durability: Durability,
    ) -> (Vec<Vec<Buffer>>, Result<(), IoError>) {
        let early = Mutation::AnswersBeforeOneFlush.is_planted();
        let writes =
            columns
                .iter()
                .zip(buffers)
                .enumerate()
                .map(|(column, (zone, buffers))| async move {
                    let durability = match early && column == 0 {
                        true => Durability::Cached,
                        false => durability,
                    };
                    match zone {
                        Some(zone) => self.write_zone(*zone, row, buffers, durability).await,
                        None => (buffers, Err(IoError::DeviceGone)),
                    }
                });
        let (buffers, written): (Vec<_>, Vec<_>) = join_all(writes).await.into_iter().unzip();
        let survives = self
            .shape(columns.len())
            .survives(|column| written[column].is_err());
        match survives {
            true => (buffers, Ok(())),
            false => (buffers, Err(IoError::WriteFault)),
        }
    }

    /// Reads one block and checks it; if it is bad or gone, rebuilds it from its row and, where
    /// its drive still works, writes it back.
    pub async fn read_block(
        &self,
        columns: &[Option<Zone>],
        entry: Entry,
        buffer: Buffer,
    ) -> (Buffer, Result<(), IoError>) {
        match self.read_own(columns, entry, buffer).await {
            (buffer, Ok(())) => (buffer, Ok(())),
            (buffer, Err(own)) => self.rescue_block(columns, entry, buffer, own).await,
        }
    }

    /// Reads one block where it is; [`IoError::UnrecoveredRead`] if it is other than it was.
    pub async fn read_own(
        &self,
        columns: &[Option<Zone>],
        entry: Entry,
        buffer: Buffer,
    ) -> (Buffer, Result<(), IoError>) {
        let zone = columns.get(usize::from(entry.at.column)).copied().flatten();
        let (buffer, result) = self.read_zone(zone, entry.at.row, buffer).await;
        if result.is_ok() && crc_fast::crc32_iscsi(&buffer) != entry.crc {
            self.corrupt_in(zone);
            return (buffer, Err(IoError::UnrecoveredRead));
        }
        (buffer, result)
    }

    /// As [`read_block`](Array::read_block), for a block that could not be read where it is, for
    /// the reason `own`.
    ///
    /// Fails with [`IoError::UnrecoveredRead`] if it is lost: every drive that could help has said
    /// for good that it cannot, or is out of use. With [`IoError::NotReady`] if one may yet help.
    pub async fn rescue_block(
        &self,
        columns: &[Option<Zone>],
        entry: Entry,
        mut buffer: Buffer,
        own: IoError,
    ) -> (Buffer, Result<(), IoError>) {
        let unchecked = Mutation::RebuildsUnchecked.is_planted();
        let valid = |block: &[u8]| unchecked || crc_fast::crc32_iscsi(block) == entry.crc;
        let column = usize::from(entry.at.column);
        let found = match self
            .rebuild(columns, column, entry.at.row, Err(own), &valid)
            .await
        {
            Ok(found) => found,
            Err(error) => {
                // What came wrong once, on its way from the drive, may come right the next time.
                let zone = columns.get(column).copied().flatten();
                let (again, read) = self.read_zone(zone, entry.at.row, buffer).await;
                let believes = Mutation::BelievesOneRead.is_planted();
                if read.is_ok() && valid(&again) && !believes {
                    return (again, Ok(()));
                }
                self.count(|counters| counters.unrecovered_reads += 1);
                return (again, Err(error));
            }
        };
        buffer.copy_from_slice(&found);
        if let Some(zone) = columns[column]
            && self.is_live(usize::from(zone.drive))
        {
            let (_, result) = self
                .write_zone(zone, entry.at.row, vec![found], Durability::Durable)
                .await;
            self.count(|counters| counters.repaired_blocks += u64::from(result.is_ok()));
        }
        (buffer, Ok(()))
    }

    /// A block of a zone came back other than it was written.
    pub fn corrupt_in(&self, zone: Option<Zone>) {
        if let Some(zone) = zone {
            self.corrupt(usize::from(zone.drive), 1);
        }
    }

    /// Rebuilds one block from the other columns of its row. `own` is how its own read ended.
    ///
    /// Fails with [`IoError::UnrecoveredRead`] if it is lost, or with [`IoError::NotReady`] if a
    /// drive that could not be read may yet help.
    pub async fn rebuild(
        &self,
        columns: &[Option<Zone>],
        column: usize,
        row: u32,
        own: Result<(), IoError>,
        valid: &dyn Fn(&[u8]) -> bool,
    ) -> Result<Buffer, IoError> {
        if column >= columns.len() {
            return Err(IoError::UnrecoveredRead);
        }
        let shape = self.shape(columns.len());
        let mut error = IoError::UnrecoveredRead;
        // What another drive brought wrong once must not make this block a lost one.
        let times = match Mutation::BelievesOneRead.is_planted() {
            true => 1,
            false => READS_OF_LOST,
        };
        for _ in 0..times {
            let reads = columns.iter().enumerate().map(|(other, zone)| async move {
                if other == column {
                    return Err(IoError::UnrecoveredRead);
                }
                let (buffer, result) = self.read_zone(*zone, row, Buffer::new(BLOCK_BYTES)).await;
                result.map(|()| buffer)
            });
            let reads = join_all(reads).await;
            let blocks: Vec<Option<&[u8]>> = reads.iter().map(|it| it.as_deref().ok()).collect();
            if let Some(rebuilt) = redundancy::rebuild(shape, &blocks, column, valid) {
                return Ok(rebuilt);
            }
            let others = reads.iter().map(|read| read.as_ref().err().copied());
            let mut failures = others.zip(columns).chain([(own.err(), &columns[column])]);
            error = match failures.any(|(error, zone)| self.may_yet_help(error, *zone)) {
                true => IoError::NotReady,
                false => IoError::UnrecoveredRead,
            };
        }
        Err(error)
    }

    /// True of an error that says nothing of what is in a zone: its drive was not ready, or could
    /// not be reached. A drive that is gone is out of use, and helps nobody, once the membership
    /// does without it. Until then the pool may yet go offline for it, and have it back when it is
    /// opened again.
    fn may_yet_help(&self, error: Option<IoError>, zone: Option<Zone>) -> bool {
        let drive = zone.map(|zone| usize::from(zone.drive));
        let counted_on = |drive| self.newly_failed.borrow().contains(&drive);
        if Mutation::TakesAwayForLost.is_planted() {
            return false;
        }
        match error {
            None | Some(IoError::UnrecoveredRead) => false,
            Some(IoError::DeviceGone) => drive.is_some_and(counted_on),
            Some(_) => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::drive_layout::DriveLayout;
    use block::{BlockRange, Geometry, Lba};
    use reactor::sync::Signal;

    /// A drive that answers nothing until it is said to be gone.
    struct Hanging(Rc<Signal<()>>);

    impl Hanging {
        async fn hang(&self) -> Result<(), IoError> {
            self.0.wait().await;
            Err(IoError::DeviceGone)
        }
    }

    impl BlockDevice for Hanging {
        fn geometry(&self) -> Geometry {
            Geometry {
                block_bytes: BLOCK_BYTES as u32,
                block_count: 1000,
                optimal_write_blocks: 1,
                power_fail_atomic_blocks: 1,
                power_fail_atomic_boundary_blocks: 0,
                volatile_write_cache: false,
                deallocates: false,
            }
        }

        async fn read(&self, _: Lba, buffer: Buffer) -> (Buffer, Result<(), IoError>) {
            (buffer, self.hang().await)
        }

        async fn write(
            &self,
            _: Lba,
            buffer: Buffer,
            _: Durability,
        ) -> (Buffer, Result<(), IoError>) {
            (buffer, self.hang().await)
        }

        async fn write_vectored(
            &self,
            _: Lba,
            buffers: Vec<Buffer>,
            _: Durability,
        ) -> (Vec<Buffer>, Result<(), IoError>) {
            (buffers, self.hang().await)
        }

        async fn flush(&self) -> Result<(), IoError> {
            self.hang().await
        }

        async fn deallocate(&self, _: BlockRange) -> Result<(), IoError> {
            self.hang().await
        }

        async fn write_zeroes(&self, _: BlockRange, _: Durability) -> Result<(), IoError> {
            self.hang().await
        }
    }

    fn hanging(id: u8) -> (Rc<Drive<Hanging>>, Rc<Signal<()>>) {
        let gone = Rc::new(Signal::new());
        let layout = DriveLayout::new(1000, 32, 40);
        let drive = Drive::new(Hanging(gone.clone()), [id; 16], layout);
        (Rc::new(drive), gone)
    }

    /// A request that a drive had before it left fails when another drive has its place.
    #[test]
    fn a_late_failure_is_its_own_drives() {
        reactor::Reactor::simulated(1).run(async {
            let ((first, gone), (second, gone_too)) = (hanging(1), hanging(2));
            let array = Rc::new(Array::new(Level::Raid1, vec![Some(first.clone())]));
            let read = || {
                let array = array.clone();
                let zone = Zone { drive: 0, index: 0 };
                reactor::spawn(async move {
                    let buffer = Buffer::new(BLOCK_BYTES);
                    array.read_zone(Some(zone), 0, buffer).await.1
                })
            };
            let late = read();
            reactor::yield_now().await;
            array.place(0, Some(second.clone()));
            gone.set(());
            assert_eq!(late.await, Err(IoError::DeviceGone));
            array.fail_member(0, first.id);
            assert!(array.is_live(0) && first.is_failed() && !second.is_failed());
            assert_eq!(array.newly_failed.borrow()[..], []);
            let own = read();
            reactor::yield_now().await;
            gone_too.set(());
            assert_eq!(own.await, Err(IoError::DeviceGone));
            assert!(!array.is_live(0) && array.taking() == 0);
            assert_eq!(array.newly_failed.borrow()[..], [0]);
            assert_eq!(array.members(&[0, 1]), [(0, second.id)]);
        });
    }
}
