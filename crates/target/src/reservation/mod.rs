//! Reservations: a machine that decides ([`state`]), the commands that ask it ([`command`]), and
//! the way from any core to the one that owns a namespace's reservations and back to all
//! ([`shared`]).

pub(crate) mod command;
mod notice;
pub(crate) mod shared;
mod state;
#[cfg(test)]
mod tests;

pub(crate) use notice::Notices;
pub use state::{Access, Change, Held, HostId, Request, Reservations};

use std::sync::Arc;

use access::Nqn;

/// Keeps the reservations of a namespace that are to survive a power loss, durably before it
/// returns; none are to be forgotten. It may block. The error says what went wrong.
pub type ReservationKeeper =
    Arc<dyn Fn(&Nqn, u32, Option<&Reservations>) -> Result<(), String> + Send + Sync>;
