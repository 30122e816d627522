//! Reads: [where blocks are](lookup), and [what is there](read), checked and rebuilt.

pub(crate) mod lookup;
pub(crate) mod read;
