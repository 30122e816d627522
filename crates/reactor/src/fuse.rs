//! [`FuseEntry`]: memory in which the kernel's FUSE leaves requests and finds answers.
//!
//! FUSE over io_uring (Linux 6.14, `Documentation/filesystems/fuse/fuse-io-uring.rst`): a command
//! to `/dev/fuse` lends an entry to the kernel and completes when a request is in it; the next one
//! commits the answer and lends it again. The kernel remembers where an entry lies, so what it
//! lends must always be the same memory: that is why this is here, and no command of any content
//! to any driver, which could name memory of anybody's. What the requests mean is not known here.
#![allow(
    unsafe_code,
    reason = "lends memory to the kernel for good; see the SAFETY lines"
)]

use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::rc::Rc;

use block::Buffer;
use io_uring::opcode::UringCmd80;
use io_uring::squeue::Entry128;
use io_uring::types::Fd;
use rustix::fs::FileType;

use crate::context::{self, Context};
use crate::operation::Resource;
use crate::ring;

/// Major and minor number of `/dev/fuse` (Linux's `admin-guide/devices.txt`).
const DEVICE: (u32, u32) = (10, 229);

/// `FUSE_IO_URING_CMD_REGISTER` and `FUSE_IO_URING_CMD_COMMIT_AND_FETCH`: linux/fuse.h.
const REGISTER: u32 = 1;
const COMMIT_AND_FETCH: u32 = 2;

/// `struct fuse_uring_req_header`: room for the request's or answer's own header, for what comes
/// with the operation, and the frame of both, which is a `struct fuse_uring_ent_in_out`.
const HEADER_BYTES: usize = 288;
const ARGUMENTS_AT: usize = 128;
const FRAME_AT: usize = 256;

/// In the frame: the number that names the request, and how long the payload is.
const COMMIT_ID_AT: usize = FRAME_AT + 8;
const PAYLOAD_LENGTH_AT: usize = FRAME_AT + 16;

/// Bytes of an answer's header, `struct fuse_out_header`.
pub const ANSWER_HEADER_BYTES: usize = 16;

/// Where `len` is in a `struct io_uring_sqe`.
const ENTRY_LENGTH_AT: usize = 24;

/// A request as it lies in its entry.
#[derive(Clone, Copy, Debug)]
pub struct FuseRequest<'a> {
    /// 128 bytes, which begin with `struct fuse_in_header`.
    pub header: &'a [u8],
    /// 128 bytes, which begin with the operation's own structure; the header tells how long it is.
    pub arguments: &'a [u8],
    /// What else belongs to the request: names, a write's data.
    pub payload: &'a [u8],
}

/// Whose turn it is to use the memory.
enum Turn {
    /// The kernel does not know it yet.
    Unknown,
    /// There is a request in it, of this number.
    Ours(u64),
    /// The kernel has it, or has given it up: it never comes back to us.
    Over,
}

/// One entry of a queue of a mounted FUSE file system.
pub struct FuseEntry {
    context: Rc<Context>,
    device: Rc<OwnedFd>,
    queue: u16,
    /// Where the payload lies.
    payload: NonNull<u8>,
    payload_bytes: usize,
    turn: Turn,
    /// The header, and the payload unless that was taken; none while the kernel has them.
    buffers: Vec<Buffer>,
    /// Where the two lie, as the kernel wants to be told.
    vectors: Vec<libc::iovec>,
}

impl FuseEntry {
    /// A new entry of the queue `queue` of the file system that `device` serves, for requests and
    /// answers of at most `payload_bytes`.
    ///
    /// # Errors
    /// `Unsupported` when `device` is not `/dev/fuse`, under simulation, and on reactors without
    /// [`wide_entries`](crate::ReactorConfig::wide_entries); otherwise the system's.
    ///
    /// # Panics
    /// Outside a reactor.
    pub fn new(device: &Rc<OwnedFd>, queue: u16, payload_bytes: usize) -> io::Result<FuseEntry> {
        let context = context::current();
        let wide = context.ring().is_some_and(ring::Ring::is_wide);
        let stat = rustix::fs::fstat(device)?;
        let number = (
            rustix::fs::major(stat.st_rdev),
            rustix::fs::minor(stat.st_rdev),
        );
        let character = FileType::from_raw_mode(stat.st_mode) == FileType::CharacterDevice;
        if !wide || !character || number != DEVICE {
            return Err(ErrorKind::Unsupported.into());
        }
        let mut buffers = vec![Buffer::zeroed(HEADER_BYTES), Buffer::new(payload_bytes)];
        let vectors = buffers.iter_mut().map(|buffer| libc::iovec {
            iov_base: buffer.as_mut_ptr().cast(),
            iov_len: buffer.len(),
        });
        let vectors: Vec<_> = vectors.collect();
        let payload = NonNull::from(&mut buffers[1][..]).cast();
        Ok(FuseEntry {
            context,
            device: Rc::clone(device),
            queue,
            payload,
            payload_bytes,
            turn: Turn::Unknown,
            buffers,
            vectors,
        })
    }

