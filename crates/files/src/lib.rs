//! Files that are replaced whole: who reads one sees the old contents or the new, never a part.
//!
//! In this room: [`replace()`], by which every file is written that the program replaces. Not in
//! this room: what is in the files, and files that drives are made of.

mod replace;

pub use replace::{Access, replace, replace_cached};
