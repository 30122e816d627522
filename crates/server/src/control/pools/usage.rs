//! Where the space of a pool has gone: counted in a pass over the maps of its volumes, which takes
//! minutes for each TiB. Nobody waits for it but those who ask.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use api::{ErrorBody, ErrorCode, Name, PoolUsage, SpaceUse};
use tokio::sync::watch;

use crate::control::Control;
use crate::control::words::refused;

/// What was counted, once it has been.
type Counted = Option<Result<PoolUsage, ErrorBody>>;

/// The pools whose space is being counted.
#[derive(Default)]
pub struct Usages {
    by_pool: Mutex<BTreeMap<Name, watch::Receiver<Counted>>>,
}

impl Usages {
    /// The map is whole between any two statements, so a panic elsewhere does not spoil it.
    fn map(&self) -> MutexGuard<'_, BTreeMap<Name, watch::Receiver<Counted>>> {
        self.by_pool.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Refuses to let go of a pool whose space is being counted.
    pub fn check_none(&self, pool: &Name) -> Result<(), ErrorBody> {
        if !self.map().contains_key(pool) {
            return Ok(());
        }
        let message = format!("pool {pool} is busy: its space is counted; try again when it is");
        Err(ErrorBody::new(ErrorCode::InUse, message))
    }
}

impl Control {
    /// Where the space of a pool has gone. Who asks while it is being counted gets the same answer.
    pub async fn pool_usage(self: &Arc<Self>, name: &Name) -> Result<PoolUsage, ErrorBody> {
        self.online_pool(&self.objects.seen(), name)?;
        let mut counted = self.being_counted(name);
        let done = counted.wait_for(Option::is_some).await;
        let done = done.ok().and_then(|counted| counted.clone());
        done.unwrap_or_else(|| {
            let message = format!("the space of pool {name} could not be counted");
            Err(ErrorBody::new(ErrorCode::Internal, message))
        })
    }

    /// Has the space of a pool counted, unless it is being. That goes on when who asked has gone.
    fn being_counted(self: &Arc<Self>, name: &Name) -> watch::Receiver<Counted> {
        let mut usages = self.usages.map();
        if let Some(counted) = usages.get(name) {
            return counted.clone();
        }
        let (tell, counted) = watch::channel(None);
        usages.insert(name.clone(), counted.clone());
        let (control, name) = (Arc::clone(self), name.clone());
        drop(tokio::spawn(async move {
            let _until_then = Listed(&control.usages, &name);
            let usage = control.count(&name).await;
            tell.send_replace(Some(usage));
        }));
        counted
    }

    async fn count(&self, name: &Name) -> Result<PoolUsage, ErrorBody> {
        let counted = self.node.pool_accounting(name.as_str()).await;
        let counted = counted.map_err(|error| refused(&error))?;
        let facts = self.node.pool_seen(name.as_str()).await;
        let facts = facts.map_err(|error| refused(&error))?;
        let contents = self.node.pool_contents(name.as_str()).await;
        let (volumes, snapshots) = contents.map_err(|error| refused(&error))?;
        let volumes = volumes.into_iter().filter_map(|volume| {
            let used = counted.volumes.get(&volume.id)?;
            Some(space_use(volume.name, false, *used))
        });
        let snapshots = snapshots.into_iter().filter_map(|snapshot| {
            let used = counted.snapshots.get(&snapshot.id)?;
            Some(space_use(snapshot.name, true, *used))
        });
        let mut users: Vec<SpaceUse> = volumes.chain(snapshots).collect();
        users.sort_by(|left, right| left.name.cmp(&right.name));
        Ok(PoolUsage {
            users,
            unnamed_bytes: counted.unnamed_bytes,
            total_bytes: counted.total_bytes,
            reserved_bytes: facts.status.reserved_bytes,
        })
    }
}

/// A pool that is in the list while this lives.
struct Listed<'a>(&'a Usages, &'a Name);

impl Drop for Listed<'_> {
    fn drop(&mut self) {
        self.0.map().remove(self.1);
    }
}

fn space_use(name: String, snapshot: bool, used: node::SpaceUse) -> SpaceUse {
    SpaceUse {
        name,
        snapshot,
        logical_bytes: used.logical_bytes,
        unique_bytes: used.unique_bytes,
        shared_bytes: used.shared_bytes,
    }
}
