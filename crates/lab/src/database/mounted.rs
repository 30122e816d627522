//! [`Mounted`]: a new XFS on a block device or a file, mounted while this lives.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;

use crate::program::{ProgramError, answer, system};

/// How often unmounting is tried: what used it may take a moment to be gone.
const ATTEMPTS: u32 = 50;
const PAUSE: Duration = Duration::from_millis(200);

pub(super) struct Mounted {
    directory: TempDir,
}

impl Mounted {
    /// Makes the file system, which overwrites what is there, and mounts it.
    pub(super) fn make(device: &Path) -> Result<Mounted, ProgramError> {
        answer(Command::new("mkfs.xfs").args(["-q", "-f"]).arg(device))?;
        let directory = tempfile::Builder::new().prefix("flashyard-lab-").tempdir();
        let directory = directory.map_err(system("making a directory"))?;
        answer(Command::new("mount").arg(device).arg(directory.path()))?;
        Ok(Mounted { directory })
    }

    pub(super) fn path(&self) -> &Path {
        self.directory.path()
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        for _ in 0..ATTEMPTS {
            if answer(Command::new("umount").arg(self.path())).is_ok() {
                return;
            }
            std::thread::sleep(PAUSE);
        }
        // Out of sight now, and gone with the last that uses it.
        let _ = answer(Command::new("umount").arg("--lazy").arg(self.path()));
    }
}
