//! The damage: one drive's file is gone, another's is full of random bytes, and still every
//! acknowledged block is read back; then the pool makes itself whole again.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use api::{JobState, PoolState, Volume};
use client::Client;
use lab::load::Stop;
use server::develop::DEMO_POOL;

use super::display::Display;
use super::process::{NodeProcess, system};
use super::results::Damage;
use super::survive::read_back;
use super::{DemoError, name, unless_stopped};

const LOST_DRIVE: &str = "d2";
const CORRUPTED_DRIVE: &str = "d4";

/// Random bytes go over so much at the start of every stretch.
const CORRUPTED_BYTES: usize = 16 << 10;
const STRETCH_BYTES: usize = 256 << 10;

/// Longer than rebuilding what the demonstration wrote takes on the slowest machine.
const REBUILD_TIMEOUT: Duration = Duration::from_secs(300);

const POLL_PERIOD: Duration = Duration::from_millis(50);

/// Kills the node, damages two drives, starts it again, and verifies before and after the repair.
pub fn damage_and_verify(
    node: &mut NodeProcess,
    volumes: &[Volume],
    stop: &Stop,
    display: &Display,
) -> Result<Damage, DemoError> {
    display.step(&format!(
        "SIGKILL; then drive {LOST_DRIVE} is deleted, and random bytes go over drive \
         {CORRUPTED_DRIVE}"
    ));
    node.kill()?;
    std::fs::remove_file(node.drive_file(LOST_DRIVE)).map_err(system("deleting a drive's file"))?;
    let corrupted_bytes = corrupt(node)?;
    let killed = Instant::now();
    node.start(stop)?;
    let client = node.client()?;
    let verified_blocks = verify(node, volumes, stop)?;
    let pool = client.pool(&name(DEMO_POOL))?;
    display.done(&format!(
        "pool {} is {}: {verified_blocks} acknowledged blocks are right all the same",
        pool.name,
        state(pool.state)
    ));

    display.step("Rebuilding what the lost drive held, and scrubbing away the random bytes");
    wait_until_rebuilt(&client, stop)?;
    let rebuilt_ms = killed.elapsed().as_secs_f64() * 1e3;
    let scrubbed = scrub(&client, stop)?;
    let after = client.pool(&name(DEMO_POOL))?;
    let verified_again = verify(node, volumes, stop)?;
    display.done(&format!(
        "pool {} is {} on {} drives; {scrubbed}",
        after.name,
        state(after.state),
        after.members.len()
    ));
    if verified_again != verified_blocks {
        let lost = format!("{verified_blocks} blocks were right, now {verified_again} are");
        return Err(DemoError::Lost(lost));
    }
    Ok(Damage {
        corrupted_bytes,
        verified_blocks,
        rebuilt_ms,
        moved_bytes: after.counters.relocated_blocks * 4096,
        reconstructed_blocks: pool.counters.reconstructed_reads,
        repaired_blocks: after.counters.repaired_blocks,
    })
}

/// Writes over parts of a drive's file; gives how many bytes.
fn corrupt(node: &NodeProcess) -> Result<u64, DemoError> {
    let mut random = vec![0; CORRUPTED_BYTES];
    File::open("/dev/urandom")
        .and_then(|mut source| source.read_exact(&mut random))
        .map_err(system("reading random bytes"))?;
    let path = node.drive_file(CORRUPTED_DRIVE);
    let write = || {
        let file = File::options().write(true).open(path)?;
        let bytes = file.metadata()?.len();
        let mut written = 0;
        for at in (0..bytes).step_by(STRETCH_BYTES) {
            file.write_all_at(&random, at)?;
            written += random.len() as u64;
        }
        Ok(written)
    };
    write().map_err(system("writing over a drive's file"))
}

fn verify(node: &NodeProcess, volumes: &[Volume], stop: &Stop) -> Result<u64, DemoError> {
    let mut verified = 0;
    for volume in volumes {
        verified += read_back(node, volume, stop)?;
    }
    Ok(verified)
}

fn wait_until_rebuilt(client: &Client, stop: &Stop) -> Result<(), DemoError> {
    let started = Instant::now();
    loop {
        unless_stopped(stop)?;
        let pool = client.pool(&name(DEMO_POOL))?;
        if pool.state == PoolState::Online {
            return Ok(());
        }
        if pool.state == PoolState::Offline || started.elapsed() > REBUILD_TIMEOUT {
            let state = state(pool.state);
            return Err(DemoError::Lost(format!("the pool stays {state}")));
        }
        std::thread::sleep(POLL_PERIOD);
    }
}

fn scrub(client: &Client, stop: &Stop) -> Result<String, DemoError> {
    let mut job = client.scrub_pool(&name(DEMO_POOL))?;
    while job.state == JobState::Running {
        unless_stopped(stop)?;
        std::thread::sleep(POLL_PERIOD);
        job = client.job(job.id)?;
    }
    let message = job.message.unwrap_or_default();
    match job.state {
        JobState::Failed => Err(DemoError::Lost(format!("scrub: {message}"))),
        JobState::Running | JobState::Done => Ok(message),
    }
}

fn state(state: PoolState) -> &'static str {
    match state {
        PoolState::Online => "online",
        PoolState::Degraded => "degraded",
        PoolState::Offline => "offline",
    }
}
