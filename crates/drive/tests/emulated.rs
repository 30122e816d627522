//! Emulated drives: the contract, the pace, the namespaces, the restart.
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

use std::rc::Rc;
use std::time::Duration;

use block::conformance::{Plan, check};
use block::{BlockDevice, Buffer, Durability, Lba};
use drive::{Drive, EmulatedDrive, EmulatedError, EmulatedNamespace, EmulatedOptions, Payload};
use reactor::{Reactor, ReactorConfig};
use ssd::{Load, NamespaceError, NamespaceRequest, Random, Study, profiles};

/// A fifty-thousandth of the drive: 150 MB.
const SCALE: f64 = 0.000_02;

fn options() -> EmulatedOptions {
    EmulatedOptions::new(profiles::named("cm7-r-7.68").unwrap(), SCALE)
}

#[test]
fn an_emulated_namespace_conforms_in_memory_and_in_files_with_blocks_of_both_sizes() {
    let directory = tempfile::tempdir().unwrap();
    let payloads = [
        Payload::Memory,
        Payload::Directory(directory.path().join("d0")),
    ];
    for payload in payloads {
        let reactor = match payload {
            Payload::Memory => Reactor::simulated(3),
            Payload::Directory(_) => Reactor::io_uring(ReactorConfig::default()).unwrap(),
        };
        reactor.run(async {
            let drive = EmulatedDrive::open(EmulatedOptions {
                payload,
                ..options()
            });
            let drive = drive.await.unwrap();
            let whole = Drive::from(drive.namespace(1).unwrap());
            assert_eq!(whole.kind(), "emulated");
            check(&whole, Plan::quick(1)).await.unwrap();
            drop(whole);
            drive.delete_namespace(1).unwrap();
            let small = NamespaceRequest {
                size_blocks: 8192,
                capacity_blocks: 8192,
                format: 1,
                shared: false,
            };
            let nsid = drive.create_namespace(small).await.unwrap();
            let small = drive.namespace(nsid).unwrap();
            assert_eq!(small.geometry().block_bytes, 512);
            check(&small, Plan::quick(2)).await.unwrap();
        });
    }
}

/// Random writes, 32 outstanding, for a while of the drive's time; writes a second of our time.
async fn writes_per_second(namespace: Rc<EmulatedNamespace>, writes: u32) -> f64 {
    let began = reactor::now();
    let tasks: Vec<_> = (0..32_u64)
        .map(|slot| {
            let namespace = Rc::clone(&namespace);
            reactor::spawn(async move {
                let blocks = namespace.geometry().block_count as u32;
                let mut random = Random::new(slot);
                let mut buffer = Buffer::zeroed(4096);
                for _ in 0..writes / 32 {
                    let at = Lba(u64::from(random.below(blocks)));
                    let (back, result) = namespace.write(at, buffer, Durability::Cached).await;
                    result.unwrap();
                    buffer = back;
                }
            })
        })
        .collect();
    for task in tasks {
        task.await;
    }
    f64::from(writes) / (reactor::now() - began).as_secs_f64()
}

#[test]
fn the_pace_is_the_studys_and_twice_the_dilation_is_half_of_it() {
    let profile = profiles::named("cm7-r-7.68").unwrap();
    let load = Load::new("randwrite", 0, 4096).unwrap().with_depth(8, 4);
    let study = Study::new(&profile, profile.capacity_bytes(), load);
    let studied = study.run(&mut |_| true).unwrap().unwrap().iops;
    let rate = |dilation: f64| {
        Reactor::simulated(5).run(async move {
            let options = EmulatedOptions {
                dilation,
                ..options()
            };
            let drive = EmulatedDrive::open(options).await.unwrap();
            let namespace = Rc::new(drive.namespace(1).unwrap());
            writes_per_second(Rc::clone(&namespace), 32_768).await;
            let rate = writes_per_second(namespace, 65_536).await;
            assert_eq!(drive.punctuality().late, 0);
            assert_eq!(drive.punctuality().completed, 98_304);
            rate * dilation
        })
    };
    let (one, two) = (rate(1.0), rate(2.0));
    assert!((one / two - 1.0).abs() < 0.05, "{one} {two}");
    // The flash is scaled so far down that superblocks have 44 pages: a few percent are lost.
    assert!((one / studied - 1.0).abs() < 0.1, "{one} against {studied}");
}

#[test]
fn what_completes_late_is_counted() {
    let directory = tempfile::tempdir().unwrap();
    let payload = Payload::Directory(directory.path().join("d0"));
    Reactor::io_uring(ReactorConfig::default())
        .unwrap()
        .run(async {
            // A thousand times as fast as the drive: no file system keeps up with that.
            let options = EmulatedOptions {
                payload,
                dilation: 0.001,
                ..options()
            };
            let drive = EmulatedDrive::open(options).await.unwrap();
            let namespace = drive.namespace(1).unwrap();
            for at in 0..50 {
                let (_, result) = namespace.read(Lba(at), Buffer::new(4096)).await;
                result.unwrap();
            }
            assert_eq!(drive.punctuality().completed, 50);
            assert!(drive.punctuality().late > 25, "{:?}", drive.punctuality());
        });
}

