//! The Helm chart of the driver: helm renders it, schemas of Kubernetes take every object, mistakes
//! in values are refused, and the plain manifests are what it renders.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../support/helm.rs"]
mod helm;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use helm::{helm, rendered, run, said, tools};

/// The oldest Kubernetes that the chart is for, and the newest whose schemas are there.
const VERSIONS: [&str; 2] = ["1.34", "1.37"];

/// Manifests of `deploy/kubernetes`, which are the templates of these names.
const MANIFESTS: [&str; 4] = [
    "driver.yaml",
    "controller.yaml",
    "node.yaml",
    "classes.yaml",
];

/// Said above every manifest, in place of what helm says of its template.
const RENDERED: &str = "# Rendered from deploy/helm/flashyard-csi: change that, not this file.\n";

/// Values of everything that a template has a branch for.
const EVERYTHING: &str = r#"
image: {repository: "registry.example:5000/flashyard", tag: "1", pullPolicy: Always}
imagePullSecrets: [registry]
namespace: {create: true}
controller: &part
  nodeSelector: {kubernetes.io/os: linux}
  tolerations: [{key: storage, operator: Equal, value: "yes", effect: NoSchedule}]
  affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution:
    {nodeSelectorTerms: [{matchExpressions: [{key: zone, operator: In, values: [a]}]}]}}}
  resources: {requests: {cpu: 10m, memory: 32Mi}, limits: {memory: 256Mi}}
node: {<<: *part, kubeletDirectory: /var/lib/k0s/kubelet, maxUnavailable: 1, probePort: 9810}
sidecars:
  liveness: {image: "registry.example/liveness:1", resources: {limits: {memory: 64Mi}}}
storageClasses:
  - name: everything
    default: true
    reclaimPolicy: Retain
    volumeBindingMode: WaitForFirstConsumer
    allowVolumeExpansion: false
    mountOptions: [noatime]
    parameters: {pool: fast, maxIOPS: "1000"}
volumeSnapshotClasses: [{name: everything, default: true, deletionPolicy: Retain}]
volumeGroupSnapshotClasses: [{name: everything, default: true, deletionPolicy: Retain}]
volumeAttributesClasses: [{name: gold, parameters: {maxIOPS: "5000"}}]
snapshots: {metadataSecret: certificate-of-metadata}
"#;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Has schemas judge every object of `manifests`; gives their kinds and names.
fn judged(manifests: &str, version: &str) -> Result<BTreeSet<String>, String> {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let mut command = Command::new(target.join("kubernetes/bin/python"));
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/chart/validate.py");
    command.arg(script).arg(version);
    command.arg(tools().join("snapshot-definitions"));
    let output = run(command, manifests);
    match output.status.success() {
        true => Ok(said(&output).lines().map(str::to_owned).collect()),
        false => Err(said(&output)),
    }
}

/// The classes that come with the manifests, and the namespace, which helm would make by itself.
fn values_of_manifests() -> String {
    let classes = fs::read_to_string(root().join("deploy/kubernetes/values.yaml")).unwrap();
    format!("{classes}namespace: {{create: true}}\n")
}

/// helm finds nothing to say against the chart, not even as advice.
#[test]
fn helm_lints_the_chart() {
    for values in ["", EVERYTHING, &values_of_manifests()] {
        let output = helm(&["lint", "--strict"], values);
        let text = said(&output);
        assert!(output.status.success(), "{text}");
        let found: Vec<&str> = text.lines().filter(|line| line.starts_with('[')).collect();
        // A picture for catalogues, which this has none of.
        assert_eq!(found, ["[INFO] Chart.yaml: icon is recommended"], "{text}");
    }
}

/// Schemas of Kubernetes, of the oldest version and the newest, take what is rendered, with values
/// for every branch; and they are able to refuse.
#[test]
fn kubernetes_takes_every_object() {
    let examples = fs::read_to_string(root().join("deploy/kubernetes/examples.yaml")).unwrap();
    for version in VERSIONS {
        let least = judged(&rendered(""), version).unwrap();
        assert!(
            least.contains("CSIDriver csi.flashyard.example"),
            "{least:?}"
        );
        assert!(
            !least.iter().any(|name| name.contains("Class ")),
            "{least:?}"
        );
        let most = judged(&rendered(EVERYTHING), version).unwrap();
        for name in [
            "Namespace flashyard",
            "Deployment flashyard-controller",
            "DaemonSet flashyard-node",
            "ClusterRole flashyard-controller",
            "StorageClass everything",
            "VolumeSnapshotClass everything",
            "VolumeGroupSnapshotClass everything",
            "VolumeAttributesClass gold",
            "Service flashyard-snapshot-metadata",
        ] {
            assert!(most.contains(name), "{name}: {most:?}");
        }
        let shown = judged(&examples, version).unwrap();
        assert!(shown.contains("VolumeSnapshot monday"), "{shown:?}");
        assert!(shown.contains("Pod scratch"), "{shown:?}");
        for (right, wrong) in [
            ("hostNetwork: true", "hostNetwork: often"),
            ("attachRequired: true", "attachIsRequired: true"),
            ("deletionPolicy: Retain", "deletionPolicy: Sometimes"),
        ] {
            let changed = rendered(EVERYTHING).replace(right, wrong);
            let refused = judged(&changed, version).unwrap_err();
            assert!(
                refused.contains(wrong.split(':').next().unwrap()),
                "{refused}"
            );
        }
    }
}

