//! How a pool is shown.

use api::{Name, Pool, PoolCounters, PoolMap, PoolMember, PoolSegments, PoolState};
use node::{Counters, DriveStatus, Occupancy, PoolFacts};
use uuid::Uuid;

use super::{Objects, PoolEntry, state_of, volumes_of};
use crate::events::timestamp;
use crate::words::hexadecimal;

/// The identity of a host as people see it, like a node's own.
pub(super) fn identity(bytes: &[u8; 16]) -> String {
    Uuid::from_bytes(*bytes).to_string()
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
        reason: why_offline(facts).or_else(|| instead(entry)),
        level: status.level.to_string().parse().ok(),
        width: u8::try_from(status.width).ok(),
        drives_to_spare: u8::try_from(status.drives_to_spare).ok(),
        usable_bytes: status.usable_bytes,
        used_bytes: status.used_bytes,
        deleted_bytes: status.deleted_bytes,
        reserved_bytes: status.reserved_bytes,
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

impl PoolEntry {
    /// Why hosts cannot use it: it is not open, or it went offline while it was open.
    pub(in crate::control) fn why_offline(&self) -> Option<String> {
        let failed = || self.facts.as_ref().and_then(why_offline);
        self.offline.clone().or_else(failed)
    }
}

/// Why an open pool is offline, if it is.
pub(in crate::control) fn why_offline(facts: &PoolFacts) -> Option<String> {
    let reason = facts.status.reason?;
    Some(match &facts.fault {
        Some(fault) => format!("{reason}: {fault}"),
        None => reason.to_string(),
    })
}

/// What drives carry where an open pool misses members, if they carry something else.
fn instead(entry: &PoolEntry) -> Option<String> {
    let members = entry.facts.iter().flat_map(|facts| &facts.status.drives);
    let missed = members.filter(|member| !member.active);
    let found = missed.filter_map(|member| entry.instead.get(&hexadecimal(&member.id.0)));
    let found: Vec<&str> = found.map(String::as_str).collect();
    (!found.is_empty()).then(|| found.join("; "))
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
        drives_to_spare: None,
        usable_bytes: 0,
        used_bytes: 0,
        deleted_bytes: 0,
        reserved_bytes: 0,
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
