//! Hosts: who may be allowed to see volumes.

use api::{
    ANY_HOST, ErrorBody, ErrorCode, Host, HostKeySpec, HostSpec, Name, Severity, TlsKeySpec,
};
use node::Nqn;

use super::administrators::administered_by;
use super::{Control, Objects, not_found};
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
        self.events
            .record(Severity::Info, &format!("host/{name}"), "added");
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
        objects.hosts.remove(name);
        self.events
            .record(Severity::Info, &format!("host/{name}"), "removed");
        Ok(())
    }
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

fn shown(objects: &Objects, name: &Name, spec: &HostSpec) -> Host {
    Host {
        name: name.clone(),
        nqn: spec.nqn.clone(),
        key: objects.host_keys.get(name).map(super::host_keys::shown),
        tls: objects.tls_keys.contains_key(name),
        tenant: spec.tenant.clone(),
        volumes: volumes_of(objects, name),
    }
}
