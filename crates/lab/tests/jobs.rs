//! Jobs on drives, in virtual time: counts, rates and ends are exact, and verification accuses
//! exactly the drives that lose data.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use block::{BlockDevice, BlockRange, Geometry, IoError, Lba};
use drive::{Drive, FaultControl, FaultyDrive, MemoryDrive, Operation};
use lab::load::{
    Job, JobReport, Journal, Pass, Pattern, Progress, Stop, Verification, Verify, Workload, verify,
};
use reactor::{Reactor, sleep, spawn, yield_now};

const BLOCKS: u64 = 512;

fn geometry(block_bytes: u32) -> Geometry {
    Geometry::new(block_bytes, BLOCKS).expect("a geometry")
}

fn memory(block_bytes: u32) -> Rc<Drive> {
    Rc::new(MemoryDrive::new(geometry(block_bytes)).into())
}

fn faulty(seed: u64) -> (Rc<Drive>, FaultControl) {
    let drive = FaultyDrive::over_memory(geometry(4096), seed);
    let control = drive.control();
    (Rc::new(drive.into()), control)
}

fn job(device: &Rc<Drive>, workload: Workload) -> Job<Drive> {
    let block_bytes = device.geometry().block_bytes;
    let verifies = workload.verify == Verify::Crc32c;
    Job {
        device: Rc::clone(device),
        workload,
        number: 0,
        journal: verifies.then(|| Journal::new(77, 0, BLOCKS, block_bytes)),
        progress: Arc::default(),
        stop: Stop::default(),
    }
}

fn run(seed: u64, device: &Rc<Drive>, workload: Workload) -> JobReport {
    let job = job(device, workload);
    Reactor::simulated(seed).run(async move { job.run().await.expect("the workload fits") })
}

fn verified(pattern: Pattern, depth: u32) -> Workload {
    let verify = Verify::Crc32c;
    Workload {
        pattern,
        depth,
        verify,
        number_ios: Some(3000),
        ..Workload::default()
    }
}

fn mismatches(report: &JobReport) -> u64 {
    report.verification.as_ref().expect("verified").mismatches
}

#[test]
fn without_time_or_count_a_job_visits_each_position_once() {
    for (pattern, transfer_bytes) in [(Pattern::Read, 4096), (Pattern::RandWrite, 8192)] {
        let workload = Workload {
            pattern,
            transfer_bytes,
            depth: 7,
            ..Workload::default()
        };
        let report = run(1, &memory(4096), workload);
        let ios = report.statistics.reads.ios + report.statistics.writes.ios;
        assert_eq!(ios, BLOCKS * 4096 / u64::from(transfer_bytes), "{pattern}");
        assert!(!report.interrupted && report.errors.is_empty());
    }
}

/// Others of the event loop, such as the keep alive of a connection, have a turn between two.
#[test]
fn each_place_of_a_queue_is_prepared_in_a_turn_of_its_own() {
    for pattern in [Pattern::RandRead, Pattern::RandWrite] {
        let workload = Workload {
            pattern,
            depth: 100,
            number_ios: Some(1),
            ..Workload::default()
        };
        let job = job(&memory(4096), workload);
        let turns = Reactor::simulated(1).run(async move {
            let turns = Rc::new(Cell::new(0));
            let counted = Rc::clone(&turns);
            let counting = spawn(async move {
                loop {
                    counted.set(counted.get() + 1);
                    yield_now().await;
                }
            });
            job.run().await.expect("the workload fits");
            drop(counting.cancel_on_drop());
            turns.get()
        });
        assert!(turns >= 100, "{pattern}: {turns} turns");
    }
}

#[test]
fn a_closed_loop_runs_at_its_depth_over_the_latency() {
    let (device, control) = faulty(2);
    control.set_delay(Duration::from_millis(1)..Duration::from_nanos(1_000_001));
    let workload = Workload {
        pattern: Pattern::RandRead,
        depth: 10,
        ramp_time: Duration::from_secs(1),
        runtime: Some(Duration::from_secs(4)),
        ..Workload::default()
    };
    let report = run(2, &device, workload);
    assert_eq!(report.elapsed, Duration::from_secs(4));
    let reads = &report.statistics.reads;
    assert!(
        (39_900..=40_010).contains(&reads.ios),
        "{} reads",
        reads.ios
    );
    assert!(
        (reads.mean_ns() / 1e6 - 1.0).abs() < 0.01,
        "{} ns",
        reads.mean_ns()
    );
    let seconds: Vec<u64> = report
        .statistics
        .seconds
        .iter()
        .map(|one| one.reads)
        .collect();
    assert!(
        seconds
            .iter()
            .take(4)
            .all(|reads| (9_900..=10_100).contains(reads)),
        "{seconds:?}"
    );
}