/// What nobody asked for is not there, and neither is what it would be allowed.
#[test]
fn what_is_off_is_not_rendered() {
    let all = rendered("");
    assert!(all.contains("csi-snapshotter") && all.contains("--host-secret-file"));
    let less = rendered("snapshots: {enabled: false}\ncontroller: {hostSecret: \"\"}\n");
    for word in ["snapshot", "host-secret"] {
        assert!(!less.contains(word), "{word}: {less}");
    }
    let service = ["csi-snapshot-metadata", "kind: Service\n", "tokenreviews"];
    let asked = rendered("snapshots: {metadataSecret: certificate}\n");
    for word in service {
        assert!(!all.contains(word) && asked.contains(word), "{word}");
    }
    let off = rendered("snapshots: {enabled: false, metadataSecret: certificate}\n");
    assert!(!service.iter().any(|word| off.contains(word)), "{off}");
    assert!(judged(&less, VERSIONS[1]).is_ok());
}

/// Mistakes in values end the installation, with the value's name.
#[test]
fn mistakes_in_values_are_refused_by_name() {
    for (values, named) in [
        ("controler: {}", "controler"),
        ("image: {tag: 1}", "tag"),
        ("image: {repository: \"\"}", "repository"),
        ("controller: {nodesSecret: \"No Secret\"}", "nodesSecret"),
        (
            "node: {kubeletDirectory: var/lib/kubelet}",
            "kubeletDirectory",
        ),
        ("node: {maxUnavailable: 0}", "maxUnavailable"),
        ("snapshots: {metadataSecret: \"A B\"}", "metadataSecret"),
        ("node: {probePort: 65536}", "probePort"),
        ("node: {tolerations: [{effekt: NoSchedule}]}", "effekt"),
        ("sidecars: {attacher: {image: \"no tag\"}}", "image"),
        ("storageClasses: [{parameters: {pool: fast}}]", "name"),
        (
            "storageClasses: [{name: a, reclaimPolicy: Recycle}]",
            "reclaimPolicy",
        ),
        (
            "storageClasses: [{name: a, parameters: {maxIOPS: 100}}]",
            "maxIOPS",
        ),
        (
            "storageClasses: [{name: a, parameters: {pol: fast}}]",
            "pol",
        ),
        ("volumeAttributesClasses: [{name: gold}]", "parameters"),
        (
            "volumeAttributesClasses: [{name: gold, parameters: {pool: fast}}]",
            "pool",
        ),
    ] {
        let refused = helm(&["template", "flashyard"], values);
        let text = said(&refused);
        assert!(!refused.status.success(), "{values} is taken: {text}");
        assert!(text.contains(named), "{values}: {text}");
    }
}

/// The manifests for who has no helm are what the chart renders, and all of it. With
/// `UPDATE_MANIFESTS` set they are written anew.
#[test]
fn the_manifests_are_what_the_chart_renders() {
    let folder = root().join("deploy/kubernetes");
    let all = rendered(&values_of_manifests());
    let mut parts = Vec::new();
    for name in MANIFESTS {
        let template = format!("# Source: flashyard-csi/templates/{name}\n");
        // helm orders the objects of all templates by their kinds.
        let documents = all
            .split("---\n")
            .filter(|part| part.starts_with(&template));
        let documents: Vec<&str> = documents.map(|part| &part[template.len()..]).collect();
        let text = format!("{RENDERED}{}", documents.join("---\n"));
        parts.push(documents.len());
        let path = folder.join(name);
        if std::env::var_os("UPDATE_MANIFESTS").is_some() {
            fs::write(&path, &text).unwrap();
        }
        let kept = fs::read_to_string(&path).unwrap();
        assert!(
            kept == text,
            "{name} is not what the chart renders: UPDATE_MANIFESTS=1"
        );
    }
    let documents = all.split("---\n").filter(|part| !part.trim().is_empty());
    assert_eq!(parts.iter().sum::<usize>(), documents.count(), "{all}");
}

/// A chart is of the program's version.
#[test]
fn the_chart_has_the_version_of_the_program() {
    let chart = root().join("deploy/helm/flashyard-csi/Chart.yaml");
    let chart = fs::read_to_string(chart).unwrap();
    for line in ["version", "appVersion"] {
        let line = format!("\n{line}: {}\n", env!("CARGO_PKG_VERSION"));
        assert!(chart.contains(&line), "{chart}");
    }
}
