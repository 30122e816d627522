//! Tools of a Debian suite for a guest that lacks them.

use std::path::{Path, PathBuf};
use std::process::Command;

use vm::Suite;

/// Fetches packages and puts them on a drive, as one archive of what tar is told to keep. The
/// arguments of QEMU that add the drive; the guest has it as its first.
pub fn drive(
    directory: &Path,
    suite: Suite,
    name: &str,
    packages: &[&str],
    kept: &[&str],
) -> Vec<String> {
    let tools = fetched(directory, suite, name, packages);
    let drive = directory.with_extension("tar");
    let packed = Command::new("tar")
        .args(["--create", "--blocking-factor=2048", "--file"])
        .arg(&drive)
        .arg("--directory")
        .arg(tools)
        .args(kept)
        .status();
    assert!(packed.expect("tar runs").success());
    vec![
        "-drive".to_owned(),
        format!(
            "file={},if=none,id=tools,format=raw,readonly=on",
            drive.display()
        ),
        "-device".to_owned(),
        "nvme,serial=tools,drive=tools".to_owned(),
    ]
}

/// Fetches packages and puts them on a drive as a system that the guest may change: its first.
pub fn system(directory: &Path, suite: Suite, name: &str, packages: &[&str]) -> Vec<String> {
    let tools = fetched(directory, suite, name, packages);
    let drive = directory.with_extension("image");
    let _ = std::fs::remove_file(&drive);
    let made = Command::new("/usr/sbin/mke2fs")
        .args(["-q", "-t", "ext4", "-d"])
        .arg(tools)
        .arg(&drive)
        .arg("512M")
        .status();
    assert!(made.expect("mke2fs runs").success());
    vec![
        "-drive".to_owned(),
        format!(
            "file={},if=none,id=system,format=raw,cache=unsafe",
            drive.display()
        ),
        "-device".to_owned(),
        "nvme,serial=system,drive=system".to_owned(),
    ]
}

fn fetched(directory: &Path, suite: Suite, name: &str, packages: &[&str]) -> PathBuf {
    let place = directory.with_file_name(suite.name());
    std::fs::create_dir_all(&place).expect("a place for the tools");
    let tools = suite.unpacked(&place, name, packages);
    tools.expect("the tools can be fetched")
}
