//! `flashyard snapshot`

use api::{Name, NamedSnapshot, Size, Snapshot, SnapshotGroup, SnapshotName};
use clap::Subcommand;

use crate::connection::{Done, Node};
use crate::output::table;

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
    /// Delete a snapshot; volumes cloned from it stay as they are
    Delete {
        /// The snapshot, as NAME or POOL/NAME
        name: SnapshotName,
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
            Verb::Delete { name } => {
                client.delete_snapshot(name)?;
                output.say(&format!("snapshot {name} deleted"));
            }
        }
        Ok(())
    }
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
