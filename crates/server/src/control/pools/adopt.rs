//! Serving what is in a pool that was opened a moment ago.

use std::collections::BTreeSet;

use api::{Limits, Name, Severity, VolumeSpec};
use node::{Backing, VolumeId, VolumeInfo};
use uuid::Uuid;

use super::agreement::Newcomers;
use super::volumes_of;
use crate::control::volumes::kept::{self, KeptHosts, Unread};
use crate::control::{Control, Objects, VolumeEntry};
use crate::state::{Place, VolumeRecord};

/// What the pool says of a volume's identity.
enum Identity {
    /// Hosts know the volume by this record.
    Known(Box<VolumeRecord>, KeptHosts),
    /// The pool keeps nothing: the volume gets an identity.
    Missing,
    /// It cannot be used, and why.
    Unusable(String),
}

impl Control {
    /// Serves the volumes of a pool that was opened a moment ago.
    pub(super) async fn adopt(&self, objects: &mut Objects, pool: &Name, volumes: Vec<VolumeInfo>) {
        let mut unserved = Vec::new();
        let mut named = Vec::new();
        for volume in volumes {
            match name_of(objects, pool, &volume) {
                Ok(name) => named.push((name, volume)),
                Err(problem) => unserved.push((volume.name, problem)),
            }
        }
        let identities = identities(objects, pool, &named);
        self.give_up_other_places(objects, pool, &named, &identities)
            .await;
        for ((name, volume), identity) in named.into_iter().zip(identities) {
            let served = self.adopt_volume(objects, pool, &name, &volume, identity);
            if let Err(problem) = served.await {
                unserved.push((volume.name, problem));
            }
        }
        let unserved: Vec<String> = unserved
            .into_iter()
            .map(|(name, problem)| format!("volume {name} cannot be served: {problem}"))
            .collect();
        for message in &unserved {
            self.tell_pool(Severity::Error, pool, message);
        }
        if let Some(entry) = objects.pools.get_mut(pool) {
            entry.unserved = unserved;
        }
        self.enforce_restored(objects).await;
    }

    /// Has hosts no longer find volumes whose places were held and that are gone, or are not what
    /// they were when the pool was last open: it was changed elsewhere meanwhile. Before the first
    /// is served anew, which may have the number of another now.
    async fn give_up_other_places(
        &self,
        objects: &mut Objects,
        pool: &Name,
        named: &[(Name, VolumeInfo)],
        identities: &[Identity],
    ) {
        let kept: BTreeSet<&Name> = named
            .iter()
            .zip(identities)
            .filter(
                |((name, _), identity)| match (identity, objects.volumes.get(name)) {
                    (Identity::Known(record, _), Some(held)) => {
                        held.record
                            == VolumeRecord {
                                capacity_bytes: held.record.capacity_bytes,
                                ..(**record).clone()
                            }
                    }
                    _ => false,
                },
            )
            .map(|((name, _), _)| name)
            .collect();
        let held = volumes_of(objects, pool).into_iter();
        for gone in held.filter(|held| !kept.contains(held)).collect::<Vec<_>>() {
            self.give_up_place(objects, &gone).await;
        }
    }

    async fn adopt_volume(
        &self,
        objects: &mut Objects,
        pool: &Name,
        name: &Name,
        volume: &VolumeInfo,
        identity: Identity,
    ) -> Result<(), String> {
        let record = match identity {
            Identity::Known(record, hosts) => VolumeRecord {
                hosts: self.know_hosts(objects, pool, hosts).await,
                capacity_bytes: volume.bytes,
                ..*record
            },
            Identity::Missing => {
                let message = format!("volume {name} gets an identity: {}", Unread::Nothing);
                self.tell_pool(Severity::Warning, pool, &message);
                let place = place(pool, volume);
                let record = self.new_record(objects, name, place, &VolumeSpec::default());
                let record = VolumeRecord {
                    capacity_bytes: volume.bytes,
                    ..record
                };
                let kept = self.remember_volumes(objects, vec![(name.clone(), record.clone())]);
                kept.await.map_err(|error| error.message)?;
                record
            }
            Identity::Unusable(problem) => {
                let record = unidentified(place(pool, volume), volume.bytes);
                let entry = VolumeEntry {
                    unread: true,
                    ..VolumeEntry::new(record, Some(problem.clone()))
                };
                objects.volumes.insert(name.clone(), entry);
                return Err(problem);
            }
        };
        let served = self.take_place(objects, name, &record).await;
        let entry = VolumeEntry::new(record, served.as_ref().err().cloned());
        objects.volumes.insert(name.clone(), entry);
        served
    }

    /// Serves a volume, where its place was held without a break for its hosts.
    async fn take_place(
        &self,
        objects: &Objects,
        name: &Name,
        record: &VolumeRecord,
    ) -> Result<(), String> {
        if let Place::Pool { name: pool, volume } = &record.place
            && objects.volumes.contains_key(name)
        {
            let backing = Backing::Pool {
                pool: pool.to_string(),
                volume: VolumeId(*volume),
            };
            let kept = self.kept_rules(record).await?;
            let back = self.node.set_backing(name.as_str(), backing, Some(kept));
            return back.await.map(drop).map_err(|error| error.to_string());
        }
        self.restore_volume(objects, name, record).await
    }

    /// Has hosts no longer find a volume whose place was held.
    async fn give_up_place(&self, objects: &mut Objects, name: &Name) {
        // Who fails to stop is stopping already.
        let _ = self.stop_serving(name).await;
        objects.volumes.remove(name);
    }
}

/// What a volume of the pool is called here.
fn name_of(objects: &Objects, pool: &Name, volume: &VolumeInfo) -> Result<Name, String> {
    let name: Name = volume.name.parse().map_err(|error| format!("{error}"))?;
    let here = objects.volumes.get(&name);
    if here.is_some_and(|here| here.record.place.pool() != Some(pool)) {
        return Err("a volume of that name is here already".to_owned());
    }
    Ok(name)
}

/// What the pool says of each of its volumes, as far as it agrees with all that is here.
fn identities(objects: &Objects, pool: &Name, named: &[(Name, VolumeInfo)]) -> Vec<Identity> {
    let mut newcomers = Newcomers::new(objects, pool);
    let identity = |(name, volume): &(Name, VolumeInfo)| {
        let (record, hosts) = match kept::decode(&volume.attributes, place(pool, volume)) {
            Ok(known) => known,
            Err(Unread::Nothing) => return Identity::Missing,
            Err(unread) => return Identity::Unusable(unread.to_string()),
        };
        match newcomers.admit(name, record, &hosts) {
            Ok(record) => Identity::Known(Box::new(record), hosts),
            Err(problem) => Identity::Unusable(format!(
                "{problem}; export the pool, and import it with --rename-volume {name}=NAME"
            )),
        }
    };
    named.iter().map(identity).collect()
}

pub(super) fn place(pool: &Name, volume: &VolumeInfo) -> Place {
    Place::Pool {
        name: pool.clone(),
        volume: volume.id.0,
    }
}

/// What is known of a volume whose identity cannot be read.
fn unidentified(place: Place, capacity_bytes: u64) -> VolumeRecord {
    VolumeRecord {
        place,
        block_bytes: Default::default(),
        hosts: Vec::new(),
        subsystem: None,
        nqn: String::new(),
        nsid: 0,
        uuid: Uuid::nil(),
        capacity_bytes,
        tenant: None,
        snapshot: None,
        limits: Limits::default(),
        copies: Vec::new(),
        replica_of: None,
    }
}
