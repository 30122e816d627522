//! The driver under Kubernetes' own sidecars and controllers: objects are made as people make them,
//! and volumes, attachments and snapshots follow. The test mounts volumes in the kubelet's place.

use std::collections::HashMap;
use std::fs;
use std::time::{Duration, Instant};

use csi::proto::volume_capability::access_mode::Mode;
use csi::proto::{GetMetadataDeltaRequest, Volume};
use csi_calls::{Claim, capability, nqn};
use serde_json::{Value, json};

use crate::cluster::{Cluster, Plugin, write_file};
use crate::control_plane::ControlPlane;
use crate::network::Machine;
use crate::support::{tool, wait_until};

const VALUES: &str = r#"
storageClasses:
  - {name: flashyard, parameters: {hostAuth: dhchap, csi.storage.k8s.io/fstype: xfs}}
volumeSnapshotClasses: [{name: flashyard}]
volumeGroupSnapshotClasses: [{name: flashyard}]
volumeAttributesClasses: [{name: gold, parameters: {maxIOPS: "5000"}}]
"#;

const WORKER: &str = "worker";

/// Kubernetes with the driver over one storage node, and a machine called `worker`.
struct Site {
    plane: ControlPlane,
    plugin: Plugin,
    cluster: Cluster,
}

/// A claim of so many MiB, from a snapshot if one is named.
fn claim(name: &str, mib: u64, from: Option<&str>) -> Value {
    let source = from.map(|snapshot| {
        json!({"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": snapshot})
    });
    json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "labels": {"app": "db"}},
        "spec": {
            "accessModes": ["ReadWriteOncePod"], "storageClassName": "flashyard",
            "resources": {"requests": {"storage": format!("{mib}Mi")}}, "dataSource": source,
        },
    })
}

/// A pod on the machine that uses these claims.
fn pod(name: &str, claims: &[String]) -> Value {
    let volume = |claim| json!({"name": claim, "persistentVolumeClaim": {"claimName": claim}});
    let mount = |claim: &String| json!({"name": claim, "mountPath": format!("/{claim}")});
    let mounts: Vec<Value> = claims.iter().map(mount).collect();
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {
            "nodeName": WORKER, "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "main", "image": "none", "volumeMounts": mounts}],
            "volumes": claims.iter().map(volume).collect::<Vec<Value>>(),
        },
    })
}

impl Site {
    fn new() -> Site {
        Site::with(ControlPlane::start(), "")
    }

    /// With more values of the chart.
    fn with(mut plane: ControlPlane, values: &str) -> Site {
        let cluster = Cluster::of(1);
        let plugin = cluster.plugin(WORKER);
        plane.install(&plugin, &format!("{VALUES}{values}"));
        // A kubelet, and the registrar beside the driver, say so of their machine.
        let attached = "volumes.kubernetes.io/controller-managed-attach-detach";
        let driver = json!({
            "name": "csi.flashyard.example", "nodeID": nqn(WORKER), "topologyKeys": [],
        });
        plane.apply(&[
            json!({"apiVersion": "v1", "kind": "Node",
                "metadata": {"name": WORKER, "annotations": {attached: "true"}}}),
            json!({"apiVersion": "storage.k8s.io/v1", "kind": "CSINode",
                "metadata": {"name": WORKER}, "spec": {"drivers": [driver]}}),
        ]);
        plane.wait(&["serviceaccount", "default"], Value::is_object);
        Site {
            plane,
            plugin,
            cluster,
        }
    }

    /// The volume of a claim, once it has one.
    fn bound(&mut self, claim: &str) -> Value {
        let is_bound = |found: &Value| found["status"]["phase"] == "Bound";
        let found = self.plane.wait(&["pvc", claim], is_bound);
        let volume = found["spec"]["volumeName"].as_str().unwrap();
        self.plane.get(&["pv", volume])
    }

