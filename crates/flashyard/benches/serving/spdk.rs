//! SPDK's target and load generator, when the user has a built tree of it: the peer beside us.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

use crate::perf::Sample;
use crate::rows::{Device, Row};

const SUBSYSTEM: &str = "nqn.2016-06.io.spdk:bench";
const PORT: &str = "4499";

/// A running `nvmf_tgt` on CPU 0 with the three devices as namespaces 1 to 3.
pub struct Target {
    tree: PathBuf,
    socket: PathBuf,
    process: Child,
}

impl Target {
    /// Starts it; it listens on loopback only.
    pub fn start(tree: &Path, file: &Path) -> Result<Target> {
        let socket = file.with_file_name("spdk.sock");
        let process = Command::new(tree.join("build/bin/nvmf_tgt"))
            .args(["-m", "0x1", "-s", "512", "--no-pci", "-r"])
            .arg(&socket)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("starting nvmf_tgt")?;
        let target = Target {
            tree: tree.to_owned(),
            socket,
            process,
        };
        target.wait_until_ready()?;
        target.call("nvmf_create_transport -t TCP -o")?;
        target.call("bdev_null_create null0 102400 4096")?;
        target.call("bdev_malloc_create -b malloc0 256 4096")?;
        target.call(&format!("bdev_aio_create {} aio0 4096", file.display()))?;
        target.call(&format!("nvmf_create_subsystem {SUBSYSTEM} -a"))?;
        for device in ["null0", "malloc0", "aio0"] {
            target.call(&format!("nvmf_subsystem_add_ns {SUBSYSTEM} {device}"))?;
        }
        target.call(&format!(
            "nvmf_subsystem_add_listener {SUBSYSTEM} -t tcp -a 127.0.0.1 -s {PORT}"
        ))?;
        Ok(target)
    }

    fn wait_until_ready(&self) -> Result<()> {
        for _ in 0..50 {
            if self.call("rpc_get_methods").is_ok() {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(200));
        }
        bail!("nvmf_tgt does not answer on {}", self.socket.display())
    }

    fn call(&self, request: &str) -> Result<()> {
        let output = Command::new(self.tree.join("scripts/rpc.py"))
            .arg("-s")
            .arg(&self.socket)
            .args(request.split(' '))
            .output()
            .context("running rpc.py")?;
        if !output.status.success() {
            bail!(
                "{request}: {}",
                String::from_utf8_lossy(&output.stderr).trim()
            );
        }
        Ok(())
    }

    /// Stops it from polling while somebody else is measured on its CPU.
    pub fn pause(&self) -> Result<()> {
        self.signal(Signal::STOP)
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        kill_process(Pid::from_child(&self.process), signal).context("signalling nvmf_tgt")
    }

    /// Runs SPDK's own load generator for one row, on CPU 1; the target runs for that time only.
    pub fn measure(&self, row: &Row, seconds: u64) -> Result<Sample> {
        self.signal(Signal::CONT)?;
        let sample = self.load(row, seconds);
        self.pause()?;
        sample
    }

    fn load(&self, row: &Row, seconds: u64) -> Result<Sample> {
        let namespace = match row.device {
            Device::Null => 1,
            Device::Memory => 2,
            Device::File => 3,
        };
        let transport = format!(
            "trtype:TCP adrfam:IPv4 traddr:127.0.0.1 trsvcid:{PORT} \
             subnqn:{SUBSYSTEM} ns:{namespace}"
        );
        let output = Command::new(self.tree.join("build/bin/spdk_nvme_perf"))
            .args(["-c", "0x2", "-s", "256", "-i", "7", "-L", "-w", row.pattern])
            .args(["-t", &seconds.to_string(), "-q", &row.depth.to_string()])
            .args(["-o", &row.block_bytes.to_string(), "-r", &transport])
            .output()
            .context("running spdk_nvme_perf")?;
        let text = String::from_utf8_lossy(&output.stdout);
        parse(&text).with_context(|| format!("spdk_nvme_perf printed:\n{text}"))
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        // It holds no state that outlives the measurement, so it need not close in an orderly way.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Reads the line of totals (`TCP (...): IOPS MiB/s average min max`) and the 99th percentile.
fn parse(text: &str) -> Option<Sample> {
    let totals = text.lines().find(|line| line.starts_with("TCP"))?;
    let mut last_five = totals.split_whitespace().rev().take(5);
    let (mean_us, iops) = (
        last_five.nth(2)?.parse().ok()?,
        last_five.nth(1)?.parse().ok()?,
    );
    let p99 = text
        .lines()
        .find(|line| line.trim_start().starts_with("99.00000%"))?;
    let p99_us = p99
        .split_whitespace()
        .last()?
        .trim_end_matches("us")
        .parse()
        .ok()?;
    Some(Sample {
        iops,
        mean_us,
        p99_us,
    })
}
