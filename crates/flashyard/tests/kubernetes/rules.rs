//! What csi-sanity does not ask: who gets a volume, what clones and snapshots hold, growth under a
//! workload, limits that change, several nodes, and mistakes by name.

use access::Secret;
use csi::proto::volume_capability::access_mode::Mode;
use csi::proto::volume_content_source::{Type, VolumeSource};
use csi::proto::*;
use csi_calls::{Claim, capability, map, nqn};
use initiator::{ConnectOptions, Controller, Credentials};
use reactor::{Reactor, ReactorConfig};
use tonic::Code;

use crate::cluster::{Cluster, write_file};
use crate::support::{name, tool, wait_until};

fn from_volume(claim: &Claim) -> Option<VolumeContentSource> {
    Some(VolumeContentSource {
        r#type: Some(Type::Volume(VolumeSource {
            volume_id: claim.id(),
        })),
    })
}

/// One host has a volume at a time; unpublishing is what lets the next one have it, and from then
/// on the first one's writes do not arrive.
#[test]
fn one_host_has_a_volume_and_unpublishing_is_the_fence() {
    let cluster = Cluster::of(1);
    let (first, second) = (cluster.plugin("first"), cluster.plugin("second"));
    let (at_first, at_second) = (first.caller(), second.caller());
    let single = capability(Mode::SingleNodeWriter, None);
    let mut claim = Claim::new("pvc-fence", 16, single, cluster.directory.path());
    claim.bring(&at_first, "first").unwrap();
    let refused = claim.clone().publish_to(&at_first, "second").unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
    assert!(refused.message().contains(&nqn("first")), "{refused}");
    let refused = claim.delete(&at_first).unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);

    // The host is still connected, as one that nobody reaches any more.
    let client = cluster.nodes[0].client();
    let connected = || client.sessions().unwrap().items.len();
    wait_until("the first host is connected", || connected() > 0);
    claim.unpublish_from(&at_first, "first").unwrap();
    assert_eq!(connected(), 0);
    let device = first.attached();
    assert_eq!(device.len(), 1);
    let mut other = claim.clone();
    other.target = cluster.path("second.target");
    other.publish_to(&at_second, "second").unwrap();
    other.stage(&at_second).unwrap();
    other.node_publish(&at_second, false).unwrap();
    let target = other.target.to_str().unwrap();
    let written = format!("of={target}");
    tool(
        "dd",
        &[
            "if=/dev/zero",
            &written,
            "bs=4096",
            "count=1",
            "oflag=direct",
        ],
    );
    // Its secret is its own.
    let secrets = [&claim, &other].map(|one| one.published["hostSecret"].clone());
    assert_ne!(secrets[0], secrets[1]);
    other.node_unpublish(&at_second).unwrap();
    other.unstage(&at_second).unwrap();
    other.unpublish_from(&at_second, "second").unwrap();
    claim.node_unpublish(&at_first).unwrap();
    claim.unstage(&at_first).unwrap();
    claim.delete(&at_first).unwrap();
}

