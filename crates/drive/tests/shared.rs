//! One drive, used by two cores at once.
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

use std::path::Path;
use std::sync::Arc;

use block::conformance::{Plan, check};
use block::{BlockDevice, BlockRange, Buffer, Durability, Geometry, Lba};
use drive::{
    Drive, EmulatedDrive, EmulatedOptions, FileDrive, FileOptions, MemoryDrive, OpenError,
    SharedDrive,
};
use reactor::Reactor;
use reactor::cores::{Cores, CoresConfig};
use ssd::profiles;

const BLOCKS: u64 = 2048;
const ROUNDS: u64 = 20;

async fn file(path: &Path) -> Result<FileDrive, OpenError> {
    let options = FileOptions {
        create_bytes: Some(BLOCKS * 4096),
        ..FileOptions::default()
    };
    FileDrive::open(path, &options).await
}

async fn write(drive: &Drive, block: u64, byte: u8) {
    let buffer = Buffer::copy_of(&[byte; 4096]);
    let written = drive.write(Lba(block), buffer, Durability::Cached).await;
    written.1.unwrap();
}

async fn holds(drive: &Drive, block: u64, byte: u8) {
    let (buffer, read) = drive.read(Lba(block), Buffer::new(4096)).await;
    read.unwrap();
    assert!(buffer.iter().all(|found| *found == byte), "block {block}");
}

/// The blocks of a core, every other one, so that cores meet in every page and piece of memory:
/// written, given back and written again, and always what this core made them.
async fn work(drive: Drive, core: u64) {
    for round in 0..ROUNDS {
        let byte = (2 * round + core + 1) as u8;
        for block in (core..BLOCKS).step_by(2) {
            write(&drive, block, byte).await;
        }
        drive.flush().await.unwrap();
        for block in (core..BLOCKS).step_by(4) {
            holds(&drive, block, byte).await;
            let one = BlockRange::new(Lba(block), 1);
            drive.write_zeroes(one, Durability::Cached).await.unwrap();
            holds(&drive, block, 0).await;
        }
    }
}

async fn end(drive: &Drive) {
    for block in 0..BLOCKS {
        let (core, zero) = (block % 2, (block - block % 2).is_multiple_of(4));
        let last = (2 * (ROUNDS - 1) + core + 1) as u8;
        holds(drive, block, if zero { 0 } else { last }).await;
    }
}

/// Two cores at once, the second with a handle made from what the first gave it.
fn use_on_both(cores: &Cores, shared: &Arc<SharedDrive>) {
    let working: Vec<_> = (0..2)
        .map(|core| {
            let shared = Arc::clone(shared);
            cores.handles()[core].submit(move || async move {
                work(shared.open().await.unwrap(), core as u64).await;
            })
        })
        .collect();
    for each in working {
        each.wait().unwrap();
    }
    let last = Arc::clone(shared);
    let checked = cores.handles()[1].submit(move || async move {
        let drive = last.open().await.unwrap();
        end(&drive).await;
        check(&drive, Plan::quick(7)).await.unwrap();
    });
    checked.wait().unwrap();
}

#[test]
fn memory_that_two_cores_use_is_one_drive() {
    let cores = Cores::start(CoresConfig::unpinned(2)).unwrap();
    let drive: Drive = MemoryDrive::new(Geometry::new(4096, BLOCKS).unwrap()).into();
    use_on_both(&cores, &Arc::new(drive.share().unwrap()));
}

#[test]
fn a_file_that_two_cores_use_is_one_drive_and_nobody_elses_while_one_does() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("drive");
    let cores = Cores::start(CoresConfig::unpinned(2)).unwrap();
    let own = path.clone();
    let opened = cores.handles()[0].submit(move || async move {
        let drive: Drive = file(&own).await.unwrap().into();
        // Only what was shared is left of it.
        drive.share().unwrap()
    });
    let shared = Arc::new(opened.wait().unwrap());
    // The name leads elsewhere by now; the drive is the file that was opened.
    let moved = directory.path().join("moved");
    std::fs::rename(&path, &moved).unwrap();
    use_on_both(&cores, &shared);
    let (here, there) = (moved.clone(), moved.clone());
    let tried = cores.handles()[0].submit(move || async move { file(&here).await.err() });
    let refused = tried.wait().unwrap();
    assert!(matches!(refused, Some(OpenError::InUse(_))), "{refused:?}");
    drop(shared);
    let tried = cores.handles()[1].submit(move || async move { file(&there).await.map(drop) });
    tried.wait().unwrap().unwrap();
}

#[test]
fn a_model_and_a_simulated_file_stay_with_one_core() {
    Reactor::simulated(3).run(async {
        let drive: Drive = file(Path::new("/drive")).await.unwrap().into();
        assert!(drive.share().is_none());
        let profile = profiles::named("cm7-r-7.68").unwrap();
        let options = EmulatedOptions::new(profile, 0.000_02);
        let drive = EmulatedDrive::open(options).await;
        let namespace = drive.unwrap().namespace(1).unwrap();
        assert!(Drive::from(namespace).share().is_none());
    });
}
