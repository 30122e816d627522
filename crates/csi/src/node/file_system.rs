//! File systems on volumes: made where nothing is, checked where due, mounted.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use tonic::Status;

use super::program::run;
use crate::parameters::FILE_SYSTEMS;
use crate::proto::volume_capability::MountVolume;

/// As much of a device has to be readable before what is on it is believed.
const READABLE_BYTES: usize = 1 << 20;

/// `blkid` has found nothing (blkid(8)).
const NOTHING: i32 = 2;

/// Where an XFS superblock says that `mkfs.xfs` has not ended.
const XFS_IN_PROGRESS: u64 = 126;

/// e2fsck has mended everything (e2fsck(8)).
const MENDED: i32 = 1;

/// e2fsck has found what it does not mend by itself.
const UNMENDED: i32 = 4;

/// A kind of file system that volumes get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind(&'static str);

impl Kind {
    /// What a call asks for: by its capability, or by the class of the volume.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for one that volumes do not get.
    pub fn of(mount: &MountVolume, class: Option<&String>) -> Result<Kind, Status> {
        let asked = match mount.fs_type.as_str() {
            "" => class.map_or(FILE_SYSTEMS[0], String::as_str),
            asked => asked,
        };
        let found = FILE_SYSTEMS.into_iter().find(|name| *name == asked);
        found.map(Kind).ok_or_else(|| {
            let message = format!(
                "file system {asked:?}; allowed: {}",
                FILE_SYSTEMS.join(", ")
            );
            Status::invalid_argument(message)
        })
    }

    fn is_xfs(self) -> bool {
        self.0 == "xfs"
    }

    /// Makes sure that the device has one, in order; a device that has something else is left.
    ///
    /// # Errors
    /// `FAILED_PRECONDITION` when something else is there, or what is there needs a person.
    pub fn prepare(self, device: &Path, read_only: bool) -> Result<(), Status> {
        match content(device)? {
            None if read_only => {
                let message = "the volume is empty, and to be mounted to be read only";
                Err(Status::failed_precondition(message))
            }
            None => self.make(device),
            Some(found) if found == self.0 && self.is_xfs() && is_unfinished(device)? => {
                self.make(device)
            }
            Some(found) if found == self.0 => match read_only || self.is_xfs() {
                // XFS replays its log when it is mounted.
                true => Ok(()),
                false => mend(device),
            },
            Some(found) => Err(Status::failed_precondition(format!(
                "the volume has {found}, and {} is asked for: it is left as it is",
                self.0
            ))),
        }
    }

    /// Volumes are new: there is nothing to discard.
    fn make(self, device: &Path) -> Result<(), Status> {
        let device = device.display().to_string();
        let made = match self.is_xfs() {
            true => run("mkfs.xfs", &["-q", "-f", "-K", &device])?,
            false => {
                let words = ["-q", "-F", "-m", "0", "-E", "nodiscard", &device];
                run("mkfs.ext4", &words)?
            }
        };
        made.succeeded().map(drop)
    }

    /// Mounts it at `path`.
    pub fn mount(
        self,
        device: &Path,
        path: &Path,
        flags: &[String],
        read_only: bool,
    ) -> Result<(), Status> {
        let mut options: Vec<&str> = flags.iter().map(String::as_str).collect();
        if self.is_xfs() {
            // A clone has the UUID of what it was cloned from, which may be mounted too.
            options.push("nouuid");
        }
        options.push(if read_only { "ro" } else { "rw" });
        let options = options.join(",");
        let words = ["-t", self.0, "-o", &options];
        let words = words.map(std::ffi::OsStr::new);
        let words = [&words[..], &[device.as_os_str(), path.as_os_str()]].concat();
        run("mount", &words)?.succeeded().map(drop)
    }

    /// Makes it as large as its device; one that is as large stays as it is.
    pub fn grow(self, device: &Path, path: &Path) -> Result<(), Status> {
        let grown = match self.is_xfs() {
            true => run("xfs_growfs", &["-d".as_ref(), path.as_os_str()])?,
            false => run("resize2fs", &[device])?,
        };
        grown.succeeded().map(drop)
    }
}

/// What is on a device, in a word; none: nothing. What cannot be read is never taken for nothing.
pub fn content(device: &Path) -> Result<Option<String>, Status> {
    let unreadable =
        |error: std::io::Error| Status::internal(format!("{}: {error}", device.display()));
    let mut file = File::open(device).map_err(unreadable)?;
    file.read_exact(&mut vec![0; READABLE_BYTES])
        .map_err(unreadable)?;
    let words = ["-p", "-o", "export"].map(std::ffi::OsStr::new);
    let probed = run("blkid", &[&words[..], &[device.as_os_str()]].concat())?;
    match probed.code {
        Some(NOTHING) => Ok(None),
        Some(0) => {
            let value = |key: &str| {
                let mut lines = probed.output.lines();
                lines.find_map(|line| line.strip_prefix(key)?.strip_prefix('='))
            };
            let partitions = || value("PTTYPE").map(|_| "a partition table");
            let found = value("TYPE")
                .or_else(partitions)
                .unwrap_or("something unknown");
            Ok(Some(found.to_owned()))
        }
        _ => Err(probed.failure()),
    }
}

/// Whether who made an XFS file system was interrupted: nothing was ever in it.
fn is_unfinished(device: &Path) -> Result<bool, Status> {
    let mut flag = [0];
    let read = File::open(device).and_then(|mut file| {
        file.seek(SeekFrom::Start(XFS_IN_PROGRESS))?;
        file.read_exact(&mut flag)
    });
    let failed = |error| Status::internal(format!("{}: {error}", device.display()));
    read.map(|()| flag != [0]).map_err(failed)
}

/// Replays the journal, and mends what is safe to mend.
fn mend(device: &Path) -> Result<(), Status> {
    let words = ["-p".as_ref(), device.as_os_str()];
    let checked = run("e2fsck", &words)?;
    match checked.code {
        Some(0..=MENDED) => Ok(()),
        Some(code) if code & UNMENDED != 0 => Err(Status::failed_precondition(format!(
            "the file system needs to be repaired by hand: {}",
            checked.failure().message()
        ))),
        _ => Err(checked.failure()),
    }
}
