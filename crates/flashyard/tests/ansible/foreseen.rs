//! Whether a check run of a role or a playbook predicts the run. Both are results of tasks, as the
//! call-back plug-in of these tests writes them.

use std::collections::BTreeSet;

use serde_json::{Value, json};

/// What a check run foresees of a machine without the program, and the tasks of a run that do it.
const FORESEEN: [(&str, &[&str]); 10] = [
    (
        "Foresee that the node is restarted",
        &["Stop the program", "Start the program"],
    ),
    (
        "Foresee that the package is installed",
        &["Install the package"],
    ),
    (
        "Foresee the settings on a machine",
        &["Write the settings file"],
    ),
    (
        "Foresee the rules on a machine",
        &[
            "Write the rules",
            "Load the rules",
            "Add the firewall to the service",
        ],
    ),
    (
        "Foresee the service on a machine",
        &["Start the service, now"],
    ),
    (
        "Foresee the certificate of a node",
        &["Write the certificate"],
    ),
    (
        "Foresee settings, drives and pools",
        &["Set what differs", "Add drives", "Make pools"],
    ),
    (
        "Foresee hosts and volumes of a node",
        &["Add hosts", "Make volumes"],
    ),
    (
        "Foresee volumes of nodes",
        &["Attach the volume", "Mount its file system"],
    ),
    (
        "Make the folders of the state",
        &["Make the folders of the state"],
    ),
];

/// Hosts and tasks that changed something.
pub fn changed(results: &[Value]) -> BTreeSet<(String, String)> {
    let word = |result: &Value, key: &str| result[key].as_str().expect("a text").to_owned();
    let changed = results.iter().filter(|it| it["changed"] == json!(true));
    changed
        .map(|it| (word(it, "host"), word(it, "task")))
        .collect()
}

/// Everything that was predicted is done, and everything that is done was predicted.
pub fn predicts(predicted: &BTreeSet<(String, String)>, done: &BTreeSet<(String, String)>) {
    let within = |task: &str, part: &&str| task.contains(part);
    for (host, task) in predicted {
        let foreseen = FORESEEN.iter().find(|(part, _)| within(task, part));
        let is_done = |other: &(String, String)| match foreseen {
            Some((_, parts)) => other.0 == *host && parts.iter().any(|it| within(&other.1, it)),
            None => other == &(host.clone(), task.clone()),
        };
        assert!(done.iter().any(is_done), "{host}: {task} was not done");
    }
    for (host, task) in done {
        let mut parts = FORESEEN.iter().filter(|(_, tasks)| {
            let tasks = tasks.iter();
            tasks.into_iter().any(|it| within(task, it))
        });
        let foreseen = parts.any(|(part, _)| {
            let mut there = predicted.iter();
            there.any(|other| other.0 == *host && within(&other.1, part))
        });
        let same = predicted.contains(&(host.clone(), task.clone()));
        assert!(same || foreseen, "{host}: {task} was not predicted");
    }
}
