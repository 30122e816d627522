//! Tools of a Debian suite for a guest that lacks them.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use vm::{Origin, Suite};

/// Fetches packages and puts them on a drive, as one archive of what tar is told to keep. The
/// arguments of QEMU that add the drive; the guest has it as its first.
pub fn drive(
    directory: &Path,
    suite: Suite,
    name: &str,
    packages: &[&str],
    kept: &[&str],
) -> Vec<String> {
    let tools = fetched(directory, Origin::Release(suite), name, packages);
    let archive = directory.with_extension("tar");
    pack(&tools, &archive, kept);
    added(
        &archive,
        "tools,format=raw,readonly=on",
        "nvme,serial=tools",
    )
}

/// The same, fetched from what is newest; the guest has it as a disk that is none of NVMe.
pub fn newest(directory: &Path, name: &str, packages: &[&str], kept: &[&str]) -> Vec<String> {
    let tools = fetched(directory, Origin::Newest, name, packages);
    let archive = directory.with_extension(name);
    pack(&tools, &archive, kept);
    added(&archive, "newest,format=raw,readonly=on", "virtio-blk-pci")
}

/// Fetches packages and puts them on a drive as a system that the guest may change: its first.
pub fn system(directory: &Path, suite: Suite, name: &str, packages: &[&str]) -> Vec<String> {
    let tools = fetched(directory, Origin::Release(suite), name, packages);
    let image = directory.with_extension("image");
    let _ = std::fs::remove_file(&image);
    let made = Command::new("/usr/sbin/mke2fs")
        .args(["-q", "-t", "ext4", "-d"])
        .arg(tools)
        .arg(&image)
        .arg("512M")
        .status();
    assert!(made.expect("mke2fs runs").success());
    added(
        &image,
        "system,format=raw,cache=unsafe",
        "nvme,serial=system",
    )
}

/// Where packages of `origin` are unpacked, beside what is for one scenario. Scenarios run side by
/// side: one of them fetches what several want.
pub fn fetched(directory: &Path, origin: Origin, name: &str, packages: &[&str]) -> PathBuf {
    static FETCHING: Mutex<()> = Mutex::new(());
    let _fetching = FETCHING.lock().unwrap_or_else(PoisonError::into_inner);
    let place = directory.with_file_name(origin.name());
    std::fs::create_dir_all(&place).expect("a place for the tools");
    let tools = origin.unpacked(&place, name, packages);
    tools.expect("the tools can be fetched")
}

fn pack(tools: &Path, archive: &Path, kept: &[&str]) {
    let packed = Command::new("tar")
        .args(["--create", "--blocking-factor=2048", "--file"])
        .arg(archive)
        .arg("--directory")
        .arg(tools)
        .args(kept)
        .status();
    assert!(packed.expect("tar runs").success());
}

/// Arguments of QEMU: a file as a drive, with its name and how it is opened, and the device for it.
fn added(file: &Path, drive: &str, device: &str) -> Vec<String> {
    let name = drive.split(',').next().unwrap_or(drive);
    vec![
        "-drive".to_owned(),
        format!("file={},if=none,id={drive}", file.display()),
        "-device".to_owned(),
        format!("{device},drive={name}"),
    ]
}
