//! `flashyard host`

use api::{Host, HostSpec, Name};
use clap::Subcommand;

use crate::connection::{Done, Node};
use crate::host_key::Key;
use crate::output::{names, table};
use crate::tls_key::TlsKey;

#[derive(Subcommand)]
pub enum Verb {
    /// List hosts
    List,
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
