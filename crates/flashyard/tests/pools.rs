//! Pools, their volumes and snapshots, from the command line to the drives and back, with
//! SIGKILL in between.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "support/connected.rs"]
mod connected;
#[path = "support/label.rs"]
mod label;
mod support;

use api::{JobKind, JobState, ObjectState, PoolState};
use block::conformance::{Plan, check};
use block::{BlockDevice, Buffer, Durability, IoError, Lba};
use connected::{HOST, connected};
use initiator::Namespace;
use support::{Node, Refused, flashyard, name, text, wait_until};

const MIB: u64 = 1 << 20;

async fn fill(device: &Namespace, blocks: std::ops::Range<u64>, byte: u8) {
    for block in blocks {
        let mut buffer = Buffer::zeroed(4096);
        buffer.fill(byte);
        let written = device.write(Lba(block), buffer, Durability::Durable).await;
        assert_eq!(written.1, Ok(()));
    }
}

async fn holds(device: &Namespace, blocks: std::ops::Range<u64>, byte: u8) {
    for block in blocks {
        let (buffer, result) = device.read(Lba(block), Buffer::new(4096)).await;
        assert_eq!(result, Ok(()));
        assert!(buffer.iter().all(|found| *found == byte), "block {block}");
    }
}

fn pool_state(node: &Node) -> PoolState {
    node.client().pool(&name("pool")).unwrap().state
}

#[test]
fn a_served_volume_of_a_pool_keeps_the_contract_and_its_data() {
    let mut node = Node::develop(&[]);
    let volume = node.client().volume(&name("demo")).unwrap();
    assert_eq!(volume.pool, Some(name("pool")));
    connected(&node, "demo", async |device, _controller| {
        check(&device, Plan::quick(5)).await.unwrap();
        fill(&device, 300..400, 7).await;
    });
    node.kill();
    node.start();
    assert_eq!(node.client().volume(&name("demo")).unwrap(), volume);
    connected(&node, "demo", async |device, _controller| {
        holds(&device, 300..400, 7).await;
    });
    assert!(node.terminate().success(), "{}", node.log());
    node.start();
    connected(&node, "demo", async |device, _controller| {
        holds(&device, 300..400, 7).await;
    });
}

#[test]
fn volumes_are_resized_renamed_snapshotted_cloned_and_rolled_back() {
    let mut node = Node::develop(&["--cores", "0"]);
    let create = ["volume", "create", "v", "--pool", "pool", "--size", "8MiB"];
    node.answer(&[&create[..], &["--allow", "any"]].concat());
    let before = node.client().volume(&name("v")).unwrap();
    connected(&node, "v", async |device, controller| {
        fill(&device, 0..10, 1).await;
        node.answer(&["volume", "resize", "v", "16MiB"]);
        let grown = controller.namespace(1).await.unwrap();
        assert_eq!(grown.geometry().capacity_bytes(), 16 * MIB);
        fill(&grown, 4000..4001, 9).await;
        // Nothing is cut off under a host that may be using it.
        let shrink = node.ask(&["volume", "resize", "v", "4MiB", "--allow-shrink"]);
        let message = text(&shrink.stderr);
        assert!(
            message.contains("is connected to") && message.contains(HOST),
            "{message}"
        );
    });
    node.answer(&["volume", "snapshot", "v", "monday"]);
    connected(&node, "v", async |device, _controller| {
        fill(&device, 0..10, 2).await;
    });
    node.answer(&["volume", "clone", "monday", "copy", "--allow", "any"]);
    node.answer(&["snapshot", "create", "v=v-tuesday", "copy=copy-tuesday"]);
    node.answer(&["volume", "rename", "v", "renamed"]);
    node.kill();
    node.start();
    let client = node.client();
    let renamed = client.volume(&name("renamed")).unwrap();
    assert_eq!((&renamed.nqn, renamed.uuid), (&before.nqn, before.uuid));
    assert_eq!(renamed.capacity_bytes, 16 * MIB);
    let copy = client.volume(&name("copy")).unwrap();
    assert_eq!(copy.origin.as_deref(), Some("monday"));
    let snapshots = client.snapshots().unwrap().items;
    let of = |snapshot: &str| {
        let found = snapshots.iter().find(|found| found.name == snapshot);
        found.unwrap().volume.clone().unwrap()
    };
    assert_eq!(snapshots.len(), 3);
    assert_eq!(
        (of("monday"), of("copy-tuesday")),
        (name("renamed"), name("copy"))
    );
    connected(&node, "copy", async |device, _controller| {
        holds(&device, 0..10, 1).await;
        holds(&device, 4000..4001, 9).await;
    });
    connected(&node, "renamed", async |device, _controller| {
        holds(&device, 0..10, 2).await;
        node.answer(&["volume", "rollback", "renamed", "monday", "--force"]);
        holds(&device, 0..10, 1).await;
    });
    wait_until("the host is gone and the volume shrinks", || {
        let shrink = ["volume", "resize", "renamed", "4MiB", "--allow-shrink"];
        node.ask(&shrink).status.success()
    });
    node.answer(&["volume", "resize", "renamed", "16MiB"]);
    connected(&node, "renamed", async |device, _controller| {
        holds(&device, 0..10, 1).await;
        // What was cut off does not come back.
        holds(&device, 4000..4001, 0).await;
    });
    // Another volume of the first name is another subsystem.
    let again = ["volume", "create", "v", "--pool", "pool", "--size", "1MiB"];
    node.answer(&again);
    assert_ne!(node.client().volume(&name("v")).unwrap().nqn, before.nqn);
    for snapshot in ["monday", "v-tuesday", "copy-tuesday"] {
        node.answer(&["snapshot", "delete", snapshot]);
    }
    for volume in ["v", "renamed", "copy", "demo"] {
        node.answer(&["volume", "delete", volume]);
    }
    node.answer(&["pool", "destroy", "pool"]);
    assert_eq!(node.client().pools().unwrap().items, []);
    node.answer(&["drive", "remove", "d0"]);
}

