//! `flashyard snapshot`

use api::{
    EXTENTS_MAX, Extent, Extents, ExtentsQuery, Keep, Name, NamedSnapshot, Schedule, ScheduleSpec,
    Size, Snapshot, SnapshotGroup, SnapshotName,
};
use clap::Subcommand;
use client::ClientError;

use crate::connection::{Done, Node};
use crate::copies::SendSnapshot;
use crate::output::{names, properties, table};

#[derive(Subcommand)]
pub enum Verb {
    /// List snapshots
    List,
    /// Take snapshots of several volumes of one pool at one instant
    Create {
        /// Volume and name of each, such as data=data-monday log=log-monday
        #[arg(value_name = "VOLUME=SNAPSHOT", required = true, value_parser = pair)]
        snapshots: Vec<NamedSnapshot>,
    },
    /// List the bytes of a snapshot that hold something, or may differ from another one
    ///
    /// What may differ was written or deallocated between the two. A backup copies it, and passes
    /// over what reads as zeroes.
    Extents {
        /// The snapshot, as NAME or POOL/NAME
        name: SnapshotName,
        /// Only what may differ from this snapshot of the pool
        #[arg(long, value_name = "NAME")]
        since: Option<SnapshotName>,
        /// Begin at this byte
        #[arg(long, value_name = "BYTES", default_value_t = 0)]
        from: u64,
        /// At most so many extents
        #[arg(long, value_name = "COUNT", default_value_t = EXTENTS_MAX,
            value_parser = clap::value_parser!(u32).range(1..=i64::from(EXTENTS_MAX)))]
        limit: u32,
    },
    Send(Box<SendSnapshot>),
    /// Delete a snapshot; volumes cloned from it stay as they are
    Delete {
        /// The snapshot, as NAME or POOL/NAME
        name: SnapshotName,
    },
    /// Take snapshots of volumes each hour, day or week, and keep so many of them
    ///
    /// Hours, days and weeks are those of UTC; weeks begin on Monday. The first snapshot of each
    /// stays as that period's. Run again with other numbers or volumes, the schedule is changed.
    Schedule {
        /// Volumes of one pool; their snapshots are of one instant
        #[arg(value_name = "VOLUME", required = true)]
        volumes: Vec<Name>,
        /// How many hourly snapshots to keep
        #[arg(long, value_name = "COUNT", default_value_t = 0)]
        hourly: u32,
        /// How many daily snapshots to keep
        #[arg(long, value_name = "COUNT", default_value_t = 0)]
        daily: u32,
        /// How many weekly snapshots to keep
        #[arg(long, value_name = "COUNT", default_value_t = 0)]
        weekly: u32,
        /// Name of the schedule; else that of the first volume
        #[arg(long)]
        name: Option<Name>,
    },
    /// List schedules
    Schedules {
        /// Only this schedule, with the snapshots that it keeps
        name: Option<Name>,
    },
    /// Take no more snapshots on a schedule; those that it took stay
    Unschedule {
        /// The schedule
        name: Name,
    },
}

fn pair(text: &str) -> Result<NamedSnapshot, String> {
    let (volume, name) = text.split_once('=').ok_or("allowed: VOLUME=SNAPSHOT")?;
    let parse = |text: &str| text.parse::<Name>().map_err(|error| error.to_string());
    Ok(NamedSnapshot {
        name: parse(name)?,
        volume: parse(volume)?,
    })
}

