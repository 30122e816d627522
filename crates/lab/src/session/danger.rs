//! Devices in use, which must not be written to whatever anybody says.

use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use super::SessionError;

/// Refuses a path that a file system, a device mapper, swap or another program uses.
pub(super) fn refuse_if_in_use(path: &Path) -> Result<(), SessionError> {
    let failed = |source| SessionError::Path {
        path: path.to_owned(),
        source,
    };
    if !path.exists() {
        return Ok(());
    }
    let real = fs::canonicalize(path).map_err(failed)?;
    if !fs::metadata(&real)
        .map_err(failed)?
        .file_type()
        .is_block_device()
    {
        return Ok(());
    }
    let in_use = |by: String| SessionError::InUse {
        path: path.to_owned(),
        by,
    };
    let name = real.file_name().unwrap_or_default().to_owned();
    for (table, word) in [("/proc/self/mounts", "mounted"), ("/proc/swaps", "swap")] {
        let text = fs::read_to_string(table).unwrap_or_default();
        for line in text.lines() {
            let device = PathBuf::from(line.split_whitespace().next().unwrap_or(""));
            let device_name = device.file_name().unwrap_or_default();
            if device.is_absolute() && is_or_is_part_of(&name, device_name) {
                return Err(in_use(format!("{} is {word}", device.display())));
            }
        }
    }
    let holders = Path::new("/sys/class/block").join(&name).join("holders");
    let holders = fs::read_dir(holders).into_iter().flatten().flatten();
    match holders.into_iter().next() {
        Some(holder) => Err(in_use(holder.file_name().to_string_lossy().into_owned())),
        None => Ok(()),
    }
}

/// Whether `other` is the device `name` or one of its partitions (`sda1`, `nvme0n1p1`).
fn is_or_is_part_of(name: &std::ffi::OsStr, other: &std::ffi::OsStr) -> bool {
    let (name, other) = (name.to_string_lossy(), other.to_string_lossy());
    let Some(rest) = other.strip_prefix(&*name) else {
        return false;
    };
    // After a digit, a partition's number follows a `p`.
    let number = if name.ends_with(|letter: char| letter.is_ascii_digit()) {
        rest.strip_prefix('p')
    } else {
        Some(rest)
    };
    rest.is_empty() || number.is_some_and(|rest| rest.chars().all(|one| one.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;

    #[test]
    fn partitions_belong_to_their_device() {
        let part = |name: &str, other: &str| is_or_is_part_of(OsStr::new(name), OsStr::new(other));
        assert!(part("sda", "sda") && part("sda", "sda3") && part("nvme0n1", "nvme0n1p2"));
        assert!(!part("sda", "sdaa1") && !part("nvme0n1", "nvme0n12") && !part("sda1", "sda"));
    }

    #[test]
    fn what_is_mounted_here_is_in_use() {
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
        let devices = mounts.lines().filter_map(|line| line.split(' ').next());
        let mut devices = devices.map(Path::new);
        let is_block = |path: &&Path| {
            fs::metadata(path).is_ok_and(|found| found.file_type().is_block_device())
        };
        let Some(device) = devices.find(is_block) else {
            return;
        };
        let error = refuse_if_in_use(device).unwrap_err().to_string();
        assert!(error.contains("in use"), "{error}");
    }
}
