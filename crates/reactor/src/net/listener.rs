//! [`TcpListener`].
#![allow(unsafe_code, reason = "starts ring operations; see the SAFETY lines")]

use std::io;
use std::net::SocketAddr;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::rc::Rc;

use io_uring::opcode;
use rustix::net::{AddressFamily, SocketFlags, SocketType, ipproto, sockopt};

use super::RawAddress;
use super::stream::{SocketOptions, TcpStream};
use crate::context::{self, Context};
use crate::operation::Resource;
use crate::ring;
use crate::sim::SimulatedListener;

/// Settings of a listener.
#[derive(Clone, Copy, Debug)]
pub struct ListenOptions {
    /// Connections that may wait to be accepted.
    pub backlog: u32,
    /// Several listeners, on several cores, may share the address; the kernel spreads connections.
    pub reuse_port: bool,
    /// For every accepted connection.
    pub socket: SocketOptions,
}

impl Default for ListenOptions {
    /// A backlog of 1024, the address not shared, the system's buffer sizes.
    fn default() -> ListenOptions {
        ListenOptions {
            backlog: 1024,
            reuse_port: false,
            socket: SocketOptions::default(),
        }
    }
}

enum Kind {
    Socket(Rc<OwnedFd>),
    Simulated(Rc<SimulatedListener>),
}

/// An address that is taken and not listened at yet: connections to it are refused.
pub struct BoundAddress(TcpListener);

/// A socket that waits for connections.
pub struct TcpListener {
    kind: Kind,
    context: Rc<Context>,
    local: SocketAddr,
    options: ListenOptions,
}

impl TcpListener {
    /// Listens at `address`; port 0 picks a free port. An IPv6 listener takes IPv6 only.
    ///
    /// # Errors
    /// The system's: the address is in use, or not of this machine, or not allowed.
    ///
    /// # Panics
    /// Outside a reactor.
    pub fn bind(address: SocketAddr, options: &ListenOptions) -> io::Result<TcpListener> {
        BoundAddress::bind(address, options)?.listen()
    }

    /// The address that is listened at, with the port that was picked.
    pub fn local_address(&self) -> SocketAddr {
        self.local
    }

    /// Waits for the next connection and the address it comes from. May be dropped while waiting;
    /// a connection that arrives just then is closed.
    ///
    /// # Errors
    /// The system's: too many open files, or the connection ended before it was accepted. The
    /// listener goes on.
    pub async fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        match &self.kind {
            Kind::Simulated(listener) => {
                let endpoint = listener.accept().await;
                let peer = endpoint.peer;
                Ok((TcpStream::from_simulated(&self.context, endpoint), peer))
            }
            Kind::Socket(socket) => {
                let (socket, peer) = accept(&self.context, socket).await?;
                // An accepted socket has the listener's buffer sizes.
                let options = &self.options.socket;
                let stream = TcpStream::from_socket(&self.context, socket, peer, options)?;
                Ok((stream, peer))
            }
        }
    }
}

impl BoundAddress {
    /// Takes `address`, as [`TcpListener::bind`] does, and does not listen yet.
    ///
    /// # Errors
    /// The system's: the address is in use, or not of this machine, or not allowed.
    ///
    /// # Panics
    /// Outside a reactor.
    pub fn bind(address: SocketAddr, options: &ListenOptions) -> io::Result<BoundAddress> {
        let context = context::current();
        let (kind, local) = match context.world() {
            Some(world) => {
                let listener = SimulatedListener::bind(world, address, options.reuse_port)?;
                let local = listener.address();
                (Kind::Simulated(listener), local)
            }
            None => {
                let socket = open_socket(address, options)?;
                let local = SocketAddr::try_from(rustix::net::getsockname(&socket)?)?;
                (Kind::Socket(Rc::new(socket)), local)
            }
        };
        Ok(BoundAddress(TcpListener {
            kind,
            context,
            local,
            options: *options,
        }))
    }

    /// The address, with the port that was picked.
    pub fn local_address(&self) -> SocketAddr {
        self.0.local
    }

    /// Listens from now on.
    ///
    /// # Errors
    /// The system's: another process took the address as well, and was the first to listen.
    pub fn listen(self) -> io::Result<TcpListener> {
        let listener = self.0;
        match &listener.kind {
            Kind::Simulated(simulated) => simulated.listen(),
            Kind::Socket(socket) => {
                let backlog = i32::try_from(listener.options.backlog).unwrap_or(i32::MAX);
                rustix::net::listen(socket, backlog)?;
            }
        }
        Ok(listener)
    }
}

impl Drop for TcpListener {
    fn drop(&mut self) {
        if let (Kind::Simulated(listener), Some(world)) = (&self.kind, self.context.world()) {
            listener.close(world);
        }
    }
}

fn open_socket(address: SocketAddr, options: &ListenOptions) -> io::Result<OwnedFd> {
    let family = match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let protocol = Some(ipproto::TCP);
    let socket =
        rustix::net::socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, protocol)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    if options.reuse_port {
        sockopt::set_socket_reuseport(&socket, true)?;
    }
    if address.is_ipv6() {
        sockopt::set_ipv6_v6only(&socket, true)?;
    }
    // The receive window is settled by the handshake, so its size has to be set before.
    options.socket.apply_sizes(&socket)?;
    rustix::net::bind(&socket, &address)?;
    Ok(socket)
}

async fn accept(context: &Rc<Context>, socket: &Rc<OwnedFd>) -> io::Result<(OwnedFd, SocketAddr)> {
    let address = Resource::Accepted(Box::new(RawAddress::empty()));
    // SAFETY: the entry points to the boxed address only.
    let operation = unsafe {
        ring::start(context, socket, address, |fd, resource| {
            let Resource::Accepted(address) = resource else {
                unreachable!("given an address in the line above")
            };
            opcode::Accept::new(fd, address.as_ptr(), address.length_ptr())
                .flags(libc::SOCK_CLOEXEC)
                .build()
        })
    };
    let (result, resource) = operation.await;
    let accepted = result?;
    // SAFETY: the kernel has just made this descriptor for us.
    let accepted = unsafe { OwnedFd::from_raw_fd(accepted as RawFd) };
    match resource {
        Resource::Accepted(address) => match address.get() {
            Some(peer) => Ok((accepted, peer)),
            None => Err(io::ErrorKind::ConnectionAborted.into()),
        },
        _ => unreachable!("an operation gives back what it was given"),
    }
}