/// Volumes that share a subsystem, a clone among them, are each for their own host: neither sees
/// the other's, and unpublishing one leaves the connection and the other volume as they are.
#[test]
fn volumes_that_share_a_subsystem_are_published_one_by_one() {
    let cluster = Cluster::of(1);
    let plugin = cluster.plugin("first");
    let caller = plugin.caller();
    let single = capability(Mode::SingleNodeWriter, None);
    let claim = |called: &str| {
        let single = single.clone();
        let mut claim = Claim::new(called, 16, single, cluster.directory.path());
        claim.create.parameters = map(&[("sharing", "shared")]);
        claim
    };
    let (mut one, mut two, mut clone) = (claim("pvc-one"), claim("pvc-two"), claim("pvc-clone"));
    for claim in [&mut one, &mut two] {
        claim.created(&caller).unwrap();
        claim.publish_to(&caller, "first").unwrap();
    }
    clone.create.volume_content_source = from_volume(&one);
    clone.created(&caller).unwrap();
    clone.publish_to(&caller, "second").unwrap();
    let subsystem = one.published["nqn"].clone();
    for other in [&two, &clone] {
        assert_eq!(other.published["nqn"], subsystem);
    }
    let address = cluster.nodes[0].endpoints().nvme[0];
    let connect = async |host: &str, published: &Claim| {
        let secret: Secret = published.published["hostSecret"].parse().unwrap();
        let options = ConnectOptions {
            credentials: Some(Credentials::new(secret, None)),
            ..ConnectOptions::new(nqn(host))
        };
        let connected = Controller::connect(address, &subsystem, options).await;
        connected.unwrap()
    };
    let reactor = Reactor::io_uring(ReactorConfig::default()).unwrap();
    reactor.run(async {
        let first = connect("first", &one).await;
        let second = connect("second", &clone).await;
        assert_eq!(first.active_namespaces().await.unwrap(), [1, 2]);
        assert_eq!(second.active_namespaces().await.unwrap(), [3]);
        two.unpublish_from(&caller, "first").unwrap();
        assert_eq!(first.active_namespaces().await.unwrap(), [1]);
        two.publish_to(&caller, "second").unwrap();
        assert_eq!(second.active_namespaces().await.unwrap(), [2, 3]);
        let client = cluster.nodes[0].client();
        assert_eq!(client.sessions().unwrap().items.len(), 2);
    });
    for claim in [&mut one, &mut two, &mut clone] {
        claim.unpublish_from(&caller, "first").unwrap();
        claim.unpublish_from(&caller, "second").unwrap();
        claim.delete(&caller).unwrap();
    }
}

/// Raw blocks go to several hosts, as live migration wants; file systems do not.
#[test]
fn several_hosts_have_raw_blocks_and_no_file_system() {
    let cluster = Cluster::of(1);
    let plugin = cluster.plugin("first");
    let caller = plugin.caller();
    let shared = capability(Mode::MultiNodeMultiWriter, None);
    let mut claim = Claim::new("pvc-shared", 16, shared, cluster.directory.path());
    claim.created(&caller).unwrap();
    for host in ["first", "second"] {
        claim.publish_to(&caller, host).unwrap();
    }
    let listed = caller.list_volumes(ListVolumesRequest::default()).unwrap();
    let status = listed.entries[0].status.as_ref().unwrap();
    assert_eq!(status.published_node_ids, ["first", "second"].map(nqn));
    for host in ["first", "second"] {
        claim.unpublish_from(&caller, host).unwrap();
    }
    claim.delete(&caller).unwrap();
    let mounted = capability(Mode::MultiNodeMultiWriter, Some("ext4"));
    let mut claim = Claim::new("pvc-mounted", 16, mounted, cluster.directory.path());
    let refused = claim.created(&caller).unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
    assert!(refused.message().contains("raw block"), "{refused}");
}

