//! A node as a user would run it: the `flashyard` program itself, on CPU 0.
#![allow(dead_code, reason = "each benchmark uses what it needs")]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use api::{DriveSpec, Name, PoolLevel, PoolSpec, Size};
use client::{Client, Login};
use serde_json::Value;
use server::endpoints::Endpoints;

/// The program, in the same profile as this benchmark.
pub const FLASHYARD: &str = env!("CARGO_BIN_EXE_flashyard");

/// Longer than any start takes.
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// How often a start is looked at.
const LOOK_PERIOD: Duration = Duration::from_millis(2);

/// A running node.
pub struct Node {
    pub process: Child,
    directory: PathBuf,
    endpoints: Endpoints,
    token_file: PathBuf,
    /// Where it serves NVMe/TCP, as `address:port`.
    pub nvme: String,
}

impl Node {
    /// Starts an empty node with its state in `directory`, and an API in the clear.
    pub fn start(directory: &Path) -> Result<Node> {
        Node::start_speaking(directory, "http")
    }

    /// Starts an empty node that speaks `http` or `https`.
    pub fn start_speaking(directory: &Path, protocol: &str) -> Result<Node> {
        std::fs::create_dir_all(directory)?;
        let settings = directory.join("flashyard.toml");
        std::fs::write(
            &settings,
            format!(
                "state_directory = {directory:?}\n\
                 [node]\nname = \"bench\"\ncores = [0]\n\
                 [[nvme.ports]]\nlisten = \"127.0.0.1:0\"\n\
                 [[nvme.ports]]\nlisten = \"127.0.0.1:0\"\ntls = true\n\
                 [api]\nlisten = \"127.0.0.1:0\"\nprotocol = {protocol:?}\n"
            ),
        )?;
        let (process, endpoints) = run(directory)?;
        Ok(Node {
            process,
            directory: directory.to_owned(),
            token_file: directory.join("admin.token"),
            nvme: endpoints.nvme[0].to_string(),
            endpoints,
        })
    }

    /// Ends the process at once and starts it again; gives the time from its start until it serves.
    pub fn restart(&mut self) -> Result<Duration> {
        self.process.kill()?;
        self.process.wait()?;
        let began = Instant::now();
        let (process, endpoints) = run(&self.directory)?;
        let took = began.elapsed();
        self.process = process;
        self.nvme = endpoints.nvme[0].to_string();
        self.endpoints = endpoints;
        Ok(took)
    }

    /// What a client needs to know of it.
    pub fn login(&self) -> Result<Login> {
        let certificate = self.endpoints.certificate.as_ref();
        let certificate = certificate.map(|text| text.parse().map_err(anyhow::Error::msg));
        let certificate = certificate.transpose()?;
        Ok(Login {
            url: self.endpoints.api.clone(),
            token: Some(std::fs::read_to_string(&self.token_file)?.trim().into()),
            certificate,
        })
    }

    /// A client with all rights.
    pub fn client(&self) -> Result<Client> {
        Ok(Client::with(&self.login()?)?)
    }

    /// A command of the program, against the node.
    pub fn command(&self, words: &str) -> Command {
        let mut command = Command::new(FLASHYARD);
        command
            .args(["--node", &self.endpoints.api])
            .arg("--token-file")
            .arg(&self.token_file)
            .args(words.split(' '));
        command
    }

    /// Runs a command of the program against the node; gives what it prints as JSON.
    pub fn call(&self, words: &str) -> Result<Value> {
        run_json(&mut self.command(words))
    }

    /// Makes a raid6 pool of six files of this size in `directory`.
    pub fn create_pool(&self, name: &Name, directory: &Path, of_file: Size) -> Result<()> {
        let client = self.client()?;
        let mut drives: Vec<Name> = Vec::new();
        for number in 0..6 {
            let drive = DriveSpec::Path {
                path: directory.join(format!("d{number}")).display().to_string(),
                size: Some(of_file),
            };
            let name: Name = format!("d{number}").parse()?;
            client.add_drive(&name, &drive)?;
            drives.push(name);
        }
        let pool = PoolSpec {
            level: PoolLevel::Raid6,
            drives,
            width: None,
            force: false,
        };
        client.create_pool(name, &pool)?;
        Ok(())
    }

    /// User and system time so far of its threads whose names begin so: nanoseconds from their
    /// schedstat. What threads took that have ended is not in it.
    pub fn processor_time(&self, threads: &str) -> Result<Duration> {
        let mut nanoseconds = 0;
        for thread in std::fs::read_dir(format!("/proc/{}/task", self.process.id()))? {
            let thread = thread?.path();
            if !std::fs::read_to_string(thread.join("comm"))?.starts_with(threads) {
                continue;
            }
            let text = std::fs::read_to_string(thread.join("schedstat"))?;
            let first = text.split(' ').next().context("schedstat is empty")?;
            nanoseconds += first.parse::<u64>().context("schedstat: not a number")?;
        }
        Ok(Duration::from_nanos(nanoseconds))
    }

    /// Memory that its process has of its own: RssAnon of proc_pid_status(5).
    pub fn memory_bytes(&self) -> Result<f64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id()))?;
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("RssAnon:"));
        let kibibytes = line.and_then(|line| line.trim().strip_suffix(" kB"));
        let kibibytes: f64 = kibibytes.context("RssAnon is missing")?.parse()?;
        Ok(kibibytes * 1024.0)
    }

    /// The NQN under which a volume is served.
    pub fn volume_nqn(&self, volume: &str) -> Result<String> {
        Ok(self.client()?.volume(&volume.parse()?)?.nqn)
    }

    /// A volume as `flashyard perf` wants it named.
    pub fn target(&self, volume: &str) -> Result<String> {
        self.target_at(0, volume)
    }

    /// The same, through one of the node's ports.
    pub fn target_at(&self, port: usize, volume: &str) -> Result<String> {
        let address = self.endpoints.nvme.get(port).context("no such port")?;
        Ok(format!(
            "tcp://{address}/{}?nsid=1",
            self.volume_nqn(volume)?
        ))
    }
}

/// Starts the program on a directory; returns when it serves.
fn run(directory: &Path) -> Result<(Child, Endpoints)> {
    let mut process = Command::new(FLASHYARD)
        .args(["serve", "--config"])
        .arg(directory.join("flashyard.toml"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .context("starting the node")?;
    let began = Instant::now();
    while began.elapsed() < START_TIMEOUT {
        if let Ok(found) = Endpoints::read(directory)
            && found.pid == process.id()
        {
            return Ok((process, found));
        }
        if let Some(status) = process.try_wait()? {
            bail!("the node ended: {status}");
        }
        std::thread::sleep(LOOK_PERIOD);
    }
    bail!("the node does not serve within {START_TIMEOUT:?}")
}

/// Runs a command of the program; gives what it prints as JSON.
pub fn run_json(command: &mut Command) -> Result<Value> {
    let output = command.args(["--output", "json"]).output()?;
    if !output.status.success() {
        bail!(
            "{command:?}: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    if output.stdout.is_empty() {
        return Ok(Value::Null);
    }
    serde_json::from_slice(&output.stdout).with_context(|| format!("{command:?}: not JSON"))
}

impl Drop for Node {
    fn drop(&mut self) {
        // The next round starts a node of its own, so this one need not keep anything.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
