//! `flashyard volume`

use api::{
    BlockSize, Name, Size, SnapshotName, SnapshotSpec, Status, Volume, VolumeProtect, VolumeRename,
    VolumeReserve, VolumeResize, VolumeRollback, VolumeSpec, WriteProtection,
};
use clap::builder::PossibleValuesParser;
use clap::builder::TypedValueParser;
use clap::{Args, Subcommand};

use crate::connection::{Done, Node};
use crate::copies::Receive;
use crate::limit::{Bounds, in_words};
use crate::output::{connect_commands, names, properties, state, table};
use crate::replication::{self, Replicate};
use crate::snapshot;

#[derive(Subcommand)]
pub enum Verb {
    /// List volumes
    List,
    /// Show one volume
    Show {
        /// The volume
        name: Name,
    },
    /// Create a volume and serve it
    Create(Create),
    /// Change the size of a volume of a pool; connected hosts see it
    Resize {
        /// The volume
        name: Name,
        /// The size
        size: Size,
        /// Allow a smaller size; the data behind it is lost
        #[arg(long)]
        allow_shrink: bool,
    },
    /// Rename a volume of a pool; hosts do not notice
    Rename {
        /// The volume
        name: Name,
        /// The new name
        to: Name,
    },
    /// Take a snapshot of a volume of a pool
    Snapshot {
        /// The volume
        name: Name,
        /// Name of the snapshot
        snapshot: Name,
    },
    /// Clone a snapshot into a new volume, and serve it
    Clone(Clone),
    Receive(Box<Receive>),
    /// Roll a volume back to a snapshot of it; later writes are lost
    Rollback(Rollback),
    /// Make a replica a volume as any other, when its original has failed
    ///
    /// Hosts may be allowed on it from then on, and its original's node writes it no more.
    Promote {
        /// The volume
        name: Name,
    },
    Replicate(Box<Replicate>),
    /// List replications of volumes to other nodes
    Replications {
        /// Only this replication, with more of it
        name: Option<Name>,
    },
    /// Copy a volume to the other node no more; the replica and the snapshots stay
    Unreplicate {
        /// The replication
        name: Name,
    },
    /// Reserve space for all of a volume of a pool (thick): no write fails for lack of space
    Reserve {
        /// The volume
        name: Name,
        /// Reserve none any more (thin): space is taken when blocks are written
        #[arg(long)]
        off: bool,
    },
    /// Write protect a volume: no host writes to it, nor can any lift that
    Protect {
        /// The volume
        name: Name,
        /// Let hosts write again, whoever had it protected
        #[arg(long)]
        off: bool,
    },
    /// Set the IOPS and bandwidth limits of a volume, at once; limits not given are removed
    Limit {
        /// The volume
        name: Name,
        #[command(flatten)]
        bounds: Bounds,
    },
    /// Stop serving a volume and forget it: what was written stays on a drive, a pool takes its
    /// space back
    Delete {
        /// The volume
        name: Name,
        /// Delete it while hosts are connected, which lose their disk
        #[arg(long)]
        force: bool,
    },
    /// Let a host see a volume
    Allow {
        /// The volume
        volume: Name,
        /// The host, or `any` for every host
        host: Name,
    },
    /// Hide a volume from a host; its sessions end unless they are for other volumes too
    Deny {
        /// The volume
        volume: Name,
        /// The host, or `any` to take back that every host may see it
        host: Name,
    },
}

#[derive(Args)]
pub struct Create {
    /// Its name
    name: Name,
    #[command(flatten)]
    place: Place,
    /// Its size in a pool, such as 10GiB; space is taken when blocks are written
    #[arg(long, value_name = "SIZE", requires = "pool")]
    size: Option<Size>,
    /// Reserve space for all of it now (thick), so that no write fails for lack of space
    #[arg(long, requires = "pool")]
    thick: bool,
    /// Take a drive with contents, such as a file system, and wipe them
    #[arg(long, requires = "drive", conflicts_with = "keep_data")]
    force: bool,
    /// Take a drive with contents, and serve it as it is
    #[arg(long, requires = "drive")]
    keep_data: bool,
    #[command(flatten)]
    face: Face,
}

#[derive(Args)]
pub struct Rollback {
    /// The volume
    name: Name,
    /// The snapshot, as NAME or POOL/NAME
    snapshot: SnapshotName,
    /// Do it while hosts are connected, which do not expect their disk to change
    #[arg(long)]
    force: bool,
    /// Allow a rollback to a smaller size; the data behind it is lost
    #[arg(long)]
    allow_shrink: bool,
}