    /// The claim's volume, attached and mounted as a kubelet does it.
    fn mounted(&mut self, claim: &str) -> Claim {
        let volume = self.bound(claim);
        let name = volume["metadata"]["name"].clone();
        let of_it = |one: &&Value| one["spec"]["source"]["persistentVolumeName"] == name;
        let attached = |one: &&Value| one["status"]["attached"] == true;
        let found = self.plane.wait(&["volumeattachments"], |all| {
            let all = all["items"].as_array().into_iter().flatten();
            all.filter(of_it).any(|one| attached(&one))
        });
        let all = found["items"].as_array().unwrap();
        let attachment = all.iter().find(of_it).unwrap();
        let words = |map: &Value| -> HashMap<String, String> {
            serde_json::from_value(map.clone()).unwrap()
        };
        let source = &volume["spec"]["csi"];
        let kind = source["fsType"].as_str().unwrap();
        let mode = Mode::SingleNodeSingleWriter;
        let directory = self.cluster.directory.path();
        let mut mounted = Claim::new(claim, 0, capability(mode, Some(kind)), directory);
        mounted.volume = Volume {
            volume_id: source["volumeHandle"].as_str().unwrap().to_owned(),
            volume_context: words(&source["volumeAttributes"]),
            ..Volume::default()
        };
        mounted.published = words(&attachment["status"]["attachmentMetadata"]);
        let caller = self.plugin.caller();
        mounted.stage(&caller).unwrap();
        mounted.node_publish(&caller, false).unwrap();
        mounted
    }

    /// Unmounts a volume, as a kubelet does when a pod goes.
    fn unmount(&self, claim: &Claim) {
        let caller = self.plugin.caller();
        claim.node_unpublish(&caller).unwrap();
        claim.unstage(&caller).unwrap();
    }

    /// Takes a snapshot of the claim `data`; the driver's name for it.
    fn snapshot(&mut self, name: &str) -> String {
        self.plane.apply(&[json!({
            "apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshot",
            "metadata": {"name": name},
            "spec": {
                "volumeSnapshotClassName": "flashyard",
                "source": {"persistentVolumeClaimName": "data"},
            },
        })]);
        let is_ready = |found: &Value| found["status"]["readyToUse"] == true;
        let found = self.plane.wait(&["volumesnapshot", name], is_ready);
        let content = found["status"]["boundVolumeSnapshotContentName"]
            .as_str()
            .unwrap();
        let content = self.plane.get(&["volumesnapshotcontent", content]);
        content["status"]["snapshotHandle"]
            .as_str()
            .unwrap()
            .to_owned()
    }

    /// Whatever is between Kubernetes and the drives dies in turn, twice, and is started again.
    fn have_everything_die(&mut self) {
        for sidecar in ["csi-provisioner", "csi-attacher"] {
            std::thread::sleep(Duration::from_millis(500));
            self.plugin.kill();
            self.plugin.start();
            std::thread::sleep(Duration::from_millis(300));
            self.cluster.nodes[0].kill();
            self.cluster.nodes[0].start();
            self.plane.revive();
            std::thread::sleep(Duration::from_millis(300));
            self.plane.kill(sidecar);
            self.plane.revive();
        }
    }

    fn delete(&self, what: &[&str]) {
        self.plane
            .kubectl(&[&["delete", "--wait=false"], what].concat(), "");
    }

    /// The pod goes, and then nothing is attached.
    fn end(&self, pod: &str) {
        self.delete(&["pod", pod, "--force"]);
        self.plane.wait_until_gone(&["volumeattachments"]);
    }

    /// The only volume of the storage node.
    fn only_volume(&self) -> api::Volume {
        let mut all = self.cluster.nodes[0].client().volumes().unwrap().items;
        assert_eq!(all.len(), 1, "{all:?}");
        all.pop().unwrap()
    }
}

fn size_of(path: &std::path::Path) -> u64 {
    let path = path.to_str().unwrap();
    let told = tool("df", &["--output=size", "--block-size=1", path]);
    told.lines().nth(1).unwrap().trim().parse().unwrap()
}

