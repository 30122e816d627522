//! What becomes of volumes of a pool: rolled back, made thick, made again, each only as far as it
//! is safe, and said otherwise.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "support/connected.rs"]
mod connected;
mod support;

use std::time::{Duration, Instant};

use api::{ErrorCode, Volume, VolumeSpec};
use block::{BlockDevice, BlockRange, Buffer, Durability, IoError, Lba};
use client::ClientError;
use connected::HOST;
use initiator::{Controller, Namespace};
use support::{Node, Refused, name, text, wait_until};

const MIB: u64 = 1 << 20;

/// Longer than what a host gives back takes to be room again on the slowest machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// As [`connected::connected`]; returns when the node knows that the host has gone.
fn connected<F: Future<Output = ()>>(
    node: &Node,
    volume: &str,
    work: impl FnOnce(Namespace, Controller) -> F,
) {
    connected::connected(node, volume, work);
    wait_until("the host is gone", || {
        node.client().sessions().unwrap().items.is_empty()
    });
}

async fn write(device: &Namespace, block: u64, byte: u8) -> Result<(), IoError> {
    let mut buffer = Buffer::zeroed(64 << 10);
    buffer.fill(byte);
    device
        .write(Lba(block), buffer, Durability::Durable)
        .await
        .1
}

async fn holds(device: &Namespace, block: u64, byte: u8) {
    let (buffer, result) = device.read(Lba(block), Buffer::new(64 << 10)).await;
    assert_eq!(result, Ok(()));
    assert!(buffer.iter().all(|found| *found == byte), "block {block}");
}

fn create(node: &Node, volume: &str, size: &str, more: &[&str]) {
    let create = ["volume", "create", volume, "--pool", "pool", "--size", size];
    node.answer(&[&create[..], &["--allow", "any"], more].concat());
}

fn volume(node: &Node, called: &str) -> Volume {
    node.client().volume(&name(called)).unwrap()
}

fn refused(node: &Node, arguments: &[&str], words: &[&str]) {
    let output = node.ask(arguments);
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {message}");
    for word in words {
        assert!(message.contains(word), "{arguments:?}: {word}: {message}");
    }
}

#[test]
fn a_rollback_neither_surprises_a_host_nor_cuts_off_what_nobody_gave_up() {
    let node = Node::develop(&[]);
    create(&node, "v", "8MiB", &[]);
    connected(&node, "v", async |device, _controller| {
        assert_eq!(write(&device, 0, 1).await, Ok(()));
    });
    node.answer(&["volume", "snapshot", "v", "small"]);
    let back = ["volume", "rollback", "v", "small"];
    connected(&node, "v", async |device, _controller| {
        assert_eq!(write(&device, 0, 2).await, Ok(()));
        refused(&node, &back, &["is connected to", HOST, "force"]);
        holds(&device, 0, 2).await;
        // Who says so gets it.
        node.answer(&[&back[..], &["--force"]].concat());
        holds(&device, 0, 1).await;
    });
    node.answer(&["volume", "resize", "v", "16MiB"]);
    node.answer(&["volume", "snapshot", "v", "large"]);
    connected(&node, "v", async |device, _controller| {
        assert_eq!(write(&device, 4080, 3).await, Ok(()));
        for more in [&[][..], &["--force"], &["--force", "--allow-shrink"]] {
            refused(&node, &[&back[..], more].concat(), &[]);
        }
        assert_eq!(volume(&node, "v").capacity_bytes, 16 * MIB);
        holds(&device, 4080, 3).await;
    });
    refused(&node, &back, &["16 MiB", "8 MiB", "--allow-shrink"]);
    refused(
        &node,
        &[&back[..], &["--force"]].concat(),
        &["--allow-shrink"],
    );
    assert_eq!(volume(&node, "v").capacity_bytes, 16 * MIB);
    connected(&node, "v", async |device, _controller| {
        holds(&device, 4080, 3).await
    });
    node.answer(&[&back[..], &["--allow-shrink"]].concat());
    assert_eq!(volume(&node, "v").capacity_bytes, 8 * MIB);
    node.answer(&["volume", "rollback", "v", "large"]);
    assert_eq!(volume(&node, "v").capacity_bytes, 16 * MIB);
    // A tenant's token shrinks nothing, whatever it says.
    node.answer(&[
        "tenant",
        "grant",
        "acme",
        "pool",
        "--size",
        "64MiB",
        "--volumes",
        "2",
    ]);
    create(&node, "own", "8MiB", &["--tenant", "acme"]);
    node.answer(&["volume", "snapshot", "own", "own-small"]);
    node.answer(&["volume", "resize", "own", "16MiB"]);
    let secret = node.answer(&[
        "token", "create", "ops", "--role", "operator", "--tenant", "acme",
    ]);
    let file = node.path().join("ops.token");
    let secret = secret
        .split_whitespace()
        .find(|word| word.starts_with("fy"));
    std::fs::write(&file, secret.unwrap()).unwrap();
    let mut all = vec!["--node", &node.endpoints().api, "--token-file"];
    all.push(file.to_str().unwrap());
    all.extend(["volume", "rollback", "own", "own-small", "--allow-shrink"]);
    let output = support::flashyard(&all);
    let message = text(&output.stderr);
    assert!(message.contains("allowed for this token"), "{message}");
    assert_eq!(volume(&node, "own").capacity_bytes, 16 * MIB);
}

