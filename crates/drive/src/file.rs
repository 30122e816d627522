//! [`FileDrive`]: a regular file or a block device.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use block::{BlockDevice, BlockRange, Buffer, Durability, Geometry, IoError, Lba};
use reactor::file::{File, FileIdentity, OpenOptions, SharedFile};

use crate::flush_group::{FlushFailure, FlushGroup};
use crate::loop_device;
use crate::open_error::OpenError;
use crate::range_lock::{Access, RangeGuard, RangeLock};
use crate::transfer::{check_range, check_transfer, check_vectored};

/// Zeroes are written in pieces of this size where the file system has no call for it.
const ZERO_BYTES: usize = 1 << 20;

/// How to open a file or block device as a drive.
#[derive(Clone, Copy, Debug)]
pub struct FileOptions {
    /// The block size to present: a power of two from 512 to 4096.
    pub block_bytes: u32,
    /// Make a sparse file of this size if nothing is there.
    pub create_bytes: Option<u64>,
}

impl Default for FileOptions {
    /// Blocks of 4 KiB; nothing is made.
    fn default() -> FileOptions {
        FileOptions {
            block_bytes: 4096,
            create_bytes: None,
        }
    }
}

/// A file or block device, through the page cache only where there is no other way. Nobody else
/// can open it as a drive while this exists.
pub struct FileDrive {
    file: File,
    path: PathBuf,
    geometry: Geometry,
    flushes: FlushGroup,
    /// Keeps reads and writes of the same blocks apart where the system does not keep blocks
    /// whole. Each core has its own: no two of them use the same blocks at once.
    apart: Option<RangeLock>,
    /// Of the file below a loop device, held while this is open.
    _lock_below: Option<std::fs::File>,
}

/// An open file or block device for other cores, which use it beside the one that opened it, each
/// with its own ring. Nobody else can open it as a drive while this exists.
pub struct SharedFileDrive {
    file: SharedFile,
    path: PathBuf,
    geometry: Geometry,
    flush_failure: FlushFailure,
}

impl SharedFileDrive {
    /// A handle for the current core.
    ///
    /// # Errors
    /// The system's: too many open files, for instance.
    ///
    /// # Panics
    /// Outside a reactor.
    pub async fn open(&self) -> io::Result<FileDrive> {
        let file = self.file.open().await?;
        Ok(FileDrive {
            apart: apart(&file),
            file,
            path: self.path.clone(),
            geometry: self.geometry,
            flushes: FlushGroup::beside(self.flush_failure.clone()),
            _lock_below: None,
        })
    }
}

impl FileDrive {
    /// For other cores; `None` under simulation, and where the system has no more descriptors.
    pub fn share(&self) -> Option<SharedFileDrive> {
        Some(SharedFileDrive {
            file: self.file.share()?,
            path: self.path.clone(),
            geometry: self.geometry,
            flush_failure: self.flushes.failure(),
        })
    }

    /// Opens `path` for this drive alone.
    ///
    /// # Errors
    /// What is wrong with the path; see [`OpenError`].
    ///
    /// # Panics
    /// Outside a reactor.
    pub async fn open(
        path: impl AsRef<Path>,
        options: &FileOptions,
    ) -> Result<FileDrive, OpenError> {
        let path = path.as_ref();
        let found = open_existing(path, true).await;
        let (file, made) = match (found, options.create_bytes) {
            (Err(error), Some(bytes)) if error.kind() == ErrorKind::NotFound => {
                (create(path, bytes).await, true)
            }
            (found, _) => (found, false),
        };
        let file = file.map_err(|error| OpenError::from_io(path, error))?;
        let opened = FileDrive::of(file, path, options.block_bytes).await;
        if made && opened.is_err() {
            remove(path);
        }
        opened
    }

