//! Reliable RDMA connections, for NVMe over RDMA: a thin binding of our own to librdmacm and
//! libibverbs.
//!
//! In this room: the two libraries, loaded when they are first needed; the [`addresses`] of this
//! machine's devices; a [`Listener`], which takes [`Request`]s; a [`QueuePair`], which receives
//! capsules, reads and writes the memory of the other end and answers; a [`HostQueue`], which
//! connects, sends capsules and has its memory reached; and memory that the device may reach. Not
//! in this room: what the messages mean.
//!
//! ```text
//!   Listener --Request--> accept --> QueuePair --poll--> Completion: capsule, fetched, answered
//!                                     ^  fetch, answer  (buffers go in and come back)
//!
//!   connect --> HostQueue --poll--> HostCompletion: response, sent
//!                ^  lend, send, reclaim               (buffers go in and come back)
//! ```
//!
//! Everything belongs to one core. A buffer that the device may reach belongs to the queue pair
//! until the device has done with it, or the queue pair is gone.

mod address;
mod channel;
mod devices;
mod domain;
mod error;
mod host;
mod library;
mod listener;
mod pair;
mod queue;
mod sys;

pub use devices::{DEVICES, addresses};
pub use error::RdmaError;
pub use host::{HostCompletion, HostQueue};
pub use listener::{Listener, Request};
pub use pair::{Remote, Shape};
pub use queue::{Completion, QueuePair};
