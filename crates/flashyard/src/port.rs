//! `flashyard port`

use api::{PathState, Port, PortChange};
use clap::{Subcommand, ValueEnum};

use crate::connection::{Done, Node};
use crate::output::table;

#[derive(Subcommand)]
pub enum Verb {
    /// List the addresses that serve hosts
    List,
    /// Make a port a better or a worse path for hosts that have several
    Set {
        /// Number of the port
        id: u16,
        /// State of the path; hosts are told at once (ANA)
        #[arg(long, value_enum)]
        path: PathWord,
    },
}

/// A [`PathState`] as it is typed.
#[derive(Clone, Copy, ValueEnum)]
pub enum PathWord {
    /// As good as any
    Optimized,
    /// To be used where no optimized path is left
    NonOptimized,
    /// Not to be used: I/O goes another way or waits
    Inaccessible,
}

impl Verb {
    pub fn run(&self, node: &Node) -> Done {
        match self {
            Verb::List => node
                .output
                .show(&node.client.ports()?, |ports| list(&ports.items)),
            Verb::Set { id, path } => {
                let path = match path {
                    PathWord::Optimized => PathState::Optimized,
                    PathWord::NonOptimized => PathState::NonOptimized,
                    PathWord::Inaccessible => PathState::Inaccessible,
                };
                let port = node.client.change_port(*id, PortChange { path })?;
                node.output
                    .show(&port, |port| list(std::slice::from_ref(port)));
            }
        }
        Ok(())
    }
}

fn list(ports: &[Port]) -> String {
    let row = |port: &Port| {
        vec![
            port.id.to_string(),
            port.address.clone(),
            port.advertise.clone().unwrap_or_else(|| "-".into()),
            match port.fault {
                Some(_) => "OFFLINE".to_owned(),
                None => port.path.word().to_owned(),
            },
            port.transport.word().to_owned(),
            if port.tls { "tls" } else { "-" }.to_owned(),
        ]
    };
    table(
        &[
            "port",
            "address",
            "advertised",
            "path",
            "transport",
            "security",
        ],
        ports.iter().map(row),
    )
}
