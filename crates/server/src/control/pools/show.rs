//! How a pool is shown.

use api::{
    ErrorBody, Name, Pool, PoolCounters, PoolMap, PoolMember, PoolSegments, PoolState, PoolUsage,
    SpaceUse,
};
use node::{Counters, DriveStatus, Occupancy};

use super::{Control, Objects, PoolEntry, refused, state_of, volumes_of};
use crate::events::timestamp;

/// Sixteen bytes as people see them.
pub fn hexadecimal(bytes: &[u8; 16]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Control {
    /// Where the space of a pool has gone.
    pub async fn pool_usage(&self, name: &Name) -> Result<PoolUsage, ErrorBody> {
        let objects = self.objects.lock().await;
        self.online_pool(&objects, name)?;
        let contents = self.node.pool_contents(name.as_str()).await;
        let (volumes, snapshots) = contents.map_err(|error| refused(&error))?;
        let counted = self.node.pool_accounting(name.as_str()).await;
        let counted = counted.map_err(|error| refused(&error))?;
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
        })
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

pub(super) fn shown(objects: &Objects, name: &Name, entry: &PoolEntry) -> Pool {
    let facts = entry.facts.as_ref().filter(|_| entry.offline.is_none());
    let Some(facts) = facts else {
        return not_open(objects, name, entry);
    };
    let status = &facts.status;
    Pool {
        name: name.clone(),
        id: entry.record.id.clone(),
        state: state_of(status.state),
        reason: status.reason.map(str::to_owned),
        level: status.level.to_string().parse().ok(),
        width: u8::try_from(status.width).ok(),
        usable_bytes: status.usable_bytes,
        used_bytes: status.used_bytes,
        segments: Some(segments(&status.segments)),
        map: Some(PoolMap {
            bytes: status.map_bytes,
            cached_bytes: status.map_cache_bytes as u64,
            cache_bytes: status.map_cache_bytes_max as u64,
        }),
        members: status
            .drives
            .iter()
            .map(|drive| member(entry, drive))
            .collect(),
        volumes: volumes_of(objects, name),
        scrubbed: entry.record.scrub.ended().map(timestamp),
        counters: counters(&facts.counters),
    }
}

fn not_open(objects: &Objects, name: &Name, entry: &PoolEntry) -> Pool {
    let member = |(index, (id, drive)): (usize, (&String, &Name))| PoolMember {
        index: index as u32,
        drive: Some(drive.clone()),
        id: id.clone(),
        bytes: 0,
        free_bytes: 0,
        active: false,
        slow: false,
        read_errors: 0,
        corrupt_blocks: 0,
    };
    Pool {
        name: name.clone(),
        id: entry.record.id.clone(),
        state: PoolState::Offline,
        reason: entry.offline.clone(),
        level: None,
        width: None,
        usable_bytes: 0,
        used_bytes: 0,
        segments: None,
        map: None,
        members: entry
            .record
            .members
            .iter()
            .enumerate()
            .map(member)
            .collect(),
        volumes: volumes_of(objects, name),
        scrubbed: entry.record.scrub.ended().map(timestamp),
        counters: PoolCounters::default(),
    }
}

fn member(entry: &PoolEntry, drive: &DriveStatus) -> PoolMember {
    let id = hexadecimal(&drive.id.0);
    PoolMember {
        index: drive.index as u32,
        drive: entry.record.members.get(&id).cloned(),
        id,
        bytes: drive.bytes,
        free_bytes: drive.free_bytes,
        active: drive.active,
        slow: drive.health.slow,
        read_errors: drive.health.read_errors,
        corrupt_blocks: drive.health.corrupt_blocks,
    }
}

fn counters(counters: &Counters) -> PoolCounters {
    PoolCounters {
        host_blocks_written: counters.host_blocks_written,
        stripe_blocks_written: counters.stripe_blocks_written,
        map_blocks_written: counters.map_blocks_written,
        relocated_blocks: counters.relocated_blocks,
        rebalanced_blocks: counters.rebalanced_blocks,
        reconstructed_reads: counters.reconstructed_reads,
        repaired_blocks: counters.repaired_blocks,
        unrecovered_reads: counters.unrecovered_reads,
    }
}

fn segments(occupancy: &Occupancy) -> PoolSegments {
    PoolSegments {
        free: occupancy.free,
        ready: occupancy.ready,
        open: occupancy.open,
        cleaning: occupancy.cleaning,
        map: occupancy.map,
        closed: occupancy.closed,
    }
}
