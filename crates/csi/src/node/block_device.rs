//! Block devices as the kernel describes them.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use rustix::fs::{major, minor};
use tonic::Status;

/// The unit of `size` in /sys, whatever the logical block size.
const SECTOR_BYTES: u64 = 512;

/// The major and minor number of the block device at `path`, if there is one.
pub fn number(path: &Path) -> Option<(u32, u32)> {
    let metadata = fs::metadata(path).ok()?;
    let device = metadata
        .file_type()
        .is_block_device()
        .then(|| metadata.rdev())?;
    Some((major(device), minor(device)))
}

/// The same of a device that has to be there.
///
/// # Errors
/// `INTERNAL` when it is not.
pub fn required(path: &Path) -> Result<(u32, u32), Status> {
    let message = || Status::internal(format!("{} is no block device", path.display()));
    number(path).ok_or_else(message)
}

/// Its size.
pub fn bytes((major, minor): (u32, u32)) -> Result<u64, Status> {
    let path = format!("/sys/dev/block/{major}:{minor}/size");
    let text = fs::read_to_string(&path);
    let sectors = text.ok().and_then(|text| text.trim().parse::<u64>().ok());
    let bytes = sectors.and_then(|sectors| sectors.checked_mul(SECTOR_BYTES));
    bytes.ok_or_else(|| Status::internal(format!("{path} has no size")))
}
