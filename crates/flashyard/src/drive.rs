//! `flashyard drive`

use api::{CarriedLabel, Drive, DriveHealth, DriveSpec, Name, Size, Status};
use clap::{Args, Subcommand};

use crate::connection::{Done, Node};
use crate::output::{connect_commands, names, properties, state, table};

#[derive(Subcommand)]
pub enum Verb {
    /// List drives
    List,
    /// Show one drive
    Show {
        /// The drive
        name: Name,
    },
    /// Show the health (SMART) of an emulated drive
    Smart {
        /// The drive
        name: Name,
    },
    /// Wipe an unused drive: pool label, file systems and partition table
    Wipe {
        /// The drive
        name: Name,
        /// Wipe it even if another host holds its pool, which then loses a drive
        #[arg(long)]
        force: bool,
    },
    /// Add a drive, or try an offline one again
    Add(Add),
    /// Let a host manage the namespaces of an emulated drive over NVMe (nvme create-ns and so on)
    Grant {
        /// The drive
        drive: Name,
        /// The host
        host: Name,
    },
    /// No longer let a host manage a drive's namespaces; its attached ones are detached
    Revoke {
        /// The drive
        drive: Name,
        /// The host
        host: Name,
    },
    /// Close and forget a drive that no volume uses; its contents stay
    Remove {
        /// The drive
        name: Name,
    },
}

#[derive(Args)]
pub struct Add {
    /// Its name
    name: Name,
    #[command(flatten)]
    source: Source,
    /// Make the file, sparse, this large if it is missing
    #[arg(long, value_name = "SIZE", requires = "path")]
    size: Option<Size>,
    #[command(flatten)]
    emulation: Emulation,
    /// Keep an emulated drive's data here, an absolute path on the node, instead of in memory
    #[arg(long, value_name = "PATH", requires = "emulated")]
    directory: Option<String>,
}

/// How a model behaves.
#[derive(Args, Clone, Copy)]
pub struct Emulation {
    /// Capacity of an emulated drive, as a share of the real one's; speed is not scaled
    #[arg(long, value_name = "SHARE", default_value_t = 0.001, value_parser = share)]
    scale: f64,
    /// Time dilation of an emulated drive: everything takes this many times as long
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = factor)]
    dilation: f64,
}

/// A share of a drive's capacity, which the node is told in millionths.
fn share(text: &str) -> Result<f64, String> {
    within(text, 1e-6, 1.0)
}

/// Times as long as a drive takes, which the node is told in hundredths.
fn factor(text: &str) -> Result<f64, String> {
    within(text, 0.01, 1000.0)
}

fn within(text: &str, least: f64, most: f64) -> Result<f64, String> {
    let number = text.parse::<f64>().ok();
    let number = number.filter(|number| (least..=most).contains(number));
    number.ok_or_else(|| format!("allowed: a number from {least} to {most}"))
}

impl Emulation {
    /// The share of the real drive's capacity.
    pub fn scale(self) -> f64 {
        self.scale
    }

    /// An emulated drive of this kind.
    pub fn spec(self, profile: &str, directory: Option<String>) -> DriveSpec {
        DriveSpec::Emulated {
            profile: profile.to_owned(),
            scale_ppm: (self.scale * 1e6).round() as u32,
            dilation_percent: (self.dilation * 100.0).round() as u32,
            directory,
        }
    }
}

#[derive(Args)]
#[group(required = true, multiple = false)]
pub struct Source {
    /// Block device or file, an absolute path on the node
    path: Option<String>,
    /// Memory of the node, lost when it stops: for tests
    #[arg(long, value_name = "SIZE")]
    memory: Option<Size>,
    /// Null: stores nothing and reads as zeroes, to measure everything above it
    #[arg(long, value_name = "SIZE")]
    null: Option<Size>,
    /// A model of a drive: a profile's name (see `flashyard ssd profiles`) or its path on the node
    #[arg(long, value_name = "PROFILE")]
    emulated: Option<String>,
}

impl Verb {
    pub fn run(&self, node: &Node) -> Done {
        match self {
            Verb::List => node
                .output
                .show(&node.client.drives()?, |drives| list(&drives.items)),
            Verb::Show { name } => {
                let drive = node.client.drive(name)?;
                let health = match drive.spec {
                    // An offline drive has nothing to tell; the rest is still to be shown.
                    DriveSpec::Emulated { .. } => node.client.drive_health(name).ok(),
                    _ => None,
                };
                let status = match &drive.administration {
                    Some(_) => Some(node.client.status()?),
                    None => None,
                };
                let labels = node.client.carried_labels()?.items;
                let carries = labels.iter().find(|label| label.drive == drive.name);
                node.output.show(&drive, |drive| {
                    show(drive, carries, (health.as_ref(), status.as_ref()))
                });
            }
            Verb::Grant { drive, host } => {
                let drive = node.client.grant_administration(drive, host)?;
                node.output.show(&drive, granted);
            }
            Verb::Revoke { drive, host } => {
                let drive = node.client.revoke_administration(drive, host)?;
                node.output.show(&drive, granted);
            }
            Verb::Smart { name } => node.output.show(&node.client.drive_health(name)?, smart),
            Verb::Add(add) => {
                let drive = node.client.add_drive(&add.name, &add.spec())?;
                node.output
                    .show(&drive, |drive| list(std::slice::from_ref(drive)));
            }
            Verb::Wipe { name, force } => {
                node.client.wipe_drive(name, *force)?;
                node.output
                    .say(&format!("drive {name} carries nothing any more"));
            }
            Verb::Remove { name } => {
                node.client.remove_drive(name)?;
                node.output.say(&format!("drive {name} removed"));
            }
        }
        Ok(())
    }
}

