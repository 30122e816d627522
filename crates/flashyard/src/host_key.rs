//! `flashyard host key`

use std::io::Read;

use api::{HostKey, HostKeyRequest, HostKeySpec, KeyGroup, KeyHash, Name, NewHostKey, SecretText};
use clap::Args;

use crate::connection::{Done, Node};
use crate::output::properties;

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
            node.output
                .show(&client.generate_host_key(name, &request)?, generated);
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

/// Secrets are read from files, for the command line of a process is there for all to see.
pub(crate) fn read_secret(path: &str) -> Result<SecretText, String> {
    let mut text = String::new();
    let read = match path {
        "-" => std::io::stdin().read_to_string(&mut text).map(drop),
        path => std::fs::read_to_string(path).map(|read| text = read),
    };
    read.map_err(|error| error.to_string())?;
    Ok(SecretText::from(text.trim()))
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
