//! Snapshots of two pools with one name, as an import may bring them: none is ever taken for the
//! other, wherever a snapshot is named.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::io::{Read, Write};
use std::net::TcpStream;

use api::{ErrorCode, Extents, ExtentsQuery, List, Snapshot, SnapshotName, VolumeSpec};
use client::ClientError;
use support::{Node, Refused, name};

/// Pools `a` and `b`, with volumes `va` and `vb`, of 8 and 12 MiB, and a snapshot `monday` of each.
fn two_mondays() -> Node {
    let node = Node::configured("[pools]\ndrive_wait_seconds = 0\n");
    for (pool, size) in [("a", "8MiB"), ("b", "12MiB")] {
        let drive = format!("drive-{pool}");
        let path = node.path().join(format!("{drive}.img"));
        let path = path.to_str().unwrap();
        node.answer(&["drive", "add", &drive, path, "--size", "32MiB"]);
        let create = ["pool", "create", pool, "--level", "raid0"];
        node.answer(&[&create[..], &["--drives", &drive]].concat());
        let volume = format!("v{pool}");
        node.answer(&["volume", "create", &volume, "--pool", pool, "--size", size]);
        node.answer(&["volume", "snapshot", &volume, "monday"]);
        if pool == "a" {
            // Names are looked for in the pools that are here.
            node.answer(&["pool", "export", pool]);
        }
    }
    node.answer(&["pool", "import", "a"]);
    node
}

/// A page of one snapshot, behind `after`.
fn page(node: &Node, after: Option<&str>) -> List<Snapshot> {
    let after = after.map_or(String::new(), |after| format!("&after={after}"));
    let address = node.endpoints().api.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    let token = node.admin_token();
    write!(
        stream,
        "GET /v1/snapshots?limit=1{after} HTTP/1.1\r\nHost: n\r\nConnection: close\r\n\
         Authorization: Bearer {token}\r\n\r\n"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    serde_json::from_str(body).unwrap()
}

fn left(node: &Node) -> Vec<String> {
    let snapshots = node.client().snapshots().unwrap().items;
    let said = snapshots
        .iter()
        .map(|found| format!("{}/{}", found.pool, found.name));
    said.collect()
}

#[test]
fn a_name_that_two_pools_have_is_refused_with_both_and_a_pool_before_it_decides() {
    let node = two_mondays();
    let both: &[&str] = &["monday", "a/monday", "b/monday"];
    let cases: &[Refused] = &[
        (&["snapshot", "delete", "monday"], 1, both),
        (&["volume", "clone", "monday", "c"], 1, both),
        (&["volume", "snapshot", "va", "monday"], 0, &[]),
        (
            &["volume", "rollback", "va", "b/monday"],
            1,
            &["b/monday is in pool b", "va in a"],
        ),
        (
            &["snapshot", "delete", "c/monday"],
            1,
            &["no snapshot", "c/monday"],
        ),
        (&["snapshot", "delete", "a/b/monday"], 2, &["POOL/NAME"]),
    ];
    node.refuses(cases);
    assert_eq!(left(&node), ["a/monday", "b/monday"]);

    // A volume's own pool is meant where there can be no other.
    node.answer(&["volume", "rollback", "vb", "monday"]);
    node.answer(&["volume", "rollback", "va", "a/monday"]);
    node.answer(&["volume", "clone", "b/monday", "c"]);
    let clone = node.client().volume(&name("c")).unwrap();
    assert_eq!(
        (clone.pool, clone.capacity_bytes),
        (Some(name("b")), 12 << 20)
    );
    node.answer(&["snapshot", "delete", "b/monday"]);
    assert_eq!(left(&node), ["a/monday"]);
    // One that is left needs no pool.
    node.answer(&["volume", "clone", "monday", "d"]);
    assert_eq!(
        node.client().volume(&name("d")).unwrap().pool,
        Some(name("a"))
    );
    node.answer(&["snapshot", "delete", "monday"]);
    assert_eq!(left(&node), [""; 0]);
}

#[test]
fn the_rest_api_names_them_as_well() {
    let node = two_mondays();
    let client = node.client();
    let ambiguous = |refused: Result<(), ClientError>| {
        let Err(ClientError::Refused(error)) = refused else {
            panic!("{refused:?}");
        };
        assert_eq!(error.code, ErrorCode::InvalidArgument);
        assert!(error.message.contains("a/monday, b/monday"), "{error}");
    };
    let monday: SnapshotName = "monday".parse().unwrap();
    let of_b: SnapshotName = "b/monday".parse().unwrap();
    ambiguous(client.snapshot(&monday).map(drop));
    ambiguous(client.delete_snapshot(&monday));
    let clone = |snapshot: &SnapshotName| VolumeSpec {
        snapshot: Some(snapshot.clone()),
        ..VolumeSpec::default()
    };
    ambiguous(client.create_volume(&name("c"), &clone(&monday)).map(drop));
    assert_eq!(client.snapshot(&of_b).unwrap().pool, name("b"));
    let made = client.create_volume(&name("c"), &clone(&of_b)).unwrap();
    assert_eq!(made.pool, Some(name("b")));
    // Said again, in either way, it is the same volume.
    assert_eq!(
        client.create_volume(&name("c"), &clone(&of_b)).unwrap(),
        made
    );
    let in_pool = VolumeSpec {
        pool: Some(name("b")),
        ..clone(&monday)
    };
    assert_eq!(client.create_volume(&name("c"), &in_pool).unwrap(), made);
    // Lists have both, also where a page ends between them.
    let first = page(&node, None);
    let second = page(&node, first.next.as_deref());
    let pools = [&first.items[0].pool, &second.items[0].pool];
    assert_eq!((pools, second.next), ([&name("a"), &name("b")], None));
    client.delete_snapshot(&of_b).unwrap();
    assert_eq!(client.snapshot(&monday).unwrap().pool, name("a"));
}

/// What a snapshot is compared with is in its pool; a wrong one is refused by the field's name.
#[test]
fn extents_are_since_a_snapshot_of_the_same_pool() {
    let node = two_mondays();
    let extents = |rest: &[&'static str]| [&["snapshot", "extents"][..], rest].concat();
    let (other, none) = (
        extents(&["a/monday", "--since", "b/monday"]),
        extents(&["a/monday", "--since", "sunday"]),
    );
    let cases: &[Refused] = &[
        (
            &other,
            1,
            &["monday is in pool b", "a snapshot of that pool"],
        ),
        (&none, 1, &["sunday"]),
    ];
    node.refuses(cases);
    let client = node.client();
    let of_a: SnapshotName = "a/monday".parse().unwrap();
    let since = |since: &str| ExtentsQuery {
        since: Some(since.parse().unwrap()),
        ..ExtentsQuery::default()
    };
    for wrong in ["b/monday", "sunday", "a/sunday"] {
        let Err(ClientError::Refused(error)) = client.snapshot_extents(&of_a, &since(wrong)) else {
            panic!("{wrong} is taken");
        };
        assert_eq!(error.field.as_deref(), Some("since"), "{error}");
    }
    // Without a pool it is the one of the snapshot's pool.
    let found = client.snapshot_extents(&of_a, &since("monday")).unwrap();
    let same = Extents {
        bytes: 8 << 20,
        extents: Vec::new(),
        next: None,
    };
    assert_eq!(found, same);
}
