//! TLS keys: hosts that have one connect under TLS alone.

use std::collections::BTreeMap;

use api::{
    ErrorBody, ErrorCode, Host, Name, NewTlsKey, SecretText, Severity, TlsHash, TlsKeyRequest,
    TlsKeySpec,
};
use node::{Nqn, PskHash, TlsKey};

use super::host_keys::host_nqn;
use super::{Control, Objects, StartError};
use crate::state::Kind;

impl Control {
    /// Has a host connect under TLS alone, with this key.
    pub async fn set_tls_key(&self, host: &Name, spec: TlsKeySpec) -> Result<Host, ErrorBody> {
        let mut objects = self.objects.lock().await;
        let nqn = host_nqn(&objects, host)?;
        let key = key_of(&spec)?;
        if objects.tls_keys.get(host) != Some(&spec) {
            self.remember(Kind::TlsKey, host, spec.clone()).await?;
            objects.tls_keys.insert(host.clone(), spec);
            self.node_takes_tls_key(&nqn, Some(key)).await?;
            self.events.record(
                Severity::Info,
                &format!("host/{host}"),
                "has to connect under TLS",
            );
        }
        drop(objects);
        self.host(host).await
    }

    /// Makes a new TLS key for a host, and gives it this once.
    pub async fn generate_tls_key(
        &self,
        host: &Name,
        request: TlsKeyRequest,
    ) -> Result<NewTlsKey, ErrorBody> {
        let made = TlsKey::generate(match request.hash {
            TlsHash::Sha256 => PskHash::Sha256,
            TlsHash::Sha384 => PskHash::Sha384,
        });
        let key = SecretText::from(made.reveal().as_str());
        let spec = TlsKeySpec { key: key.clone() };
        self.set_tls_key(host, spec).await?;
        let host = host.clone();
        Ok(NewTlsKey { host, key })
    }

    /// Lets a host connect without TLS, where a port does not ask for it.
    pub async fn remove_tls_key(&self, host: &Name) -> Result<(), ErrorBody> {
        let mut objects = self.objects.lock().await;
        host_nqn(&objects, host)?;
        if !objects.tls_keys.contains_key(host) {
            let message = format!("host {host} has no TLS key");
            return Err(ErrorBody::new(ErrorCode::NotFound, message));
        }
        self.drop_tls_key(&mut objects, host).await
    }

    /// Forgets a host's TLS key, if it has one.
    pub(super) async fn drop_tls_key(
        &self,
        objects: &mut Objects,
        host: &Name,
    ) -> Result<(), ErrorBody> {
        if !objects.tls_keys.contains_key(host) {
            return Ok(());
        }
        let nqn = host_nqn(objects, host)?;
        self.forget(Kind::TlsKey, host).await?;
        objects.tls_keys.remove(host);
        self.node_takes_tls_key(&nqn, None).await?;
        let message = "need not connect under TLS any more";
        self.events
            .record(Severity::Warning, &format!("host/{host}"), message);
        Ok(())
    }

    /// Makes every remembered key count, before anything is served. A key that cannot be used ends
    /// the start: its host would be let in without it.
    pub(super) async fn restore_tls_keys(
        &self,
        keys: BTreeMap<Name, TlsKeySpec>,
    ) -> Result<(), StartError> {
        let mut objects = self.objects.lock().await;
        for (host, spec) in keys {
            let unusable = |error: ErrorBody| StartError::HostKey {
                host: host.clone(),
                reason: error.message,
            };
            let nqn = host_nqn(&objects, &host).map_err(unusable)?;
            let key = key_of(&spec).map_err(unusable)?;
            self.node.set_tls_key(&nqn, Some(key)).await?;
            objects.tls_keys.insert(host, spec);
        }
        Ok(())
    }

    async fn node_takes_tls_key(&self, nqn: &Nqn, key: Option<TlsKey>) -> Result<(), ErrorBody> {
        let done = self.node.set_tls_key(nqn, key).await;
        done.map_err(|error| ErrorBody::new(ErrorCode::Internal, error.to_string()))
    }
}

fn key_of(spec: &TlsKeySpec) -> Result<TlsKey, ErrorBody> {
    let key = spec.key.reveal().parse::<TlsKey>();
    key.map_err(|error| ErrorBody::invalid("key", error.to_string()))
}
