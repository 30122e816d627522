//! Volumes of a plan's nodes as block devices of this host, for runners that are other programs.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};

use super::Error;
use crate::itself::itself;
use crate::output;

/// A volume attached by this program; detached when dropped.
pub struct AttachedVolume {
    address: String,
    directory: PathBuf,
    pub device: PathBuf,
}

impl AttachedVolume {
    /// Attaches the volume at `address`; what is attached is remembered in `directory`.
    pub fn attach(address: &str, directory: &Path) -> Result<AttachedVolume, Error> {
        let device = verb("attach", address, directory)?;
        Ok(AttachedVolume {
            address: address.to_owned(),
            directory: directory.to_owned(),
            device: PathBuf::from(device),
        })
    }
}

impl Drop for AttachedVolume {
    fn drop(&mut self) {
        if let Err(error) = verb("detach", &self.address, &self.directory) {
            let device = self.device.display();
            output::tell(&format_args!("left behind: {device}: {error}"));
        }
    }
}

/// Runs a verb of this program; gives what it printed.
fn verb(verb: &str, address: &str, directory: &Path) -> Result<String, Error> {
    let failed = |said: String| Error::Attach {
        verb: verb.to_owned(),
        said,
    };
    let output = itself()
        .args([verb, address, "--directory"])
        .arg(directory)
        // An interrupt at the terminal is this program's to act on.
        .process_group(0)
        .output()
        .map_err(|error| failed(error.to_string()))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if output.status.success() {
        Ok(text(&output.stdout))
    } else {
        Err(failed(text(&output.stderr)))
    }
}