#[test]
fn a_pool_moves_to_another_node_with_its_hosts_and_identities() {
    let mut first = Node::develop(&[]);
    let nqn = "nqn.2014-08.org.nvmexpress:uuid:5c1a9b1e-3f0e-4a54-a7c0-8ea4e0f8a8aa";
    first.answer(&["host", "add", "h1", "--nqn", nqn]);
    first.answer(&["volume", "allow", "demo", "h1"]);
    first.answer(&["host", "add", "h3", "--nqn", &nqn.replace("aa", "cc")]);
    first.answer(&["volume", "allow", "demo", "h3"]);
    first.answer(&["host", "key", "h3", "--generate"]);
    first.answer(&["host", "tls-key", "h1", "--generate"]);
    connected(&first, "demo", async |device, _controller| {
        fill(&device, 0..50, 3).await;
    });
    let volume = first.client().volume(&name("demo")).unwrap();
    let holder = first.client().status().unwrap().uuid.to_string();
    first.kill();

    // Another node, on the same files in another order, of which one has no more than a copy.
    let second = Node::configured("[node]\nname = \"second\"\n");
    second.answer(&["host", "add", "h1", "--nqn", &nqn.replace("aa", "bb")]);
    let drives = first.path().join("drives");
    for (number, name) in ["e", "c", "a", "f", "b", "d"].iter().enumerate() {
        let path = drives.join(format!("d{number}.img"));
        second.answer(&["drive", "add", name, path.to_str().unwrap()]);
    }
    let listed = second.answer(&["pool", "import"]);
    assert!(
        ["raid6", "6 of 6", &holder]
            .iter()
            .all(|part| listed.contains(part)),
        "{listed}"
    );
    let refused = |arguments: &[&str], parts: &[&str]| {
        let output = second.ask(arguments);
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {message}");
        for part in parts {
            assert!(
                message.contains(part),
                "{arguments:?}: {message:?}, not {part:?}"
            );
        }
    };
    let held = ["holds the pool", "force", &holder];
    refused(&["pool", "import", "pool"], &held);
    refused(&["pool", "import", "other"], &["named other", "pool"]);
    refused(
        &["volume", "create", "v", "--drive", "a"],
        &["belongs to pool pool"],
    );
    let create = [
        "pool", "create", "q", "--level", "raid5", "--drives", "a,b,c",
    ];
    refused(&create, &["belongs to pool"]);
    let copy = drives.join("copy.img");
    std::fs::copy(drives.join("d3.img"), &copy).unwrap();
    second.answer(&["drive", "add", "copy", copy.to_str().unwrap()]);
    let force = ["pool", "import", "pool", "--force"];
    refused(&force, &["copy", "f", "copies of one another"]);
    // The label of the copy is as good as that of the drive, which the first node holds.
    let wipe = ["drive", "wipe", "copy"];
    refused(&wipe, &["of pool pool, which host", &holder, "--force"]);
    second.answer(&[&wipe[..], &["--force"]].concat());
    // One of which both labels are damaged is taken for nothing else, and is in nobody's way.
    let hurt = drives.join("hurt.img");
    label::damage(&drives.join("d3.img"), &hurt);
    second.answer(&["drive", "add", "hurt", hurt.to_str().unwrap()]);
    refused(
        &["volume", "create", "v", "--drive", "hurt"],
        &["label that is damaged"],
    );
    refused(
        &[
            "pool", "create", "q", "--level", "raid0", "--drives", "hurt",
        ],
        &["the label of drive hurt is damaged", "wipe"],
    );
    second.answer(&force);
    second.answer(&["drive", "wipe", "hurt"]);
    let there = second.client().volume(&name("demo")).unwrap();
    assert_eq!(
        (&there.nqn, there.nsid, there.uuid),
        (&volume.nqn, volume.nsid, volume.uuid)
    );
    assert_eq!(there.hosts, [name("any"), name("h1-2"), name("h3")]);
    // Hosts that had to prove something are not let in without, and somebody is told.
    second.answer(&["host", "key", "h3"]);
    let under_tls = second.client().host(&name("h1-2")).unwrap();
    assert_eq!(under_tls.nqn, nqn);
    assert!(under_tls.tls && under_tls.key.is_none());
    let events = second.answer(&["event", "list"]);
    for given in ["host key h3", "host tls-key h1-2"] {
        let told = format!("refused until it is given its key with flashyard {given}");
        assert!(events.contains(&told), "{events}");
    }
    connected(&second, "demo", async |device, _controller| {
        holds(&device, 0..50, 3).await;
    });
    second.answer(&["pool", "export", "pool"]);
    assert_eq!(second.client().volumes().unwrap().items, []);
    let listed = second.answer(&["pool", "import"]);
    assert!(listed.contains("6 of 6"), "{listed}");
    for drive in ["a", "b", "c", "d", "e", "f"] {
        second.answer(&["drive", "remove", drive]);
    }

    // The first one finds its pool let go of, and takes it back by itself.
    first.start();
    assert_eq!(first.client().volume(&name("demo")).unwrap(), volume);
}

