//! Replicas of volumes on another node: they follow, whoever dies in between, and take over.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "support/connected.rs"]
mod connected;
#[path = "support/copying.rs"]
mod copying;
mod support;

use api::{DriveSpec, ErrorCode, JobState, ReplicationStanding, Size, VolumeRollback, VolumeSpec};
use client::ClientError;
use copying::{Content, MIB, contents, noise, pair, write};
use serde_json::json;
use server::tokens::ADMIN_TOKEN_FILE;
use support::{Node, name, wait_until, wait_until_or_tell};
use uuid::Uuid;

/// A node with the volume `data` of 64 MiB in `pool`, of which so many MiB hold something.
fn with_data(filled: u64) -> Node {
    let node = pair();
    node.answer(&[
        "volume", "create", "data", "--pool", "pool", "--size", "64MiB", "--allow", "any",
    ]);
    let parts = (0..filled).map(|number| (4 * number * MIB, Content::Bytes(noise(MIB, number))));
    write(&node, "data", parts.collect());
    node
}

/// Has the volume `data` of a node replicated to another, each second.
fn replicate(from: &Node, to: &Node, extra: &[&str]) {
    replicate_every("1s", from, to, extra);
}

fn replicate_every(period: &str, from: &Node, to: &Node, extra: &[&str]) {
    let token = to.path().join(ADMIN_TOKEN_FILE);
    let to = to.endpoints().api.clone();
    let call = ["volume", "replicate", "data", "--to", &to, "--pool", "pool"];
    let token = token.to_str().unwrap();
    let rest = ["--every", period, "--to-token-file", token];
    from.answer(&[&call[..], &rest, extra].concat());
}

fn standing(node: &Node) -> ReplicationStanding {
    let found = node.client().replication(&name("data")).unwrap();
    found.standing
}

/// Waits for a problem with these words.
fn wait_for_problem(node: &Node, words: &str) {
    let told = || format!("{words:?}, not {:?}", standing(node));
    wait_until_or_tell(told, || {
        standing(node)
            .problem
            .is_some_and(|problem| problem.contains(words))
    });
}

/// Snapshots that are there for the replication.
fn snapshots(node: &Node) -> Vec<String> {
    let all = node.client().snapshots().unwrap().items;
    let names = all.into_iter().map(|it| it.name);
    names.filter(|it| it.contains(".replicated-")).collect()
}

/// All of the replica as of its newest snapshot, by a clone of that; nothing while it has none, or
/// if that is deleted meanwhile, as there is a newer one.
fn replica(to: &Node) -> Option<Vec<u8>> {
    let newest = snapshots(to).pop()?;
    let client = to.client();
    let clone = VolumeSpec {
        snapshot: Some(newest.parse().unwrap()),
        hosts: vec![name("any")],
        ..VolumeSpec::default()
    };
    client.create_volume(&name("clone"), &clone).ok()?;
    let found = contents(to, "clone");
    client.delete_volume(&name("clone"), true).unwrap();
    Some(found)
}

/// Waits until the replica is what the volume is now.
fn wait_for_copy(from: &Node, to: &Node) {
    let wanted = contents(from, "data");
    let told = || format!("a copy: {:?}; {}", standing(from), from.log());
    wait_until_or_tell(told, || replica(to).as_ref() == Some(&wanted));
}

/// The code of a refusal.
fn code<T>(answer: Result<T, ClientError>) -> ErrorCode {
    match answer {
        Ok(_) => panic!("that should have been refused"),
        Err(ClientError::Refused(body)) => body.code,
        Err(other) => panic!("{other}"),
    }
}

/// A replica is one through kills, export and import; and none once it is promoted.
#[test]
fn no_host_sees_a_replica_until_it_is_promoted() {
    let mut node = pair();
    let original = Uuid::from_u128(7);
    let spec = VolumeSpec {
        pool: Some(name("pool")),
        size: Some(Size(MIB)),
        replica_of: Some(original),
        ..VolumeSpec::default()
    };
    let shown = VolumeSpec {
        hosts: vec![name("any")],
        ..spec.clone()
    };
    let nil = VolumeSpec {
        replica_of: Some(Uuid::nil()),
        ..spec.clone()
    };
    for wrong in [&shown, &nil] {
        let made = node.client().create_volume(&name("data"), wrong);
        assert_eq!(code(made), ErrorCode::InvalidArgument);
    }
    node.client().create_volume(&name("data"), &spec).unwrap();
    node.answer(&["volume", "snapshot", "data", "monday"]);
    let back = |of: Option<Uuid>| VolumeRollback {
        snapshot: name("monday").into(),
        force: false,
        allow_shrink: false,
        replica_of: of,
    };
    let is_replica = |node: &Node| {
        let client = node.client();
        assert_eq!(
            client.create_volume(&name("data"), &spec).unwrap().hosts,
            []
        );
        let allowed = client.allow_host(&name("data"), &name("any"));
        assert_eq!(code(allowed), ErrorCode::InUse);
        let other = client.rollback_volume(&name("data"), &back(Some(Uuid::from_u128(8))));
        assert_eq!(code(other), ErrorCode::InUse);
        for of in [Some(original), None] {
            client.rollback_volume(&name("data"), &back(of)).unwrap();
        }
    };
    is_replica(&node);
    node.kill();
    node.start();
    is_replica(&node);
    node.answer(&["pool", "export", "pool"]);
    node.answer(&["pool", "import", "pool"]);
    is_replica(&node);

    node.answer(&["volume", "promote", "data"]);
    node.kill();
    node.start();
    node.answer(&["volume", "promote", "data"]);
    let late = node
        .client()
        .rollback_volume(&name("data"), &back(Some(original)));
    assert_eq!(
        code(late),
        ErrorCode::InUse,
        "its original writes it no more"
    );
    node.answer(&["volume", "allow", "data", "any"]);
}

