//! Files that several cores use: [`SharedFile`].

use std::io::{self, ErrorKind};
use std::os::fd::{AsRawFd, OwnedFd};

use super::{File, Kind, OpenOptions};

/// An open file for other cores. Each opens it for itself: the system then tells each of them of
/// writes that were lost, and the cores share nothing that they would have to count. Locks and
/// claims that the first opening holds last as long as this does.
pub struct SharedFile {
    descriptor: OwnedFd,
    direct: bool,
}

impl File {
    /// For other cores; `None` under simulation, where files belong to their one thread, and when
    /// the system has no more descriptors.
    pub fn share(&self) -> Option<SharedFile> {
        let Kind::Descriptor(descriptor) = &self.kind else {
            return None;
        };
        Some(SharedFile {
            descriptor: descriptor.try_clone().ok()?,
            direct: self.direct,
        })
    }
}

impl SharedFile {
    /// Opens the file on the current core, for reading and writing, whatever its path leads to by
    /// now.
    ///
    /// # Errors
    /// The system's; `Unsupported` if the page cache can no longer be bypassed as it was.
    ///
    /// # Panics
    /// Outside a reactor.
    pub async fn open(&self) -> io::Result<File> {
        let options = OpenOptions {
            write: true,
            direct: self.direct,
            ..OpenOptions::default()
        };
        let path = format!("/proc/self/fd/{}", self.descriptor.as_raw_fd());
        let file = File::open(path, &options).await?;
        match file.is_direct() == self.direct {
            true => Ok(file),
            false => Err(ErrorKind::Unsupported.into()),
        }
    }
}
