//! Operations in flight on a ring: who waits for them, and the memory they use.
//!
//! *Ownership.* An entry owns every buffer and the descriptor of its operation from submission to
//! the final completion, whatever happens to the future that waits for it. Dropping the future of
//! an unfinished operation orphans the entry and asks the kernel to cancel; the entry is freed
//! when the completion arrives. *Keys.* An entry's key is the `user_data` of its submission:
//! index and generation, so that a late cancellation never hits a successor in the same slot.
#![allow(
    unsafe_code,
    reason = "closes descriptors nobody waits for; see the SAFETY line"
)]

use std::future::Future;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context as PollContext, Poll, Waker};

use block::Buffer;

use crate::context::Context;
use crate::net::{RawAddress, SendBatch};

/// Memory that the kernel may touch while an operation is in flight. Each variant keeps it on the
/// heap, so that entries may move.
pub(crate) enum Resource {
    None,
    Buffer(Buffer),
    /// Buffers, and where they lie as the kernel wants to be told.
    Buffers(Vec<Buffer>, Vec<libc::iovec>),
    Batch(SendBatch),
    Address(Box<RawAddress>),
    /// The peer's address; the operation's result is a new descriptor.
    Accepted(Box<RawAddress>),
    /// The path; the operation's result is a new descriptor.
    Opened(std::ffi::CString),
}

impl Resource {
    fn makes_descriptor(&self) -> bool {
        matches!(self, Resource::Accepted(_) | Resource::Opened(_))
    }
}

/// Index and generation of an operation: the `user_data` of its submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key(u64);

impl Key {
    pub(crate) fn from_user_data(user_data: u64) -> Key {
        Key(user_data)
    }

    pub(crate) fn user_data(self) -> u64 {
        self.0
    }

    fn new(index: u32, generation: u32) -> Key {
        Key(u64::from(generation) << 32 | u64::from(index))
    }

    fn index(self) -> usize {
        self.0 as u32 as usize
    }

