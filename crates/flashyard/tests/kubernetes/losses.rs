//! Blocks that are lost: the health of their volume says so, and how many.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use csi::proto::volume_capability::access_mode::Mode;
use csi::proto::*;
use csi_calls::{Claim, capability, map};

use crate::cluster::Cluster;
use crate::support::name;

const BLOCK: usize = 4096;

/// Overwrites every block of a drive that is `wanted`; returns how many there were.
fn spoil(drive: &Path, wanted: &[u8]) -> usize {
    let file = File::options().read(true).write(true).open(drive).unwrap();
    let blocks = file.metadata().unwrap().len() / BLOCK as u64;
    let mut block = vec![0; BLOCK];
    let mut spoiled = 0;
    for at in (0..blocks).map(|block| block * BLOCK as u64) {
        file.read_exact_at(&mut block, at).unwrap();
        if block == wanted {
            file.write_all_at(&[0x5a; BLOCK], at).unwrap();
            spoiled += 1;
        }
    }
    file.sync_all().unwrap();
    spoiled
}

/// Both copies of three blocks of a volume are overwritten behind the node's back. After a scrub
/// the volume tells of three lost blocks, by an event and in its health, also when the node was
/// started anew; no longer once they were written again and the pool was checked again.
#[test]
fn lost_blocks_are_in_the_health_of_their_volume() {
    let mut cluster = Cluster::of(1);
    let plugin = cluster.plugin("host");
    let caller = plugin.caller();
    let node = &cluster.nodes[0];
    let drives = ["m0", "m1"].map(|drive| node.path().join(format!("{drive}.img")));
    for (drive, path) in ["m0", "m1"].iter().zip(&drives) {
        let path = path.to_str().unwrap();
        node.answer(&["drive", "add", drive, path, "--size", "256MiB"]);
    }
    node.answer(&[
        "pool", "create", "mirror", "--level", "raid1", "--drives", "m0,m1",
    ]);
    let raw = capability(Mode::SingleNodeWriter, None);
    let mut claim = Claim::new("pvc", 16, raw, cluster.directory.path());
    claim.create.parameters = map(&[("pool", "mirror")]);
    claim.bring(&caller, "host").unwrap();
    let device = File::options().write(true).open(&claim.target).unwrap();
    let kept = [0x11; BLOCK];
    let spoiled: Vec<u8> = (0..BLOCK).map(|at| (at % 251) as u8).collect();
    let write = |block: u64, content: &[u8]| {
        device.write_all_at(content, block * BLOCK as u64).unwrap();
        device.sync_all().unwrap();
    };
    for block in 0..64 {
        write(block, if block % 30 == 1 { &spoiled } else { &kept });
    }
    let health = || {
        let asked = caller.controller_get_volume_health(ControllerGetVolumeHealthRequest {
            volume_id: claim.id(),
            ..ControllerGetVolumeHealthRequest::default()
        });
        asked.unwrap().volume_health.unwrap().health_statuses
    };
    let scrub = |cluster: &Cluster| {
        cluster.nodes[0]
            .ask(&["pool", "scrub", "mirror", "--wait"])
            .status
            .success()
    };
    assert!(scrub(&cluster) && health().is_empty());
    for drive in &drives {
        assert_eq!(spoil(drive, &spoiled), 3, "{}", drive.display());
    }
    assert!(!scrub(&cluster), "the job says that blocks are lost");
    let pvc = name("pvc");
    let told = |cluster: &Cluster| {
        let found = health();
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].status(), VolumeHealthErrorType::DataLoss);
        assert!(found[0].message.starts_with("3 blocks"), "{found:?}");
        let client = cluster.nodes[0].client();
        assert_eq!(client.volume(&pvc).unwrap().lost_blocks, 3);
        let shown = cluster.nodes[0].answer(&["volume", "show", "pvc"]);
        assert!(shown.contains("3 of 4 KiB"), "{shown}");
    };
    told(&cluster);
    let events = cluster.nodes[0].answer(&["event", "list"]);
    let event = events
        .lines()
        .find(|line| line.contains("volume/pvc") && line.contains("lost"));
    assert!(
        event.is_some_and(|event| event.contains("3 blocks")),
        "{events}"
    );
    cluster.nodes[0].kill();
    cluster.nodes[0].start();
    told(&cluster);
    for block in (1..64).step_by(30) {
        write(block, &kept);
    }
    assert!(scrub(&cluster) && health().is_empty());
    drop(device);
    claim.take(&caller, "host").unwrap();
}