    /// A drive of an open file or block device.
    async fn of(mut file: File, path: &Path, block_bytes: u32) -> Result<FileDrive, OpenError> {
        let failed = |error| OpenError::from_io(path, error);
        lock(&file, path)?;
        let lock_below = check_loops(&file, path)?;
        let bytes = file.size_bytes().map_err(failed)?;
        let geometry = geometry(path, bytes, block_bytes)?;
        if !transfers_blocks(&file, block_bytes).await.map_err(failed)? {
            // The drive's own blocks are larger: whole pages work, or the page cache does.
            if block_bytes < 4096 && transfers_blocks(&file, 4096).await.map_err(failed)? {
                return Err(OpenError::BlockBytes {
                    path: path.to_owned(),
                    block_bytes,
                    smallest: 4096,
                });
            }
            drop(file);
            file = open_existing(path, false).await.map_err(failed)?;
            lock(&file, path)?;
        }
        let geometry = refine(geometry, &file, bytes).await;
        Ok(FileDrive {
            apart: apart(&file),
            file,
            path: path.to_owned(),
            geometry,
            flushes: FlushGroup::default(),
            _lock_below: lock_below,
        })
    }

    /// Which file or block device it is; `None` under simulation.
    pub fn identity(&self) -> Option<FileIdentity> {
        self.file.identity()
    }

    /// Has flushes succeed again once one has failed: for a new user, who relies on nothing that
    /// was written before.
    pub fn forget_failed_flush(&self) {
        self.flushes.failure().forget();
    }

    /// The path that was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the page cache is bypassed.
    pub fn is_direct(&self) -> bool {
        self.file.is_direct()
    }

    /// Whether this is a block device rather than a file.
    pub fn is_block_device(&self) -> bool {
        self.file.is_block_device()
    }

    /// The bytes behind the last whole block, which nothing else here reaches.
    ///
    /// # Errors
    /// The system's.
    pub async fn rest(&self) -> io::Result<Vec<u8>> {
        let (at, bytes) = self.rest_place()?;
        if bytes == 0 {
            return Ok(Vec::new());
        }
        let file = self.beside().await?;
        let (buffer, read) = file.read_at(Buffer::new(bytes), at).await;
        Ok(buffer[..read?].to_vec())
    }

    /// Makes what lies behind the last whole block read as zeroes, durably.
    ///
    /// # Errors
    /// The system's.
    pub async fn wipe_rest(&self) -> io::Result<()> {
        let (at, bytes) = self.rest_place()?;
        if bytes == 0 {
            return Ok(());
        }
        let zeroes = Buffer::zeroed(bytes);
        let file = self.beside().await?;
        file.write_at(zeroes, at, Durability::Durable).await.1
    }

    /// Where the last whole block ends, and how much is behind it.
    fn rest_place(&self) -> io::Result<(u64, usize)> {
        let end = self.geometry.capacity_bytes();
        let rest = self.file.size_bytes()?.saturating_sub(end);
        // A drive that was enlarged has whole blocks there, which count when it is opened again.
        let rest = rest % u64::from(self.geometry.block_bytes);
        Ok((end, rest as usize))
    }

    /// Another handle, by which transfers need not be whole blocks.
    async fn beside(&self) -> io::Result<File> {
        let options = OpenOptions {
            write: true,
            ..OpenOptions::default()
        };
        File::open(&self.path, &options).await
    }

    fn byte_of(&self, start: Lba) -> u64 {
        start.0 * u64::from(self.geometry.block_bytes)
    }

    /// Waits until these blocks may be read or written, where transfers have to be kept apart.
    async fn kept_apart(&self, blocks: BlockRange, access: Access) -> Option<RangeGuard<'_>> {
        Some(self.apart.as_ref()?.lock(blocks, access).await)
    }

    async fn write_zero_buffers(&self, range: BlockRange) -> io::Result<()> {
        let end = self.byte_of(Lba(range.start.0 + range.blocks));
        let mut at = self.byte_of(range.start);
        let mut buffer = Buffer::zeroed(ZERO_BYTES);
        while at < end {
            buffer.resize(
                usize::try_from(end - at)
                    .unwrap_or(ZERO_BYTES)
                    .min(ZERO_BYTES),
            );
            let (back, result) = self.file.write_at(buffer, at, Durability::Cached).await;
            result?;
            buffer = back;
            at += buffer.len() as u64;
        }
        Ok(())
    }
}

/// What keeps transfers of a file apart, where the system does not keep its blocks whole.
fn apart(file: &File) -> Option<RangeLock> {
    (!file.keeps_blocks_whole()).then(RangeLock::default)
}

