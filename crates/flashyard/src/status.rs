//! `flashyard status`

use std::fmt::Write;

use api::{Counts, Status};
use clap::Args;
use serde::Serialize;

use crate::attach::{self, Directory, Listed};
use crate::connection::{Done, Node};
use crate::output::properties;

/// Show the node at a glance, and what is attached to this host.
#[derive(Args)]
pub struct Show {
    #[command(flatten)]
    attached: Directory,
}

/// What is shown.
#[derive(Serialize)]
struct Glance {
    #[serde(flatten)]
    node: Status,
    /// What is attached to this host; nothing where that may not be read.
    attached: Option<Vec<Listed>>,
}

impl Show {
    pub fn run(&self, node: &Node) -> Done {
        let glance = Glance {
            node: node.client.status()?,
            attached: attach::listed(&self.attached).ok(),
        };
        node.output.show(&glance, |glance| {
            let here = glance.attached.as_deref().map(attached).unwrap_or_default();
            text(&glance.node) + &here
        });
        Ok(())
    }
}

/// How many are attached, and each whose I/O does not reach its node. Empty where there is none.
fn attached(listed: &[Listed]) -> String {
    if listed.is_empty() {
        return String::new();
    }
    let troubles: Vec<String> = listed.iter().filter_map(Listed::trouble).collect();
    let mut text = format!("\nattached to this host: {}", listed.len());
    if !troubles.is_empty() {
        let _ = write!(text, ", {} of them without its node", troubles.len());
    }
    for trouble in troubles {
        let _ = write!(text, "\n  {trouble}");
    }
    text
}

fn text(status: &Status) -> String {
    let cores = match status.cores.as_slice() {
        [] => "one, placed by the kernel".to_owned(),
        cores => cores
            .iter()
            .map(u32::to_string)
            .collect::<Vec<_>>()
            .join(", "),
    };
    let rdma = match status.nvme_rdma_addresses.as_slice() {
        [] => "-".to_owned(),
        addresses => addresses.join(", "),
    };
    let mut text = properties(&[
        ("node", status.name.to_string()),
        ("identity", status.uuid.to_string()),
        ("version", status.version.clone()),
        ("started", status.started.clone()),
        ("nvme/tcp", status.nvme_addresses.join(", ")),
        ("nvme/rdma", rdma),
        ("discovery", status.discovery_nqn.clone()),
        ("cores", cores),
        ("drives", count(status.drives)),
        ("pools", count(status.pools)),
        ("volumes", count(status.volumes)),
        ("sessions", status.sessions.to_string()),
        (
            "problems",
            if status.problems.is_empty() {
                "none".into()
            } else {
                String::new()
            },
        ),
    ]);
    for problem in &status.problems {
        let _ = write!(text, "\n  {problem}");
    }
    text
}

fn count(counts: Counts) -> String {
    match counts.offline {
        0 => counts.total.to_string(),
        offline => format!("{}, {offline} of them OFFLINE", counts.total),
    }
}
