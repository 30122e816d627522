//! Who belongs to a pool and who may use it: the [host](fence) that holds it, drives that
//! [leave](retire), that are [missing](rebuild), or that [do not answer](silence).

pub(crate) mod fence;
pub(crate) mod rebuild;
pub(crate) mod retire;
pub(crate) mod unresponsive_drives;
