//! `cargo bench -p flashyard --bench attach`: a volume that `flashyard attach` makes a block device
//! where the kernel has no NVMe/TCP host, beside a plain file under the same kind of loop device.
//!
//! fio, random 4 KiB at QD 32, past the page cache; contenders alternate, and the ratio is the
//! median of the rounds' own. Needs root, and fio. `ROUNDS` and `SECONDS` change the defaults of 5
//! and 4.

#[path = "../support/file.rs"]
mod file;
#[path = "../support/node.rs"]
mod node;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use node::Node;

const PATTERNS: [&str; 2] = ["randread", "randwrite"];

/// Bytes of each device.
const BYTES: u64 = 512 << 20;

fn main() -> Result<()> {
    // `cargo test --benches` runs bench programs with `--test`; there is nothing to check here.
    if !std::env::args().any(|argument| argument == "--bench") {
        return Ok(());
    }
    let rounds: usize = node::setting("ROUNDS", 5)?;
    let seconds: u64 = node::setting("SECONDS", 4)?;
    let directory = tempfile::tempdir().context("making a temporary directory")?;
    let own = |name: &str| -> Result<PathBuf> {
        let place = directory.path().join(name);
        std::fs::create_dir(&place)?;
        Ok(place)
    };
    let node = Node::start(&own("node")?)?;
    node.call("drive add memory --memory 512MiB")?;
    let drive = file::prepare(&own("drive")?, BYTES)?;
    node.call(&format!("drive add file {}", drive.display()))?;
    for volume in ["memory", "file"] {
        let create = format!("volume create {volume} --drive {volume} --allow any");
        node.call(&create)?;
    }
    let state = own("attached")?;
    let devices = [
        (
            "plain file",
            Device::over(&file::prepare(&own("plain")?, BYTES)?)?,
        ),
        (
            "volume on a file",
            Device::attach(&node.target("file")?, &state)?,
        ),
        (
            "volume in memory",
            Device::attach(&node.target("memory")?, &state)?,
        ),
    ];
    let mut rates = vec![vec![Vec::new(); PATTERNS.len()]; devices.len()];
    for round in 1..=rounds {
        for (pattern, &word) in PATTERNS.iter().enumerate() {
            for (device, (name, place)) in devices.iter().enumerate() {
                let iops = place.fio(word, seconds)?;
                eprintln!("round {round} {name} {word}: {iops:.0} IOPS");
                rates[device][pattern].push(iops);
            }
        }
    }
    let names = devices.each_ref().map(|(name, _)| *name);
    print_and_save(&names, &rates)
}

/// Medians, and of each device's rounds beside the first's.
fn print_and_save(names: &[&str], rates: &[Vec<Vec<f64>>]) -> Result<()> {
    println!("Machine: {}\n", node::machine());
    println!("| block device | random read, K IOPS | ratio | random write, K IOPS | ratio |");
    println!("|---|---|---|---|---|");
    let mut saved = Vec::new();
    for (name, ours) in names.iter().zip(rates) {
        print!("| {name} |");
        for (pattern, own) in ours.iter().enumerate() {
            let plain = &rates[0][pattern];
            let iops = node::median(own.clone());
            let ratios = own.iter().zip(plain).map(|(our, their)| our / their);
            let ratio = node::median(ratios.collect());
            print!(" {:.1} | {ratio:.2} |", iops / 1e3);
            saved.push(
                json!({ "device": name, "pattern": PATTERNS[pattern], "iops": iops,
                "ratio_to_plain_file": ratio }),
            );
        }
        println!();
    }
    node::save(
        "attach",
        &json!({ "machine": node::machine(), "rows": saved }),
    )
}

/// A block device, taken away when dropped.
struct Device {
    path: PathBuf,
    /// What takes it away.
    undo: Vec<String>,
}

impl Device {
    /// A loop device over a file.
    fn over(file: &Path) -> Result<Device> {
        let file = file.display().to_string();
        let options = [
            "--find",
            "--show",
            "--direct-io=on",
            "--sector-size",
            "4096",
        ];
        let path = printed(Command::new("losetup").args(options).arg(&file))?;
        Ok(Device {
            undo: ["losetup", "--detach", &path].map(str::to_owned).to_vec(),
            path: path.into(),
        })
    }

    /// The volume at `address`, attached.
    fn attach(address: &str, state: &Path) -> Result<Device> {
        let program = node::FLASHYARD;
        let state = state.display().to_string();
        let verb = |verb: &str| [program, verb, address, "--directory", &state].map(str::to_owned);
        let attach = verb("attach");
        let mut command = Command::new(program);
        let path = printed(command.args(&attach[1..]).args(["--method", "fuse"]))?;
        Ok(Device {
            path: path.into(),
            undo: verb("detach").to_vec(),
        })
    }

    /// I/Os a second.
    fn fio(&self, pattern: &str, seconds: u64) -> Result<f64> {
        let mut command = Command::new("fio");
        command.args([
            "--name=attach",
            "--ioengine=io_uring",
            "--direct=1",
            "--bs=4k",
        ]);
        command.args([
            "--iodepth=32",
            "--norandommap",
            "--time_based",
            "--ramp_time=500ms",
        ]);
        command.args(["--output-format=json", &format!("--rw={pattern}")]);
        command.arg(format!("--runtime={seconds}s"));
        command.arg(format!("--filename={}", self.path.display()));
        let answer: Value = serde_json::from_str(&printed(&mut command)?)?;
        let direction = pattern.trim_start_matches("rand");
        let iops = answer["jobs"][0][direction]["iops"].as_f64();
        iops.context("fio tells no IOPS")
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        if let [program, arguments @ ..] = self.undo.as_slice()
            && let Err(error) = printed(Command::new(program).args(arguments))
        {
            eprintln!("left behind: {}: {error}", self.path.display());
        }
    }
}

fn printed(command: &mut Command) -> Result<String> {
    let output = command
        .output()
        .with_context(|| format!("starting {command:?}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{command:?}: {}", said.trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
