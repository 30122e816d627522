//! Simulation: the production pool over drives that fail, in virtual time, beside a model.
//!
//! In this room: drives with a volatile cache whose power can be cut, that die, vanish, return and
//! decay ([`SimDrive`]), or that somebody has forged ([`crafted`]); a model of what every block may
//! read as ([`model`]); what is promised where one drive does one thing wrong, with redundancy left
//! and without ([`promises`]); and [`run()`], which lets clients work, cuts the power at a chosen
//! operation, and compares. Not in this room: any code of the product. A failure names its seed,
//! and the seed is all it takes to see it again.
//!
//! The fault model is stated at the top of `run.rs`.

pub mod crafted;
mod drive;
pub mod golden;
pub mod model;
pub mod promises;
mod random;
mod run;
mod world;

pub use drive::{Lie, Power, SimDrive};
pub use random::{Random, checksum};
pub use run::{Options, Report, run};
pub use world::{Device, STEP_MOST, Served};
