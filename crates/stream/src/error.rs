//! [`StreamError`]: why bytes are no stream that can be used.

use std::io;

use thiserror::Error;

use crate::header::VERSION;

/// What is wrong with a stream that is read. Offsets are of its bytes.
#[derive(Debug, Error)]
pub enum StreamError {
    /// The input cannot be read.
    #[error("the stream cannot be read: {0}")]
    Read(#[from] io::Error),
    /// The first bytes are another file's.
    #[error("the input is no stream; allowed: what `flashyard snapshot send` wrote")]
    NotAStream,
    /// A later version of the program wrote it.
    #[error("the stream has version {0}; allowed: {VERSION}")]
    Version(u32),
    /// The input ends before the stream does.
    #[error("the stream ends at byte {0}, before its last record: it was cut off")]
    Cut(u64),
    /// A checksum is wrong.
    #[error("the stream is damaged: the checksum of {part} at byte {at} is wrong")]
    Damaged {
        /// The header, a record, or all.
        part: &'static str,
        /// Where that begins.
        at: u64,
    },
    /// Checksums are right, and what they are of cannot be.
    #[error("the stream makes no sense at byte {at}: {problem}")]
    Nonsense {
        /// Where the header or the record begins.
        at: u64,
        /// What was found, and what is allowed.
        problem: String,
    },
    /// The input goes on.
    #[error("the input goes on behind the stream, which ends at byte {0}; allowed: one stream")]
    Behind(u64),
}
