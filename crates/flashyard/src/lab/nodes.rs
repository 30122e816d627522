//! Nodes for a plan's targets: a process each, which serves emulated drives as volumes; and those
//! volumes as block devices, where the plan's runner needs them.

use api::{ANY_HOST, DriveSpec, Name, VolumeSpec};
use client::ClientError;
use lab::load::Stop;
use lab::plan::{Plan, Runner, Target, TargetKind};

use super::Error;
use super::attached::AttachedVolume;
use crate::demo::DemoError;
use crate::demo::process::NodeProcess;

/// Capacity of the drives where the plan says nothing, as for drives without a node.
const SCALE: f64 = 0.001;

/// The nodes of a plan, which end with this.
pub struct Nodes {
    /// The plan, with volumes in place of nodes.
    pub plan: Plan,
    // Detached before their nodes end.
    attached: Vec<AttachedVolume>,
    nodes: Vec<(String, NodeProcess)>,
}

impl Nodes {
    /// Starts a node for every target of that kind.
    pub fn start(plan: &Plan, stop: &Stop) -> Result<Nodes, Error> {
        let mut started = Nodes {
            plan: plan.clone(),
            attached: Vec::new(),
            nodes: Vec::new(),
        };
        let targets = started.plan.targets.iter_mut();
        for target in targets.filter(|target| target.kind == TargetKind::Node) {
            let node = NodeProcess::start_new(&std::env::temp_dir(), stop)?;
            let addresses = volumes(&node, target)?;
            if plan.run.runner == Runner::Builtin {
                target.addresses = addresses;
                target.kind = TargetKind::Volume;
            } else {
                for address in addresses {
                    let attached = AttachedVolume::attach(&address, &node.scratch("attached"))?;
                    target.paths.push(attached.device.clone());
                    started.attached.push(attached);
                }
                target.kind = TargetKind::File;
            }
            target.profile = None;
            started
                .nodes
                .push((format!("node of {}", target.name), node));
        }
        Ok(started)
    }

    /// The devices, which hold nothing but what the experiment left there.
    pub fn devices(&self) -> impl Iterator<Item = String> {
        let devices = self.attached.iter();
        devices.map(|attached| attached.device.display().to_string())
    }

    /// This process and the nodes', by name and number.
    pub fn processes(&self) -> Vec<(String, u32)> {
        let nodes = self.nodes.iter();
        let nodes = nodes.map(|(name, node)| (name.clone(), node.pid()));
        let own = ("lab".to_owned(), std::process::id());
        std::iter::once(own).chain(nodes).collect()
    }
}

/// Makes the target's drives and a volume on each; gives the volumes' addresses.
fn volumes(node: &NodeProcess, target: &Target) -> Result<Vec<String>, Error> {
    let client = node.client()?;
    let refused = |error: ClientError| Error::Node(DemoError::Client(error));
    let any: Name = ANY_HOST.parse().map_err(|_| unnameable(ANY_HOST))?;
    let mut addresses = Vec::new();
    for index in 0..target.drives.unwrap_or(1) {
        let text = format!("lab-{index}");
        let name: Name = text.parse().map_err(|_| unnameable(&text))?;
        let drive = DriveSpec::Emulated {
            profile: target.profile.clone().unwrap_or_default(),
            scale_ppm: (target.scale.unwrap_or(SCALE) * 1e6).round() as u32,
            dilation_percent: (target.dilation.unwrap_or(1.0) * 100.0).round() as u32,
            directory: None,
        };
        client.add_drive(&name, &drive).map_err(refused)?;
        let volume = VolumeSpec {
            drive: Some(name.clone()),
            hosts: vec![any.clone()],
            ..VolumeSpec::default()
        };
        let made = client.create_volume(&name, &volume).map_err(refused)?;
        let address = node.nvme_address();
        addresses.push(format!("tcp://{address}/{}?nsid={}", made.nqn, made.nsid));
    }
    Ok(addresses)
}

fn unnameable(text: &str) -> Error {
    Error::Usage(format!("{text} is no name of a drive or volume"))
}
