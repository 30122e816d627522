//! 4 KiB random reads of a file, through the reactor and through a plain loop over io_uring.
#![allow(clippy::unwrap_used, reason = "a benchmark may fail by panicking")]
#![allow(
    unsafe_code,
    reason = "the plain loop that the reactor is compared with"
)]

mod report;

use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

use block::{Buffer, Durability};
use io_uring::{IoUring, opcode, types};
use reactor::file::{File, OpenOptions};
use reactor::{Reactor, ReactorConfig, spawn};
use report::Report;

const FILE_BYTES: u64 = 1 << 30;
const BLOCK_BYTES: u64 = 4096;
const RUN_TIME: Duration = Duration::from_secs(2);

fn main() {
    let mut report = Report::new("file");
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = directory.path().join("file");
    fill(&path);
    for depth in [1, 32, 128] {
        let what = format!("O_DIRECT 4 KiB random read, depth {depth}, reactor");
        report.median(&what, "k/s", || through_reactor(&path, depth) / 1e3);
        let what = format!("O_DIRECT 4 KiB random read, depth {depth}, plain io_uring");
        report.median(&what, "k/s", || through_plain_ring(&path, depth) / 1e3);
    }
    report.write();
}

/// A cheap sequence of offsets that looks random.
fn offset(number: &mut u64) -> u64 {
    *number = number
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    (*number >> 33) % (FILE_BYTES / BLOCK_BYTES) * BLOCK_BYTES
}

fn fill(path: &Path) {
    Reactor::io_uring(ReactorConfig::default())
        .unwrap()
        .run(async {
            let options = OpenOptions {
                write: true,
                create: true,
                direct: true,
                ..OpenOptions::default()
            };
            let file = File::open(path, &options).await.unwrap();
            assert!(file.is_direct(), "the file system has no O_DIRECT");
            let mut buffer = Buffer::zeroed(4 << 20);
            buffer.fill(1);
            for at in (0..FILE_BYTES).step_by(buffer.len()) {
                let (back, result) = file.write_at(buffer, at, Durability::Cached).await;
                result.unwrap();
                buffer = back;
            }
            file.sync().await.unwrap();
        });
}

fn through_reactor(path: &Path, depth: u64) -> f64 {
    Reactor::io_uring(ReactorConfig::default())
        .unwrap()
        .run(async {
            let options = OpenOptions {
                direct: true,
                ..OpenOptions::default()
            };
            let file = Rc::new(File::open(path, &options).await.unwrap());
            let started = Instant::now();
            let slots: Vec<_> = (0..depth)
                .map(|slot| {
                    let file = Rc::clone(&file);
                    spawn(async move {
                        let mut number = slot;
                        let mut count = 0;
                        let mut buffer = Buffer::new(BLOCK_BYTES as usize);
                        while started.elapsed() < RUN_TIME {
                            let at = offset(&mut number);
                            let (back, result) = file.read_at(buffer, at).await;
                            assert_eq!(result.unwrap(), BLOCK_BYTES as usize);
                            buffer = back;
                            count += 1;
                        }
                        count
                    })
                })
                .collect();
            let mut total = 0_u64;
            for slot in slots {
                total += slot.await;
            }
            total as f64 / started.elapsed().as_secs_f64()
        })
}

fn through_plain_ring(path: &Path, depth: u64) -> f64 {
    let file = std::fs::File::options()
        .read(true)
        .custom_flags(libc::O_DIRECT)
        .open(path)
        .unwrap();
    let mut ring: IoUring = IoUring::builder()
        .setup_single_issuer()
        .setup_defer_taskrun()
        .build(256)
        .unwrap();
    let mut buffers: Vec<_> = (0..depth)
        .map(|_| Buffer::new(BLOCK_BYTES as usize))
        .collect();
    let mut numbers: Vec<u64> = (0..depth).collect();
    let mut total = 0_u64;
    let mut idle: Vec<u64> = (0..depth).collect();
    let started = Instant::now();
    while started.elapsed() < RUN_TIME {
        for slot in idle.drain(..) {
            let place = buffers[slot as usize].as_mut_ptr();
            let read = opcode::Read::new(types::Fd(file.as_raw_fd()), place, BLOCK_BYTES as u32)
                .offset(offset(&mut numbers[slot as usize]))
                .build()
                .user_data(slot);
            // SAFETY: the buffer outlives the ring's use of it: all reads are awaited below.
            unsafe { ring.submission().push(&read).unwrap() };
        }
        ring.submit_and_wait(1).unwrap();
        for completion in ring.completion() {
            assert_eq!(completion.result(), BLOCK_BYTES as i32);
            idle.push(completion.user_data());
            total += 1;
        }
    }
    let elapsed = started.elapsed();
    let mut in_flight = depth - idle.len() as u64;
    while in_flight > 0 {
        ring.submit_and_wait(1).unwrap();
        in_flight -= ring.completion().count() as u64;
    }
    total as f64 / elapsed.as_secs_f64()
}
