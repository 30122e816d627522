//! The laboratory: what puts load on storage, watches it, checks it and reports on it.
//!
//! In this room: [`load`], a load generator in fio's words over any [`block::BlockDevice`], with
//! verification that survives the death of the node under test; [`plan`], experiments as TOML
//! files; [`experiment`], which runs them on whatever they name, by [`session`], [`fio`], a
//! [`database`] or the drive model, and keeps what they found; [`report`], results as a report;
//! [`inplace_raid6`], the usual RAID 6, as a baseline to measure beside. Not in this room: the
//! protocol (crate `initiator`), the command line (crate `flashyard`).

pub mod database;
pub mod experiment;
pub mod fio;
pub mod inplace_raid6;
mod join;
pub mod load;
pub mod plan;
pub mod ports;
pub mod processor;
pub mod program;
pub mod report;
pub mod session;
pub mod statistics;
