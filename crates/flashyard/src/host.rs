//! `flashyard host`

use api::{Host, HostConnections, HostRefusal, HostSpec, Name, Size};
use clap::Subcommand;

use crate::connection::{Done, Node};
use crate::host_key::Key;
use crate::output::{names, properties, table};
use crate::tls_key::TlsKey;

#[derive(Subcommand)]
pub enum Verb {
    /// List hosts
    List,
    /// Show a host's sessions, paths and volumes, its last refusal, and how it connects
    Show {
        /// The host
        name: Name,
        /// Only the commands that connect it, one a line, for a shell or a unit of systemd
        #[arg(long)]
        commands: bool,
    },
    /// Add a host
    Add {
        /// Its name
        name: Name,
        /// Its NVMe Qualified Name: the text in /etc/nvme/hostnqn on a Linux host
        #[arg(long)]
        nqn: String,
        /// The tenant it belongs to
        #[arg(long, value_name = "TENANT")]
        tenant: Option<Name>,
    },
    /// Show, make, set or remove the DH-HMAC-CHAP secret of a host
    Key(Key),
    /// Make, set or remove the key with which a host connects, under TLS alone
    TlsKey(TlsKey),
    /// Forget a host that no volume allows
    Remove {
        /// The host
        name: Name,
    },
}

impl Verb {
    pub fn run(&self, node: &Node) -> Done {
        match self {
            Verb::List => node
                .output
                .show(&node.client.hosts()?, |hosts| list(&hosts.items)),
            Verb::Show {
                name,
                commands: only_commands,
            } => {
                let shown = node.client.host_connections(name)?;
                match only_commands {
                    true => node.output.show(&shown.commands, |_| commands(&shown)),
                    false => node.output.show(&shown, show),
                }
            }
            Verb::Add { name, nqn, tenant } => {
                let spec = HostSpec {
                    nqn: nqn.clone(),
                    tenant: tenant.clone(),
                };
                let host = node.client.add_host(name, &spec)?;
                node.output
                    .show(&host, |host| list(std::slice::from_ref(host)));
            }
            Verb::Key(key) => key.run(node)?,
            Verb::TlsKey(key) => key.run(node)?,
            Verb::Remove { name } => {
                node.client.remove_host(name)?;
                node.output.say(&format!("host {name} removed"));
            }
        }
        Ok(())
    }
}

/// What the host has to prove, and how it connects.
fn keys(host: &Host) -> String {
    let proof = host.key.map(|key| format!("{} {}", key.hash, key.group));
    let parts: Vec<String> = proof
        .into_iter()
        .chain(host.tls.then(|| "tls".to_owned()))
        .collect();
    match parts.is_empty() {
        true => "-".to_owned(),
        false => parts.join(", "),
    }
}

pub(crate) fn list(hosts: &[Host]) -> String {
    let row = |host: &Host| {
        vec![
            host.name.to_string(),
            names(&host.volumes),
            keys(host),
            host.nqn.clone(),
        ]
    };
    table(&["name", "volumes", "key", "nqn"], hosts.iter().map(row))
}

/// All that concerns the connections of one host.
fn show(shown: &HostConnections) -> String {
    let refusal = shown.last_refusal.as_ref().map(|refusal| {
        let wanted = refusal.nqn.as_deref().unwrap_or("-");
        let HostRefusal {
            time,
            remote,
            reason,
            ..
        } = refusal;
        format!("{time} from {remote} for {wanted}: {reason}")
    });
    let host = properties(&[
        ("host", shown.host.name.to_string()),
        ("nqn", shown.host.nqn.clone()),
        ("key", keys(&shown.host)),
        ("last refusal", refusal.unwrap_or_else(|| "-".to_owned())),
    ]);
    let sessions = shown.sessions.iter().map(|session| {
        vec![
            session.remote.clone(),
            session.port.to_string(),
            session.path.word().to_owned(),
            session.queues.to_string(),
            format!("{} ms", session.keep_alive_ms),
            session.connected.clone(),
            session.controller_id.to_string(),
            session.nqn.clone(),
        ]
    });
    let header = [
        "address",
        "port",
        "path",
        "queues",
        "keep alive",
        "since",
        "controller",
        "nqn",
    ];
    let namespaces = shown.namespaces.iter().map(|namespace| {
        vec![
            namespace.volume.to_string(),
            Size(namespace.capacity_bytes).to_string(),
            namespace.paths.to_string(),
            namespace.nsid.to_string(),
            namespace.nqn.clone(),
        ]
    });
    let parts = [
        host,
        table(&header, sessions),
        table(&["volume", "capacity", "paths", "nsid", "nqn"], namespaces),
        commands(shown),
    ];
    parts.join("\n\n")
}

fn commands(shown: &HostConnections) -> String {
    shown.commands.join("\n")
}
