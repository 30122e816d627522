//! [`HostQueue`]: the end of a connection that sends commands and has its memory reached.
#![allow(unsafe_code, reason = "calls librdmacm; see the SAFETY lines")]

use std::cell::RefCell;
use std::io;
use std::net::SocketAddr;
use std::ptr::null;
use std::rc::Rc;

use block::Buffer;

use crate::address::with_raw;
use crate::channel::{Channel, Link, Told};
use crate::domain::{Access, Registered};
use crate::error::RdmaError;
use crate::pair::{Ended, Pair, Remote, Shape, request};
use crate::sys;

/// How long a way to an address is looked for.
const RESOLVE_TIMEOUT_MS: i32 = 5000;

/// What has ended at a host.
#[derive(Debug)]
pub enum HostCompletion<'a> {
    /// A message came.
    Response(&'a [u8]),
    /// The device is done with the message in this place.
    Sent(u16),
}

/// A queue pair of a host, connected. It has as many places as the device may have requests; each
/// has memory for a message, and may have a buffer that the other end reaches. Dropping it ends
/// the connection.
///
/// Its protection domain is its own: a key of it is good for this connection alone.
pub struct HostQueue {
    /// Goes first: after it the device reaches none of the memory below.
    pair: Pair,
    messages: RefCell<Registered>,
    message_bytes: usize,
    lent: RefCell<Vec<Option<Registered>>>,
    /// Goes last: the device is open until then.
    _link: Rc<Link>,
}

impl HostQueue {
    /// Connects to `address`, with messages of at most `message_bytes`, and says `private` with
    /// that. The other end says something too.
    ///
    /// # Errors
    /// No library, no device, no way there, or nobody who agrees; not as much memory may be locked.
    ///
    /// # Panics
    /// Outside a reactor, or in a simulated one.
    pub async fn connect(
        address: SocketAddr,
        shape: &Shape,
        message_bytes: u32,
        private: &[u8],
    ) -> Result<(HostQueue, Vec<u8>), RdmaError> {
        let link = Channel::open()?.link()?;
        link.find(address).await?;
        let pair = Pair::open(Rc::clone(&link), shape)?;
        let message_bytes = message_bytes as usize;
        let messages = Buffer::zeroed(message_bytes * shape.sends as usize);
        let messages = pair.domain.register(messages, Access::Read);
        let messages = messages.map_err(|(_, error)| error)?;
        let told = pair.connect(private).await?;
        let mut lent = Vec::new();
        lent.resize_with(shape.sends as usize, || None);
        let queue = HostQueue {
            pair,
            messages: messages.into(),
            message_bytes,
            lent: lent.into(),
            _link: link,
        };
        Ok((queue, told.private))
    }

    /// Lets the other end write a buffer where `writable`, or read it, by a key that
    /// [`HostQueue::reclaim`] ends.
    ///
    /// # Errors
    /// The buffer cannot be reached by a device: mostly since not as much memory may be locked.
    ///
    /// # Panics
    /// No such place, or a buffer that was lent there before.
    pub fn lend(
        &self,
        place: u16,
        buffer: Buffer,
        writable: bool,
    ) -> Result<Remote, (Buffer, RdmaError)> {
        let access = match writable {
            true => Access::WriteByOther,
            false => Access::ReadByOther,
        };
        let registered = self.pair.domain.register(buffer, access)?;
        let remote = registered.remote();
        let mut lent = self.lent.borrow_mut();
        let before = lent[usize::from(place)].replace(registered);
        assert!(before.is_none(), "place {place} lends one buffer at a time");
        Ok(remote)
    }

    /// Takes a buffer back: its key is good for nothing any more, whatever the other end does.
    pub fn reclaim(&self, place: u16) -> Option<Buffer> {
        let mut lent = self.lent.borrow_mut();
        Some(lent.get_mut(usize::from(place))?.take()?.take())
    }

