//! [`Mounted`]: a new XFS on a block device or a file, mounted while this lives.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;

use crate::program::{ProgramError, answer, system};

/// How often unmounting is tried: what used it may take a moment to be gone.
const ATTEMPTS: u32 = 50;
const PAUSE: Duration = Duration::from_millis(200);

pub(super) struct Mounted {
    directory: TempDir,
    _patience: Option<Patience>,
}

impl Mounted {
    /// Makes the file system, which overwrites what is there, and mounts it. The device is one that
    /// takes `dilation` times as long as the one it stands for.
    pub(super) fn make(device: &Path, dilation: f64) -> Result<Mounted, ProgramError> {
        let patience = Patience::have(device, dilation);
        answer(Command::new("mkfs.xfs").args(["-q", "-f"]).arg(device))?;
        let directory = tempfile::Builder::new().prefix("flashyard-lab-").tempdir();
        let directory = directory.map_err(system("making a directory"))?;
        answer(Command::new("mount").arg(device).arg(directory.path()))?;
        Ok(Mounted {
            directory,
            _patience: patience,
        })
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

/// The latency above which the kernel holds back what it writes from its page cache, while this
/// lives. It is a real time: a drive that is slowed down would be held back to one request after
/// the other, as no drive is that it stands for.
struct Patience {
    setting: PathBuf,
    before: String,
}

impl Patience {
    /// Raises it with the dilation. `None` where there is nothing to raise: the kernel has no such
    /// setting for this device, it is off, or the drive is not slowed down.
    fn have(device: &Path, dilation: f64) -> Option<Patience> {
        let device = device.canonicalize().ok()?;
        let queue = Path::new("/sys/class/block").join(device.file_name()?);
        let setting = queue.join("queue/wbt_lat_usec");
        let before = std::fs::read_to_string(&setting).ok()?.trim().to_owned();
        let raised = raised(before.parse().ok()?, dilation)?;
        std::fs::write(&setting, raised.to_string()).ok()?;
        Some(Patience { setting, before })
    }
}

impl Drop for Patience {
    fn drop(&mut self) {
        // The device may be gone, and the setting with it.
        let _ = std::fs::write(&self.setting, &self.before);
    }
}

/// Microseconds of a drive that takes `dilation` times as long.
fn raised(latency_us: u64, dilation: f64) -> Option<u64> {
    let raised = (latency_us as f64 * dilation) as u64;
    (raised > latency_us).then_some(raised)
}

#[cfg(test)]
mod tests {
    use super::raised;

    #[test]
    fn patience_grows_with_the_dilation_and_is_left_alone_where_there_is_none() {
        assert_eq!(raised(2000, 100.0), Some(200_000));
        assert_eq!(raised(2000, 1.0), None);
        assert_eq!(raised(0, 100.0), None);
    }
}
