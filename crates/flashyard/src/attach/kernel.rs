//! Attaching by the kernel's own NVMe/TCP and NVMe/RDMA hosts.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use initiator::{TargetAddress, Transport};
use reactor::net::display_ip;
use rustix::io::Errno;

use super::keyring::{self, KeySerial};
use super::{AttachError, Connecting, tools};
use crate::output;

/// Takes options for a connection, and answers with the controller.
const FABRICS: &str = "/dev/nvme-fabrics";

/// Describes every subsystem that the kernel is connected to.
const SUBSYSTEMS: &str = "/sys/class/nvme-subsystem";

/// How long a lost controller is waited for before I/O fails; the kernel's own default.
const CONTROLLER_LOSS_SECONDS: &str = "600";

/// Seconds between two attempts to get it back.
const RECONNECT_SECONDS: &str = "2";

/// Longer than udev takes to make a device.
const APPEARS: Duration = Duration::from_secs(10);

/// Whether the kernel has a host for a transport, once its module is loaded.
pub fn is_there(transport: Transport) -> bool {
    let word = transport.word();
    let loaded = || Path::new(&format!("/sys/module/nvme_{word}")).exists();
    // Without the module, or without modprobe, there is none.
    loaded() || tools::run("modprobe", &[&format!("nvme-{word}")]).is_ok() && loaded()
}

/// A subsystem that the kernel is connected to.
pub struct Connected {
    /// The block device: one for all paths where the kernel has native multipath.
    pub device: PathBuf,
    /// The subsystem.
    pub nqn: String,
    /// No path to it was connected before.
    pub ours: bool,
}

