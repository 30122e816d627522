//! One connection as a machine without a socket: bytes in, commands out; replies in, bytes and
//! buffers out. Where whole capsules come ([`Connection::keyed`]), data to fetch and answers with
//! their data go out in place of bytes.
//!
//! ```text
//!   socket bytes -> Connection::receive -> take_ready -> whoever executes commands
//!   socket bytes <- Outbox <- Connection::respond <-----------'
//! ```
//!
//! Whoever drives it owns the socket, the clock and the order of things; the machine owns the
//! protocol: PDU framing, digests, transfers of write data, and how a connection ends.

mod connection;
mod keyed;
mod outbox;
mod receive;
mod respond;
#[cfg(test)]
mod tests;
mod transfer;

pub(crate) use connection::{COPY_PIECE_BYTES, PRESSED_BYTES};
pub use connection::{
    Command, Connection, ConnectionSettings, End, Ready, Reply, Tag, Trust, Work,
};
pub use keyed::{Answer, Fetch};
pub use outbox::{Outbox, Part};