#[test]
fn a_volume_or_pool_that_is_made_again_is_what_was_asked_for_or_refused() {
    let node = Node::develop(&["--drives", "6"]);
    let client = node.client();
    let exists = |spec: &VolumeSpec, called: &str, word: &str| {
        let refused = client.create_volume(&name(called), spec);
        let Err(ClientError::Refused(error)) = refused else {
            panic!("{spec:?}: {refused:?}");
        };
        assert_eq!(error.code, ErrorCode::AlreadyExists);
        assert!(error.message.contains(word), "{error}");
    };
    let thin = VolumeSpec {
        pool: Some(name("pool")),
        size: Some(api::Size(8 * MIB)),
        ..VolumeSpec::default()
    };
    let thick = VolumeSpec {
        reserved: true,
        ..thin.clone()
    };
    let made = client.create_volume(&name("v"), &thin).unwrap();
    assert_eq!(client.create_volume(&name("v"), &thin).unwrap(), made);
    exists(&thick, "v", "thin");
    let kept = client.create_volume(&name("t"), &thick).unwrap();
    assert_eq!(client.create_volume(&name("t"), &thick).unwrap(), kept);
    exists(&thin, "t", "thick");
    node.answer(&["volume", "snapshot", "v", "s"]);
    node.answer(&["volume", "snapshot", "t", "other"]);
    let clone = |snapshot: &str| VolumeSpec {
        snapshot: Some(snapshot.parse().unwrap()),
        ..VolumeSpec::default()
    };
    let cloned = client.create_volume(&name("c"), &clone("s")).unwrap();
    assert_eq!(
        client.create_volume(&name("c"), &clone("s")).unwrap(),
        cloned
    );
    exists(&clone("other"), "c", "snapshot s");
    exists(&thin, "c", "snapshot s");
    exists(&clone("s"), "v", "v exists");
    // What became of it later does not count: neither a rollback nor that the snapshot is gone.
    node.answer(&["volume", "rollback", "v", "s"]);
    node.answer(&["snapshot", "delete", "s"]);
    assert_eq!(
        client.create_volume(&name("v"), &thin).unwrap().uuid,
        made.uuid
    );
    assert_eq!(
        client.create_volume(&name("c"), &clone("s")).unwrap().uuid,
        cloned.uuid
    );
    exists(&clone("other"), "c", "snapshot s");

    let pool = [
        "pool",
        "create",
        "pool",
        "--level",
        "raid6",
        "--drives",
        "d0,d1,d2,d3,d4,d5",
    ];
    node.answer(&pool);
    node.answer(&[&pool[..], &["--width", "6"]].concat());
    refused(
        &node,
        &[&pool[..], &["--width", "5"]].concat(),
        &["exists as raid6", "6 wide"],
    );
}

