//! What tenants may make of pools, and whose volumes and snapshots are.
//!
//! A grant bounds what a tenant has of a pool, each volume and snapshot counted with its whole
//! size, so it holds whatever is written. A snapshot is whose its volume is; that is why tenants do
//! not delete volumes of which there are snapshots.
//!
//! What counts for nothing is the data of a deleted snapshot that several volumes still share. As
//! tenants do not shrink volumes, each of those is at least as large as the snapshot was; there is
//! one such snapshot less than there are volumes and snapshots below it; so all that comes to no
//! more than what counts.

use std::collections::{BTreeMap, BTreeSet};

use api::{
    ErrorBody, ErrorCode, GRANT_COUNT_MAX, Grant, GrantUse, Name, PoolGrant, Severity, Size, Tenant,
};
use node::SnapshotInfo;

use crate::control::words::{list, not_found};
use crate::control::{Control, Objects, VolumeEntry};
use crate::state::{Kind, Place};

/// The tenant for which a change is asked; none: the node's own people ask.
pub type Asker<'a> = Option<&'a Name>;

/// Snapshots of pools that are open.
type Snapshots = BTreeMap<Name, Vec<SnapshotInfo>>;

impl Control {
    /// Lets a tenant's operators make volumes and snapshots in a pool, up to bounds.
    pub async fn grant_pool(
        &self,
        name: &Name,
        pool: &Name,
        grant: Grant,
    ) -> Result<Tenant, ErrorBody> {
        for (field, count) in [("volumes", grant.volumes), ("snapshots", grant.snapshots)] {
            if count > GRANT_COUNT_MAX {
                let message = format!("{count}; allowed: up to {GRANT_COUNT_MAX}");
                return Err(ErrorBody::invalid(field, message));
            }
        }
        let mut objects = self.objects.change().await;
        if !objects.pools.contains_key(pool) {
            return Err(not_found("pool", pool));
        }
        let before = objects.grants.get(name).cloned().unwrap_or_default();
        let mut now = before.clone();
        now.insert(pool.clone(), grant);
        if now != before {
            self.keep_grants(&mut objects, name, now).await?;
            let message = format!("may have {} in pool {pool}", in_words(&grant));
            let object = format!("tenant/{name}");
            self.events.record(Severity::Info, &object, &message);
        }
        Ok(self.shown_tenant(&objects, name).await)
    }

    /// Takes that back; what the tenant has there stays.
    pub async fn revoke_pool(&self, name: &Name, pool: &Name) -> Result<(), ErrorBody> {
        let mut objects = self.objects.change().await;
        let mut now = objects.grants.get(name).cloned().unwrap_or_default();
        if now.remove(pool).is_none() {
            let message = format!("tenant {name} has no grant in pool {pool}");
            return Err(ErrorBody::new(ErrorCode::NotFound, message));
        }
        self.keep_grants(&mut objects, name, now).await?;
        let message = format!("may make nothing in pool {pool} any more");
        let object = format!("tenant/{name}");
        self.events.record(Severity::Info, &object, &message);
        Ok(())
    }

    /// A pool is gone for good: another one of its name is granted to nobody.
    pub(in crate::control) async fn forget_grants_in(
        &self,
        objects: &mut Objects,
        pool: &Name,
    ) -> Result<(), ErrorBody> {
        let holders = objects.grants.iter();
        let holders = holders.filter(|(_, grants)| grants.contains_key(pool));
        let holders: Vec<Name> = holders.map(|(name, _)| name.clone()).collect();
        for name in holders {
            let mut now = objects.grants.get(&name).cloned().unwrap_or_default();
            now.remove(pool);
            self.keep_grants(objects, &name, now).await?;
        }
        Ok(())
    }

    async fn keep_grants(
        &self,
        objects: &mut Objects,
        name: &Name,
        grants: BTreeMap<Name, Grant>,
    ) -> Result<(), ErrorBody> {
        if grants.is_empty() {
            self.forget(Kind::Grants, name).await?;
            objects.grants.remove(name);
        } else {
            self.remember(Kind::Grants, name, grants.clone()).await?;
            objects.grants.insert(name.clone(), grants);
        }
        Ok(())
    }

