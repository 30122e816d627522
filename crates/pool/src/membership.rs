//! Who belongs to a pool and who may use it: the host that [takes](entry) it and [holds](fence) it,
//! by [what drives say](survey); drives that [leave](retire), that are [missing](rebuild), or that
//! [do not answer](unresponsive_drives).

pub(crate) mod entry;
pub(crate) mod fence;
pub(crate) mod rebuild;
pub(crate) mod retire;
pub(crate) mod survey;
pub(crate) mod unresponsive_drives;
