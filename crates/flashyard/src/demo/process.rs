//! [`NodeProcess`]: the demonstration's node, a process over a temporary directory.

use std::fs::File;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use client::{Client, Login};
use lab::load::Stop;
use rustix::process::{Pid, Signal};
use server::endpoints::Endpoints;
use server::tokens::read_admin_token;
use tempfile::TempDir;

use super::{DemoError, unless_stopped};
use crate::itself::itself;

/// Longer than a start takes on the slowest machine: of several nodes, more than 20 seconds on
/// emulated processors that others use too. One that has ended is not waited for.
const START_TIMEOUT: Duration = Duration::from_secs(120);

/// How often the node is looked after while it starts or stops.
const POLL_PERIOD: Duration = Duration::from_millis(20);

/// How much of the node's log an error shows.
const LOG_LINES: usize = 10;

const DRIVE_SIZE: &str = "1GiB";

/// A node of its own process; killed, and its directory removed, when dropped.
pub struct NodeProcess {
    process: Option<Child>,
    endpoints: Endpoints,
    /// How many drives its first start makes.
    drives: u16,
    /// The address that it serves RDMA at, on any port.
    rdma: Option<IpAddr>,
    directory: TempDir,
}

impl NodeProcess {
    /// Starts a node in a new directory below `place`, on so many new drives, of which it makes a
    /// pool with a volume. Its ports are free ones: one for TCP on loopback, and one for RDMA at
    /// `rdma`, the address of a device.
    pub fn start_new(
        place: &Path,
        drives: u16,
        rdma: Option<IpAddr>,
        stop: &Stop,
    ) -> Result<NodeProcess, DemoError> {
        let directory = tempfile::Builder::new()
            .prefix("flashyard-demo-")
            .tempdir_in(place)
            .map_err(system(format!("making a directory in {}", place.display())))?;
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let endpoints = Endpoints {
            api: format!("http://{any}"),
            certificate: None,
            nvme: vec![any],
            pid: 0,
        };
        let mut node = NodeProcess {
            process: None,
            endpoints,
            drives,
            rdma,
            directory,
        };
        node.start(stop)?;
        Ok(node)
    }

    /// Starts the process, again on the ports it had, and waits until it serves.
    pub fn start(&mut self, stop: &Stop) -> Result<(), DemoError> {
        let log = File::create(self.log_path()).map_err(system("making the node's log"))?;
        let api = self.endpoints.api.trim_start_matches("http://").to_owned();
        let over_rdma = self.rdma.map(|address| SocketAddr::new(address, 0));
        let over_rdma =
            over_rdma.map(|address| ["--listen".to_owned(), format!("rdma://{address}")]);
        let child = itself()
            .arg("serve")
            .args(over_rdma.into_iter().flatten())
            .arg("--dev")
            .arg(self.directory.path())
            .args(["--drives", &self.drives.to_string()])
            .args(["--drive-size", DRIVE_SIZE])
            .args([
                "--listen",
                &self.nvme_address().to_string(),
                "--api-listen",
                &api,
            ])
            // Its login goes with its directory.
            .env("XDG_CONFIG_HOME", self.directory.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            // An interrupt at the terminal is ours to act on: nodes end last.
            .process_group(0)
            .spawn()
            .map_err(system("starting the node"))?;
        let pid = child.id();
        self.process = Some(child);
        let started = Instant::now();
        loop {
            unless_stopped(stop)?;
            if let Ok(endpoints) = Endpoints::read(self.directory.path())
                && endpoints.pid == pid
            {
                self.endpoints = endpoints;
                return Ok(());
            }
            if self.has_ended() {
                return Err(self.failed("the node ended at its start"));
            }
            if started.elapsed() > START_TIMEOUT {
                let waited = format!("the node does not serve after {START_TIMEOUT:?}");
                return Err(self.failed(&waited));
            }
            std::thread::sleep(POLL_PERIOD);
        }
    }

    /// Ends the process at once with SIGKILL.
    pub fn kill(&mut self) -> Result<(), DemoError> {
        let Some(mut process) = self.process.take() else {
            return Ok(());
        };
        process
            .kill()
            .and_then(|()| process.wait())
            .map_err(system("killing the node"))?;
        Ok(())
    }

    /// Ends the process with SIGTERM; it has to end well.
    pub fn stop(&mut self) -> Result<(), DemoError> {
        let Some(mut process) = self.process.take() else {
            return Ok(());
        };
        let doing = "stopping the node";
        rustix::process::kill_process(Pid::from_child(&process), Signal::TERM)
            .map_err(|error| system(doing)(error.into()))?;
        let status = process.wait().map_err(system(doing))?;
        if status.success() {
            return Ok(());
        }
        Err(self.failed(&format!("the node stopped with {status}")))
    }

    /// The process's number.
    pub fn pid(&self) -> u32 {
        self.endpoints.pid
    }

    /// Where it serves NVMe/TCP.
    pub fn nvme_address(&self) -> SocketAddr {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        self.endpoints.nvme.first().copied().unwrap_or(any)
    }

    pub fn client(&self) -> Result<Client, DemoError> {
        let token = read_admin_token(self.directory.path());
        Ok(Client::with(&Login {
            url: self.endpoints.api.clone(),
            token: Some(token.map_err(system("reading the node's token"))?),
            certificate: None,
        })?)
    }

    /// A file beside the node's own that goes with the directory.
    pub fn scratch(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Processor time that the process has used since it started.
    pub fn processor_time(&self) -> Duration {
        let pid = self.process.as_ref().map(Child::id);
        pid.and_then(lab::processor::time_of).unwrap_or_default()
    }

    /// The file that a drive is kept in.
    pub fn drive_file(&self, drive: &str) -> PathBuf {
        self.scratch("drives").join(format!("{drive}.img"))
    }

    fn has_ended(&mut self) -> bool {
        let ended = self.process.as_mut().map(Child::try_wait);
        !matches!(ended, Some(Ok(None)))
    }

    fn failed(&self, what: &str) -> DemoError {
        let log = std::fs::read_to_string(self.log_path()).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        let end = lines.split_at(lines.len().saturating_sub(LOG_LINES)).1;
        DemoError::Node {
            what: what.to_owned(),
            log: end.join("\n"),
        }
    }

    fn log_path(&self) -> PathBuf {
        self.scratch("node.log")
    }
}

impl Drop for NodeProcess {
    fn drop(&mut self) {
        // Fails only if the process has ended already.
        let _ = self.kill();
    }
}

/// Names what the system refused.
pub fn system(doing: impl Into<String>) -> impl FnOnce(std::io::Error) -> DemoError {
    let doing = doing.into();
    move |source| DemoError::System { doing, source }
}
