//! [`EmulatedNamespace`]: one namespace of an emulated drive, as a block device.

use std::rc::Rc;

use block::{BlockDevice, BlockRange, Buffer, Durability, Geometry, IoError, Lba, write_joined};
use ssd::{NamespaceError, PageRange};

use crate::EmulatedDrive;
use crate::emulated_store::Store;
use crate::transfer::{check_range, check_transfer};

const PAGE_BYTES: u64 = 4096;

/// A namespace held open. Writes are acknowledged when the model's protected buffer has them:
/// where the payload is files they outlive the process, and after a flush a power loss of this
/// machine.
pub struct EmulatedNamespace {
    drive: EmulatedDrive,
    nsid: u32,
    store: Rc<Store>,
    geometry: Geometry,
}

impl EmulatedNamespace {
    pub(crate) fn open(
        drive: EmulatedDrive,
        nsid: u32,
        store: Rc<Store>,
    ) -> Result<EmulatedNamespace, NamespaceError> {
        drive.0.device.borrow_mut().namespaces_mut().open(nsid)?;
        let geometry = Geometry {
            // What the drive would have: its buffer is protected against power loss.
            volatile_write_cache: false,
            ..store.geometry()
        };
        Ok(EmulatedNamespace {
            drive,
            nsid,
            store,
            geometry,
        })
    }

    /// The drive it is on.
    pub fn drive(&self) -> &EmulatedDrive {
        &self.drive
    }

    /// Its identifier.
    pub fn nsid(&self) -> u32 {
        self.nsid
    }

    /// The pages that a run of blocks touches.
    fn pages(&self, range: BlockRange) -> PageRange {
        let block = u64::from(self.geometry.block_bytes);
        let first = range.start.0 * block / PAGE_BYTES;
        let end = ((range.start.0 + range.blocks) * block).div_ceil(PAGE_BYTES);
        PageRange {
            first,
            count: end - first,
        }
    }

    /// Waits until the drive would have completed what completes at `device_ns`.
    async fn pace(&self, began: reactor::Instant, device_ns: u64) {
        let due = self.drive.0.due(device_ns);
        if reactor::now() < due {
            reactor::sleep_until(due).await;
        }
        self.drive.0.count(began, due, reactor::now());
    }

    async fn erase(&self, range: BlockRange, zero: bool) -> Result<(), IoError> {
        check_range(&self.geometry, range)?;
        let began = reactor::now();
        let block = u64::from(self.geometry.block_bytes);
        // Only whole pages lose their data on the drive.
        let first = (range.start.0 * block).div_ceil(PAGE_BYTES);
        let end = (range.start.0 + range.blocks) * block / PAGE_BYTES;
        let pages = PageRange {
            first,
            count: end.saturating_sub(first),
        };
        let now = self.drive.0.now_ns();
        let completes = self
            .drive
            .0
            .device
            .borrow_mut()
            .deallocate(now, self.nsid, pages);
        if zero {
            self.store.write_zeroes(range).await?;
        } else {
            self.store.deallocate(range).await?;
        }
        self.pace(began, completes.map_err(refusal)?).await;
        Ok(())
    }
}

/// A namespace that is held open stays; what remains is a range that was checked before.
fn refusal(error: NamespaceError) -> IoError {
    match error {
        NamespaceError::OutOfRange(_) => IoError::OutOfRange,
        _ => IoError::DeviceGone,
    }
}

impl BlockDevice for EmulatedNamespace {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    async fn read(&self, start: Lba, buffer: Buffer) -> (Buffer, Result<(), IoError>) {
        let range = match check_transfer(&self.geometry, start, buffer.len()) {
            Ok(range) => range,
            Err(error) => return (buffer, Err(error)),
        };
        let began = reactor::now();
        let now = self.drive.0.now_ns();
        let completes = self
            .drive
            .0
            .device
            .borrow_mut()
            .read(now, self.nsid, self.pages(range));
        let (buffer, result) = self.store.read(start, buffer).await;
        let result = result.and(completes.map_err(refusal));
        if let Ok(device_ns) = result {
            self.pace(began, device_ns).await;
        }
        (buffer, result.map(|_| ()))
    }

    async fn write(
        &self,
        start: Lba,
        buffer: Buffer,
        _durability: Durability,
    ) -> (Buffer, Result<(), IoError>) {
        let range = match check_transfer(&self.geometry, start, buffer.len()) {
            Ok(range) => range,
            Err(error) => return (buffer, Err(error)),
        };
        let began = reactor::now();
        let now = self.drive.0.now_ns();
        let completes =
            self.drive
                .0
                .device
                .borrow_mut()
                .write(now, self.nsid, self.pages(range), 0);
        let (buffer, result) = self.store.write(start, buffer).await;
        let result = result.and(completes.map_err(refusal));
        if let Ok(device_ns) = result {
            self.pace(began, device_ns).await;
        }
        (buffer, result.map(|_| ()))
    }

    async fn write_vectored(
        &self,
        start: Lba,
        buffers: Vec<Buffer>,
        durability: Durability,
    ) -> (Vec<Buffer>, Result<(), IoError>) {
        write_joined(self, start, buffers, durability).await
    }

    async fn flush(&self) -> Result<(), IoError> {
        let began = reactor::now();
        let completes = self
            .drive
            .0
            .device
            .borrow_mut()
            .flush(self.drive.0.now_ns());
        self.store.flush().await?;
        self.pace(began, completes).await;
        Ok(())
    }

    async fn deallocate(&self, range: BlockRange) -> Result<(), IoError> {
        self.erase(range, false).await
    }

    async fn write_zeroes(&self, range: BlockRange, _: Durability) -> Result<(), IoError> {
        self.erase(range, true).await
    }
}

impl Drop for EmulatedNamespace {
    fn drop(&mut self) {
        self.drive
            .0
            .device
            .borrow_mut()
            .namespaces_mut()
            .close(self.nsid);
    }
}
