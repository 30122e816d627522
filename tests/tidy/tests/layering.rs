//! Which crate may depend on which, held in one table.

use std::collections::{BTreeMap, BTreeSet};

use cargo_metadata::{DependencyKind, Metadata, MetadataCommand};

/// Each crate and the crates it may stand on; what those stand on is allowed too. The order is the
/// order of the layers: a crate names only crates above it in this list.
const ARROWS: [(&str, &[&str]); 27] = [
    ("block", &[]),
    ("files", &[]),
    ("reactor", &["block"]),
    ("nvme", &["block"]),
    ("parity", &[]),
    ("qos", &[]),
    ("ssd", &[]),
    ("drive", &["block", "files", "reactor", "nvme", "ssd"]),
    ("pool", &["drive", "parity"]),
    ("rdma", &["block", "reactor"]),
    ("access", &[]),
    ("tls", &["access", "block", "reactor"]),
    (
        "nvme_target",
        &["nvme", "access", "block", "qos", "rdma", "reactor", "tls"],
    ),
    ("initiator", &["nvme", "access", "rdma", "reactor", "tls"]),
    ("node", &["nvme_target", "initiator", "pool", "drive"]),
    ("api", &[]),
    ("client", &["api", "files"]),
    ("server", &["node", "api", "files"]),
    ("csi", &["access", "client"]),
    (
        "lab",
        &["initiator", "pool", "drive", "ssd", "parity", "files"],
    ),
    ("sim", &["node", "initiator"]),
    ("stream", &[]),
    (
        "flashyard",
        &["server", "client", "csi", "lab", "rdma", "sim", "stream"],
    ),
    (
        "fuzz_bodies",
        &["nvme_target", "initiator", "sim", "stream"],
    ),
    ("bench", &[]),
    ("fickle", &[]),
    ("tidy", &[]),
];

/// Test crates drive whole processes and may look at anything; examples show crates of any layer.
const FREE: [&str; 3] = ["csi_calls", "examples", "vm"];

/// External crates that only some of our crates may use.
const CONFINED: [(&str, &[&str]); 4] = [
    ("s2n-tls", &["tls"]),
    ("tokio", &["server", "csi", "csi_calls", "flashyard"]),
    ("io-uring", &["reactor"]),
    ("async-trait", &[]),
];

fn metadata() -> Metadata {
    let manifest = tidy::root().join("Cargo.toml");
    MetadataCommand::new()
        .manifest_path(manifest)
        .no_deps()
        .exec()
        .expect("cargo metadata runs")
}

/// Crate name -> names of what it depends on outside its tests.
fn dependencies() -> BTreeMap<String, BTreeSet<String>> {
    let packages = metadata().packages.into_iter();
    let graph = packages.map(|package| {
        let used = package.dependencies.iter();
        let used = used.filter(|dependency| dependency.kind != DependencyKind::Development);
        (
            package.name.to_string(),
            used.map(|dependency| dependency.name.clone()).collect(),
        )
    });
    graph.collect()
}

fn allowed(name: &str) -> BTreeSet<&'static str> {
    let mut found = BTreeSet::new();
    let mut next = vec![name];
    while let Some(name) = next.pop() {
        let row = ARROWS.iter().find(|(row, _)| *row == name);
        for below in row.map_or(&[] as &[&str], |(_, below)| below) {
            if found.insert(*below) {
                next.push(below);
            }
        }
    }
    found
}

#[test]
fn the_table_points_one_way() {
    for (index, (name, below)) in ARROWS.iter().enumerate() {
        for other in *below {
            let earlier = ARROWS[..index].iter().any(|(row, _)| row == other);
            assert!(
                earlier,
                "{name} -> {other}: {other} must stand before {name} in the table"
            );
        }
    }
}

#[test]
fn every_crate_depends_only_on_crates_below_it() {
    let graph = dependencies();
    for (name, used) in graph
        .iter()
        .filter(|(name, _)| !FREE.contains(&name.as_str()))
    {
        assert!(
            ARROWS.iter().any(|(row, _)| row == name),
            "crate `{name}` has no row in the table of allowed arrows"
        );
        let allowed = allowed(name);
        for other in used.iter().filter(|other| graph.contains_key(*other)) {
            assert!(
                allowed.contains(other.as_str()),
                "{name} -> {other} is not an allowed arrow"
            );
        }
    }
}

#[test]
fn confined_dependencies_stay_in_their_rooms() {
    for (name, used) in dependencies() {
        for (external, rooms) in CONFINED
            .iter()
            .filter(|(external, _)| used.contains(*external))
        {
            assert!(
                rooms.contains(&name.as_str()),
                "{name} must not use {external}"
            );
        }
    }
}

#[test]
fn every_external_dependency_has_its_reason_written_down() {
    let page = tidy::root().join("docs/decisions/dependencies.md");
    let page = std::fs::read_to_string(page).expect("the page of dependencies exists");
    let rows: BTreeSet<&str> = page
        .lines()
        .filter_map(|line| line.strip_prefix("| "))
        .filter_map(|line| line.split(" | ").next())
        .flat_map(|names| names.split(", "))
        .collect();
    let packages = metadata().packages;
    let ours: BTreeSet<&str> = packages
        .iter()
        .map(|package| package.name.as_str())
        .collect();
    for package in &packages {
        for used in package
            .dependencies
            .iter()
            .map(|dependency| dependency.name.as_str())
        {
            assert!(
                ours.contains(used) || rows.contains(used),
                "{} uses {used}, which has no line in docs/decisions/dependencies.md",
                package.name
            );
        }
    }
}
