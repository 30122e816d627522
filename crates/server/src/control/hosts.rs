//! Hosts: who may be allowed to see volumes.

pub(super) mod connections;
pub(super) mod credentials;
pub(super) mod events;
pub(super) mod ids;
pub(super) mod keys;
pub(super) mod refused;
pub(super) mod tls_keys;

use std::collections::BTreeMap;

use api::{
    ANY_HOST, ErrorBody, ErrorCode, Host, HostKeySpec, HostSpec, Name, Severity, TlsKeySpec,
};
use node::{NodeError, Nqn};

use crate::control::drives::administrators::administered_by;
use crate::control::words::not_found;
use crate::control::{Control, Objects, StartError};
use crate::state::Kind;

impl Control {
    /// Every host, by name.
    pub async fn hosts(&self) -> Vec<Host> {
        let objects = self.objects.seen();
        objects
            .hosts
            .iter()
            .map(|(name, spec)| shown(&objects, name, spec))
            .collect()
    }

    /// One host.
    pub async fn host(&self, name: &Name) -> Result<Host, ErrorBody> {
        let objects = self.objects.seen();
        let spec = objects
            .hosts
            .get(name)
            .ok_or_else(|| not_found("host", name))?;
        Ok(shown(&objects, name, spec))
    }

    /// Makes the host `name` be what `spec` says.
    pub async fn add_host(&self, name: &Name, spec: HostSpec) -> Result<Host, ErrorBody> {
        if name.as_str() == ANY_HOST {
            let message = "\"any\" stands for every host; allowed: another name";
            return Err(ErrorBody::invalid("name", message));
        }
        nqn_of(&spec).map_err(|problem| ErrorBody::invalid("nqn", problem))?;
        let mut objects = self.objects.change().await;
        match objects.hosts.get(name) {
            Some(existing) if *existing == spec => return Ok(shown(&objects, name, &spec)),
            Some(existing) => {
                let message = format!("host {name} exists with NQN {}", existing.nqn);
                return Err(ErrorBody::new(ErrorCode::AlreadyExists, message));
            }
            None => {}
        }
        if let Some((other, _)) = objects.hosts.iter().find(|(_, host)| host.nqn == spec.nqn) {
            let message = format!("host {other} has this NQN already");
            return Err(ErrorBody::invalid("nqn", message));
        }
        self.remember(Kind::Host, name, spec.clone()).await?;
        let known = self.know_tenant(&spec).await;
        known.map_err(|error| ErrorBody::new(ErrorCode::Internal, error.to_string()))?;
        self.events
            .record(Severity::Info, &format!("host/{name}"), "added");
        self.refused.know(&spec.nqn);
        objects.hosts.insert(name.clone(), spec.clone());
        Ok(shown(&objects, name, &spec))
    }

    /// Forgets a host that no volume allows and that administers no drive.
    pub async fn remove_host(&self, name: &Name) -> Result<(), ErrorBody> {
        let mut objects = self.objects.change().await;
        if !objects.hosts.contains_key(name) {
            return Err(not_found("host", name));
        }
        if let Some(volume) = volumes_of(&objects, name).first() {
            let message = format!("host {name} is allowed by volume {volume}: deny it there first");
            return Err(ErrorBody::new(ErrorCode::InUse, message));
        }
        if let Some(drive) = administered_by(&objects, name) {
            let message = format!("host {name} administers drive {drive}: revoke that first");
            return Err(ErrorBody::new(ErrorCode::InUse, message));
        }
        self.drop_credential::<HostKeySpec>(&mut objects, name)
            .await?;
        self.drop_credential::<TlsKeySpec>(&mut objects, name)
            .await?;
        self.forget(Kind::Host, name).await?;
        if let Some(spec) = objects.hosts.remove(name) {
            self.refused.forget(&spec.nqn);
            let nobodys = HostSpec {
                tenant: None,
                ..spec
            };
            let known = self.know_tenant(&nobodys).await;
            known.map_err(|error| ErrorBody::new(ErrorCode::Internal, error.to_string()))?;
        }
        self.events
            .record(Severity::Info, &format!("host/{name}"), "removed");
        Ok(())
    }
}

impl Control {
    /// Makes it count whose each host is, and what it has to prove.
    pub(super) async fn restore_hosts(
        &self,
        (keys, tls_keys): (BTreeMap<Name, HostKeySpec>, BTreeMap<Name, TlsKeySpec>),
    ) -> Result<(), StartError> {
        for host in self.objects.seen().hosts.values() {
            self.refused.know(&host.nqn);
            self.know_tenant(host).await?;
        }
        self.restore_credentials(keys).await?;
        self.restore_credentials(tls_keys).await
    }

    /// Has the data path know whose a host is, and so where its keys count.
    pub(super) async fn know_tenant(&self, spec: &HostSpec) -> Result<(), NodeError> {
        // Nobody connects by a name that is none.
        let Ok(nqn) = nqn_of(spec) else {
            return Ok(());
        };
        let tenant = spec.tenant.as_ref().map(|tenant| tenant.as_str().into());
        self.node.set_host_tenant(&nqn, tenant).await
    }
}

/// Refuses a tenant's host for what is not the tenant's: its keys do not count there.
pub(super) fn check_owner(
    objects: &Objects,
    (field, host): (&str, &Name),
    owner: Option<&Name>,
) -> Result<(), ErrorBody> {
    let known = objects.hosts.get(host);
    let tenant = known.and_then(|host| host.tenant.as_ref());
    if tenant.is_none() || tenant == owner {
        return Ok(());
    }
    let tenant = tenant.map_or("none", Name::as_str);
    let allowed = match owner {
        Some(owner) => format!("hosts of tenant {owner}, and of none"),
        None => "hosts of no tenant".to_owned(),
    };
    let message = format!("host {host} belongs to tenant {tenant}; allowed: {allowed}");
    Err(ErrorBody::invalid(field, message))
}

/// The host's NQN, or what is wrong with it.
pub(super) fn nqn_of(spec: &HostSpec) -> Result<Nqn, String> {
    spec.nqn
        .parse::<Nqn>()
        .map_err(|error| format!("NQN {:?}: {error}", spec.nqn))
}

fn volumes_of(objects: &Objects, host: &Name) -> Vec<Name> {
    let volumes = objects.volumes.iter();
    volumes
        .filter(|(_, volume)| volume.record.hosts.contains(host))
        .map(|(name, _)| name.clone())
        .collect()
}

pub(super) fn shown(objects: &Objects, name: &Name, spec: &HostSpec) -> Host {
    Host {
        name: name.clone(),
        nqn: spec.nqn.clone(),
        key: objects.host_keys.get(name).map(keys::shown),
        tls: objects.tls_keys.contains_key(name),
        tenant: spec.tenant.clone(),
        volumes: volumes_of(objects, name),
    }
}