async fn open_existing(path: &Path, direct: bool) -> io::Result<File> {
    let options = OpenOptions {
        write: true,
        direct,
        claim: true,
        ..OpenOptions::default()
    };
    File::open(path, &options).await
}

/// Makes a sparse file, of that size or not at all.
async fn create(path: &Path, bytes: u64) -> io::Result<File> {
    let options = OpenOptions {
        write: true,
        direct: true,
        create_new: true,
        ..OpenOptions::default()
    };
    let file = File::open(path, &options).await?;
    if let Err(error) = file.set_size(bytes).await {
        remove(path);
        return Err(error);
    }
    Ok(file)
}

/// Takes back a file that was made a moment ago. One that cannot be removed stays: what made it
/// fail is what is to be told.
fn remove(path: &Path) {
    drop(std::fs::remove_file(path));
}

fn lock(file: &File, path: &Path) -> Result<(), OpenError> {
    match file.try_lock_exclusive() {
        Ok(true) => Ok(()),
        Ok(false) => Err(OpenError::InUse(path.to_owned())),
        Err(error) => Err(OpenError::from_io(path, error)),
    }
}

/// Refuses a file that is under a loop device, and a loop device over a drive. Gives the lock that
/// keeps the file below one from becoming a drive.
fn check_loops(file: &File, path: &Path) -> Result<Option<std::fs::File>, OpenError> {
    if file.identity().is_none() {
        return Ok(None);
    }
    if let Some(device) = loop_device::over(path) {
        return Err(OpenError::UnderLoop {
            path: path.to_owned(),
            device,
        });
    }
    match loop_device::lock_below(path) {
        Err(error) if error.kind() == ErrorKind::WouldBlock => {
            Err(OpenError::InUse(path.to_owned()))
        }
        // A file that cannot be locked is not known to be in use.
        locked => Ok(locked.unwrap_or(None)),
    }
}

fn geometry(path: &Path, bytes: u64, block_bytes: u32) -> Result<Geometry, OpenError> {
    let block_count = bytes.checked_div(u64::from(block_bytes)).unwrap_or(0);
    if block_bytes.is_power_of_two() && (512..=4096).contains(&block_bytes) && block_count == 0 {
        return Err(OpenError::TooSmall {
            path: path.to_owned(),
            bytes,
            block_bytes,
        });
    }
    Geometry::new(block_bytes, block_count).map_err(|_| OpenError::BlockBytes {
        path: path.to_owned(),
        block_bytes,
        smallest: 512,
    })
}

/// Whether transfers of single blocks work; with O_DIRECT the drive's own block size decides.
async fn transfers_blocks(file: &File, block_bytes: u32) -> io::Result<bool> {
    let (_, result) = file.read_at(Buffer::new(block_bytes as usize), 0).await;
    match result {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == ErrorKind::InvalidInput => Ok(false),
        Err(error) => Err(error),
    }
}

/// Adds what only the file or device itself knows.
async fn refine(geometry: Geometry, file: &File, bytes: u64) -> Geometry {
    let Some(queue) = file.block_queue().await else {
        // Past the end there is nothing to lose, and the file system still says if it could.
        let past_the_end = bytes.next_multiple_of(4096);
        return Geometry {
            volatile_write_cache: true,
            deallocates: file.punch_hole(past_the_end, 4096).await.is_ok(),
            ..geometry
        };
    };
    Geometry {
        // The page cache is volatile whatever the drive has.
        volatile_write_cache: queue.volatile_write_cache || !file.is_direct(),
        deallocates: queue.zeroes_offloaded,
        optimal_write_blocks: (queue.physical_block_bytes / geometry.block_bytes).max(1),
        ..geometry
    }
}

