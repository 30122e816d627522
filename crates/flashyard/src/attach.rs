//! `flashyard attach` and `detach`: a volume as a block device of this host.
//!
//! Where the kernel has an NVMe/TCP host it does the work, and over RDMA only it can. Elsewhere a
//! process of this program serves the volume as a file (FUSE) over our own host, and a loop device
//! makes it a disk.

mod bridge;
mod channel;
mod error;
mod file_system;
mod growth;
mod identity;
mod kernel;
mod keyring;
mod news;
mod protection;
mod ring;
mod standing;
mod state;
mod tools;
mod wire;
mod work;

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitCode, Stdio};
use std::time::{Duration, Instant};

use api::PortTransport;
use clap::{Args, ValueEnum};
use initiator::{ConnectOptions, TargetAddress, TargetName, Transport};
use rustix::process::{Pid, Signal};
use serde::{Deserialize, Serialize};

pub use self::error::AttachError;
use self::identity::Identity;
pub use self::standing::{List, Listed, listed};
use self::state::{Attached, Place, Requests, Way, joined};
use crate::connection::{Connection, ended};
use crate::host_secrets::HostSecrets;
use crate::itself::itself;
use crate::reach::{addresses_of, those_that_answer, those_that_answer_first};
use crate::{exit, output};

/// How the serving process tells that it serves, with which block size, and how requests come.
const READY: &str = "ready ";

/// What the kernel's host does not do, of a host that proves a secret.
const UNBOUNDED: &str = "flashyard: the kernel's host authenticates with any group and hash that \
    the node demands, no group included; --dhchap-group-min has --method fuse bound that";

/// Longer than the serving process takes to end once its file system is unmounted.
const ENDS: Duration = Duration::from_secs(15);

/// Make a volume a block device of this host.
///
/// By the kernel's NVMe/TCP host where there is one, and otherwise by FUSE and a loop device.
/// Needs root. Prints the device.
#[derive(Args)]
pub struct Attach {
    /// A volume of the node, or tcp://HOST:PORT/SUBSYSTEM-NQN?nsid=N, with a host's name, an IPv4
    /// address, or an IPv6 address in brackets; several addresses of one volume are paths to it;
    /// rdma:// instead of tcp:// connects over RDMA
    #[arg(required = true)]
    volume: Vec<String>,
    /// How a volume of the node is reached, over tcp or rdma: the kernel's host alone connects over
    /// RDMA
    #[arg(long, default_value_t = PortTransport::Tcp)]
    transport: PortTransport,
    /// What to call it here, instead of the volume's name
    #[arg(long)]
    name: Option<api::Name>,
    /// Method: the kernel's host, or FUSE
    #[arg(long, value_enum, default_value_t = Method::Auto)]
    method: Method,
    /// I/O queues to ask the node for; the kernel's host has one for each core otherwise
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..=128))]
    queues: Option<u16>,
    /// This host's name, instead of the one in /etc/nvme/hostnqn
    #[arg(long, value_name = "NQN")]
    host_nqn: Option<String>,
    #[command(flatten)]
    secrets: HostSecrets,
    #[command(flatten)]
    directory: Directory,
}

/// Take an attached volume away from this host, even after a crash of what served it.
#[derive(Args)]
pub struct Detach {
    /// As `attach` named it: the volume's name, its address, or its --name
    volume: String,
    #[command(flatten)]
    directory: Directory,
}

/// Serve a volume as a file; started by `attach`.
#[derive(Args)]
pub struct Serve {
    mount: PathBuf,
    /// Paths to it.
    #[arg(required = true)]
    addresses: Vec<TargetAddress>,
}

/// The host that connects, and its secrets. The serving process reads them from its standard input:
/// the command line of a process is there for all to see.
#[derive(Serialize, Deserialize)]
struct Connecting {
    identity: Identity,
    secrets: HostSecrets,
}

impl Connecting {
    fn options(&self) -> Result<ConnectOptions, AttachError> {
        let mut options = self.identity.options();
        let applied = self.secrets.apply(&mut options);
        applied.map_err(AttachError::Secret)?;
        Ok(options)
    }
}

