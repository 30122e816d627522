//! [`FickleDirectory`]: a directory that works until it is told not to. This process serves it
//! through FUSE, so a program meets the fault in the answer of each system call.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, SystemTime};

use fuser::{
    BackgroundSession, BsdFileFlags, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags,
    Generation, INodeNo, LockOwner, MountOption, OpenAccMode, OpenFlags, RenameFlags, ReplyAttr,
    ReplyCreate, ReplyData, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyWrite, Request, TimeOrNow,
    WriteFlags,
};
use tempfile::TempDir;

use crate::NO_TIME;

/// How the directory takes requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// As it should.
    Works,
    /// Whatever takes room is refused.
    Full,
    /// Whatever changes something is refused.
    ReadOnly,
    /// Everything ends in an I/O error.
    Fails,
    /// Nothing is answered until it has another manner.
    Hangs,
    /// Everything is answered so much later.
    Slow(Duration),
    /// Everything ends in the error of a device that is gone.
    Gone,
}

/// What a request is, as far as it may be refused.
#[derive(Clone, Copy)]
enum Kind {
    Asks,
    Changes,
    TakesRoom,
}

impl Manner {
    fn refuses(self, kind: Kind) -> Option<Errno> {
        match (self, kind) {
            (Manner::Full, Kind::TakesRoom) => Some(Errno::ENOSPC),
            (Manner::ReadOnly, Kind::Changes | Kind::TakesRoom) => Some(Errno::EROFS),
            (Manner::Fails, _) => Some(Errno::EIO),
            (Manner::Gone, _) => Some(Errno::ENODEV),
            _ => None,
        }
    }

    fn is_late(self) -> bool {
        matches!(self, Manner::Hangs | Manner::Slow(_))
    }
}

/// The directory, without directories in it; it is gone when this is dropped.
pub struct FickleDirectory {
    files: Arc<Files>,
    // Dropped before what it is mounted on.
    _session: BackgroundSession,
    mount: TempDir,
}

impl FickleDirectory {
    /// An empty one, which works.
    pub fn new() -> FickleDirectory {
        let mount = tempfile::tempdir().unwrap();
        let files = Arc::new(Files {
            behind: tempfile::tempdir().unwrap(),
            manner: Mutex::new(Manner::Works),
            changed: Condvar::new(),
            names: Mutex::default(),
            open: Mutex::default(),
        });
        let mut config = fuser::Config::default();
        config.mount_options = vec![MountOption::FSName("fickle".to_owned())];
        let served = Served(Arc::clone(&files));
        let session = fuser::spawn_mount(served, mount.path(), &config).unwrap();
        FickleDirectory {
            files,
            _session: session,
            mount,
        }
    }

    /// Where programs find it.
    pub fn path(&self) -> &Path {
        self.mount.path()
    }

    /// Where its files are, whatever its manner.
    pub fn behind(&self) -> &Path {
        self.files.behind.path()
    }

    /// Takes requests like this from now on, and those that wait.
    pub fn set(&self, manner: Manner) {
        *self.files.manner.lock().unwrap() = manner;
        self.files.changed.notify_all();
    }
}

impl Default for FickleDirectory {
    fn default() -> FickleDirectory {
        FickleDirectory::new()
    }
}

impl Drop for FickleDirectory {
    fn drop(&mut self) {
        // Nobody is left waiting for it: not even the kernel can end a process that does.
        self.set(Manner::Fails);
    }
}

struct Files {
    behind: TempDir,
    manner: Mutex<Manner>,
    changed: Condvar,
    /// Names of files by their numbers, which are those behind.
    names: Mutex<BTreeMap<u64, OsString>>,
    /// By handle, the least of which is 1.
    open: Mutex<BTreeMap<u64, Arc<File>>>,
}

impl Files {
    fn path(&self, name: &OsStr) -> PathBuf {
        self.behind.path().join(name)
    }

    fn place(&self, inode: INodeNo) -> io::Result<PathBuf> {
        if inode == INodeNo::ROOT {
            return Ok(self.behind.path().to_owned());
        }
        let names = self.names.lock().unwrap();
        let name = names.get(&inode.0).map(|name| self.path(name));
        name.ok_or_else(|| failure(Errno::ENOENT))
    }