    /// Every tenant that has limits, grants, volumes or hosts, by name.
    pub async fn tenants(&self) -> Vec<Tenant> {
        let objects = self.objects.seen();
        let volumes = objects.volumes.values();
        let hosts = objects.hosts.values();
        let names: BTreeSet<&Name> = volumes
            .filter_map(|volume| volume.record.tenant.as_ref())
            .chain(hosts.filter_map(|host| host.tenant.as_ref()))
            .chain(objects.tenants.keys())
            .chain(objects.grants.keys())
            .collect();
        let pools = objects.grants.values().flat_map(BTreeMap::keys).collect();
        let snapshots = self.snapshots_in(&objects, pools).await;
        let names = names.into_iter();
        names
            .map(|name| shown(&objects, &snapshots, name))
            .collect()
    }

    /// One tenant; one that nothing belongs to has no limits, no grants and no volumes.
    pub async fn tenant(&self, name: &Name) -> Tenant {
        let objects = self.objects.seen();
        self.shown_tenant(&objects, name).await
    }

    pub(in crate::control) async fn shown_tenant(&self, objects: &Objects, name: &Name) -> Tenant {
        let grants = objects.grants.get(name);
        let pools = grants.into_iter().flat_map(BTreeMap::keys).collect();
        let snapshots = self.snapshots_in(objects, pools).await;
        shown(objects, &snapshots, name)
    }

    /// Refuses a pool of which the asker was granted nothing, in the same words whether it exists.
    pub(in crate::control) fn check_granted(
        &self,
        objects: &Objects,
        asker: Asker<'_>,
        pool: &Name,
    ) -> Result<(), ErrorBody> {
        match asker {
            None => Ok(()),
            Some(tenant) => granted(objects, tenant, pool).map(drop),
        }
    }

    /// Refuses what would be more than the asker was granted of a pool.
    pub(in crate::control) async fn check_grant(
        &self,
        objects: &Objects,
        asker: Asker<'_>,
        pool: &Name,
        more: GrantUse,
    ) -> Result<(), ErrorBody> {
        let Some(tenant) = asker else {
            return Ok(());
        };
        let grant = granted(objects, tenant, pool)?;
        let snapshots = self.snapshots_in(objects, BTreeSet::from([pool])).await;
        let Some(snapshots) = snapshots.get(pool) else {
            let message = format!("pool {pool} is offline");
            return Err(ErrorBody::new(ErrorCode::NotReady, message));
        };
        let used = used(objects, snapshots, tenant, pool);
        fits(grant, used, more).map_err(|excess| {
            let message = format!("tenant {tenant} has {excess} of pool {pool}");
            ErrorBody::new(ErrorCode::OutOfSpace, message)
        })
    }

    async fn snapshots_in(&self, objects: &Objects, pools: BTreeSet<&Name>) -> Snapshots {
        let mut found = Snapshots::new();
        for pool in pools {
            let entry = objects.pools.get(pool);
            if entry.is_some_and(|entry| entry.offline.is_none())
                && let Ok((_, snapshots)) = self.node.pool_contents(pool.as_str()).await
            {
                found.insert(pool.clone(), snapshots);
            }
        }
        found
    }
}

/// Whether something of `owner` is kept from the asker.
pub(in crate::control) fn is_hidden(asker: Asker<'_>, owner: Option<&Name>) -> bool {
    asker.is_some() && asker != owner
}

/// The volume that a snapshot was taken of, if it is still there.
pub(in crate::control) fn volume_of<'a>(
    objects: &'a Objects,
    pool: &Name,
    snapshot: &SnapshotInfo,
) -> Option<(&'a Name, &'a VolumeEntry)> {
    let mut volumes = objects.volumes.iter();
    volumes.find(|(_, entry)| match &entry.record.place {
        Place::Pool { name, volume } => name == pool && *volume == snapshot.volume.0,
        Place::Drive(_) => false,
    })
}

