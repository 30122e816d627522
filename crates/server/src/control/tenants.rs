//! Tenants: what is theirs, and what they are limited to.

pub(super) mod grants;
pub(super) mod limits;
