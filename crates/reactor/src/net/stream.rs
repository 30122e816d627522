//! [`TcpStream`].
#![allow(unsafe_code, reason = "starts ring operations; see the SAFETY lines")]

use std::io;
use std::net::SocketAddr;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::Duration;

use block::Buffer;
use io_uring::opcode;
use rustix::net::{AddressFamily, Shutdown, SocketFlags, SocketType, ipproto, sockopt};

use super::{RawAddress, SendBatch};
use crate::context::{self, Context};
use crate::operation::Resource;
use crate::ring;
use crate::sim::Endpoint;

/// Settings of a connection. Small segments are never held back (TCP_NODELAY).
#[derive(Clone, Copy, Debug, Default)]
pub struct SocketOptions {
    /// The kernel's send buffer; by default it grows as needed.
    pub send_buffer_bytes: Option<u32>,
    /// The kernel's receive buffer; by default it grows as needed.
    pub receive_buffer_bytes: Option<u32>,
    /// Probe a peer that says nothing; by default it may say nothing for ever.
    pub keepalive: Option<Keepalive>,
    /// Break the connection when sent data is not acknowledged for so long; by default the
    /// system decides, after many minutes.
    pub user_timeout: Option<Duration>,
}

/// When to ask whether a silent peer is still there, and when to give it up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keepalive {
    /// Silence before the first probe; whole seconds, at least one.
    pub idle: Duration,
    /// From one probe to the next; whole seconds, at least one.
    pub interval: Duration,
    /// Probes without an answer after which the connection is broken.
    pub probes: u32,
}

impl SocketOptions {
    pub(super) fn apply_sizes(&self, socket: &OwnedFd) -> io::Result<()> {
        if let Some(bytes) = self.send_buffer_bytes {
            sockopt::set_socket_send_buffer_size(socket, bytes as usize)?;
        }
        if let Some(bytes) = self.receive_buffer_bytes {
            sockopt::set_socket_recv_buffer_size(socket, bytes as usize)?;
        }
        Ok(())
    }

    fn apply_timeouts(&self, socket: &OwnedFd) -> io::Result<()> {
        let second = Duration::from_secs(1);
        if let Some(keepalive) = self.keepalive {
            sockopt::set_tcp_keepidle(socket, keepalive.idle.max(second))?;
            sockopt::set_tcp_keepintvl(socket, keepalive.interval.max(second))?;
            sockopt::set_tcp_keepcnt(socket, keepalive.probes.max(1))?;
            sockopt::set_socket_keepalive(socket, true)?;
        }
        if let Some(timeout) = self.user_timeout {
            let milliseconds = u32::try_from(timeout.as_millis()).unwrap_or(u32::MAX);
            sockopt::set_tcp_user_timeout(socket, milliseconds.max(1))?;
        }
        Ok(())
    }
}

enum Kind {
    Socket(Rc<OwnedFd>),
    Simulated(Rc<Endpoint>),
}

struct Connection {
    kind: Kind,
    context: Rc<Context>,
    local: SocketAddr,
    peer: SocketAddr,
}

impl Drop for Connection {
    fn drop(&mut self) {
        if let (Kind::Simulated(endpoint), Some(world)) = (&self.kind, self.context.world()) {
            endpoint.close(world);
        }
    }
}

/// A TCP connection. Clones are handles to the same connection, which closes with the last one.
///
/// One `recv` and one `send` may be in flight at a time.
#[derive(Clone)]
pub struct TcpStream {
    connection: Rc<Connection>,
}

