//! This program, to be run again with other arguments.

use std::os::unix::process::CommandExt;
use std::process::Command;

/// The program that is running, even if its file was replaced or removed in the meantime, as by an
/// upgrade: what it has attached or started, the same version ends.
pub fn itself() -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.arg0(std::env::args_os().next().unwrap_or("flashyard".into()));
    command
}
