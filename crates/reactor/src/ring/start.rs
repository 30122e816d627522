//! Starting operations: into the table that owns their memory, and onto the ring.
#![allow(
    unsafe_code,
    reason = "hands memory to the kernel; see the SAFETY lines"
)]

use std::ops::Range;
use std::os::fd::{AsRawFd, OwnedFd};
use std::rc::Rc;

use block::Buffer;
use io_uring::opcode;
use io_uring::squeue::{Entry, Entry128, EntryMarker};
use io_uring::types::Fd;

use super::Ring;
use super::receives::Receive;
use super::sends::Send;
use crate::context::Context;
use crate::net::SendBatch;
use crate::operation::{Key, Operation, Resource};

/// Starts an operation on `file`; `build` makes the entry from the resource's final place.
///
/// # Safety
/// The entry that `build` returns points to no memory but the heap memory of the resource it is
/// given, within its bounds.
pub(crate) unsafe fn start(
    context: &Rc<Context>,
    file: &Rc<OwnedFd>,
    resource: Resource,
    build: impl FnOnce(Fd, &mut Resource) -> Entry,
) -> Operation {
    let (fd, file) = (Fd(file.as_raw_fd()), Some(Rc::clone(file)));
    // SAFETY: passed on to the caller; `file` is kept open by the entry.
    unsafe { start_on(context, fd, file, resource, build) }
}

/// As [`start`], for operations on no open file.
///
/// # Safety
/// As for [`start`].
pub(crate) unsafe fn start_without_file(
    context: &Rc<Context>,
    resource: Resource,
    build: impl FnOnce(Fd, &mut Resource) -> Entry,
) -> Operation {
    // SAFETY: passed on to the caller.
    unsafe { start_on(context, Fd(libc::AT_FDCWD), None, resource, build) }
}

unsafe fn start_on(
    context: &Rc<Context>,
    fd: Fd,
    file: Option<Rc<OwnedFd>>,
    resource: Resource,
    build: impl FnOnce(Fd, &mut Resource) -> Entry,
) -> Operation {
    let ring = context.ring().expect("this reactor has a ring");
    let (key, entry) = take_in(ring, fd, file, resource, build);
    // SAFETY: the entry points only into the resource, which the table keeps until completion.
    unsafe { ring.push(&entry) };
    Operation::new(Rc::clone(context), key)
}

/// As [`start`], with an entry of 128 bytes.
///
/// # Panics
/// When the ring's entries have 64.
///
/// # Safety
/// As for [`start`].
pub(crate) unsafe fn start_wide(
    context: &Rc<Context>,
    file: &Rc<OwnedFd>,
    resource: Resource,
    build: impl FnOnce(Fd, &mut Resource) -> Entry128,
) -> Operation {
    let ring = context.ring().expect("this reactor has a ring");
    let (fd, file) = (Fd(file.as_raw_fd()), Some(Rc::clone(file)));
    let (key, entry) = take_in(ring, fd, file, resource, build);
    // SAFETY: passed on to the caller; the table keeps resource and file until completion.
    unsafe { ring.push_wide(&entry) };
    Operation::new(Rc::clone(context), key)
}

/// Puts an operation into the table, and makes its entry.
fn take_in<E: EntryMarker>(
    ring: &Ring,
    fd: Fd,
    file: Option<Rc<OwnedFd>>,
    resource: Resource,
    build: impl FnOnce(Fd, &mut Resource) -> E,
) -> (Key, E) {
    let mut operations = ring.operations.borrow_mut();
    let (key, resource) = operations.insert(resource, file);
    let mut entry = build(fd, resource);
    entry.set_user_data(key.user_data());
    (key, entry)
}

/// Starts receiving into the bytes `range` of `buffer`.
///
/// # Panics
/// When the range does not lie within the buffer.
pub(crate) fn start_receive(
    context: &Rc<Context>,
    socket: &Rc<OwnedFd>,
    buffer: Buffer,
    range: Range<usize>,
    flags: i32,
) -> Operation {
    let ring = context.ring().expect("this reactor has a ring");
    let fd = socket.as_raw_fd();
    let mut operations = ring.operations.borrow_mut();
    let file = Some(Rc::clone(socket));
    let (key, resource) = operations.insert(Resource::Buffer(buffer), file);
    let Resource::Buffer(buffer) = resource else {
        unreachable!("given a buffer in the line above")
    };
    let bytes = &mut buffer[range];
    let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    let entry = opcode::Recv::new(Fd(fd), bytes.as_mut_ptr(), length)
        .flags(flags)
        .build()
        .user_data(key.user_data());
    let receive = Receive {
        key,
        socket: fd,
        place: bytes.as_mut_ptr(),
        length: length as usize,
        entry,
    };
    drop(operations);
    // SAFETY: it points into the buffer, which the table keeps until completion.
    unsafe { ring.add_receive(receive, flags == 0) };
    Operation::new(Rc::clone(context), key)
}

/// Starts sending the batch, from byte `sent` on: some of it at the start, all of the rest after
/// that.
pub(crate) fn start_send(
    context: &Rc<Context>,
    socket: &Rc<OwnedFd>,
    batch: SendBatch,
    sent: usize,
) -> Operation {
    let ring = context.ring().expect("this reactor has a ring");
    let fd = socket.as_raw_fd();
    let mut operations = ring.operations.borrow_mut();
    let file = Some(Rc::clone(socket));
    let (key, resource) = operations.insert(Resource::Batch(batch), file);
    let Resource::Batch(batch) = resource else {
        unreachable!("given a batch in the line above")
    };
    let message = batch.message(sent);
    let entry = opcode::SendMsg::new(Fd(fd), message)
        .flags((libc::MSG_NOSIGNAL | libc::MSG_WAITALL) as u32)
        .build()
        .user_data(key.user_data());
    drop(operations);
    // SAFETY: the message is in the boxed parts of the batch, which the table keeps until
    // completion, and points to the batch's own bytes and buffers.
    unsafe {
        if sent == 0 {
            ring.add_send(Send {
                key,
                socket: fd,
                message,
                entry,
            });
        } else {
            // The socket has just refused to take more.
            ring.push(&entry);
        }
    }
    Operation::new(Rc::clone(context), key)
}
