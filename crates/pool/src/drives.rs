//! The members of a pool: each [`drive`], and what is read, written and rebuilt over
//! [several](mod@array). What is on them is the business of the rooms above.

pub(crate) mod array;
pub(crate) mod drive;
pub(crate) mod health;
pub(crate) mod lease;
pub(crate) mod observed;
pub(crate) mod owed;
pub(crate) mod redundancy;
