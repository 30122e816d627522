//! [`Channel`]: where the connection manager tells what happens to connections.
#![allow(unsafe_code, reason = "calls librdmacm; see the SAFETY lines")]

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::ptr::{null_mut, slice_from_raw_parts};
use std::rc::{Rc, Weak};

use reactor::CancelOnDrop;
use reactor::sync::Queue;

use crate::domain::Domain;
use crate::error::RdmaError;
use crate::library::{Functions, functions};
use crate::listener::Request;
use crate::sys::{self, CmEvent, CmId, Context, EventChannel};

/// Requests that may wait to be taken; more are turned away.
const REQUESTS_MAX: usize = 128;

/// An event channel with all connections that came through it. A task of its own reads it for as
/// long as it is there, so that connections go on without their listener.
pub struct Channel {
    pub functions: &'static Functions,
    channel: *mut EventChannel,
    /// Of the channel, for the event loop.
    descriptor: Rc<OwnedFd>,
    links: RefCell<HashMap<usize, Weak<Link>>>,
    domains: RefCell<HashMap<usize, Rc<Domain>>>,
    pub requests: Queue<Request>,
    reading: OnceCell<CancelOnDrop<()>>,
}

/// One end of a connection, or what listens for them.
pub struct Link {
    pub id: *mut CmId,
    pub channel: Rc<Channel>,
    /// The other end has gone, or the device.
    pub gone: Cell<bool>,
}

/// A descriptor of a library, as the event loop waits for it. Reads of it never block.
pub fn polled(descriptor: i32) -> io::Result<Rc<OwnedFd>> {
    // SAFETY: the library's descriptor is open: its owner is borrowed by the caller.
    let borrowed = unsafe { BorrowedFd::borrow_raw(descriptor) };
    let flags = rustix::fs::fcntl_getfl(borrowed)? | rustix::fs::OFlags::NONBLOCK;
    rustix::fs::fcntl_setfl(borrowed, flags)?;
    Ok(Rc::new(borrowed.try_clone_to_owned()?))
}

impl Channel {
    pub fn open() -> Result<Rc<Channel>, RdmaError> {
        let functions = functions()?;
        // SAFETY: the function takes nothing.
        let channel = unsafe { (functions.rdma_create_event_channel)() };
        if channel.is_null() {
            return Err(RdmaError::NoDevice(io::Error::last_os_error()));
        }
        // SAFETY: the library has just made the channel.
        let descriptor = polled(unsafe { (*channel).descriptor });
        let opened = Rc::new(Channel {
            functions,
            channel,
            descriptor: descriptor.map_err(|source| RdmaError::Call {
                call: "fcntl",
                source,
            })?,
            links: RefCell::default(),
            domains: RefCell::default(),
            requests: Queue::bounded(REQUESTS_MAX),
            reading: OnceCell::new(),
        });
        let descriptor = Rc::clone(&opened.descriptor);
        let reading = reactor::spawn(read(Rc::downgrade(&opened), descriptor));
        // Nobody else has the channel yet.
        let _ = opened.reading.set(reading.cancel_on_drop());
        Ok(opened)
    }

    /// A link that is connected to nothing.
    pub fn link(self: &Rc<Self>) -> Result<Rc<Link>, RdmaError> {
        let mut id = null_mut();
        // SAFETY: the channel is open, and `id` is there to be written.
        let made = unsafe {
            (self.functions.rdma_create_id)(self.channel, &mut id, null_mut(), sys::PORT_SPACE_TCP)
        };
        match made {
            0 => Ok(self.own(id)),
            _ => Err(RdmaError::NoDevice(io::Error::last_os_error())),
        }
    }

    fn own(self: &Rc<Self>, id: *mut CmId) -> Rc<Link> {
        let link = Rc::new(Link {
            id,
            channel: Rc::clone(self),
            gone: Cell::new(false),
        });
        let mut links = self.links.borrow_mut();
        links.insert(id.addr(), Rc::downgrade(&link));
        link
    }

    /// The protection domain of a device, made when it is first needed.
    pub fn domain(&self, verbs: *mut Context) -> Result<Rc<Domain>, RdmaError> {
        let mut domains = self.domains.borrow_mut();
        if let Some(domain) = domains.get(&verbs.addr()) {
            return Ok(Rc::clone(domain));
        }
        let domain = Rc::new(Domain::open(self.functions, verbs)?);
        domains.insert(verbs.addr(), Rc::clone(&domain));
        Ok(domain)
    }

