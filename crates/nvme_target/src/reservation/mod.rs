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
pub use state::{Access, Change, Held, HostId, NO_HOST, REGISTRANTS_MAX, Request, Reservations};

use std::pin::Pin;
use std::sync::Arc;

use access::Nqn;

/// Keeps the reservations of a namespace that are to survive a power loss, durably before the
/// future ends; none are to be forgotten. Called, and awaited, on the first core.
pub type ReservationKeeper =
    Arc<dyn Fn(&Nqn, u32, Option<Arc<Reservations>>) -> Keeping + Send + Sync>;

/// What a [`ReservationKeeper`] does.
pub type Keeping = Pin<Box<dyn Future<Output = Result<(), Unkept>>>>;

/// Why reservations are not kept. The host's command fails then, and nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unkept {
    /// So many registrants do not fit.
    #[error("there is no room for so many registrants")]
    NoRoom,
    /// What keeps them cannot be written.
    #[error("{0}")]
    Failed(String),
}