#[test]
fn a_pool_without_one_drive_is_degraded_rebuilds_and_takes_another() {
    let mut node = Node::develop(&["--drives", "6"]);
    connected(&node, "demo", async |device, _controller| {
        fill(&device, 0..200, 4).await;
    });
    node.kill();
    std::fs::remove_file(node.path().join("drives/d2.img")).unwrap();
    node.start();
    connected(&node, "demo", async |device, _controller| {
        holds(&device, 0..200, 4).await;
    });
    wait_until("the pool makes itself whole", || {
        pool_state(&node) == PoolState::Online
    });
    let events = node.answer(&["event", "list"]);
    assert!(events.contains("is missing"), "{events}");
    assert!(
        events.contains("left; redundancy left: 2 drives"),
        "{events}"
    );
    let pool = node.client().pool(&name("pool")).unwrap();
    assert_eq!((pool.members.len(), pool.drives_to_spare), (5, Some(2)));
    node.answer(&["drive", "remove", "d2"]);
    let path = node.path().canonicalize().unwrap().join("drives/d6.img");
    let path = path.to_str().unwrap();
    node.answer(&["drive", "add", "d6", path, "--size", "16MiB"]);
    node.answer(&["pool", "add-drive", "pool", "d6"]);
    node.answer(&["pool", "fail-drive", "pool", "d0"]);
    wait_until("the drive is forgotten", || {
        node.client().pool(&name("pool")).unwrap().members.len() == 5
    });
    node.answer(&["pool", "remove-drive", "pool", "d1", "--wait"]);
    node.answer(&["drive", "remove", "d1"]);
    node.answer(&["pool", "scrub", "pool", "--wait"]);
    wait_until("all jobs are done", || {
        let jobs = node.client().jobs().unwrap().items;
        jobs.iter().all(|job| job.state == JobState::Done)
    });
    node.kill();
    node.start();
    assert_eq!(pool_state(&node), PoolState::Online);
    connected(&node, "demo", async |device, _controller| {
        holds(&device, 0..200, 4).await;
    });
}

