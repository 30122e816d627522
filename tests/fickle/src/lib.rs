//! A drive that works until it is told not to: a file that this process serves through FUSE, so
//! that a node meets the failure where a real drive's would be, in the answer of io_uring. And a
//! directory that does the same.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod directory;

pub use directory::{FickleDirectory, Manner};

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, SystemTime};

use fuser::{
    BackgroundSession, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation,
    INodeNo, LockOwner, MountOption, OpenFlags, ReplyAttr, ReplyData, ReplyEmpty, ReplyEntry,
    ReplyOpen, ReplyWrite, Request, WriteFlags,
};
use tempfile::TempDir;

/// The file's name below the mount.
const NAME: &str = "drive";
const DRIVE: INodeNo = INodeNo(2);
const BLOCK_BYTES: u64 = 4096;
/// Where a pool's first superblock says how many blocks a label has.
const SLOT_BLOCKS_AT: u64 = BLOCK_BYTES + 128;
/// The kernel asks again at once: nothing here changes by itself.
const NO_TIME: Duration = Duration::ZERO;

/// How the drive takes requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mood {
    /// As it should.
    Works,
    /// Every write and flush ends in an I/O error.
    FailsWrites,
    /// Every request ends in an I/O error.
    Fails,
    /// Every read of its last block, in which a pool has one of its superblocks, and of the block
    /// in which that has its copy ends in an I/O error, until the last one is written.
    FailsLastLabel,
    /// Every read of what has never been written ends in an I/O error, but for the first block.
    FailsUnwritten,
    /// No flush is answered until it is in another mood; everything else is.
    Waits,
    /// Neither reads nor writes nor flushes are answered until it is in another mood.
    Hangs,
}

impl Mood {
    /// Whether flushes wait, or requests of any kind.
    fn waits(self, flush: bool) -> bool {
        self == Mood::Hangs || flush && self == Mood::Waits
    }
}

struct Shared {
    mood: Mutex<Mood>,
    changed: Condvar,
    waiting: AtomicU32,
}

impl Shared {
    fn mood(&self) -> Mood {
        *self.mood.lock().unwrap()
    }

    fn set(&self, mood: Mood) {
        *self.mood.lock().unwrap() = mood;
        self.changed.notify_all();
    }

    /// The mood in which a request is answered.
    fn mood_of_answer(&self, flush: bool) -> Mood {
        let mood = self.mood.lock().unwrap();
        let waits = |mood: &mut Mood| mood.waits(flush);
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let mood = *self.changed.wait_while(mood, waits).unwrap();
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        mood
    }
}

/// The drive; it is gone when this is dropped.
pub struct FickleDrive {
    shared: Arc<Shared>,
    mount: TempDir,
    _session: BackgroundSession,
}

impl FickleDrive {
    /// One of so many bytes, all of them zero.
    pub fn new(bytes: u64) -> FickleDrive {
        let mount = tempfile::tempdir().unwrap();
        let file = tempfile::tempfile().unwrap();
        file.set_len(bytes).unwrap();
        let shared = Arc::new(Shared {
            mood: Mutex::new(Mood::Works),
            changed: Condvar::new(),
            waiting: AtomicU32::new(0),
        });
        let served = Served(Arc::new(Contents {
            file,
            bytes,
            written: Mutex::default(),
            shared: Arc::clone(&shared),
        }));
        let mut config = fuser::Config::default();
        config.mount_options = vec![MountOption::FSName("fickle".to_owned())];
        let session = fuser::spawn_mount(served, mount.path(), &config).unwrap();
        FickleDrive {
            shared,
            mount,
            _session: session,
        }
    }

    /// Where a node finds it.
    pub fn path(&self) -> PathBuf {
        self.mount.path().join(NAME)
    }

    /// How many requests it keeps waiting.
    pub fn waiting(&self) -> u32 {
        self.shared.waiting.load(Ordering::Relaxed)
    }

    /// Takes requests like this from now on.
    pub fn set(&self, mood: Mood) {
        self.shared.set(mood);
    }
}

impl Drop for FickleDrive {
    fn drop(&mut self) {
        // Nobody is left waiting for it: not even the kernel can end a process that does.
        self.set(Mood::Fails);
    }
}

/// The drive as its file system has it.
struct Served(Arc<Contents>);

