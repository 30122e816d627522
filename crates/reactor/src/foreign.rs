//! [`Queues`]: bytes in memory, for a C library that reads and writes through callbacks and would
//! otherwise be given a socket.
#![allow(
    unsafe_code,
    reason = "a C library passes pointers; see the SAFETY lines"
)]

use std::cell::RefCell;
use std::ffi::{c_int, c_void};

thread_local! {
    /// The queues that the library reads and writes now.
    static CURRENT: RefCell<Option<Queues>> = const { RefCell::new(None) };
}

/// What has come for a library, and what it wants to send.
#[derive(Debug, Default)]
pub struct Queues {
    incoming: Vec<u8>,
    /// How much of `incoming` has been read.
    taken: usize,
    /// What the library wrote. Whoever sends it empties it.
    pub outgoing: Vec<u8>,
}

/// Gives the queues back to where they belong, also when the work panics.
struct Lent<'a> {
    owner: &'a mut Queues,
    outer: Option<Queues>,
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        let back = CURRENT.replace(self.outer.take());
        *self.owner = back.unwrap_or_default();
    }
}

impl Queues {
    /// Adds what has come.
    pub fn arrived(&mut self, bytes: &[u8]) {
        if self.taken > 0 {
            self.incoming.drain(..self.taken);
            self.taken = 0;
        }
        self.incoming.extend_from_slice(bytes);
    }

    /// Does `work`, in which [`receive`] and [`send`] mean these queues.
    pub fn during<T>(&mut self, work: impl FnOnce() -> T) -> T {
        let outer = CURRENT.replace(Some(std::mem::take(self)));
        let _lent = Lent { owner: self, outer };
        work()
    }

    fn take(&mut self, room: usize) -> &[u8] {
        let start = self.taken;
        self.taken = self.incoming.len().min(start + room);
        self.incoming.get(start..self.taken).unwrap_or_default()
    }
}

/// Gives up to `room` bytes to the library: like `recv` on a socket that does not block.
///
/// # Safety
/// `into` points to `room` bytes that may be written.
pub unsafe extern "C" fn receive(_context: *mut c_void, into: *mut u8, room: u32) -> c_int {
    CURRENT.with_borrow_mut(|current| {
        let room = room.min(i32::MAX as u32) as usize;
        let bytes = match current {
            Some(queues) => queues.take(room),
            None => &[],
        };
        if bytes.is_empty() {
            // SAFETY: every thread has its own.
            unsafe { *libc::__errno_location() = libc::EAGAIN };
            return -1;
        }
        // SAFETY: at most `room` bytes, into memory that nobody else has.
        unsafe { into.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        bytes.len() as c_int
    })
}

/// Takes `length` bytes from the library: like `send`.
///
/// # Safety
/// `from` points to `length` bytes that may be read.
pub unsafe extern "C" fn send(_context: *mut c_void, from: *const u8, length: u32) -> c_int {
    CURRENT.with_borrow_mut(|current| {
        let length = length.min(i32::MAX as u32);
        let Some(queues) = current else {
            // SAFETY: as above.
            unsafe { *libc::__errno_location() = libc::EPIPE };
            return -1;
        };
        // SAFETY: the library says so, and keeps the bytes until this returns.
        let bytes = unsafe { std::slice::from_raw_parts(from, length as usize) };
        queues.outgoing.extend_from_slice(bytes);
        length as c_int
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(room: u32) -> Option<Vec<u8>> {
        let mut buffer = [0; 16];
        // SAFETY: room is at most the buffer's.
        let count = unsafe { receive(std::ptr::null_mut(), buffer.as_mut_ptr(), room) };
        usize::try_from(count)
            .ok()
            .map(|count| buffer[..count].to_vec())
    }

    fn write(bytes: &[u8]) -> c_int {
        // SAFETY: the slice's own length.
        unsafe { send(std::ptr::null_mut(), bytes.as_ptr(), bytes.len() as u32) }
    }

    #[test]
    fn a_library_reads_what_has_come_and_no_more() {
        let mut queues = Queues::default();
        queues.arrived(b"abcdef");
        assert_eq!(queues.during(|| read(4)), Some(b"abcd".to_vec()));
        queues.arrived(b"gh");
        assert_eq!(queues.during(|| read(16)), Some(b"efgh".to_vec()));
        assert_eq!(queues.during(|| read(16)), None);
    }

    #[test]
    fn queues_are_their_owners_alone() {
        let (mut one, mut other) = (Queues::default(), Queues::default());
        other.arrived(b"other");
        one.during(|| {
            assert_eq!(write(b"1"), 1);
            other.during(|| {
                assert_eq!(read(16), Some(b"other".to_vec()));
                write(b"2");
            });
            write(b"3");
        });
        assert_eq!(
            (&one.outgoing[..], &other.outgoing[..]),
            (&b"13"[..], &b"2"[..])
        );
        assert_eq!((read(16), write(b"x")), (None, -1));
    }

    #[test]
    fn queues_come_back_from_work_that_panics() {
        let mut queues = Queues::default();
        queues.arrived(b"kept");
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            queues.during(|| panic!("as a test does"));
        }));
        assert!(panicked.is_err());
        assert_eq!(queues.during(|| read(16)), Some(b"kept".to_vec()));
    }
}