#[derive(Args)]
#[group(required = true, multiple = false)]
pub struct Place {
    /// The drive it takes whole
    #[arg(long)]
    drive: Option<Name>,
    /// The pool that holds it
    #[arg(long, requires = "size")]
    pool: Option<Name>,
}

#[derive(Args)]
pub struct Clone {
    /// The snapshot, as NAME or POOL/NAME
    snapshot: SnapshotName,
    /// Name of the volume
    name: Name,
    /// Make it larger than the snapshot
    #[arg(long, value_name = "SIZE")]
    size: Option<Size>,
    /// Reserve space for all of it now (thick), so that no write fails for lack of space
    #[arg(long)]
    thick: bool,
    #[command(flatten)]
    face: Face,
}

/// How hosts see a volume.
#[derive(Args)]
pub struct Face {
    /// Bytes in a logical block as hosts see it
    #[arg(long, value_name = "BYTES", default_value = "4096", value_parser = block_size())]
    block_size: BlockSize,
    /// A host that may see it, or `any` for every host; may be repeated
    #[arg(long, value_name = "HOST")]
    allow: Vec<Name>,
    /// Make it a namespace of this subsystem, with others, instead of one of its own
    #[arg(long, value_name = "NAME")]
    subsystem: Option<Name>,
    /// The tenant it belongs to
    #[arg(long, value_name = "TENANT")]
    tenant: Option<Name>,
}

fn block_size() -> impl TypedValueParser<Value = BlockSize> {
    PossibleValuesParser::new(["4096", "512"]).map(|text| match text.as_str() {
        "512" => BlockSize::Bytes512,
        _ => BlockSize::Bytes4096,
    })
}

impl Verb {
    pub fn run(&self, node: &Node) -> Done {
        let client = &node.client;
        let one = |volume: &Volume| list(std::slice::from_ref(volume));
        match self {
            Verb::List => node
                .output
                .show(&client.volumes()?, |volumes| list(&volumes.items)),
            Verb::Show { name } => show_all_of(node, &client.volume(name)?)?,
            Verb::Create(create) => {
                node.output
                    .show(&client.create_volume(&create.name, &create.spec())?, one);
            }
            Verb::Resize {
                name,
                size,
                allow_shrink,
            } => {
                let to = VolumeResize {
                    size: *size,
                    allow_shrink: *allow_shrink,
                };
                node.output.show(&client.resize_volume(name, &to)?, one);
            }
            Verb::Rename { name, to } => {
                let to = VolumeRename { name: to.clone() };
                node.output.show(&client.rename_volume(name, &to)?, one);
            }
            Verb::Snapshot { name, snapshot } => take_snapshot(node, name, snapshot)?,
            Verb::Clone(clone) => {
                node.output
                    .show(&client.create_volume(&clone.name, &clone.spec())?, one);
            }
            Verb::Receive(receive) => receive.run(node)?,
            Verb::Rollback(back) => {
                node.output
                    .show(&client.rollback_volume(&back.name, &back.to())?, one);
            }
            Verb::Promote { name } => node.output.show(&client.promote_volume(name)?, one),
            Verb::Replicate(replicate) => replicate.run(node)?,
            Verb::Replications { name } => replication::show(node, name.as_ref())?,
            Verb::Unreplicate { name } => replication::remove(node, name)?,
            Verb::Reserve { name, off } => {
                let to = VolumeReserve { reserved: !off };
                node.output.show(&client.reserve_volume(name, &to)?, one);
            }
            Verb::Protect { name, off } => {
                let to = VolumeProtect { protected: !off };
                show_all_of(node, &client.protect_volume(name, &to)?)?;
            }
            Verb::Limit { name, bounds } => {
                show_all_of(node, &client.limit_volume(name, &bounds.limits())?)?;
            }
            Verb::Delete { name, force } => {
                client.delete_volume(name, *force)?;
                node.output.say(&format!("volume {name} deleted"));
            }
            Verb::Allow { volume, host } => {
                node.output.show(&client.allow_host(volume, host)?, one);
            }
            Verb::Deny { volume, host } => node.output.show(&client.deny_host(volume, host)?, one),
        }
        Ok(())
    }
}

fn show_all_of(node: &Node, volume: &Volume) -> Done {
    let status = node.client.status_for(&volume.name)?;
    node.output.show(volume, |volume| show(volume, &status));
    Ok(())
}

