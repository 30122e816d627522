//! `serve --dev DIR`: one command to a served volume, and what it says.

mod support;

use support::{Node, flashyard, text};

#[test]
fn the_first_start_serves_a_volume_and_says_how_to_connect() {
    let node = Node::develop(&[]);
    let drives = node.client().drives().unwrap().items;
    assert_eq!(drives.len(), 6);
    assert!(
        drives
            .iter()
            .all(|drive| drive.capacity_bytes == 16 << 20 && drive.persistent)
    );
    let volumes = node.client().volumes().unwrap().items;
    assert_eq!(volumes.len(), 1);
    assert_eq!(volumes[0].name.as_str(), "demo");
    assert_eq!(volumes[0].hosts, [support::name("any")]);

    let said = node.log();
    let port = node.endpoints().nvme[0].port().to_string();
    for part in ["nvme discover", "nvme connect-all", &port, &volumes[0].nqn] {
        assert!(said.contains(part), "{said} lacks {part}");
    }
}

#[test]
fn a_second_start_leaves_everything_as_it_is() {
    let mut node = Node::develop(&["--drives", "2"]);
    node.answer(&["volume", "delete", "demo"]);
    node.answer(&["drive", "remove", "d1"]);
    node.kill();
    node.start();
    assert_eq!(node.client().volumes().unwrap().items, []);
    assert_eq!(node.client().drives().unwrap().items.len(), 1);
}

#[test]
fn a_second_node_in_the_same_directory_is_refused() {
    let node = Node::develop(&["--drives", "1"]);
    let path = node.path().to_str().unwrap();
    let ports = ["--listen", "127.0.0.1:0", "--api-listen", "127.0.0.1:0"];
    let second = flashyard(&[&["serve", "--dev", path][..], &ports].concat());
    assert_eq!(second.status.code(), Some(1));
    assert!(
        text(&second.stderr).contains("in use by another node"),
        "{second:?}"
    );
}
