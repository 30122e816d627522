//! The laboratory: what puts load on storage, watches it, checks it and reports on it.
//!
//! In this room: [`load`], a load generator in fio's words over any [`block::BlockDevice`], with
//! verification that survives the death of the node under test; [`inplace_raid6`], the usual
//! RAID 6, as a baseline to measure beside. Not in this room: the protocol (crate `initiator`),
//! the command line (crate `flashyard`).

pub mod inplace_raid6;
mod join;
pub mod load;