/// A snapshot and a clone hold what was synced; XFS clones are mounted beside their origin; a
/// larger clone's file system fills it; a workload's volume grows under it.
#[test]
fn clones_hold_what_was_written_and_grow() {
    let cluster = Cluster::of(1);
    let plugin = cluster.plugin("host");
    let caller = plugin.caller();
    // ext4 grows online only where the test has CAP_SYS_RESOURCE.
    for (kind, restored_mib) in [("xfs", 400), ("ext4", 320)] {
        let use_of = capability(Mode::SingleNodeWriter, Some(kind));
        let directory = cluster.directory.path();
        let mut origin = Claim::new(&format!("origin-{kind}"), 320, use_of.clone(), directory);
        origin.bring(&caller, "host").unwrap();
        write_file(&origin.target, "before", b"the snapshot");
        let snapshot = origin.snapshot(&caller, "snapshot-1").unwrap();
        assert_eq!(origin.snapshot(&caller, "snapshot-1").unwrap(), snapshot);
        write_file(&origin.target, "after", b"the snapshot");

        let restored = format!("restored-{kind}");
        let mut restored = Claim::new(&restored, restored_mib, use_of.clone(), directory);
        restored.restore_from(&snapshot.snapshot_id);
        restored.bring(&caller, "host").unwrap();
        let mut clone = Claim::new(&format!("clone-{kind}"), 320, use_of, directory);
        clone.create.volume_content_source = from_volume(&origin);
        clone.bring(&caller, "host").unwrap();
        clone.created(&caller).unwrap();
        for (claim, has) in [(&restored, false), (&clone, true)] {
            assert_eq!(
                std::fs::read(claim.target.join("before")).unwrap(),
                b"the snapshot"
            );
            assert_eq!(claim.target.join("after").exists(), has, "{kind}");
        }
        let total = |claim: &Claim| claim.file_system_bytes(&caller).unwrap();
        let before = total(&origin);
        if kind == "xfs" {
            assert!(total(&restored) > before);
            origin.expand(&caller, 480).unwrap();
            origin.node_expand(&caller, 480).unwrap();
            assert!(total(&origin) > total(&restored));
        }
        // Only what the driver made is left.
        let client = cluster.nodes[0].client();
        assert_eq!(client.snapshots().unwrap().items.len(), 1);
        for claim in [&clone, &restored, &origin] {
            claim.take(&caller, "host").unwrap();
        }
        let gone = DeleteSnapshotRequest {
            snapshot_id: snapshot.snapshot_id,
            ..DeleteSnapshotRequest::default()
        };
        caller.delete_snapshot(gone).unwrap();
    }
    plugin.assert_nothing_is_attached();
}

/// Volumes are made where there is room, found whatever they are called, and change their limits
/// while they are used.
#[test]
fn several_nodes_are_one_driver() {
    let cluster = Cluster::of(2);
    let plugin = cluster.plugin("host");
    let caller = plugin.caller();
    let directory = cluster.directory.path();
    let mut claims = Vec::new();
    for index in 0..2 {
        let single = capability(Mode::SingleNodeWriter, None);
        let mut claim = Claim::new(&format!("pvc-{index}"), 700, single, directory);
        claim.create.parameters = map(&[("provisioningType", "THICK"), ("maxIOPSPerGB", "500")]);
        claim.created(&caller).unwrap();
        claims.push(claim);
    }
    for node in &cluster.nodes {
        let volumes = node.client().volumes().unwrap().items;
        assert_eq!(volumes.len(), 1, "{volumes:?}");
        let volume = &volumes[0];
        assert_eq!(volume.limits.total.iops_per_gib, Some(500));
        node.answer(&["volume", "rename", volume.name.as_str(), "renamed"]);
    }
    for claim in &claims {
        let changed = caller.controller_modify_volume(ControllerModifyVolumeRequest {
            volume_id: claim.id(),
            mutable_parameters: map(&[("maxBandwidth", "100MiB"), ("minIOPS", "1000")]),
            ..ControllerModifyVolumeRequest::default()
        });
        changed.unwrap();
    }
    for node in &cluster.nodes {
        let limits = node.client().volume(&name("renamed")).unwrap().limits;
        assert_eq!(limits.total.bytes_per_second, Some(100 << 20));
        assert_eq!(
            (limits.total.iops_per_gib, limits.minimum_iops),
            (Some(500), Some(1000))
        );
    }
    // Volumes of two nodes have no instant in common.
    let ids: Vec<String> = claims.iter().map(Claim::id).collect();
    let refused = caller.create_volume_group_snapshot(CreateVolumeGroupSnapshotRequest {
        name: "group".to_owned(),
        source_volume_ids: ids,
        ..CreateVolumeGroupSnapshotRequest::default()
    });
    assert_eq!(refused.unwrap_err().code(), Code::InvalidArgument);
    for claim in &claims {
        claim.delete(&caller).unwrap();
    }
}

