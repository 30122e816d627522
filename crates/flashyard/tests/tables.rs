//! Answers of a real node as people see them, as snapshots; what differs between runs is masked.

mod support;

use support::{Node, name};

const NQN: &str = "nqn.2014-08.org.nvmexpress:uuid:5c1a9b1e-3f0e-4a54-a7c0-8ea4e0f8a8aa";

fn node() -> Node {
    let node = Node::configured("[node]\nname = \"node-1\"\n");
    node.answer(&["drive", "add", "fast", "--memory", "64MiB"]);
    node.answer(&["drive", "add", "nothing", "--null", "1TiB"]);
    node.answer(&["host", "add", "db-1", "--nqn", NQN]);
    let create = [
        "volume",
        "create",
        "scratch",
        "--drive",
        "fast",
        "--block-size",
        "512",
    ];
    node.answer(&[&create[..], &["--allow", "db-1"]].concat());
    node
}

#[test]
fn tables_are_as_documented() {
    let node = node();
    let status = node.client().status().unwrap();
    let volume = node.client().volume(&name("scratch")).unwrap();
    let mask = |text: String| {
        text.replace(&status.uuid.to_string(), "UUID-OF-THE-NODE")
            .replace(&volume.uuid.to_string(), "UUID-OF-THE-VOLUME")
            .replace(&status.started, "TIME")
            .replace(&status.version, "VERSION")
            .replace(&node.endpoints().nvme[0].to_string(), "ADDRESS")
            .replace(
                &format!("-s {}", node.endpoints().nvme[0].port()),
                "-s PORT",
            )
    };
    let verbs: &[&[&str]] = &[
        &["status"],
        &["drive", "list"],
        &["drive", "show", "fast"],
        &["volume", "list"],
        &["volume", "show", "scratch"],
        &["host", "list"],
        &["session", "list"],
        &["volume", "list", "--output", "json"],
        &["drive", "list", "--output", "json"],
    ];
    for verb in verbs {
        let words: Vec<&str> = verb
            .iter()
            .map(|word| word.trim_start_matches("--"))
            .collect();
        insta::assert_snapshot!(words.join("_"), mask(node.answer(verb)));
    }
}