#[derive(Args)]
pub struct Directory {
    /// Where what is attached is remembered
    #[arg(long, value_name = "DIR", default_value = "/run/flashyard/attached")]
    pub directory: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Method {
    /// The kernel if it can, else FUSE
    Auto,
    /// The kernel's host, over NVMe/TCP or NVMe/RDMA
    Kernel,
    /// FUSE and a loop device
    Fuse,
}

/// What this host is called, or `given`; made where nothing says it.
pub fn host_nqn(given: Option<&str>) -> Result<String, AttachError> {
    Ok(Identity::of(given, Path::new(identity::DIRECTORY))?.nqn)
}

/// The addresses, and a name for what the user calls `volumes`.
fn resolve_all(
    volumes: &[String],
    way: (PortTransport, bool),
    node: &Connection,
) -> Result<(Vec<TargetAddress>, String), AttachError> {
    let mut all: Option<(Vec<TargetAddress>, String)> = None;
    for volume in volumes {
        let (found, name) = resolve(volume, way, node)?;
        let Some((addresses, _)) = &mut all else {
            all = Some((found, name));
            continue;
        };
        let same = |one: &TargetAddress, other: &TargetAddress| {
            one.subsystem_nqn == other.subsystem_nqn && one.namespace_id == other.namespace_id
        };
        if let (Some(one), Some(other)) = (addresses.first(), found.first())
            && !same(one, other)
        {
            return Err(AttachError::Paths(one.to_string(), other.to_string()));
        }
        addresses.extend(found);
    }
    all.ok_or(AttachError::NoAddress(""))
}

/// The same of one of them: a volume of the node by its ports of that transport, under TLS or not.
fn resolve(
    volume: &str,
    (transport, tls): (PortTransport, bool),
    node: &Connection,
) -> Result<(Vec<TargetAddress>, String), AttachError> {
    if volume.contains("://") {
        let target: TargetName = volume.parse()?;
        let nsid = target.namespace_id.unwrap_or(1);
        let name = state::name_of(&target.subsystem_nqn, nsid);
        let addresses = target.resolve().map_err(|source| AttachError::Resolve {
            host: target.host().to_owned(),
            source,
        })?;
        return Ok((addresses, name));
    }
    let name: api::Name = volume
        .parse()
        .map_err(|_| AttachError::Name(volume.to_owned()))?;
    let client = node.client()?;
    let found = client.volume(&name)?;
    let status = client.status_for(&name)?;
    let addresses = addresses_of(&status, &found, transport, tls)?;
    match addresses.is_empty() {
        true if transport == PortTransport::Rdma => Err(AttachError::NoAddress(" over RDMA")),
        true if tls => Err(AttachError::NoAddress(" under TLS")),
        true if !status.nvme_tls_addresses.is_empty() => {
            Err(AttachError::NoAddress(" without --tls-key-file"))
        }
        true => Err(AttachError::NoAddress("")),
        false => Ok((addresses, name.to_string())),
    }
}

impl Attach {
    pub fn run(self, node: &Connection) -> ExitCode {
        match self.attach(node) {
            Ok(device) => {
                output::print(&device.display().to_string());
                exit::done()
            }
            Err(AttachError::Client(error)) => ended(Err(error)),
            Err(error) => exit::failed(&error),
        }
    }

    fn attach(&self, node: &Connection) -> Result<PathBuf, AttachError> {
        let tls = self.secrets.has_tls_key();
        let (addresses, name) = resolve_all(&self.volume, (self.transport, tls), node)?;
        let name = self.name.as_ref().map_or(name, api::Name::to_string);
        let place = Place::new(&self.directory.directory, &name)?;
        let _lock = place.lock()?;
        if let Some(attached) = place.load()? {
            if is_served(&attached, &place) {
                return Err(AttachError::AlreadyAttached {
                    name,
                    device: attached.device,
                    said: place.last_said(),
                });
            }
            detach(&place, &attached)?;
        } else {
            clear_remains(&place)?;
        }
        let connecting = Connecting {
            identity: Identity::of(self.host_nqn.as_deref(), Path::new(identity::DIRECTORY))?,
            secrets: self.secrets.clone(),
        };
        let attached = match self.is_by_kernel(&addresses)? {
            true => self.by_kernel(addresses, &connecting, &place)?,
            false => by_fuse(addresses, &connecting, &place)?,
        };
        if let Way::Fuse { requests, .. } = attached.way {
            output::tell(&format_args!("flashyard: {}", said_of(requests, &place)));
        }
        Ok(attached.device)
    }

    /// By the kernel's host; by FUSE where nobody chose that, and this machine lacks what the
    /// kernel needs for TLS.
    fn by_kernel(
        &self,
        addresses: Vec<TargetAddress>,
        connecting: &Connecting,
        place: &Place,
    ) -> Result<Attached, AttachError> {
        if self.secrets.dhchap().0.is_some() {
            output::tell(&UNBOUNDED);
        }
        let paths = those_that_answer(addresses.clone());
        let made = attach_by_kernel(&paths, connecting, place, self.queues);
        match made {
            Err(error) if self.secrets.has_tls_key() && self.method == Method::Auto => {
                output::tell(&format_args!(
                    "flashyard: by FUSE, as {error}; TLS of the kernel's host needs the programs \
                     keyctl (keyutils) and tlshd (ktls-utils)"
                ));
                by_fuse(addresses, connecting, place)
            }
            made => made,
        }
    }

