//! `flashyard session`

use api::Session;
use clap::Subcommand;

use crate::connection::{Done, Node};
use crate::output::table;

#[derive(Subcommand)]
pub enum Verb {
    /// List sessions
    List,
}

impl Verb {
    pub fn run(&self, node: &Node) -> Done {
        let Verb::List = self;
        node.output
            .show(&node.client.sessions()?, |sessions| list(&sessions.items));
        Ok(())
    }
}

fn list(sessions: &[Session]) -> String {
    let row = |session: &Session| {
        vec![
            session
                .host
                .as_ref()
                .map_or("-".into(), ToString::to_string),
            session.remote.clone(),
            session.queues.to_string(),
            session.controller_id.to_string(),
            session.nqn.clone(),
            session.host_nqn.clone(),
        ]
    };
    let header = ["host", "address", "queues", "controller", "nqn", "host nqn"];
    table(&header, sessions.iter().map(row))
}
