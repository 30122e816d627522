//! `flashyard pool`

use api::{
    CarriedLabel, ImportablePool, Name, Pool, PoolImport, PoolLevel, PoolMember, PoolSpec,
    PoolState, PoolUsage, Size, SpaceUse,
};
use clap::{Args, Subcommand};

use crate::connection::{Done, Node};
use crate::job;
use crate::output::{names, properties, table};

#[derive(Subcommand)]
pub enum Verb {
    /// List pools
    List,
    /// Show one pool
    Show {
        /// The pool
        name: Name,
    },
    /// Show the space use of a pool: the unique and shared data of each volume and snapshot
    Usage {
        /// The pool
        name: Name,
    },
    /// Create a pool on empty drives
    Create(Create),
    /// Scrub a pool: check all data, map and redundancy, and repair errors
    Scrub {
        /// The pool
        name: Name,
        /// End a scrub that is under way
        #[arg(long, conflicts_with = "wait")]
        stop: bool,
        #[command(flatten)]
        patience: job::Patience,
    },
    /// Add an empty drive to a pool
    AddDrive {
        #[command(flatten)]
        member: Member,
        /// Take it with contents, such as a file system, and wipe them
        #[arg(long)]
        force: bool,
    },
    /// Move all data off a drive, and remove it from its pool
    RemoveDrive {
        #[command(flatten)]
        member: Member,
        #[command(flatten)]
        patience: job::Patience,
    },
    /// Fail a drive for good, at once; its data is rebuilt on the others
    FailDrive(Member),
    /// Stop serving a pool and let go of it, so that another node may import it
    Export {
        /// The pool
        name: Name,
        /// Export it while hosts are connected to its volumes, which lose their disks
        #[arg(long)]
        force: bool,
    },
    /// Import a pool from the node's drives, and serve its volumes; without a name, list them
    Import(Import),
    /// Destroy a pool that has no volumes and no snapshots
    Destroy {
        /// The pool
        name: Name,
    },
}

#[derive(Args)]
pub struct Create {
    /// Its name
    name: Name,
    /// Redundancy: raid0, raid1, raid5, raid6 or raid10
    #[arg(long)]
    level: PoolLevel,
    /// Drives it takes, such as d0,d1,d2,d3
    #[arg(long, value_name = "DRIVES", value_delimiter = ',', required = true)]
    drives: Vec<Name>,
    /// Drives of one stripe, instead of all; fewer leave room to rebuild at full
    /// width
    #[arg(long, value_name = "COUNT")]
    width: Option<u8>,
    /// Take drives with contents, such as file systems, and wipe them
    #[arg(long)]
    force: bool,
}

#[derive(Args)]
pub struct Member {
    /// The pool
    pool: Name,
    /// The drive
    drive: Name,
}

#[derive(Args)]
pub struct Import {
    /// The pool; without one, importable pools are listed
    name: Option<Name>,
    /// Which pool, if several have the name
    #[arg(long, value_name = "IDENTITY", requires = "name")]
    id: Option<String>,
    /// Take it although another host holds it: right only if that host is off for good
    #[arg(long, requires = "name")]
    force: bool,
    /// Take it although another program wrote something to its drives, such as a swap area before
    /// the label, which is gone then
    #[arg(long, requires = "name")]
    overwrite: bool,
    /// Accept the loss of the latest writes, which unreadable drives may hold
    #[arg(long, requires = "name")]
    accept_loss: bool,
    /// Go on degraded, without absent members: their data is rebuilt on the others, and they
    /// join as new drives when they are back
    #[arg(long, requires = "name")]
    degraded: bool,
    /// Use these drives only, such as d0,d1; all that carry it unless said otherwise
    #[arg(long, value_name = "DRIVES", value_delimiter = ',', requires = "name")]
    drives: Vec<Name>,
    /// Import it under this name, which it keeps
    #[arg(long = "as", value_name = "NAME", requires = "name")]
    rename: Option<Name>,
    /// Rename a volume of it; may be repeated
    #[arg(long, value_name = "VOLUME=NAME", value_parser = renaming, requires = "name")]
    rename_volume: Vec<(Name, Name)>,
}

fn renaming(text: &str) -> Result<(Name, Name), String> {
    let (from, to) = text.split_once('=').ok_or("allowed: VOLUME=NAME")?;
    let parse = |text: &str| text.parse::<Name>().map_err(|error| error.to_string());
    Ok((parse(from)?, parse(to)?))
}