/// All of the volume, then what changed, also once it grew and both nodes were restarted. When its
/// node has died, the replica has all of it; and it is written no more once it was promoted.
#[test]
fn a_replica_follows_its_volume_and_takes_over() {
    let [mut one, mut two] = [with_data(4), pair()];
    replicate(&one, &two, &[]);
    wait_for_copy(&one, &two);
    let replica = two.client().volume(&name("data")).unwrap();
    let original = one.client().volume(&name("data")).unwrap();
    assert_eq!(replica.replica_of, Some(original.uuid));
    assert_eq!(replica.hosts, []);
    let jobs = one.client().jobs().unwrap().items;
    assert!(
        jobs.iter().any(|job| job.object == "replication/data"),
        "{jobs:?}"
    );
    let lag = "flashyard_replication_lag_seconds{replication=\"data\"}";
    wait_until(lag, || one.client().figures().unwrap().contains(lag));

    one.answer(&["volume", "resize", "data", "72MiB"]);
    let parts = [(5 * MIB, 1), (64 * MIB, 2)];
    let parts = parts.map(|(at, seed)| (at, Content::Bytes(noise(MIB, seed))));
    write(&one, "data", parts.into());
    wait_for_copy(&one, &two);
    for node in [&mut one, &mut two] {
        assert!(node.terminate().success(), "{}", node.log());
        node.start();
    }
    write(
        &one,
        "data",
        vec![
            (9 * MIB, Content::Bytes(noise(MIB, 3))),
            (0, Content::Nothing(MIB)),
        ],
    );
    wait_for_copy(&one, &two);
    for node in [&one, &two] {
        assert!(snapshots(node).len() <= 3, "{:?}", snapshots(node));
    }

    let all = contents(&one, "data");
    one.kill();
    two.answer(&["volume", "promote", "data"]);
    two.answer(&["volume", "allow", "data", "any"]);
    assert!(contents(&two, "data") == all);
    write(&two, "data", vec![(0, Content::Bytes(noise(MIB, 4)))]);
    let all = contents(&two, "data");
    one.start();
    wait_for_problem(&one, "it was promoted or deleted");
    assert!(
        contents(&two, "data") == all,
        "what was promoted is written no more"
    );
    let events = one.client().events(0).unwrap().items;
    let told = |message: &str| message.contains("it was promoted");
    let told = events.iter().filter(|event| told(&event.message)).count();
    assert_eq!(told, 1, "{events:?}");
    one.answer(&["volume", "unreplicate", "data"]);
    assert_eq!(one.client().replications().unwrap().items, []);
}

/// Whether a copy writes to the other node, whose volume aside is there.
fn is_writing(to: &Node) -> bool {
    to.client().volume(&name("data.receiving")).is_ok()
}

/// Whoever has a replica write protected has it stay as it is; the replication says so, and goes on
/// once that is lifted.
#[test]
fn a_protected_replica_stays_as_it_is() {
    let (from, to) = (with_data(2), pair());
    replicate(&from, &to, &[]);
    wait_for_copy(&from, &to);
    let before = contents(&from, "data");
    to.answer(&["volume", "protect", "data"]);
    write(&from, "data", vec![(0, Content::Bytes(noise(MIB, 77)))]);
    wait_for_problem(&from, "volume data is write protected");
    assert!(replica(&to) == Some(before), "the replica has changed");
    to.answer(&["volume", "protect", "data", "--off"]);
    wait_for_copy(&from, &to);
}

/// A change of a replication begins a copy, also where one is being made as it was before.
#[test]
fn a_change_during_a_copy_is_copied_for_once_that_has_ended() {
    let [one, two] = [with_data(8), pair()];
    replicate_every("1h", &one, &two, &["--bandwidth", "2MB"]);
    wait_until("a copy", || is_writing(&two));
    replicate_every("1h", &one, &two, &[]);
    let first = standing(&one).job.expect("it is being made");
    wait_until("another copy", || {
        let jobs = one.client().jobs().unwrap().items;
        let mut copies = jobs.iter().filter(|job| job.object == "replication/data");
        copies.any(|job| job.id > first && job.state == JobState::Done)
    });
    assert!(standing(&one).copied.is_some());
}

