//! Files and block devices by offset: [`File`].
//!
//! Nothing here blocks the reactor: what the ring cannot do goes to a helper thread. Under
//! simulation files live in memory, by path, for as long as the simulation.
#![allow(unsafe_code, reason = "starts ring operations; see the SAFETY lines")]

mod backing;
mod identity;
mod nvme;
mod open;
mod queue;
mod shared;
mod simulated;
mod vectored;

use std::ffi::CString;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::rc::Rc;

use block::{Buffer, Durability};
use io_uring::{opcode, squeue, types};
use rustix::fs::{FallocateFlags, FileType, FlockOperation};

use crate::blocking::blocking;
use crate::context::{self, Context};
use crate::operation::Resource;
use crate::ring;
use backing::Backing;
pub use identity::FileIdentity;
pub use nvme::{AdminAnswer, AdminCommand};
pub use open::OpenOptions;
use open::open_at;
pub use queue::BlockQueue;
pub use shared::SharedFile;
use simulated::SimulatedHandle;

enum Kind {
    Descriptor(Rc<OwnedFd>),
    Simulated(SimulatedHandle),
}

/// An open file or block device.
pub struct File {
    kind: Kind,
    context: Rc<Context>,
    direct: bool,
    block_device: bool,
    backing: Backing,
}

