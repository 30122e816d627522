//! Loop devices over files.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs::File;
use std::path::Path;
use std::process::Command;

use crate::support::tool;

/// A loop device over a file, for as long as this is there.
pub struct Loop(pub String);

impl Loop {
    /// Over a new file of so many bytes.
    pub fn made(path: &Path, bytes: u64) -> Loop {
        File::create(path).unwrap().set_len(bytes).unwrap();
        Loop::over(path)
    }

    pub fn over(path: &Path) -> Loop {
        let made = tool("losetup", &["--find", "--show", path.to_str().unwrap()]);
        Loop(made.trim().to_owned())
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        // One that is left only shows in the list of loop devices.
        let _ = Command::new("losetup").args(["--detach", &self.0]).status();
    }
}