impl Verb {
    pub fn run(&self, node: &Node) -> Done {
        let (client, output) = (&node.client, &node.output);
        match self {
            Verb::List => output.show(&client.snapshots()?, |found| list(&found.items)),
            Verb::Create { snapshots } => {
                let group = SnapshotGroup {
                    snapshots: snapshots.clone(),
                };
                output.show(&client.create_snapshots(&group)?, |taken| {
                    list(&taken.items)
                });
            }
            Verb::Extents {
                name,
                since,
                from,
                limit,
            } => {
                let query = ExtentsQuery {
                    since: since.clone(),
                    from: Some(*from),
                    limit: Some(*limit),
                };
                output.show(&gathered(node, name, query)?, extents);
            }
            Verb::Send(send) => send.run(node)?,
            Verb::Delete { name } => {
                client.delete_snapshot(name)?;
                output.say(&format!("snapshot {name} deleted"));
            }
            Verb::Schedule {
                volumes,
                hourly,
                daily,
                weekly,
                name,
            } => {
                let spec = ScheduleSpec {
                    volumes: volumes.clone(),
                    keep: Keep {
                        hourly: *hourly,
                        daily: *daily,
                        weekly: *weekly,
                    },
                };
                // At least one is required.
                let named = name.as_ref().or(volumes.first());
                if let Some(named) = named {
                    output.show(&client.set_schedule(named, &spec)?, one_schedule);
                }
            }
            Verb::Schedules { name: None } => {
                output.show(&client.schedules()?, |found| schedules(&found.items));
            }
            Verb::Schedules { name: Some(name) } => {
                output.show(&client.schedule(name)?, one_schedule);
            }
            Verb::Unschedule { name } => {
                client.remove_schedule(name)?;
                output.say(&format!("schedule {name} removed; its snapshots stay"));
            }
        }
        Ok(())
    }
}

/// As many extents as are asked for, if there are: an answer may have fewer.
fn gathered(node: &Node, name: &SnapshotName, query: ExtentsQuery) -> Result<Extents, ClientError> {
    let mut found = node.client.snapshot_extents(name, &query)?;
    while let (Some(next), Some(limit)) = (found.next, query.limit) {
        let had = u32::try_from(found.extents.len()).unwrap_or(limit);
        if had >= limit {
            break;
        }
        let more = ExtentsQuery {
            from: Some(next),
            limit: Some(limit - had),
            ..query.clone()
        };
        let more = node.client.snapshot_extents(name, &more)?;
        found.extents.extend(more.extents);
        found.next = more.next;
    }
    Ok(found)
}

/// Extents as a table, and where to go on.
fn extents(found: &Extents) -> String {
    let row = |extent: &Extent| {
        let contents = if extent.zeroes { "zeroes" } else { "data" };
        vec![
            extent.start.to_string(),
            extent.bytes.to_string(),
            contents.to_owned(),
        ]
    };
    let header = ["start", "bytes", "contents"];
    let mut text = table(&header, found.extents.iter().map(row));
    if let Some(next) = found.next {
        text.push_str(&format!("\nmore may follow: --from {next}"));
    }
    text
}

/// Snapshots as a table.
pub fn list(snapshots: &[Snapshot]) -> String {
    let row = |snapshot: &Snapshot| {
        let volume = snapshot.volume.as_ref();
        vec![
            snapshot.name.clone(),
            volume.map_or("-".to_owned(), Name::to_string),
            snapshot.pool.to_string(),
            Size(snapshot.bytes).to_string(),
            snapshot.taken.clone().unwrap_or_else(|| "-".to_owned()),
        ]
    };
    let header = ["name", "volume", "pool", "size", "taken"];
    table(&header, snapshots.iter().map(row))
}

fn schedules(schedules: &[Schedule]) -> String {
    let row = |schedule: &Schedule| {
        let Keep {
            hourly,
            daily,
            weekly,
        } = schedule.keep;
        vec![
            schedule.name.to_string(),
            names(&schedule.volumes),
            hourly.to_string(),
            daily.to_string(),
            weekly.to_string(),
            schedule.snapshots.len().to_string(),
            schedule.next.clone(),
            schedule.problem.clone().unwrap_or_else(|| "-".to_owned()),
        ]
    };
    let header = [
        "name",
        "volumes",
        "hourly",
        "daily",
        "weekly",
        "snapshots",
        "next",
        "problem",
    ];
    table(&header, schedules.iter().map(row))
}

fn one_schedule(schedule: &Schedule) -> String {
    let known = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
    let Keep {
        hourly,
        daily,
        weekly,
    } = schedule.keep;
    properties(&[
        ("name", schedule.name.to_string()),
        ("volumes", names(&schedule.volumes)),
        ("hourly", hourly.to_string()),
        ("daily", daily.to_string()),
        ("weekly", weekly.to_string()),
        ("last", known(&schedule.last)),
        ("next", schedule.next.clone()),
        ("problem", known(&schedule.problem)),
        ("snapshots", names(&schedule.snapshots)),
    ])
}
