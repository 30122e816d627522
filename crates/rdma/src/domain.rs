//! [`Domain`]: a protection domain of a device, and memory that is registered in it.
#![allow(unsafe_code, reason = "calls libibverbs; see the SAFETY lines")]

use std::io;
use std::rc::Rc;

use block::Buffer;

use crate::error::RdmaError;
use crate::library::Functions;
use crate::pair::Remote;
use crate::sys::{self, Context, Mr, Pd};

/// A protection domain: memory that is registered in it is reached by its queue pairs alone.
pub struct Domain {
    functions: &'static Functions,
    pub pd: *mut Pd,
}

/// Who reaches the memory of a buffer, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// The device reads it.
    Read,
    /// The device reads and writes it.
    Write,
    /// The other end reads it, by its key.
    ReadByOther,
    /// The other end writes it, by its key.
    WriteByOther,
}

impl Access {
    fn flags(self) -> i32 {
        match self {
            Access::Read => 0,
            Access::Write => sys::ACCESS_LOCAL_WRITE,
            Access::ReadByOther => sys::ACCESS_REMOTE_READ,
            // The device wants the one with the other.
            Access::WriteByOther => sys::ACCESS_LOCAL_WRITE | sys::ACCESS_REMOTE_WRITE,
        }
    }
}

/// Memory of a buffer that the device may reach, until this is dropped.
pub struct Registered {
    domain: Rc<Domain>,
    mr: *mut Mr,
    buffer: Buffer,
}

impl Domain {
    /// `verbs` is an open device of the library.
    pub fn open(functions: &'static Functions, verbs: *mut Context) -> Result<Domain, RdmaError> {
        // SAFETY: the connection manager opened the device for a link, which is there.
        let pd = unsafe { (functions.ibv_alloc_pd)(verbs) };
        match pd.is_null() {
            true => Err(RdmaError::last("ibv_alloc_pd")),
            false => Ok(Domain { functions, pd }),
        }
    }

    /// Lets a buffer's memory be reached.
    pub fn register(
        self: &Rc<Self>,
        mut buffer: Buffer,
        access: Access,
    ) -> Result<Registered, (Buffer, RdmaError)> {
        let access = access.flags();
        let (address, length) = (buffer.as_mut_ptr(), buffer.len());
        // SAFETY: the memory is the buffer's, which `Registered` holds until the device cannot
        // reach it any more.
        let mr = unsafe { (self.functions.ibv_reg_mr)(self.pd, address.cast(), length, access) };
        if mr.is_null() {
            return Err((buffer, refused(length)));
        }
        Ok(Registered {
            domain: Rc::clone(self),
            mr,
            buffer,
        })
    }
}

/// Why memory was not registered: mostly since the process may not lock as much.
fn refused(needed: usize) -> RdmaError {
    let source = io::Error::last_os_error();
    let limit = rustix::process::getrlimit(rustix::process::Resource::Memlock);
    match (source.raw_os_error(), limit.current) {
        (Some(libc::ENOMEM), Some(allowed)) => RdmaError::MemoryLock { needed, allowed },
        _ => RdmaError::Call {
            call: "ibv_reg_mr",
            source,
        },
    }
}

impl Drop for Domain {
    fn drop(&mut self) {
        // SAFETY: whatever was made in the domain held it.
        unsafe { (self.functions.ibv_dealloc_pd)(self.pd) };
    }
}

impl Registered {
    /// The `length` bytes from `start` on, for a request; clipped to the buffer.
    pub fn piece(&self, start: usize, length: usize) -> sys::Piece {
        let start = start.min(self.buffer.len());
        let length = length.min(self.buffer.len() - start);
        sys::Piece {
            address: (self.buffer.as_ptr().addr() + start) as u64,
            length: u32::try_from(length).unwrap_or(u32::MAX),
            // SAFETY: the registration lives as long as this.
            local_key: unsafe { (*self.mr).local_key },
        }
    }

    /// Where the other end reaches the buffer.
    pub fn remote(&self) -> Remote {
        Remote {
            address: self.buffer.as_ptr().addr() as u64,
            // SAFETY: the registration lives as long as this.
            key: unsafe { (*self.mr).remote_key },
        }
    }

    /// Puts bytes into memory that the device is not to look at meanwhile; what has no room there
    /// is left out.
    pub fn put(&mut self, start: usize, bytes: &[u8]) {
        let into = self.buffer.get_mut(start..).unwrap_or_default();
        let length = into.len().min(bytes.len());
        into[..length].copy_from_slice(&bytes[..length]);
    }

    /// What lies in memory. The device may be writing elsewhere in the buffer.
    pub fn bytes(&self, start: usize, length: usize) -> &[u8] {
        let end = start.saturating_add(length);
        self.buffer.get(start..end).unwrap_or_default()
    }

    /// The buffer, which the device cannot reach any more.
    pub fn take(mut self) -> Buffer {
        std::mem::replace(&mut self.buffer, Buffer::new(0))
        // Dropped here, before the buffer is used again.
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        // SAFETY: made by `register`, and ended once.
        unsafe { (self.domain.functions.ibv_dereg_mr)(self.mr) };
    }
}