#[test]
fn a_drive_that_joins_takes_its_share_of_what_is_there() {
    let mut node = Node::develop(&["--drives", "6"]);
    let usable = node.client().pool(&name("pool")).unwrap().usable_bytes;
    let size = format!("{}MiB", usable * 7 / 10 / MIB);
    let blocks = usable * 7 / 10 / MIB * MIB / 4096;
    let create = [
        "volume", "create", "full", "--pool", "pool", "--size", &size,
    ];
    node.answer(&[&create[..], &["--allow", "any"]].concat());
    connected(&node, "full", async |device, _controller| {
        fill(&device, 0..blocks, 7).await;
    });
    let path = node.path().canonicalize().unwrap().join("drives/d6.img");
    let path = path.to_str().unwrap();
    node.answer(&["drive", "add", "d6", path, "--size", "16MiB"]);
    node.answer(&["pool", "add-drive", "pool", "d6"]);
    wait_until("every drive has its share", || {
        let pool = node.client().pool(&name("pool")).unwrap();
        let free = pool.members.iter().map(|member| member.free_bytes);
        let (least, most) = (free.clone().min().unwrap(), free.max().unwrap());
        pool.members.len() == 7 && most - least < 2 * MIB
    });
    wait_until("the job ends", || {
        let jobs = node.client().jobs().unwrap().items;
        let job = jobs.iter().find(|job| job.kind == JobKind::Rebalance);
        job.is_some_and(|job| job.state == JobState::Done && job.percent == 100)
    });
    let shown = node.answer(&["pool", "show", "pool"]);
    assert!(shown.contains("rebalanced"), "{shown}");
    connected(&node, "full", async |device, _controller| {
        holds(&device, 0..blocks, 7).await;
    });
    node.kill();
    node.start();
    node.answer(&["pool", "scrub", "pool", "--wait"]);
    connected(&node, "full", async |device, _controller| {
        holds(&device, 0..blocks, 7).await;
    });
}

#[test]
fn a_pool_that_lost_too_much_is_offline_until_its_drives_are_back() {
    let mut node = Node::develop(&[]);
    let before = node.client().volume(&name("demo")).unwrap();
    node.kill();
    let drives = node.path().join("drives");
    let aside = |number| drives.join(format!("aside-{number}"));
    let file = |number| drives.join(format!("d{number}.img"));
    for number in [0, 3, 5] {
        std::fs::rename(file(number), aside(number)).unwrap();
    }
    node.start();
    let client = node.client();
    assert_eq!(pool_state(&node), PoolState::Offline);
    let status = client.status().unwrap();
    assert_eq!((status.pools.total, status.pools.offline), (1, 1));
    let problem = status
        .problems
        .iter()
        .find(|found| found.contains("pool pool"));
    assert!(problem.unwrap().contains("3 of 6"), "{:?}", status.problems);
    // Its volumes are there, with the reason, and hosts find them not ready.
    let held = client.volume(&name("demo")).unwrap();
    assert_eq!(held.state, ObjectState::Offline);
    assert!(held.reason.clone().unwrap().contains("3 of 6"), "{held:?}");
    assert_eq!((&held.nqn, held.uuid), (&before.nqn, before.uuid));
    let listed = client.pool(&name("pool")).unwrap().volumes;
    assert_eq!(listed, [name("demo")]);
    connected(&node, "demo", async |device, _controller| {
        let read = device.read(Lba(0), Buffer::new(4096)).await;
        assert_eq!(read.1, Err(IoError::NotReady));
    });
    for number in [0, 3, 5] {
        std::fs::rename(aside(number), file(number)).unwrap();
        let drive = name(&format!("d{number}"));
        let spec = client.drive(&drive).unwrap().spec;
        client.add_drive(&drive, &spec).unwrap();
    }
    assert_ne!(pool_state(&node), PoolState::Offline);
    assert_eq!(client.volume(&name("demo")).unwrap(), before);
    connected(&node, "demo", async |device, _controller| {
        fill(&device, 0..1, 1).await;
    });
}

