//! Everything that tells or dials a node's addresses: where in the sources, and what the Kubernetes
//! driver publishes.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use csi::proto::ControllerPublishVolumeRequest;
use csi::proto::controller_client::ControllerClient;
use csi::proto::volume_capability::access_mode::Mode;
use csi::proto::volume_capability::{AccessMode, AccessType, BlockVolume};
use csi::proto::{ControllerPublishVolumeResponse, VolumeCapability};
use tonic::transport::Endpoint;

use crate::network::Machine;
use crate::support::{name, wait_until};
use crate::{HOST, Served};

/// What reads the addresses that `GET /v1/status` tells, in which every other has its place as
/// well: this program below `crates`, the console, and those for orchestrators. Each is tried with
/// addresses that are advertised.
const READERS: &[(&str, &str)] = &[
    ("crates/api/src/status.rs", "the answer itself"),
    (
        "crates/server/src/control/operating/status.rs",
        "who tells them",
    ),
    (
        "crates/flashyard/src/status.rs",
        "`status`: what_is_advertised_is_told_to_everybody",
    ),
    (
        "crates/flashyard/src/output.rs",
        "`volume show`: what_is_advertised_is_told_to_everybody",
    ),
    (
        "crates/flashyard/src/reach.rs",
        "`attach NAME`, `snapshot send` and `volume receive`: what_is_advertised_is_dialled",
    ),
    (
        "crates/flashyard/src/copies.rs",
        "whether a copy goes under TLS, to where `reach` says",
    ),
    (
        "crates/csi/src/controller/publish.rs",
        "the publish context of the Kubernetes driver: what_is_advertised_is_told_to_everybody",
    ),
    (
        "openstack/cinder_flashyard/hosts.py",
        "the Cinder driver's connection properties: its tests, test_features.Addresses",
    ),
    (
        "ansible/plugins/inventory/nodes.py",
        "variables of Ansible's inventory, as `status` says",
    ),
    (
        "ansible/roles/node/tasks/volumes.yml",
        "the reach of volumes that Ansible's role gives, as `status` says",
    ),
    (
        "ansible/plugins/modules/settings_info.py",
        "Ansible's settings_info, as `status` says",
    ),
    (
        "web/src/pages/Settings.tsx",
        "a page of the console, as `status` says",
    ),
    (
        "web/src/pages/VolumeDetail.tsx",
        "how the console has hosts connect, as `status` says",
    ),
];

/// Folders with sources of what users get.
const SOURCES: [&str; 5] = ["crates", "web/src", "openstack", "ansible", "deploy"];

/// Of the document of the API.
const GENERATED: &str = "web/src/api";

/// The sources in a folder that read them, but for tests.
fn readers(root: &Path, folder: &Path, found: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(root.join(folder)).unwrap() {
        let entry = entry.unwrap();
        let path = folder.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            let name = entry.file_name();
            let left_out = ["tests", "node_modules", "target"]
                .iter()
                .any(|out| name == *out);
            if !left_out && path != Path::new(GENERATED) {
                readers(root, &path, found);
            }
        } else if std::fs::read_to_string(root.join(&path))
            .is_ok_and(|text| text.contains("nvme_addresses"))
        {
            found.insert(path.to_str().unwrap().to_owned());
        }
    }
}

/// A new one has its place in the table, and says where it is tried.
#[test]
fn whoever_tells_addresses_reads_them_in_one_place() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut found = BTreeSet::new();
    for folder in SOURCES {
        readers(&root, Path::new(folder), &mut found);
    }
    let known = READERS.iter().map(|(path, _)| (*path).to_owned());
    assert_eq!(found, known.collect());
}

/// The Kubernetes driver as a process on a machine.
struct Driver {
    process: Child,
    socket: PathBuf,
}

impl Driver {
    /// One that somebody has started who is logged in there.
    fn start(served: &Served, machine: &Machine) -> Driver {
        let socket = served.directory.path().join("csi.sock");
        let mut driver = machine.command(env!("CARGO_BIN_EXE_flashyard"));
        driver.args(["csi", "--mode", "controller", "--endpoint"]);
        driver.arg(format!("unix://{}", socket.display()));
        driver.env("XDG_CONFIG_HOME", served.directory.path());
        let process = driver.stdin(Stdio::null()).stderr(Stdio::null()).spawn();
        let process = process.unwrap();
        wait_until("the driver serves", || UnixStream::connect(&socket).is_ok());
        Driver { process, socket }
    }

    fn publish(&self, volume: &str) -> ControllerPublishVolumeResponse {
        let request = ControllerPublishVolumeRequest {
            volume_id: volume.to_owned(),
            node_id: HOST.to_owned(),
            volume_capability: Some(VolumeCapability {
                access_mode: Some(AccessMode {
                    mode: Mode::MultiNodeMultiWriter.into(),
                }),
                access_type: Some(AccessType::Block(BlockVolume {})),
            }),
            ..ControllerPublishVolumeRequest::default()
        };
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        runtime.enable_all().build().unwrap().block_on(async {
            let endpoint = format!("unix://{}", self.socket.display());
            let channel = Endpoint::from_shared(endpoint).unwrap().connect().await;
            let mut client = ControllerClient::new(channel.unwrap());
            let published = client.controller_publish_volume(request).await;
            published.unwrap().into_inner()
        })
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        // Both fail only if it has ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// That the Kubernetes driver on `machine`, for somebody who is logged in there, tells hosts of
/// `expected`.
pub fn it_publishes(served: &Served, machine: &Machine, url: &str, expected: &[&str]) {
    let volume = machine.run(|| served.client(url).volume(&name("data")).unwrap());
    let driver = Driver::start(served, machine);
    let published = driver.publish(&volume.uuid.to_string()).publish_context;
    assert_eq!(published["addresses"], expected.join(" "), "{published:?}");
    assert_eq!(published["nqn"], volume.nqn);
}