    /// Lends the entry to the kernel, with the answer to the request that is in it if there is one,
    /// and waits for the next request. An entry that is not waited for any more is lost.
    ///
    /// # Errors
    /// The system's: `NotConnected` once the file system is unmounted or its connection was
    /// aborted, and always after any other error; at the first call whatever makes the kernel
    /// refuse the entry.
    ///
    /// # Panics
    /// When the payload was taken and not put back.
    pub async fn next(&mut self) -> io::Result<()> {
        let (command, commit_id) = match std::mem::replace(&mut self.turn, Turn::Over) {
            Turn::Unknown => (REGISTER, 0),
            Turn::Ours(commit_id) => (COMMIT_AND_FETCH, commit_id),
            Turn::Over => return Err(ErrorKind::NotConnected.into()),
        };
        assert_eq!(self.buffers.len(), 2, "the payload was not put back");
        let argument = argument(commit_id, self.queue);
        let buffers = std::mem::take(&mut self.buffers);
        let vectors = std::mem::take(&mut self.vectors);
        // SAFETY: the entry points to the vectors if to anything, and they to the buffers; all of
        // it is on the heap, and the operation's until it completes. The kernel uses the buffers
        // while a command is in flight and at no other time. A commit names no memory: it means
        // what was registered, which `turn` and `put_payload` hold to be these buffers.
        let operation = unsafe {
            let resource = Resource::Buffers(buffers, vectors);
            ring::start_wide(&self.context, &self.device, resource, |fd, resource| {
                let Resource::Buffers(_, vectors) = resource else {
                    unreachable!("given buffers in the line above")
                };
                match command {
                    REGISTER => register(fd, argument, vectors),
                    _ => UringCmd80::new(fd, command).cmd(argument).build(),
                }
            })
        };
        let (result, resource) = operation.await;
        let Resource::Buffers(buffers, vectors) = resource else {
            unreachable!("an operation gives back what it was given")
        };
        (self.buffers, self.vectors) = (buffers, vectors);
        result?;
        let commit_id = self.buffers[0][COMMIT_ID_AT..].first_chunk();
        self.turn = Turn::Ours(commit_id.map_or(0, |bytes| u64::from_ne_bytes(*bytes)));
        Ok(())
    }

    /// The number of the request that is in the entry, which its answer has to carry, too.
    pub fn unique(&self) -> u64 {
        match self.turn {
            Turn::Ours(commit_id) => commit_id,
            _ => 0,
        }
    }

    /// What is in the entry: the request that [`FuseEntry::next`] has waited for.
    pub fn request(&self) -> FuseRequest<'_> {
        let header: &[u8] = self.buffers.first().map_or(&[], |header| header);
        let payload: &[u8] = self.buffers.get(1).map_or(&[], |payload| payload);
        let length = header.get(PAYLOAD_LENGTH_AT..).unwrap_or(&[]);
        let length = length.first_chunk().map_or(0, |&it| u32::from_ne_bytes(it));
        FuseRequest {
            header: header.get(..ARGUMENTS_AT).unwrap_or(&[]),
            arguments: header.get(ARGUMENTS_AT..FRAME_AT).unwrap_or(&[]),
            payload: payload.get(..length as usize).unwrap_or(&[]),
        }
    }

    /// Takes the payload's memory out, to be filled or emptied by somebody else.
    ///
    /// # Panics
    /// When it is not there.
    pub fn take_payload(&mut self) -> Buffer {
        assert_eq!(self.buffers.len(), 2, "there is no payload to take");
        self.buffers.swap_remove(1)
    }

    /// Puts the payload's memory back.
    ///
    /// # Panics
    /// When it is not what was taken.
    pub fn put_payload(&mut self, mut payload: Buffer) {
        assert!(
            self.buffers.len() == 1
                && payload.as_ptr() == self.payload.as_ptr()
                && payload.capacity() >= self.payload_bytes,
            "another payload than was taken"
        );
        payload.resize(self.payload_bytes);
        self.buffers.push(payload);
    }

    /// Puts an answer into the entry, whose payload is the first `payload_bytes` of the memory for
    /// it; the next call of [`FuseEntry::next`] gives it.
    pub fn answer(&mut self, header: &[u8; ANSWER_HEADER_BYTES], payload_bytes: usize) {
        let Some(place) = self.buffers.first_mut() else {
            return;
        };
        let length = payload_bytes.min(self.payload_bytes) as u32;
        place[..ANSWER_HEADER_BYTES].copy_from_slice(header);
        place[PAYLOAD_LENGTH_AT..][..4].copy_from_slice(&length.to_ne_bytes());
    }
}