/// A group's snapshots are of one instant, known by the group again, and go with it.
#[test]
fn a_group_is_one_instant() {
    let cluster = Cluster::of(1);
    let plugin = cluster.plugin("host");
    let caller = plugin.caller();
    let single = || capability(Mode::SingleNodeWriter, None);
    let mut claims = ["a", "b"].map(|of| Claim::new(of, 16, single(), cluster.directory.path()));
    for claim in &mut claims {
        claim.created(&caller).unwrap();
    }
    let ask = |ids: &[&Claim]| {
        caller.create_volume_group_snapshot(CreateVolumeGroupSnapshotRequest {
            name: "group".to_owned(),
            source_volume_ids: ids.iter().map(|claim| claim.id()).collect(),
            ..CreateVolumeGroupSnapshotRequest::default()
        })
    };
    let group = ask(&[&claims[0], &claims[1]])
        .unwrap()
        .group_snapshot
        .unwrap();
    assert_eq!(group.snapshots.len(), 2);
    let again = ask(&[&claims[1], &claims[0]])
        .unwrap()
        .group_snapshot
        .unwrap();
    assert_eq!(again, group);
    let other = ask(&[&claims[0]]).unwrap_err();
    assert_eq!(other.code(), Code::AlreadyExists);
    let listed = caller
        .list_snapshots(ListSnapshotsRequest::default())
        .unwrap();
    for entry in &listed.entries {
        let snapshot = entry.snapshot.as_ref().unwrap();
        assert_eq!(snapshot.group_snapshot_id, group.group_snapshot_id);
        assert_eq!(snapshot.creation_time, group.creation_time);
    }
    let snapshot_ids: Vec<String> = listed
        .entries
        .into_iter()
        .map(|entry| entry.snapshot.unwrap().snapshot_id)
        .collect();
    let got = caller.get_volume_group_snapshot(GetVolumeGroupSnapshotRequest {
        group_snapshot_id: group.group_snapshot_id.clone(),
        snapshot_ids: snapshot_ids.clone(),
        ..GetVolumeGroupSnapshotRequest::default()
    });
    assert_eq!(got.unwrap().group_snapshot, Some(group.clone()));
    let gone = DeleteVolumeGroupSnapshotRequest {
        group_snapshot_id: group.group_snapshot_id,
        snapshot_ids,
        ..DeleteVolumeGroupSnapshotRequest::default()
    };
    for _ in 0..2 {
        caller.delete_volume_group_snapshot(gone.clone()).unwrap();
    }
    assert!(
        cluster.nodes[0]
            .client()
            .snapshots()
            .unwrap()
            .items
            .is_empty()
    );
    for claim in &claims {
        claim.delete(&caller).unwrap();
    }
}

/// Mistakes are refused by name, with the status that the interface has for them.
#[test]
fn mistakes_are_named() {
    let cluster = Cluster::of(1);
    let plugin = cluster.plugin("host");
    let caller = plugin.caller();
    let single = capability(Mode::SingleNodeWriter, None);
    let claim = Claim::new("pvc", 16, single, cluster.directory.path());
    for (key, value, code) in [
        ("pool", "nowhere", Code::InvalidArgument),
        ("numReplicas", "3", Code::InvalidArgument),
        ("sharing", "both", Code::InvalidArgument),
        ("colour", "red", Code::InvalidArgument),
        ("maxIOPS", "7", Code::InvalidArgument),
    ] {
        let mut claim = claim.clone();
        claim.create.parameters = map(&[(key, value)]);
        let refused = claim.created(&caller).unwrap_err();
        assert_eq!(refused.code(), code, "{key}: {refused}");
    }
    let mut sized = claim.clone();
    sized.create.capacity_range = Some(CapacityRange {
        required_bytes: 5000,
        limit_bytes: 6000,
    });
    assert_eq!(sized.created(&caller).unwrap_err().code(), Code::OutOfRange);
    let mut made = claim.clone();
    made.created(&caller).unwrap();
    let absent = caller.controller_publish_volume(ControllerPublishVolumeRequest {
        volume_id: made.id(),
        node_id: "no-host".to_owned(),
        volume_capability: made.create.volume_capabilities.first().cloned(),
        ..ControllerPublishVolumeRequest::default()
    });
    assert_eq!(absent.unwrap_err().code(), Code::NotFound);
    let unstaged = made.node_publish(&caller, false).unwrap_err();
    assert_eq!(unstaged.code(), Code::FailedPrecondition, "{unstaged}");
    made.published.clear();
    assert_eq!(
        made.stage(&caller).unwrap_err().code(),
        Code::InvalidArgument
    );
    made.delete(&caller).unwrap();
}

