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
    /// Show where the space of a pool has gone: what each volume and snapshot holds and shares
    Usage {
        /// The pool
        name: Name,
    },
    /// Make a pool out of drives that carry nothing
    Create(Create),
    /// Check everything in a pool, and repair what can be
    Scrub {
        /// The pool
        name: Name,
        /// End a scrub that is under way
        #[arg(long, conflicts_with = "wait")]
        stop: bool,
        #[command(flatten)]
        patience: job::Patience,
    },
    /// Add a drive that carries nothing to a pool
    AddDrive {
        #[command(flatten)]
        member: Member,
        /// Take it although it carries something, such as a file system, which is gone then
        #[arg(long)]
        force: bool,
    },
    /// Move everything off a drive; then it is free
    RemoveDrive {
        #[command(flatten)]
        member: Member,
        #[command(flatten)]
        patience: job::Patience,
    },
    /// Take a drive out of use for good, at once; what was on it is rebuilt
    FailDrive(Member),
    /// Stop serving a pool and let go of it, so that another node may import it
    Export {
        /// The pool
        name: Name,
        /// Export it while hosts are connected to its volumes, which lose their disks
        #[arg(long)]
        force: bool,
    },
    /// Take a pool that the node's drives carry, and serve its volumes; without a name, list them
    Import(Import),
    /// Destroy a pool that has no volumes and no snapshots
    Destroy {
        /// The pool
        name: Name,
    },
}

#[derive(Args)]
pub struct Create {
    /// What to call it
    name: Name,
    /// Redundancy: raid0, raid1, raid5, raid6 or raid10
    #[arg(long)]
    level: PoolLevel,
    /// Drives it takes, such as d0,d1,d2,d3
    #[arg(long, value_name = "DRIVES", value_delimiter = ',', required = true)]
    drives: Vec<Name>,
    /// Drives that one stripe is spread over, instead of all; fewer leave room to rebuild at full
    /// width
    #[arg(long, value_name = "COUNT")]
    width: Option<u8>,
    /// Take drives that carry something, such as file systems, which are gone then
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
    /// The pool; without one, what could be imported is listed
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
    /// Go on from what can be read, although drives that do not read may hold what was written last
    #[arg(long, requires = "name")]
    accept_loss: bool,
    /// Go on without members that are absent: what they hold is rebuilt on the others, and they
    /// join as new drives when they are back
    #[arg(long, requires = "name")]
    degraded: bool,
    /// Use these drives only, such as d0,d1; all that carry it unless said otherwise
    #[arg(long, value_name = "DRIVES", value_delimiter = ',', requires = "name")]
    drives: Vec<Name>,
    /// Call it this from now on
    #[arg(long = "as", value_name = "NAME", requires = "name")]
    rename: Option<Name>,
    /// Call a volume of it otherwise from now on; may be repeated
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

fn state(state: PoolState) -> String {
    match state {
        PoolState::Online => "online",
        PoolState::Degraded => "DEGRADED",
        PoolState::Offline => "OFFLINE",
    }
    .to_owned()
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
            state(pool.state),
            level(pool),
            Size(pool.usable_bytes).to_string(),
            Size(pool.used_bytes).to_string(),
            pool.volumes.len().to_string(),
            members.collect::<Vec<_>>().join(","),
        ]
    };
    let header = [
        "name", "state", "level", "usable", "used", "volumes", "drives",
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
        ("state", state(pool.state)),
        ("reason", pool.reason.clone().unwrap_or_else(|| "-".into())),
        ("level", shape(pool)),
        (
            "drives to spare",
            pool.drives_to_spare.map_or("-".into(), |it| it.to_string()),
        ),
        ("usable", Size(pool.usable_bytes).to_string()),
        ("used", format!("{} ({percent}%)", Size(pool.used_bytes))),
        ("being freed", Size(pool.deleted_bytes).to_string()),
        ("reserved", Size(pool.reserved_bytes).to_string()),
        ("volumes", names(&pool.volumes)),
        ("map", map(pool)),
        ("segments", segments(pool)),
        ("full ones, by live", closed(pool)),
        (
            "checked",
            pool.scrubbed.clone().unwrap_or_else(|| "-".into()),
        ),
        ("written by hosts", blocks(counters.host_blocks_written)),
        (
            "written to drives",
            blocks(counters.stripe_blocks_written + counters.map_blocks_written),
        ),
        ("moved", blocks(counters.relocated_blocks)),
        ("to other drives", blocks(counters.rebalanced_blocks)),
        ("rebuilt to read", blocks(counters.reconstructed_reads)),
        ("repaired", blocks(counters.repaired_blocks)),
        ("lost", blocks(counters.unrecovered_reads)),
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
        "wrong blocks",
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
        ("of nobody", Size(usage.unnamed_bytes).to_string()),
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
    let header = ["drive", "carries", "what to do"];
    (!rows.is_empty()).then(|| table(&header, rows))
}
