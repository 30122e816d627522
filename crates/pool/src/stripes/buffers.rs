//! Buffers that are put together again.

use block::Buffer;

/// Puts parts together again: without a copy, unless a drive gave another buffer back than it was
/// given.
pub(crate) fn put_together(parts: Vec<Buffer>) -> Buffer {
    let mut parts = parts.into_iter();
    let Some(first) = parts.next() else {
        return Buffer::new(0);
    };
    parts.fold(first, |whole, part| {
        whole.rejoin(part).unwrap_or_else(|(whole, part)| {
            let mut copy = Buffer::new(whole.len() + part.len());
            copy[..whole.len()].copy_from_slice(&whole);
            copy[whole.len()..].copy_from_slice(&part);
            copy
        })
    })
}