#[test]
fn a_lone_read_takes_what_the_drive_takes() {
    Reactor::simulated(7).run(async {
        let drive = EmulatedDrive::open(options()).await.unwrap();
        let namespace = drive.namespace(1).unwrap();
        let began = reactor::now();
        namespace.read(Lba(9), Buffer::new(4096)).await.1.unwrap();
        let took = reactor::now() - began;
        let expected = Duration::from_micros(60)..Duration::from_micros(70);
        assert!(expected.contains(&took), "{took:?}");
    });
}

#[test]
fn namespaces_data_and_counters_outlive_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let payload = Payload::Directory(directory.path().join("d0"));
    Reactor::io_uring(ReactorConfig::default())
        .unwrap()
        .run(async {
            let options = EmulatedOptions {
                payload,
                ..options()
            };
            let drive = EmulatedDrive::open(options.clone()).await.unwrap();
            let open = drive.namespace(1).unwrap();
            let busy = drive.delete_namespace(1).unwrap_err();
            assert!(
                matches!(busy, EmulatedError::Namespace(NamespaceError::InUse(1))),
                "{busy}"
            );
            drop(open);
            drive.delete_namespace(1).unwrap();
            let request = NamespaceRequest::of_bytes(64 << 20);
            assert_eq!(drive.create_namespace(request).await.unwrap(), 1);
            let namespace = drive.namespace(1).unwrap();
            let data = Buffer::copy_of(&[7; 4096]);
            namespace
                .write(Lba(3), data, Durability::Durable)
                .await
                .1
                .unwrap();
            let health = drive.health();
            drop(namespace);
            drop(drive);
            let drive = EmulatedDrive::open(options.clone()).await.unwrap();
            assert_eq!(drive.health(), health);
            let namespace = drive.namespace(1).unwrap();
            assert_eq!(namespace.geometry().capacity_bytes(), 64 << 20);
            let (buffer, result) = namespace.read(Lba(3), Buffer::new(4096)).await;
            result.unwrap();
            assert!(buffer.iter().all(|byte| *byte == 7));
            drop(namespace);
            drop(drive);
            let other = EmulatedOptions {
                scale: SCALE * 2.0,
                ..options
            };
            let refused = EmulatedDrive::open(other).await.err().unwrap();
            assert!(matches!(refused, EmulatedError::Profile(_)), "{refused}");
        });
}

/// A kill takes at most the counts since they were last kept: once a second while there is work.
#[test]
fn counters_are_kept_while_there_is_work_and_a_kill_leaves_them() {
    let directory = tempfile::tempdir().unwrap();
    let (original, copy) = (directory.path().join("d0"), directory.path().join("copy"));
    Reactor::io_uring(ReactorConfig::default())
        .unwrap()
        .run(async {
            let at = |path: &std::path::Path| EmulatedOptions {
                payload: Payload::Directory(path.to_owned()),
                ..options()
            };
            let drive = EmulatedDrive::open(at(&original)).await.unwrap();
            let namespace = drive.namespace(1).unwrap();
            let counters = original.join("counters.json");
            let mut written = 0;
            while !counters.exists() {
                let data = Buffer::copy_of(&[1; 4096]);
                let (_, result) = namespace.write(Lba(5), data, Durability::Cached).await;
                result.unwrap();
                written += 1;
                reactor::sleep(Duration::from_millis(20)).await;
            }
            // What a process that was killed now would leave behind.
            std::fs::create_dir(&copy).unwrap();
            for file in std::fs::read_dir(&original).unwrap() {
                let file = file.unwrap();
                std::fs::copy(file.path(), copy.join(file.file_name())).unwrap();
            }
            let found = EmulatedDrive::open(at(&copy)).await.unwrap().health();
            assert!(found.host_write_commands > 0, "{found:?}");
            assert!(found.host_write_commands <= written, "{found:?}");
            assert!(found.data_units_written > 0, "{found:?}");
        });
}

#[test]
fn impossible_emulations_are_refused_by_name() {
    Reactor::simulated(1).run(async {
        for dilation in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let refused = EmulatedDrive::open(EmulatedOptions {
                dilation,
                ..options()
            })
            .await;
            assert!(matches!(refused.err(), Some(EmulatedError::Dilation(_))));
        }
        let refused = EmulatedDrive::open(EmulatedOptions {
            scale: 0.0,
            ..options()
        })
        .await;
        assert!(matches!(refused.err(), Some(EmulatedError::Profile(_))));
        let drive = EmulatedDrive::open(options()).await.unwrap();
        let full = drive
            .create_namespace(NamespaceRequest::of_bytes(4096))
            .await;
        assert!(matches!(full, Err(EmulatedError::Namespace(_))));
        assert!(drive.namespace(2).is_err());
    });
}
