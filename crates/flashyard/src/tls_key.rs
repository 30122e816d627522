//! `flashyard host tls-key`

use api::{Name, NewTlsKey, SecretText, TlsHash, TlsKeyRequest, TlsKeySpec};
use clap::Args;

use crate::connection::{Done, Node};
use crate::host::list;
use crate::host_key::{has_already, taken_back};
use crate::output::properties;
use crate::secret::read_secret;

#[derive(Args)]
pub struct TlsKey {
    /// The host
    name: Name,
    #[command(flatten)]
    action: Action,
    /// With --generate: the hash to use, sha256 or sha384
    #[arg(long, default_value_t, conflicts_with_all = ["set", "remove"])]
    hash: TlsHash,
}

#[derive(Args)]
#[group(required = true, multiple = false)]
struct Action {
    /// Make a new key and show it, this once
    #[arg(long)]
    generate: bool,
    /// Take the key, of the form NVMeTLSkey-1:HH:BASE64:, in this file; - is standard input
    #[arg(long, value_name = "FILE", value_parser = read_secret)]
    set: Option<SecretText>,
    /// Let the host connect without TLS, where a port does not ask for it
    #[arg(long)]
    remove: bool,
}

impl TlsKey {
    pub fn run(&self, node: &Node) -> Done {
        let (name, client) = (&self.name, &node.client);
        if self.action.generate {
            let request = TlsKeyRequest { hash: self.hash };
            let had_none = !has_already(client, name, |host| host.tls)?;
            let make = || client.generate_tls_key(name, &request);
            node.output.show_once(make, generated, |_| {
                let removed = had_none.then(|| client.remove_tls_key(name).map(drop));
                taken_back("TLS key", name, removed)
            })?;
        } else if let Some(key) = &self.action.set {
            let spec = TlsKeySpec { key: key.clone() };
            node.output.show(&client.set_tls_key(name, &spec)?, |host| {
                list(std::slice::from_ref(host))
            });
        } else {
            client.remove_tls_key(name)?;
            node.output
                .say(&format!("host {name} need not connect under TLS any more"));
        }
        Ok(())
    }
}

fn generated(key: &NewTlsKey) -> String {
    properties(&[("key", key.key.reveal().to_owned())])
}
