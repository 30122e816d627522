//! Serving what is in a pool that was opened a moment ago.

use std::collections::BTreeSet;

use api::{Limits, Name, Severity, VolumeSpec};
use node::{Backing, VolumeId, VolumeInfo};
use uuid::Uuid;

use super::volumes_of;
use crate::control::kept::{self, Unread};
use crate::control::{Control, Objects, VolumeEntry};
use crate::state::{Place, VolumeRecord};

impl Control {
    /// Serves the volumes of a pool that was opened a moment ago.
    pub(super) async fn adopt(&self, objects: &mut Objects, pool: &Name, volumes: Vec<VolumeInfo>) {
        let mut unserved = Vec::new();
        let there: BTreeSet<&str> = volumes.iter().map(|volume| volume.name.as_str()).collect();
        let held = volumes_of(objects, pool).into_iter();
        for gone in held.filter(|held| !there.contains(held.as_str())) {
            self.give_up_place(objects, &gone).await;
        }
        for volume in volumes {
            let name = volume.name.clone();
            if let Err(problem) = self.adopt_volume(objects, pool, volume).await {
                let message = format!("volume {name} cannot be served: {problem}");
                self.tell_pool(Severity::Error, pool, &message);
                unserved.push(message);
            }
        }
        if let Some(entry) = objects.pools.get_mut(pool) {
            entry.unserved = unserved;
        }
        self.enforce_restored(objects).await;
    }

    async fn adopt_volume(
        &self,
        objects: &mut Objects,
        pool: &Name,
        volume: VolumeInfo,
    ) -> Result<(), String> {
        let name: Name = volume.name.parse().map_err(|error| format!("{error}"))?;
        let here = objects.volumes.get(&name);
        if here.is_some_and(|here| here.record.place.pool() != Some(pool)) {
            return Err("a volume of that name is here already".to_owned());
        }
        let place = Place::Pool {
            name: pool.clone(),
            volume: volume.id.0,
        };
        let record = match kept::decode(&volume.attributes, place.clone()) {
            Ok((record, hosts)) => VolumeRecord {
                hosts: self.know_hosts(objects, pool, hosts).await,
                capacity_bytes: volume.bytes,
                ..record
            },
            Err(Unread::Nothing) => {
                let message = format!("volume {name} gets an identity: {}", Unread::Nothing);
                self.tell_pool(Severity::Warning, pool, &message);
                let record = self.new_record(objects, &name, place, &VolumeSpec::default());
                let record = VolumeRecord {
                    capacity_bytes: volume.bytes,
                    ..record
                };
                let kept = self.remember_volumes(objects, vec![(name.clone(), record.clone())]);
                kept.await.map_err(|error| error.message)?;
                record
            }
            Err(unread) => {
                let problem = unread.to_string();
                self.give_up_place(objects, &name).await;
                let entry = VolumeEntry {
                    unread: true,
                    ..VolumeEntry::new(unidentified(place, volume.bytes), Some(problem.clone()))
                };
                objects.volumes.insert(name, entry);
                return Err(problem);
            }
        };
        let served = self.take_place(objects, &name, &record).await;
        let entry = VolumeEntry::new(record, served.as_ref().err().cloned());
        objects.volumes.insert(name, entry);
        served
    }

    /// Serves a volume, where its place was held without a break for its hosts.
    async fn take_place(
        &self,
        objects: &mut Objects,
        name: &Name,
        record: &VolumeRecord,
    ) -> Result<(), String> {
        if let Some(held) = objects.volumes.get(name) {
            let same = VolumeRecord {
                capacity_bytes: held.record.capacity_bytes,
                ..record.clone()
            };
            if let Place::Pool { name: pool, volume } = &record.place
                && same == held.record
            {
                let backing = Backing::Pool {
                    pool: pool.to_string(),
                    volume: VolumeId(*volume),
                };
                let back = self.node.set_backing(name.as_str(), backing).await;
                return back.map(drop).map_err(|error| error.to_string());
            }
            // It was changed where the pool was meanwhile.
            self.give_up_place(objects, name).await;
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
    }
}
