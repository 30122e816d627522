//! TLS keys: hosts that have one connect under TLS alone.

use std::collections::BTreeMap;

use api::{ErrorBody, Host, Name, NewTlsKey, SecretText, TlsHash, TlsKeyRequest, TlsKeySpec};
use node::{Node, NodeError, Nqn, PskHash, TlsKey};

use crate::control::hosts::credentials::Credential;
use crate::control::{Control, Objects};
use crate::state::Kind;

impl Credential for TlsKeySpec {
    type Usable = TlsKey;

    const KIND: Kind = Kind::TlsKey;
    const NAME: &'static str = "TLS key";
    const DUTY: &'static str = "connect under TLS";
    const COMMAND: &'static str = "tls-key";

    fn all(objects: &Objects) -> &BTreeMap<Name, TlsKeySpec> {
        &objects.tls_keys
    }

    fn all_mut(objects: &mut Objects) -> &mut BTreeMap<Name, TlsKeySpec> {
        &mut objects.tls_keys
    }

    fn unknown() -> TlsKeySpec {
        make_key(&TlsKeyRequest::default())
    }

    fn usable(&self) -> Result<TlsKey, ErrorBody> {
        let key = self.key.reveal().parse::<TlsKey>();
        key.map_err(|error| ErrorBody::invalid("key", error.to_string()))
    }

    async fn give(node: &Node, host: &Nqn, key: Option<TlsKey>) -> Result<(), NodeError> {
        node.set_tls_key(host, key).await
    }
}

impl Control {
    /// Has a host connect under TLS alone, with this key.
    pub async fn set_tls_key(&self, host: &Name, spec: TlsKeySpec) -> Result<Host, ErrorBody> {
        self.set_credential(host, spec).await?;
        self.host(host).await
    }

    /// Makes a new TLS key for a host, and gives it this once.
    pub async fn generate_tls_key(
        &self,
        host: &Name,
        request: TlsKeyRequest,
    ) -> Result<NewTlsKey, ErrorBody> {
        let spec = make_key(&request);
        self.set_credential(host, spec.clone()).await?;
        Ok(NewTlsKey {
            host: host.clone(),
            key: spec.key,
        })
    }

    /// Lets a host connect without TLS, where a port does not ask for it.
    pub async fn remove_tls_key(&self, host: &Name) -> Result<(), ErrorBody> {
        self.remove_credential::<TlsKeySpec>(host).await
    }
}

fn make_key(request: &TlsKeyRequest) -> TlsKeySpec {
    let made = TlsKey::generate(match request.hash {
        TlsHash::Sha256 => PskHash::Sha256,
        TlsHash::Sha384 => PskHash::Sha384,
    });
    TlsKeySpec {
        key: SecretText::from(made.reveal().as_str()),
    }
}