/// A device that carries something else is left as it is.
#[test]
fn what_a_volume_carries_is_not_made_anew() {
    let cluster = Cluster::of(1);
    let plugin = cluster.plugin("host");
    let caller = plugin.caller();
    let directory = cluster.directory.path();
    let raw = capability(Mode::SingleNodeWriter, None);
    let mut claim = Claim::new("pvc", 64, raw, directory);
    claim.bring(&caller, "host").unwrap();
    let device = claim.target.to_str().unwrap().to_owned();
    tool("mkfs.ext4", &["-q", "-F", &device]);
    claim.node_unpublish(&caller).unwrap();
    claim.unstage(&caller).unwrap();
    claim.create.volume_capabilities = vec![capability(Mode::SingleNodeWriter, Some("xfs"))];
    let refused = claim.stage(&caller).unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition, "{refused}");
    assert!(refused.message().contains("ext4"), "{refused}");
    claim.unstage(&caller).unwrap();
    claim.unpublish_from(&caller, "host").unwrap();
    claim.delete(&caller).unwrap();
}

/// A host tells that its volumes are out of reach, and that they are not any more.
#[test]
fn a_lost_node_shows_in_the_health_of_its_volumes() {
    let mut cluster = Cluster::of(1);
    let plugin = cluster.plugin("host");
    let caller = plugin.caller();
    let raw = capability(Mode::SingleNodeWriter, None);
    let mut claim = Claim::new("pvc", 16, raw, cluster.directory.path());
    claim.bring(&caller, "host").unwrap();
    let healthy = || {
        let asked = caller.node_get_volume_health(NodeGetVolumeHealthRequest {
            volume_id: claim.id(),
            ..NodeGetVolumeHealthRequest::default()
        });
        asked
            .unwrap()
            .volume_health
            .unwrap()
            .health_statuses
            .is_empty()
    };
    let storage = || {
        let asked = caller.node_get_storage_health(NodeGetStorageHealthRequest::default());
        let health = asked.unwrap().backend_health;
        health.first().map(|health| health.status())
    };
    assert!(healthy());
    assert_eq!(storage(), None);
    cluster.nodes[0].kill();
    wait_until("the host notices", || !healthy());
    assert_eq!(storage(), Some(StorageHealthErrorType::StorageUnreachable));
    cluster.nodes[0].start();
    wait_until("the host is connected again", healthy);
    claim.take(&caller, "host").unwrap();
}

/// A pool that lacks a drive shows in the health of its volumes, with how many more it can lose.
#[test]
fn a_degraded_pool_shows_in_the_health_of_its_volumes() {
    let cluster = Cluster::of(1);
    let node = &cluster.nodes[0];
    for drive in ["m0", "m1"] {
        node.answer(&["drive", "add", drive, "--memory", "256MiB"]);
    }
    let create = ["pool", "create", "mirror", "--level", "raid1"];
    node.answer(&[&create[..], &["--drives", "m0,m1"]].concat());
    let plugin = cluster.plugin("host");
    let caller = plugin.caller();
    let raw = capability(Mode::SingleNodeWriter, None);
    let mut claim = Claim::new("pvc", 16, raw, cluster.directory.path());
    claim.create.parameters = map(&[("pool", "mirror")]);
    claim.created(&caller).unwrap();
    let health = || {
        let asked = caller.controller_get_volume_health(ControllerGetVolumeHealthRequest {
            volume_id: claim.id(),
            ..ControllerGetVolumeHealthRequest::default()
        });
        asked.unwrap().volume_health.unwrap().health_statuses
    };
    assert!(health().is_empty());
    node.answer(&["pool", "fail-drive", "mirror", "m0"]);
    let found = health();
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].status(), VolumeHealthErrorType::Degraded);
    assert!(found[0].message.contains("1 of 2 drives"), "{found:?}");
    claim.delete(&caller).unwrap();
}
