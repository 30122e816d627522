//! [`WatchedDrive`]: an open drive whose failures are told.

use std::cell::Cell;
use std::rc::Rc;

use block::{BlockDevice, BlockRange, Buffer, Durability, Geometry, IoError, Lba};
use drive::Drive;

use crate::spec::{EventSink, NodeEvent};

/// A handle to an open drive; the drive closes with the last one.
#[derive(Clone)]
pub struct WatchedDrive(Rc<Watched>);

struct Watched {
    name: String,
    drive: Drive,
    failures: Cell<u64>,
    events: EventSink,
}

impl WatchedDrive {
    pub fn new(name: String, drive: Drive, events: EventSink) -> WatchedDrive {
        WatchedDrive(Rc::new(Watched {
            name,
            drive,
            failures: Cell::new(0),
            events,
        }))
    }

    /// Counts a failure of the drive itself; a refused request is its sender's fault. Tells the
    /// first and then each doubling, so that a dead drive under load makes a handful of events.
    fn watch<T>(&self, result: Result<T, IoError>) -> Result<T, IoError> {
        if let Err(error) = &result
            && drive_is_at_fault(*error)
        {
            let failures = self.0.failures.get() + 1;
            self.0.failures.set(failures);
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

impl BlockDevice for WatchedDrive {
    fn geometry(&self) -> Geometry {
        self.0.drive.geometry()
    }

    async fn read(&self, start: Lba, buffer: Buffer) -> (Buffer, Result<(), IoError>) {
        let (buffer, result) = self.0.drive.read(start, buffer).await;
        (buffer, self.watch(result))
    }

    async fn write(
        &self,
        start: Lba,
        buffer: Buffer,
        durability: Durability,
    ) -> (Buffer, Result<(), IoError>) {
        let (buffer, result) = self.0.drive.write(start, buffer, durability).await;
        (buffer, self.watch(result))
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
