//! A read sees each block as it was before or after a write of it, never a part of both (AWUN of
//! the NVM command set), whatever file system has the drive's file.
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

use std::path::Path;
use std::rc::Rc;

use block::{BlockDevice, BlockRange, Buffer, Durability, Lba};
use drive::{FileDrive, FileOptions};
use reactor::{Reactor, ReactorConfig, sim, spawn};

const BLOCK_BYTES: usize = 512;
/// Neither begins nor ends with a page: a kernel copies it in parts.
const TRANSFER_BLOCKS: u64 = 17;
/// Few, so that reads and writes meet.
const TRANSFERS: u64 = 4;
const TASKS: u64 = 8;

fn place(task: u64, round: u64) -> Lba {
    Lba((task * 7 + round * 5) % TRANSFERS * TRANSFER_BLOCKS)
}

/// Writes by every way there is; each leaves blocks of one byte.
async fn write(drive: Rc<FileDrive>, task: u64, rounds: u64) {
    for round in 0..rounds {
        let byte = (task * rounds + round) as u8;
        let data = [byte; TRANSFER_BLOCKS as usize * BLOCK_BYTES];
        let start = place(task, round);
        let range = BlockRange::new(start, TRANSFER_BLOCKS);
        let data = || Buffer::copy_of(&data);
        match round % 4 {
            0 => {
                let written = drive.write_vectored(start, vec![data()], Durability::Cached);
                written.await.1.unwrap();
            }
            1 => drive.write_zeroes(range, Durability::Cached).await.unwrap(),
            2 => drive.deallocate(range).await.unwrap(),
            _ => {
                let written = drive.write(start, data(), Durability::Cached);
                written.await.1.unwrap();
            }
        }
    }
}

/// Gives how many blocks were read that hold parts of several writes.
async fn read(drive: Rc<FileDrive>, task: u64, rounds: u64) -> usize {
    let mut torn = 0;
    for round in 0..rounds {
        let buffer = Buffer::new(TRANSFER_BLOCKS as usize * BLOCK_BYTES);
        let (data, result) = drive.read(place(task + 3, round), buffer).await;
        result.unwrap();
        let is_torn = |block: &&[u8]| block.iter().any(|byte| *byte != block[0]);
        torn += data.chunks(BLOCK_BYTES).filter(is_torn).count();
    }
    torn
}

async fn torn_blocks(path: &Path, rounds: u64) -> usize {
    let options = FileOptions {
        block_bytes: BLOCK_BYTES as u32,
        create_bytes: Some(1 << 20),
    };
    let drive = Rc::new(FileDrive::open(path, &options).await.unwrap());
    let writers: Vec<_> = (0..TASKS)
        .map(|task| spawn(write(Rc::clone(&drive), task, rounds)))
        .collect();
    let readers: Vec<_> = (0..TASKS)
        .map(|task| spawn(read(Rc::clone(&drive), task, rounds)))
        .collect();
    for writer in writers {
        writer.await;
    }
    let mut torn = 0;
    for reader in readers {
        torn += reader.await;
    }
    torn
}

/// The page cache copies in parts, and reads and writes at once.
#[test]
fn blocks_of_a_file_in_the_page_cache_are_read_whole() {
    for seed in 0..20 {
        let torn = Reactor::simulated(seed).run(async {
            sim::set_page_cached(true);
            torn_blocks(Path::new("/drive"), 100).await
        });
        assert_eq!(torn, 0, "seed={seed}");
    }
}

/// Files on tmpfs are in the page cache too, although it takes O_DIRECT.
#[test]
fn blocks_of_files_on_a_disk_and_in_memory_are_read_whole() {
    for directory in [env!("CARGO_TARGET_TMPDIR"), "/dev/shm"] {
        let directory = tempfile::tempdir_in(directory).unwrap();
        let path = directory.path().join("drive");
        let reactor = Reactor::io_uring(ReactorConfig::default()).unwrap();
        let torn = reactor.run(async move { torn_blocks(&path, 2000).await });
        assert_eq!(torn, 0, "{}", directory.path().display());
    }
}
