//! [`FileIdentity`]: which file or block device it is, however and wherever it was opened.

use std::os::fd::OwnedFd;

use rustix::fs::{FileType, fstat};

use super::{File, Kind};
use crate::context;

/// A file or block device of this machine, whatever path leads to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileIdentity(Of);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Of {
    /// The number that the system gave to a block device.
    Device(u64),
    /// A file by its file system and the number that it has there.
    File(u64, u64),
}

impl FileIdentity {
    fn of(descriptor: &OwnedFd) -> Option<FileIdentity> {
        let stat = fstat(descriptor).ok()?;
        Some(FileIdentity(match FileType::from_raw_mode(stat.st_mode) {
            FileType::BlockDevice => Of::Device(stat.st_rdev),
            _ => Of::File(stat.st_dev, stat.st_ino),
        }))
    }

    /// How many operations on it the kernel has from the current core, by whichever handle they
    /// were begun. Those that nobody waits for any more are among them: what they write is still to
    /// come, or to fail.
    ///
    /// # Panics
    /// Outside a reactor.
    pub fn operations_under_way(self) -> usize {
        let context = context::current();
        let Some(ring) = context.ring() else {
            return 0;
        };
        let operations = ring.operations().borrow();
        operations.in_flight_on(|file| FileIdentity::of(file) == Some(self))
    }
}

impl File {
    /// Which file this is; `None` under simulation, where nothing is done that nobody waits for.
    pub fn identity(&self) -> Option<FileIdentity> {
        match &self.kind {
            Kind::Descriptor(descriptor) => FileIdentity::of(descriptor),
            Kind::Simulated(_) => None,
        }
    }
}