impl Add {
    fn spec(&self) -> DriveSpec {
        match &self.source {
            Source {
                memory: Some(size), ..
            } => DriveSpec::Memory { size: *size },
            Source {
                null: Some(size), ..
            } => DriveSpec::Null { size: *size },
            Source {
                emulated: Some(profile),
                ..
            } => self.emulation.spec(profile, self.directory.clone()),
            Source { path, .. } => DriveSpec::Path {
                // clap lets none of the four be missing.
                path: path.clone().unwrap_or_default(),
                size: self.size,
            },
        }
    }
}

fn list(drives: &[Drive]) -> String {
    let row = |drive: &Drive| {
        vec![
            drive.name.to_string(),
            state(drive.state),
            Size(drive.capacity_bytes).to_string(),
            user(drive),
            source(&drive.spec),
        ]
    };
    table(
        &["name", "state", "capacity", "used by", "source"],
        drives.iter().map(row),
    )
}

fn granted(drive: &Drive) -> String {
    match &drive.administration {
        Some(granted) => format!(
            "drive {} is administered by {} as {}",
            drive.name,
            names(&granted.hosts),
            granted.nqn
        ),
        None => format!("drive {} is administered by no host", drive.name),
    }
}

/// One drive; what it carries that nothing uses, how late an emulated one is, and how its
/// administrators connect to it.
fn show(
    drive: &Drive,
    carries: Option<&CarriedLabel>,
    (health, status): (Option<&DriveHealth>, Option<&Status>),
) -> String {
    let mut rows = facts(drive);
    if let Some(label) = carries {
        rows.push(("carries", api::plain(&label.carries).into_owned()));
        rows.push(("what to do", label.advice.clone()));
    }
    if let Some(health) = health {
        rows.push(("completed late", late(health)));
    }
    if let Some(granted) = &drive.administration {
        rows.push(("administrators", names(&granted.hosts)));
        let commands = status.map(|status| connect_commands(status, &granted.nqn));
        rows.push(("connect", commands.unwrap_or_default()));
    }
    properties(&rows)
}

fn facts(drive: &Drive) -> Vec<(&'static str, String)> {
    vec![
        ("drive", drive.name.to_string()),
        ("source", api::plain(&source(&drive.spec)).into_owned()),
        ("state", state(drive.state)),
        ("reason", reason(drive)),
        ("capacity", Size(drive.capacity_bytes).to_string()),
        ("block size", drive.block_bytes.to_string()),
        (
            "persistent",
            if drive.persistent {
                "yes"
            } else {
                "NO, for tests only"
            }
            .into(),
        ),
        ("used by", user(drive)),
    ]
}

/// Why it is not online.
fn reason(drive: &Drive) -> String {
    let reason = drive.reason.as_deref().unwrap_or("-");
    api::plain(reason).into_owned()
}

/// What stands on a drive.
fn user(drive: &Drive) -> String {
    match (&drive.volume, &drive.pool) {
        (Some(volume), _) => format!("volume {volume}"),
        (None, Some(pool)) => format!("pool {pool}"),
        (None, None) => "-".to_owned(),
    }
}

fn source(spec: &DriveSpec) -> String {
    match spec {
        DriveSpec::Path { path, .. } => path.clone(),
        DriveSpec::Memory { .. } => "memory (test only)".to_owned(),
        DriveSpec::Null { .. } => "null (test only)".to_owned(),
        DriveSpec::Emulated {
            profile, directory, ..
        } => match directory {
            Some(directory) => format!("emulated {profile}, {directory}"),
            None => format!("emulated {profile}, memory (test only)"),
        },
    }
}

fn smart(health: &DriveHealth) -> String {
    let billions = |count: u64| format!("{count} x 10^9 bytes");
    let units = |count: u64| format!("{count} x 512,000 bytes");
    let amplification = health.write_amplification_thousandths as f64 / 1e3;
    properties(&[
        ("model", health.model.clone()),
        (
            "available spare",
            format!("{}%", health.available_spare_percent),
        ),
        ("percentage used", format!("{}%", health.percentage_used)),
        ("data units read", units(health.data_units_read)),
        ("data units written", units(health.data_units_written)),
        ("read commands", health.host_read_commands.to_string()),
        ("write commands", health.host_write_commands.to_string()),
        ("media written", billions(health.media_written_billions)),
        (
            "endurance estimate",
            billions(health.endurance_estimate_billions),
        ),
        ("write amplification", format!("{amplification:.3}")),
        ("completed late", late(health)),
    ])
}

fn late(health: &DriveHealth) -> String {
    format!("{} of {}", health.completed_late, health.completed)
}
