//! What is said to operators: events, status, what a scrub found. Plain types, and the queue of
//! events. The numbers and changes behind them come from the rooms above.

pub(crate) mod event;
pub(crate) mod lost;
pub(crate) mod status;