/// `struct fuse_uring_cmd_req`: flags, the request's number, the queue.
fn argument(commit_id: u64, queue: u16) -> [u8; 80] {
    let mut argument = [0; 80];
    argument[8..16].copy_from_slice(&commit_id.to_ne_bytes());
    argument[16..18].copy_from_slice(&queue.to_ne_bytes());
    argument
}

/// The command that tells the kernel where an entry's memory is.
fn register(fd: Fd, argument: [u8; 80], vectors: &[libc::iovec]) -> Entry128 {
    let mut entry = UringCmd80::new(fd, REGISTER)
        .cmd(argument)
        .addr(Some(vectors.as_ptr() as u64))
        .build();
    // SAFETY: the entry is a `struct io_uring_sqe` of 128 bytes, in the kernel's layout; how many
    // vectors there are is one more of its numbers, for which the library has no method.
    unsafe {
        let length = (&raw mut entry).byte_add(ENTRY_LENGTH_AT).cast::<u32>();
        length.write(vectors.len() as u32);
    }
    entry
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;
    use crate::{Reactor, ReactorConfig};

    fn wide() -> Reactor {
        let config = ReactorConfig {
            wide_entries: true,
            ..ReactorConfig::default()
        };
        Reactor::io_uring(config).unwrap()
    }

    fn opened(path: &str) -> Rc<OwnedFd> {
        let file = File::options().read(true).write(true).open(path).unwrap();
        Rc::new(file.into())
    }

    /// The layouts of linux/fuse.h and linux/io_uring.h.
    #[test]
    fn commands_are_what_the_kernel_expects() {
        let sizes = [128 + 128 + 8 + 8 + 4 + 4 + 8, 8 + 8 + 2 + 6];
        assert_eq!((HEADER_BYTES, 24), (sizes[0], sizes[1]));
        let expected = [[0; 8], 7_u64.to_ne_bytes(), [3, 0, 0, 0, 0, 0, 0, 0]].concat();
        assert_eq!(argument(7, 3)[..24], expected);
        let vectors = [libc::iovec {
            iov_base: std::ptr::null_mut(),
            iov_len: 0,
        }; 2];
        let entry = register(Fd(5), argument(0, 3), &vectors).user_data(9);
        assert_eq!(size_of_val(&entry), 128);
        // SAFETY: 128 bytes, each of them initialised.
        let bytes: [u8; 128] = unsafe { std::mem::transmute(entry) };
        // IORING_OP_URING_CMD, the descriptor, the command, the vectors and their number.
        assert_eq!((bytes[0], &bytes[4..8]), (46, &5_i32.to_ne_bytes()[..]));
        assert_eq!(bytes[8..12], REGISTER.to_ne_bytes());
        assert_eq!(bytes[16..24], (vectors.as_ptr() as u64).to_ne_bytes());
        assert_eq!(bytes[24..28], 2_u32.to_ne_bytes());
        assert_eq!(bytes[32..40], 9_u64.to_ne_bytes());
        assert_eq!(bytes[48..128], argument(0, 3));
    }

    #[test]
    fn only_fuse_and_only_a_wide_ring_has_entries() {
        let unsupported = |path: &str| {
            let refused = FuseEntry::new(&opened(path), 0, 8192).err().unwrap();
            assert_eq!(refused.kind(), ErrorKind::Unsupported, "{path}");
        };
        wide().run(async { unsupported("/dev/null") });
        Reactor::simulated(1).run(async { unsupported("/dev/fuse") });
        let narrow = Reactor::io_uring(ReactorConfig::default()).unwrap();
        narrow.run(async { unsupported("/dev/fuse") });
    }

    /// A device that serves no file system takes no entries; the memory comes back, unused.
    #[test]
    fn what_the_kernel_refuses_is_over() {
        wide().run(async {
            let mut entry = FuseEntry::new(&opened("/dev/fuse"), 0, 8192).unwrap();
            entry.next().await.unwrap_err();
            let again = entry.next().await.unwrap_err();
            assert_eq!((again.kind(), entry.unique()), (ErrorKind::NotConnected, 0));
            assert!(entry.request().payload.is_empty());
            let payload = entry.take_payload();
            assert_eq!(payload.len(), 8192);
            entry.put_payload(payload);
        });
    }

    #[test]
    #[should_panic(expected = "another payload than was taken")]
    fn the_payload_that_comes_back_is_the_one_that_was_taken() {
        wide().run(async {
            let mut entry = FuseEntry::new(&opened("/dev/fuse"), 0, 8192).unwrap();
            let _taken = entry.take_payload();
            entry.put_payload(Buffer::new(8192));
        });
    }
}
