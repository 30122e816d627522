//! Write protection of the volume while it is attached: its disk is read-only meanwhile.
//!
//! The process that serves the volume notes it in a file before it changes disks. Whoever makes a
//! disk reads the note afterwards. So a disk that is made meanwhile is as the other ones.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::file_system::FILE;
use super::{AttachError, tools};

/// The file that is there while the volume mounted at `mount` is write protected.
fn note(mount: &Path) -> PathBuf {
    mount.with_extension("protected")
}

/// Notes whether the volume is write protected.
pub fn set(mount: &Path, protected: bool) -> Result<(), AttachError> {
    let path = note(mount);
    let noted = match protected {
        true => fs::write(&path, ""),
        false => match fs::remove_file(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed,
        },
    };
    noted.map_err(|source| AttachError::Path { path, source })
}

/// Makes every disk over the volume read-only, or writable, as is noted.
pub fn follow(mount: &Path) -> Result<(), AttachError> {
    tools::protect_loops(&mount.join(FILE), note(mount).exists())
}
