//! Host keys: what hosts prove before they are served.

use std::collections::BTreeMap;

use api::{
    ErrorBody, HostKey, HostKeyRequest, HostKeySpec, KeyGroup, KeyHash, Name, NewHostKey,
    SecretText,
};
use node::{ChapHash, DhGroup, HostKeys, Node, NodeError, Nqn, Secret};

use crate::control::hosts::credentials::{Credential, host_nqn, none};
use crate::control::{Control, Objects};
use crate::state::Kind;

impl Credential for HostKeySpec {
    type Usable = HostKeys;

    const KIND: Kind = Kind::HostKey;
    const NAME: &'static str = "key";
    const DUTY: &'static str = "authenticate";
    const COMMAND: &'static str = "key";

    fn all(objects: &Objects) -> &BTreeMap<Name, HostKeySpec> {
        &objects.host_keys
    }

    fn all_mut(objects: &mut Objects) -> &mut BTreeMap<Name, HostKeySpec> {
        &mut objects.host_keys
    }

    fn unknown() -> HostKeySpec {
        make_key(&HostKeyRequest::default())
    }

    fn detail(&self) -> String {
        format!(" with {} and {}", self.hash, self.group)
    }

    fn usable(&self) -> Result<HostKeys, ErrorBody> {
        let host = secret_of("secret", &self.secret)?;
        let controller = match &self.controller_secret {
            Some(text) => Some(secret_of("controller_secret", text)?),
            None => None,
        };
        if controller.as_ref() == Some(&host) {
            let message = "the same as the host's; allowed: another secret";
            return Err(ErrorBody::invalid("controller_secret", message));
        }
        Ok(HostKeys {
            host,
            controller,
            hash: hash_of(self.hash),
            group: group_of(self.group),
        })
    }

    async fn give(node: &Node, host: &Nqn, keys: Option<HostKeys>) -> Result<(), NodeError> {
        node.set_host_keys(host, keys).await
    }
}

impl Control {
    /// A host's key, without its secrets.
    pub async fn host_key(&self, host: &Name) -> Result<HostKey, ErrorBody> {
        let objects = self.objects.seen();
        host_nqn(&objects, host)?;
        let key = objects.host_keys.get(host);
        key.map(shown).ok_or_else(|| none::<HostKeySpec>(host))
    }

    /// Has a host prove the secret of `spec` from now on.
    pub async fn set_host_key(&self, host: &Name, spec: HostKeySpec) -> Result<HostKey, ErrorBody> {
        let key = shown(&spec);
        self.set_credential(host, spec).await?;
        Ok(key)
    }

    /// Makes a new key for a host, and gives its secrets this once.
    pub async fn generate_host_key(
        &self,
        host: &Name,
        request: HostKeyRequest,
    ) -> Result<NewHostKey, ErrorBody> {
        let spec = make_key(&request);
        self.set_credential(host, spec.clone()).await?;
        Ok(NewHostKey {
            host: host.clone(),
            secret: spec.secret,
            controller_secret: spec.controller_secret,
        })
    }

    /// Lets a host connect without authenticating.
    pub async fn remove_host_key(&self, host: &Name) -> Result<(), ErrorBody> {
        self.remove_credential::<HostKeySpec>(host).await
    }
}

/// A new key with secrets that nobody knows yet.
fn make_key(request: &HostKeyRequest) -> HostKeySpec {
    let make = || {
        let secret = Secret::generate(Some(hash_of(request.hash)));
        SecretText::from(secret.reveal().as_str())
    };
    HostKeySpec {
        secret: make(),
        controller_secret: request.mutual.then(make),
        hash: request.hash,
        group: request.group,
    }
}

/// A key as it is shown.
pub(in crate::control) fn shown(spec: &HostKeySpec) -> HostKey {
    HostKey {
        hash: spec.hash,
        group: spec.group,
        mutual: spec.controller_secret.is_some(),
    }
}

fn secret_of(field: &str, text: &SecretText) -> Result<Secret, ErrorBody> {
    let secret = text.reveal().parse::<Secret>();
    secret.map_err(|error| ErrorBody::invalid(field, error.to_string()))
}

fn hash_of(hash: KeyHash) -> ChapHash {
    match hash {
        KeyHash::Sha256 => ChapHash::Sha256,
        KeyHash::Sha384 => ChapHash::Sha384,
        KeyHash::Sha512 => ChapHash::Sha512,
    }
}

fn group_of(group: KeyGroup) -> DhGroup {
    match group {
        KeyGroup::Null => DhGroup::Null,
        KeyGroup::Ffdhe2048 => DhGroup::Ffdhe2048,
        KeyGroup::Ffdhe3072 => DhGroup::Ffdhe3072,
        KeyGroup::Ffdhe4096 => DhGroup::Ffdhe4096,
        KeyGroup::Ffdhe6144 => DhGroup::Ffdhe6144,
        KeyGroup::Ffdhe8192 => DhGroup::Ffdhe8192,
    }
}
