//! Stripes before they are written: what is to go into them and how it is laid out. No I/O.

pub(crate) mod buffers;
pub(crate) mod class;
pub(crate) mod item;
pub(crate) mod layout;
pub(crate) mod open;
pub(crate) mod order;
pub(crate) mod patience;
pub(crate) mod queue;
