//! [`NullDrive`]: measures everything but the drive.

use block::{BlockDevice, BlockRange, Buffer, Durability, Geometry, IoError, Lba};

use crate::transfer::{check_range, check_transfer, check_vectored};

/// A drive that reads zeroes and forgets what is written. No operation suspends.
pub struct NullDrive {
    geometry: Geometry,
}

impl NullDrive {
    /// A null drive of this size and block size.
    pub fn new(geometry: Geometry) -> NullDrive {
        NullDrive { geometry }
    }
}

impl BlockDevice for NullDrive {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    async fn read(&self, start: Lba, mut buffer: Buffer) -> (Buffer, Result<(), IoError>) {
        let result = check_transfer(&self.geometry, start, buffer.len());
        if result.is_ok() {
            buffer.fill(0);
        }
        (buffer, result.map(drop))
    }

    async fn write(
        &self,
        start: Lba,
        buffer: Buffer,
        _durability: Durability,
    ) -> (Buffer, Result<(), IoError>) {
        let result = check_transfer(&self.geometry, start, buffer.len());
        (buffer, result.map(drop))
    }

    async fn write_vectored(
        &self,
        start: Lba,
        buffers: Vec<Buffer>,
        _durability: Durability,
    ) -> (Vec<Buffer>, Result<(), IoError>) {
        let result = check_vectored(&self.geometry, start, &buffers);
        (buffers, result.map(drop))
    }

    async fn flush(&self) -> Result<(), IoError> {
        Ok(())
    }

    async fn deallocate(&self, range: BlockRange) -> Result<(), IoError> {
        check_range(&self.geometry, range)
    }

    async fn write_zeroes(&self, range: BlockRange, _: Durability) -> Result<(), IoError> {
        check_range(&self.geometry, range)
    }
}