    /// What is called `name`, which its number stands for from now on.
    fn found(&self, name: &OsStr) -> io::Result<FileAttr> {
        let metadata = self.path(name).symlink_metadata()?;
        let mut names = self.names.lock().unwrap();
        names.insert(metadata.ino(), name.to_owned());
        Ok(attributes(INodeNo(metadata.ino()), &metadata))
    }

    fn attributes(&self, inode: INodeNo) -> io::Result<FileAttr> {
        let metadata = self.place(inode)?.symlink_metadata()?;
        Ok(attributes(inode, &metadata))
    }

    fn keep(&self, file: File) -> FileHandle {
        let mut open = self.open.lock().unwrap();
        let handle = open.keys().next_back().map_or(1, |last| last + 1);
        open.insert(handle, Arc::new(file));
        FileHandle(handle)
    }

    fn opened(&self, handle: FileHandle) -> io::Result<Arc<File>> {
        let open = self.open.lock().unwrap();
        let file = open.get(&handle.0).cloned();
        file.ok_or_else(|| failure(Errno::EBADF))
    }

    fn rename(&self, from: &OsStr, to: &OsStr, flags: RenameFlags) -> io::Result<()> {
        let (old, new) = (self.path(from), self.path(to));
        if flags.contains(RenameFlags::RENAME_NOREPLACE) && new.exists() {
            return Err(failure(Errno::EEXIST));
        }
        std::fs::rename(old, new)?;
        self.found(to).map(drop)
    }
}

fn failure(what: Errno) -> io::Error {
    io::Error::from_raw_os_error(what.into())
}

fn attributes(inode: INodeNo, metadata: &Metadata) -> FileAttr {
    let never = SystemTime::UNIX_EPOCH;
    FileAttr {
        ino: inode,
        size: metadata.size(),
        blocks: metadata.blocks(),
        atime: never,
        mtime: never,
        ctime: never,
        crtime: never,
        kind: match metadata.is_dir() {
            true => FileType::Directory,
            false => FileType::RegularFile,
        },
        perm: (metadata.mode() & 0o7777) as u16,
        nlink: metadata.nlink() as u32,
        uid: metadata.uid(),
        gid: metadata.gid(),
        rdev: 0,
        blksize: 4096,
        flags: 0,
    }
}

/// The directory as its file system has it.
struct Served(Arc<Files>);

impl Served {
    /// Does what a request asks for and replies, as the manner is: at once, or on a thread of its
    /// own that waits.
    fn serve<T>(
        &self,
        kind: Kind,
        work: impl FnOnce(&Files) -> io::Result<T> + Send + 'static,
        reply: impl FnOnce(Result<T, Errno>) + Send + 'static,
    ) {
        let files = Arc::clone(&self.0);
        let late = files.manner.lock().unwrap().is_late();
        let serve = move || {
            let manner = files.manner.lock().unwrap();
            let hangs = |manner: &mut Manner| *manner == Manner::Hangs;
            let manner = *files.changed.wait_while(manner, hangs).unwrap();
            if let Manner::Slow(by) = manner {
                thread::sleep(by);
            }
            reply(match manner.refuses(kind) {
                Some(refusal) => Err(refusal),
                None => work(&files).map_err(Errno::from),
            });
        };
        match late {
            true => drop(thread::spawn(serve)),
            false => serve(),
        }
    }

    fn serve_empty(
        &self,
        kind: Kind,
        work: impl FnOnce(&Files) -> io::Result<()> + Send + 'static,
        reply: ReplyEmpty,
    ) {
        self.serve(kind, work, |done| match done {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(error),
        });
    }

    fn serve_attributes(
        &self,
        kind: Kind,
        work: impl FnOnce(&Files) -> io::Result<FileAttr> + Send + 'static,
        reply: ReplyAttr,
    ) {
        self.serve(kind, work, |done| match done {
            Ok(attributes) => reply.attr(&NO_TIME, &attributes),
            Err(error) => reply.error(error),
        });
    }
}

