//! Host keys: what hosts prove before they are served.

use std::collections::BTreeMap;

use api::{
    ErrorBody, ErrorCode, HostKey, HostKeyRequest, HostKeySpec, KeyGroup, KeyHash, Name,
    NewHostKey, SecretText, Severity,
};
use node::{ChapHash, DhGroup, HostKeys, NodeError, Nqn, Secret};

use super::hosts::nqn_of;
use super::{Control, Objects, StartError, not_found};
use crate::state::Kind;

impl Control {
    /// A host's key, without its secrets.
    pub async fn host_key(&self, host: &Name) -> Result<HostKey, ErrorBody> {
        let objects = self.objects.lock().await;
        host_nqn(&objects, host)?;
        let key = objects.host_keys.get(host);
        key.map(shown).ok_or_else(|| no_key(host))
    }

    /// Has a host prove the secret of `spec` from now on.
    pub async fn set_host_key(&self, host: &Name, spec: HostKeySpec) -> Result<HostKey, ErrorBody> {
        let mut objects = self.objects.lock().await;
        let key = self.take_host_key(&mut objects, host, spec).await?;
        self.tell_pools_of_key(&objects, host).await;
        Ok(key)
    }

    pub(super) async fn take_host_key(
        &self,
        objects: &mut Objects,
        host: &Name,
        spec: HostKeySpec,
    ) -> Result<HostKey, ErrorBody> {
        let nqn = host_nqn(objects, host)?;
        let keys = keys_of(&spec)?;
        let key = shown(&spec);
        if objects.host_keys.get(host) == Some(&spec) {
            return Ok(key);
        }
        self.remember(Kind::HostKey, host, spec.clone()).await?;
        objects.host_keys.insert(host.clone(), spec);
        self.node_takes_keys(&nqn, Some(keys)).await?;
        let message = format!("has to authenticate with {} and {}", key.hash, key.group);
        self.events
            .record(Severity::Info, &format!("host/{host}"), &message);
        Ok(key)
    }

    /// Makes a new key for a host, and gives its secrets this once.
    pub async fn generate_host_key(
        &self,
        host: &Name,
        request: HostKeyRequest,
    ) -> Result<NewHostKey, ErrorBody> {
        let spec = make_key(&request);
        self.set_host_key(host, spec.clone()).await?;
        Ok(NewHostKey {
            host: host.clone(),
            secret: spec.secret,
            controller_secret: spec.controller_secret,
        })
    }

    /// Asks nothing of a host any more.
    pub async fn remove_host_key(&self, host: &Name) -> Result<(), ErrorBody> {
        let mut objects = self.objects.lock().await;
        host_nqn(&objects, host)?;
        if !objects.host_keys.contains_key(host) {
            return Err(no_key(host));
        }
        self.drop_host_key(&mut objects, host).await?;
        self.tell_pools_of_key(&objects, host).await;
        Ok(())
    }

    /// Forgets a host's key, if it has one.
    pub(super) async fn drop_host_key(
        &self,
        objects: &mut Objects,
        host: &Name,
    ) -> Result<(), ErrorBody> {
        if !objects.host_keys.contains_key(host) {
            return Ok(());
        }
        let nqn = host_nqn(objects, host)?;
        self.forget(Kind::HostKey, host).await?;
        objects.host_keys.remove(host);
        self.node_takes_keys(&nqn, None).await?;
        let message = "need not authenticate any more";
        self.events
            .record(Severity::Warning, &format!("host/{host}"), message);
        Ok(())
    }

    /// Makes every remembered key count, before anything is served. A key that cannot be used ends
    /// the start: its host would be let in without it.
    pub(super) async fn restore_host_keys(
        &self,
        keys: BTreeMap<Name, HostKeySpec>,
    ) -> Result<(), StartError> {
        let mut objects = self.objects.lock().await;
        for (host, spec) in keys {
            let unusable = |error: ErrorBody| StartError::HostKey {
                host: host.clone(),
                reason: error.message,
            };
            let nqn = host_nqn(&objects, &host).map_err(unusable)?;
            let keys = keys_of(&spec).map_err(unusable)?;
            self.node.set_host_keys(&nqn, Some(keys)).await?;
            objects.host_keys.insert(host, spec);
        }
        Ok(())
    }

    async fn node_takes_keys(&self, nqn: &Nqn, keys: Option<HostKeys>) -> Result<(), ErrorBody> {
        let stopped = |error: NodeError| ErrorBody::new(ErrorCode::Internal, error.to_string());
        self.node.set_host_keys(nqn, keys).await.map_err(stopped)
    }
}

/// A new key with secrets that nobody knows yet.
pub(super) fn make_key(request: &HostKeyRequest) -> HostKeySpec {
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
pub(super) fn shown(spec: &HostKeySpec) -> HostKey {
    HostKey {
        hash: spec.hash,
        group: spec.group,
        mutual: spec.controller_secret.is_some(),
    }
}

fn no_key(host: &Name) -> ErrorBody {
    ErrorBody::new(ErrorCode::NotFound, format!("host {host} has no key"))
}

pub(super) fn host_nqn(objects: &Objects, host: &Name) -> Result<Nqn, ErrorBody> {
    let spec = objects
        .hosts
        .get(host)
        .ok_or_else(|| not_found("host", host))?;
    nqn_of(spec).map_err(|problem| ErrorBody::invalid("nqn", problem))
}

fn keys_of(spec: &HostKeySpec) -> Result<HostKeys, ErrorBody> {
    let parsed = |field: &str, text: &SecretText| {
        let secret = text.reveal().parse::<Secret>();
        secret.map_err(|error| ErrorBody::invalid(field, error.to_string()))
    };
    let host = parsed("secret", &spec.secret)?;
    let controller = match &spec.controller_secret {
        Some(text) => Some(parsed("controller_secret", text)?),
        None => None,
    };
    if controller.as_ref() == Some(&host) {
        let message = "the same as the host's; allowed: another secret";
        return Err(ErrorBody::invalid("controller_secret", message));
    }
    Ok(HostKeys {
        host,
        controller,
        hash: hash_of(spec.hash),
        group: group_of(spec.group),
    })
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
