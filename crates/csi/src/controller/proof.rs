//! What hosts prove to a node, and encrypt with: both follow from one secret of the controller.

use std::collections::HashMap;

use access::{Nqn, Secret, TlsKey};
use api::{Host, HostKeySpec, Name, TlsKeySpec};
use client::Client;
use tonic::Status;

use super::Work;
use crate::node::connection;
use crate::parameters::Demands;
use crate::refusal::status;

/// What one host proves to one node.
#[derive(Default)]
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
        let has_key = own.is_some_and(|host| host.tls);
        let is_under_tls = demands.tls || has_key;
        let Some(from) = &self.host_secret else {
            return match is_under_tls {
                true => Err(Status::failed_precondition(format!(
                    "host {nqn} has a TLS key, and the controller has no --host-secret-file"
                ))),
                false => Ok(Proof::default()),
            };
        };
        let mut volumes = own.into_iter().flat_map(|host| &host.volumes);
        if is_under_tls
            && !has_key
            && let Some(other) = volumes.find(|other| *other != volume)
        {
            return Err(Status::failed_precondition(format!(
                "host {nqn} has volume {other} without TLS, and would lose it: a host with a TLS \
                 key connects under TLS alone"
            )));
        }
        let from = from.reveal().as_bytes();
        Ok(Proof {
            secret: Some(Secret::derived(from, nqn)),
            tls_key: is_under_tls.then(|| TlsKey::derived(from, nqn)),
        })
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
