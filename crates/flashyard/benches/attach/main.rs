//! `cargo bench -p flashyard --bench attach`: a volume that `flashyard attach` makes a block device
//! where the kernel has no NVMe/TCP host, beside a plain file under the same kind of loop device.
//!
//! fio, random 4 KiB at QD 32 and QD 1, past the page cache; contenders alternate, and the ratio is
//! the median of the rounds' own. Volumes are attached twice, with FUSE's requests read and over
//! io_uring, for which the kernel's parameter is set and put back; a kernel without it has no such
//! rows. Needs root, and fio. `ROUNDS` and `SECONDS` change the defaults of 5 and 4.

#[path = "../support/file.rs"]
mod file;
#[path = "../support/node.rs"]
mod node;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use node::Node;

/// fio's pattern, and the queue depth.
const LOADS: [(&str, u32); 4] = [
    ("randread", 32),
    ("randwrite", 32),
    ("randread", 1),
    ("randwrite", 1),
];

/// Whether the kernel offers FUSE over io_uring.
const PARAMETER: &str = "/sys/module/fuse/parameters/enable_uring";

/// Bytes of each device.
const BYTES: u64 = 512 << 20;

fn main() -> Result<()> {
    if !bench::is_asked_for() {
        return Ok(());
    }
    let rounds: usize = bench::setting("ROUNDS", 5);
    let seconds: u64 = bench::setting("SECONDS", 4);
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
    let plain = Device::over(&file::prepare(&own("plain")?, BYTES)?)?;
    let mut devices = vec![("plain file".to_owned(), plain)];
    for (io_uring, way) in [("N", "read"), ("Y", "over io_uring")] {
        let offer = Offer::set(io_uring)?;
        if io_uring == "Y" && offer.is_none() {
            eprintln!("no rows of FUSE over io_uring: this kernel has no {PARAMETER}");
            continue;
        }
        for (volume, name) in [("file", "volume on a file"), ("memory", "volume in memory")] {
            let state = own(&format!("{volume}-{io_uring}"))?;
            let device = Device::attach(&node.target(volume)?, &state)?;
            devices.push((format!("{name}, {way}"), device));
        }
    }
    let mut rates = vec![vec![Vec::new(); LOADS.len()]; devices.len()];
    for round in 1..=rounds {
        for (load, &(word, depth)) in LOADS.iter().enumerate() {
            for (device, (name, place)) in devices.iter().enumerate() {
                let iops = place.fio(word, depth, seconds)?;
                eprintln!("round {round} {name} {word} QD {depth}: {iops:.0} IOPS");
                rates[device][load].push(iops);
            }
        }
    }
    let names: Vec<_> = devices.iter().map(|(name, _)| name.as_str()).collect();
    print_and_save(&names, &rates);
    Ok(())
}

/// The kernel's parameter, set; put back when dropped. `None` where there is none.
struct Offer(String);

impl Offer {
    fn set(value: &str) -> Result<Option<Offer>> {
        let Ok(before) = std::fs::read_to_string(PARAMETER) else {
            return Ok(None);
        };
        std::fs::write(PARAMETER, value).with_context(|| format!("setting {PARAMETER}"))?;
        Ok(Some(Offer(before.trim().to_owned())))
    }
}

impl Drop for Offer {
    fn drop(&mut self) {
        if let Err(error) = std::fs::write(PARAMETER, &self.0) {
            eprintln!("left as it was set: {PARAMETER}: {error}");
        }
    }
}

/// Medians, and of each device's rounds beside the first's.
fn print_and_save(names: &[&str], rates: &[Vec<Vec<f64>>]) {
    println!("Machine: {}\n", bench::machine());
    print!("| block device |");
    for (word, depth) in LOADS {
        print!(" {word} QD {depth}, K IOPS | ratio |");
    }
    println!("\n|---|{}", "---|".repeat(2 * LOADS.len()));
    let mut saved = Vec::new();
    for (name, ours) in names.iter().zip(rates) {
        print!("| {name} |");
        for (load, own) in ours.iter().enumerate() {
            let plain = &rates[0][load];
            let iops = bench::median(own.iter().copied());
            let ratios = own.iter().zip(plain).map(|(our, their)| our / their);
            let ratio = bench::median(ratios);
            print!(" {:.1} | {ratio:.2} |", iops / 1e3);
            let (word, depth) = LOADS[load];
            saved.push(
                json!({ "device": name, "pattern": word, "queue_depth": depth, "iops": iops,
                "ratio_to_plain_file": ratio }),
            );
        }
        println!();
    }
    bench::save(
        "attach",
        &["queue_depth"],
        &json!({ "machine": bench::machine(), "rows": saved }),
    );
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
    fn fio(&self, pattern: &str, depth: u32, seconds: u64) -> Result<f64> {
        let mut command = Command::new("fio");
        command.args([
            "--name=attach",
            "--ioengine=io_uring",
            "--direct=1",
            "--bs=4k",
        ]);
        command.args(["--norandommap", "--time_based", "--ramp_time=500ms"]);
        command.arg(format!("--iodepth={depth}"));
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
