//! `flashyard host key`

use api::{
    Host, HostKey, HostKeyRequest, HostKeySpec, KeyGroup, KeyHash, Name, NewHostKey, SecretText,
};
use clap::Args;
use client::{Client, ClientError};

use crate::connection::{Done, Node};
use crate::output::properties;
use crate::secret::read_secret;

#[derive(Args)]
pub struct Key {
    /// The host
    name: Name,
    #[command(flatten)]
    action: Action,
    /// With --generate: make a secret for the node to prove as well
    #[arg(long, requires = "generate")]
    mutual: bool,
    /// With --set: the file with the secret that the node proves
    #[arg(long, value_name = "FILE", requires = "set", value_parser = read_secret)]
    controller: Option<SecretText>,
    /// The hash to use: sha256, sha384 or sha512
    #[arg(long, default_value_t)]
    hash: KeyHash,
    /// The group to use: null, ffdhe2048, ffdhe3072, ffdhe4096, ffdhe6144 or ffdhe8192
    #[arg(long, default_value_t = KeyGroup::Ffdhe3072)]
    group: KeyGroup,
}

#[derive(Args)]
#[group(multiple = false)]
struct Action {
    /// Make a new key and show its secrets, this once
    #[arg(long)]
    generate: bool,
    /// Take the secret, of the form DHHC-1:TT:BASE64:, in this file; - is standard input
    #[arg(long, value_name = "FILE", value_parser = read_secret)]
    set: Option<SecretText>,
    /// Ask nothing of the host any more
    #[arg(long)]
    remove: bool,
}

impl Key {
    pub fn run(&self, node: &Node) -> Done {
        let (name, client) = (&self.name, &node.client);
        let (hash, group) = (self.hash, self.group);
        if self.action.generate {
            let mutual = self.mutual;
            let request = HostKeyRequest {
                mutual,
                hash,
                group,
            };
            let had_none = !has_already(client, name, |host| host.key.is_some())?;
            let make = || client.generate_host_key(name, &request);
            node.output.show_once(make, generated, |_| {
                let removed = had_none.then(|| client.remove_host_key(name).map(drop));
                taken_back("key", name, removed)
            })?;
        } else if let Some(secret) = &self.action.set {
            let spec = HostKeySpec {
                secret: secret.clone(),
                controller_secret: self.controller.clone(),
                hash,
                group,
            };
            node.output.show(&client.set_host_key(name, &spec)?, shown);
        } else if self.action.remove {
            client.remove_host_key(name)?;
            node.output
                .say(&format!("host {name} need not authenticate any more"));
        } else {
            node.output.show(&client.host_key(name)?, shown);
        }
        Ok(())
    }
}

/// Whether a host that is there has something.
pub fn has_already(
    client: &Client,
    host: &Name,
    has: impl Fn(&Host) -> bool,
) -> Result<bool, ClientError> {
    let hosts = client.hosts()?.items;
    Ok(hosts.iter().any(|found| found.name == *host && has(found)))
}

/// What became of a key that could not be shown. A former one is not known any more.
pub fn taken_back(kind: &str, host: &Name, removed: Option<Result<(), ClientError>>) -> String {
    match removed {
        Some(Ok(())) => format!("the {kind} of host {host} was removed again"),
        Some(Err(error)) => format!("the {kind} of host {host} counts, unseen: {error}"),
        None => {
            format!("the new {kind} of host {host} counts in place of the former: make another")
        }
    }
}

fn generated(key: &NewHostKey) -> String {
    let mut rows = vec![("--dhchap-secret", key.secret.reveal().to_owned())];
    if let Some(secret) = &key.controller_secret {
        rows.push(("--dhchap-ctrl-secret", secret.reveal().to_owned()));
    }
    properties(&rows)
}

fn shown(key: &HostKey) -> String {
    properties(&[
        ("hash", key.hash.to_string()),
        ("group", key.group.to_string()),
        ("mutual", if key.mutual { "yes" } else { "no" }.to_owned()),
    ])
}
