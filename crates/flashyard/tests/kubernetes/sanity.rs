//! csi-sanity, the interface's own suite, over a real node: every spec, for file systems and for
//! raw block devices.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

use crate::cluster::Cluster;
use crate::support::text;

/// What csi-sanity says at its end.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    passed: u32,
    failed: u32,
    pending: u32,
    skipped: u32,
}

/// Specs that are for drivers with what this one does not have: four for a limit of volumes a
/// host, topology, and read-only publishing.
const ALL: Outcome = Outcome {
    passed: 99,
    failed: 0,
    pending: 1,
    skipped: 3,
};

fn outcome(said: &str) -> Outcome {
    let line = said.lines().rev().find(|line| line.contains(" Passed"));
    let line = line.unwrap_or_else(|| panic!("csi-sanity said:\n{said}"));
    let plain: String = line.chars().filter(char::is_ascii).collect();
    let words: Vec<&str> = plain.split_whitespace().collect();
    let mut counts = BTreeMap::new();
    for pair in words.windows(2) {
        let digits: String = pair[0].chars().filter(char::is_ascii_digit).collect();
        for word in ["Passed", "Failed", "Pending", "Skipped"] {
            if let (true, Ok(number)) = (pair[1].starts_with(word), digits.parse::<u32>()) {
                counts.insert(word, number);
            }
        }
    }
    Outcome {
        passed: counts["Passed"],
        failed: counts["Failed"],
        pending: counts["Pending"],
        skipped: counts["Skipped"],
    }
}

/// Runs the suite with volumes of `mib`, of a class with these parameters.
fn run(access: &str, mib: u64, parameters: &str) {
    let cluster = Cluster::of(1);
    let plugin = cluster.plugin("worker");
    let tools = PathBuf::from(std::env::var_os("FLASHYARD_LAB_TOOLS").unwrap());
    let (class, changes) = (cluster.path("class.yaml"), cluster.path("changes.yaml"));
    std::fs::write(&class, parameters).unwrap();
    std::fs::write(&changes, "maxIOPS: \"5000\"\nmaxBandwidth: 100MiB\n").unwrap();
    let bytes = |mib: u64| (mib << 20).to_string();
    let output = Command::new(tools.join("csi-sanity"))
        .args(["--csi.endpoint", &plugin.endpoint()])
        .args(["--csi.testvolumeaccesstype", access])
        .args(["--csi.testvolumesize", &bytes(mib)])
        .args(["--csi.testvolumeexpandsize", &bytes(2 * mib)])
        .arg("--csi.testvolumeparameters")
        .arg(&class)
        .arg("--csi.testvolumemutableparameters")
        .arg(&changes)
        .arg("--csi.mountdir")
        .arg(cluster.path("mount"))
        .arg("--csi.stagingdir")
        .arg(cluster.path("staging"))
        .args(["--ginkgo.no-color", "--ginkgo.v"])
        .output()
        .unwrap();
    let said = text(&output.stdout);
    if let Some(folder) = std::env::var_os("FLASHYARD_CSI_REPORTS") {
        std::fs::write(PathBuf::from(folder).join(format!("{access}-{mib}")), &said).unwrap();
    }
    assert_eq!(
        outcome(&said),
        ALL,
        "{said}\nthe driver said:\n{}",
        plugin.log()
    );
    plugin.assert_nothing_is_attached();
    let client = cluster.nodes[0].client();
    assert!(client.volumes().unwrap().items.is_empty());
    assert!(client.snapshots().unwrap().items.is_empty());
}

#[test]
fn every_spec_holds_for_ext4() {
    run("mount", 64, "fsType: ext4\nhostAuth: dhchap\n");
}

#[test]
fn every_spec_holds_for_xfs() {
    run("mount", 320, "fsType: xfs\nqueues: \"2\"\n");
}

#[test]
fn every_spec_holds_for_raw_blocks() {
    run("block", 16, "pool: pool\nblockSize: \"512\"\n");
}
