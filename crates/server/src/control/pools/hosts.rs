//! Hosts that an imported pool brings along, and what they have to prove.

use api::{HostKeyRequest, Name, Severity};

use crate::control::host_keys::make_key;
use crate::control::{Control, Objects, kept};
use crate::state::{Kind, VolumeRecord};

impl Control {
    /// The names here of hosts that a pool brought along; unknown ones are added. One that had to
    /// prove who it is where the pool comes from is kept out until its key is given here.
    pub(super) async fn know_hosts(
        &self,
        objects: &mut Objects,
        pool: &Name,
        hosts: kept::KeptHosts,
    ) -> Vec<Name> {
        let before = objects.hosts.clone();
        let names = kept::known(hosts.all, &mut objects.hosts);
        let added = objects.hosts.iter();
        let added: Vec<_> = added
            .filter(|(name, _)| !before.contains_key(*name))
            .map(|(name, host)| (name.clone(), host.clone()))
            .collect();
        if !added.is_empty() {
            // The pool brings them again at the next start.
            let _ = self.remember_all(Kind::Host, added).await;
        }
        for name in &names {
            let host = objects.hosts.get(name);
            let proves = host.is_some_and(|host| hosts.authenticated.contains(&host.nqn));
            if proves && !objects.host_keys.contains_key(name) {
                self.keep_out(objects, pool, name).await;
            }
        }
        names
    }

    /// Gives a host that authenticated elsewhere a key that nobody has, unless it uses other
    /// volumes here without one.
    async fn keep_out(&self, objects: &mut Objects, pool: &Name, host: &Name) {
        let volumes = objects.volumes.values();
        let elsewhere = volumes.filter(|entry| entry.record.place.pool() != Some(pool));
        let trusted = elsewhere
            .flat_map(|entry| &entry.record.hosts)
            .any(|name| name == host);
        let refused = match trusted {
            true => false,
            false => {
                let key = make_key(&HostKeyRequest::default());
                self.take_host_key(objects, host, key).await.is_ok()
            }
        };
        let how = format!("its key with flashyard host key {host} --set FILE");
        let message = match refused {
            true => format!(
                "authenticated where pool {pool} comes from; keys do not come along, so it is \
                 refused until it is given {how}"
            ),
            false => format!(
                "authenticated where pool {pool} comes from; keys do not come along, and it need \
                 not authenticate here: give it {how}"
            ),
        };
        self.events
            .record(Severity::Warning, &format!("host/{host}"), &message);
    }

    /// Has pools know whether a host has to prove who it is.
    pub(in crate::control) async fn tell_pools_of_key(&self, objects: &Objects, host: &Name) {
        let volumes = objects.volumes.iter();
        let seen: Vec<(Name, VolumeRecord)> = volumes
            .filter(|(_, entry)| entry.record.place.pool().is_some() && entry.offline.is_none())
            .filter(|(_, entry)| entry.record.hosts.contains(host))
            .map(|(name, entry)| (name.clone(), entry.record.clone()))
            .collect();
        if let Err(error) = self.remember_volumes(objects, seen).await {
            let message = format!("its pools do not know of its key: {}", error.message);
            self.events
                .record(Severity::Warning, &format!("host/{host}"), &message);
        }
    }
}
