//! [`Server`]: a MariaDB of our own, on loopback, with its data in a directory of the experiment.

use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;

use crate::load::Stop;
use crate::ports::free_port;
use crate::program::{Companion, ProgramError, answer, system};

/// Longer than recovery takes on a drive slowed down two hundred times.
const STARTS: Duration = Duration::from_secs(120);

/// Longer than writing back a buffer pool takes there.
const ENDS: Duration = Duration::from_secs(120);

/// What a server is started for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tuning {
    pub(super) buffer_pool_bytes: u64,
    /// Every commit is on the drive before it is acknowledged; if not, data can be loaded fast.
    pub(super) durable: bool,
}

/// A running server; killed when dropped.
pub(super) struct Server {
    companion: Companion,
    pub(super) port: u16,
    socket: PathBuf,
    _directory: TempDir,
}

/// What the server says it is.
pub(super) fn version() -> Result<String, ProgramError> {
    answer(Command::new("mariadbd").args(["--no-defaults", "--version"]))
}

/// Makes an empty database in `data`, whose root needs no password.
pub(super) fn initialise(data: &Path) -> Result<(), ProgramError> {
    let mut command = Command::new("mariadb-install-db");
    command
        .arg("--no-defaults")
        .arg(format!("--datadir={}", data.display()));
    command.args([
        "--auth-root-authentication-method=normal",
        "--skip-test-db",
        "--user=root",
    ]);
    answer(&mut command).map(drop)
}

impl Server {
    /// Starts it on `data`; `None` when stopped before it answers.
    pub(super) fn start(
        data: &Path,
        tuning: Tuning,
        stop: &Stop,
    ) -> Result<Option<Server>, ProgramError> {
        let directory = tempfile::Builder::new().prefix("flashyard-lab-").tempdir();
        let directory = directory.map_err(system("making a directory"))?;
        let port =
            free_port(&[Ipv4Addr::LOCALHOST.into()]).map_err(system("looking for a free port"))?;
        let socket = directory.path().join("mariadb.sock");
        let mut command = Command::new("mariadbd");
        // Nothing of the machine's own configuration, and nothing beside the data directory.
        command.args([
            "--no-defaults",
            "--user=root",
            "--skip-log-bin",
            "--skip-name-resolve",
        ]);
        command.args(["--bind-address=127.0.0.1", "--innodb-flush-method=O_DIRECT"]);
        command.arg(format!("--datadir={}", data.display()));
        command.arg(format!("--port={port}"));
        command.arg(format!("--socket={}", socket.display()));
        command.arg(format!(
            "--pid-file={}",
            directory.path().join("pid").display()
        ));
        command.arg(format!(
            "--innodb-buffer-pool-size={}",
            tuning.buffer_pool_bytes
        ));
        command.arg("--innodb-buffer-pool-load-at-startup=OFF");
        if !tuning.durable {
            command.args([
                "--innodb-flush-log-at-trx-commit=0",
                "--innodb-doublewrite=OFF",
            ]);
        }
        let mut companion = Companion::start(&mut command, directory.path().join("log"))?;
        let answers = |_: &str| TcpStream::connect(("127.0.0.1", port)).is_ok();
        if !companion.wait_until(stop, STARTS, answers)? {
            return Ok(None);
        }
        Ok(Some(Server {
            companion,
            port,
            socket,
            _directory: directory,
        }))
    }

    /// The process's number.
    pub(super) fn pid(&self) -> u32 {
        self.companion.pid()
    }

    /// What a statement gives, a line a row, columns apart by tabs.
    pub(super) fn ask(&self, statement: &str) -> Result<String, ProgramError> {
        answer(mariadb_client(&self.socket).args(["--execute", statement]))
    }

    /// Ends it in order.
    pub(super) fn end(self, stop: &Stop) {
        self.companion.end(stop, ENDS);
    }
}

/// MariaDB's client as root of the server at `socket`: what it prints is a line a row, columns
/// apart by tabs.
pub fn mariadb_client(socket: &Path) -> Command {
    let mut command = Command::new("mariadb");
    command.args([
        "--no-defaults",
        "--user=root",
        "--batch",
        "--skip-column-names",
    ]);
    command.arg(format!("--socket={}", socket.display()));
    command
}
