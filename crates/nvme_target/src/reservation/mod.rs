//! Reservations: a machine that decides ([`state`]), and the commands that ask it ([`command`]).
//! They are part of a namespace's [rules](crate::rules), which have the way over the cores.

pub(crate) mod command;
mod notice;
mod state;
#[cfg(test)]
mod tests;

pub(crate) use notice::Notices;
pub(crate) use state::NO_ROOM;
pub use state::{Access, Change, Held, HostId, NO_HOST, REGISTRANTS_MAX, Request, Reservations};
