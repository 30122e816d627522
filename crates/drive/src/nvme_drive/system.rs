//! What the kernel shows of NVMe drives in sysfs. Blocking: for helper threads.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// What a path turned out to be.
pub(super) enum Found {
    /// A controller, by its name in the kernel.
    Controller(String),
    /// A namespace of this controller.
    Namespace { controller: String },
}

/// The controller behind a device file.
pub(super) fn find(path: &Path) -> Option<Found> {
    let metadata = fs::metadata(path).ok()?;
    let kind = metadata.file_type();
    let (class, number) = if kind.is_char_device() {
        ("char", metadata.rdev())
    } else if kind.is_block_device() {
        ("block", metadata.rdev())
    } else {
        return None;
    };
    let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
    let device = fs::canonicalize(format!("/sys/dev/{class}/{major}:{minor}")).ok()?;
    if kind.is_char_device() {
        // Only controllers have an identifier.
        device.join("cntlid").exists().then_some(())?;
        return Some(Found::Controller(name(&device)?));
    }
    // Partitions have none.
    device.join("nsid").exists().then_some(())?;
    let above = fs::canonicalize(device.join("device")).ok()?;
    let controller = controllers(&above).into_iter().next()?;
    Some(Found::Namespace { controller })
}

/// The controllers at `above`, which is one itself or a subsystem of several; those that work
/// first.
fn controllers(above: &Path) -> Vec<String> {
    if above.join("cntlid").exists() {
        return name(above).into_iter().collect();
    }
    let entries = fs::read_dir(above).into_iter().flatten().flatten();
    let mut found: Vec<(bool, String)> = entries
        .filter(|entry| entry.path().join("cntlid").exists())
        .filter_map(|entry| {
            let state = fs::read_to_string(entry.path().join("state")).ok()?;
            Some((
                state.trim() != "live",
                entry.file_name().into_string().ok()?,
            ))
        })
        .collect();
    found.sort();
    found.into_iter().map(|(_, name)| name).collect()
}

/// The block devices of a controller's namespaces, with their identifiers.
fn block_devices(controller: &str) -> impl Iterator<Item = (u32, PathBuf)> {
    let entries = fs::read_dir("/sys/block").into_iter().flatten().flatten();
    entries.filter_map(move |entry| {
        let above = fs::canonicalize(entry.path().join("device")).ok()?;
        if !controllers(&above).iter().any(|name| name == controller) {
            return None;
        }
        let nsid = fs::read_to_string(entry.path().join("nsid")).ok()?;
        // One path of several to a namespace has no file: nvme0c0n1.
        let path = Path::new("/dev").join(entry.file_name());
        path.exists().then_some((nsid.trim().parse().ok()?, path))
    })
}

/// The block device of a namespace of `controller`.
pub(super) fn block_device(controller: &str, nsid: u32) -> Option<PathBuf> {
    let found = block_devices(controller).find(|(found, _)| *found == nsid);
    found.map(|(_, path)| path)
}

/// The block device of the namespace with the lowest identifier.
pub(super) fn lowest(controller: &str) -> Option<PathBuf> {
    block_devices(controller).min().map(|(_, path)| path)
}

/// The identifier of the namespace that a block device is.
pub(super) fn nsid_of(path: &Path) -> Option<u32> {
    let number = fs::metadata(path).ok()?.rdev();
    let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
    let nsid = fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/nsid")).ok()?;
    nsid.trim().parse().ok()
}

fn name(device: &Path) -> Option<String> {
    Some(device.file_name()?.to_str()?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_nvme_drive_is_found_to_be_none() {
        let file = tempfile::NamedTempFile::new().expect("a file to look at");
        for path in [
            file.path(),
            Path::new("/dev/null"),
            Path::new("/dev/no-such"),
        ] {
            assert!(find(path).is_none(), "{}", path.display());
        }
        assert!(block_device("nvme99", 1).is_none());
        assert!(lowest("nvme99").is_none());
        assert!(nsid_of(file.path()).is_none());
    }
}