impl Filesystem for Served {
    fn lookup(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let name = name.to_owned();
        let found = move |files: &Files| files.found(&name);
        self.serve(Kind::Asks, found, |done| match done {
            Ok(attributes) => reply.entry(&NO_TIME, &attributes, Generation(0)),
            Err(error) => reply.error(error),
        });
    }

    fn getattr(&self, _: &Request, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        self.serve_attributes(Kind::Asks, move |files| files.attributes(inode), reply);
    }

    fn setattr(
        &self,
        _: &Request,
        inode: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let kind = match size {
            Some(1..) => Kind::TakesRoom,
            _ => Kind::Changes,
        };
        let set = move |files: &Files| {
            let path = files.place(inode)?;
            if let Some(size) = size {
                OpenOptions::new().write(true).open(&path)?.set_len(size)?;
            }
            if let Some(mode) = mode {
                std::fs::set_permissions(&path, Permissions::from_mode(mode))?;
            }
            chown(&path, uid, gid)?;
            files.attributes(inode)
        };
        self.serve_attributes(kind, set, reply);
    }

    fn open(&self, _: &Request, inode: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let writes = flags.acc_mode() != OpenAccMode::O_RDONLY;
        let kind = if writes { Kind::Changes } else { Kind::Asks };
        let open = move |files: &Files| {
            let mut options = OpenOptions::new();
            let file = options.read(true).write(writes).open(files.place(inode)?)?;
            Ok(files.keep(file))
        };
        self.serve(kind, open, |done| match done {
            Ok(handle) => reply.opened(handle, FopenFlags::FOPEN_DIRECT_IO),
            Err(error) => reply.error(error),
        });
    }

    fn create(
        &self,
        _: &Request,
        _: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        _: i32,
        reply: ReplyCreate,
    ) {
        let name = name.to_owned();
        let create = move |files: &Files| {
            let mut options = OpenOptions::new();
            options.read(true).write(true).create(true).truncate(false);
            let file = options.mode(mode & !umask).open(files.path(&name))?;
            Ok((files.found(&name)?, files.keep(file)))
        };
        self.serve(Kind::TakesRoom, create, |done| match done {
            Ok((attributes, handle)) => {
                let direct = FopenFlags::FOPEN_DIRECT_IO;
                reply.created(&NO_TIME, &attributes, Generation(0), handle, direct);
            }
            Err(error) => reply.error(error),
        });
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let read = move |files: &Files| {
            let mut bytes = vec![0; size as usize];
            let length = files.opened(handle)?.read_at(&mut bytes, offset)?;
            bytes.truncate(length);
            Ok(bytes)
        };
        self.serve(Kind::Asks, read, |done| match done {
            Ok(bytes) => reply.data(&bytes),
            Err(error) => reply.error(error),
        });
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let data = data.to_vec();
        let write = move |files: &Files| {
            files.opened(handle)?.write_all_at(&data, offset)?;
            Ok(data.len() as u32)
        };
        self.serve(Kind::TakesRoom, write, |done| match done {
            Ok(written) => reply.written(written),
            Err(error) => reply.error(error),
        });
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        // What is behind need not survive this process.
        self.serve_empty(Kind::Asks, |_| Ok(()), reply);
    }

    fn fsyncdir(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        self.serve_empty(Kind::Asks, |_| Ok(()), reply);
    }

    fn release(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        self.0.open.lock().unwrap().remove(&handle.0);
        reply.ok();
    }

    fn unlink(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let name = name.to_owned();
        let unlink = move |files: &Files| std::fs::remove_file(files.path(&name));
        self.serve_empty(Kind::Changes, unlink, reply);
    }

    fn rename(
        &self,
        _: &Request,
        _: INodeNo,
        name: &OsStr,
        _: INodeNo,
        new: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let (name, new) = (name.to_owned(), new.to_owned());
        let rename = move |files: &Files| files.rename(&name, &new, flags);
        self.serve_empty(Kind::Changes, rename, reply);
    }
}