impl TcpStream {
    /// Connects to `address`.
    ///
    /// # Errors
    /// The system's: refused, unreachable, timed out.
    ///
    /// # Panics
    /// Outside a reactor.
    pub async fn connect(address: SocketAddr, options: &SocketOptions) -> io::Result<TcpStream> {
        let context = context::current();
        if context.world().is_some() {
            let endpoint = crate::sim::connect(&context, address).await?;
            return Ok(TcpStream::from_simulated(&context, endpoint));
        }
        let family = match address {
            SocketAddr::V4(_) => AddressFamily::INET,
            SocketAddr::V6(_) => AddressFamily::INET6,
        };
        let protocol = Some(ipproto::TCP);
        let socket =
            rustix::net::socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, protocol)?;
        // The receive window is settled by the handshake, so its size has to be set before.
        options.apply_sizes(&socket)?;
        let socket = Rc::new(socket);
        let raw = Resource::Address(Box::new(RawAddress::new(address)));
        // SAFETY: the entry points to the boxed address only.
        let operation = unsafe {
            ring::start(&context, &socket, raw, |fd, resource| {
                let Resource::Address(address) = resource else {
                    unreachable!("given an address in the line above")
                };
                opcode::Connect::new(fd, address.as_ptr(), address.length()).build()
            })
        };
        operation.await.0?;
        TcpStream::open(&context, socket, address, options)
    }

    pub(super) fn from_socket(
        context: &Rc<Context>,
        socket: OwnedFd,
        peer: SocketAddr,
        options: &SocketOptions,
    ) -> io::Result<TcpStream> {
        TcpStream::open(context, Rc::new(socket), peer, options)
    }

    fn open(
        context: &Rc<Context>,
        socket: Rc<OwnedFd>,
        peer: SocketAddr,
        options: &SocketOptions,
    ) -> io::Result<TcpStream> {
        sockopt::set_tcp_nodelay(&socket, true)?;
        options.apply_timeouts(&socket)?;
        let local = SocketAddr::try_from(rustix::net::getsockname(&socket)?)?;
        Ok(TcpStream {
            connection: Rc::new(Connection {
                kind: Kind::Socket(socket),
                context: Rc::clone(context),
                local,
                peer,
            }),
        })
    }

    pub(super) fn from_simulated(context: &Rc<Context>, endpoint: Rc<Endpoint>) -> TcpStream {
        TcpStream {
            connection: Rc::new(Connection {
                local: endpoint.local,
                peer: endpoint.peer,
                kind: Kind::Simulated(endpoint),
                context: Rc::clone(context),
            }),
        }
    }

    pub(crate) fn simulated(&self) -> Option<&Rc<Endpoint>> {
        match &self.connection.kind {
            Kind::Socket(_) => None,
            Kind::Simulated(endpoint) => Some(endpoint),
        }
    }

    /// The address of this end.
    pub fn local_address(&self) -> SocketAddr {
        self.connection.local
    }

    /// The address of the other end.
    pub fn peer_address(&self) -> SocketAddr {
        self.connection.peer
    }

    /// Receives what is there, at most what fits in the bytes `range` of `buffer`; waits while
    /// nothing is. Zero bytes mean that the peer has ended the stream. The buffer's length stays.
    ///
    /// Dropping the future may lose bytes that had arrived.
    ///
    /// # Errors
    /// The system's: the connection was reset, or timed out.
    ///
    /// # Panics
    /// When the range does not lie within the buffer.
    pub async fn recv(&self, buffer: Buffer, range: Range<usize>) -> (Buffer, io::Result<usize>) {
        assert!(
            range.start <= range.end && range.end <= buffer.len(),
            "recv past the buffer"
        );
        match &self.connection.kind {
            Kind::Simulated(endpoint) => endpoint.recv(buffer, range).await,
            Kind::Socket(socket) => self.recv_flags(socket, buffer, range, 0).await,
        }
    }

    /// Receives exactly the bytes `range` of `buffer`.
    ///
    /// # Errors
    /// As for [`TcpStream::recv`], and `UnexpectedEof` when the stream ends before.
    ///
    /// # Panics
    /// When the range does not lie within the buffer.
    pub async fn recv_exact(
        &self,
        mut buffer: Buffer,
        mut range: Range<usize>,
    ) -> (Buffer, io::Result<()>) {
        assert!(
            range.start <= range.end && range.end <= buffer.len(),
            "recv past the buffer"
        );
        while !range.is_empty() {
            let (back, result) = match &self.connection.kind {
                Kind::Simulated(endpoint) => endpoint.recv(buffer, range.clone()).await,
                Kind::Socket(socket) => {
                    let flags = libc::MSG_WAITALL;
                    self.recv_flags(socket, buffer, range.clone(), flags).await
                }
            };
            buffer = back;
            match result {
                Ok(0) => return (buffer, Err(io::ErrorKind::UnexpectedEof.into())),
                Ok(count) => range.start += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return (buffer, Err(error)),
            }
        }
        (buffer, Ok(()))
    }

    async fn recv_flags(
        &self,
        socket: &Rc<OwnedFd>,
        buffer: Buffer,
        range: Range<usize>,
        flags: i32,
    ) -> (Buffer, io::Result<usize>) {
        let context = &self.connection.context;
        let operation = ring::start_receive(context, socket, buffer, range, flags);
        match operation.await {
            (result, Resource::Buffer(buffer)) => (buffer, result.map(|count| count as usize)),
            _ => unreachable!("an operation gives back what it was given"),
        }
    }

    /// Sends everything in `batch`, in as many system calls as it takes, and gives the batch back
    /// unchanged, to be cleared and filled again.
    ///
    /// Dropping the future leaves it open how much was sent: the stream is of no more use.
    ///
    /// # Errors
    /// The system's: the connection was reset, shut down, or timed out.
    pub async fn send(&self, mut batch: SendBatch) -> (SendBatch, io::Result<()>) {
        let context = &self.connection.context;
        let socket = match &self.connection.kind {
            Kind::Socket(socket) => socket,
            Kind::Simulated(endpoint) => {
                let mut bytes = Vec::with_capacity(batch.len_bytes());
                batch
                    .pieces()
                    .for_each(|piece| bytes.extend_from_slice(piece));
                let result = endpoint.send(context, &bytes).await;
                return (batch, result);
            }
        };
        let mut sent = 0;
        while sent < batch.len_bytes() {
            let operation = ring::start_send(context, socket, batch, sent);
            let (result, resource) = operation.await;
            batch = match resource {
                Resource::Batch(batch) => batch,
                _ => unreachable!("an operation gives back what it was given"),
            };
            match result {
                Ok(count) => sent += count as usize,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return (batch, Err(error)),
            }
        }
        (batch, Ok(()))
    }

    /// Ends both directions at once. A pending `recv` ends with nothing, or an error; so does a
    /// pending `send`.
    pub fn shutdown(&self) {
        match &self.connection.kind {
            // The only failure is a connection that has ended already.
            Kind::Socket(socket) => {
                let _ = rustix::net::shutdown(socket, Shutdown::Both);
            }
            Kind::Simulated(endpoint) => {
                if let Some(world) = self.connection.context.world() {
                    endpoint.shut_down(world);
                }
            }
        }
    }
}
