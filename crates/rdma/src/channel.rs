//! [`Channel`]: where the connection manager tells what happens to connections.
#![allow(unsafe_code, reason = "calls librdmacm; see the SAFETY lines")]

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::ptr::{null_mut, slice_from_raw_parts};
use std::rc::{Rc, Weak};

use reactor::CancelOnDrop;
use reactor::sync::{Queue, Signal};

use crate::address;
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
    domains: RefCell<HashMap<usize, Weak<Domain>>>,
    pub requests: Queue<Request>,
    reading: OnceCell<CancelOnDrop<()>>,
}

/// One end of a connection, or what listens for them.
pub struct Link {
    pub id: *mut CmId,
    pub channel: Rc<Channel>,
    /// The other end has gone, or the device.
    pub gone: Cell<bool>,
    /// What the connection manager told last, for who connects.
    pub told: Signal<Told>,
}

/// What the connection manager tells of a link.
pub struct Told {
    /// One of `sys::EVENT_*`.
    pub kind: u32,
    /// Why, where it did not go well.
    pub status: i32,
    /// What the other end says with it.
    pub private: Vec<u8>,
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
            told: Signal::new(),
        });
        let mut links = self.links.borrow_mut();
        links.insert(id.addr(), Rc::downgrade(&link));
        link
    }

    /// The protection domain of a device, made when it is first needed. It goes with the last that
    /// uses it, while there is a link of its device.
    pub fn domain(&self, verbs: *mut Context) -> Result<Rc<Domain>, RdmaError> {
        let mut domains = self.domains.borrow_mut();
        if let Some(domain) = domains.get(&verbs.addr()).and_then(Weak::upgrade) {
            return Ok(domain);
        }
        let domain = Rc::new(Domain::open(self.functions, verbs)?);
        domains.insert(verbs.addr(), Rc::downgrade(&domain));
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
            let (id, told) = unsafe { ((*event).id, read_event(&*event)) };
            // SAFETY: as above; nothing of the event is used any more. A link can only be closed
            // once its events are acknowledged.
            unsafe { (self.functions.rdma_ack_cm_event)(event) };
            self.take(id, told);
        }
    }

    fn take(self: &Rc<Self>, id: *mut CmId, told: Told) {
        if told.kind == sys::EVENT_CONNECT_REQUEST {
            let request = Request::new(self.own(id), told.private);
            // One that finds no room, or nobody who listens, is turned away when it is dropped.
            drop(self.requests.try_push(request));
            return;
        }
        let link = self.links.borrow().get(&id.addr()).and_then(Weak::upgrade);
        let Some(link) = link else {
            return;
        };
        let goes_on = [
            sys::EVENT_ADDRESS_RESOLVED,
            sys::EVENT_ROUTE_RESOLVED,
            sys::EVENT_ESTABLISHED,
            sys::EVENT_TIMEWAIT_EXIT,
        ];
        if !goes_on.contains(&told.kind) {
            link.gone.set(true);
            link.disconnect();
        }
        link.told.set(told);
    }
}

fn read_event(event: &CmEvent) -> Told {
    let data = &event.connection;
    let speaks = [
        sys::EVENT_CONNECT_REQUEST,
        sys::EVENT_REJECTED,
        sys::EVENT_ESTABLISHED,
    ];
    let private = match speaks.contains(&event.event) && !data.private_data.is_null() {
        // SAFETY: events of these kinds have so many bytes there, until they are acknowledged.
        true => unsafe {
            let length = usize::from(data.private_data_bytes);
            (*slice_from_raw_parts(data.private_data.cast::<u8>(), length)).to_vec()
        },
        false => Vec::new(),
    };
    Told {
        kind: event.event,
        status: event.status,
        private,
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
        address::read(unsafe { &(*self.id).source })
    }

    /// That of the other end.
    pub fn peer(&self) -> Option<SocketAddr> {
        // SAFETY: as above.
        address::read(unsafe { &(*self.id).destination })
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
