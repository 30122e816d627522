//! Finding pools on drives, and making them the node's own.

use std::collections::{BTreeMap, BTreeSet};

use api::{ErrorBody, ErrorCode, ImportablePool, Name, Pool, PoolImport, Severity};
use node::{DriveId, Label, MayLack, PoolFacts, PoolOpening};

use super::export::lost;
use super::found::Found;
use super::renaming::Renaming;
use super::show::identity;
use super::{PoolEntry, absent};
use crate::control::words::refused;

use crate::control::{Control, Objects};
use crate::state::PoolRecord;
use crate::words::hexadecimal;

impl Control {
    /// Pools on drives that nothing uses, by identity.
    pub async fn importable_pools(&self) -> Vec<ImportablePool> {
        let objects = self.look().await;
        let Found { labels, newer, .. } = self.found_in_time(&objects).await;
        for (drive, newer) in newer {
            let message = format!("what it carries cannot be imported: {newer}");
            let object = format!("drive/{drive}");
            self.events.record(Severity::Warning, &object, &message);
        }
        let mut found: BTreeMap<String, ImportablePool> = BTreeMap::new();
        for (drive, label) in labels {
            let id = hexadecimal(&label.pool.0);
            let open = |entry: &PoolEntry| entry.record.id == id && entry.offline.is_none();
            if objects.pools.values().any(open) {
                continue;
            }
            let Ok(level) = label.level.to_string().parse() else {
                continue;
            };
            let pool = found.entry(id.clone()).or_insert(ImportablePool {
                name: label.pool_name,
                id,
                level,
                drives: Vec::new(),
                members: label.members as u32,
                holder: label.holder.map(|holder| identity(&holder.0)),
            });
            pool.drives.push(drive);
        }
        found.into_values().collect()
    }

    /// Takes the pool `name` that the node's drives carry, and serves its volumes.
    pub async fn import_pool(&self, name: &Name, how: PoolImport) -> Result<Pool, ErrorBody> {
        let mut objects = self.objects.change().await;
        self.look_at_pools(&mut objects).await;
        let called = how.rename.as_ref().unwrap_or(name);
        if let Some(reason) = objects.pools.get(called).and_then(lost) {
            let message =
                format!("pool {called} is here, offline: {reason}; export it, then import it");
            return Err(ErrorBody::new(ErrorCode::AlreadyExists, message));
        }
        let mut found = self.found(&objects).await;
        let all = found.labels.clone();
        found.restrict(&objects, name, &how)?;
        if objects
            .pools
            .get(called)
            .is_some_and(|known| known.offline.is_none())
        {
            return Err(name_taken(called, "is open already"));
        }
        let id = found.choose(name, how.id.as_ref())?;
        check_name(&objects, called, &id)?;
        let refuse = |problem| {
            let error = ErrorBody::new(ErrorCode::InvalidArgument, problem);
            error.at("name".to_owned())
        };
        found.check_format(&id).map_err(refuse)?;
        let drives = found.carriers(&id, found.of_id(&id)).map_err(refuse)?;
        self.check_leftovers(&drives, &how).await?;
        let used: Vec<String> = drives.iter().map(Name::to_string).collect();
        let left_out = left_out(&all, &id, &drives);
        let opening = PoolOpening {
            force: how.force,
            accept_loss: how.accept_loss,
            may_lack: match how.degraded {
                true => MayLack::Any,
                false => MayLack::Only(left_out.clone()),
            },
        };
        let known = objects.pools.get(called).map(|known| known.record.clone());
        let opened = self.node.open_pool(called.as_str(), used, opening).await;
        let facts = opened.map_err(|error| {
            let absent = absent::in_words(&objects, (called, known.as_ref()), &drives, &error);
            let message = match absent {
                Some(absent) => found.beside(absent),
                None => found.beside_error(known.as_ref(), &error),
            };
            ErrorBody {
                message,
                ..refused(&error)
            }
        })?;
        let record = PoolRecord {
            left_out: left_out.iter().map(|id| hexadecimal(&id.0)).collect(),
            ..known.unwrap_or_else(PoolRecord::new)
        };
        if let Err(error) = self
            .take_over(&mut objects, called, facts, record, &how)
            .await
        {
            // Opened a moment ago under this lock: it is there to be closed.
            let _ = self.node.export_pool(called.as_str()).await;
            return Err(error);
        }
        self.wipe_leftovers(&drives, &how).await?;
        self.tell_pool(Severity::Info, called, "imported");
        self.pool_now(&mut objects, called).await
    }

    /// Makes an imported pool the node's own.
    async fn take_over(
        &self,
        objects: &mut Objects,
        name: &Name,
        facts: PoolFacts,
        before: PoolRecord,
        how: &PoolImport,
    ) -> Result<(), ErrorBody> {
        let renaming = Renaming::plan(self, objects, name, how).await?;
        // Nothing is in the way any more; what fails from here on is a drive.
        if how.rename.is_some() {
            let renamed = self.node.rename_pool(name.as_str(), name.as_str()).await;
            renamed.map_err(|error| refused(&error))?;
        }
        renaming.carry_out(self, name).await?;
        let contents = self.node.pool_contents(name.as_str()).await;
        let (volumes, _) = contents.map_err(|error| refused(&error))?;
        let entry = PoolEntry::open(facts, &before);
        self.remember_pool(name, None, &entry.record).await?;
        objects.pools.insert(name.clone(), entry);
        self.adopt(objects, name, volumes).await;
        self.look_at_pools(objects).await;
        Ok(())
    }
}

/// The identities of drives of the pool `id` that are not among those `chosen`. A copy of a chosen
/// one has that one's, and leaves nothing out.
fn left_out(all: &BTreeMap<Name, Label>, id: &str, chosen: &[Name]) -> BTreeSet<DriveId> {
    let of_pool = all
        .iter()
        .filter(|(_, label)| hexadecimal(&label.pool.0) == id);
    let (used, others): (Vec<_>, Vec<_>) = of_pool.partition(|(drive, _)| chosen.contains(drive));
    let used: BTreeSet<_> = used.iter().map(|(_, label)| label.drive).collect();
    let others = others.iter().map(|(_, label)| label.drive);
    others.filter(|drive| !used.contains(drive)).collect()
}

/// Refuses a name that another pool has, and another name for a pool that is here.
fn check_name(objects: &Objects, called: &Name, id: &str) -> Result<(), ErrorBody> {
    match objects.pools.get(called) {
        Some(known) if known.record.id == id => Ok(()),
        Some(known) => {
            let reason = known.offline.as_deref().unwrap_or_default();
            Err(name_taken(called, &format!("is here, offline: {reason}")))
        }
        None => {
            let mut pools = objects.pools.iter();
            match pools.find(|(_, entry)| entry.record.id == id) {
                None => Ok(()),
                Some((other, _)) => {
                    let message = format!(
                        "that pool is here as {other}, offline: import it under that name, or \
                         export {other} first"
                    );
                    Err(ErrorBody::new(ErrorCode::AlreadyExists, message))
                }
            }
        }
    }
}

fn name_taken(name: &Name, how: &str) -> ErrorBody {
    let message = format!(
        "a pool named {name} {how}; import another one of that name under another, with --as NAME"
    );
    ErrorBody::new(ErrorCode::AlreadyExists, message)
}
