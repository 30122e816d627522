//! `flashyard port`

use api::{Name, PathState, Port, PortChange};
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
        #[arg(long, value_enum, required_unless_present = "as_port")]
        path: Option<PathWord>,
        /// Of volumes of this pool alone
        #[arg(long)]
        pool: Option<Name>,
        /// The pool's state is the port's again
        #[arg(long, requires = "pool", conflicts_with = "path")]
        as_port: bool,
    },
}

/// A [`PathState`] as it is typed.
#[derive(Clone, Copy, ValueEnum)]
pub enum PathWord {
    /// As good as any
    Optimized,
    /// To be used where no optimized path is left
    NonOptimized,
    /// Between two others, for 10 seconds at most: I/O goes another way or waits
    Change,
    /// Not to be used: I/O goes another way or waits
    Inaccessible,
    /// Not to be used, for good: hosts that were told so are disconnected when it ends
    PersistentLoss,
}

impl From<PathWord> for PathState {
    fn from(word: PathWord) -> PathState {
        match word {
            PathWord::Optimized => PathState::Optimized,
            PathWord::NonOptimized => PathState::NonOptimized,
            PathWord::Change => PathState::Change,
            PathWord::Inaccessible => PathState::Inaccessible,
            PathWord::PersistentLoss => PathState::PersistentLoss,
        }
    }
}

impl Verb {
    pub fn run(&self, node: &Node) -> Done {
        match self {
            Verb::List => node
                .output
                .show(&node.client.ports()?, |ports| list(&ports.items)),
            Verb::Set { id, path, pool, .. } => {
                let path = path.map(PathState::from);
                let change = match (pool.clone(), path) {
                    (None, path) => PortChange {
                        path,
                        ..PortChange::default()
                    },
                    (Some(pool), Some(path)) => PortChange {
                        pools: [(pool, path)].into(),
                        ..PortChange::default()
                    },
                    (Some(pool), None) => PortChange {
                        as_port: [pool].into(),
                        ..PortChange::default()
                    },
                };
                let port = node.client.change_port(*id, &change)?;
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
                None => paths(port),
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

/// The state of a port, and those of pools that have their own.
fn paths(port: &Port) -> String {
    let own = port.pools.iter();
    let own = own.map(|(pool, path)| format!(", {pool}: {}", path.word()));
    format!("{}{}", port.path.word(), own.collect::<String>())
}
