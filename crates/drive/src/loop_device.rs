//! Loop devices: a file and the loop devices over it are the same storage.

use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;

/// The system's directory of block devices, each by its name.
const DEVICES: &str = "/sys/class/block";

/// A loop device that is over the file `path`, if one is.
pub(crate) fn over(path: &Path) -> Option<PathBuf> {
    let file = fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
    let devices = fs::read_dir(DEVICES).ok()?;
    let mut devices = devices.flatten().map(|device| device.path());
    let is_over = |device: &PathBuf| {
        let below = below(device).and_then(|below| fs::metadata(below).ok());
        below.is_some_and(|below| (below.dev(), below.ino()) == (file.dev(), file.ino()))
    };
    let found = devices.find(is_over)?;
    Some(Path::new("/dev").join(found.file_name()?))
}

/// Takes the lock of the file below a loop device, which who uses that file as a drive has. `None`
/// for what is no loop device, or one over a file that cannot be reached.
///
/// # Errors
/// `WouldBlock` when the file is in use as a drive.
pub(crate) fn lock_below(path: &Path) -> io::Result<Option<File>> {
    let Ok(real) = fs::canonicalize(path) else {
        return Ok(None);
    };
    let is_block = fs::metadata(&real).is_ok_and(|found| found.file_type().is_block_device());
    let device = real.file_name().map(|name| Path::new(DEVICES).join(name));
    let Some(below) = device
        .filter(|_| is_block)
        .and_then(|device| below(&device))
    else {
        return Ok(None);
    };
    let Ok(file) = File::open(below) else {
        return Ok(None);
    };
    rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)?;
    Ok(Some(file))
}

/// The file below a loop device, as the system calls it. A partition of one has none of its own.
fn below(device: &Path) -> Option<PathBuf> {
    let text = fs::read(device.join("loop/backing_file")).ok()?;
    let text = text.strip_suffix(b"\n").unwrap_or(&text);
    Some(PathBuf::from(std::ffi::OsStr::from_bytes(text)))
}