    /// Takes what has happened, until nothing more has.
    fn take_events(self: &Rc<Self>) -> Result<(), RdmaError> {
        loop {
            let mut event: *mut CmEvent = null_mut();
            // SAFETY: the channel is open, and `event` is there to be written.
            let got = unsafe { (self.functions.rdma_get_cm_event)(self.channel, &mut event) };
            if got != 0 {
                let error = io::Error::last_os_error();
                return match error.kind() {
                    io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(()),
                    _ => Err(RdmaError::last("rdma_get_cm_event")),
                };
            }
            // SAFETY: the library has just given the event, which is ours until it is
            // acknowledged below.
            let (kind, id, private) = unsafe {
                let data = &(*event).connection;
                let length = usize::from(data.private_data_bytes);
                let private = match (*event).event == sys::EVENT_CONNECT_REQUEST
                    && !data.private_data.is_null()
                {
                    true => {
                        (*slice_from_raw_parts(data.private_data.cast::<u8>(), length)).to_vec()
                    }
                    false => Vec::new(),
                };
                ((*event).event, (*event).id, private)
            };
            // SAFETY: as above; nothing of the event is used any more. A link can only be closed
            // once its events are acknowledged.
            unsafe { (self.functions.rdma_ack_cm_event)(event) };
            self.take(kind, id, private);
        }
    }

    fn take(self: &Rc<Self>, kind: u32, id: *mut CmId, private: Vec<u8>) {
        if kind == sys::EVENT_CONNECT_REQUEST {
            let request = Request::new(self.own(id), private);
            // One that finds no room, or nobody who listens, is turned away when it is dropped.
            drop(self.requests.try_push(request));
            return;
        }
        let link = self.links.borrow().get(&id.addr()).and_then(Weak::upgrade);
        if let Some(link) = link
            && !matches!(kind, sys::EVENT_ESTABLISHED | sys::EVENT_TIMEWAIT_EXIT)
        {
            link.gone.set(true);
            link.disconnect();
        }
    }
}

/// Reads the channel. A weak reference, so that it ends with the last of the channel's users.
async fn read(channel: Weak<Channel>, descriptor: Rc<OwnedFd>) {
    while reactor::readable(&descriptor).await.is_ok() {
        let Some(channel) = channel.upgrade() else {
            return;
        };
        if let Err(error) = channel.take_events() {
            tracing::warn!(%error, "the RDMA connection manager is gone");
            channel.requests.close();
            return;
        }
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        // SAFETY: every link holds the channel, so there is none any more.
        unsafe { (self.functions.rdma_destroy_event_channel)(self.channel) };
    }
}

impl Link {
    /// Has the device end everything that is under way; the other end is told.
    pub fn disconnect(&self) {
        // SAFETY: the link owns its identifier. It fails where it was not connected, or is not any
        // more, which is as well.
        unsafe { (self.channel.functions.rdma_disconnect)(self.id) };
    }

    /// Its own address.
    pub fn local(&self) -> Option<SocketAddr> {
        // SAFETY: the link owns its identifier; the library changes it in our calls alone.
        address(unsafe { &(*self.id).source })
    }

    /// That of the other end.
    pub fn peer(&self) -> Option<SocketAddr> {
        // SAFETY: as above.
        address(unsafe { &(*self.id).destination })
    }

    /// Its device.
    pub fn verbs(&self) -> *mut Context {
        // SAFETY: as above.
        unsafe { (*self.id).verbs }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.channel.links.borrow_mut().remove(&self.id.addr());
        // SAFETY: the link owns its identifier, its queue pair is gone, and all events of it that
        // were taken were acknowledged.
        unsafe { (self.channel.functions.rdma_destroy_id)(self.id) };
    }
}

fn address(storage: &libc::sockaddr_storage) -> Option<SocketAddr> {
    match i32::from(storage.ss_family) {
        libc::AF_INET => {
            // SAFETY: the family says which struct it is, and the storage has room for each.
            let v4 = unsafe { &*std::ptr::from_ref(storage).cast::<libc::sockaddr_in>() };
            let ip = Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr));
            Some(SocketAddr::new(ip.into(), u16::from_be(v4.sin_port)))
        }
        libc::AF_INET6 => {
            // SAFETY: as above.
            let v6 = unsafe { &*std::ptr::from_ref(storage).cast::<libc::sockaddr_in6>() };
            let ip = Ipv6Addr::from(v6.sin6_addr.s6_addr);
            let port = u16::from_be(v6.sin6_port);
            Some(SocketAddrV6::new(ip, port, 0, v6.sin6_scope_id).into())
        }
        _ => None,
    }
}
