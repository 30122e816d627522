//! What the fuzzers run.
//!
//! In this room: one function per fuzz target, from bytes to a panic if something is wrong: PDU
//! headers, names, TLS keys, authentication, the host's and the controller's connection as
//! machines, over TCP and over RDMA, the two of them talking, commands with lists of ranges,
//! streams of snapshots, and drives of a pool that somebody has forged. `fuzz/` holds the
//! `cargo fuzz` targets around them and the corpora, which a test of this crate replays with a
//! stable compiler. Not in this room: anything the product runs.

mod authentication;
mod capsules;
mod controller;
mod copied;
mod headers;
mod host;
mod input;
mod keyed_host;
mod ledger;
mod names;
mod pool;
mod ranges;
mod tls_key;

pub use authentication::authentication;
pub use capsules::capsules;
pub use controller::controller;
pub use copied::stream;
pub use headers::headers;
pub use host::host;
pub use input::Input;
pub use keyed_host::keyed_host;
pub use names::names;
pub use pool::{pool_label, pool_node, pool_stripe, pool_tables};
pub use ranges::ranges;
pub use tls_key::tls_key;

/// Runs one input, and panics if something is wrong.
pub type Body = fn(&[u8]);

/// Every body by the name of its fuzz target and corpus directory.
pub const BODIES: [(&str, Body); 14] = [
    ("authentication", authentication),
    ("capsules", capsules),
    ("controller", controller),
    ("headers", headers),
    ("host", host),
    ("keyed_host", keyed_host),
    ("names", names),
    ("pool_label", pool_label),
    ("pool_node", pool_node),
    ("pool_stripe", pool_stripe),
    ("pool_tables", pool_tables),
    ("ranges", ranges),
    ("stream", stream),
    ("tls_key", tls_key),
];