/// Which side of the drive failed, for errors that do not say themselves what is wrong.
fn io_error(error: &io::Error, otherwise: IoError) -> IoError {
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => IoError::CapacityExceeded,
        ErrorKind::ReadOnlyFilesystem | ErrorKind::PermissionDenied => IoError::WriteProtected,
        ErrorKind::NotFound => IoError::DeviceGone,
        _ => match error.raw_os_error() {
            // ENXIO and ENODEV: the device was pulled.
            Some(6 | 19) => IoError::DeviceGone,
            // ETIMEDOUT, ENOLINK, ENOTCONN, EHOSTDOWN, EHOSTUNREACH, EAGAIN, EBUSY and ENOMEM: the
            // path to it failed, or the system did. What is on the drive may be as it was.
            Some(110 | 67 | 107 | 112 | 113 | 11 | 16 | 12) => IoError::NotReady,
            _ => otherwise,
        },
    }
}

impl BlockDevice for FileDrive {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    async fn read(&self, start: Lba, buffer: Buffer) -> (Buffer, Result<(), IoError>) {
        let blocks = match check_transfer(&self.geometry, start, buffer.len()) {
            Ok(blocks) => blocks,
            Err(error) => return (buffer, Err(error)),
        };
        let _apart = self.kept_apart(blocks, Access::Shared).await;
        let (buffer, result) = self.file.read_at(buffer, self.byte_of(start)).await;
        let result = match result {
            Ok(count) if count == buffer.len() => Ok(()),
            // The file has shrunk under us.
            Ok(_) => Err(IoError::UnrecoveredRead),
            Err(error) => Err(io_error(&error, IoError::UnrecoveredRead)),
        };
        (buffer, result)
    }

    async fn write(
        &self,
        start: Lba,
        buffer: Buffer,
        durability: Durability,
    ) -> (Buffer, Result<(), IoError>) {
        let blocks = match check_transfer(&self.geometry, start, buffer.len()) {
            Ok(blocks) => blocks,
            Err(error) => return (buffer, Err(error)),
        };
        let _apart = self.kept_apart(blocks, Access::Exclusive).await;
        let at = self.byte_of(start);
        let (buffer, result) = self.file.write_at(buffer, at, durability).await;
        (
            buffer,
            result.map_err(|error| io_error(&error, IoError::WriteFault)),
        )
    }

    async fn write_vectored(
        &self,
        start: Lba,
        buffers: Vec<Buffer>,
        durability: Durability,
    ) -> (Vec<Buffer>, Result<(), IoError>) {
        let blocks = match check_vectored(&self.geometry, start, &buffers) {
            Ok(blocks) => blocks,
            Err(error) => return (buffers, Err(error)),
        };
        let _apart = self.kept_apart(blocks, Access::Exclusive).await;
        let at = self.byte_of(start);
        let (buffers, result) = self.file.write_vectored_at(buffers, at, durability).await;
        (
            buffers,
            result.map_err(|error| io_error(&error, IoError::WriteFault)),
        )
    }

    async fn flush(&self) -> Result<(), IoError> {
        let sync = || async {
            let synced = self.file.sync().await;
            synced.map_err(|error| io_error(&error, IoError::WriteFault))
        };
        self.flushes.join(sync).await
    }

    async fn deallocate(&self, range: BlockRange) -> Result<(), IoError> {
        check_range(&self.geometry, range)?;
        if range.blocks == 0 || !self.geometry.deallocates {
            return Ok(());
        }
        let _apart = self.kept_apart(range, Access::Exclusive).await;
        let bytes = range.blocks * u64::from(self.geometry.block_bytes);
        let punched = self.file.punch_hole(self.byte_of(range.start), bytes).await;
        punched.map_err(|error| io_error(&error, IoError::WriteFault))
    }

    async fn write_zeroes(&self, range: BlockRange, durability: Durability) -> Result<(), IoError> {
        check_range(&self.geometry, range)?;
        if range.blocks == 0 {
            return Ok(());
        }
        let apart = self.kept_apart(range, Access::Exclusive).await;
        let bytes = range.blocks * u64::from(self.geometry.block_bytes);
        let zeroed = match self.file.zero_range(self.byte_of(range.start), bytes).await {
            Err(error) if error.kind() == ErrorKind::Unsupported => {
                self.write_zero_buffers(range).await
            }
            other => other,
        };
        drop(apart);
        zeroed.map_err(|error| io_error(&error, IoError::WriteFault))?;
        match durability {
            Durability::Cached => Ok(()),
            Durability::Durable => self.flush().await,
        }
    }
}
