//! [`Pair`]: a queue pair with its completion queue, whichever end it is of.
#![allow(unsafe_code, reason = "calls libibverbs; see the SAFETY lines")]

use std::ffi::c_void;
use std::io;
use std::os::fd::OwnedFd;
use std::ptr::null_mut;
use std::rc::Rc;

use block::Buffer;

use crate::channel::{Link, Told, polled};
use crate::domain::{Access, Domain, Registered};
use crate::error::RdmaError;
use crate::sys::{
    self, CompletionChannel, ConnectionParameters, Cq, Piece, QpAttributes, ReceiveRequest,
    SendRequest, WorkCompletion,
};

/// The identifier of a receive has this bit, and the number of its place.
const RECEIVE: u64 = 1 << 63;
/// Completions that are looked at in one call.
const BATCH: usize = 32;
/// The device tries again without end when the other end is not ready to receive (7: for ever).
const NOT_READY_RETRIES: u8 = 7;
/// What requests may carry in themselves: a completion of NVMe.
const INLINE_BYTES_MAX: u32 = 16;

/// How large a queue pair is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Messages that may arrive before the first is looked at.
    pub receives: u32,
    /// The longest message.
    pub receive_bytes: u32,
    /// Requests that the device may have at once.
    pub sends: u32,
}

/// Memory of the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remote {
    /// Where it begins.
    pub address: u64,
    /// Its key.
    pub key: u32,
}

/// What the device has ended.
pub enum Ended<'a> {
    /// A receive: this message came.
    Received(&'a [u8]),
    /// A request of this identifier.
    Sent(u64),
}

/// A queue pair. Dropping it ends the connection: the device reaches no memory of it any more.
/// Memory of others in its domain is to go before its link does.
pub struct Pair {
    pub domain: Rc<Domain>,
    events: *mut CompletionChannel,
    cq: *mut Cq,
    has_queue: bool,
    descriptor: Rc<OwnedFd>,
    shape: Shape,
    receives: Option<Registered>,
    /// Goes last: a device that was removed is closed with its last link.
    pub link: Rc<Link>,
}

impl Pair {
    /// A queue pair that is not connected yet, and ready to receive. Each part is ended by `drop`,
    /// however far it got.
    pub fn open(link: Rc<Link>, shape: &Shape) -> Result<Pair, RdmaError> {
        let functions = link.channel.functions;
        let verbs = link.verbs();
        let domain = link.channel.domain(verbs)?;
        // SAFETY: the device is open.
        let events = unsafe { (functions.ibv_create_comp_channel)(verbs) };
        if events.is_null() {
            return Err(RdmaError::last("ibv_create_comp_channel"));
        }
        // SAFETY: the library has just made the channel.
        let descriptor = polled(unsafe { (*events).descriptor });
        let completions = i32::try_from(shape.receives + shape.sends).unwrap_or(i32::MAX);
        // SAFETY: the channel is of this device.
        let cq = unsafe { (functions.ibv_create_cq)(verbs, completions, null_mut(), events, 0) };
        if cq.is_null() {
            let error = RdmaError::last("ibv_create_cq");
            // SAFETY: nothing uses the channel.
            unsafe { (functions.ibv_destroy_comp_channel)(events) };
            return Err(error);
        }
        let mut pair = Pair {
            domain,
            events,
            cq,
            has_queue: false,
            descriptor: descriptor.map_err(|source| RdmaError::Call {
                call: "fcntl",
                source,
            })?,
            shape: *shape,
            receives: None,
            link,
        };
        let mut attributes = QpAttributes {
            context: null_mut(),
            send_cq: cq,
            receive_cq: cq,
            shared_receive_queue: null_mut(),
            sends_max: shape.sends,
            receives_max: shape.receives,
            send_pieces_max: 1,
            receive_pieces_max: 1,
            inline_bytes_max: INLINE_BYTES_MAX,
            kind: sys::RELIABLE_CONNECTED,
            signal_all: 0,
        };
        let (id, pd) = (pair.link.id, pair.domain.pd);
        // SAFETY: all of one device, which the link's identifier names.
        if unsafe { (functions.rdma_create_qp)(id, pd, &mut attributes) } != 0 {
            return Err(RdmaError::last("rdma_create_qp"));
        }
        pair.has_queue = true;
        let bytes = shape.receives as usize * shape.receive_bytes as usize;
        let receives = pair.domain.register(Buffer::zeroed(bytes), Access::Write);
        pair.receives = Some(receives.map_err(|(_, error)| error)?);
        for place in 0..shape.receives {
            pair.post_receive(place)?;
        }
        Ok(pair)
    }