impl File {
    /// Opens `path`.
    ///
    /// # Errors
    /// The system's: not found, exists, not allowed.
    ///
    /// # Panics
    /// Outside a reactor.
    pub async fn open(path: impl AsRef<Path>, options: &OpenOptions) -> io::Result<File> {
        let context = context::current();
        if let Some(world) = context.world() {
            let file = world.files().open(path.as_ref(), options)?;
            let direct = options.direct && !file.is_page_cached();
            return Ok(File {
                kind: Kind::Simulated(SimulatedHandle::new(file)),
                context,
                direct,
                block_device: false,
                backing: Backing::LOCAL,
            });
        }
        let path = path.as_ref();
        let mut options = *options;
        options.claim &= rustix::fs::stat(path)
            .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::BlockDevice);
        let options = &options;
        let path = CString::new(path.as_os_str().as_bytes())?;
        let mut direct = options.direct;
        let descriptor = match open_at(&context, path.clone(), options, direct).await {
            // A file system without O_DIRECT says so at open.
            Err(error) if direct && error.raw_os_error() == Some(libc::EINVAL) => {
                direct = false;
                // By then it has made a file that was to be new.
                let again = OpenOptions {
                    create: options.create || options.create_new,
                    create_new: false,
                    ..*options
                };
                open_at(&context, path, &again, direct).await?
            }
            other => other?,
        };
        let kind = FileType::from_raw_mode(rustix::fs::fstat(&descriptor)?.st_mode);
        let block_device = kind == FileType::BlockDevice;
        let (descriptor, backing) = match block_device {
            true => (descriptor, Backing::LOCAL),
            false => Backing::of(descriptor).await,
        };
        Ok(File {
            kind: Kind::Descriptor(Rc::new(descriptor)),
            context,
            direct,
            block_device,
            backing,
        })
    }

    /// Whether the page cache is bypassed. Offsets, lengths and buffers must then be multiples of
    /// the drive's block size.
    pub fn is_direct(&self) -> bool {
        self.direct
    }

    /// Whether a read sees each block as it was before or after a write of it. The page cache
    /// copies both at once, in parts of any length.
    pub fn keeps_blocks_whole(&self) -> bool {
        self.direct && self.backing.reaches_device
    }

    /// Whether this is a block device.
    pub fn is_block_device(&self) -> bool {
        self.block_device
    }

    /// The present size of the file or block device.
    ///
    /// # Errors
    /// The system's.
    pub fn size_bytes(&self) -> io::Result<u64> {
        match &self.kind {
            Kind::Simulated(handle) => Ok(handle.file.size_bytes()),
            // Seeking says the size of block devices too, and nothing here uses the position.
            Kind::Descriptor(descriptor) => {
                Ok(rustix::fs::seek(descriptor, rustix::fs::SeekFrom::End(0))?)
            }
        }
    }

    /// What the system says about a block device; `None` for files.
    pub async fn block_queue(&self) -> Option<BlockQueue> {
        match &self.kind {
            Kind::Descriptor(descriptor) if self.block_device => {
                let device = rustix::fs::fstat(descriptor).ok()?.st_rdev;
                Some(blocking(move || BlockQueue::of(device)).await)
            }
            _ => None,
        }
    }

    /// Takes the lock that other processes, and other openings in this one, see; false if one of
    /// them has it. It is released when the file is closed, also by a crash.
    ///
    /// # Errors
    /// The system's.
    pub fn try_lock_exclusive(&self) -> io::Result<bool> {
        match &self.kind {
            Kind::Simulated(handle) => Ok(handle.try_lock()),
            Kind::Descriptor(descriptor) => {
                match rustix::fs::flock(descriptor, FlockOperation::NonBlockingLockExclusive) {
                    Ok(()) => Ok(true),
                    Err(rustix::io::Errno::WOULDBLOCK) => Ok(false),
                    Err(error) => Err(error.into()),
                }
            }
        }
    }

    /// Fills `buffer` from `offset`; fewer bytes than that only at the end of the file.
    ///
    /// # Errors
    /// The system's.
    pub async fn read_at(&self, mut buffer: Buffer, offset: u64) -> (Buffer, io::Result<usize>) {
        let descriptor = match &self.kind {
            Kind::Descriptor(descriptor) => descriptor,
            Kind::Simulated(handle) => {
                let count = self.simulated_read(handle, &mut buffer, offset).await;
                return (buffer, Ok(count));
            }
        };
        let mut done = 0;
        while done < buffer.len() {
            let (back, result) = self
                .transfer(descriptor, buffer, done, |fd, place, length| {
                    opcode::Read::new(fd, place, length)
                        .offset(offset + done as u64)
                        .build()
                })
                .await;
            buffer = back;
            match result {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return (buffer, Err(error)),
            }
        }
        (buffer, Ok(done))
    }

    /// Writes `buffer` at `offset`.
    ///
    /// # Errors
    /// The system's. The range may then hold any mixture of old and new blocks.
    pub async fn write_at(
        &self,
        mut buffer: Buffer,
        offset: u64,
        durability: Durability,
    ) -> (Buffer, io::Result<()>) {
        let descriptor = match &self.kind {
            Kind::Descriptor(descriptor) => descriptor,
            Kind::Simulated(handle) => {
                self.simulated_latency().await;
                self.simulated_write(handle, &buffer, offset).await;
                self.simulated_latency().await;
                return (buffer, Ok(()));
            }
        };
        let flags = write_flags(durability);
        let mut done = 0;
        while done < buffer.len() {
            let (back, result) = self
                .transfer(descriptor, buffer, done, |fd, place, length| {
                    opcode::Write::new(fd, place, length)
                        .offset(offset + done as u64)
                        .rw_flags(flags)
                        .build()
                })
                .await;
            buffer = back;
            match result {
                Ok(0) => return (buffer, Err(ErrorKind::WriteZero.into())),
                Ok(count) => done += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return (buffer, Err(error)),
            }
        }
        (buffer, Ok(()))
    }

    /// One system call's worth of a transfer, from byte `done` of the buffer on.
    async fn transfer(
        &self,
        descriptor: &Rc<OwnedFd>,
        buffer: Buffer,
        done: usize,
        build: impl FnOnce(types::Fd, *mut u8, u32) -> squeue::Entry,
    ) -> (Buffer, io::Result<usize>) {
        // SAFETY: the entry points into the buffer, to the rest of it.
        let operation = unsafe {
            ring::start(
                &self.context,
                descriptor,
                Resource::Buffer(buffer),
                |fd, resource| {
                    let Resource::Buffer(buffer) = resource else {
                        unreachable!("given a buffer in the line above")
                    };
                    let rest = &mut buffer[done..];
                    let length = rest.len().min(TRANSFER_BYTES_MAX) as u32;
                    self.never_in_the_call(build(fd, rest.as_mut_ptr(), length))
                },
            )
        };
        match operation.await {
            (result, Resource::Buffer(buffer)) => (buffer, result.map(|count| count as usize)),
            _ => unreachable!("an operation gives back what it was given"),
        }
    }

    /// Has a thread of the kernel's wait where it would otherwise wait in the call itself.
    fn never_in_the_call(&self, entry: squeue::Entry) -> squeue::Entry {
        match self.backing.elsewhere {
            true => entry.flags(squeue::Flags::ASYNC),
            false => entry,
        }
    }

    /// Makes durable what was written before (fdatasync).
    ///
    /// # Errors
    /// The system's. What was written since the last success may then be lost for good.
    pub async fn sync(&self) -> io::Result<()> {
        match &self.kind {
            Kind::Simulated(_) => {
                self.simulated_latency().await;
                Ok(())
            }
            Kind::Descriptor(descriptor) => {
                let flags = types::FsyncFlags::DATASYNC;
                self.command(descriptor, |fd| opcode::Fsync::new(fd).flags(flags).build())
                    .await
            }
        }
    }

    /// Makes the bytes from `offset` read as zeroes and gives their space back.
    ///
    /// # Errors
    /// `Unsupported` where the file system or drive cannot; otherwise the system's.
    pub async fn punch_hole(&self, offset: u64, bytes: u64) -> io::Result<()> {
        self.zero(
            offset,
            bytes,
            FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE,
        )
        .await
    }

    /// Makes the bytes from `offset` read as zeroes; the space stays allocated.
    ///
    /// # Errors
    /// `Unsupported` where the file system or drive cannot; otherwise the system's.
    pub async fn zero_range(&self, offset: u64, bytes: u64) -> io::Result<()> {
        self.zero(
            offset,
            bytes,
            FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE,
        )
        .await
    }

    async fn zero(&self, offset: u64, bytes: u64, mode: FallocateFlags) -> io::Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        match &self.kind {
            Kind::Simulated(handle) => {
                self.simulated_latency().await;
                handle.file.zero(offset, bytes);
                Ok(())
            }
            Kind::Descriptor(descriptor) => {
                let mode = mode.bits() as i32;
                self.command(descriptor, |fd| {
                    opcode::Fallocate::new(fd, bytes)
                        .offset(offset)
                        .mode(mode)
                        .build()
                })
                .await
            }
        }
    }

    /// Changes a file's size; new bytes read as zeroes and take no space.
    ///
    /// # Errors
    /// The system's; block devices refuse.
    pub async fn set_size(&self, bytes: u64) -> io::Result<()> {
        match &self.kind {
            Kind::Simulated(handle) => {
                handle.file.set_size(bytes);
                Ok(())
            }
            Kind::Descriptor(descriptor) => {
                // The ring can truncate only since Linux 6.9.
                let descriptor = descriptor.as_fd().try_clone_to_owned()?;
                blocking(move || rustix::fs::ftruncate(descriptor, bytes)).await?;
                Ok(())
            }
        }
    }

    /// An operation that uses no memory of ours.
    async fn command(
        &self,
        descriptor: &Rc<OwnedFd>,
        build: impl FnOnce(types::Fd) -> squeue::Entry,
    ) -> io::Result<()> {
        // SAFETY: the entries of fsync and fallocate point to no memory.
        let operation =
            unsafe { ring::start(&self.context, descriptor, Resource::None, |fd, _| build(fd)) };
        operation.await.0.map(|_| ())
    }
}

fn write_flags(durability: Durability) -> i32 {
    match durability {
        Durability::Cached => 0,
        Durability::Durable => libc::RWF_DSYNC,
    }
}

/// The kernel transfers at most 2 GiB less a page per call.
const TRANSFER_BYTES_MAX: usize = 1 << 30;
