//! `flashyard namespace`

use api::{BlockSize, Name, NamespaceSpec, Namespaces, Size};
use clap::Subcommand;

use crate::connection::{Done, Node};
use crate::output::table;

#[derive(Subcommand)]
pub enum Verb {
    /// List the namespaces of a drive, and what is unallocated
    List {
        /// The drive
        drive: Name,
    },
    /// Create a namespace on a drive that no volume uses
    Create {
        /// The drive
        drive: Name,
        /// Its size; what is in no namespace becomes spare flash
        #[arg(long)]
        size: Size,
        /// Its logical block size
        #[arg(long, value_name = "BYTES", default_value = "4096", value_parser = block_size)]
        block_size: BlockSize,
    },
    /// Delete a namespace, with its data, of a drive that no volume uses
    Delete {
        /// The drive
        drive: Name,
        /// The namespace's identifier
        nsid: u32,
    },
    /// Attach a namespace of an NVMe drive that no volume uses to the node's machine
    Attach {
        /// The drive
        drive: Name,
        /// The namespace's identifier
        nsid: u32,
    },
    /// Detach a namespace of an NVMe drive that no volume uses; its data stays
    Detach {
        /// The drive
        drive: Name,
        /// The namespace's identifier
        nsid: u32,
    },
}

fn block_size(text: &str) -> Result<BlockSize, String> {
    let bytes: u32 = text.parse().map_err(|_| "a number of bytes".to_owned())?;
    BlockSize::try_from(bytes).map_err(|error| error.to_string())
}

impl Verb {
    pub fn run(&self, node: &Node) -> Done {
        match self {
            Verb::List { drive } => node.output.show(&node.client.namespaces(drive)?, list),
            Verb::Create {
                drive,
                size,
                block_size,
            } => {
                let spec = NamespaceSpec {
                    size: *size,
                    block_bytes: *block_size,
                };
                let made = node.client.create_namespace(drive, &spec)?;
                node.output
                    .show(&made, |made| format!("namespace {} created", made.nsid));
            }
            Verb::Delete { drive, nsid } => {
                node.client.delete_namespace(drive, *nsid)?;
                node.output.say(&format!("namespace {nsid} deleted"));
            }
            Verb::Attach { drive, nsid } => {
                let attached = node.client.attach_namespace(drive, *nsid)?;
                node.output.show(&attached, |attached| {
                    format!("namespace {} attached", attached.nsid)
                });
            }
            Verb::Detach { drive, nsid } => {
                node.client.detach_namespace(drive, *nsid)?;
                node.output.say(&format!("namespace {nsid} detached"));
            }
        }
        Ok(())
    }
}

fn yes(whether: bool) -> String {
    if whether { "yes" } else { "no" }.to_owned()
}

fn list(found: &Namespaces) -> String {
    let rows = found.namespaces.iter().map(|namespace| {
        vec![
            namespace.nsid.to_string(),
            Size(namespace.bytes).to_string(),
            namespace.block_bytes.to_string(),
            yes(namespace.attached),
            yes(namespace.used_as_drive),
        ]
    });
    let header = ["nsid", "size", "block size", "attached", "used as drive"];
    format!(
        "{}\n\n{} in all, {} unallocated, in steps of {}",
        table(&header, rows),
        Size(found.total_bytes),
        Size(found.unallocated_bytes),
        Size(found.granularity_bytes)
    )
}