    fn qp(&self) -> *mut sys::Qp {
        // SAFETY: the link owns its identifier.
        unsafe { (*self.link.id).queue_pair }
    }

    fn operations(&self) -> &sys::Operations {
        // SAFETY: the device is open as long as the link is there.
        unsafe { &(*(*self.cq).context).operations }
    }

    fn post_receive(&self, place: u32) -> Result<(), RdmaError> {
        let (Some(receives), Some(post)) = (&self.receives, self.operations().post_recv) else {
            return Err(RdmaError::Ended(0));
        };
        let bytes = self.shape.receive_bytes as usize;
        let mut piece = receives.piece(place as usize * bytes, bytes);
        let mut request = ReceiveRequest {
            id: RECEIVE | u64::from(place),
            next: null_mut(),
            pieces: &mut piece,
            piece_count: 1,
        };
        let mut bad = null_mut();
        // SAFETY: the driver copies the request; the memory it names is held until the queue pair
        // is gone, and nobody looks at this place of it before the device has ended the receive.
        match unsafe { post(self.qp(), &mut request, &mut bad) } {
            0 => Ok(()),
            code => Err(RdmaError::returned("ibv_post_recv", code)),
        }
    }

    /// Agrees to the connection that the other end asked for, and says `private` with it.
    pub fn accept(&self, private: &[u8]) -> Result<(), RdmaError> {
        let mut parameters = parameters(private);
        // SAFETY: the link owns its identifier, and what the parameters point to outlives the call.
        match unsafe { (self.link.channel.functions.rdma_accept)(self.link.id, &mut parameters) } {
            0 => Ok(()),
            _ => Err(RdmaError::last("rdma_accept")),
        }
    }

    /// Asks the other end for a connection, says `private` with that, and waits for its answer.
    pub async fn connect(&self, private: &[u8]) -> Result<Told, RdmaError> {
        let mut parameters = parameters(private);
        // SAFETY: as above.
        match unsafe { (self.link.channel.functions.rdma_connect)(self.link.id, &mut parameters) } {
            0 => self.link.reaches(sys::EVENT_ESTABLISHED).await,
            _ => Err(RdmaError::last("rdma_connect")),
        }
    }

    /// Gives requests to the device, each with the next.
    ///
    /// # Safety
    /// What their pieces name, unless it is sent inline, stays where it is until the device has
    /// ended them, or this is gone.
    pub unsafe fn post_send(&self, first: &mut SendRequest) -> Result<(), RdmaError> {
        let Some(post) = self.operations().post_send else {
            return Err(RdmaError::Ended(0));
        };
        let mut bad = null_mut();
        // SAFETY: the driver copies the requests, and what is to be sent inline; the caller keeps
        // the other memory that they name.
        match unsafe { post(self.qp(), first, &mut bad) } {
            0 => Ok(()),
            code => Err(RdmaError::returned("ibv_post_send", code)),
        }
    }

