//! [`SendBatch`]: what one `sendmsg` sends, put together without copying payloads.
#![allow(unsafe_code, reason = "builds a message header; see the SAFETY lines")]

use std::ops::Range;

use block::Buffer;

/// Pieces that one `sendmsg` takes (IOV_MAX of Linux).
const SEGMENTS_MAX: usize = 1024;

#[derive(Clone, Copy)]
enum Source {
    /// Bytes of `inline`.
    Inline,
    /// Bytes of the buffer with this position in `buffers`.
    Buffer(u32),
}

#[derive(Clone, Copy)]
struct Segment {
    source: Source,
    start: usize,
    length: usize,
}

struct Parts {
    inline: Vec<u8>,
    buffers: Vec<Buffer>,
    segments: Vec<Segment>,
    length: usize,
    /// What the kernel reads while a send is in flight; rebuilt by every send.
    vectors: Vec<libc::iovec>,
    header: libc::msghdr,
}

/// Bytes to be sent in order: small pieces are copied in, payloads are moved in as [`Buffer`]s.
///
/// A stream hands the batch back after sending it; cleared and filled again it allocates nothing.
pub struct SendBatch {
    /// Boxed, so that the kernel's view of it stays in place when the batch is moved.
    parts: Box<Parts>,
}

impl Default for SendBatch {
    fn default() -> SendBatch {
        SendBatch::new()
    }
}

impl SendBatch {
    /// An empty batch.
    pub fn new() -> SendBatch {
        // SAFETY: all-zero bytes are a valid, empty msghdr.
        let header = unsafe { std::mem::zeroed() };
        SendBatch {
            parts: Box::new(Parts {
                inline: Vec::new(),
                buffers: Vec::new(),
                segments: Vec::new(),
                length: 0,
                vectors: Vec::new(),
                header,
            }),
        }
    }

    /// Appends a copy of `bytes`, which are best few: headers, not payloads.
    pub fn push_bytes(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let parts = &mut *self.parts;
        let start = parts.inline.len();
        parts.inline.extend_from_slice(bytes);
        parts.length += bytes.len();
        match parts.segments.last_mut() {
            Some(Segment {
                source: Source::Inline,
                length,
                ..
            }) => *length += bytes.len(),
            _ => parts.segments.push(Segment {
                source: Source::Inline,
                start,
                length: bytes.len(),
            }),
        }
    }

    /// Appends the bytes `range` of `buffer`, which the batch keeps until it is cleared.
    ///
    /// # Panics
    /// When the range does not lie within the buffer.
    pub fn push_buffer(&mut self, buffer: Buffer, range: Range<usize>) {
        let length = buffer[range.clone()].len();
        let parts = &mut *self.parts;
        if length > 0 {
            parts.segments.push(Segment {
                source: Source::Buffer(parts.buffers.len() as u32),
                start: range.start,
                length,
            });
            parts.length += length;
        }
        parts.buffers.push(buffer);
    }

    /// Bytes in the batch.
    pub fn len_bytes(&self) -> usize {
        self.parts.length
    }

    /// Whether there is nothing to send.
    pub fn is_empty(&self) -> bool {
        self.parts.length == 0
    }

    /// Whether one system call can take no more pieces. More may be added; sending the batch then
    /// takes another call.
    pub fn is_full(&self) -> bool {
        self.parts.segments.len() >= SEGMENTS_MAX - 1
    }

    /// Empties the batch; buffers return to the pool.
    pub fn clear(&mut self) {
        let parts = &mut *self.parts;
        parts.inline.clear();
        parts.buffers.clear();
        parts.segments.clear();
        parts.vectors.clear();
        parts.length = 0;
    }

    /// Empties the batch and gives its buffers back, in the order in which they were pushed.
    pub fn take_buffers(&mut self) -> impl Iterator<Item = Buffer> {
        let parts = &mut *self.parts;
        parts.inline.clear();
        parts.segments.clear();
        parts.vectors.clear();
        parts.length = 0;
        parts.buffers.drain(..)
    }

    /// The bytes of the batch, piece by piece, as they would be sent.
    pub fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        self.parts.segments.iter().map(|segment| {
            let range = segment.start..segment.start + segment.length;
            match segment.source {
                Source::Inline => &self.parts.inline[range],
                Source::Buffer(index) => &self.parts.buffers[index as usize][range],
            }
        })
    }

    /// A message header for as much as one call takes, from byte `sent` on.
    ///
    /// It points into this batch's heap memory, and stays valid until the batch is changed.
    pub(crate) fn message(&mut self, sent: usize) -> *const libc::msghdr {
        let parts = &mut *self.parts;
        parts.vectors.clear();
        let mut skip = sent;
        for segment in &parts.segments {
            if skip >= segment.length {
                skip -= segment.length;
                continue;
            }
            if parts.vectors.len() == SEGMENTS_MAX {
                break;
            }
            let range = segment.start + skip..segment.start + segment.length;
            skip = 0;
            let bytes = match segment.source {
                Source::Inline => &parts.inline[range],
                Source::Buffer(index) => &parts.buffers[index as usize][range],
            };
            parts.vectors.push(libc::iovec {
                iov_base: bytes.as_ptr().cast_mut().cast(),
                iov_len: bytes.len(),
            });
        }
        parts.header.msg_iov = parts.vectors.as_mut_ptr();
        parts.header.msg_iovlen = parts.vectors.len();
        &raw const parts.header
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gather(message: *const libc::msghdr) -> Vec<u8> {
        let mut bytes = Vec::new();
        // SAFETY: the test keeps the batch that the header belongs to.
        unsafe {
            let header = &*message;
            for index in 0..header.msg_iovlen {
                let vector = &*header.msg_iov.add(index);
                let part = std::slice::from_raw_parts(vector.iov_base.cast(), vector.iov_len);
                bytes.extend_from_slice(part);
            }
        }
        bytes
    }

    #[test]
    fn a_batch_resumes_anywhere() {
        let mut batch = SendBatch::new();
        batch.push_bytes(b"head");
        batch.push_bytes(b"er");
        batch.push_buffer(Buffer::copy_of(b"0123456789"), 2..8);
        batch.push_bytes(b"tail");
        let whole = b"header234567tail";
        assert_eq!(batch.len_bytes(), whole.len());
        for sent in 0..=whole.len() {
            assert_eq!(gather(batch.message(sent)), &whole[sent..]);
        }
        assert_eq!(batch.pieces().collect::<Vec<_>>().concat(), whole);
        assert_eq!(batch.take_buffers().count(), 1);
        assert!(batch.is_empty());
    }

    #[test]
    fn a_batch_of_more_pieces_than_one_call_takes_is_cut() {
        let mut batch = SendBatch::new();
        let mut whole = Vec::new();
        for number in 0..1500_u32 {
            let bytes = number.to_le_bytes();
            batch.push_buffer(Buffer::copy_of(&bytes), 0..4);
            whole.extend_from_slice(&bytes);
        }
        assert!(batch.is_full());
        let first = gather(batch.message(0));
        assert_eq!(first, &whole[..4 * SEGMENTS_MAX]);
        assert_eq!(gather(batch.message(first.len())), &whole[first.len()..]);
    }
}
