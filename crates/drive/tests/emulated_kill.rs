//! What a kill leaves of an emulated drive whose data is files: this test runs itself again as the
//! process that is killed.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use block::{BlockDevice, Buffer, Durability, Lba};
use drive::{EmulatedDrive, EmulatedOptions, Payload};
use reactor::{Reactor, ReactorConfig};
use ssd::profiles;

/// Says where the process that is killed keeps its drive.
const DIRECTORY: &str = "FLASHYARD_TEST_DRIVE";
const BLOCK_BYTES: usize = 4096;
/// Blocks of one round, which ends with a flush.
const ROUND: u64 = 64;

fn options(directory: &Path) -> EmulatedOptions {
    EmulatedOptions {
        payload: Payload::Directory(directory.to_owned()),
        ..EmulatedOptions::new(profiles::named("cm7-r-7.68").unwrap(), 0.000_01)
    }
}

/// What block `at` holds after round `round`.
fn content(at: u64, round: u64) -> Vec<u8> {
    let word = (at << 32 | round).to_le_bytes();
    word.repeat(BLOCK_BYTES / word.len())
}

/// Not a test of its own: writes rounds of blocks, flushes after each, and says so, until killed.
#[test]
fn writes_until_it_is_killed() {
    let Some(directory) = std::env::var_os(DIRECTORY).map(PathBuf::from) else {
        return;
    };
    let reactor = Reactor::io_uring(ReactorConfig::default()).unwrap();
    reactor.run(async {
        let drive = EmulatedDrive::open(options(&directory)).await.unwrap();
        let namespace = drive.namespace(1).unwrap();
        for round in 1.. {
            for at in 0..ROUND {
                let data = Buffer::copy_of(&content(at, round));
                let (_, result) = namespace.write(Lba(at), data, Durability::Cached).await;
                result.unwrap();
            }
            namespace.flush().await.unwrap();
            println!("\nflushed {round}");
        }
    });
}

#[test]
fn what_was_flushed_outlives_a_kill_and_is_in_the_backing_file() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().join("d0");
    let mut process = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "writes_until_it_is_killed", "--nocapture"])
        .env(DIRECTORY, &place)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let said = BufReader::new(process.stdout.take().unwrap());
    let flushed = said.lines().map_while(Result::ok).find_map(|line| {
        let round: u64 = line.strip_prefix("flushed ")?.parse().ok()?;
        (round >= 20).then_some(round)
    });
    // SIGKILL, in the middle of the next round.
    process.kill().unwrap();
    process.wait().unwrap();
    let flushed = flushed.expect("it flushes twenty rounds");

    let file = fs::read(place.join("namespace-1.img")).unwrap();
    let round_of = |bytes: &[u8], at: u64| {
        let word = u64::from_le_bytes(bytes[..8].try_into().unwrap());
        let round = word & u64::from(u32::MAX);
        assert!(bytes == content(at, round), "block {at} is torn");
        round
    };
    let (drive, mut rounds) = (options(&place), Vec::new());
    let reactor = Reactor::io_uring(ReactorConfig::default()).unwrap();
    reactor.run(async {
        let drive = EmulatedDrive::open(drive).await.unwrap();
        let namespace = drive.namespace(1).unwrap();
        for at in 0..ROUND {
            let (read, result) = namespace.read(Lba(at), Buffer::new(BLOCK_BYTES)).await;
            result.unwrap();
            rounds.push(round_of(&read, at));
        }
    });
    for (at, round) in (0..ROUND).zip(rounds) {
        let first = at as usize * BLOCK_BYTES;
        let in_file = round_of(&file[first..first + BLOCK_BYTES], at);
        assert_eq!(round, in_file, "block {at}: read and file");
        assert!(round >= flushed, "block {at}: {round}, flushed {flushed}");
    }
}
