//! Limits of volumes and tenants, and what volumes are promised: now and after a restart.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use api::{
    BURST_MS_MAX, ErrorBody, LIMIT_BYTES_PER_SECOND_MIN, LIMIT_IOPS_MIN, LIMIT_MAX, Limit, Limits,
    Name, Severity, Tenant, Volume,
};
use node::{Limiter, Part, Rate, Rates, Room, Share, Terms};
use uuid::Uuid;

use crate::control::volumes::identified;
use crate::control::words::{not_found, parsed, refused};
use crate::control::{Control, Objects};
use crate::state::{Kind, VolumeRecord};

const BYTES_PER_GIB: u128 = 1 << 30;

/// What a pool has under way for each of its drives before volumes take turns, in commands of
/// 8 KiB: a drive is close to its full speed with that, and no deeper than it must be.
const WIDE_OF_DRIVE: usize = 32;

/// The same beside volumes that keep within their minimums: of a modelled CM7-R's dies so few are
/// busy then that one read in a hundred meets another (see `tests/neighbours.rs` of `node`).
const TIGHT_OF_DRIVE: usize = 3;

/// What the node holds volumes to.
#[derive(Default)]
pub(in crate::control) struct Quality(Mutex<Held>);

#[derive(Default)]
struct Held {
    volumes: BTreeMap<Uuid, Standing>,
    tenants: BTreeMap<Name, (Rates, Arc<Limiter>)>,
    /// What tenants' volumes share of pools: by tenant and pool.
    shared: BTreeMap<(Name, Name), (u64, Arc<Share>)>,
}

/// What holds for one volume.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Wanted {
    own: Option<Rates>,
    tenant: Option<(Name, Rates)>,
    part: Option<WantedPart>,
}

/// Its part of a pool in which somebody is promised something.
#[derive(Clone, Debug, PartialEq, Eq)]
struct WantedPart {
    pool: Name,
    room: Room,
    promise: Promise,
}

/// What a volume is promised of its pool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Promise {
    /// Nothing: it takes what is left, in turn.
    #[default]
    Nothing,
    /// So many commands a second.
    Own(u64),
    /// So many together with its tenant's others.
    Shared(Name, u64),
}

/// What was said to the data path.
struct Standing {
    wanted: Wanted,
    limiter: Option<Arc<Limiter>>,
    share: Option<Arc<Share>>,
}

impl Quality {
    fn held(&self) -> MutexGuard<'_, Held> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A volume is served anew: nothing holds for it yet.
    pub fn forget(&self, volume: Uuid) {
        self.held().volumes.remove(&volume);
    }
}

impl Held {
    /// What to say to the data path for a volume; nothing if that has been said.
    fn change(&mut self, volume: Uuid, wanted: Wanted) -> Option<Terms> {
        let before = self.volumes.remove(&volume);
        let (said, mut limiter, mut share) = match before {
            Some(before) => (Some(before.wanted), before.limiter, before.share),
            None => (None, None, None),
        };
        let free = wanted.own.is_none() && wanted.tenant.is_none() && wanted.part.is_none();
        if said.is_none() && free {
            return None;
        }
        // What stays goes on counting where it was.
        if said.as_ref().is_none_or(|said| said.own != wanted.own) {
            limiter = wanted
                .own
                .as_ref()
                .map(|rates| Arc::new(Limiter::new(rates)));
        }
        let promise = |wanted: &Wanted| {
            let part = wanted.part.as_ref()?;
            Some((part.pool.clone(), part.promise.clone()))
        };
        if said
            .as_ref()
            .is_none_or(|said| promise(said) != promise(&wanted))
        {
            share = promise(&wanted).map(|(pool, promise)| self.share(pool, promise));
        }
        let changed = said.as_ref() != Some(&wanted);
        let tenant = wanted
            .tenant
            .as_ref()
            .map(|(name, rates)| self.tenant(name, rates));
        let part = wanted
            .part
            .as_ref()
            .zip(share.clone())
            .map(|(part, share)| Part {
                share,
                place: part.pool.as_str().into(),
                room: part.room,
            });
        let limiters = limiter.iter().cloned().chain(tenant).collect();
        if !free {
            let standing = Standing {
                wanted,
                limiter,
                share,
            };
            self.volumes.insert(volume, standing);
        }
        changed.then_some(Terms { limiters, part })
    }

