//! Sends that are not given to the ring yet.
//!
//! A lone send is done directly when the turn ends, which spares the detour of an entry and a
//! completion; several go to the ring together, in one system call.
#![allow(
    unsafe_code,
    reason = "sends memory of operations; see the SAFETY lines"
)]

use std::os::fd::RawFd;

use io_uring::squeue;

use crate::operation::Key;

/// A send that has not been given to the ring.
pub(super) struct Send {
    pub(super) key: Key,
    pub(super) socket: RawFd,
    pub(super) message: *const libc::msghdr,
    /// What the ring is given.
    pub(super) entry: squeue::Entry,
}

impl Send {
    /// Sends what the socket takes at once; `None` if that is nothing.
    ///
    /// # Safety
    /// The socket is open, and the message and all it points to valid.
    unsafe fn attempt(&self) -> Option<i32> {
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        // SAFETY: passed on to the caller.
        let count = unsafe { libc::sendmsg(self.socket, self.message, flags) };
        super::finished(count)
    }
}

/// The sends of this turn, in order. Their operations are in the table, which keeps their memory
/// and sockets.
#[derive(Default)]
pub(super) struct Sends {
    waiting: Vec<Send>,
}

impl Sends {
    pub(super) fn add(&mut self, send: Send) {
        self.waiting.push(send);
    }

    /// Forgets a send; false if it is not here.
    pub(super) fn remove(&mut self, key: Key) -> bool {
        let position = self.waiting.iter().position(|send| send.key == key);
        position
            .map(|position| self.waiting.remove(position))
            .is_some()
    }

    /// Does the only send, if there is just one; its result, unless the socket takes nothing now.
    pub(super) fn try_only(&mut self) -> Option<(Key, i32)> {
        let [only] = &self.waiting[..] else {
            return None;
        };
        // SAFETY: the table of operations keeps the message and the socket.
        let result = unsafe { only.attempt() }?;
        self.waiting.pop().map(|send| (send.key, result))
    }

    /// Takes all out, to be given to the ring.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = squeue::Entry> {
        self.waiting.drain(..).map(|send| send.entry)
    }
}
