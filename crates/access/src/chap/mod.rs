//! DH-HMAC-CHAP (NVMe 2.0 §8.13.5): what both ends compute, without messages and without order.

mod group;
mod hash;
mod primes;
mod response;

pub use group::{DhGroup, KeyPair, PeerValueError, SharedSecret};
pub use hash::{ChapHash, Digest};
pub use response::{Agreement, same};