#[test]
fn an_open_loop_keeps_its_rate_and_counts_the_wait_for_a_slot() {
    let (device, control) = faulty(3);
    control.set_delay(Duration::from_millis(2)..Duration::from_nanos(2_000_001));
    let open = |depth, rate| Workload {
        depth,
        rate_iops: Some(rate),
        runtime: Some(Duration::from_secs(2)),
        ..Workload::default()
    };
    let report = run(3, &device, open(16, 1000));
    let reads = &report.statistics.reads;
    assert!((1990..=2000).contains(&reads.ios), "{} reads", reads.ios);
    assert!(reads.longest_ns() < 2_100_000, "{}", reads.longest_ns());
    // One slot does 500 a second; of 1000 a second the last waits for nearly half the run.
    let report = run(3, &device, open(1, 1000));
    let reads = &report.statistics.reads;
    assert!((995..=1000).contains(&reads.ios), "{} reads", reads.ios);
    assert!(reads.longest_ns() > 900_000_000, "{}", reads.longest_ns());
}

#[test]
fn the_mix_is_what_was_asked_for() {
    let workload = Workload {
        pattern: Pattern::RandRw,
        read_percent: 70,
        number_ios: Some(20_000),
        depth: 4,
        ..Workload::default()
    };
    let report = run(
        4,
        &memory(512),
        Workload {
            transfer_bytes: 512,
            ..workload
        },
    );
    let reads = report.statistics.reads.ios as f64 / 20_000.0;
    assert!((reads - 0.7).abs() < 0.02, "{reads}");
}

#[test]
fn an_honest_drive_passes_verification_in_any_order_of_completion() {
    for seed in 0..20 {
        let (device, control) = faulty(seed);
        control.set_delay(Duration::from_micros(1)..Duration::from_millis(3));
        let pattern = if seed % 2 == 0 {
            Pattern::RandRw
        } else {
            Pattern::ReadWrite
        };
        let workload = Workload {
            transfer_bytes: 8192,
            random_map: seed % 3 == 0,
            seed,
            ..verified(pattern, 32)
        };
        let report = run(seed, &device, workload);
        let found = report.verification.as_ref().unwrap();
        assert_eq!(found.mismatches, 0, "seed={seed}: {:?}", found.examples);
        assert!(found.blocks_acknowledged > 0 && report.errors.is_empty());
    }
}

#[test]
fn a_drive_that_loses_misplaces_or_corrupts_one_write_is_accused() {
    type Fault = fn(&FaultControl);
    let faults: [(&str, Fault); 3] = [
        ("lost", |control| control.lose_next_writes(1)),
        ("misdirected", |control| control.misdirect_next_writes(1)),
        ("corrupted", |control| {
            control.corrupt(BlockRange::new(Lba(7), 64))
        }),
    ];
    for (what, fault) in faults {
        let (device, control) = faulty(5);
        control.set_delay(Duration::from_millis(10)..Duration::from_millis(20));
        let reactor = Reactor::simulated(5);
        let job = job(&device, verified(Pattern::RandWrite, 8));
        let report = reactor.run(async move {
            let progress = Arc::clone(&job.progress);
            let running = spawn(job.run());
            // In the last pass over the blocks, so that none is written again.
            while progress.writes.load(Ordering::Relaxed) < 2700 {
                sleep(Duration::from_millis(10)).await;
            }
            fault(&control);
            running.await.unwrap()
        });
        assert!(mismatches(&report) > 0, "{what}");
    }
}

