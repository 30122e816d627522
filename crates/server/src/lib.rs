//! The daemon around a node.
//!
//! In this room: the settings file and what can be wrong with it ([`config`]). Not in this room:
//! the data path, which the daemon only starts and commands, and the command line.

pub mod config;
