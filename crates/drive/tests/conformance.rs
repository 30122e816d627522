//! Every kind of drive passes the contract's own test, on io_uring and in simulation.
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

use std::path::Path;
use std::time::Duration;

use block::conformance::{Plan, check};
use block::{BlockDevice, BlockRange, Buffer, Durability, Geometry, Lba};
use drive::OpenError;
use drive::{Drive, Emulate512, FaultyDrive, FileDrive, FileOptions, MemoryDrive, NullDrive};
use reactor::{Reactor, ReactorConfig};

fn geometry(block_bytes: u32) -> Geometry {
    Geometry::new(block_bytes, 1000).unwrap()
}

async fn file(directory: &Path, block_bytes: u32) -> FileDrive {
    let options = FileOptions {
        block_bytes,
        create_bytes: Some(4 << 20),
    };
    FileDrive::open(directory.join(format!("drive{block_bytes}")), &options)
        .await
        .unwrap()
}

/// Checks every kind of drive on the reactor that runs this.
async fn check_all(seed: u64, directory: &Path) {
    let plan = Plan::quick(seed);
    for block_bytes in [512, 4096] {
        check(&MemoryDrive::new(geometry(block_bytes)), plan)
            .await
            .unwrap();
        let faulty = FaultyDrive::over_memory(
            Geometry {
                volatile_write_cache: seed.is_multiple_of(2),
                deallocates: true,
                ..geometry(block_bytes)
            },
            seed,
        );
        faulty
            .control()
            .set_delay(Duration::ZERO..Duration::from_micros(2));
        check(&Drive::from(faulty), plan).await.unwrap();
        let drive = file(directory, block_bytes).await;
        assert!(drive.geometry().deallocates);
        check(&Drive::from(drive), plan).await.unwrap();
        let inner = MemoryDrive::new(geometry(block_bytes));
        check(&FaultyDrive::over(inner, seed), plan).await.unwrap();
        let keeps = Geometry {
            deallocates: false,
            ..geometry(block_bytes)
        };
        check(
            &Emulate512::new(FaultyDrive::over_memory(keeps, seed)),
            plan,
        )
        .await
        .unwrap();
        check(
            &Emulate512::new(MemoryDrive::new(geometry(block_bytes))),
            plan,
        )
        .await
        .unwrap();
    }
}

#[test]
fn all_drives_conform_on_io_uring() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let reactor = Reactor::io_uring(ReactorConfig::default()).unwrap();
    reactor.run(check_all(1, directory.path()));
}

#[test]
fn all_drives_conform_in_simulation() {
    for seed in 0..10 {
        Reactor::simulated(seed).run(check_all(seed, Path::new("/simulated")));
    }
}

#[test]
fn a_null_drive_reads_zeroes_and_checks_its_arguments() {
    Reactor::simulated(0).run(async {
        let drive = NullDrive::new(geometry(4096));
        let data = Buffer::copy_of(&[1; 4096]);
        let (buffer, result) = drive.write(Lba(999), data, Durability::Durable).await;
        result.unwrap();
        let (buffer, result) = drive.read(Lba(999), buffer).await;
        result.unwrap();
        assert_eq!(buffer[..], [0; 4096]);
        // It keeps nothing, so of the contract's test only the refusals apply.
        let found = check(&drive, Plan::quick(0)).await.unwrap_err();
        assert!(found.contains("differs at byte"), "{found}");
        drive
            .deallocate(BlockRange::new(Lba(0), 1000))
            .await
            .unwrap();
    });
}

#[test]
fn a_file_drive_is_opened_once_and_says_what_is_wrong() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    Reactor::io_uring(ReactorConfig::default())
        .unwrap()
        .run(async {
            let path = directory.path().join("drive");
            let mut options = FileOptions::default();
            let missing = FileDrive::open(&path, &options).await.err().unwrap();
            assert!(matches!(missing, OpenError::Missing(_)), "{missing}");
            options.create_bytes = Some(1 << 30);
            let drive = FileDrive::open(&path, &options).await.unwrap();
            assert_eq!(drive.geometry().capacity_bytes(), 1 << 30);
            assert_eq!(drive.path(), path);
            let busy = FileDrive::open(&path, &options).await.err().unwrap();
            assert!(matches!(busy, OpenError::InUse(_)), "{busy}");
            let data = Buffer::copy_of(&[3; 4096]);
            drive
                .write(Lba(7), data, Durability::Durable)
                .await
                .1
                .unwrap();
            drop(drive);
            options.create_bytes = None;
            let drive = FileDrive::open(&path, &options).await.unwrap();
            let (buffer, result) = drive.read(Lba(7), Buffer::new(4096)).await;
            result.unwrap();
            assert_eq!(buffer[..], [3; 4096]);
            std::fs::write(directory.path().join("small"), [0; 511]).unwrap();
            let small = FileDrive::open(directory.path().join("small"), &options)
                .await
                .err()
                .unwrap();
            assert!(
                matches!(small, OpenError::TooSmall { bytes: 511, .. }),
                "{small}"
            );
            options.block_bytes = 520;
            drop(drive);
            let odd = FileDrive::open(&path, &options).await.err().unwrap();
            assert!(matches!(odd, OpenError::BlockBytes { .. }), "{odd}");
        });
}