/// Connects by every path, or by those that can be.
pub fn attach(
    paths: &[TargetAddress],
    connecting: &Connecting,
    queues: Option<u16>,
) -> Result<Connected, AttachError> {
    let first = paths.first().ok_or(AttachError::NoAddress(""))?;
    let (nqn, nsid) = (
        first.subsystem_nqn.as_str(),
        first.namespace_id.unwrap_or(1),
    );
    let psk = connecting.options()?.psk(nqn);
    let psk = psk.map_err(|error| AttachError::Secret(error.to_string()))?;
    let tls_key = psk.as_ref().map(keyring::hold).transpose()?;
    let (mut refused, mut ours) = (Vec::new(), true);
    for address in paths {
        match connect(address, connecting, (queues, tls_key)) {
            Ok(made) => ours &= made,
            Err(source) => refused.push(AttachError::Kernel {
                address: address.to_string(),
                source,
            }),
        }
    }
    if refused.len() == paths.len() {
        return Err(refused.swap_remove(0));
    }
    for error in refused {
        output::tell(&format_args!("flashyard: a path is left out: {error}"));
    }
    let started = Instant::now();
    loop {
        if let Some(device) = device_of(Path::new(SUBSYSTEMS), nqn, nsid) {
            return Ok(Connected {
                device,
                nqn: nqn.to_owned(),
                ours,
            });
        }
        if started.elapsed() > APPEARS {
            if ours {
                detach(nqn)?;
            }
            return Err(AttachError::NoDevice(nqn.to_owned(), nsid));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Has the kernel connect, as `nvme connect` does: in its own words and without another program,
/// whose command line would show the secrets. Gives whether it did: a path that is connected
/// already stays so.
fn connect(
    address: &TargetAddress,
    connecting: &Connecting,
    with: (Option<u16>, Option<KeySerial>),
) -> io::Result<bool> {
    let mut fabrics = File::options().read(true).write(true).open(FABRICS)?;
    match fabrics.write_all(options(address, connecting, with).as_bytes()) {
        Err(error) if error.raw_os_error() == Some(Errno::ALREADY.raw_os_error()) => {
            return Ok(false);
        }
        written => written?,
    }
    // The answer names the controller. Until it is read, the kernel keeps it for this handle.
    let _bytes = fabrics.read(&mut [0; 128])?;
    Ok(true)
}

/// The kernel's options for a connection, with so many I/O queues and with a key of its keyring.
fn options(
    address: &TargetAddress,
    connecting: &Connecting,
    (queues, tls_key): (Option<u16>, Option<KeySerial>),
) -> String {
    let Connecting { identity, secrets } = connecting;
    let mut options = format!(
        "transport={},traddr={},trsvcid={},nqn={},hostnqn={},hostid={},ctrl_loss_tmo={},\
         reconnect_delay={}",
        address.transport.word(),
        display_ip(&address.address),
        address.address.port(),
        address.subsystem_nqn,
        identity.nqn,
        identity.id,
        CONTROLLER_LOSS_SECONDS,
        RECONNECT_SECONDS
    );
    if let Some(queues) = queues {
        let _ = write!(options, ",nr_io_queues={queues}");
    }
    if let Some(key) = tls_key {
        let _ = write!(options, ",tls,tls_key={key}");
    }
    let (host, controller) = secrets.dhchap();
    for (option, secret) in [("dhchap_secret", host), ("dhchap_ctrl_secret", controller)] {
        if let Some(secret) = secret {
            let _ = write!(options, ",{option}={secret}");
        }
    }
    options
}

/// Disconnects every path to the subsystem.
pub fn detach(nqn: &str) -> Result<(), AttachError> {
    for path in controllers_of(Path::new(SUBSYSTEMS), nqn) {
        match std::fs::write(&path, "1") {
            // Gone meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            done => done.map_err(|source| AttachError::Path { path, source })?,
        }
    }
    Ok(())
}

/// How many paths to the subsystem take I/O, and how many there are.
pub fn paths(nqn: &str) -> (usize, usize) {
    let files = controllers_of(Path::new(SUBSYSTEMS), nqn);
    let states = files.iter().map(|file| read(&file.with_file_name("state")));
    (states.filter(|state| state == "live").count(), files.len())
}

/// The file of each of the subsystem's controllers that deletes it.
fn controllers_of(subsystems: &Path, nqn: &str) -> Vec<PathBuf> {
    let entries = subsystem_of(subsystems, nqn).and_then(|path| std::fs::read_dir(path).ok());
    let entries = entries.into_iter().flatten().flatten();
    let files = entries.map(|entry| entry.path().join("delete_controller"));
    files.filter(|file| file.exists()).collect()
}

/// The directory that describes the subsystem, if the kernel is connected to it.
fn subsystem_of(subsystems: &Path, nqn: &str) -> Option<PathBuf> {
    let all = std::fs::read_dir(subsystems).ok()?.flatten();
    all.map(|entry| entry.path())
        .find(|path| read(&path.join("subsysnqn")) == nqn)
}

fn read(path: &Path) -> String {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.trim().to_owned()
}

/// The block device of namespace `nsid` of the subsystem; with several paths the kernel shows one
/// device for all of them there.
fn device_of(subsystems: &Path, nqn: &str, nsid: u32) -> Option<PathBuf> {
    let entries = std::fs::read_dir(subsystem_of(subsystems, nqn)?).ok()?;
    let mut entries = entries.flatten();
    let found = entries.find(|entry| read(&entry.path().join("nsid")) == nsid.to_string());
    found.map(|entry| Path::new("/dev").join(entry.file_name()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_device_is_the_namespace_of_the_right_subsystem() {
        let directory = tempfile::tempdir().unwrap();
        for (subsystem, nqn, device, nsid, controller) in [
            ("nvme-subsys0", "nqn.a", "nvme0n1", "1", "nvme0"),
            ("nvme-subsys1", "nqn.b", "nvme1n2", "2", "nvme1"),
        ] {
            let path = directory.path().join(subsystem);
            std::fs::create_dir_all(path.join(device)).unwrap();
            std::fs::write(path.join("subsysnqn"), format!("{nqn}\n")).unwrap();
            std::fs::write(path.join(device).join("nsid"), format!("{nsid}\n")).unwrap();
            std::fs::create_dir(path.join(controller)).unwrap();
            std::fs::write(path.join(controller).join("delete_controller"), "").unwrap();
        }
        let found = |nqn, nsid| device_of(directory.path(), nqn, nsid);
        assert_eq!(found("nqn.b", 2), Some(PathBuf::from("/dev/nvme1n2")));
        assert_eq!(found("nqn.b", 1), None);
        assert_eq!(found("nqn.c", 1), None);
        let delete = directory
            .path()
            .join("nvme-subsys1/nvme1/delete_controller");
        assert_eq!(controllers_of(directory.path(), "nqn.b"), [delete]);
        assert!(controllers_of(directory.path(), "nqn.c").is_empty());
    }

    #[test]
    fn the_kernel_is_told_all_of_it() {
        let address = "tcp://[fe80::1%lo]:4420/nqn.2014-08.org.example:v";
        let id = "fb5160f4-cdf4-4d39-9bc8-ddf422e951be";
        let connecting: Connecting = serde_json::from_value(serde_json::json!({
            "identity": { "nqn": "nqn.2014-08.org.example:h", "id": id },
            "secrets": { "dhchap_secret_file": "DHHC-1:00:a:", "tls_key_file": null,
                "controller_secret_file": "DHHC-1:00:b:" },
        }))
        .unwrap();
        let said = options(&address.parse().unwrap(), &connecting, (Some(4), Some(17)));
        let expected = format!(
            "transport=tcp,traddr=fe80::1%lo,trsvcid=4420,nqn=nqn.2014-08.org.example:v,\
             hostnqn=nqn.2014-08.org.example:h,hostid={id},ctrl_loss_tmo=600,reconnect_delay=2,\
             nr_io_queues=4,tls,tls_key=17,dhchap_secret=DHHC-1:00:a:,\
             dhchap_ctrl_secret=DHHC-1:00:b:"
        );
        assert_eq!(said, expected);
        let over_rdma = address.replace("tcp://", "rdma://").parse().unwrap();
        let said = options(&over_rdma, &connecting, (None, None));
        assert!(
            said.starts_with("transport=rdma,traddr=fe80::1%lo,"),
            "{said}"
        );
    }
}
