//! Attaching by the kernel's own NVMe/TCP host, through nvme-cli.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use initiator::TargetAddress;

use super::{AttachError, tools};

/// How long a lost controller is waited for before I/O fails; the kernel's own default.
const CONTROLLER_LOSS_SECONDS: &str = "600";

/// Seconds between two attempts to get it back.
const RECONNECT_SECONDS: &str = "2";

/// Longer than udev takes to make a device.
const APPEARS: Duration = Duration::from_secs(10);

/// Whether the kernel has a host for NVMe/TCP, once its module is loaded.
pub fn is_there() -> bool {
    let loaded = || Path::new("/sys/module/nvme_tcp").exists();
    // Without the module, or without modprobe, there is none.
    loaded() || tools::run("modprobe", &["nvme-tcp"]).is_ok() && loaded()
}

/// Connects; gives the block device.
pub fn attach(address: &TargetAddress, host_nqn: &str) -> Result<PathBuf, AttachError> {
    let ip = address.address.ip().to_string();
    let port = address.address.port().to_string();
    let nqn = address.subsystem_nqn.as_str();
    let options = [
        "connect",
        "--transport",
        "tcp",
        "--traddr",
        &ip,
        "--trsvcid",
        &port,
        "--nqn",
        nqn,
        "--hostnqn",
        host_nqn,
        "--ctrl-loss-tmo",
        CONTROLLER_LOSS_SECONDS,
        "--reconnect-delay",
        RECONNECT_SECONDS,
    ];
    tools::run("nvme", &options)?;
    let started = Instant::now();
    let nsid = address.namespace_id.unwrap_or(1);
    loop {
        if let Some(device) = device_of(Path::new("/sys/class/nvme-subsystem"), nqn, nsid) {
            return Ok(device);
        }
        if started.elapsed() > APPEARS {
            detach(nqn)?;
            return Err(AttachError::NoDevice(nqn.to_owned(), nsid));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Disconnects every path to the subsystem.
pub fn detach(nqn: &str) -> Result<(), AttachError> {
    tools::run("nvme", &["disconnect", "--nqn", nqn]).map(drop)
}

/// The block device of namespace `nsid` of the subsystem; with several paths the kernel shows one
/// device for all of them there.
fn device_of(subsystems: &Path, nqn: &str, nsid: u32) -> Option<PathBuf> {
    let read = |path: PathBuf| std::fs::read_to_string(path).unwrap_or_default();
    for subsystem in std::fs::read_dir(subsystems).ok()?.flatten() {
        if read(subsystem.path().join("subsysnqn")).trim() != nqn {
            continue;
        }
        for entry in std::fs::read_dir(subsystem.path()).ok()?.flatten() {
            if read(entry.path().join("nsid")).trim() == nsid.to_string() {
                return Some(Path::new("/dev").join(entry.file_name()));
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_device_is_the_namespace_of_the_right_subsystem() {
        let directory = tempfile::tempdir().unwrap();
        for (subsystem, nqn, device, nsid) in [
            ("nvme-subsys0", "nqn.a", "nvme0n1", "1"),
            ("nvme-subsys1", "nqn.b", "nvme1n2", "2"),
        ] {
            let path = directory.path().join(subsystem);
            std::fs::create_dir_all(path.join(device)).unwrap();
            std::fs::write(path.join("subsysnqn"), format!("{nqn}\n")).unwrap();
            std::fs::write(path.join(device).join("nsid"), format!("{nsid}\n")).unwrap();
        }
        let found = |nqn, nsid| device_of(directory.path(), nqn, nsid);
        assert_eq!(found("nqn.b", 2), Some(PathBuf::from("/dev/nvme1n2")));
        assert_eq!(found("nqn.b", 1), None);
        assert_eq!(found("nqn.c", 1), None);
    }
}