fn take_snapshot(node: &Node, volume: &Name, name: &Name) -> Done {
    let spec = SnapshotSpec {
        volume: volume.clone(),
        copy_of: None,
    };
    let taken = node.client.create_snapshot(name, &spec)?;
    node.output
        .show(&taken, |taken| snapshot::list(std::slice::from_ref(taken)));
    Ok(())
}

impl Create {
    fn spec(&self) -> VolumeSpec {
        VolumeSpec {
            drive: self.place.drive.clone(),
            pool: self.place.pool.clone(),
            size: self.size,
            reserved: self.thick,
            force: self.force,
            keep_data: self.keep_data,
            ..self.face.spec()
        }
    }
}

impl Rollback {
    fn to(&self) -> VolumeRollback {
        VolumeRollback {
            snapshot: self.snapshot.clone(),
            force: self.force,
            allow_shrink: self.allow_shrink,
            replica_of: None,
        }
    }
}

impl Clone {
    fn spec(&self) -> VolumeSpec {
        VolumeSpec {
            snapshot: Some(self.snapshot.clone()),
            size: self.size,
            reserved: self.thick,
            ..self.face.spec()
        }
    }
}

impl Face {
    fn spec(&self) -> VolumeSpec {
        VolumeSpec {
            block_bytes: self.block_size,
            hosts: self.allow.clone(),
            subsystem: self.subsystem.clone(),
            tenant: self.tenant.clone(),
            ..VolumeSpec::default()
        }
    }
}

/// What a volume stands on.
fn place(volume: &Volume) -> String {
    match (&volume.drive, &volume.pool) {
        (Some(drive), _) => format!("drive {drive}"),
        (None, Some(pool)) => format!("pool {pool}"),
        (None, None) => "-".to_owned(),
    }
}

fn list(volumes: &[Volume]) -> String {
    let row = |volume: &Volume| {
        vec![
            volume.name.to_string(),
            state(volume.state),
            Size(volume.capacity_bytes).to_string(),
            place(volume),
            names(&volume.hosts),
            volume.nsid.to_string(),
            volume.nqn.clone(),
        ]
    };
    let header = [
        "name",
        "state",
        "capacity",
        "stored on",
        "hosts",
        "nsid",
        "nqn",
    ];
    table(&header, volumes.iter().map(row))
}

/// Who has a volume write protected.
fn protection(volume: &Volume) -> &'static str {
    match volume.write_protection {
        None => "none",
        Some(WriteProtection::Administrator) => "by the administrator: no host can lift it",
        Some(WriteProtection::Host) => "by a host: hosts can lift it",
    }
}

/// One volume, and how a Linux host connects to it at each of the node's addresses.
fn show(volume: &Volume, status: &Status) -> String {
    let connect = match volume.nqn.as_str() {
        "" => String::new(),
        nqn => connect_commands(status, nqn),
    };
    let hosts = match (volume.hosts.as_slice(), volume.replica_of) {
        ([], None) => "none: no host can see it".to_owned(),
        ([], Some(_)) => "none until it is promoted".to_owned(),
        (hosts, _) => names(hosts),
    };
    let lost = match volume.lost_blocks {
        0 => "none".to_owned(),
        blocks => format!("{blocks} of 4 KiB, as the last scrub found"),
    };
    properties(&[
        ("volume", volume.name.to_string()),
        ("state", state(volume.state)),
        (
            "reason",
            volume.reason.clone().unwrap_or_else(|| "-".into()),
        ),
        (
            "capacity",
            match volume.reserved {
                true => format!("{}, space kept for all of it", Size(volume.capacity_bytes)),
                false => Size(volume.capacity_bytes).to_string(),
            },
        ),
        ("lost blocks", lost),
        ("block size", volume.block_bytes.bytes().to_string()),
        ("stored on", place(volume)),
        (
            "origin",
            volume.origin.clone().unwrap_or_else(|| "-".into()),
        ),
        ("hosts", hosts),
        (
            "replica of",
            volume.replica_of.map_or("-".into(), |of| of.to_string()),
        ),
        ("limits", in_words(&volume.limits)),
        ("write protection", protection(volume).to_owned()),
        ("nqn", volume.nqn.clone()),
        ("nsid", volume.nsid.to_string()),
        ("uuid", volume.uuid.to_string()),
        ("connect", connect),
    ])
}
