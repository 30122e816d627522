//! Pools that wait for drives: a machine that starts may have some of them later than others.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use api::{Name, Severity};

use super::{Labels, PoolEntry, hexadecimal};
use crate::control::{Control, Objects};

/// How often the drives are tried that a pool waits for.
const RETRY_PERIOD: Duration = Duration::from_secs(1);

impl Control {
    /// Tries the drives that pools wait for, until none waits any more.
    pub async fn wait_for_drives(self: Arc<Self>) {
        while self.try_waiting_pools().await {
            tokio::time::sleep(RETRY_PERIOD).await;
        }
    }

    /// False when no pool waits any more.
    async fn try_waiting_pools(&self) -> bool {
        let mut objects = self.objects.lock().await;
        let members = waiting(&objects).flat_map(|(_, entry)| entry.record.members.values());
        let members: BTreeSet<Name> = members.cloned().collect();
        let drives = objects.drives.iter();
        let absent =
            drives.filter(|(name, drive)| drive.offline.is_some() && members.contains(name));
        let absent: Vec<Name> = absent.map(|(name, _)| name.clone()).collect();
        for drive in absent {
            // One that is still not there is tried again.
            let _ = self.open_again(&mut objects, &drive).await;
        }
        let pools: Vec<Name> = waiting(&objects).map(|(name, _)| name.clone()).collect();
        self.open_pools(&mut objects, pools).await;
        waiting(&objects).next().is_some()
    }

    /// Whether a pool goes on waiting for members that none of the drives with `labels` is.
    pub(super) async fn goes_on_waiting(
        &self,
        objects: &mut Objects,
        name: &Name,
        labels: &Labels,
    ) -> bool {
        let Some(entry) = objects.pools.get_mut(name) else {
            return false;
        };
        let Some(until) = entry.waits_until else {
            return false;
        };
        let missing = missing(entry, labels).join(", ");
        if missing.is_empty() || until <= Instant::now() {
            entry.waits_until = None;
            if !missing.is_empty() {
                let message = format!("has waited for drive {missing}: goes on without");
                self.tell_pool(Severity::Warning, name, &message);
            }
            return false;
        }
        let reason = format!("waits for drive {missing}");
        if entry.offline.as_ref() != Some(&reason) {
            let message = format!("offline: {reason}");
            entry.offline = Some(reason);
            self.tell_pool(Severity::Warning, name, &message);
            self.hold_places(objects, name).await;
        }
        true
    }
}

fn waiting(objects: &Objects) -> impl Iterator<Item = (&Name, &PoolEntry)> {
    let pools = objects.pools.iter();
    pools.filter(|(_, entry)| entry.waits_until.is_some())
}

/// What the members are called that a pool should have and that none of the drives is. Which it
/// should have the drive says that knows the latest membership.
fn missing(entry: &PoolEntry, labels: &Labels) -> Vec<String> {
    let PoolEntry { record, .. } = entry;
    let of_pool = labels.whole.values();
    let of_pool = of_pool.filter(|label| hexadecimal(&label.pool.0) == record.id);
    let here: BTreeSet<String> = of_pool
        .clone()
        .map(|label| hexadecimal(&label.drive.0))
        .collect();
    let newest = of_pool.max_by_key(|label| label.epoch);
    let wanted: Vec<String> = match newest {
        Some(label) => label.active.iter().map(|id| hexadecimal(&id.0)).collect(),
        None => record.members.keys().cloned().collect(),
    };
    let missing = wanted.into_iter().filter(|id| !here.contains(id));
    let called = |id: String| record.members.get(&id).map_or(id, Name::to_string);
    missing.map(called).collect()
}
