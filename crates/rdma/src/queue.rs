//! [`QueuePair`]: the end of a connection that takes commands and answers them.
#![allow(unsafe_code, reason = "posts to a queue pair; see the SAFETY lines")]

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use block::Buffer;
use slab::Slab;

use crate::channel::Link;
use crate::domain::{Access, Registered};
use crate::error::RdmaError;
use crate::pair::{Ended, Pair, Remote, Shape, request};
use crate::sys::{self, Piece, SendRequest};

/// A write whose answer follows it; the answer's completion stands for both.
const WRITE: u64 = 1 << 62;

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
    /// Goes first: after it the device reaches none of the memory below.
    pair: Pair,
    shape: Shape,
    posted: RefCell<Slab<Posted>>,
    /// Requests that the device has.
    under_way: Cell<u32>,
    /// Goes last: the device is open until then.
    _link: Rc<Link>,
}

impl QueuePair {
    pub(crate) fn accept(
        link: Rc<Link>,
        shape: &Shape,
        private: &[u8],
    ) -> Result<QueuePair, RdmaError> {
        let pair = Pair::open(Rc::clone(&link), shape)?;
        pair.accept(private)?;
        Ok(QueuePair {
            pair,
            shape: *shape,
            posted: RefCell::default(),
            under_way: Cell::new(0),
            _link: link,
        })
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
            .pair
            .domain
            .register(data, Access::Write)
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
                .pair
                .domain
                .register(buffer, Access::Read)
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
        // SAFETY: what is not sent inline is in `posted` until the device has ended it, or the
        // queue pair is gone.
        match unsafe { self.pair.post_send(first) } {
            Ok(()) => {
                self.under_way.set(self.under_way.get() + count);
                Ok(())
            }
            // The first of two may be with the device: its memory stays where it is.
            Err(error) if count > 1 => Err(error),
            Err(error) => {
                drop(self.posted.borrow_mut().try_remove(key));
                Err(error)
            }
        }
    }

    /// Gives what has ended to `each`, and says whether anything had.
    ///
    /// # Errors
    /// The connection has ended, and nothing more will be given.
    pub fn poll(&self, mut each: impl FnMut(Completion<'_>)) -> Result<bool, RdmaError> {
        self.pair.poll(|ended| match ended {
            Ended::Received(capsule) => each(Completion::Capsule(capsule)),
            Ended::Sent(WRITE) => {}
            Ended::Sent(id) => self.sent(id, &mut each),
        })
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
        self.pair.arm()
    }

    /// Waits for that word.
    ///
    /// # Errors
    /// The device is gone.
    pub async fn wait(&self) -> Result<(), RdmaError> {
        self.pair.wait().await
    }

    /// Ends the connection: everything under way ends, which [`QueuePair::poll`] then says.
    pub fn disconnect(&self) {
        self.pair.link.disconnect();
    }

    /// Whether the other end, or the device, is gone.
    pub fn is_gone(&self) -> bool {
        self.pair.link.gone.get()
    }
}
