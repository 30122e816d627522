//! Letting go of a pool, so that any node may take it.

use api::{ErrorBody, Name, Severity};
use node::{NodeError, OfflineReason, PoolState};

use super::{PoolEntry, volumes_of};
use crate::control::words::{not_found, refused};
use crate::control::{Control, Objects};

impl Control {
    /// Stops serving the volumes of a pool, closes it, and lets go of it. One whose drives have
    /// gone too far for anything to be written is let go of as it stands. Hosts that are connected
    /// to volumes that work are in the way, unless it is done by `force`.
    pub async fn export_pool(&self, name: &Name, force: bool) -> Result<(), ErrorBody> {
        let mut objects = self.objects.change().await;
        self.look_at_pools(&mut objects).await;
        let entry = objects.pools.get(name);
        let entry = entry.ok_or_else(|| not_found("pool", name))?;
        let (open, lost) = (entry.offline.is_none(), lost(entry));
        self.check_idle(name)?;
        self.usages.check_none(name)?;
        if open && lost.is_none() && !force {
            for (volume, entry) in objects.volumes.iter() {
                if entry.record.place.pool() == Some(name) {
                    self.check_unused(&objects, volume, &entry.record).await?;
                }
            }
        }
        for volume in volumes_of(&objects, name) {
            self.stop_serving(&volume).await?;
        }
        if open
            && let Err(error) = self.node.export_pool(name.as_str()).await
            && (lost.is_none() || !matches!(error, NodeError::Pool { .. }))
        {
            let error = refused(&error);
            self.keep_after_all(&mut objects, name, &error.message)
                .await;
            return Err(error);
        }
        for volume in volumes_of(&objects, name) {
            objects.volumes.remove(&volume);
        }
        self.forget_paths(&objects, name).await?;
        self.forget_pool(name).await?;
        objects.pools.remove(name);
        match lost {
            None => self.tell_pool(Severity::Info, name, "exported"),
            Some(reason) => {
                let message = format!(
                    "exported as it stood, as nothing could be written any more: {reason}; its \
                     drives still say that this node holds it"
                );
                self.tell_pool(Severity::Warning, name, &message);
            }
        }
        Ok(())
    }

    /// Has a pool stay that could not be let go of, and hosts find its volumes again: not ready,
    /// unless it is still open.
    async fn keep_after_all(&self, objects: &mut Objects, name: &Name, reason: &str) {
        let open = self.node.pool_seen(name.as_str()).await.is_ok();
        if let Some(entry) = objects.pools.get_mut(name).filter(|_| !open) {
            entry.offline = Some(reason.to_owned());
        }
        for volume in volumes_of(objects, name) {
            let entry = objects.volumes.get(&volume).filter(|entry| !entry.unread);
            let Some(record) = entry.map(|entry| entry.record.clone()) else {
                continue;
            };
            let served = self.restore_volume(objects, &volume, &record).await;
            if let Some(entry) = objects.volumes.get_mut(&volume) {
                entry.offline = served.err();
            }
        }
        self.enforce_restored(objects).await;
    }
}

/// Why an open pool cannot be used, if it cannot.
pub(super) fn lost(entry: &PoolEntry) -> Option<&'static str> {
    let facts = entry.facts.as_ref().filter(|_| entry.offline.is_none())?;
    let gone = facts.status.state == PoolState::Offline;
    gone.then(|| {
        facts
            .status
            .reason
            .map_or("it is offline", OfflineReason::as_str)
    })
}
