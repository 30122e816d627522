//! Calls of an orchestrator to the CSI driver, for tests.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod calls;
mod claim;

pub use calls::{Answer, Caller};
pub use claim::{Claim, capability, map, nqn};