#[test]
fn a_thick_volume_can_be_filled_although_thin_ones_fill_the_pool() {
    let mut node = Node::develop(&[]);
    for called in ["thick", "later"] {
        create(&node, called, "8MiB", &[]);
    }
    node.answer(&["volume", "reserve", "thick"]);
    assert!(volume(&node, "thick").reserved);
    assert!(!volume(&node, "later").reserved);
    node.answer(&["volume", "snapshot", "later", "s"]);
    node.answer(&["volume", "clone", "s", "copy", "--allow", "any", "--thick"]);
    assert!(volume(&node, "copy").reserved);
    let usable = node.client().pool(&name("pool")).unwrap().usable_bytes;
    create(&node, "hog", &format!("{}", usable / 4096 * 4096), &[]);
    refused(&node, &["volume", "reserve", "hog"], &["out of space"]);
    assert!(!volume(&node, "hog").reserved);
    node.kill();
    node.start();
    assert!(volume(&node, "thick").reserved);
    connected(&node, "hog", async |device, _controller| {
        let blocks = device.geometry().block_count;
        let mut full = false;
        for block in (0..blocks - 16).step_by(16) {
            if write(&device, block, 9).await == Err(IoError::CapacityExceeded) {
                full = true;
                break;
            }
        }
        assert!(full, "a thin volume as large as the pool cannot be filled");
    });
    for called in ["thick", "copy"] {
        connected(&node, called, async |device, _controller| {
            for block in (0..2048).step_by(16) {
                assert_eq!(write(&device, block, 5).await, Ok(()), "{called}: {block}");
            }
            holds(&device, 2032, 5).await;
        });
    }
    connected(&node, "later", async |device, _controller| {
        let wrote = write(&device, 0, 5).await;
        assert_eq!(wrote, Err(IoError::CapacityExceeded));
    });
    // Hosts can give back in a full pool, and what they gave back is there to be written again.
    connected(&node, "hog", async |device, _controller| {
        let half = BlockRange::new(Lba(0), device.geometry().block_count / 2);
        assert_eq!(device.deallocate(half).await, Ok(()));
    });
    let started = Instant::now();
    connected(&node, "later", async |device, _controller| {
        while write(&device, 0, 5).await != Ok(()) {
            assert!(started.elapsed() < PATIENCE, "there is room again");
            reactor::sleep(Duration::from_millis(50)).await;
        }
    });
    // What is kept is given up, and can then be anybody's.
    node.answer(&["volume", "delete", "copy"]);
    node.answer(&["volume", "reserve", "thick", "--off"]);
    assert!(!volume(&node, "thick").reserved);
    let cases: &[Refused] = &[(
        &["volume", "reserve", "absent"],
        1,
        &["no volume is named absent"],
    )];
    node.refuses(cases);
}

#[test]
fn a_volume_is_rolled_back_to_its_own_snapshots_only() {
    let node = Node::develop(&[]);
    create(&node, "v", "8MiB", &[]);
    create(&node, "other", "8MiB", &[]);
    connected(&node, "v", async |device, _controller| {
        assert_eq!(write(&device, 0, 1).await, Ok(()));
    });
    node.answer(&["volume", "snapshot", "other", "monday"]);
    let back = ["volume", "rollback", "v", "monday"];
    refused(
        &node,
        &back,
        &["snapshot monday is of volume other, not of v"],
    );
    node.answer(&["volume", "clone", "monday", "copy"]);
    node.answer(&["volume", "rollback", "copy", "monday"]);
    node.answer(&["volume", "delete", "other"]);
    refused(&node, &back, &["a volume that has been deleted"]);
    connected(&node, "v", async |device, _controller| {
        holds(&device, 0, 1).await;
    });
}

