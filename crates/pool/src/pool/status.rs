//! What a pool says about itself.

use crate::format::superblock::MEMBER_NONE;
use crate::ids::{DriveId, PoolId, SegmentNumber};
use crate::location::BLOCK_BYTES;
use crate::pool::Pool;
use crate::reporting::event::PoolEvent;
use crate::reporting::status::{Counters, DriveStatus, PoolStatus};
use crate::segments::zones::formable;
use crate::segments::{Busy, Kind, Occupancy};
use block::BlockDevice;

impl<D: BlockDevice + 'static> Pool<D> {
    /// The pool as it stands.
    pub fn status(&self) -> PoolStatus {
        let coordinator = &self.coordinator;
        let shard = &coordinator.shard;
        let published = coordinator.published.borrow();
        let superblock = &published.superblock;
        let zones = shard.state.borrow().segments.vacant_zones(|_| true);
        let zone_bytes = u64::from(shard.zone_rows) * BLOCK_BYTES as u64;
        let listed = superblock.members.iter().enumerate();
        let drives: Vec<DriveStatus> = listed
            .filter(|(_, member)| member.state != MEMBER_NONE)
            .map(|(index, member)| DriveStatus {
                id: DriveId(member.id),
                index,
                bytes: member.blocks.get() * BLOCK_BYTES as u64,
                active: coordinator.works(index, member),
                free_bytes: zones[index] as u64 * zone_bytes,
                health: shard.array.health(index),
            })
            .collect();
        let cached = coordinator
            .peers()
            .iter()
            .map(|peer| peer.standing.get().cached_nodes);
        let cached: usize = cached.sum();
        let others = coordinator.overlay_blocks_of_others();
        let (in_maps, counted) = {
            let state = shard.state.borrow();
            let segments = &state.segments;
            (segments.live_in_maps(), segments.live_data() + others)
        };
        // No more is admitted than is usable: what is counted beyond that was overwritten. Of a
        // pool that lost a drive the maps alone may hold more.
        let used_blocks = counted.min(shard.size().usable_blocks()).max(in_maps);
        PoolStatus {
            id: PoolId(superblock.pool_id),
            name: superblock.name(),
            level: shard.array.level,
            width: shard.width,
            state: coordinator.state_now(),
            reason: shard.offline.get(),
            drives_to_spare: coordinator.drives_to_spare(),
            usable_bytes: shard.size().usable_bytes(),
            unreserved_bytes: shard.size().unreserved_blocks() * BLOCK_BYTES as u64,
            used_bytes: used_blocks * BLOCK_BYTES as u64,
            deleted_bytes: shard.state.borrow().tables.doomed_blocks() * BLOCK_BYTES as u64,
            removing: shard.state.borrow().tables.unneeded(),
            reserved_bytes: shard.state.borrow().tables.promised() * BLOCK_BYTES as u64,
            quarantined_bytes: self.quarantined_blocks() * BLOCK_BYTES as u64,
            map_bytes: coordinator.own_map.nodes() * BLOCK_BYTES as u64,
            map_cache_bytes: (shard.cache.borrow().len() + cached) * BLOCK_BYTES,
            map_cache_bytes_max: shard.settings.map_cache_bytes,
            segments: self.occupancy(),
            drives,
        }
    }

    fn quarantined_blocks(&self) -> u64 {
        let shard = &self.coordinator.shard;
        let state = shard.state.borrow();
        let segments = state.quarantined.iter();
        let columns =
            segments.filter_map(|number| Some(state.segments.get(*number)?.columns.len()));
        let columns: usize = columns.sum();
        // Wide segments could be made of these zones.
        let shape = shard.rules().wide();
        (columns * shape.data).div_ceil(shape.width()) as u64 * u64::from(shard.zone_rows)
    }

    /// Looks at every segment once: some thousands, some tens of thousands in the largest pools.
    fn occupancy(&self) -> Occupancy {
        let shard = &self.coordinator.shard;
        let state = shard.state.borrow();
        let victim = state.victims.half_way().map(|victim| victim.number);
        let busy = |number: SegmentNumber| {
            if state.ready.is_lent(number) {
                Some(Busy::Filling)
            } else if victim == Some(number) || state.emptied.has(number) {
                Some(Busy::Emptying)
            } else {
                None
            }
        };
        let blocks = |columns: usize| {
            let data = shard.array.shape(columns).data as u64;
            data * u64::from(shard.zone_rows)
        };
        let free = state
            .segments
            .vacant_zones(|drive| shard.array.takes_data(drive));
        Occupancy {
            free: formable(&free, shard.formed_columns()) as u64,
            ..state.segments.occupancy(busy, blocks)
        }
    }

    /// A few words about what the pool is doing, for a log or a report of a fault.
    pub fn describe(&self) -> String {
        let shard = &self.coordinator.shard;
        let situation = self.coordinator.situation();
        let state = shard.state.borrow();
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
            state.log.in_flight(),
            state.log.gate(),
            state.log.given(),
            state.log.applied(),
            state.open,
            state.moving.len(),
            rows(Kind::Wide),
            rows(Kind::Narrow),
            rows(Kind::Map),
            state.eras.limbo().len(),
            state.attempts.stuck(),
            self.coordinator.vacated.borrow().len(),
            self.coordinator.own_map.nodes(),
            state.tables.redirects.len(),
            shard.size(),
            state.segments.free_zones(|_| true),
            shard.offline.get(),
        )
    }

    /// Running totals; of other shards as they last told.
    pub fn counters(&self) -> Counters {
        let mut all = self.coordinator.shard.array.counters.get();
        for peer in self.coordinator.peers() {
            all.add(peer.standing.get().counters);
        }
        all
    }

    /// The next event, earliest first; `None` once the pool is closed and all have been taken.
    /// Events go to one reader.
    pub async fn next_event(&self) -> Option<PoolEvent> {
        self.coordinator.shard.array.events.next().await
    }
}
