//! A node as a user would run it: the `flashyard` program itself, on CPU 0.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// The program, in the same profile as this benchmark.
pub const FLASHYARD: &str = env!("CARGO_BIN_EXE_flashyard");

/// A running node.
pub struct Node {
    pub process: Child,
    api: String,
    token_file: PathBuf,
    /// Where it serves NVMe/TCP, as `address:port`.
    pub nvme: String,
}

impl Node {
    /// Starts an empty node with its state in `directory`.
    pub fn start(directory: &Path) -> Result<Node> {
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

    /// Runs a command of the program against the node; gives what it prints as JSON.
    pub fn call(&self, words: &str) -> Result<Value> {
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

    /// A volume as `flashyard perf` wants it named.
    pub fn target(&self, volume: &str) -> Result<String> {
        let nqn = self.volume_nqn(volume)?;
        Ok(format!("tcp://{}/{nqn}?nsid=1", self.nvme))
    }
}

/// A setting out of the environment, or its default.
pub fn setting<T: std::str::FromStr>(name: &str, default: T) -> Result<T> {
    match std::env::var(name) {
        Ok(text) => text
            .parse()
            .ok()
            .with_context(|| format!("{name}={text}: a whole number is wanted")),
        Err(_) => Ok(default),
    }
}

/// The middle one.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Processor, cores and kernel, as the machine itself names them.
pub fn machine() -> String {
    let of_file = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let processors = of_file("/proc/cpuinfo");
    let model = processors
        .lines()
        .find_map(|line| line.strip_prefix("model name"))
        .map_or("unknown processor", |rest| {
            rest.trim_start_matches([' ', '\t', ':'])
        });
    let cores = processors
        .lines()
        .filter(|line| line.starts_with("processor"))
        .count();
    let kernel = of_file("/proc/sys/kernel/osrelease");
    format!("{model}, {cores} cores, Linux {}", kernel.trim())
}

/// Keeps what was measured as `target/bench/NAME.json`.
pub fn save(name: &str, result: &Value) -> Result<()> {
    let directory = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../target/bench");
    std::fs::create_dir_all(&directory)?;
    let path = directory.join(format!("{name}.json"));
    std::fs::write(&path, serde_json::to_vec_pretty(result)?)
        .with_context(|| format!("writing {}", path.display()))
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
