//! `flashyard audit`

use api::AuditEntry;
use clap::Subcommand;

use crate::connection::{Done, Node};
use crate::output::table;

#[derive(Subcommand)]
pub enum Verb {
    /// List changes, made or refused, oldest first
    List {
        /// Only those after this one
        #[arg(long, value_name = "ID", default_value_t = 0)]
        after: u64,
    },
}

impl Verb {
    pub fn run(&self, node: &Node) -> Done {
        let Verb::List { after } = self;
        node.output
            .show(&node.client.audit(*after)?, |log| list(&log.items));
        Ok(())
    }
}

fn list(entries: &[AuditEntry]) -> String {
    let row = |entry: &AuditEntry| {
        let result = if entry.status < 300 {
            "done".to_owned()
        } else {
            let others = match entry.others {
                0 => String::new(),
                others => format!(", and {others} more"),
            };
            format!("refused, {}{others}", entry.status)
        };
        vec![
            entry.id.to_string(),
            entry.time.clone(),
            entry.token.to_string(),
            entry.from.clone(),
            result,
            format!("{} {}", entry.method, entry.path),
            entry.body.clone().unwrap_or_else(|| "-".into()),
        ]
    };
    let header = ["id", "time", "token", "address", "result", "change", "body"];
    table(&header, entries.iter().map(row))
}
