//! [`Newcomers`]: whether volumes that come with a pool may be what they say they are, beside what
//! is here.
//!
//! Drives are input: an image from elsewhere, or a drive that was away, can claim any NQN. A volume
//! joins a subsystem that is here only if its tenant and its subsystem are those that govern it
//! here. Its list of hosts is its own, and says nothing of the volumes that are here.

use std::collections::BTreeMap;

use api::{HostSpec, Name};

use crate::control::Objects;
use crate::control::volumes::kept;
use crate::state::VolumeRecord;

/// The volumes of a pool, one after the other, each beside all that is here and those before it.
pub(super) struct Newcomers<'a> {
    objects: &'a Objects,
    pool: &'a Name,
    /// The hosts that are known here, and those that the volumes before brought along.
    hosts: BTreeMap<Name, HostSpec>,
    admitted: Vec<(Name, VolumeRecord)>,
}

impl<'a> Newcomers<'a> {
    /// Those of `pool`, of which none has been looked at.
    pub fn new(objects: &'a Objects, pool: &'a Name) -> Newcomers<'a> {
        let hosts = objects.hosts.iter();
        Newcomers {
            objects,
            pool,
            hosts: hosts
                .map(|(name, host)| (name.clone(), host.clone()))
                .collect(),
            admitted: Vec::new(),
        }
    }

    /// The record of the volume that would be called `name`, its hosts by their names here.
    ///
    /// # Errors
    /// Who has its address, or what it does not agree about with the volumes of its subsystem.
    pub fn admit(
        &mut self,
        name: &Name,
        record: VolumeRecord,
        hosts: &kept::KeptHosts,
    ) -> Result<VolumeRecord, String> {
        let hosts = kept::known(hosts.all.clone(), &mut self.hosts);
        let record = VolumeRecord { hosts, ..record };
        let own = self.admitted.iter().map(|(name, record)| (name, record));
        for (other, existing) in self.others().chain(own) {
            agrees(&record, other, existing)?;
        }
        self.admitted.push((name.clone(), record.clone()));
        Ok(record)
    }

    /// The volumes of everything else that is here, those of pools that are not open included.
    fn others(&self) -> impl Iterator<Item = (&Name, &VolumeRecord)> {
        let served = self.objects.volumes.iter();
        let served = served
            .filter(|(_, entry)| entry.record.place.pool() != Some(self.pool))
            .map(|(name, entry)| (name, &entry.record));
        let pools = self.objects.pools.iter();
        let remembered = pools
            .filter(|(pool, _)| *pool != self.pool)
            .flat_map(|(_, entry)| entry.record.volumes.iter());
        served.chain(remembered)
    }
}

fn agrees(newcomer: &VolumeRecord, other: &Name, existing: &VolumeRecord) -> Result<(), String> {
    if newcomer.uuid == existing.uuid {
        return Err(format!("volume {other} has its UUID, {}", existing.uuid));
    }
    if newcomer.nqn != existing.nqn {
        return Ok(());
    }
    let nqn = &newcomer.nqn;
    if newcomer.nsid == existing.nsid {
        return Err(format!(
            "volume {other} has its NQN {nqn} and namespace {}",
            existing.nsid
        ));
    }
    if newcomer.subsystem != existing.subsystem || newcomer.subsystem.is_none() {
        return Err(format!(
            "volume {other} has its NQN {nqn}, and shares no subsystem with it"
        ));
    }
    if newcomer.tenant != existing.tenant {
        let whose = |record: &VolumeRecord| {
            record
                .tenant
                .as_ref()
                .map_or("none", Name::as_str)
                .to_owned()
        };
        return Err(format!(
            "its subsystem {nqn} has tenant {} here, for volume {other}, and tenant {} on the pool",
            whose(existing),
            whose(newcomer)
        ));
    }
    Ok(())
}
