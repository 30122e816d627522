//! The daemon around a node: everything about it that is not the data path.
//!
//! In this room: the settings file ([`config`]), what a node remembers ([`state`]), every change
//! to it, one at a time ([`control`]), the REST API in front of that ([`routes`]) and what stands
//! between it and the network (`http`), events, logs,
//! and the life of the process from start to clean stop ([`daemon`]). tokio lives here and above.
//! Not in this room: the data path, which [`control`] commands through the `node` handle, and the
//! command line.

// They panic where an output takes nothing, and wait where it is slow: `logging` does neither.
#![deny(clippy::print_stderr, clippy::print_stdout)]

pub mod config;
pub mod control;
pub mod daemon;
pub mod develop;
pub mod endpoints;
pub mod events;
mod http;
mod interfaces;
mod jobs;
mod listening;
mod locked_memory;
pub mod logging;
mod mdns;
mod metrics;
mod names;
mod notify;
mod open_files;
mod outage;
mod private;
pub mod rehearsal;
pub mod replications;
pub mod routes;
pub mod rules;
mod schedules;
pub mod state;
mod syslog;
pub mod tokens;
mod words;
