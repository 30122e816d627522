//! Nodes for a plan's targets: a process each, which serves emulated drives as volumes; and those
//! volumes as block devices, where the plan's runner needs them.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::{Duration, SystemTime};

use api::{
    ANY_HOST, DriveHealth, DriveSpec, Name, PoolLevel, PoolSpec, PortTransport, Size, Volume,
    VolumeSpec,
};
use client::{Client, ClientError};
use lab::experiment::{LeftOut, NodeReading, Smart};
use lab::load::Stop;
use lab::plan::{Level, Plan, Runner, Target, TargetKind, Transport};

use super::Error;
use super::attached::AttachedVolume;
use crate::demo::DemoError;
use crate::demo::process::NodeProcess;
use crate::reach::addresses_of;

/// Capacity of the drives where the plan says nothing, as for drives without a node.
const SCALE: f64 = 0.001;

/// Why targets over RDMA are left out.
const NO_RDMA: &str = "this machine has no RoCE device with a link and an IP address";

/// When a node gathered its figures, among them.
const GATHERED: &str = "flashyard_sample_time_seconds ";

/// Longer than it takes until they are gathered anew, and how often it is looked whether they are.
const GATHERS: Duration = Duration::from_secs(3);
const ASKS_AGAIN: Duration = Duration::from_millis(50);

/// The nodes of a plan, which end with this.
pub struct Nodes {
    /// The plan, with volumes in place of nodes.
    pub plan: Plan,
    /// Targets that are no longer in it, as this machine cannot have them.
    pub left_out: Vec<LeftOut>,
    // Detached before their nodes end.
    attached: Vec<AttachedVolume>,
    /// By the target's name.
    nodes: Vec<(String, NodeProcess)>,
}

impl Nodes {
    /// Starts a node for every target of that kind, but for those over RDMA where there is none.
    pub fn start(plan: &Plan, stop: &Stop) -> Result<Nodes, Error> {
        let mut started = Nodes {
            plan: plan.clone(),
            left_out: Vec::new(),
            attached: Vec::new(),
            nodes: Vec::new(),
        };
        let mut rdma = None;
        if plan.targets.iter().any(is_over_rdma) {
            rdma = rdma_address()?;
            if rdma.is_none() {
                started.leave_out_rdma()?;
            }
        }
        let targets = started.plan.targets.iter_mut();
        for target in targets.filter(|target| target.kind == TargetKind::Node) {
            let rdma = rdma.filter(|_| is_over_rdma(target));
            let node = NodeProcess::start_new(&std::env::temp_dir(), 0, rdma, stop)?;
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
            target.slice = None;
            target.level = None;
            target.transport = None;
            started.nodes.push((target.name.clone(), node));
        }
        Ok(started)
    }

    /// Takes targets over RDMA out of the plan.
    fn leave_out_rdma(&mut self) -> Result<(), Error> {
        let targets = std::mem::take(&mut self.plan.targets);
        let (out, kept): (Vec<Target>, Vec<Target>) = targets.into_iter().partition(is_over_rdma);
        if kept.is_empty() {
            return Err(Error::Usage(format!("no target is left: {NO_RDMA}")));
        }
        self.plan.targets = kept;
        self.left_out = out
            .into_iter()
            .map(|target| LeftOut {
                target: target.name,
                reason: NO_RDMA.to_owned(),
            })
            .collect();
        Ok(())
    }

    /// The devices, which hold nothing but what the experiment left there.
    pub fn devices(&self) -> impl Iterator<Item = String> {
        let devices = self.attached.iter();
        devices.map(|attached| attached.device.display().to_string())
    }

    /// This process and the nodes', by name and number.
    pub fn processes(&self) -> Vec<(String, u32)> {
        let nodes = self.nodes.iter();
        let nodes = nodes.map(|(target, node)| (format!("node of {target}"), node.pid()));
        let own = ("lab".to_owned(), std::process::id());
        std::iter::once(own).chain(nodes).collect()
    }

    /// What the node of a target tells now; nothing of one that does not answer.
    pub fn reading(&self, target: &str) -> Option<NodeReading> {
        let (_, node) = self.nodes.iter().find(|(name, _)| name == target)?;
        let client = node.client().ok()?;
        let drives = client.drives().ok()?.items.into_iter();
        let smart = drives.filter_map(|drive| {
            let health = client.drive_health(&drive.name).ok()?;
            Some(smart(drive.name.to_string(), &health))
        });
        Some(NodeReading {
            drives: smart.collect(),
            counters: counters(&figures_of_now(&client)?),
        })
    }
}

fn is_over_rdma(target: &Target) -> bool {
    target.transport == Some(Transport::Rdma)
}

/// The first of this machine's RDMA devices, if it has one.
fn rdma_address() -> Result<Option<IpAddr>, Error> {
    let found = rdma::addresses().map_err(|source| Error::File {
        path: rdma::DEVICES.into(),
        source,
    })?;
    Ok(found.first().copied())
}

