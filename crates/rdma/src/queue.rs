//! [`QueuePair`]: one reliable connection.
#![allow(unsafe_code, reason = "calls libibverbs; see the SAFETY lines")]

use std::cell::{Cell, RefCell};
use std::ffi::c_void;
use std::io;
use std::os::fd::OwnedFd;
use std::ptr::null_mut;
use std::rc::Rc;

use block::Buffer;
use slab::Slab;

use crate::channel::{Link, polled};
use crate::domain::{Domain, Registered};
use crate::error::RdmaError;
use crate::sys::{
    self, CompletionChannel, ConnectionParameters, Cq, Piece, QpAttributes, ReceiveRequest,
    SendRequest, WorkCompletion,
};

/// The identifier of a receive has this bit, and the number of its place.
const RECEIVE: u64 = 1 << 63;
/// A write whose answer follows it; the answer's completion stands for both.
const WRITE: u64 = 1 << 62;
/// Completions that are looked at in one call.
const BATCH: usize = 32;
/// The device tries again without end when the other end is not ready to receive (7: for ever).
const NOT_READY_RETRIES: u8 = 7;

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

/// What has ended.
#[derive(Debug)]
pub enum Completion<'a> {
    /// A message came.
    Capsule(&'a [u8]),
    /// What [`QueuePair::fetch`] was asked for, by its token.
    Fetched {
        /// As it was given.
        token: u64,
        /// Now with the data of the other end.
        data: Buffer,
    },
    /// An answer of [`QueuePair::answer`] is with the other end, with so many bytes of data.
    Answered {
        /// Bytes of data that went before it.
        data_bytes: usize,
    },
}

/// What the device has.
enum Posted {
    Fetch { token: u64, data: Registered },
    Answer { data: Option<Registered> },
}

/// A queue pair, connected. Dropping it ends the connection, and everything under way.
pub struct QueuePair {
    link: Rc<Link>,
    domain: Rc<Domain>,
    events: *mut CompletionChannel,
    cq: *mut Cq,
    has_queue: bool,
    descriptor: Rc<OwnedFd>,
    shape: Shape,
    receives: Option<Registered>,
    posted: RefCell<Slab<Posted>>,
    /// Requests that the device has.
    under_way: Cell<u32>,
}

impl QueuePair {
    pub(crate) fn accept(
        link: Rc<Link>,
        shape: &Shape,
        private: &[u8],
    ) -> Result<QueuePair, RdmaError> {
        let queue = QueuePair::open(link, shape)?;
        for place in 0..shape.receives {
            queue.post_receive(place)?;
        }
        let mut parameters = ConnectionParameters {
            private_data: private.as_ptr().cast(),
            private_data_bytes: u8::try_from(private.len()).unwrap_or(u8::MAX),
            responder_resources: sys::DEPTH_AS_ASKED,
            initiator_depth: sys::DEPTH_AS_ASKED,
            flow_control: 1,
            retry_count: 7,
            not_ready_retry_count: NOT_READY_RETRIES,
            shared_receive_queue: 0,
            queue_pair_number: 0,
        };
        // SAFETY: the link owns its identifier, and what the parameters point to outlives the call.
        match unsafe { (queue.link.channel.functions.rdma_accept)(queue.link.id, &mut parameters) }
        {
            0 => Ok(queue),
            _ => Err(RdmaError::last("rdma_accept")),
        }
    }

    /// A queue pair that is not connected yet. Each part is ended by `drop`, however far it got.
    fn open(link: Rc<Link>, shape: &Shape) -> Result<QueuePair, RdmaError> {
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
        let mut queue = QueuePair {
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
            posted: RefCell::default(),
            under_way: Cell::new(0),
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
            inline_bytes_max: size_of::<[u8; 16]>() as u32,
            kind: sys::RELIABLE_CONNECTED,
            signal_all: 0,
        };
        let (id, pd) = (queue.link.id, queue.domain.pd);
        // SAFETY: all of one device, which the link's identifier names.
        if unsafe { (functions.rdma_create_qp)(id, pd, &mut attributes) } != 0 {
            return Err(RdmaError::last("rdma_create_qp"));
        }
        queue.has_queue = true;
        let bytes = shape.receives as usize * shape.receive_bytes as usize;
        let receives = queue.domain.register(Buffer::zeroed(bytes), true);
        queue.receives = Some(receives.map_err(|(_, error)| error)?);
        Ok(queue)
    }

    fn qp(&self) -> *mut sys::Qp {
        // SAFETY: the link owns its identifier.
        unsafe { (*self.link.id).queue_pair }
    }

