//! Pools that wait for drives: a machine that starts may have some of them later than others.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use api::{Name, Severity};
use node::Label;

use super::PoolEntry;
use super::found::Found;
use crate::control::{Control, Objects};
use crate::state::PoolRecord;
use crate::words::hexadecimal;

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
        let mut objects = self.objects.change().await;
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

    /// Whether a pool goes on waiting for members that none of the drives found is.
    pub(super) async fn goes_on_waiting(
        &self,
        objects: &mut Objects,
        name: &Name,
        found: &Found,
    ) -> bool {
        let Some(entry) = objects.pools.get_mut(name) else {
            return false;
        };
        let Some(until) = entry.waits_until else {
            return false;
        };
        if found.check_format(&entry.record.id).is_err() {
            // They are here, and no waiting makes them what this program can read.
            entry.waits_until = None;
            return false;
        }
        let missing = missing(&entry.record, found).join(", ");
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
fn missing(record: &PoolRecord, found: &Found) -> Vec<String> {
    let of_pool = found.of(record).map(|(_, label)| label);
    let of_pool: Vec<&Label> = of_pool.collect();
    let here = of_pool.iter().map(|label| hexadecimal(&label.drive.0));
    let here: BTreeSet<String> = here.collect();
    let newest = of_pool.iter().max_by_key(|label| label.epoch);
    let wanted: Vec<String> = match newest {
        Some(label) => label.active.iter().map(|id| hexadecimal(&id.0)).collect(),
        None => record.members.keys().cloned().collect(),
    };
    let missing = wanted.into_iter().filter(|id| !here.contains(id));
    let called = |id: String| {
        let instead = found.instead_of(record, &id);
        let name = record.members.get(&id).map_or(id, Name::to_string);
        match instead {
            Some(instead) => format!("{name} ({instead})"),
            None => name,
        }
    };
    missing.map(called).collect()
}
