//! What a node remembers: drives, volumes and hosts come back with the same identity, also after
//! kill -9.

mod support;

use support::Node;

#[test]
fn everything_comes_back_after_kill_9() {
    let mut node = Node::develop(&["--drives", "3"]);
    let nqn = "nqn.2014-08.org.nvmexpress:uuid:5c1a9b1e-3f0e-4a54-a7c0-8ea4e0f8a8aa";
    node.answer(&["host", "add", "h1", "--nqn", nqn]);
    let create = [
        "volume",
        "create",
        "small",
        "--drive",
        "d1",
        "--block-size",
        "512",
    ];
    node.answer(&[&create[..], &["--allow", "h1"]].concat());
    node.answer(&["volume", "create", "hidden", "--drive", "d2"]);
    node.answer(&["volume", "delete", "hidden"]);
    node.answer(&["drive", "remove", "d2"]);
    let all = |node: &Node| {
        let client = node.client();
        let status = client.status().unwrap();
        let identity = (status.name, status.uuid);
        let objects = (client.drives().unwrap(), client.volumes().unwrap());
        (identity, objects, client.hosts().unwrap())
    };
    let before = all(&node);
    assert_eq!(before.1.0.items.len(), 2);
    assert_eq!(before.1.1.items.len(), 2);
    for _ in 0..2 {
        node.kill();
        node.start();
        assert_eq!(all(&node), before);
    }
    assert!(node.terminate().success(), "{}", node.log());
    node.start();
    assert_eq!(all(&node), before);
}

#[test]
fn a_node_keeps_the_name_its_volumes_know() {
    let mut node = Node::configured("node.name = \"first\"\n");
    node.answer(&["drive", "add", "m", "--memory", "1MiB"]);
    node.answer(&["volume", "create", "v", "--drive", "m"]);
    let before = node.client().volumes().unwrap();
    assert_eq!(before.items[0].nqn, "nqn.2026-11.example.flashyard:first:v");
    node.kill();
    let settings = node.path().join("flashyard.toml");
    let text = std::fs::read_to_string(&settings).unwrap();
    std::fs::write(&settings, text.replace("first", "second")).unwrap();
    node.start();
    assert_eq!(node.client().volumes().unwrap(), before);
    assert!(
        node.answer(&["event", "list"])
            .contains("the first name stays")
    );
}
