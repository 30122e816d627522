//! The checks that every drive makes before it touches anything.

use block::{BlockRange, Buffer, Geometry, IoError, Lba};

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

/// The blocks that buffers cover one behind the other, or the reason why they must be refused.
pub(crate) fn check_vectored(
    geometry: &Geometry,
    start: Lba,
    buffers: &[Buffer],
) -> Result<BlockRange, IoError> {
    let block_bytes = geometry.block_bytes as usize;
    let is_part = |buffer: &Buffer| buffer.is_empty() || !buffer.len().is_multiple_of(block_bytes);
    if buffers.iter().any(is_part) {
        return Err(IoError::InvalidRequest);
    }
    check_transfer(
        geometry,
        start,
        buffers.iter().map(|buffer| buffer.len()).sum(),
    )
}

/// Whether every block of `range` exists.
pub(crate) fn check_range(geometry: &Geometry, range: BlockRange) -> Result<(), IoError> {
    if geometry.contains(range) {
        Ok(())
    } else {
        Err(IoError::OutOfRange)
    }
}
