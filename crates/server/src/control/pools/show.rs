//! How a pool is shown.

use api::{Name, Pool, PoolCounters, PoolMember, PoolState};
use node::{Counters, DriveStatus};

use super::{Objects, PoolEntry, state_of, volumes_of};

/// Sixteen bytes as people see them.
pub fn hexadecimal(bytes: &[u8; 16]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(super) fn shown(objects: &Objects, name: &Name, entry: &PoolEntry) -> Pool {
    let facts = entry.facts.as_ref().filter(|_| entry.offline.is_none());
    let Some(facts) = facts else {
        return not_open(name, entry);
    };
    let status = &facts.status;
    Pool {
        name: name.clone(),
        id: entry.record.id.clone(),
        state: state_of(status.state),
        reason: status.reason.map(str::to_owned),
        level: status.level.to_string().parse().ok(),
        usable_bytes: status.usable_bytes,
        used_bytes: status.used_bytes,
        members: status
            .drives
            .iter()
            .map(|drive| member(entry, drive))
            .collect(),
        volumes: volumes_of(objects, name),
        counters: counters(&facts.counters),
    }
}

fn not_open(name: &Name, entry: &PoolEntry) -> Pool {
    let member = |(index, (id, drive)): (usize, (&String, &Name))| PoolMember {
        index: index as u32,
        drive: Some(drive.clone()),
        id: id.clone(),
        bytes: 0,
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
        usable_bytes: 0,
        used_bytes: 0,
        members: entry
            .record
            .members
            .iter()
            .enumerate()
            .map(member)
            .collect(),
        volumes: Vec::new(),
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
        reconstructed_reads: counters.reconstructed_reads,
        repaired_blocks: counters.repaired_blocks,
        unrecovered_reads: counters.unrecovered_reads,
    }
}