impl Served {
    /// Gives an answer: at once, or by a thread of its own as soon as the drive answers again.
    fn answer(&self, answer: impl FnOnce(&Contents) + Send + 'static) {
        let contents = Arc::clone(&self.0);
        if contents.shared.mood() != Mood::Hangs {
            return answer(&contents);
        }
        std::thread::spawn(move || {
            contents.shared.mood_of_answer(false);
            answer(&contents);
        });
    }
}

struct Contents {
    file: File,
    bytes: u64,
    /// Blocks that have been written.
    written: Mutex<BTreeSet<u64>>,
    shared: Arc<Shared>,
}

impl Contents {
    fn is_last(&self, offset: u64, bytes: usize) -> bool {
        offset + bytes as u64 > self.bytes - BLOCK_BYTES
    }

    /// Whether it is where the superblock in the last block has its copy, by what the first
    /// superblock says (`docs/formats/pool.md`).
    fn is_copy(&self, offset: u64, bytes: usize) -> bool {
        let mut slot_blocks = [0; 4];
        let told = self.file.read_exact_at(&mut slot_blocks, SLOT_BLOCKS_AT);
        let back = u64::from(u32::from_le_bytes(slot_blocks)) * BLOCK_BYTES;
        let copy = self.bytes.saturating_sub(back) / BLOCK_BYTES;
        told.is_ok() && back > 0 && Contents::blocks(offset, bytes).contains(&copy)
    }

    fn blocks(offset: u64, bytes: usize) -> std::ops::Range<u64> {
        offset / BLOCK_BYTES..(offset + bytes as u64).div_ceil(BLOCK_BYTES)
    }

    fn has_all(&self, offset: u64, bytes: usize) -> bool {
        let written = self.written.lock().unwrap();
        let mut blocks = Contents::blocks(offset, bytes);
        // Whether a drive reads at all, a node sees by its first block.
        blocks.all(|block| block == 0 || written.contains(&block))
    }

    fn read(&self, offset: u64, size: usize, reply: ReplyData) {
        let label = self.is_last(offset, size) || self.is_copy(offset, size);
        match self.shared.mood() {
            Mood::Fails => return reply.error(Errno::EIO),
            Mood::FailsLastLabel if label => return reply.error(Errno::EIO),
            Mood::FailsUnwritten if !self.has_all(offset, size) => {
                return reply.error(Errno::EIO);
            }
            _ => {}
        }
        let mut bytes = vec![0; size];
        match self.file.read_at(&mut bytes, offset) {
            Ok(read) => reply.data(&bytes[..read]),
            Err(_) => reply.error(Errno::EIO),
        }
    }

    fn write(&self, offset: u64, data: &[u8], reply: ReplyWrite) {
        let works = !matches!(self.shared.mood(), Mood::Fails | Mood::FailsWrites);
        if self.shared.mood() == Mood::FailsLastLabel && self.is_last(offset, data.len()) {
            self.shared.set(Mood::Works);
        }
        match works && self.file.write_all_at(data, offset).is_ok() {
            true => {
                let blocks = Contents::blocks(offset, data.len());
                self.written.lock().unwrap().extend(blocks);
                reply.written(data.len() as u32);
            }
            false => reply.error(Errno::EIO),
        }
    }

    fn attributes(&self, inode: INodeNo) -> FileAttr {
        let directory = inode == INodeNo::ROOT;
        let never = SystemTime::UNIX_EPOCH;
        FileAttr {
            ino: inode,
            size: if directory { 0 } else { self.bytes },
            blocks: self.bytes / 512,
            atime: never,
            mtime: never,
            ctime: never,
            crtime: never,
            kind: if directory {
                FileType::Directory
            } else {
                FileType::RegularFile
            },
            perm: if directory { 0o700 } else { 0o600 },
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        }
    }
}

impl Filesystem for Served {
    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match parent == INodeNo::ROOT && name == NAME {
            true => reply.entry(&NO_TIME, &self.0.attributes(DRIVE), Generation(0)),
            false => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Request, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&NO_TIME, &self.0.attributes(inode));
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        reply.opened(FileHandle(0), FopenFlags::FOPEN_DIRECT_IO);
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        self.answer(move |contents| contents.read(offset, size as usize, reply));
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let data = data.to_vec();
        self.answer(move |contents| contents.write(offset, &data, reply));
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        let shared = Arc::clone(&self.0.shared);
        std::thread::spawn(move || match shared.mood_of_answer(true) {
            Mood::Works | Mood::FailsLastLabel | Mood::FailsUnwritten => reply.ok(),
            _ => reply.error(Errno::EIO),
        });
    }
}
