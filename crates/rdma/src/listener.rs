//! [`Listener`] and the [`Request`]s that come to it.
#![allow(unsafe_code, reason = "calls librdmacm; see the SAFETY lines")]

use std::io;
use std::net::SocketAddr;
use std::rc::Rc;

use crate::address::with_raw;
use crate::channel::{Channel, Link};
use crate::error::RdmaError;
use crate::pair::Shape;
use crate::queue::QueuePair;

/// Connections that the kernel keeps for who listens.
const BACKLOG: i32 = 128;

/// An address of RDMA devices that connections are made to.
pub struct Listener {
    link: Rc<Link>,
    local: SocketAddr,
}

impl Listener {
    /// Takes `address`; port 0 picks one. Connections are refused until [`Listener::listen`].
    ///
    /// # Errors
    /// No library, no device, or an address that cannot be taken.
    ///
    /// # Panics
    /// Outside a reactor, or in a simulated one.
    pub fn bind(address: SocketAddr) -> Result<Listener, RdmaError> {
        let link = Channel::open()?.link()?;
        let bind = link.channel.functions.rdma_bind_addr;
        // SAFETY: the link owns its identifier, and the address outlives the call.
        let bound = with_raw(address, |raw| unsafe { bind(link.id, raw) });
        if bound != 0 {
            return Err(RdmaError::Address(io::Error::last_os_error()));
        }
        let local = link.local().unwrap_or(address);
        Ok(Listener { link, local })
    }

    /// The address, with the port that was picked.
    pub fn local_address(&self) -> SocketAddr {
        self.local
    }

    /// Takes connections from now on.
    ///
    /// # Errors
    /// The address is listened at already.
    pub fn listen(&self) -> Result<(), RdmaError> {
        // SAFETY: the link owns its identifier.
        match unsafe { (self.link.channel.functions.rdma_listen)(self.link.id, BACKLOG) } {
            0 => Ok(()),
            _ => Err(RdmaError::Address(io::Error::last_os_error())),
        }
    }

    /// Waits for somebody who wants to connect; `None` once nobody will any more.
    pub async fn next(&self) -> Option<Request> {
        self.link.channel.requests.pop().await
    }
}

/// Somebody who wants to connect. Dropping it turns it away.
pub struct Request {
    link: Rc<Link>,
    private: Vec<u8>,
}

impl Request {
    pub(crate) fn new(link: Rc<Link>, private: Vec<u8>) -> Request {
        Request { link, private }
    }

    /// What the other end says with its request; zeroes may follow.
    pub fn private_data(&self) -> &[u8] {
        &self.private
    }

    /// The address it comes from, and the one it came to.
    pub fn addresses(&self) -> Option<(SocketAddr, SocketAddr)> {
        Some((self.link.peer()?, self.link.local()?))
    }

    /// Connects, with a queue pair of this shape, and says `private` with it.
    ///
    /// # Errors
    /// The device has no room for it, or not as much memory may be locked.
    pub fn accept(self, shape: &Shape, private: &[u8]) -> Result<QueuePair, RdmaError> {
        QueuePair::accept(self.link, shape, private)
    }

    /// Turns it away, and says `private` with that.
    pub fn reject(self, private: &[u8]) {
        let length = u8::try_from(private.len()).unwrap_or(u8::MAX);
        // SAFETY: the link owns its identifier, and the data outlives the call. Who is gone
        // already need not be told.
        unsafe {
            (self.link.channel.functions.rdma_reject)(self.link.id, private.as_ptr().cast(), length)
        };
    }
}
