//! `flashyard drive`

use api::{Drive, DriveSpec, Name, Size};
use clap::{Args, Subcommand};

use crate::connection::{Done, Node};
use crate::output::{properties, state, table};

#[derive(Subcommand)]
pub enum Verb {
    /// List drives
    List,
    /// Show one drive
    Show {
        /// The drive
        name: Name,
    },
    /// Add a drive, or try an offline one again
    Add(Add),
    /// Close and forget a drive that no volume uses; its contents stay
    Remove {
        /// The drive
        name: Name,
    },
}

#[derive(Args)]
pub struct Add {
    /// What to call it
    name: Name,
    #[command(flatten)]
    source: Source,
    /// Make the file, sparse, this large if it is missing
    #[arg(long, value_name = "SIZE", requires = "path")]
    size: Option<Size>,
}

#[derive(Args)]
#[group(required = true, multiple = false)]
pub struct Source {
    /// Block device or file, an absolute path on the node
    path: Option<String>,
    /// Memory of the node, lost when it stops: for tests
    #[arg(long, value_name = "SIZE")]
    memory: Option<Size>,
    /// Keeps nothing and reads as zeroes: for measuring everything above it
    #[arg(long, value_name = "SIZE")]
    null: Option<Size>,
}

impl Verb {
    pub fn run(&self, node: &Node) -> Done {
        match self {
            Verb::List => node
                .output
                .show(&node.client.drives()?, |drives| list(&drives.items)),
            Verb::Show { name } => node.output.show(&node.client.drive(name)?, show),
            Verb::Add(add) => {
                let drive = node.client.add_drive(&add.name, &add.spec())?;
                node.output
                    .show(&drive, |drive| list(std::slice::from_ref(drive)));
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
            Source { path, .. } => DriveSpec::Path {
                // clap lets none of the three be missing.
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
            drive
                .volume
                .as_ref()
                .map_or("-".into(), ToString::to_string),
            source(&drive.spec),
        ]
    };
    table(
        &["name", "state", "capacity", "volume", "source"],
        drives.iter().map(row),
    )
}

fn show(drive: &Drive) -> String {
    properties(&[
        ("drive", drive.name.to_string()),
        ("source", source(&drive.spec)),
        ("state", state(drive.state)),
        ("reason", drive.reason.clone().unwrap_or_else(|| "-".into())),
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
        (
            "volume",
            drive
                .volume
                .as_ref()
                .map_or("-".into(), ToString::to_string),
        ),
    ])
}

fn source(spec: &DriveSpec) -> String {
    match spec {
        DriveSpec::Path { path, .. } => path.clone(),
        DriveSpec::Memory { .. } => "memory (test only)".to_owned(),
        DriveSpec::Null { .. } => "null (test only)".to_owned(),
    }
}