impl Verb {
    pub fn run(&self, node: &Node) -> Done {
        let (client, output) = (&node.client, &node.output);
        let one = |pool: &Pool| show(pool);
        match self {
            Verb::List => output.show(&client.pools()?, |pools| list(&pools.items)),
            Verb::Show { name } => output.show(&client.pool(name)?, one),
            Verb::Usage { name } => output.show(&client.pool_usage(name)?, usage),
            Verb::Create(create) => {
                output.show(&client.create_pool(&create.name, &create.spec())?, one);
            }
            Verb::Scrub {
                name, stop: true, ..
            } => {
                client.stop_scrub(name)?;
                output.say(&format!("scrub of pool {name} stopped"));
            }
            Verb::Scrub { name, patience, .. } => {
                return patience.follow(node, client.scrub_pool(name)?);
            }
            Verb::AddDrive {
                member: Member { pool, drive },
                force,
            } => output.show(&client.add_pool_drive(pool, drive, *force)?, one),
            Verb::RemoveDrive {
                member: Member { pool, drive },
                patience,
            } => return patience.follow(node, client.remove_pool_drive(pool, drive)?),
            Verb::FailDrive(Member { pool, drive }) => {
                output.show(&client.fail_pool_drive(pool, drive)?, one);
            }
            Verb::Export { name, force } => {
                client.export_pool(name, *force)?;
                output.say(&format!("pool {name} exported"));
            }
            Verb::Import(import) => return import.run(node),
            Verb::Destroy { name } => {
                client.destroy_pool(name)?;
                output.say(&format!("pool {name} destroyed"));
            }
        }
        Ok(())
    }
}

impl Create {
    fn spec(&self) -> PoolSpec {
        PoolSpec {
            level: self.level,
            drives: self.drives.clone(),
            width: self.width,
            force: self.force,
        }
    }
}

impl Import {
    fn run(&self, node: &Node) -> Done {
        let Some(name) = &self.name else {
            let (pools, labels) = (
                node.client.importable_pools()?,
                node.client.carried_labels()?,
            );
            node.output.show(&pools, |pools| {
                let found = importable(&pools.items);
                match others(&labels.items) {
                    None => found,
                    Some(others) => format!("{found}\n\n{others}"),
                }
            });
            return Ok(());
        };
        let how = PoolImport {
            id: self.id.clone(),
            force: self.force,
            overwrite: self.overwrite,
            accept_loss: self.accept_loss,
            degraded: self.degraded,
            drives: self.drives.clone(),
            rename: self.rename.clone(),
            rename_volumes: self.rename_volume.iter().cloned().collect(),
        };
        node.output
            .show(&node.client.import_pool(name, &how)?, show);
        Ok(())
    }
}

fn state(pool: &Pool) -> String {
    match (pool.state, pool.drives_to_spare) {
        (PoolState::Online, _) => "online",
        (PoolState::Degraded, Some(0)) => "DEGRADED, no redundancy left",
        (PoolState::Degraded, _) => "DEGRADED",
        (PoolState::Offline, _) => "OFFLINE",
    }
    .to_owned()
}

/// How many more drives may fail, whichever they are.
fn redundancy_left(pool: &Pool) -> String {
    match pool.drives_to_spare {
        None => "-".to_owned(),
        Some(0) => "none".to_owned(),
        Some(1) => "1 drive".to_owned(),
        Some(drives) => format!("{drives} drives"),
    }
}

/// Bytes that are neither used nor reserved.
fn free_bytes(pool: &Pool) -> u64 {
    let taken = pool.used_bytes.saturating_add(pool.reserved_bytes);
    pool.usable_bytes.saturating_sub(taken)
}

fn level(pool: &Pool) -> String {
    pool.level.map_or("-".to_owned(), |level| level.to_string())
}

fn called(member: &PoolMember) -> String {
    let name = member.drive.as_ref();
    name.map_or_else(|| format!("member {}", member.index), Name::to_string)
}

fn list(pools: &[Pool]) -> String {
    let row = |pool: &Pool| {
        let members = pool.members.iter().map(called);
        vec![
            pool.name.to_string(),
            state(pool),
            level(pool),
            Size(pool.usable_bytes).to_string(),
            Size(pool.used_bytes).to_string(),
            Size(free_bytes(pool)).to_string(),
            pool.volumes.len().to_string(),
            members.collect::<Vec<_>>().join(","),
        ]
    };
    let header = [
        "name", "state", "level", "usable", "used", "free", "volumes", "drives",
    ];
    table(&header, pools.iter().map(row))
}

/// Its redundancy, and how many drives a stripe is on.
fn shape(pool: &Pool) -> String {
    match pool.width {
        Some(width) => format!("{}, {width} wide", level(pool)),
        None => level(pool),
    }
}

