//! `flashyard status`

use std::fmt::Write;

use api::{Counts, Status};

use crate::connection::{Done, Node};
use crate::output::properties;

pub fn show(node: &Node) -> Done {
    node.output.show(&node.client.status()?, text);
    Ok(())
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
    let mut text = properties(&[
        ("node", status.name.to_string()),
        ("identity", status.uuid.to_string()),
        ("version", status.version.clone()),
        ("started", status.started.clone()),
        ("nvme/tcp", status.nvme_addresses.join(", ")),
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
