//! Copies of snapshots as streams of bytes, which leave the machine through any pipe or file.
//!
//! In this room: [`Header`], which says of what a stream is a copy and what it builds on;
//! [`Writer`] and [`Reader`], which turn [`Record`]s into bytes and back, over any `Write` and
//! `Read`; and [`StreamError`], what can be wrong with bytes that came in. Memory is bounded on
//! both sides, whatever a stream says. The format is in `docs/formats/stream.md`. Not in this room:
//! where data comes from and where it goes to (`flashyard`).

mod error;
mod header;
mod reader;
mod record;
mod writer;

pub use error::StreamError;
pub use header::{Header, NAME_BYTES_MAX, Origin};
pub use reader::Reader;
pub use record::{BLOCK_BYTES, DATA_BYTES_MAX, Record, Totals, bytes_max};
pub use writer::Writer;

#[cfg(test)]
mod tests;
