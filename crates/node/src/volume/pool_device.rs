//! [`PoolDevice`]: a volume of a pool, behind the door that a panic in the pool does not pass.

use std::cell::Cell;

use block::{BlockDevice, BlockRange, Buffer, Durability, Geometry, IoError, Lba, write_joined};
use reactor::{Failed, Scope};

/// A device that is part of a pool. Requests run in the pool's scope: they end, with an error, as
/// soon as that has failed, and the host's queue goes on.
pub struct PoolDevice<D> {
    device: D,
    scope: Scope,
    /// What the device was when it was asked last.
    geometry: Cell<Geometry>,
}

impl<D: BlockDevice> PoolDevice<D> {
    pub fn new(device: D, scope: Scope) -> Result<PoolDevice<D>, Failed> {
        let geometry = scope.call(|| device.geometry())?;
        Ok(PoolDevice {
            device,
            scope,
            geometry: Cell::new(geometry),
        })
    }

    /// What a panic in the pool ends.
    pub fn scope(&self) -> &Scope {
        &self.scope
    }

    /// A device that is made of this one, of the same pool.
    pub fn derive<E: BlockDevice>(
        &self,
        make: impl FnOnce(&D) -> E,
    ) -> Result<PoolDevice<E>, Failed> {
        let made = self.scope.call(|| make(&self.device))?;
        PoolDevice::new(made, self.scope.clone())
    }

    /// What is found by a look at the device; nothing if the pool has failed.
    pub fn look<T>(&self, at: impl FnOnce(&D) -> T) -> Option<T> {
        self.scope.call(|| at(&self.device)).ok()
    }

    async fn unless_failed(
        &self,
        request: impl Future<Output = Result<(), IoError>>,
    ) -> Result<(), IoError> {
        let done = self.scope.run(request).await;
        done.unwrap_or(Err(IoError::DeviceGone))
    }

    /// The same for a request that takes a buffer along. It may be lost with the request.
    async fn transfer(
        &self,
        bytes: usize,
        request: impl Future<Output = (Buffer, Result<(), IoError>)>,
    ) -> (Buffer, Result<(), IoError>) {
        let done = self.scope.run(request).await;
        done.unwrap_or_else(|Failed| (Buffer::zeroed(bytes), Err(IoError::DeviceGone)))
    }
}

impl<D: BlockDevice> BlockDevice for PoolDevice<D> {
    fn geometry(&self) -> Geometry {
        if let Ok(now) = self.scope.call(|| self.device.geometry()) {
            self.geometry.set(now);
        }
        self.geometry.get()
    }

    async fn read(&self, start: Lba, buffer: Buffer) -> (Buffer, Result<(), IoError>) {
        let bytes = buffer.len();
        self.transfer(bytes, self.device.read(start, buffer)).await
    }

    async fn write(
        &self,
        start: Lba,
        buffer: Buffer,
        durability: Durability,
    ) -> (Buffer, Result<(), IoError>) {
        let bytes = buffer.len();
        let request = self.device.write(start, buffer, durability);
        self.transfer(bytes, request).await
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
        self.unless_failed(self.device.flush()).await
    }

    async fn deallocate(&self, range: BlockRange) -> Result<(), IoError> {
        self.unless_failed(self.device.deallocate(range)).await
    }

    async fn write_zeroes(&self, range: BlockRange, durability: Durability) -> Result<(), IoError> {
        let request = self.device.write_zeroes(range, durability);
        self.unless_failed(request).await
    }
}
