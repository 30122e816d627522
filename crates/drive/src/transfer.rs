//! The checks that every drive makes before it touches anything.

use block::{BlockRange, Geometry, IoError, Lba};

/// The blocks that a transfer of `bytes` bytes covers, or the reason why it must be refused.
pub(crate) fn check_transfer(
    geometry: &Geometry,
    start: Lba,
    bytes: usize,
) -> Result<BlockRange, IoError> {
    if bytes == 0 || !bytes.is_multiple_of(geometry.block_bytes as usize) {
        return Err(IoError::InvalidRequest);
    }
    geometry
        .range_of_bytes(start, bytes)
        .ok_or(IoError::OutOfRange)
}

/// Whether every block of `range` exists.
pub(crate) fn check_range(geometry: &Geometry, range: BlockRange) -> Result<(), IoError> {
    if geometry.contains(range) {
        Ok(())
    } else {
        Err(IoError::OutOfRange)
    }
}