    fn generation(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

enum State {
    Free,
    InFlight(Option<Waker>),
    Orphaned,
    Done(i32),
}

struct Entry {
    generation: u32,
    state: State,
    resource: Resource,
    file: Option<Rc<OwnedFd>>,
}

impl Entry {
    fn is_in_flight(&self) -> bool {
        matches!(self.state, State::InFlight(_) | State::Orphaned)
    }
}

/// What an entry held, for the caller to drop or use outside any borrow of the table.
pub(crate) struct Released {
    resource: Resource,
    _file: Option<Rc<OwnedFd>>,
    /// A descriptor that the kernel made for an operation nobody waits for any more.
    _unwanted: Option<OwnedFd>,
}

/// What to do after a completion was entered in the table.
pub(crate) enum Completion {
    Wake(Waker),
    Drop(Released),
    Nothing,
}

/// All operations of a ring that have not been collected.
#[derive(Default)]
pub(crate) struct Operations {
    entries: Vec<Entry>,
    free: Vec<u32>,
    in_flight: usize,
}

impl Operations {
    /// Takes an operation in; the returned resource is where it now lives.
    pub(crate) fn insert(
        &mut self,
        resource: Resource,
        file: Option<Rc<OwnedFd>>,
    ) -> (Key, &mut Resource) {
        let index = self.free.pop().unwrap_or_else(|| {
            self.entries.push(Entry {
                generation: 0,
                state: State::Free,
                resource: Resource::None,
                file: None,
            });
            (self.entries.len() - 1) as u32
        });
        let entry = &mut self.entries[index as usize];
        entry.state = State::InFlight(None);
        entry.resource = resource;
        entry.file = file;
        self.in_flight += 1;
        (Key::new(index, entry.generation), &mut entry.resource)
    }

    /// Notes the final completion of the operation `key`.
    pub(crate) fn complete(&mut self, key: Key, result: i32) -> Completion {
        let entry = &mut self.entries[key.index()];
        assert_eq!(
            entry.generation,
            key.generation(),
            "a completion for an operation that was collected before"
        );
        self.in_flight -= 1;
        match std::mem::replace(&mut entry.state, State::Done(result)) {
            State::InFlight(Some(waker)) => Completion::Wake(waker),
            State::InFlight(None) => Completion::Nothing,
            State::Orphaned => Completion::Drop(self.discard(key, result)),
            State::Free | State::Done(_) => panic!("an operation completed twice"),
        }
    }

    /// The result of `key` if it is done, else remembers `waker`.
    fn poll(&mut self, key: Key, waker: &Waker) -> Option<(i32, Released)> {
        let entry = &mut self.entries[key.index()];
        match &mut entry.state {
            State::Done(result) => {
                let result = *result;
                Some((result, self.release(key)))
            }
            State::InFlight(Some(current)) => {
                current.clone_from(waker);
                None
            }
            State::InFlight(empty) => {
                *empty = Some(waker.clone());
                None
            }
            State::Free | State::Orphaned => panic!("an operation was polled after its end"),
        }
    }

    /// Nobody waits for `key` any more. What it held if it is done; `None` if it is in flight.
    fn orphan(&mut self, key: Key) -> Option<Released> {
        let entry = &mut self.entries[key.index()];
        match entry.state {
            State::Done(result) => Some(self.discard(key, result)),
            _ => {
                entry.state = State::Orphaned;
                None
            }
        }
    }

    /// Releases an operation whose outcome nobody wants.
    fn discard(&mut self, key: Key, result: i32) -> Released {
        let mut released = self.release(key);
        if released.resource.makes_descriptor() && result >= 0 {
            // SAFETY: the kernel has just made this descriptor, and nobody else will see it.
            released._unwanted = Some(unsafe { OwnedFd::from_raw_fd(result) });
        }
        released
    }

    fn release(&mut self, key: Key) -> Released {
        let entry = &mut self.entries[key.index()];
        entry.state = State::Free;
        entry.generation = entry.generation.wrapping_add(1);
        self.free.push(key.index() as u32);
        Released {
            resource: std::mem::replace(&mut entry.resource, Resource::None),
            _file: entry.file.take(),
            _unwanted: None,
        }
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// How many operations the kernel has on files of which `is_it` is true, whether somebody waits
    /// for them or not.
    pub(crate) fn in_flight_on(&self, is_it: impl Fn(&OwnedFd) -> bool) -> usize {
        let in_flight = self.entries.iter().filter(|entry| entry.is_in_flight());
        let files = in_flight.filter_map(|entry| entry.file.as_deref());
        files.filter(|file| is_it(file)).count()
    }

    /// The keys of all operations whose completion has not come.
    pub(crate) fn keys_in_flight(&self) -> Vec<Key> {
        (0_u32..)
            .zip(&self.entries)
            .filter(|(_, entry)| entry.is_in_flight())
            .map(|(index, entry)| Key::new(index, entry.generation))
            .collect()
    }

    /// Gives up the memory of operations that the kernel would not let go of.
    pub(crate) fn leak(&mut self) {
        std::mem::forget(std::mem::take(&mut self.entries));
    }
}

/// The future of one operation. Gives the kernel's result and the resource back.
pub(crate) struct Operation {
    context: Rc<Context>,
    key: Key,
    collected: bool,
}

impl Operation {
    pub(crate) fn new(context: Rc<Context>, key: Key) -> Operation {
        Operation {
            context,
            key,
            collected: false,
        }
    }
}

impl Future for Operation {
    type Output = (io::Result<u32>, Resource);

    fn poll(mut self: Pin<&mut Self>, context: &mut PollContext<'_>) -> Poll<Self::Output> {
        let ring = self
            .context
            .ring()
            .expect("operations exist only on a ring");
        let done = ring
            .operations()
            .borrow_mut()
            .poll(self.key, context.waker());
        let Some((result, released)) = done else {
            return Poll::Pending;
        };
        self.collected = true;
        let result = u32::try_from(result).map_err(|_| io::Error::from_raw_os_error(-result));
        Poll::Ready((result, released.resource))
    }
}

impl Drop for Operation {
    fn drop(&mut self) {
        if self.collected {
            return;
        }
        let Some(ring) = self.context.ring() else {
            return;
        };
        let released = ring.operations().borrow_mut().orphan(self.key);
        if released.is_none() {
            ring.cancel(self.key);
        }
    }
}