    /// A volume's part of a pool: its own, or the one that its tenant's volumes have there.
    fn share(&mut self, pool: Name, promise: Promise) -> Arc<Share> {
        let (tenant, minimum) = match promise {
            Promise::Nothing => return Arc::new(Share::new(None)),
            Promise::Own(minimum) => return Arc::new(Share::new(Some(minimum))),
            Promise::Shared(tenant, minimum) => (tenant, minimum),
        };
        let at = (tenant, pool);
        let held = self.shared.get(&at).filter(|(held, _)| *held == minimum);
        if let Some((_, share)) = held {
            return Arc::clone(share);
        }
        let share = Arc::new(Share::new(Some(minimum)));
        self.shared.insert(at, (minimum, Arc::clone(&share)));
        share
    }

    /// The one limiter of a tenant's volumes.
    fn tenant(&mut self, name: &Name, rates: &Rates) -> Arc<Limiter> {
        let held = self.tenants.get(name).filter(|(held, _)| held == rates);
        if let Some((_, limiter)) = held {
            return Arc::clone(limiter);
        }
        let limiter = Arc::new(Limiter::new(rates));
        let entry = (*rates, Arc::clone(&limiter));
        self.tenants.insert(name.clone(), entry);
        limiter
    }
}

impl Control {
    /// Changes what a volume may do and is promised, at once and for commands that wait too.
    pub async fn set_limits(&self, name: &Name, limits: Limits) -> Result<Volume, ErrorBody> {
        check(&limits)?;
        let mut objects = self.objects.change().await;
        let entry = identified(&objects, name)?;
        if limits.minimum_iops.is_some() && entry.record.place.pool().is_none() {
            let message = format!(
                "volume {name} takes its drive whole and shares it with nobody; allowed: a minimum \
                 for a volume of a pool"
            );
            return Err(ErrorBody::invalid("minimum_iops", message));
        }
        if entry.record.limits != limits {
            let record = VolumeRecord {
                limits,
                ..entry.record.clone()
            };
            self.remember_volumes(&objects, vec![(name.clone(), record.clone())])
                .await?;
            if let Some(entry) = objects.volumes.get_mut(name) {
                entry.record = record;
            }
            self.enforce(&objects).await?;
            self.tell_limits(&format!("volume/{name}"), &limits);
        }
        let entry = objects.volumes.get(name);
        let entry = entry.ok_or_else(|| not_found("volume", name))?;
        Ok(self.shown_volume(name, entry).await)
    }

    /// Changes what a tenant's volumes may do together.
    pub async fn set_tenant_limits(
        &self,
        name: &Name,
        limits: Limits,
    ) -> Result<Tenant, ErrorBody> {
        check(&limits)?;
        let mut objects = self.objects.change().await;
        let before = objects.tenants.get(name).copied().unwrap_or_default();
        if before != limits {
            if limits.is_unlimited() {
                self.forget(Kind::Tenant, name).await?;
                objects.tenants.remove(name);
            } else {
                self.remember(Kind::Tenant, name, limits).await?;
                objects.tenants.insert(name.clone(), limits);
            }
            self.enforce(&objects).await?;
            self.tell_limits(&format!("tenant/{name}"), &limits);
        }
        Ok(self.shown_tenant(&objects, name).await)
    }

