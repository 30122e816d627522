//! Receives that are not given to the ring yet.
//!
//! A receive that finds nothing costs the ring a look at the socket, a place in the socket's
//! wait queue, and, when data comes, a wake-up and another look: about a microsecond at each end
//! of a connection that has one request in flight. While the loop polls anyway it can look
//! itself. So the latest few receives are tried directly, once a turn and while polling; they
//! go to the ring when the loop is about to sleep, or when later ones take their place. They also
//! come behind whatever the same turn sends, which need not wait for them.
#![allow(
    unsafe_code,
    reason = "receives into memory of operations; see the SAFETY lines"
)]

use std::os::fd::RawFd;

use io_uring::squeue;

use crate::operation::Key;

/// Receives tried directly; more connections than this are cheaper to watch through the ring.
const TRIED_MAX: usize = 4;

/// A receive that has not been given to the ring.
pub(super) struct Receive {
    pub(super) key: Key,
    pub(super) socket: RawFd,
    pub(super) place: *mut u8,
    pub(super) length: usize,
    /// What the ring is given in the end.
    pub(super) entry: squeue::Entry,
}

impl Receive {
    /// Receives what is there; `None` if nothing is.
    ///
    /// # Safety
    /// The socket is open, and the memory valid.
    unsafe fn attempt(&self) -> Option<i32> {
        // SAFETY: passed on to the caller.
        let count = unsafe {
            libc::recv(
                self.socket,
                self.place.cast(),
                self.length,
                libc::MSG_DONTWAIT,
            )
        };
        super::finished(count)
    }
}

/// The receives that are tried directly, oldest first. Their operations are in the table, which
/// keeps their memory and sockets.
#[derive(Default)]
pub(super) struct Receives {
    tried: Vec<Receive>,
}

impl Receives {
    /// Adds a receive; the one that has to go to the ring in exchange, if any.
    pub(super) fn add(&mut self, receive: Receive) -> Option<squeue::Entry> {
        let oldest = (self.tried.len() == TRIED_MAX).then(|| self.tried.remove(0).entry);
        self.tried.push(receive);
        oldest
    }

    /// Forgets a receive; false if it is not here.
    pub(super) fn remove(&mut self, key: Key) -> bool {
        let position = self.tried.iter().position(|receive| receive.key == key);
        position
            .map(|position| self.tried.remove(position))
            .is_some()
    }

    /// Takes out a receive that has come to an end, and its result.
    pub(super) fn try_next(&mut self) -> Option<(Key, i32)> {
        let done = self
            .tried
            .iter()
            .enumerate()
            .find_map(|(position, receive)| {
                // SAFETY: the table of operations keeps the buffer and the socket.
                unsafe { receive.attempt() }.map(|result| (position, result))
            });
        done.map(|(position, result)| (self.tried.remove(position).key, result))
    }

    /// Takes out the oldest, to be given to the ring.
    pub(super) fn pop(&mut self) -> Option<squeue::Entry> {
        (!self.tried.is_empty()).then(|| self.tried.remove(0).entry)
    }
}
