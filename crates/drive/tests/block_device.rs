//! A real block device of the kernel's: a file under a loop device, which takes root.
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

use block::conformance::{Plan, check};
use block::{BlockDevice, BlockRange, Buffer, Durability, Lba};
use drive::{FileDrive, FileOptions, OpenError};
use reactor::{Reactor, ReactorConfig};
use std::path::Path;
use std::process::Command;

/// A loop device, until it is dropped.
struct Loop(String);

impl Loop {
    fn over(file: &Path) -> Loop {
        let options = ["--find", "--show", "--sector-size=4096"];
        let made = losetup().args(options).arg(file).output().unwrap();
        let error = String::from_utf8_lossy(&made.stderr);
        assert!(made.status.success(), "losetup: {error}");
        let path = String::from_utf8(made.stdout).unwrap();
        Loop(path.trim().to_owned())
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let detached = losetup().args(["--detach", &self.0]).status();
        assert!(detached.is_ok_and(|status| status.success()) || std::thread::panicking());
    }
}

/// Not every shell has it on its path.
fn losetup() -> Command {
    Command::new("/usr/sbin/losetup")
}

#[test]
fn a_block_device_conforms_and_is_claimed() {
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().set_len(64 << 20).unwrap();
    let device = Loop::over(file.path());
    let path = &device.0;
    Reactor::io_uring(ReactorConfig::default())
        .unwrap()
        .run(async {
            let drive = FileDrive::open(path, &FileOptions::default())
                .await
                .unwrap();
            assert!(drive.is_block_device() && drive.is_direct());
            println!("{:?}", drive.geometry());
            check(&drive, Plan::quick(1)).await.unwrap();
            let busy = FileDrive::open(path, &FileOptions::default())
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
