//! NVMe 2.0, NVMe over Fabrics, NVMe/TCP and NVMe/RDMA as they stand on the wire.
//!
//! In this room: every PDU header, queue entry, command, Identify structure, log page and feature
//! that the target and the initiator exchange, as plain structs of alignment 1 whose size is
//! checked at compile time; numbers with names that keep values without one; digests; the check of
//! a PDU's common header, which names the fatal error that the specification wants; the status
//! codes and what they mean to storage ([`block::IoError`]). Not in this room: any decision, state,
//! I/O or `unsafe`.
#![forbid(unsafe_code)]

#[macro_use]
mod open_enum;
pub mod authentication;
pub mod command;
pub mod copy;
mod decode;
mod digest;
pub mod event;
pub mod fabrics;
pub mod feature;
pub mod identify;
pub mod log;
pub mod pdu;
pub mod rdma;
pub mod reservation;
mod status;
#[cfg(test)]
mod tests;
pub mod text;

pub use command::{
    AdminOpcode, CompletionEntry, Direction, IoOpcode, SglDescriptor, SubmissionEntry,
};
pub use decode::{FatalError, FatalErrorStatus, HeaderRules, PduLayout, Receiver, field};
pub use digest::{RunningDigest, digest};
pub use status::Status;