/// A claim, its pod, a snapshot, a volume of that, growth, another class, a group of snapshots, and
/// the way back.
#[test]
fn objects_of_kubernetes_become_volumes_attachments_and_snapshots() {
    let mut site = Site::new();
    site.plane.apply(&[claim("data", 320, None)]);
    site.bound("data");
    assert!(site.only_volume().hosts.is_empty());
    site.plane.apply(&[pod("db", &["data".into()])]);
    let data = site.mounted("data");
    assert_eq!(site.only_volume().hosts.len(), 1);
    write_file(&data.target, "first", b"before the snapshot");

    site.snapshot("monday");
    write_file(&data.target, "second", b"behind it");
    site.plane.apply(&[
        claim("restored", 320, Some("monday")),
        pod("copy", &["restored".into()]),
    ]);
    let restored = site.mounted("restored");
    let first = fs::read(restored.target.join("first")).unwrap();
    assert_eq!(first, b"before the snapshot");
    assert!(!restored.target.join("second").exists());

    let small = size_of(&data.target);
    let more = r#"{"spec": {"resources": {"requests": {"storage": "512Mi"}}}}"#;
    site.plane
        .kubectl(&["patch", "pvc", "data", "--patch", more], "");
    let volume = site.bound("data");
    let volume = volume["metadata"]["name"].as_str().unwrap();
    let has_grown = |found: &Value| found["spec"]["capacity"]["storage"] == "512Mi";
    site.plane.wait(&["pv", volume], has_grown);
    data.node_expand(&site.plugin.caller(), 512).unwrap();
    assert!(size_of(&data.target) >= small + (150 << 20));
    assert!(data.target.join("second").exists());

    let gold = r#"{"spec": {"volumeAttributesClassName": "gold"}}"#;
    site.plane
        .kubectl(&["patch", "pvc", "data", "--patch", gold], "");
    let is_gold = |found: &Value| found["status"]["currentVolumeAttributesClassName"] == "gold";
    site.plane.wait(&["pvc", "data"], is_gold);
    let client = site.cluster.nodes[0].client();
    let volumes = client.volumes().unwrap().items;
    let limited = volumes
        .iter()
        .filter(|it| it.limits.total.iops == Some(5000));
    assert_eq!(limited.count(), 1, "{volumes:?}");

    for (pod, claim) in [("db", &data), ("copy", &restored)] {
        site.unmount(claim);
        site.delete(&["pod", pod, "--force"]);
    }
    site.plane.wait_until_gone(&["volumeattachments"]);
    let volumes = client.volumes().unwrap().items;
    assert!(volumes.iter().all(|it| it.hosts.is_empty()), "{volumes:?}");
    site.delete(&["volumesnapshot", "monday"]);
    site.delete(&["pvc", "data", "restored"]);
    site.plane.wait_until_gone(&["pv"]);
    wait_until("the storage node has nothing left", || {
        let nothing = client.volumes().unwrap().items.is_empty();
        nothing && client.snapshots().unwrap().items.is_empty()
    });
    site.plugin.assert_nothing_is_attached();
    site.plane.assert_all_run();
    site.plane.assert_nothing_was_forbidden();
}

/// Ranges of bytes in the answers of the service of snapshots' metadata.
fn ranges(messages: &[Value]) -> Vec<(i64, i64)> {
    let number = |value: &Value| match value.as_str() {
        Some(text) => text.parse().unwrap(),
        // Zero is left out.
        None => 0,
    };
    let all = messages
        .iter()
        .flat_map(|message| message["blockMetadata"].as_array().unwrap());
    all.map(|range| (number(&range["byteOffset"]), number(&range["sizeBytes"])))
        .collect()
}

