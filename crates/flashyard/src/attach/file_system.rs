//! A file system of one file, which is the volume.

use std::ffi::OsStr;
use std::io;
use std::time::{Duration, UNIX_EPOCH};

use block::{Buffer, Geometry, IoError};
use fuser::{
    Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, InitFlags,
    KernelConfig, LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyDirectory, ReplyEmpty,
    ReplyEntry, ReplyOpen, ReplyWrite, Request as Asked, WriteFlags,
};
use reactor::mailbox;

use super::bridge::{Request, submit};

/// The file's name.
pub const FILE: &str = "volume";

/// The file's inode; the directory's is the root's.
const VOLUME: INodeNo = INodeNo(2);

/// Nothing here ever changes behind the kernel's back.
const FOREVER: Duration = Duration::from_secs(86_400);

/// Requests that the kernel keeps outstanding on its own account; its usual 12 would be the limit
/// of every queue depth above.
const BACKGROUND: u16 = 256;

/// Largest write in one request.
const WRITE_BYTES: u32 = 1 << 20;

/// `fallocate`'s modes, from `linux/falloc.h`.
const KEEP_SIZE: i32 = 1;
const PUNCH_HOLE: i32 = 2;
const ZERO_RANGE: i32 = 16;

pub struct VolumeFile {
    pub requests: mailbox::Sender<Request>,
    pub geometry: Geometry,
}

impl VolumeFile {
    fn attributes(&self, inode: INodeNo) -> Option<FileAttr> {
        let (kind, perm, size) = match inode {
            INodeNo::ROOT => (FileType::Directory, 0o700, 0),
            VOLUME => (FileType::RegularFile, 0o600, self.geometry.capacity_bytes()),
            _ => return None,
        };
        Some(FileAttr {
            ino: inode,
            size,
            blocks: size / 512,
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind,
            perm,
            nlink: 1,
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
            rdev: 0,
            blksize: self.geometry.block_bytes,
            flags: 0,
        })
    }
}

/// The errno that says most of what the error says.
fn errno(error: IoError) -> Errno {
    match error {
        IoError::OutOfRange | IoError::InvalidRequest => Errno::EINVAL,
        IoError::CapacityExceeded => Errno::ENOSPC,
        IoError::WriteProtected => Errno::EROFS,
        IoError::NotReady => Errno::EAGAIN,
        _ => Errno::EIO,
    }
}

fn empty(reply: ReplyEmpty) -> super::bridge::Done {
    Box::new(move |result| match result {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(errno(error)),
    })
}

impl Filesystem for VolumeFile {
    fn init(&mut self, _: &Asked, config: &mut KernelConfig) -> io::Result<()> {
        // A kernel that offers less gets along with less.
        let _ = config.add_capabilities(InitFlags::FUSE_ASYNC_DIO);
        let _ = config.set_max_background(BACKGROUND);
        let _ = config.set_congestion_threshold(BACKGROUND);
        let _ = config.set_max_write(WRITE_BYTES);
        Ok(())
    }

    fn lookup(&self, _: &Asked, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match self.attributes(VOLUME) {
            Some(found) if parent == INodeNo::ROOT && name == FILE => {
                reply.entry(&FOREVER, &found, Generation(0));
            }
            _ => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Asked, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.attributes(inode) {
            Some(found) => reply.attr(&FOREVER, &found),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn open(&self, _: &Asked, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let direct = FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES;
        reply.opened(FileHandle(0), direct);
    }

    fn read(
        &self,
        _: &Asked,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let request = Request::Read {
            offset,
            bytes: size as usize,
            done: Box::new(move |result| match result {
                Ok(data) => reply.data(data),
                Err(error) => reply.error(errno(error)),
            }),
        };
        submit(&self.requests, request);
    }

    fn write(
        &self,
        _: &Asked,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let bytes = data.len() as u32;
        let request = Request::Write {
            offset,
            data: Buffer::copy_of(data),
            done: Box::new(move |result| match result {
                Ok(()) => reply.written(bytes),
                Err(error) => reply.error(errno(error)),
            }),
        };
        submit(&self.requests, request);
    }

    fn flush(&self, _: &Asked, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn fsync(&self, _: &Asked, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        submit(&self.requests, Request::Flush { done: empty(reply) });
    }

    fn fallocate(
        &self,
        _: &Asked,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let bytes = length;
        let request = match mode & !KEEP_SIZE {
            PUNCH_HOLE => Request::Deallocate {
                offset,
                bytes,
                done: empty(reply),
            },
            ZERO_RANGE => Request::WriteZeroes {
                offset,
                bytes,
                done: empty(reply),
            },
            _ => return reply.error(Errno::EOPNOTSUPP),
        };
        submit(&self.requests, request);
    }

    fn readdir(
        &self,
        _: &Asked,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let entries = [
            (INodeNo::ROOT, FileType::Directory, "."),
            (INodeNo::ROOT, FileType::Directory, ".."),
            (VOLUME, FileType::RegularFile, FILE),
        ];
        for (next, (inode, kind, name)) in (1..).zip(entries).skip(offset as usize) {
            if reply.add(inode, next, kind, name) {
                break;
            }
        }
        reply.ok();
    }
}