    /// Whether the kernel's host is to connect.
    fn is_by_kernel(&self, addresses: &[TargetAddress]) -> Result<bool, AttachError> {
        let (tls, minimum) = (self.secrets.has_tls_key(), self.secrets.has_minimum());
        let over_rdma = addresses.iter().find(|it| it.transport == Transport::Rdma);
        if let Some(address) = over_rdma {
            let is_mixed = addresses.iter().any(|it| it.transport == Transport::Tcp);
            let refused = |option| Err(AttachError::RdmaByKernel(address.to_string(), option));
            return match self.method {
                Method::Fuse => refused("--method fuse"),
                _ if tls => refused("--tls-key-file"),
                _ if minimum => refused("--dhchap-group-min and --dhchap-hash-min"),
                _ if !kernel::is_there(Transport::Rdma) => Err(AttachError::NoRdmaHost),
                _ if is_mixed && !kernel::is_there(Transport::Tcp) => {
                    Err(AttachError::NoKernelHost)
                }
                _ => Ok(true),
            };
        }
        match self.method {
            Method::Auto => {
                let can = !minimum && kernel::is_there(Transport::Tcp);
                Ok(can && (!tls || keyring::is_there()))
            }
            Method::Kernel if minimum => Err(AttachError::KernelMinimum),
            Method::Kernel if !kernel::is_there(Transport::Tcp) => Err(AttachError::NoKernelHost),
            Method::Kernel if tls && !keyring::is_there() => Err(AttachError::KernelTls),
            Method::Kernel => Ok(true),
            Method::Fuse => Ok(false),
        }
    }
}

/// By a process that serves the volume as a file.
fn by_fuse(
    addresses: Vec<TargetAddress>,
    connecting: &Connecting,
    place: &Place,
) -> Result<Attached, AttachError> {
    if addresses.is_empty() {
        return Err(AttachError::NoAddress(""));
    }
    let attached = serve_apart(&those_that_answer_first(addresses), connecting, place)?;
    place.save(&attached)?;
    Ok(attached)
}

/// Has the kernel connect by every path, unless it is connected: a subsystem's volumes share one
/// connection.
fn attach_by_kernel(
    paths: &[TargetAddress],
    connecting: &Connecting,
    place: &Place,
    queues: Option<u16>,
) -> Result<Attached, AttachError> {
    let first = paths.first().ok_or(AttachError::NoAddress(""))?;
    let _turn = place.turn(&first.subsystem_nqn)?;
    let made = kernel::attach(paths, connecting, queues)
        .inspect_err(|_| place.forget(&first.subsystem_nqn))?;
    let ours = made.ours || place.shares(&made.nqn)?.unwrap_or(false);
    let attached = Attached {
        address: joined(paths),
        device: made.device,
        way: Way::Kernel {
            nqn: made.nqn,
            ours,
        },
    };
    place.save(&attached)?;
    Ok(attached)
}

/// Which way requests take, and why not the quicker.
fn said_of(requests: Requests, place: &Place) -> String {
    let refused = || format!("the kernel refused: {}", place.log().display());
    match requests {
        Requests::IoUring => "FUSE over io_uring".to_owned(),
        Requests::Read => {
            let why = ring::why_not().unwrap_or_else(refused);
            format!("FUSE without io_uring ({why})")
        }
    }
}

/// Starts the serving process, and puts a loop device over its file.
fn serve_apart(
    addresses: &[TargetAddress],
    connecting: &Connecting,
    place: &Place,
) -> Result<Attached, AttachError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        |source| AttachError::Path { path, source }
    };
    let (mount, log) = (place.mount(), place.log());
    std::fs::create_dir_all(&mount).map_err(failed(&mount))?;
    let mut child = itself()
        .arg("attach-serve")
        .arg(&mount)
        .args(addresses.iter().map(TargetAddress::to_string))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(File::create(&log).map_err(failed(&log))?)
        // Of its own, so that it outlives the terminal, and an interrupt there.
        .process_group(0)
        .spawn()
        .map_err(failed(Path::new("this program")))?;
    if let Some(input) = child.stdin.take() {
        // One that has ended already says why below.
        let _ = serde_json::to_writer(input, connecting);
    }
    let looped = ready(&mut child, &log).and_then(|(block_bytes, requests)| {
        let file = mount.join(file_system::FILE);
        let device = tools::attach_loop(&file, block_bytes)?;
        // The volume may have grown while the disk was made.
        tools::grow_loops(&file)?;
        protection::follow(&mount)?;
        Ok((device, requests))
    });
    match looped {
        Ok((device, requests)) => Ok(Attached {
            address: joined(addresses),
            device,
            way: Way::Fuse {
                pid: child.id(),
                requests,
            },
        }),
        Err(error) => {
            // Unmounting ends it; what does not end by itself is ended.
            let _ = tools::run("umount", &[&mount.display().to_string()]);
            let _ = child.kill();
            let _ = child.wait();
            place.clear();
            Err(error)
        }
    }
}

