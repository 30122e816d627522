//! Opening pools that the node has, at the start and when drives come back.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use api::{Name, Severity};
use node::PoolOpening;

use super::PoolEntry;
use super::found::Found;
use crate::control::words::list;
use crate::control::{Control, Objects, VolumeEntry};
use crate::state::PoolRecord;

impl Control {
    /// Opens every remembered pool that its drives allow; the others stay, offline. One that lacks
    /// members waits for them so long.
    pub(in crate::control) async fn restore_pools(
        &self,
        pools: BTreeMap<Name, PoolRecord>,
        wait: Duration,
    ) {
        let waits_until = (!wait.is_zero()).then(|| Instant::now() + wait);
        let mut objects = self.objects.change().await;
        for (name, record) in pools {
            let entry = PoolEntry {
                record,
                unremembered: true,
                offline: Some("not opened yet".to_owned()),
                facts: None,
                unserved: Vec::new(),
                instead: BTreeMap::new(),
                waits_until,
            };
            objects.pools.insert(name, entry);
        }
        self.open_offline_pools(&mut objects).await;
    }

    /// Tries the pools that are not open: drives may have come back.
    pub(in crate::control) async fn open_offline_pools(&self, objects: &mut Objects) {
        let pools = objects.pools.iter();
        let offline = pools.filter(|(_, entry)| entry.offline.is_some());
        let offline: Vec<Name> = offline.map(|(name, _)| name.clone()).collect();
        self.open_pools(objects, offline).await;
    }

    /// Tries pools that are not open, but for those that still wait for drives.
    pub(super) async fn open_pools(&self, objects: &mut Objects, offline: Vec<Name>) {
        if offline.is_empty() {
            return;
        }
        let found = self.found(objects).await;
        for name in offline {
            if self.goes_on_waiting(objects, &name, &found).await {
                continue;
            }
            if let Err(reason) = self.open_remembered(objects, &name, &found).await
                && let Some(entry) = objects.pools.get_mut(&name)
            {
                let message = format!("offline: {reason}");
                entry.offline = Some(reason);
                self.tell_pool(Severity::Error, &name, &message);
                self.hold_places(objects, &name).await;
            }
        }
    }

    /// Has hosts find the volumes of a pool that is not open, not ready until it is.
    pub(super) async fn hold_places(&self, objects: &mut Objects, pool: &Name) {
        let entry = objects.pools.get(pool);
        let volumes = entry.map(|entry| entry.record.volumes.clone());
        for (name, record) in volumes.unwrap_or_default().iter() {
            if objects.volumes.contains_key(name) {
                continue;
            }
            let served = self.restore_volume(objects, name, record).await;
            let entry = VolumeEntry::new(record.clone(), served.err());
            objects.volumes.insert(name.clone(), entry);
        }
        self.enforce_restored(objects).await;
    }

    async fn open_remembered(
        &self,
        objects: &mut Objects,
        name: &Name,
        found: &Found,
    ) -> Result<(), String> {
        let Some(entry) = objects.pools.get(name) else {
            return Ok(());
        };
        let before = entry.record.clone();
        found.check_format(&before.id)?;
        let drives = found.carriers(&before.id, found.of(&before))?;
        if drives.is_empty() {
            let members: Vec<Name> = before.members.values().cloned().collect();
            let members = list(&members);
            let reason = format!("none of its drives is here; they were {members}");
            return Err(found.beside_members(&before, reason));
        }
        let drives: Vec<String> = drives.iter().map(Name::to_string).collect();
        // Nobody is there to take a pool by force, or to accept a loss; nor to connect what is
        // absent, so its hosts are served without.
        let how = PoolOpening::default();
        let opened = self.node.open_pool(name.as_str(), drives, how).await;
        let facts = opened.map_err(|error| found.beside_error(Some(&before), &error))?;
        let contents = self.node.pool_contents(name.as_str()).await;
        let (volumes, _) = contents.map_err(|error| error.to_string())?;
        let mut entry = PoolEntry::open(facts, &before);
        let members = before.members.keys();
        entry.instead = members
            .filter_map(|id| Some((id.clone(), found.instead_of(&before, id)?)))
            .collect();
        objects.pools.insert(name.clone(), entry);
        self.adopt(objects, name, volumes).await;
        self.look_at_pools(objects).await;
        Ok(())
    }
}
