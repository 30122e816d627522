//! Nodes as a program has them, with the library initiator as their hosts. All in one program: each
//! would build the pool and the target once more.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod administration;
mod contained;
mod cores;
mod kept;
mod layout;
mod neighbours;
mod pools;
mod scene;