    /// Puts limits and promises in force as they are now, wherever they are not.
    pub(in crate::control) async fn enforce(&self, objects: &Objects) -> Result<(), ErrorBody> {
        let tenants = tenant_rates(objects);
        let rooms = rooms(objects, self.cores.len());
        let mut all = BTreeSet::new();
        let identified = objects.volumes.values().filter(|entry| !entry.unread);
        for entry in identified {
            let record = &entry.record;
            all.insert(record.uuid);
            let wanted = wanted(objects, record, &tenants, &rooms);
            let changed = self.quality.held().change(record.uuid, wanted);
            let Some(terms) = changed else {
                continue;
            };
            let nqn = parsed(&record.nqn)?;
            let set = self.node.set_terms(&nqn, record.nsid, terms).await;
            set.map_err(|error| {
                self.quality.forget(record.uuid);
                refused(&error)
            })?;
        }
        let mut held = self.quality.held();
        held.volumes.retain(|volume, _| all.contains(volume));
        held.tenants.retain(|name, _| tenants.contains_key(name));
        held.shared
            .retain(|(name, _), _| tenant_minimum(objects, name).is_some());
        Ok(())
    }

    /// Puts them in force after volumes came back, which are served all the same.
    pub(in crate::control) async fn enforce_restored(&self, objects: &Objects) {
        if let Err(error) = self.enforce(objects).await {
            let message = format!("limits are not in force: {}", error.message);
            self.events.record(Severity::Error, "node", &message);
        }
    }

    fn tell_limits(&self, object: &str, limits: &Limits) {
        let message = match limits.is_unlimited() {
            true => "limited no more",
            false => "limits changed",
        };
        self.events.record(Severity::Info, object, message);
    }
}

/// What each limited tenant may do, for the size that its volumes have together.
pub(in crate::control) fn tenant_rates(objects: &Objects) -> BTreeMap<Name, Rates> {
    let limited = objects.tenants.iter();
    let limited = limited.filter(|(_, limits)| is_limited(&rates(limits, 0)));
    let limits = limited.map(|(name, limits)| {
        let records = objects.volumes.values().map(|entry| &entry.record);
        let own = records.filter(|record| record.tenant.as_ref() == Some(name));
        let bytes = own.map(|record| record.capacity_bytes).sum();
        (name.clone(), rates(limits, bytes))
    });
    limits.collect()
}

/// What each core may have under way in pools in which a volume is promised something.
fn rooms(objects: &Objects, cores: usize) -> BTreeMap<Name, Room> {
    let records = objects.volumes.values().map(|entry| &entry.record);
    let promised = records.filter(|record| promise(objects, record) != Promise::Nothing);
    let pools: BTreeSet<&Name> = promised.filter_map(|record| record.place.pool()).collect();
    let room = |pool: &&Name| {
        let entry = objects.pools.get(*pool);
        let drives = entry.map_or(1, |entry| entry.record.members.len().max(1));
        let each = |of_drive: usize| {
            let share = drives * of_drive / cores.max(1);
            u32::try_from(share).unwrap_or(u32::MAX)
        };
        let room = Room {
            wide: each(WIDE_OF_DRIVE),
            tight: each(TIGHT_OF_DRIVE),
        };
        ((*pool).clone(), room)
    };
    pools.iter().map(room).collect()
}

fn tenant_minimum(objects: &Objects, tenant: &Name) -> Option<u64> {
    objects.tenants.get(tenant)?.minimum_iops
}

fn promise(objects: &Objects, record: &VolumeRecord) -> Promise {
    let tenant = record.tenant.as_ref();
    let shared = tenant.and_then(|tenant| Some((tenant, tenant_minimum(objects, tenant)?)));
    match (record.limits.minimum_iops, shared) {
        (Some(minimum), _) => Promise::Own(minimum),
        (None, Some((tenant, minimum))) => Promise::Shared(tenant.clone(), minimum),
        (None, None) => Promise::Nothing,
    }
}