/// Whichever node dies in the middle of a copy, or at another instant, the replica becomes what the
/// volume is: both always have a snapshot in common. Nothing that copies have made stays.
#[test]
fn a_replication_goes_on_whichever_node_dies_in_between() {
    let [mut one, mut two] = [with_data(8), pair()];
    // All of it takes two seconds.
    replicate(&one, &two, &["--bandwidth", "4MiB"]);
    for round in 0..2 {
        wait_until("the first copy is under way", || is_writing(&two));
        let node = if round == 0 { &mut one } else { &mut two };
        node.kill();
        node.start();
        assert_eq!(standing(&one).copied, None);
    }
    wait_for_copy(&one, &two);
    for round in 0..2 {
        let part = (round * MIB, Content::Bytes(noise(MIB, 100 + round)));
        write(&one, "data", vec![part]);
        wait_until("a copy begins", || standing(&one).job.is_some());
        std::thread::sleep(std::time::Duration::from_millis(50 + 200 * round));
        let node = if round % 2 == 0 { &mut one } else { &mut two };
        node.kill();
        node.start();
    }
    wait_for_copy(&one, &two);
    one.answer(&["volume", "unreplicate", "data"]);
    wait_until("nothing is aside", || {
        [&one, &two].iter().all(|node| {
            let client = node.client();
            let volumes = client.volumes().unwrap().items;
            let hosts = client.hosts().unwrap().items;
            let names = volumes.into_iter().map(|it| it.name);
            let mut names = names.chain(hosts.into_iter().map(|it| it.name));
            names.all(|it| it.as_str() == "data")
        })
    });
}

/// Takes all room of a node's pool but so many MiB.
fn fill_but(node: &Node, left: u64) {
    let pool = node.client().pool(&name("pool")).unwrap();
    let taken = pool.used_bytes + pool.reserved_bytes;
    let size = (pool.usable_bytes - taken - left * MIB) / MIB;
    let size = format!("{size}MiB");
    node.answer(&[
        "volume", "create", "filler", "--pool", "pool", "--size", &size, "--thick",
    ]);
}

/// A pool that is full fails copies, and costs the replica nothing of what it is; once there is
/// room again, they go on.
#[test]
fn a_full_pool_on_the_other_node_fails_copies_and_nothing_else() {
    let [one, two] = [with_data(8), pair()];
    fill_but(&two, 2);
    replicate(&one, &two, &[]);
    wait_for_problem(&one, "space");
    assert_eq!(standing(&one).copied, None);
    assert!(
        two.client().volume(&name("data")).is_err(),
        "half a replica"
    );
    two.answer(&["volume", "delete", "filler", "--force"]);
    replicate(&one, &two, &[]);
    wait_for_copy(&one, &two);

    let mut allowed = vec![contents(&one, "data")];
    fill_but(&two, 2);
    for number in 0..8 {
        let part = (4 * number * MIB, Content::Bytes(noise(MIB, 50 + number)));
        write(&one, "data", vec![part]);
        allowed.push(contents(&one, "data"));
    }
    wait_for_problem(&one, "space");
    let found = replica(&two).expect("the last copy that was complete");
    let found = allowed.iter().position(|it| *it == found);
    assert!(
        found.is_some_and(|it| it < 8),
        "what it was after {found:?} writes"
    );
    two.answer(&["volume", "delete", "filler", "--force"]);
    replicate(&one, &two, &[]);
    wait_for_copy(&one, &two);
    assert_eq!(standing(&one).problem, None);
}

/// Data goes under TLS, unless somebody allows it in the clear; the node's certificate counts.
#[test]
fn data_goes_under_tls_or_where_that_is_allowed_in_the_clear() {
    let one = with_data(2);
    let two = Node::configured_secure("");
    let size = Size(256 * MIB);
    let drive = DriveSpec::Memory { size };
    two.client().add_drive(&name("drive"), &drive).unwrap();
    let pool = json!({ "level": "raid0", "drives": ["drive"] });
    let pool = serde_json::from_value(pool).unwrap();
    two.client().create_pool(&name("pool"), &pool).unwrap();
    let fingerprint = two.endpoints().certificate.clone().unwrap();
    let other = "0".repeat(64);
    replicate(&one, &two, &["--fingerprint", &other]);
    wait_for_problem(&one, "certificate");
    replicate(&one, &two, &["--fingerprint", &fingerprint]);
    wait_for_problem(&one, "in the clear only");
    replicate(
        &one,
        &two,
        &["--fingerprint", &fingerprint, "--in-the-clear"],
    );
    wait_for_copy(&one, &two);
    one.answer(&["volume", "unreplicate", "data"]);

    let three = Node::develop(&["--tls"]);
    replicate(&one, &three, &[]);
    let told = || format!("a copy: {:?}", standing(&one));
    wait_until_or_tell(told, || standing(&one).copied.is_some());
}
