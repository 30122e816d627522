//! Files that are replaced whole: who reads one sees the old contents or the new, never a part.
//!
//! In this room: [`replace()`], by which every file is written that the program replaces, but for
//! the database of a node's state, which is put at the place that [`followed`] gives. Not in this
//! room: what is in the files, and files that drives are made of.

mod replace;

pub use replace::{Access, followed, replace, replace_cached};