fn wanted(
    objects: &Objects,
    record: &VolumeRecord,
    tenants: &BTreeMap<Name, Rates>,
    rooms: &BTreeMap<Name, Room>,
) -> Wanted {
    let own = rates(&record.limits, record.capacity_bytes);
    let tenant = record.tenant.as_ref();
    let tenant = tenant.and_then(|name| Some((name.clone(), *tenants.get(name)?)));
    let part = record.place.pool().and_then(|pool| {
        Some(WantedPart {
            pool: pool.clone(),
            room: *rooms.get(pool)?,
            promise: promise(objects, record),
        })
    });
    Wanted {
        own: Some(own).filter(is_limited),
        tenant,
        part,
    }
}

fn is_limited(rates: &Rates) -> bool {
    let bounds = [rates.read, rates.write, rates.total];
    bounds.iter().any(|rate| *rate != Rate::default())
}

/// What limits come to for this size; per GiB never less than the lowest limit there may be.
pub(in crate::control) fn rates(limits: &Limits, capacity_bytes: u64) -> Rates {
    let scaled = |per_gib: u64, least: u64| {
        let rate = u128::from(per_gib) * u128::from(capacity_bytes) / BYTES_PER_GIB;
        u64::try_from(rate).unwrap_or(u64::MAX).max(least)
    };
    let rate = |limit: Limit| {
        let iops = limit.iops_per_gib.map(|rate| scaled(rate, LIMIT_IOPS_MIN));
        let bytes = limit.bytes_per_second_per_gib;
        let bytes = bytes.map(|rate| scaled(rate, LIMIT_BYTES_PER_SECOND_MIN));
        Rate {
            iops: limit.iops.into_iter().chain(iops).min(),
            bytes_per_second: limit.bytes_per_second.into_iter().chain(bytes).min(),
        }
    };
    Rates {
        read: rate(limits.read),
        write: rate(limits.write),
        total: rate(limits.total),
        burst_ms: limits.burst_ms,
    }
}

