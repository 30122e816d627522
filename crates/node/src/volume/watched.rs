//! [`WatchedDrive`]: an open drive whose failures are told.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use block::{BlockDevice, BlockRange, Buffer, Durability, Geometry, IoError, Lba, Revised};
use drive::{Contents, Drive, SharedDrive};
use reactor::Instant;
use reactor::file::FileIdentity;

use crate::counts::{DriveCounts, DriveTally};
use crate::spec::{EventSink, NodeEvent};

/// How often late completions of an emulated drive are told, while there are more.
const LATE_EVENT_PERIOD: Duration = Duration::from_secs(60);

/// A handle to an open drive; the drive closes with the last one.
#[derive(Clone)]
pub struct WatchedDrive(Rc<Watched>);

struct Watched {
    name: String,
    drive: Drive,
    tally: DriveTally,
    /// Requests that an emulated drive completed late, as far as they were told, and when.
    late_told: Cell<(u64, Option<Instant>)>,
    events: EventSink,
}

impl WatchedDrive {
    pub fn new(name: String, drive: Drive, events: EventSink) -> WatchedDrive {
        WatchedDrive(Rc::new(Watched {
            name,
            drive,
            tally: DriveTally::default(),
            late_told: Cell::default(),
            events,
        }))
    }

    /// Its drive's name.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// What was done by this handle and its clones.
    pub fn counts(&self) -> DriveCounts {
        self.0.tally.read()
    }

    /// Counts what another core's handle did, which is no more.
    pub fn add_counts(&self, counts: DriveCounts) {
        self.0.tally.add(counts);
    }

    /// Its contents that something else wrote; `None` if there are none.
    pub async fn contents(&self) -> Result<Option<Contents>, IoError> {
        self.watch(self.0.drive.contents().await)
    }

    /// Makes it hold nothing that anybody would recognise.
    pub async fn wipe(&self) -> Result<(), IoError> {
        self.watch(self.0.drive.wipe().await)
    }

    /// Has flushes succeed again once one has failed, for a new user.
    pub fn forget_failed_flush(&self) {
        self.0.drive.forget_failed_flush();
    }

    /// Which file or block device it is, if it is one.
    pub fn identity(&self) -> Option<FileIdentity> {
        self.0.drive.identity()
    }

    /// For handles of other cores, if the drive can have any.
    pub fn share(&self) -> Option<SharedDrive> {
        self.0.drive.share()
    }

    /// Tells when an emulated drive has completed requests late: what is measured on it then says
    /// more about this machine than about the drive.
    fn watch_pace(&self) {
        let Drive::Emulated(namespace) = &self.0.drive else {
            return;
        };
        let punctuality = namespace.drive().punctuality();
        let (told, when) = self.0.late_told.get();
        if punctuality.late == told {
            return;
        }
        let now = reactor::now();
        if when.is_none_or(|when| now - when >= LATE_EVENT_PERIOD) {
            self.0.late_told.set((punctuality.late, Some(now)));
            (self.0.events)(NodeEvent::DriveLate {
                drive: self.0.name.clone(),
                late: punctuality.late,
                completed: punctuality.completed,
            });
        }
    }

    /// Counts a failure of the drive itself; a refused request is its sender's fault. Tells the
    /// first and then each doubling, so that a dead drive under load makes a handful of events.
    fn watch<T>(&self, result: Result<T, IoError>) -> Result<T, IoError> {
        self.watch_pace();
        if let Err(error) = &result
            && drive_is_at_fault(*error)
        {
            let failures = self.0.tally.count_error();
            if failures.is_power_of_two() {
                let drive = self.0.name.clone();
                (self.0.events)(NodeEvent::DriveFailed {
                    drive,
                    error: *error,
                    failures,
                });
            }
        }
        result
    }
}

fn drive_is_at_fault(error: IoError) -> bool {
    match error {
        IoError::UnrecoveredRead
        | IoError::WriteFault
        | IoError::DeviceGone
        | IoError::WriteProtected
        | IoError::CapacityExceeded
        | IoError::Internal => true,
        IoError::OutOfRange
        | IoError::InvalidRequest
        | IoError::CompareFailure
        | IoError::NotReady
        | IoError::Aborted => false,
    }
}

impl Revised for WatchedDrive {}

impl BlockDevice for WatchedDrive {
    fn geometry(&self) -> Geometry {
        self.0.drive.geometry()
    }

    async fn read(&self, start: Lba, buffer: Buffer) -> (Buffer, Result<(), IoError>) {
        let (buffer, result) = self.0.drive.read(start, buffer).await;
        self.0.tally.count_read(buffer.len());
        (buffer, self.watch(result))
    }

    async fn write(
        &self,
        start: Lba,
        buffer: Buffer,
        durability: Durability,
    ) -> (Buffer, Result<(), IoError>) {
        let (buffer, result) = self.0.drive.write(start, buffer, durability).await;
        self.0.tally.count_write(buffer.len());
        (buffer, self.watch(result))
    }

    async fn write_vectored(
        &self,
        start: Lba,
        buffers: Vec<Buffer>,
        durability: Durability,
    ) -> (Vec<Buffer>, Result<(), IoError>) {
        let written = self.0.drive.write_vectored(start, buffers, durability);
        let (buffers, result) = written.await;
        let bytes = buffers.iter().map(|buffer| buffer.len()).sum();
        self.0.tally.count_write(bytes);
        (buffers, self.watch(result))
    }

    async fn flush(&self) -> Result<(), IoError> {
        self.watch(self.0.drive.flush().await)
    }

    async fn deallocate(&self, range: BlockRange) -> Result<(), IoError> {
        self.watch(self.0.drive.deallocate(range).await)
    }

    async fn write_zeroes(&self, range: BlockRange, durability: Durability) -> Result<(), IoError> {
        self.watch(self.0.drive.write_zeroes(range, durability).await)
    }
}
