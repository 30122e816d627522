//! Opening files.
#![allow(unsafe_code, reason = "starts a ring operation; see the SAFETY lines")]

use std::ffi::CString;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::rc::Rc;

use io_uring::opcode;

use crate::context::Context;
use crate::operation::Resource;
use crate::ring;

/// How to open a file. By default: an existing one, for reading, through the page cache.
#[derive(Clone, Copy, Debug, Default)]
pub struct OpenOptions {
    /// Allow writing.
    pub write: bool,
    /// Make the file if it does not exist.
    pub create: bool,
    /// Make the file; fail if it exists.
    pub create_new: bool,
    /// Bypass the page cache where the file system can; [`is_direct`](super::File::is_direct) says
    /// whether it does.
    pub direct: bool,
    /// Fail on a block device that is mounted, or that someone else has claimed.
    pub claim: bool,
}

/// Opens through the ring, since a path may lead to a slow file system.
pub(super) async fn open_at(
    context: &Rc<Context>,
    path: CString,
    options: &OpenOptions,
    direct: bool,
) -> io::Result<OwnedFd> {
    let mut flags = libc::O_CLOEXEC;
    flags |= if options.write {
        libc::O_RDWR
    } else {
        libc::O_RDONLY
    };
    if options.create || options.create_new {
        flags |= libc::O_CREAT;
    }
    // On a block device, without O_CREAT, this is the claim.
    if options.create_new || options.claim {
        flags |= libc::O_EXCL;
    }
    if direct {
        flags |= libc::O_DIRECT;
    }
    // SAFETY: the entry points to the heap memory of the path, which does not change.
    let operation = unsafe {
        ring::start_without_file(context, Resource::Opened(path), |fd, resource| {
            let Resource::Opened(path) = resource else {
                unreachable!("given a path in the line above")
            };
            opcode::OpenAt::new(fd, path.as_ptr())
                .flags(flags)
                .mode(0o600)
                .build()
        })
    };
    let descriptor = operation.await.0?;
    // SAFETY: the kernel has just made this descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor as RawFd) })
}
