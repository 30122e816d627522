//! A node as a user would run it: the `flashyard` program itself, on CPU 0.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::rows::{Device, Row, Sample};

/// The program, in the same profile as this benchmark.
const FLASHYARD: &str = env!("CARGO_BIN_EXE_flashyard");

/// A running node with one volume for each [`Device`].
pub struct Node {
    process: Child,
    api: String,
    token_file: PathBuf,
    /// Where it serves NVMe/TCP, as `address:port`.
    pub nvme: String,
}

impl Node {
    /// Starts a node with its state in `directory`; `file` becomes one of its drives.
    pub fn start(directory: &Path, file: &Path) -> Result<Node> {
        let node = Node::start_empty(directory)?;
        node.call("drive add null --null 400GiB")?;
        node.call("drive add memory --memory 256MiB")?;
        node.call(&format!("drive add file {}", file.display()))?;
        for volume in ["null", "memory", "file"] {
            node.call(&format!(
                "volume create {volume} --drive {volume} --allow any"
            ))?;
        }
        // Memory that was never written costs nothing to read; the peer's is touched at start.
        let target = node.target("memory")?;
        node.call(&format!("perf {target} --rw write --bs 128k --iodepth 8"))?;
        Ok(node)
    }

    /// A volume as `flashyard perf` wants it named.
    fn target(&self, volume: &str) -> Result<String> {
        Ok(format!(
            "tcp://{}/{}?nsid=1",
            self.nvme,
            self.volume_nqn(volume)?
        ))
    }

    fn start_empty(directory: &Path) -> Result<Node> {
        std::fs::create_dir_all(directory)?;
        let settings = directory.join("flashyard.toml");
        std::fs::write(
            &settings,
            format!(
                "state_directory = {directory:?}\n\
                 [node]\nname = \"bench\"\ncores = [0]\n\
                 [[nvme.ports]]\nlisten = \"127.0.0.1:0\"\n\
                 [api]\nlisten = \"127.0.0.1:0\"\nprotocol = \"http\"\n"
            ),
        )?;
        let process = Command::new(FLASHYARD)
            .args(["serve", "--config"])
            .arg(&settings)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("starting the node")?;
        let mut node = Node {
            process,
            api: String::new(),
            token_file: directory.join("admin.token"),
            nvme: String::new(),
        };
        node.wait_until_ready(&directory.join("endpoints.json"))?;
        Ok(node)
    }

    fn wait_until_ready(&mut self, endpoints: &PathBuf) -> Result<()> {
        for _ in 0..100 {
            if let Ok(text) = std::fs::read_to_string(endpoints) {
                let found: Value = serde_json::from_str(&text)?;
                self.api = found["api"].as_str().context("endpoints: api")?.to_owned();
                self.nvme = found["nvme"][0]
                    .as_str()
                    .context("endpoints: nvme")?
                    .to_owned();
                return Ok(());
            }
            if let Some(status) = self.process.try_wait()? {
                bail!("the node ended: {status}");
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        bail!("the node does not write {}", endpoints.display())
    }

    /// Its process identifier.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    fn call(&self, words: &str) -> Result<Value> {
        run_json(
            Command::new(FLASHYARD)
                .args(["--node", &self.api])
                .arg("--token-file")
                .arg(&self.token_file)
                .args(words.split(' ')),
        )
    }

    /// The NQN under which a volume is served.
    pub fn volume_nqn(&self, volume: &str) -> Result<String> {
        let shown = self.call(&format!("volume show {volume}"))?;
        Ok(shown["nqn"]
            .as_str()
            .context("volume show: no nqn")?
            .to_owned())
    }

    /// Runs `flashyard perf` for one row, on CPU 1.
    pub fn measure(&self, row: &Row, seconds: u64) -> Result<Sample> {
        let volume = match row.device {
            Device::Null => "null",
            Device::Memory => "memory",
            Device::File => "file",
        };
        let target = self.target(volume)?;
        let report = run_json(
            Command::new(FLASHYARD)
                .args(["perf", &target, "--rw", row.pattern, "--cores", "1"])
                .arg("--norandommap")
                .args(["--bs", &row.block_bytes.to_string()])
                .args(["--iodepth", &row.depth.to_string()])
                .args(["--runtime", &format!("{seconds}s")]),
        )?;
        let direction = if row.pattern.ends_with("read") {
            "read"
        } else {
            "write"
        };
        let found = &report[direction];
        let number = |value: &Value| value.as_f64().context("perf: a figure is missing");
        Ok(Sample {
            iops: number(&found["iops"])?,
            mean_us: number(&found["latency"]["mean_us"])?,
            p99_us: number(&found["latency"]["p99_us"])?,
        })
    }
}

fn run_json(command: &mut Command) -> Result<Value> {
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