    /// Sends a message of two parts from its place, whose last message the device is done with.
    ///
    /// # Errors
    /// The connection has ended.
    ///
    /// # Panics
    /// No such place, or a message that is too long.
    pub fn send(&self, place: u16, front: &[u8], rest: &[u8]) -> Result<(), RdmaError> {
        let length = front.len() + rest.len();
        assert!(length <= self.message_bytes, "a message of {length} bytes");
        let start = usize::from(place) * self.message_bytes;
        let mut messages = self.messages.borrow_mut();
        messages.put(start, front);
        messages.put(start + front.len(), rest);
        let mut piece = messages.piece(start, length);
        drop(messages);
        assert_eq!(piece.length as usize, length, "no place {place}");
        let mut send = request(place.into(), sys::OPCODE_SEND, &mut piece);
        // SAFETY: the memory of messages goes after the queue pair, and the caller leaves this
        // place of it alone until the device has ended the request.
        unsafe { self.pair.post_send(&mut send) }
    }

    /// Gives what has ended to `each`, and says whether anything had.
    ///
    /// # Errors
    /// The connection has ended, and nothing more will be given.
    pub fn poll(&self, mut each: impl FnMut(HostCompletion<'_>)) -> Result<bool, RdmaError> {
        self.pair.poll(|ended| match ended {
            Ended::Received(response) => each(HostCompletion::Response(response)),
            // As it was posted, which is a place.
            Ended::Sent(id) => each(HostCompletion::Sent(id as u16)),
        })
    }

    /// Asks for a word when something ends from now on. Poll once more before waiting for it.
    ///
    /// # Errors
    /// The device is gone.
    pub fn arm(&self) -> Result<(), RdmaError> {
        self.pair.arm()
    }

    /// Waits for that word.
    ///
    /// # Errors
    /// The device is gone.
    pub async fn wait(&self) -> Result<(), RdmaError> {
        self.pair.wait().await
    }

    /// Ends the connection: everything under way ends, which [`HostQueue::poll`] then says.
    pub fn disconnect(&self) {
        self.pair.link.disconnect();
    }

    /// Whether the other end, or the device, is gone.
    pub fn is_gone(&self) -> bool {
        self.pair.link.gone.get()
    }
}

impl Link {
    /// Finds the device from which an address is reached, and the way there.
    async fn find(&self, address: SocketAddr) -> Result<(), RdmaError> {
        let functions = self.channel.functions;
        let resolve = functions.rdma_resolve_addr;
        let begun = with_raw(address, |raw| {
            // SAFETY: the link owns its identifier, and the address outlives the call.
            unsafe { resolve(self.id, null(), raw, RESOLVE_TIMEOUT_MS) }
        });
        if begun != 0 {
            return Err(RdmaError::NoWay(io::Error::last_os_error()));
        }
        self.reaches(sys::EVENT_ADDRESS_RESOLVED).await?;
        // SAFETY: the link owns its identifier.
        if unsafe { (functions.rdma_resolve_route)(self.id, RESOLVE_TIMEOUT_MS) } != 0 {
            return Err(RdmaError::NoWay(io::Error::last_os_error()));
        }
        self.reaches(sys::EVENT_ROUTE_RESOLVED).await?;
        Ok(())
    }

    /// Waits until the connection manager tells of `wanted`, or of what is in its way.
    pub async fn reaches(&self, wanted: u32) -> Result<Told, RdmaError> {
        let told = self.told.wait().await;
        // Errors of the system, which events have below zero.
        let system = || io::Error::from_raw_os_error(told.status.saturating_abs());
        match told.kind {
            kind if kind == wanted => Ok(told),
            sys::EVENT_ADDRESS_ERROR | sys::EVENT_ROUTE_ERROR => Err(RdmaError::NoWay(system())),
            sys::EVENT_UNREACHABLE => Err(RdmaError::Unreachable(system())),
            sys::EVENT_REJECTED => Err(RdmaError::Rejected {
                reason: told.status,
                private: told.private,
            }),
            _ => Err(RdmaError::Ended(0)),
        }
    }
}
