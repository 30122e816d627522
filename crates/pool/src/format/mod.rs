//! What is on disk, byte by byte; `docs/formats/pool.md` is its specification.

pub(crate) mod body;
pub(crate) mod drive_layout;
pub(crate) mod encoded;
pub(crate) mod node;
pub(crate) mod plausible;
pub(crate) mod stripe;
pub(crate) mod superblock;
#[cfg(test)]
mod tests;