/// Backups ask the sidecar, with an account's token for it: they get what the driver tells, and
/// nothing without a token or with one for others.
#[test]
fn backups_get_changed_blocks_from_the_sidecar() {
    // The sidecar listens on every address.
    Machine::new().run(|| {
        let plane = ControlPlane::start();
        plane.prepare_metadata();
        let mut site = Site::with(plane, "snapshots: {metadataSecret: metadata}\n");
        let certificate = site.plane.path("metadata/tls.crt");
        let certificate = tool("base64", &["--wrap=0", certificate.to_str().unwrap()]);
        let rule = json!({
            "apiGroups": ["snapshot.storage.k8s.io"], "verbs": ["get"],
            "resources": ["volumesnapshots", "volumesnapshotcontents"],
        });
        let role = json!({
            "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "backup",
        });
        let account = json!({"kind": "ServiceAccount", "name": "backup", "namespace": "default"});
        let rights = "rbac.authorization.k8s.io/v1";
        site.plane.apply(&[
            json!({"apiVersion": "cbt.storage.k8s.io/v1beta1", "kind": "SnapshotMetadataService",
            "metadata": {"name": "csi.flashyard.example"}, "spec": {
                "address": "127.0.0.1:50051", "audience": "backups", "caCert": certificate,
            }}),
            json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "backup"}}),
            json!({"apiVersion": rights, "kind": "ClusterRole", "metadata": {"name": "backup"},
                "rules": [rule]}),
            json!({"apiVersion": rights, "kind": "ClusterRoleBinding",
                "metadata": {"name": "backup"}, "roleRef": role, "subjects": [account]}),
        ]);
        site.plane
            .apply(&[claim("data", 320, None), pod("db", &["data".into()])]);
        let data = site.mounted("data");
        let handles = ["sunday", "monday"].map(|name| {
            write_file(&data.target, name, &vec![0x5a; 1 << 20]);
            site.snapshot(name)
        });

        let caller = site.plugin.caller();
        let told = caller.get_metadata_delta(GetMetadataDeltaRequest {
            base_snapshot_id: handles[0].clone(),
            target_snapshot_id: handles[1].clone(),
            ..GetMetadataDeltaRequest::default()
        });
        let told = told.unwrap();
        let told = told.iter().flat_map(|message| &message.block_metadata);
        let told: Vec<(i64, i64)> = told
            .map(|range| (range.byte_offset, range.size_bytes))
            .collect();
        assert!(
            told.iter().map(|(_, bytes)| bytes).sum::<i64>() >= 1 << 20,
            "{told:?}"
        );
        let token = |audience: &str| {
            let audience = format!("--audience={audience}");
            let token = site
                .plane
                .kubectl(&["create", "token", "backup", &audience], "");
            token.trim().to_owned()
        };
        let delta = |token: &str| {
            let question = json!({
                "security_token": token, "namespace": "default",
                "base_snapshot_id": handles[0], "target_snapshot_name": "monday",
            });
            site.plane.metadata("GetMetadataDelta", &question)
        };
        let mine = token("backups");
        assert_eq!(ranges(&delta(&mine).unwrap()), told);
        let question = json!({
            "security_token": mine, "namespace": "default", "snapshot_name": "sunday",
        });
        let all = site
            .plane
            .metadata("GetMetadataAllocated", &question)
            .unwrap();
        assert!(ranges(&all).iter().map(|(_, bytes)| bytes).sum::<i64>() >= 1 << 20);
        for refused in ["", &token("others")] {
            let refusal = delta(refused).unwrap_err();
            assert!(
                refusal.contains("Unauthenticated") || refusal.contains("InvalidArgument"),
                "{refusal}"
            );
        }
        site.unmount(&data);
        site.plane.assert_all_run();
        site.plane.assert_nothing_was_forbidden();
    });
}

/// Snapshots of all claims with a label, at one instant.
#[test]
fn a_group_of_claims_has_snapshots_of_one_instant() {
    let mut site = Site::new();
    site.plane
        .apply(&[claim("data", 320, None), claim("log", 320, None)]);
    for name in ["data", "log"] {
        site.bound(name);
    }
    site.plane.apply(&[json!({
        "apiVersion": "groupsnapshot.storage.k8s.io/v1", "kind": "VolumeGroupSnapshot",
        "metadata": {"name": "both"},
        "spec": {
            "volumeGroupSnapshotClassName": "flashyard",
            "source": {"selector": {"matchLabels": {"app": "db"}}},
        },
    })]);
    let is_ready = |found: &Value| found["status"]["readyToUse"] == true;
    site.plane.wait(&["volumegroupsnapshot", "both"], is_ready);
    let members = site.plane.get(&["volumesnapshots"]);
    let members = members["items"].as_array().unwrap();
    assert_eq!(members.len(), 2, "{members:?}");
    let client = site.cluster.nodes[0].client();
    assert_eq!(client.snapshots().unwrap().items.len(), 2);
    let member = members[0]["metadata"]["name"].as_str().unwrap();
    let again = claim("again", 320, Some(member));
    site.plane.apply(&[again]);
    site.bound("again");
    site.delete(&["pvc", "again", "data", "log"]);
    site.plane.wait_until_gone(&["pv"]);
    site.delete(&["volumegroupsnapshot", "both"]);
    wait_until("the storage node has nothing left", || {
        let nothing = client.volumes().unwrap().items.is_empty();
        nothing && client.snapshots().unwrap().items.is_empty()
    });
    site.plane.assert_all_run();
    site.plane.assert_nothing_was_forbidden();
}