/// A clone that began as a snapshot of the volume became something else aside; the volume becomes
/// that, and keeps it when clone and snapshot are gone. A clone of the clone is another's.
#[test]
fn a_volume_becomes_what_a_clone_of_it_has_become() {
    let node = Node::develop(&[]);
    create(&node, "v", "8MiB", &[]);
    node.answer(&["volume", "snapshot", "v", "monday"]);
    for (from, clone) in [("monday", "aside"), ("on-aside", "further")] {
        node.answer(&["volume", "clone", from, clone, "--allow", "any"]);
        connected(&node, clone, async |device, _controller| {
            assert_eq!(write(&device, 0, 7).await, Ok(()));
        });
        node.answer(&["volume", "snapshot", clone, &format!("on-{clone}")]);
    }
    let further = ["volume", "rollback", "v", "on-further"];
    refused(&node, &further, &["of volume further, not of v"]);
    node.answer(&["volume", "rollback", "v", "on-aside"]);
    for volume in ["further", "aside"] {
        node.answer(&["volume", "delete", volume]);
        node.answer(&["snapshot", "delete", &format!("on-{volume}")]);
    }
    connected(&node, "v", async |device, _controller| {
        holds(&device, 0, 7).await;
    });
    node.answer(&["volume", "rollback", "v", "monday"]);
}

#[test]
fn a_pool_that_is_nearly_full_says_so_and_what_is_reserved() {
    let node = Node::develop(&[]);
    let client = node.client();
    let pool = || client.pool(&name("pool")).unwrap();
    let about_space = || {
        let mut problems = client.status().unwrap().problems;
        problems.retain(|problem| problem.contains("nearly full"));
        problems
    };
    assert_eq!(pool().reserved_bytes, 0);
    let size = format!("{}MiB", pool().usable_bytes / MIB * 90 / 100);
    create(&node, "most", &size, &["--thick"]);
    assert_eq!(about_space(), [""; 0]);
    let left = (pool().usable_bytes - pool().used_bytes - pool().reserved_bytes) / MIB;
    create(&node, "rest", &format!("{left}MiB"), &["--thick"]);
    let problems = about_space();
    let [problem] = problems.as_slice() else {
        panic!("{problems:?}");
    };
    let reserved = api::Size(pool().reserved_bytes).to_string();
    assert!(problem.contains("pool pool"), "{problem}");
    assert!(
        problem.contains(&format!("{reserved} reserved")),
        "{problem}"
    );
    for view in ["show", "usage"] {
        let shown = node.answer(&["pool", view, "pool"]);
        assert!(shown.contains(&reserved), "{shown}");
    }
    node.answer(&["volume", "delete", "rest"]);
    assert_eq!(about_space(), [""; 0]);
}

#[test]
fn what_hosts_are_connected_to_is_taken_from_them_by_force_only() {
    let node = Node::develop(&[]);
    create(&node, "v", "8MiB", &[]);
    let (delete, export) = (["volume", "delete", "v"], ["pool", "export", "pool"]);
    connected(&node, "v", async |device, _controller| {
        for take in [&delete[..], &export] {
            let words = ["volume v is connected to", HOST, "--force"];
            refused(&node, take, &words);
        }
        assert_eq!(write(&device, 0, 1).await, Ok(()));
        node.answer(&[&delete[..], &["--force"]].concat());
    });
    assert!(node.client().volume(&name("v")).is_err());
    connected(&node, "demo", async |_device, _controller| {
        node.answer(&[&export[..], &["--force"]].concat());
    });
    node.answer(&["pool", "import", "pool"]);
    node.answer(&export);
}