#[test]
fn what_cannot_be_is_refused_with_what_is_allowed() {
    let node = Node::develop(&["--drives", "8"]);
    node.answer(&["volume", "snapshot", "demo", "s"]);
    let cases: &[Refused] = &[
        (
            &["pool", "create", "q", "--level", "raid7", "--drives", "d0"],
            2,
            &["raid7", "raid0, raid1, raid5, raid6, raid10"],
        ),
        (
            &[
                "pool", "create", "q", "--level", "raid5", "--drives", "d0,d1,d2",
            ],
            1,
            &["drives[0]", "used by pool pool"],
        ),
        (
            &["pool", "create", "q", "--level", "raid5", "--drives", "x"],
            1,
            &["drives[0]", "no drive is named x", "d0, d1"],
        ),
        (
            &[
                "pool", "create", "pool", "--level", "raid5", "--drives", "d0",
            ],
            1,
            &["exists as raid6"],
        ),
        (&["pool", "show", "q"], 1, &["no pool is named q"]),
        (&["pool", "scrub", "q"], 1, &["no pool is named q", "pool"]),
        (
            &["pool", "remove-drive", "pool", "x"],
            1,
            &["no member", "d0, d1"],
        ),
        (&["pool", "destroy", "pool"], 1, &["demo", "s", "delete"]),
        (&["drive", "remove", "d1"], 1, &["used by pool pool"]),
        (&["drive", "wipe", "d1"], 1, &["used by pool pool"]),
        (
            &["volume", "create", "v", "--drive", "d1"],
            1,
            &["drive", "used by pool pool"],
        ),
        (&["volume", "create", "v", "--pool", "pool"], 2, &["--size"]),
        (
            &["volume", "create", "v", "--pool", "q", "--size", "1MiB"],
            1,
            &["pool", "no pool is named q"],
        ),
        (
            &["volume", "create", "v", "--pool", "pool", "--size", "0"],
            1,
            &["allowed: 4 KiB to 4 PiB"],
        ),
        (
            &["volume", "clone", "s", "copy", "--size", "4MiB"],
            1,
            &["size", "snapshot s has", "4 MiB is less", "or a larger one"],
        ),
        (
            &["volume", "create", "s", "--pool", "pool", "--size", "1MiB"],
            1,
            &["taken"],
        ),
        (
            &["volume", "resize", "demo", "4MiB"],
            1,
            &["size", "--allow-shrink"],
        ),
        (
            &["volume", "clone", "t", "copy"],
            1,
            &["snapshot", "no snapshot is named t"],
        ),
        (
            &[
                "volume", "create", "v", "--pool", "pool", "--size", "1TiB", "--thick",
            ],
            1,
            &["out of space", "is free, and 1 TiB was asked for"],
        ),
        (
            &["volume", "snapshot", "v", "t"],
            1,
            &["no volume is named v"],
        ),
        (&["snapshot", "create", "demo"], 2, &["VOLUME=SNAPSHOT"]),
        (&["snapshot", "delete", "t"], 1, &["no snapshot is named t"]),
        (&["job", "show", "77"], 1, &["77"]),
    ];
    node.refuses(cases);
    let odd = flashyard(&["serve", "--dev", "/nowhere", "--level", "raid9"]);
    assert!(text(&odd.stderr).contains("raid9"), "{odd:?}");
}

#[test]
fn drives_stay_single_when_asked() {
    let node = Node::develop(&["--level", "none"]);
    assert_eq!(node.client().pools().unwrap().items, []);
    let volume = node.client().volume(&name("demo")).unwrap();
    assert_eq!(volume.drive, Some(name("d0")));
}
