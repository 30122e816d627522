//! Where blocks are: the [updates] since the last checkpoint and the [trees](tree) of
//! nodes below them. Pure over the loading and storing of nodes.

pub(crate) mod cache;
pub(crate) mod fold;
pub(crate) mod holes;
pub(crate) mod overlay;
pub(crate) mod said;
pub(crate) mod tree;
pub(crate) mod updates;
