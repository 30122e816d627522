//! What hosts prove to a node, and encrypt with: both follow from one secret of the controller.

use std::collections::HashMap;

use access::{Nqn, Secret, TlsKey};
use api::{Host, HostKeySpec, Name, TlsKeySpec};
use client::Client;
use tonic::Status;

use super::Work;
use crate::node::connection;
use crate::refusal::status;

/// What a storage class demands of hosts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Demands {
    /// They prove a secret by DH-HMAC-CHAP.
    pub dhchap: bool,
    /// They connect under TLS.
    pub tls: bool,
}

/// How a demand stands in the context of a volume: its parameter, and the value.
const DHCHAP: (&str, &str) = ("hostAuth", "dhchap");
const TLS: (&str, &str) = ("tls", "required");

impl Demands {
    /// What the context of a volume says.
    pub fn of(context: &HashMap<String, String>) -> Demands {
        let has = |(key, value): (&str, &str)| context.get(key).is_some_and(|it| it == value);
        Demands {
            dhchap: has(DHCHAP),
            tls: has(TLS),
        }
    }

    /// Says it in the context of a volume.
    pub fn tell(self, context: &mut HashMap<String, String>) {
        for (key, value) in self.all() {
            context.insert(key.to_owned(), value.to_owned());
        }
    }

    fn all(self) -> impl Iterator<Item = (&'static str, &'static str)> {
        let demands = [(self.dhchap, DHCHAP), (self.tls, TLS)];
        demands
            .into_iter()
            .filter_map(|(is_demanded, words)| is_demanded.then_some(words))
    }
}

/// What one host proves to one node.
pub struct Proof {
    secret: Option<Secret>,
    /// With one, the host connects under TLS alone.
    tls_key: Option<TlsKey>,
}

impl Work {
    /// Refuses what a host could not prove.
    pub(super) fn can_prove(&self, demands: Demands) -> Result<(), Status> {
        match demands.all().next() {
            Some((key, value)) if self.host_secret.is_none() => Err(Status::failed_precondition(
                format!("parameter {key} is {value}, and the controller has no --host-secret-file"),
            )),
            _ => Ok(()),
        }
    }

    /// What the host `nqn` proves to use `volume`. The node knows it as `own`, if it does.
    ///
    /// # Errors
    /// `FAILED_PRECONDITION` when it would have to connect in the clear and under TLS.
    pub(super) fn proof(
        &self,
        (nqn, own): (&Nqn, Option<&Host>),
        demands: Demands,
        volume: &Name,
    ) -> Result<Proof, Status> {
        self.can_prove(demands)?;
        let from = self.host_secret.as_ref();
        let from = from.map(|from| from.reveal().as_bytes());
        let has_key = own.is_some_and(|host| host.tls);
        let mut others = own.into_iter().flat_map(|host| &host.volumes);
        let tls_key = match from {
            _ if !demands.tls && !has_key => None,
            None => {
                return Err(Status::failed_precondition(format!(
                    "host {nqn} has a TLS key, and the controller has no --host-secret-file"
                )));
            }
            Some(from) => Some(TlsKey::derived(from, nqn)),
        };
        match others.find(|other| *other != volume) {
            Some(other) if tls_key.is_some() && !has_key => {
                Err(Status::failed_precondition(format!(
                    "host {nqn} has volume {other} without TLS, and would lose it: a host with a \
                     TLS key connects under TLS alone"
                )))
            }
            _ => Ok(Proof {
                secret: from.map(|from| Secret::derived(from, nqn)),
                tls_key,
            }),
        }
    }
}

impl Proof {
    /// Whether the host connects under TLS.
    pub fn is_under_tls(&self) -> bool {
        self.tls_key.is_some()
    }

    /// Has a node demand it of a host.
    pub fn demand(&self, client: &Client, host: &Name) -> Result<(), Status> {
        if let Some(secret) = &self.secret {
            let spec = HostKeySpec {
                secret: secret.reveal().as_str().into(),
                controller_secret: None,
                hash: Default::default(),
                group: Default::default(),
            };
            let set = client.set_host_key(host, &spec);
            set.map_err(|error| status(&error))?;
        }
        if let Some(key) = &self.tls_key {
            let key = key.reveal().as_str().into();
            let set = client.set_tls_key(host, &TlsKeySpec { key });
            set.map_err(|error| status(&error))?;
        }
        Ok(())
    }

    /// Tells the host, by the context of what is published to it.
    pub fn tell(&self, context: &mut HashMap<String, String>) {
        if let Some(secret) = &self.secret {
            let secret = secret.reveal().as_str().to_owned();
            context.insert(connection::SECRET.to_owned(), secret);
        }
        if let Some(key) = &self.tls_key {
            let key = key.reveal().as_str().to_owned();
            context.insert(connection::TLS_KEY.to_owned(), key);
        }
    }
}