/// Waits until the process serves; gives the volume's block size, and how requests come.
fn ready(child: &mut Child, log: &Path) -> Result<(u32, Requests), AttachError> {
    let mut line = String::new();
    if let Some(output) = child.stdout.take() {
        // A process that ended has written nothing.
        let _ = BufReader::new(output).read_line(&mut line);
    }
    let words = line.trim().strip_prefix(READY);
    words
        .and_then(|words| words.split_once(' '))
        .and_then(|(number, word)| Some((number.parse().ok()?, Requests::of(word)?)))
        .ok_or_else(|| AttachError::Ended(std::fs::read_to_string(log).unwrap_or_default()))
}

/// Whether the process that serves it is there (a number may belong to another by now).
fn is_served(attached: &Attached, place: &Place) -> bool {
    match attached.way {
        Way::Kernel { .. } => attached.device.exists(),
        Way::Fuse { pid, .. } => {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let mount = place.mount().display().to_string();
            line.split(|byte| *byte == 0)
                .any(|word| word == mount.as_bytes())
        }
    }
}

impl Detach {
    pub fn run(self) -> ExitCode {
        match self.detach() {
            Ok(()) => exit::done(),
            Err(error) => exit::failed(&error),
        }
    }

    fn detach(&self) -> Result<(), AttachError> {
        let name = match self.volume.parse::<TargetName>() {
            Ok(address) => {
                state::name_of(&address.subsystem_nqn, address.namespace_id.unwrap_or(1))
            }
            Err(_) => self.volume.clone(),
        };
        let place = Place::new(&self.directory.directory, &name)?;
        let _lock = place.lock()?;
        let Some(attached) = place.load()? else {
            place.clear();
            return Err(AttachError::NotAttached(name));
        };
        detach(&place, &attached)
    }
}

fn detach(place: &Place, attached: &Attached) -> Result<(), AttachError> {
    tools::refuse_if_used(&attached.device)?;
    match attached.way {
        Way::Kernel { ref nqn, ours } => {
            return place.leave(nqn, ours, || kernel::detach(nqn));
        }
        Way::Fuse { pid, .. } => {
            let file = place.mount().join(file_system::FILE);
            for device in tools::loops_over(&file)? {
                tools::detach_loop(&device)?;
            }
            unmount(&place.mount())?;
            end(pid, || is_served(attached, place));
        }
    }
    place.clear();
    Ok(())
}

/// Ends what an attach has left that was interrupted before it could remember it.
fn clear_remains(place: &Place) -> Result<(), AttachError> {
    if !is_mounted(&place.mount()) {
        return Ok(());
    }
    for device in tools::loops_over(&place.mount().join(file_system::FILE))? {
        tools::refuse_if_used(&device)?;
        tools::detach_loop(&device)?;
    }
    unmount(&place.mount())
}

fn is_mounted(mount: &Path) -> bool {
    csi::is_mount_point(mount)
}

/// Unmounts the file system, if it is mounted; the one of a dead process comes off lazily.
fn unmount(mount: &Path) -> Result<(), AttachError> {
    if !is_mounted(mount) {
        return Ok(());
    }
    let path = mount.display().to_string();
    let again = |_| tools::run("umount", &["--lazy", &path]);
    tools::run("umount", &[&path]).or_else(again).map(drop)
}

/// Waits until the process has ended, and ends it if it does not.
fn end(pid: u32, is_there: impl Fn() -> bool) {
    let started = Instant::now();
    while is_there() {
        if started.elapsed() > ENDS {
            if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
                // It may have ended just now.
                let _ = rustix::process::kill_process(pid, Signal::KILL);
            }
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

impl Serve {
    pub fn run(self) -> ExitCode {
        match self.serve() {
            Ok(()) => exit::done(),
            Err(error) => exit::failed(&error),
        }
    }

    /// Serves until the file system is unmounted.
    fn serve(self) -> Result<(), AttachError> {
        let ready = |geometry: &block::Geometry, requests: Requests| {
            let (bytes, word) = (geometry.block_bytes, requests.word());
            output::write(format!("{READY}{bytes} {word}\n").as_bytes())
        };
        let connecting: Connecting = serde_json::from_reader(io::stdin())
            .map_err(|error| AttachError::Secret(error.to_string()))?;
        bridge::serve(&self.addresses, connecting.options()?, self.mount, ready)?;
        Ok(())
    }
}