/// Makes the target's drives, and a volume on each or one of a pool of them; gives the volumes'
/// addresses.
fn volumes(node: &NodeProcess, target: &Target) -> Result<Vec<String>, Error> {
    let client = node.client()?;
    let refused = |error: ClientError| Error::Node(DemoError::Client(error));
    let spec = DriveSpec::Emulated {
        profile: profile(node, target)?,
        scale_ppm: (target.scale.unwrap_or(SCALE) * 1e6).round() as u32,
        dilation_percent: (target.dilation.unwrap_or(1.0) * 100.0).round() as u32,
        directory: None,
    };
    let mut drives = Vec::new();
    for index in 0..target.drives.unwrap_or(1) {
        let drive = name(&format!("lab-{index}"))?;
        client.add_drive(&drive, &spec).map_err(refused)?;
        drives.push(drive);
    }
    let made = match target.level {
        Some(level) => vec![pooled(&client, target, level, drives)?],
        None => drives
            .into_iter()
            .map(|drive| {
                let volume = VolumeSpec {
                    drive: Some(drive.clone()),
                    // A drive that was told to forget everything would start with fresh flash.
                    keep_data: true,
                    ..for_anyone()?
                };
                client.create_volume(&drive, &volume).map_err(refused)
            })
            .collect::<Result<_, Error>>()?,
    };
    let status = client.status().map_err(refused)?;
    let transport = match is_over_rdma(target) {
        true => PortTransport::Rdma,
        false => PortTransport::Tcp,
    };
    made.iter()
        .map(|made| {
            let found = addresses_of(&status, made, transport, false);
            let first = found.ok().and_then(|found| found.into_iter().next());
            first.map(|one| one.to_string()).ok_or(Error::NoAddress)
        })
        .collect()
}

/// The profile as the node is told it: by name, or as a file where the target is a part of it.
fn profile(node: &NodeProcess, target: &Target) -> Result<String, Error> {
    if target.slice.is_none() {
        return Ok(target.profile.clone().unwrap_or_default());
    }
    let path = node.scratch("slice.toml");
    let written = std::fs::write(&path, lab::experiment::profile(target)?.to_toml());
    written.map_err(|source| Error::File {
        path: path.clone(),
        source,
    })?;
    Ok(path.display().to_string())
}

/// A volume of a pool of these drives.
fn pooled(
    client: &Client,
    target: &Target,
    level: Level,
    drives: Vec<Name>,
) -> Result<Volume, Error> {
    let refused = |error: ClientError| Error::Node(DemoError::Client(error));
    let own = name("lab")?;
    let level = match level {
        Level::Raid0 => PoolLevel::Raid0,
        Level::Raid1 => PoolLevel::Raid1,
        Level::Raid5 => PoolLevel::Raid5,
        Level::Raid6 => PoolLevel::Raid6,
    };
    let spec = PoolSpec {
        level,
        drives,
        width: None,
        force: false,
    };
    let pool = client.create_pool(&own, &spec).map_err(refused)?;
    let volume = VolumeSpec {
        pool: Some(own.clone()),
        size: Some(Size(target.used_of(pool.usable_bytes))),
        ..for_anyone()?
    };
    client.create_volume(&own, &volume).map_err(refused)
}

fn for_anyone() -> Result<VolumeSpec, Error> {
    Ok(VolumeSpec {
        hosts: vec![name(ANY_HOST)?],
        ..VolumeSpec::default()
    })
}

fn name(text: &str) -> Result<Name, Error> {
    text.parse()
        .map_err(|_| Error::Usage(format!("{text} is no name of a drive or volume")))
}

fn smart(drive: String, health: &DriveHealth) -> Smart {
    Smart {
        drive,
        percentage_used: health.percentage_used,
        data_units_read: health.data_units_read,
        data_units_written: health.data_units_written,
        host_read_commands: health.host_read_commands,
        host_write_commands: health.host_write_commands,
        write_amplification_thousandths: Some(health.write_amplification_thousandths),
        completed: Some((health.completed, health.completed_late)),
    }
}

/// What Prometheus reads, gathered after this was called: a node does so once a second.
fn figures_of_now(client: &Client) -> Option<String> {
    let asked = SystemTime::now();
    let since_1970 = asked.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    loop {
        let figures = client.figures().ok()?;
        let mut lines = figures.lines();
        let gathered: f64 =
            lines.find_map(|line| line.strip_prefix(GATHERED)?.trim().parse().ok())?;
        if gathered >= since_1970.as_secs_f64() || asked.elapsed().ok()? > GATHERS {
            return Some(figures);
        }
        std::thread::sleep(ASKS_AGAIN);
    }
}

/// The counters in what Prometheus reads.
fn counters(figures: &str) -> BTreeMap<String, f64> {
    let counter = |line: &str| {
        let (series, value) = line.rsplit_once(' ')?;
        let name = series.split('{').next()?;
        let value = value.parse().ok()?;
        name.ends_with("_total").then(|| (series.to_owned(), value))
    };
    figures.lines().filter_map(counter).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_told_from_everything_else() {
        let text = "# HELP a_total What.\n# TYPE a_total counter\na_total{drive=\"d 0\"} 12\n\
                    b_total 0.5\nc_bytes 7\nd_total text\n";
        let found = counters(text);
        let expected = [("a_total{drive=\"d 0\"}", 12.0), ("b_total", 0.5)];
        assert_eq!(
            found,
            expected
                .map(|(name, value)| (name.to_owned(), value))
                .into()
        );
    }
}
