//! A real block device, named by `FLASHYARD_BLOCK_DEVICE`, whose contents are destroyed:
//! `FLASHYARD_BLOCK_DEVICE=/dev/loop7 cargo test -p drive --test block_device -- --ignored`
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

use block::conformance::{Plan, check};
use block::{BlockDevice, BlockRange, Buffer, Durability, Lba};
use drive::{FileDrive, FileOptions, OpenError};
use reactor::{Reactor, ReactorConfig};

#[test]
#[ignore = "needs a block device that may be overwritten"]
fn a_block_device_conforms_and_is_claimed() {
    let path = std::env::var("FLASHYARD_BLOCK_DEVICE").unwrap();
    Reactor::io_uring(ReactorConfig::default())
        .unwrap()
        .run(async {
            let drive = FileDrive::open(&path, &FileOptions::default())
                .await
                .unwrap();
            assert!(drive.is_block_device() && drive.is_direct());
            println!("{:?}", drive.geometry());
            check(&drive, Plan::quick(1)).await.unwrap();
            let busy = FileDrive::open(&path, &FileOptions::default())
                .await
                .err()
                .unwrap();
            assert!(matches!(busy, OpenError::InUse(_)), "{busy}");
            let last = Lba(drive.geometry().block_count - 1);
            drive
                .write(last, Buffer::copy_of(&[9; 4096]), Durability::Durable)
                .await
                .1
                .unwrap();
            drive.deallocate(BlockRange::new(last, 1)).await.unwrap();
            let (buffer, result) = drive.read(last, Buffer::new(4096)).await;
            result.unwrap();
            let expected = if drive.geometry().deallocates { 0 } else { 9 };
            assert_eq!(buffer[..], [expected; 4096]);
        });
}
