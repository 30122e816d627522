//! Writes: whether there is [space](admission) for them, and the [`log`] that takes them.

pub(crate) mod admission;
pub(crate) mod batch;
pub(crate) mod log;
pub(crate) mod room;
