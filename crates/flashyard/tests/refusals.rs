//! Bad input gets one error that names the field, what was found and what is allowed.

mod support;

use api::ErrorCode;
use client::ClientError;
use support::{Node, Refused, name, text};

const NQN: &str = "nqn.2014-08.org.nvmexpress:uuid:5c1a9b1e-3f0e-4a54-a7c0-8ea4e0f8a8aa";

#[test]
fn the_command_line_explains_what_it_refuses() {
    let node = Node::develop(&["--drives", "2"]);
    node.answer(&["host", "add", "h1", "--nqn", NQN]);
    let occupied = node.path().join("state.redb");
    let occupied = occupied.to_str().unwrap();
    let cases: &[Refused] = &[
        (
            &["volume", "create", "v", "--drive", "d9"],
            1,
            &["drive", "d9", "d0, d1"],
        ),
        (
            &["volume", "create", "v", "--drive", "d0"],
            1,
            &["drive", "used by volume demo"],
        ),
        (
            &["volume", "create", "demo", "--drive", "d1"],
            1,
            &["exists on drive d0", "4096"],
        ),
        (
            &["volume", "create", "v", "--drive", "d1", "--allow", "h9"],
            1,
            &["hosts[0]", "h9"],
        ),
        (
            &["volume", "create", "V", "--drive", "d1"],
            2,
            &["\"V\"", "a-z"],
        ),
        (&["volume", "create", "v"], 2, &["--drive"]),
        (&["volume", "delete", "v"], 1, &["no volume is named v"]),
        (
            &["volume", "allow", "demo", "h9"],
            1,
            &["host", "h9", "any"],
        ),
        (&["drive", "remove", "d0"], 1, &["used by volume demo"]),
        (
            &["drive", "add", "x", "relative.img"],
            1,
            &["path", "relative.img", "absolute"],
        ),
        (
            &["drive", "add", "x", "/no/such/dir/x.img"],
            1,
            &["path", "/no/such/dir/x.img"],
        ),
        (
            &["drive", "add", "x", "--memory", "100"],
            1,
            &["size", "100 bytes"],
        ),
        (
            &["drive", "add", "x", "--memory", "1GiB", "--null", "1GiB"],
            2,
            &["--null"],
        ),
        (&["drive", "add", "x"], 2, &["--memory", "--null"]),
        (
            &["drive", "add", "d0", "--memory", "1MiB"],
            1,
            &["drive d0 exists"],
        ),
        (&["drive", "add", "x", occupied], 1, &["path", occupied]),
        (
            &["host", "add", "any", "--nqn", NQN],
            1,
            &["name", "every host"],
        ),
        (&["host", "add", "h2", "--nqn", NQN], 1, &["nqn", "h1"]),
        (
            &["host", "add", "h2", "--nqn", "iqn.1994"],
            1,
            &["nqn", "iqn.1994"],
        ),
        (&["host", "remove", "h2"], 1, &["no host is named h2"]),
    ];
    node.refuses(cases);
    assert_eq!(node.client().drives().unwrap().items.len(), 2);
    assert_eq!(node.client().volumes().unwrap().items.len(), 1);
}

#[test]
fn a_host_in_use_is_not_removed() {
    let node = Node::develop(&["--drives", "1"]);
    node.answer(&["host", "add", "h1", "--nqn", NQN]);
    node.answer(&["volume", "allow", "demo", "h1"]);
    let refused = node.client().remove_host(&name("h1"));
    let Err(ClientError::Refused(body)) = refused else {
        panic!("{refused:?}")
    };
    assert_eq!(body.code, ErrorCode::InUse);
    node.answer(&["volume", "deny", "demo", "h1"]);
    node.answer(&["host", "remove", "h1"]);
}

#[test]
fn creating_again_with_the_same_specification_succeeds() {
    let node = Node::develop(&["--drives", "2"]);
    let create = ["volume", "create", "v", "--drive", "d1", "--output", "json"];
    let first = node.answer(&create);
    assert_eq!(node.answer(&create), first);
    let path = node.path().join("drives/d1.img");
    let path = path.canonicalize().unwrap();
    let again = [
        "drive",
        "add",
        "d1",
        path.to_str().unwrap(),
        "--size",
        "16MiB",
    ];
    node.answer(&again);
}

#[test]
fn volumes_of_one_subsystem_share_hosts_and_count_namespaces() {
    let node = Node::develop(&["--drives", "3"]);
    let create = |volume, drive, more: &[&str]| {
        let verb = [
            "volume",
            "create",
            volume,
            "--drive",
            drive,
            "--subsystem",
            "group",
        ];
        node.ask(&[&verb[..], more].concat())
    };
    assert!(create("a", "d1", &["--allow", "any"]).status.success());
    let refused = text(&create("b", "d2", &[]).stderr);
    assert!(
        refused.contains("hosts") && refused.contains("any"),
        "{refused}"
    );
    assert!(create("b", "d2", &["--allow", "any"]).status.success());
    let volumes = node.client().volumes().unwrap().items;
    assert_eq!((volumes[0].nsid, volumes[1].nsid), (1, 2));
    assert_eq!(volumes[0].nqn, volumes[1].nqn);
    node.answer(&["volume", "deny", "a", "any"]);
    assert_eq!(node.client().volume(&name("b")).unwrap().hosts, []);
    let refused = text(
        &node
            .ask(&["volume", "create", "group", "--drive", "d0"])
            .stderr,
    );
    assert!(
        refused.contains("d0") || refused.contains("subsystem"),
        "{refused}"
    );
}