    fn operations(&self) -> &sys::Operations {
        // SAFETY: the device stays open as long as the process runs.
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

    /// Whether the device takes another [`QueuePair::fetch`] or [`QueuePair::answer`].
    pub fn has_room(&self) -> bool {
        self.under_way.get() + 2 <= self.shape.sends
    }

    /// Has the device read the other end's memory into `data`, all of it. Its end has the token.
    ///
    /// # Errors
    /// The connection has ended, or memory cannot be locked; the buffer is gone.
    pub fn fetch(&self, token: u64, data: Buffer, from: Remote) -> Result<(), RdmaError> {
        let data = self
            .domain
            .register(data, true)
            .map_err(|(_, error)| error)?;
        let mut piece = data.piece(0, usize::MAX);
        let key = self
            .posted
            .borrow_mut()
            .insert(Posted::Fetch { token, data });
        let mut request = request(key as u64, sys::OPCODE_READ, &mut piece);
        request.remote_address = from.address;
        request.remote_key = from.key;
        self.post(&mut request, key, 1)
    }

    /// Has the device write the first `length` bytes of `data` to the other end's memory, where
    /// there are any, and then send `response`, which ends the other end's key `invalidate`.
    ///
    /// # Errors
    /// As [`QueuePair::fetch`].
    pub fn answer(
        &self,
        data: Option<(Buffer, usize, Remote)>,
        response: &[u8; 16],
        invalidate: Option<u32>,
    ) -> Result<(), RdmaError> {
        let mut written = None;
        let mut data_piece = Piece {
            address: 0,
            length: 0,
            local_key: 0,
        };
        let mut to = Remote { address: 0, key: 0 };
        if let Some((buffer, length, remote)) = data {
            let registered = self
                .domain
                .register(buffer, false)
                .map_err(|(_, error)| error)?;
            data_piece = registered.piece(0, length);
            to = remote;
            written = Some(registered);
        }
        let writes = written.is_some();
        let key = self
            .posted
            .borrow_mut()
            .insert(Posted::Answer { data: written });
        let mut response_piece = Piece {
            address: response.as_ptr().addr() as u64,
            length: response.len() as u32,
            local_key: 0,
        };
        let mut send = request(key as u64, sys::OPCODE_SEND, &mut response_piece);
        send.flags |= sys::FLAG_INLINE;
        if let Some(key) = invalidate {
            send.opcode = sys::OPCODE_SEND_INVALIDATE;
            send.invalidate = key;
        }
        if !writes {
            return self.post(&mut send, key, 1);
        }
        let mut write = request(WRITE, sys::OPCODE_WRITE, &mut data_piece);
        write.flags = 0;
        write.remote_address = to.address;
        write.remote_key = to.key;
        write.next = &mut send;
        self.post(&mut write, key, 2)
    }

    fn post(&self, first: &mut SendRequest, key: usize, count: u32) -> Result<(), RdmaError> {
        let Some(post) = self.operations().post_send else {
            return Err(RdmaError::Ended(0));
        };
        let mut bad = null_mut();
        // SAFETY: the driver copies the requests, and what is to be sent inline; other memory they
        // name is in `posted` until the device has ended them, or the queue pair is gone.
        match unsafe { post(self.qp(), first, &mut bad) } {
            0 => {
                self.under_way.set(self.under_way.get() + count);
                Ok(())
            }
            // The first of two may be with the device: its memory stays where it is.
            code if count > 1 => Err(RdmaError::returned("ibv_post_send", code)),
            code => {
                drop(self.posted.borrow_mut().try_remove(key));
                Err(RdmaError::returned("ibv_post_send", code))
            }
        }
    }

    /// Gives what has ended to `each`, and says whether anything had.
    ///
    /// # Errors
    /// The connection has ended, and nothing more will be given.
    pub fn poll(&self, mut each: impl FnMut(Completion<'_>)) -> Result<bool, RdmaError> {
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
            match completion.id {
                id if id & RECEIVE != 0 => self.received(id, completion.bytes, &mut each)?,
                WRITE => {}
                id => self.sent(id, &mut each),
            }
        }
        Ok(count > 0)
    }

    fn received(
        &self,
        id: u64,
        bytes: u32,
        each: &mut impl FnMut(Completion<'_>),
    ) -> Result<(), RdmaError> {
        let place = (id & u64::from(u32::MAX)) as u32;
        let start = place as usize * self.shape.receive_bytes as usize;
        if let Some(receives) = &self.receives {
            each(Completion::Capsule(receives.bytes(start, bytes as usize)));
        }
        self.post_receive(place)
    }

    fn sent(&self, id: u64, each: &mut impl FnMut(Completion<'_>)) {
        let key = usize::try_from(id).unwrap_or(usize::MAX);
        let ended = self.posted.borrow_mut().try_remove(key);
        let (requests, completion) = match ended {
            None => return,
            Some(Posted::Fetch { token, data }) => {
                let data = data.take();
                (1, Completion::Fetched { token, data })
            }
            Some(Posted::Answer { data: None }) => (1, Completion::Answered { data_bytes: 0 }),
            Some(Posted::Answer { data: Some(data) }) => {
                let data_bytes = data.take().len();
                (2, Completion::Answered { data_bytes })
            }
        };
        self.under_way
            .set(self.under_way.get().saturating_sub(requests));
        each(completion);
    }

    /// Asks for a word when something ends from now on. Poll once more before waiting for it.
    ///
    /// # Errors
    /// The device is gone.
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
    ///
    /// # Errors
    /// The device is gone.
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

    /// Ends the connection: everything under way ends, which [`QueuePair::poll`] then says.
    pub fn disconnect(&self) {
        self.link.disconnect();
    }

    /// Whether the other end, or the device, is gone.
    pub fn is_gone(&self) -> bool {
        self.link.gone.get()
    }
}

/// A request that says when it has ended.
fn request(id: u64, opcode: u32, piece: &mut Piece) -> SendRequest {
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

impl Drop for QueuePair {
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