#[test]
fn after_a_power_cut_everything_acknowledged_and_flushed_is_required_and_no_more() {
    for seed in 0..10 {
        let (device, control) = faulty(seed);
        control.set_delay(Duration::from_micros(10)..Duration::from_micros(500));
        let workload = Workload {
            continue_on_error: true,
            seed,
            ..verified(Pattern::RandWrite, 16)
        };
        let job = job(&device, workload);
        let found = Reactor::simulated(seed).run(async move {
            let (progress, stop) = (Arc::clone(&job.progress), job.stop.clone());
            let running = spawn(job.run());
            while progress.writes.load(Ordering::Relaxed) < 1000 {
                sleep(Duration::from_micros(100)).await;
            }
            stop.stop();
            control.kill();
            let report = running.await.unwrap();
            control.revive();
            let journal = report.journal.unwrap();
            let checked = AtomicU64::new(0);
            let pass = Pass {
                depth: 4,
                transfer_blocks: 3,
                progress: &checked,
            };
            verify(&*device, &journal, pass).await
        });
        assert_eq!(found.mismatches, 0, "seed={seed}: {:?}", found.examples);
        assert!(found.blocks_acknowledged > 100);
    }
}

#[test]
fn the_first_failure_ends_a_job_unless_told_otherwise() {
    let (device, control) = faulty(6);
    control.fail_next(Operation::Read, IoError::UnrecoveredRead, 1);
    let workload = Workload {
        depth: 2,
        ..Workload::default()
    };
    let report = run(6, &device, workload.clone());
    assert_eq!(report.statistics.reads.errors, 1);
    assert!(
        report.statistics.reads.ios < 10,
        "{}",
        report.statistics.reads.ios
    );
    assert!(
        report.errors[0].contains("unrecovered read error"),
        "{:?}",
        report.errors
    );
    control.fail_next(Operation::Read, IoError::UnrecoveredRead, 3);
    let report = run(
        6,
        &device,
        Workload {
            continue_on_error: true,
            ..workload
        },
    );
    assert_eq!(
        (report.statistics.reads.errors, report.statistics.reads.ios),
        (3, BLOCKS - 3)
    );
}

#[test]
fn stopping_from_outside_still_reports() {
    let (device, control) = faulty(7);
    control.set_delay(Duration::from_millis(1)..Duration::from_nanos(1_000_001));
    let workload = Workload {
        runtime: Some(Duration::from_secs(3600)),
        ..Workload::default()
    };
    let job = job(&device, workload);
    let stop = job.stop.clone();
    let progress: Arc<Progress> = Arc::clone(&job.progress);
    let report = Reactor::simulated(7).run(async move {
        let running = spawn(job.run());
        sleep(Duration::from_secs(5)).await;
        stop.stop();
        running.await.unwrap()
    });
    assert!(report.interrupted);
    assert!((4990..=5010).contains(&report.statistics.reads.ios));
    assert_eq!(
        progress.reads.load(Ordering::Relaxed),
        report.statistics.reads.ios
    );
    assert!(
        report.elapsed < Duration::from_secs(6),
        "{:?}",
        report.elapsed
    );
}

#[test]
fn reading_without_a_journal_checks_each_block_by_itself() {
    let device = memory(4096);
    let report = run(8, &device, verified(Pattern::RandWrite, 4));
    assert_eq!(mismatches(&report), 0);
    let read_back = |device: &Rc<Drive>| -> Verification {
        let workload = Workload {
            pattern: Pattern::Read,
            ..verified(Pattern::Read, 4)
        };
        let mut job = job(
            device,
            Workload {
                number_ios: None,
                ..workload
            },
        );
        job.journal = None;
        let report = Reactor::simulated(8).run(async move { job.run().await.unwrap() });
        report.verification.unwrap()
    };
    let found = read_back(&device);
    assert_eq!((found.mismatches, found.blocks_checked), (0, BLOCKS));
    Reactor::simulated(9).run({
        let device = Rc::clone(&device);
        async move {
            let (buffer, result) = device.read(Lba(3), block::Buffer::new(4096)).await;
            result.unwrap();
            let cached = block::Durability::Cached;
            device.write(Lba(4), buffer, cached).await.1.unwrap();
        }
    });
    assert_eq!(
        read_back(&device).mismatches,
        1,
        "block 4 holds block 3's content"
    );
}
