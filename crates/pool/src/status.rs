//! What a pool says about itself.

use crate::array::Counters;
use crate::format::superblock::MEMBER_NONE;
use crate::ids::{DriveId, PoolId};
use crate::level::Level;
use crate::location::BLOCK_BYTES;
use crate::pool::Pool;
use crate::segments::{Busy, Kind, Occupancy};
use crate::zones::formable;
use block::BlockDevice;

/// How well a pool is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolState {
    /// Every member works.
    Online,
    /// Members are missing; everything can be read and written.
    Degraded,
    /// Nothing can be written.
    Offline,
}

/// One member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriveStatus {
    /// Which drive.
    pub id: DriveId,
    /// Its position among the members.
    pub index: usize,
    /// Its size.
    pub bytes: u64,
    /// In zones that are no segment's.
    pub free_bytes: u64,
    /// False: it failed or is absent.
    pub active: bool,
    /// How it behaved since the pool was opened.
    pub health: DriveHealth,
}

/// How a drive behaved since the pool was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DriveHealth {
    /// Half its latest reads took longer; `None` before the first few hundred.
    pub read_median_us: Option<u64>,
    /// Half its latest writes took longer.
    pub write_median_us: Option<u64>,
    /// It takes three times as long as the others.
    pub slow: bool,
    /// Reads that failed.
    pub read_errors: u64,
    /// Blocks that came back other than they were written.
    pub corrupt_blocks: u64,
}

/// A pool as it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolStatus {
    /// Its identifier.
    pub id: PoolId,
    /// Its name.
    pub name: String,
    /// Its redundancy.
    pub level: Level,
    /// Columns of a wide segment.
    pub width: usize,
    /// How well it is.
    pub state: PoolState,
    /// Why it is offline, if it is.
    pub reason: Option<&'static str>,
    /// Drives that it can lose from now on, whichever they are, and go on.
    pub drives_to_spare: usize,
    /// What it can hold, redundancy and reserves taken off.
    pub usable_bytes: u64,
    /// What a pool of this size could hold if all but its reserves were live: what fill is a share
    /// of when the cost of cleaning is reckoned.
    pub unreserved_bytes: u64,
    /// What it holds; blocks overwritten since the last checkpoint may count twice, up to what is
    /// usable.
    pub used_bytes: u64,
    /// Of that, what only deleted volumes and snapshots have: it is being freed.
    pub deleted_bytes: u64,
    /// Maps of deleted volumes and snapshots are being taken apart, or joined with others.
    pub removing: bool,
    /// What is kept for volumes that reserve space, beyond what they hold.
    pub reserved_bytes: u64,
    /// Space that is nobody's for some minutes after the pool was taken by force, since its last
    /// holder may still write there; parts of it may hold blocks.
    pub quarantined_bytes: u64,
    /// What the maps take on the drives, redundancy not counted.
    pub map_bytes: u64,
    /// Memory that map nodes take, on all cores; of other shards as they last told.
    pub map_cache_bytes: usize,
    /// Memory that they may take.
    pub map_cache_bytes_max: usize,
    /// What its segments are.
    pub segments: Occupancy,
    /// Every member.
    pub drives: Vec<DriveStatus>,
}