    /// Gives what has ended to `each`, and says whether anything had.
    pub fn poll(&self, mut each: impl FnMut(Ended<'_>)) -> Result<bool, RdmaError> {
        let Some(poll) = self.operations().poll_cq else {
            return Err(RdmaError::Ended(0));
        };
        let mut completions = [WorkCompletion::default(); BATCH];
        // SAFETY: there is room for as many completions as are asked for.
        let count = unsafe { poll(self.cq, BATCH as i32, completions.as_mut_ptr()) };
        let count = usize::try_from(count).map_err(|_| RdmaError::last("ibv_poll_cq"))?;
        for completion in completions.iter().take(count) {
            if completion.status != 0 {
                return Err(RdmaError::Ended(completion.status));
            }
            match completion.id & RECEIVE {
                0 => each(Ended::Sent(completion.id)),
                _ => self.received(completion.id, completion.bytes, &mut each)?,
            }
        }
        Ok(count > 0)
    }

    fn received(
        &self,
        id: u64,
        bytes: u32,
        each: &mut impl FnMut(Ended<'_>),
    ) -> Result<(), RdmaError> {
        let place = (id & u64::from(u32::MAX)) as u32;
        let start = place as usize * self.shape.receive_bytes as usize;
        if let Some(receives) = &self.receives {
            each(Ended::Received(receives.bytes(start, bytes as usize)));
        }
        self.post_receive(place)
    }

    /// Asks for a word when something ends from now on. Poll once more before waiting for it.
    pub fn arm(&self) -> Result<(), RdmaError> {
        let Some(notify) = self.operations().req_notify_cq else {
            return Err(RdmaError::Ended(0));
        };
        // SAFETY: the completion queue is ours.
        match unsafe { notify(self.cq, 0) } {
            0 => Ok(()),
            code => Err(RdmaError::returned("ibv_req_notify_cq", code)),
        }
    }

    /// Waits for that word.
    pub async fn wait(&self) -> Result<(), RdmaError> {
        let waited = reactor::readable(&self.descriptor).await;
        waited.map_err(|source| RdmaError::Call {
            call: "poll",
            source,
        })?;
        let (mut cq, mut context): (*mut Cq, *mut c_void) = (null_mut(), null_mut());
        let functions = self.link.channel.functions;
        // SAFETY: the channel is ours, and there is room for what is written. Every event is
        // acknowledged, so that the completion queue can be ended.
        unsafe {
            if (functions.ibv_get_cq_event)(self.events, &mut cq, &mut context) == 0 {
                (functions.ibv_ack_cq_events)(cq, 1);
                return Ok(());
            }
        }
        match io::Error::last_os_error().kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(()),
            _ => Err(RdmaError::last("ibv_get_cq_event")),
        }
    }
}

fn parameters(private: &[u8]) -> ConnectionParameters {
    ConnectionParameters {
        private_data: private.as_ptr().cast(),
        private_data_bytes: u8::try_from(private.len()).unwrap_or(u8::MAX),
        responder_resources: sys::DEPTH_AS_ASKED,
        initiator_depth: sys::DEPTH_AS_ASKED,
        flow_control: 1,
        retry_count: 7,
        not_ready_retry_count: NOT_READY_RETRIES,
        shared_receive_queue: 0,
        queue_pair_number: 0,
    }
}

/// A request that says when it has ended.
pub fn request(id: u64, opcode: u32, piece: &mut Piece) -> SendRequest {
    SendRequest {
        id,
        next: null_mut(),
        pieces: piece,
        piece_count: 1,
        opcode,
        flags: sys::FLAG_SIGNALED,
        invalidate: 0,
        remote_address: 0,
        remote_key: 0,
        rest: [0; 9],
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        let functions = self.link.channel.functions;
        // SAFETY: made by `open`, ended once, in the order that the library wants. With the queue
        // pair gone, the device reaches none of the memory that is freed after it.
        unsafe {
            if self.has_queue {
                (functions.rdma_destroy_qp)(self.link.id);
            }
            (functions.ibv_destroy_cq)(self.cq);
            (functions.ibv_destroy_comp_channel)(self.events);
        }
    }
}