fn check(limits: &Limits) -> Result<(), ErrorBody> {
    let bounds = [
        ("read", &limits.read),
        ("write", &limits.write),
        ("total", &limits.total),
    ];
    for (direction, limit) in bounds {
        let bytes = limit.bytes_per_second;
        for (field, value, least) in [
            ("iops", limit.iops, LIMIT_IOPS_MIN),
            ("iops_per_gib", limit.iops_per_gib, 1),
            ("bytes_per_second", bytes, LIMIT_BYTES_PER_SECOND_MIN),
            (
                "bytes_per_second_per_gib",
                limit.bytes_per_second_per_gib,
                1,
            ),
        ] {
            let message = match value {
                Some(value) if value < least => {
                    format!("{value}; allowed: {least} or more, or absent for no limit")
                }
                Some(value) if value > LIMIT_MAX => {
                    format!("{value}; allowed: up to {LIMIT_MAX}, or absent for no limit")
                }
                _ => continue,
            };
            return Err(ErrorBody::invalid(format!("{direction}.{field}"), message));
        }
    }
    if !(1..=BURST_MS_MAX).contains(&limits.burst_ms) {
        let message = format!("{}; allowed: 1 to {BURST_MS_MAX}", limits.burst_ms);
        return Err(ErrorBody::invalid("burst_ms", message));
    }
    let most = limits.total.iops.unwrap_or(LIMIT_MAX);
    match limits.minimum_iops {
        Some(minimum) if minimum < LIMIT_IOPS_MIN => {
            let message = format!("{minimum}; allowed: {LIMIT_IOPS_MIN} or more, or absent");
            Err(ErrorBody::invalid("minimum_iops", message))
        }
        Some(minimum) if minimum > most => {
            let message = format!("{minimum}; allowed: at most the limit, which is {most}");
            Err(ErrorBody::invalid("minimum_iops", message))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn iops(rate: u64) -> Limits {
        Limits {
            total: Limit {
                iops: Some(rate),
                ..Limit::default()
            },
            ..Limits::default()
        }
    }

    #[test]
    fn the_lowest_bound_counts_and_grows_with_the_volume() {
        let limit = Limit {
            iops: Some(5000),
            iops_per_gib: Some(100),
            bytes_per_second_per_gib: Some(1 << 20),
            ..Limit::default()
        };
        let limits = Limits {
            read: limit,
            ..Limits::default()
        };
        let of = |gib: u64| rates(&limits, gib << 30).read;
        assert_eq!(of(10).iops, Some(1000));
        assert_eq!(of(100).iops, Some(5000));
        assert_eq!(of(10).bytes_per_second, Some(10 << 20));
        assert_eq!(of(0).iops, Some(LIMIT_IOPS_MIN), "a limit is never a halt");
        assert!(!is_limited(&rates(&Limits::default(), 1 << 40)));
    }

    #[test]
    fn wrong_limits_are_refused_by_name() {
        let wrong = |limits: &Limits| check(limits).unwrap_err();
        let refused = wrong(&iops(99));
        assert_eq!(refused.field.as_deref(), Some("total.iops"));
        assert_eq!(
            refused.message,
            "99; allowed: 100 or more, or absent for no limit"
        );
        let refused = wrong(&iops(LIMIT_MAX + 1));
        assert_eq!(refused.field.as_deref(), Some("total.iops"));
        let limits = Limits {
            burst_ms: 0,
            ..iops(100)
        };
        assert_eq!(wrong(&limits).field.as_deref(), Some("burst_ms"));
        for minimum in [99, 1001] {
            let limits = Limits {
                minimum_iops: Some(minimum),
                ..iops(1000)
            };
            assert_eq!(wrong(&limits).field.as_deref(), Some("minimum_iops"));
        }
        check(&iops(100)).unwrap();
    }

    /// Volumes of a tenant that is promised something count against one promise in each pool.
    #[test]
    fn volumes_of_a_tenant_share_its_minimum_pool_by_pool() {
        let mut held = Held::default();
        let mut share = |volume: u128, pool: &str, promise: Promise| {
            let part = WantedPart {
                pool: pool.parse().unwrap(),
                room: Room { wide: 64, tight: 6 },
                promise,
            };
            let wanted = Wanted {
                own: None,
                tenant: None,
                part: Some(part),
            };
            let terms = held.change(Uuid::from_u128(volume), wanted);
            terms.unwrap().part.unwrap().share
        };
        let shared = |minimum| Promise::Shared("acme".parse().unwrap(), minimum);
        let first = share(1, "p", shared(500));
        assert!(Arc::ptr_eq(&first, &share(2, "p", shared(500))));
        assert!(!Arc::ptr_eq(&first, &share(3, "q", shared(500))));
        assert!(!Arc::ptr_eq(&first, &share(4, "p", Promise::Own(500))));
        let changed = share(1, "p", shared(900));
        assert!(!Arc::ptr_eq(&first, &changed));
        assert!(Arc::ptr_eq(&changed, &share(2, "p", shared(900))));
    }

    /// Only what changes is said again, and what stays keeps its count.
    #[test]
    fn a_change_touches_only_what_it_changes() {
        let mut held = Held::default();
        let volume = Uuid::from_u128(1);
        let tenant: Name = "acme".parse().unwrap();
        let wanted = |own: Option<u64>, together: Option<u64>| Wanted {
            own: own.map(|rate| rates(&iops(rate), 0)),
            tenant: together.map(|rate| (tenant.clone(), rates(&iops(rate), 0))),
            part: None,
        };
        assert!(held.change(volume, wanted(None, None)).is_none());
        let first = held.change(volume, wanted(Some(1000), None)).unwrap();
        assert!(held.change(volume, wanted(Some(1000), None)).is_none());
        let second = held.change(volume, wanted(Some(1000), Some(5000))).unwrap();
        assert!(Arc::ptr_eq(&first.limiters[0], &second.limiters[0]));
        let other = held.change(Uuid::from_u128(2), wanted(None, Some(5000)));
        assert!(Arc::ptr_eq(
            &other.unwrap().limiters[0],
            &second.limiters[1]
        ));
        assert!(held.change(volume, wanted(None, None)).unwrap().is_free());
        assert!(held.change(volume, wanted(None, None)).is_none());
    }
}
