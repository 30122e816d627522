//! What a pool does by itself: [upkeep] decides what is next, and blocks are moved to make free
//! segments and to fill drives evenly.

pub(crate) mod balance;
pub(crate) mod cleaner;
pub(crate) mod copy;
pub(crate) mod gather;
pub(crate) mod upkeep;
pub(crate) mod window;
