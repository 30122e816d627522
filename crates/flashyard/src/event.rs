//! `flashyard event`

use api::{Event, Severity};
use clap::Subcommand;

use crate::connection::{Done, Node};
use crate::output::table;

#[derive(Subcommand)]
pub enum Verb {
    /// List the latest events, oldest first
    List {
        /// Only events after this one
        #[arg(long, value_name = "ID", default_value_t = 0)]
        after: u64,
    },
}

impl Verb {
    pub fn run(&self, node: &Node) -> Done {
        let Verb::List { after } = self;
        node.output
            .show(&node.client.events(*after)?, |events| list(&events.items));
        Ok(())
    }
}

fn list(events: &[Event]) -> String {
    let row = |event: &Event| {
        let severity = match event.severity {
            Severity::Info => "info",
            Severity::Warning => "WARNING",
            Severity::Error => "ERROR",
        };
        vec![
            event.id.to_string(),
            event.time.clone(),
            severity.to_owned(),
            event.object.clone(),
            event.message.clone(),
        ]
    };
    table(
        &["id", "time", "severity", "object", "message"],
        events.iter().map(row),
    )
}
