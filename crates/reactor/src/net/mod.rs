//! TCP over IPv4 and IPv6: [`TcpListener`], [`TcpStream`] and the [`SendBatch`] that it sends; and
//! addresses as people write them.
//!
//! The same types work on both drivers. On io_uring a socket closes when its last handle is gone
//! and its last operation has ended. Errors are the system's own (`std::io::Error`).

mod address;
mod batch;
mod listener;
mod stream;
mod text;

pub(crate) use address::RawAddress;
pub use batch::SendBatch;
pub use listener::{BoundAddress, ListenOptions, TcpListener};
pub use stream::{Keepalive, SocketOptions, TcpStream};
pub use text::{canonical, display_address, display_ip, parse_address, resolve};
