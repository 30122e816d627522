//! The kill: every volume is written to, the node dies, and what it acknowledged is read back.

use std::time::{Duration, Instant};

use api::Volume;
use initiator::ConnectOptions;
use lab::load::{Journal, Pattern, PerfOptions, Report, Snapshot, Stop, Verify, Workload};

use super::display::Display;
use super::measure::HOST_NQN;
use super::process::NodeProcess;
use super::results::Survival;
use super::{DemoError, target, unless_stopped};

/// How much of each volume is written to, and read back.
const REGION_BYTES: u64 = 64 << 20;

/// Not where the measurements wrote.
const REGION_OFFSET_BYTES: u64 = 512 << 20;

const WRITE_DEPTH: u32 = 8;
const READ_DEPTH: u32 = 16;

/// Kills the node in the middle of writes to all volumes, starts it again, and verifies.
pub fn kill_and_verify(
    node: &mut NodeProcess,
    volumes: &[Volume],
    runtime: Duration,
    stop: &Stop,
    display: &Display,
) -> Result<Survival, DemoError> {
    display.step(&format!(
        "Writing to all {} volumes, then SIGKILL in the middle",
        volumes.len()
    ));
    let writes: Vec<PerfOptions> = volumes
        .iter()
        .map(|volume| write_options(node, volume, runtime))
        .collect();
    write_until_killed(node, &writes, runtime, stop, display)?;
    unless_stopped(stop)?;
    let acknowledged = acknowledged_blocks(node, volumes)?;
    display.done(&format!("killed with {acknowledged} blocks acknowledged"));

    display.step("Starting the node again, and reading back every acknowledged write");
    let killed = Instant::now();
    node.start(stop)?;
    let restart = killed.elapsed();
    let mut verified = 0;
    for volume in volumes {
        verified += read_back(node, volume, stop)?;
    }
    display.done(&format!(
        "serving again after {:.0} ms; {verified} of {acknowledged} blocks are right",
        restart.as_secs_f64() * 1e3
    ));
    if verified != acknowledged {
        let lost = format!("{acknowledged} blocks were acknowledged, {verified} were read back");
        return Err(DemoError::Lost(lost));
    }
    Ok(Survival {
        acknowledged_blocks: acknowledged,
        verified_blocks: verified,
        restart_ms: restart.as_secs_f64() * 1e3,
    })
}

/// One writer a volume on its own thread; the node is killed when half the time has passed.
fn write_until_killed(
    node: &mut NodeProcess,
    writes: &[PerfOptions],
    runtime: Duration,
    stop: &Stop,
    display: &Display,
) -> Result<(), DemoError> {
    let mut bar = display.bar("random write 4 KiB", runtime / 2);
    let shown = std::sync::Mutex::new(vec![Snapshot::default(); writes.len()]);
    let outcome = std::thread::scope(|scope| {
        for (index, options) in writes.iter().enumerate() {
            let shown = &shown;
            scope.spawn(move || {
                let watch = |snapshot| {
                    if let Ok(mut shown) = shown.lock()
                        && let Some(mine) = shown.get_mut(index)
                    {
                        *mine = snapshot;
                    }
                };
                // The node dies under it, so it fails; what counts is in its journal.
                drop(lab::load::run(options, stop, watch));
            });
        }
        let started = Instant::now();
        while started.elapsed() < runtime / 2 && !stop.is_stopped() {
            std::thread::sleep(Duration::from_millis(100));
            if let Ok(shown) = shown.lock() {
                bar.show(sum(&shown));
            }
        }
        node.kill()
    });
    bar.clear();
    outcome
}

fn sum(snapshots: &[Snapshot]) -> Snapshot {
    snapshots.iter().fold(Snapshot::default(), |mut sum, one| {
        sum.reads += one.reads;
        sum.writes += one.writes;
        sum.bytes += one.bytes;
        sum
    })
}

fn write_options(node: &NodeProcess, volume: &Volume, runtime: Duration) -> PerfOptions {
    PerfOptions {
        target: target(node, volume),
        connect: ConnectOptions::new(HOST_NQN),
        workload: Workload {
            pattern: Pattern::RandWrite,
            depth: WRITE_DEPTH,
            runtime: Some(runtime),
            random_map: false,
            ..region()
        },
        cores: Vec::new(),
        journal: Some(node.scratch(&journal_name(volume))),
    }
}

fn region() -> Workload {
    Workload {
        offset_bytes: REGION_OFFSET_BYTES,
        size_bytes: Some(REGION_BYTES),
        verify: Verify::Crc32c,
        ..Workload::default()
    }
}

fn journal_name(volume: &Volume) -> String {
    format!("{}.journal", volume.name)
}

fn acknowledged_blocks(node: &NodeProcess, volumes: &[Volume]) -> Result<u64, DemoError> {
    let mut blocks = 0;
    for volume in volumes {
        // The load generator appends the number of the job.
        let path = node.scratch(&format!("{}.0", journal_name(volume)));
        let journal = Journal::load(&path).map_err(lab::load::PerfError::from)?;
        blocks += journal.acknowledged_blocks();
    }
    Ok(blocks)
}

/// Reads a volume's whole region and judges it by its journal; gives the acknowledged blocks.
pub fn read_back(node: &NodeProcess, volume: &Volume, stop: &Stop) -> Result<u64, DemoError> {
    let options = PerfOptions {
        target: target(node, volume),
        connect: ConnectOptions::new(HOST_NQN),
        workload: Workload {
            pattern: Pattern::Read,
            transfer_bytes: 128 * 1024,
            depth: READ_DEPTH,
            ..region()
        },
        cores: Vec::new(),
        journal: Some(node.scratch(&journal_name(volume))),
    };
    let report: Report = lab::load::run(&options, stop, |_| {})?;
    unless_stopped(stop)?;
    match &report.verification {
        Some(found) if report.is_clean() => Ok(found.blocks_acknowledged),
        _ => Err(DemoError::Lost(format!(
            "volume {}:\n{report}",
            volume.name
        ))),
    }
}
