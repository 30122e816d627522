//! A volume of a node as a block device of this host, by FUSE and a loop device.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(dead_code, reason = "each test file uses what it needs")]

use std::path::{Path, PathBuf};

use rustix::process::{Pid, Signal};
use tempfile::TempDir;

use super::support::{Node, flashyard, text, wait_until};

/// The volume, attached; detached at the end, also after a failure.
pub struct Attached {
    /// Where the program remembers it.
    directory: TempDir,
    volume: String,
    device: PathBuf,
}

impl Attached {
    pub fn new(node: &Node, volume: &str) -> Attached {
        Attached::in_directory(tempfile::tempdir().unwrap(), node, volume)
    }

    /// The same, remembered in a directory in which something may be already.
    pub fn in_directory(directory: TempDir, node: &Node, volume: &str) -> Attached {
        let mut attached = Attached {
            directory,
            volume: volume.to_owned(),
            device: PathBuf::new(),
        };
        attached.again(node);
        attached
    }

    /// Attaches it anew, after what served it was killed.
    pub fn again(&mut self, node: &Node) {
        let directory = self.directory.path().to_str().unwrap();
        let attach = ["attach", &self.volume, "--directory", directory];
        let device = node.answer(&[&attach[..], &["--method", "fuse"]].concat());
        self.device = PathBuf::from(device.trim());
    }

    pub fn device(&self) -> &Path {
        &self.device
    }

    pub fn device_name(&self) -> &str {
        self.device.to_str().unwrap()
    }

    /// Kills what serves it, and waits until nothing of that is left.
    pub fn kill(&self) {
        let Some(pid) = self.serving() else { return };
        // It may have ended already.
        let _ = rustix::process::kill_process(pid, Signal::KILL);
        wait_until("what served the volume is gone", || !is_there(pid));
    }

    fn serving(&self) -> Option<Pid> {
        let state = self.directory.path().join(format!("{}.json", self.volume));
        let state = std::fs::read_to_string(state).ok()?;
        let state: serde_json::Value = serde_json::from_str(&state).unwrap();
        let pid = state["way"]["fuse"]["pid"].as_i64()?;
        Pid::from_raw(i32::try_from(pid).unwrap())
    }

    /// The log of the process that serves it.
    pub fn said(&self) -> String {
        let log = self.directory.path().join(format!("{}.log", self.volume));
        std::fs::read_to_string(log).unwrap_or_default()
    }

    /// Detaches it, which no program may prevent by having it open.
    pub fn detach(&self) {
        let done = self.ask_to_detach();
        assert!(done.status.success(), "{}", text(&done.stderr));
    }

    fn ask_to_detach(&self) -> std::process::Output {
        let directory = self.directory.path().to_str().unwrap();
        flashyard(&["detach", &self.volume, "--directory", directory])
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        // After a failure; otherwise it may be detached already.
        self.ask_to_detach();
    }
}

/// Whether a process has not ended.
pub fn is_there(pid: Pid) -> bool {
    Path::new(&format!("/proc/{}/fd", pid.as_raw_nonzero())).exists()
}