/// How many objects of a kind are so.
fn count(plane: &ControlPlane, kind: &str, is_so: impl Fn(&Value) -> bool) -> usize {
    let all = plane.get(&[kind]);
    let all = all["items"].as_array().unwrap().iter();
    all.filter(|one| is_so(one)).count()
}

/// The driver, the storage node and the sidecars die in turn, while claims are bound and attached
/// and while all of it goes: nothing is made twice, and nothing stays.
#[test]
fn claims_are_served_and_go_whatever_dies_meanwhile() {
    const VOLUMES: usize = 12;
    let mut site = Site::new();
    let names: Vec<String> = (0..VOLUMES)
        .map(|number| format!("data-{number}"))
        .collect();
    let claims: Vec<Value> = names.iter().map(|name| claim(name, 16, None)).collect();
    site.plane.apply(&claims);
    site.plane.apply(&[pod("many", &names)]);
    site.have_everything_die();
    wait_until("every volume is attached", || {
        site.plane.revive();
        let attached = |one: &Value| one["status"]["attached"] == true;
        count(&site.plane, "volumeattachments", attached) == VOLUMES
    });
    let client = site.cluster.nodes[0].client();
    let volumes = client.volumes().unwrap().items;
    assert_eq!(volumes.len(), VOLUMES, "{volumes:?}");
    assert!(volumes.iter().all(|it| it.hosts.len() == 1), "{volumes:?}");

    site.delete(&["pod", "many", "--force"]);
    site.delete(&["pvc", "--all"]);
    site.have_everything_die();
    wait_until("nothing is left", || {
        site.plane.revive();
        let volumes = client.volumes().unwrap().items;
        count(&site.plane, "pv", Value::is_object) == 0 && volumes.is_empty()
    });
}

/// Prints how long three hundred claims take to be bound, and how long until a pod that uses all of
/// them has them attached, and back.
#[test]
fn a_pod_gets_three_hundred_volumes() {
    const VOLUMES: usize = 300;
    let mut site = Site::new();
    let names: Vec<String> = (0..VOLUMES)
        .map(|number| format!("data-{number}"))
        .collect();
    let claims: Vec<Value> = names.iter().map(|name| claim(name, 16, None)).collect();
    site.plane.apply(&claims);
    let begun = Instant::now();
    site.plane.wait(&["pvc"], |all| {
        let all = all["items"].as_array().unwrap().iter();
        all.filter(|one| one["status"]["phase"] == "Bound").count() == VOLUMES
    });
    let bound = begun.elapsed();
    site.plane.apply(&[pod("many", &names)]);
    let begun = Instant::now();
    site.plane.wait(&["volumeattachments"], |all| {
        let all = all["items"].as_array().unwrap().iter();
        all.filter(|one| one["status"]["attached"] == true).count() == VOLUMES
    });
    let attached = begun.elapsed();
    let volumes = site.cluster.nodes[0].client().volumes().unwrap().items;
    assert!(volumes.iter().all(|it| it.hosts.len() == 1));
    let begun = Instant::now();
    site.end("many");
    let detached = begun.elapsed();
    println!(
        "{VOLUMES} claims: bound in {bound:.1?}, attached in {attached:.1?}, detached in \
         {detached:.1?}"
    );
}
