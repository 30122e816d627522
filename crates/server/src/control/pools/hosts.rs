//! Hosts that an imported pool brings along, and what they have to prove.

use api::{HostKeySpec, Name, Severity, TlsKeySpec};

use crate::control::hosts::credentials::Credential;
use crate::control::volumes::kept;
use crate::control::{Control, Objects};
use crate::state::{Kind, VolumeRecord};

impl Control {
    /// The names here of hosts that a pool brought along; unknown ones are added. One that had to
    /// prove something where the pool comes from is kept out until its key is given here.
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
            let Some(nqn) = objects.hosts.get(name).map(|host| host.nqn.clone()) else {
                continue;
            };
            if hosts.authenticated.contains(&nqn) {
                self.keep_out::<HostKeySpec>(objects, pool, name).await;
            }
            if hosts.under_tls.contains(&nqn) {
                self.keep_out::<TlsKeySpec>(objects, pool, name).await;
            }
        }
        names
    }

    /// Gives a host that had a credential elsewhere one that nobody has, unless it has its own
    /// here, or uses other volumes here without one.
    async fn keep_out<C: Credential>(&self, objects: &mut Objects, pool: &Name, host: &Name) {
        if C::all(objects).contains_key(host) {
            return;
        }
        let volumes = objects.volumes.values();
        let elsewhere = volumes.filter(|entry| entry.record.place.pool() != Some(pool));
        let trusted = elsewhere
            .flat_map(|entry| &entry.record.hosts)
            .any(|name| name == host);
        let refused = match trusted {
            true => false,
            false => self
                .take_credential(objects, host, C::unknown())
                .await
                .is_ok(),
        };
        let (duty, command) = (C::DUTY, C::COMMAND);
        let consequence = match refused {
            true => "so it is refused until it is given its key".to_owned(),
            false => format!("and it need not {duty} here: give it its key"),
        };
        let message = format!(
            "had to {duty} where pool {pool} comes from; keys do not come along, {consequence} \
             with flashyard host {command} {host} --set FILE"
        );
        self.events
            .record(Severity::Warning, &format!("host/{host}"), &message);
    }

    /// Has pools know what a host has to prove.
    pub(in crate::control) async fn tell_pools_of_credentials(
        &self,
        objects: &Objects,
        host: &Name,
    ) {
        let volumes = objects.volumes.iter();
        let seen: Vec<(Name, VolumeRecord)> = volumes
            .filter(|(_, entry)| entry.record.place.pool().is_some() && entry.offline.is_none())
            .filter(|(_, entry)| entry.record.hosts.contains(host))
            .map(|(name, entry)| (name.clone(), entry.record.clone()))
            .collect();
        if let Err(error) = self.remember_volumes(objects, seen).await {
            let message = format!(
                "its pools do not know what it has to prove: {}",
                error.message
            );
            self.events
                .record(Severity::Warning, &format!("host/{host}"), &message);
        }
    }
}