/// One pool, and its members.
fn show(pool: &Pool) -> String {
    let counters = &pool.counters;
    let percent = pool.used_bytes * 100 / pool.usable_bytes.max(1);
    let text = properties(&[
        ("pool", pool.name.to_string()),
        ("identity", pool.id.clone()),
        ("state", state(pool)),
        ("reason", pool.reason.clone().unwrap_or_else(|| "-".into())),
        ("level", shape(pool)),
        ("redundancy left", redundancy_left(pool)),
        ("usable", Size(pool.usable_bytes).to_string()),
        ("used", format!("{} ({percent}%)", Size(pool.used_bytes))),
        ("reclaiming", Size(pool.deleted_bytes).to_string()),
        ("reserved", Size(pool.reserved_bytes).to_string()),
        ("free", Size(free_bytes(pool)).to_string()),
        ("volumes", names(&pool.volumes)),
        ("map", map(pool)),
        ("segments", segments(pool)),
        ("full by live data", closed(pool)),
        (
            "last scrub",
            pool.scrubbed.clone().unwrap_or_else(|| "never".into()),
        ),
        ("host writes", blocks(counters.host_blocks_written)),
        (
            "drive writes",
            blocks(counters.stripe_blocks_written + counters.map_blocks_written),
        ),
        ("garbage collection", blocks(counters.relocated_blocks)),
        ("rebalanced", blocks(counters.rebalanced_blocks)),
        ("reconstructed reads", blocks(counters.reconstructed_reads)),
        ("repaired", blocks(counters.repaired_blocks)),
        ("unrecovered reads", blocks(counters.unrecovered_reads)),
    ]);
    let row = |member: &PoolMember| {
        vec![
            member.index.to_string(),
            called(member),
            if member.active { "active" } else { "MISSING" }.to_owned(),
            Size(member.bytes).to_string(),
            Size(member.free_bytes).to_string(),
            if member.slow { "SLOW" } else { "-" }.to_owned(),
            member.read_errors.to_string(),
            member.corrupt_blocks.to_string(),
        ]
    };
    let header = [
        "member",
        "drive",
        "state",
        "capacity",
        "free",
        "pace",
        "read errors",
        "checksum errors",
    ];
    let members = table(&header, pool.members.iter().map(row));
    format!("{text}\n\n{members}")
}

fn map(pool: &Pool) -> String {
    pool.map.map_or("-".to_owned(), |map| {
        format!(
            "{}, {} of it in memory, of up to {}",
            Size(map.bytes),
            Size(map.cached_bytes),
            Size(map.cache_bytes)
        )
    })
}

fn segments(pool: &Pool) -> String {
    pool.segments.map_or("-".to_owned(), |found| {
        let full: u64 = found.closed.iter().sum();
        format!(
            "{} free, {} ready, {} open, {full} full, {} being cleaned, {} of the map",
            found.free, found.ready, found.open, found.cleaning, found.map
        )
    })
}

/// Tenths of a segment that live, and how many full segments have so many.
fn closed(pool: &Pool) -> String {
    let bins = pool.segments.iter().flat_map(|found| found.closed);
    let bins = bins.enumerate().filter(|(_, count)| *count > 0);
    let bins: Vec<String> = bins
        .map(|(tenth, count)| format!("{}-{}%: {count}", tenth * 10, tenth * 10 + 10))
        .collect();
    match bins.as_slice() {
        [] => "-".to_owned(),
        bins => bins.join(", "),
    }
}

fn blocks(count: u64) -> String {
    Size(count * 4096).to_string()
}

fn usage(usage: &PoolUsage) -> String {
    let row = |user: &SpaceUse| {
        vec![
            user.name.clone(),
            if user.snapshot { "snapshot" } else { "volume" }.to_owned(),
            Size(user.logical_bytes).to_string(),
            Size(user.unique_bytes).to_string(),
            Size(user.shared_bytes).to_string(),
        ]
    };
    let header = ["name", "kind", "logical", "unique", "shared"];
    let users = table(&header, usage.users.iter().map(row));
    let total = properties(&[
        ("total", Size(usage.total_bytes).to_string()),
        ("unnamed", Size(usage.unnamed_bytes).to_string()),
        ("reserved", Size(usage.reserved_bytes).to_string()),
    ]);
    format!("{users}\n\n{total}")
}

fn importable(pools: &[ImportablePool]) -> String {
    if pools.is_empty() {
        return "no free drive of the node carries a pool that this version reads".to_owned();
    }
    let row = |pool: &ImportablePool| {
        vec![
            pool.name.clone(),
            pool.level.to_string(),
            format!("{} of {}", pool.drives.len(), pool.members),
            names(&pool.drives),
            pool.holder.clone().unwrap_or_else(|| "-".into()),
            pool.id.clone(),
        ]
    };
    let header = ["name", "level", "members", "drives", "held by", "identity"];
    table(&header, pools.iter().map(row))
}

/// What other drives carry that is of no pool above.
fn others(labels: &[CarriedLabel]) -> Option<String> {
    let others = labels.iter().filter(|label| !label.importable);
    let row = |label: &CarriedLabel| {
        let (carries, advice) = (label.carries.clone(), label.advice.clone());
        vec![label.drive.to_string(), carries, advice]
    };
    let rows: Vec<Vec<String>> = others.map(row).collect();
    let header = ["drive", "carries", "advice"];
    (!rows.is_empty()).then(|| table(&header, rows))
}