impl<D: BlockDevice + 'static> Pool<D> {
    /// The pool as it stands.
    pub fn status(&self) -> PoolStatus {
        let core = &self.core;
        let published = core.published.borrow();
        let superblock = &published.superblock;
        let zones = core.state.borrow().segments.vacant_zones(|_| true);
        let zone_bytes = u64::from(core.zone_rows) * BLOCK_BYTES as u64;
        let listed = superblock.members.iter().enumerate();
        let drives: Vec<DriveStatus> = listed
            .filter(|(_, member)| member.state != MEMBER_NONE)
            .map(|(index, member)| DriveStatus {
                id: DriveId(member.id),
                index,
                bytes: member.blocks.get() * BLOCK_BYTES as u64,
                active: core.works(index, member),
                free_bytes: zones[index] as u64 * zone_bytes,
                health: core.array.health(index),
            })
            .collect();
        let cached = core
            .peers()
            .iter()
            .map(|peer| peer.standing.get().cached_nodes);
        let cached: usize = cached.sum();
        let others = core.overlay_blocks_of_others();
        let (in_maps, counted) = {
            let state = core.state.borrow();
            let segments = &state.segments;
            (segments.live_in_maps(), segments.live_data() + others)
        };
        // No more is admitted than is usable: what is counted beyond that was overwritten. Of a
        // pool that lost a drive the maps alone may hold more.
        let used_blocks = counted.min(core.size().usable_blocks()).max(in_maps);
        PoolStatus {
            id: PoolId(superblock.pool_id),
            name: superblock.name(),
            level: core.array.level,
            width: core.width,
            state: core.state_now(),
            reason: core.offline.get(),
            drives_to_spare: core.drives_to_spare(),
            usable_bytes: core.size().usable_bytes(),
            unreserved_bytes: core.size().unreserved_blocks() * BLOCK_BYTES as u64,
            used_bytes: used_blocks * BLOCK_BYTES as u64,
            deleted_bytes: core.state.borrow().tables.doomed_blocks() * BLOCK_BYTES as u64,
            removing: core.state.borrow().unneeded,
            reserved_bytes: core.state.borrow().tables.promised_blocks() * BLOCK_BYTES as u64,
            quarantined_bytes: self.quarantined_blocks() * BLOCK_BYTES as u64,
            map_bytes: core.state.borrow().map_nodes * BLOCK_BYTES as u64,
            map_cache_bytes: (core.cache.borrow().len() + cached) * BLOCK_BYTES,
            map_cache_bytes_max: core.settings.map_cache_bytes,
            segments: self.occupancy(),
            drives,
        }
    }

    fn quarantined_blocks(&self) -> u64 {
        let core = &self.core;
        let state = core.state.borrow();
        let segments = state.quarantined.iter();
        let columns =
            segments.filter_map(|number| Some(state.segments.get(*number)?.columns.len()));
        let columns: usize = columns.sum();
        // Wide segments could be made of these zones.
        let shape = core.rules().wide();
        (columns * shape.data).div_ceil(shape.width()) as u64 * u64::from(core.zone_rows)
    }

    /// Looks at every segment once: some thousands, some tens of thousands in the largest pools.
    fn occupancy(&self) -> Occupancy {
        let core = &self.core;
        let state = core.state.borrow();
        let victim = state.cleaning.as_ref().map(|victim| victim.number);
        let busy = |number: u32| {
            if state.lent.contains_key(&number) {
                Some(Busy::Filling)
            } else if victim == Some(number)
                || state.emptied.contains_key(&number)
                || state.replaced.contains_key(&number)
            {
                Some(Busy::Emptying)
            } else {
                None
            }
        };
        let blocks = |columns: usize| {
            let data = core.array.shape(columns).data as u64;
            data * u64::from(core.zone_rows)
        };
        let free = state
            .segments
            .vacant_zones(|drive| core.array.takes_data(drive));
        Occupancy {
            free: formable(&free, core.formed_columns()) as u64,
            ..state.segments.occupancy(busy, blocks)
        }
    }

    /// A few words about what the pool is doing, for a log or a report of a fault.
    pub fn describe(&self) -> String {
        let situation = self.core.situation();
        let state = self.core.state.borrow();
        let rows = |kind: Kind| {
            let of_kind = state.segments.table().values();
            let of_kind = of_kind.filter(|segment| segment.kind == kind);
            let (mut segments, mut live) = (0, 0);
            for segment in of_kind {
                segments += 1;
                live += segment.live();
            }
            format!("{segments} {kind:?} with {live} live")
        };
        format!(
            "{situation:?}, {} queued, {} in flight, gate {}, sequence {}, applied {}, open {:?}, \
             {} moving, {}, {}, {}, {} limbo, {} stuck, {} vacated, {} nodes, {} redirects, {:?}, \
             {:?} free, offline {:?}",
            state.queue.len(),
            state.in_flight,
            state.gate,
            state.sequence,
            state.applied,
            state.open,
            state.moving.len(),
            rows(Kind::Wide),
            rows(Kind::Narrow),
            rows(Kind::Map),
            state.limbo.len(),
            state.stuck.len(),
            state.vacated.len(),
            state.map_nodes,
            state.tables.redirects.len(),
            self.core.size(),
            state.segments.free_zones(|_| true),
            self.core.offline.get(),
        )
    }

    /// Running totals; of other shards as they last told.
    pub fn counters(&self) -> Counters {
        let mut all = self.core.array.counters.get();
        for peer in self.core.peers() {
            all.add(peer.standing.get().counters);
        }
        all
    }
}