fn granted<'a>(objects: &'a Objects, tenant: &Name, pool: &Name) -> Result<&'a Grant, ErrorBody> {
    let grants = objects.grants.get(tenant);
    grants.and_then(|grants| grants.get(pool)).ok_or_else(|| {
        let pools = grants.into_iter().flat_map(BTreeMap::keys).cloned();
        let pools: Vec<Name> = pools.collect();
        let message = format!(
            "tenant {tenant} may make nothing in pool {pool}; granted are pools: {}",
            list(&pools)
        );
        ErrorBody::new(ErrorCode::Forbidden, message).at("pool".to_owned())
    })
}

fn used(objects: &Objects, snapshots: &[SnapshotInfo], tenant: &Name, pool: &Name) -> GrantUse {
    let mut used = GrantUse::default();
    let mut own = BTreeSet::new();
    for entry in objects.volumes.values() {
        if entry.record.tenant.as_ref() == Some(tenant)
            && let Place::Pool { name, volume } = &entry.record.place
            && name == pool
        {
            own.insert(*volume);
            used.volumes += 1;
            used.bytes = used.bytes.saturating_add(entry.record.capacity_bytes);
        }
    }
    for snapshot in snapshots.iter().filter(|info| own.contains(&info.volume.0)) {
        used.snapshots += 1;
        used.bytes = used.bytes.saturating_add(snapshot.bytes);
    }
    used
}

/// What there is and what there may be, in words, where `more` does not fit. What is not added to
/// may be beyond its bound: an admin can make more than a grant allows.
fn fits(grant: &Grant, used: GrantUse, more: GrantUse) -> Result<(), String> {
    let beyond = |used: u64, more: u64, most: u64| more > 0 && used.saturating_add(more) > most;
    let count = |used: u32, more: u32, most: u32| beyond(used.into(), more.into(), most.into());
    if beyond(used.bytes, more.bytes, grant.size.bytes()) {
        return Err(format!(
            "volumes and snapshots of {}, may have {}, and asks for {} more",
            Size(used.bytes),
            grant.size,
            Size(more.bytes)
        ));
    }
    if count(used.volumes, more.volumes, grant.volumes) {
        return Err(format!(
            "{} volumes and may have {}",
            used.volumes, grant.volumes
        ));
    }
    if count(used.snapshots, more.snapshots, grant.snapshots) {
        return Err(format!(
            "{} snapshots and may have {}",
            used.snapshots, grant.snapshots
        ));
    }
    Ok(())
}

fn in_words(grant: &Grant) -> String {
    format!(
        "{} in {} volumes and {} snapshots",
        grant.size, grant.volumes, grant.snapshots
    )
}

fn shown(objects: &Objects, snapshots: &Snapshots, name: &Name) -> Tenant {
    let own = objects.volumes.iter();
    let own = own.filter(|(_, volume)| volume.record.tenant.as_ref() == Some(name));
    let grants = objects.grants.get(name).into_iter().flatten();
    let grants = grants.map(|(pool, grant)| PoolGrant {
        pool: pool.clone(),
        grant: *grant,
        used: snapshots
            .get(pool)
            .map(|snapshots| used(objects, snapshots, name, pool)),
    });
    Tenant {
        name: name.clone(),
        limits: objects.tenants.get(name).copied().unwrap_or_default(),
        grants: grants.collect(),
        volumes: own.map(|(volume, _)| volume.clone()).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_bound_holds_and_what_is_not_added_to_may_be_beyond_it() {
        let grant = Grant {
            size: Size(100),
            volumes: 2,
            snapshots: 1,
        };
        let of = |bytes, volumes, snapshots| GrantUse {
            bytes,
            volumes,
            snapshots,
        };
        assert!(fits(&grant, of(60, 1, 0), of(40, 1, 0)).is_ok());
        assert!(fits(&grant, of(60, 1, 0), of(41, 1, 0)).is_err());
        assert!(fits(&grant, of(60, 1, 0), of(u64::MAX, 1, 0)).is_err());
        assert!(fits(&grant, of(10, 2, 0), of(10, 1, 0)).is_err());
        assert!(fits(&grant, of(10, 2, 0), of(10, 0, 1)).is_ok());
        assert!(fits(&grant, of(10, 2, 1), of(10, 0, 1)).is_err());
        assert!(fits(&grant, of(10, 9, 1), of(10, 0, 0)).is_ok());
    }
}
