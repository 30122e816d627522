//! [`TableRoom`]: how the place that the tables have in a superblock slot is shared out. Segments
//! come and go by themselves, and a pool whose table of them does not fit any more could publish
//! nothing: so room for all that its zones can make up is kept free of volumes and snapshots.

use crate::format::body::{segment_bytes, tables_bytes};
use crate::format::drive_layout::zones;
use crate::format::plausible::TABLES_BYTES_MAX;
use crate::level::{DRIVES_MAX, Shape};
use crate::location::BLOCK_BYTES;
use crate::shard::coordinator::Coordinator;
use crate::shard::core::Core;
use crate::shard::state::State;
use block::BlockDevice;

/// Kept for the head of the tables, and for what a recovery decides about every shard's log: at
/// least, and in tables that have more room. The latter is enough for the most shards with all the
/// stripes torn that may be under way.
const HEAD_BYTES_LEAST: u64 = 16 << 10;
const HEAD_BYTES_MOST: u64 = 32 << 10;
/// The head has no larger part than this one.
const HEAD_PART: u64 = 4;
/// Volumes have this part at least, however many zones there are.
const VOLUMES_PART: u64 = 4;
/// Tables of volumes in a new pool, the head's part included: they grow with the drives.
const VOLUMES_BYTES_LEAST: u64 = 32 << 10;
const VOLUMES_BYTES_MOST: u64 = 4 << 20;

/// What segments take in the tables if they are as many as can be made of so many zones: all of
/// them `narrow`, and an eighth more, since some may have columns on drives that are gone.
fn segments_bytes(narrow: Shape, zones: u64) -> u64 {
    let segments = zones.div_ceil(narrow.width() as u64);
    (segments + segments.div_ceil(8)) * segment_bytes(narrow.width()) as u64
}

/// Bytes that tables should take in a slot at most. One block more fits: what is decided about a
/// full pool that was left by an earlier version.
fn planned_bytes(slot_blocks: u32) -> u64 {
    let room = u64::from(slot_blocks.saturating_sub(2)) * BLOCK_BYTES as u64;
    room.min(TABLES_BYTES_MAX - BLOCK_BYTES as u64)
}

/// What of so many bytes is kept for the head.
fn head_bytes(planned: u64) -> u64 {
    (planned / HEAD_PART).clamp(HEAD_BYTES_LEAST, HEAD_BYTES_MOST)
}

/// Blocks of a slot for a new pool: room for the segments of as many drives as there may be that
/// are like the smallest, or of those that there are, and for the tables of volumes.
pub(crate) fn slot_blocks_for(narrow: Shape, smallest: u64, zone_blocks: u32, zones: u64) -> u32 {
    let most = smallest / u64::from(zone_blocks) * DRIVES_MAX as u64;
    let segments = segments_bytes(narrow, most.max(zones));
    let volumes = smallest.clamp(VOLUMES_BYTES_LEAST, VOLUMES_BYTES_MOST);
    let volumes = volumes.max(HEAD_BYTES_MOST + segments.div_ceil(VOLUMES_PART - 1));
    let blocks = 2 + (segments + volumes).div_ceil(BLOCK_BYTES as u64);
    u32::try_from(blocks).unwrap_or(u32::MAX)
}

/// Tables of so many bytes on all drives together are written however little there is to merge.
const SMALL_TABLES: u64 = 4 << 20;
/// Larger ones are this part, at most, of what hosts wrote since the last checkpoint.
const TABLES_PART: u64 = 32;

/// Updates that are worth a checkpoint in a pool of so many `zones` on so many `drives`: it writes
/// the table of `wide` segments anew to every drive, whatever has changed of them.
pub(crate) fn updates_worth_tables(wide: Shape, zones: u64, drives: u64) -> usize {
    let large = drives_bytes(wide, zones, drives).saturating_sub(SMALL_TABLES);
    let updates = (large * TABLES_PART).div_ceil(BLOCK_BYTES as u64);
    usize::try_from(updates).unwrap_or(usize::MAX)
}

/// What the table of segments takes on all drives.
fn drives_bytes(wide: Shape, zones: u64, drives: u64) -> u64 {
    let segments = zones.div_ceil(wide.width() as u64);
    segments * segment_bytes(wide.width()) as u64 * drives
}

/// How volumes and segments share the place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TableRoom {
    bytes: u64,
    /// What volumes may not take.
    segments: u64,
    /// The zones could make up more segments than there is room for: drives have joined that are
    /// much larger than those of which the pool was made.
    short: bool,
}

impl TableRoom {
    pub fn of(slot_blocks: u32, narrow: Shape, zones: u64) -> TableRoom {
        let planned = planned_bytes(slot_blocks);
        let bytes = planned.saturating_sub(head_bytes(planned));
        let (all, most) = (segments_bytes(narrow, zones), bytes - bytes / VOLUMES_PART);
        TableRoom {
            bytes,
            segments: all.min(most),
            short: all > most,
        }
    }

    /// Bytes that the tables of volumes may take.
    pub fn for_volumes(&self) -> u64 {
        self.bytes - self.segments
    }

    /// So many segments of `width` columns may there be; `None` if that is for the zones to say.
    pub fn segments_most(&self, width: usize) -> Option<u64> {
        self.short
            .then(|| self.segments / segment_bytes(width) as u64)
    }

    /// The same of segments that may be made beside those that there are.
    fn segments_left(&self, used: u64, volumes: u64, width: usize) -> Option<u64> {
        let taken = used + volumes.max(self.for_volumes());
        let left = self.bytes.saturating_sub(taken);
        self.short.then(|| left / segment_bytes(width) as u64)
    }
}

impl<D: BlockDevice> Core<D> {
    /// The tables' room by the drives that take data, which have so many zones.
    pub fn table_room_with(&self, zones: &[usize]) -> TableRoom {
        let live = self.array.live();
        let slot = live
            .first()
            .map_or(0, |(_, drive)| drive.layout.slot_blocks);
        let zones = zones.iter().sum::<usize>() as u64;
        TableRoom::of(slot, self.array.level.narrow(self.width), zones)
    }
}

impl<D: BlockDevice + 'static> Coordinator<D> {
    /// Bytes that tables can take, and no more.
    pub fn slot_bytes(&self) -> usize {
        let slot = self.published.borrow().superblock.slot_blocks.get();
        let room = u64::from(slot.saturating_sub(1)) * BLOCK_BYTES as u64;
        room.min(TABLES_BYTES_MAX) as usize
    }

    /// Bytes that they should not take more of.
    pub fn table_bytes_planned(&self) -> usize {
        planned_bytes(self.published.borrow().superblock.slot_blocks.get()) as usize
    }

    pub fn table_room(&self) -> TableRoom {
        let published = self.published.borrow();
        let superblock = &published.superblock;
        let zones = zones(superblock).into_iter().map(u64::from).sum();
        let narrow = self.shard.array.level.narrow(self.shard.width);
        TableRoom::of(superblock.slot_blocks.get(), narrow, zones)
    }

    /// Segments of `width` columns for which the tables have room beside those that there are.
    pub fn segments_by_tables(&self, state: &State, width: usize) -> usize {
        let room = self.table_room();
        if !room.short {
            return usize::MAX;
        }
        let used = state.segments.table().values();
        let used = used.map(|segment| segment_bytes(segment.columns.len()) as u64);
        let volumes = tables_bytes(&state.tables) as u64;
        let left = room.segments_left(used.sum(), volumes, width);
        left.map_or(usize::MAX, |left| left as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::body::{Body, Decided, DecidedLog};
    use crate::ids::{Incarnation, Sequence};
    use crate::level::Level;
    use crate::options::Settings;
    use crate::segments::slices::SHARDS_MAX;
    use crate::stripes::order::MOVED_IN_FLIGHT_MAX;

    #[test]
    fn a_new_pool_has_room_for_the_segments_of_as_many_drives_as_there_may_be() {
        for level in Level::ALL {
            for (smallest, zone) in [(1000, 32), (1 << 20, 1 << 10), (1 << 31, 1 << 18)] {
                let narrow = level.narrow(3);
                let zones = smallest / u64::from(zone);
                let slot = slot_blocks_for(narrow, smallest, zone, zones);
                let full = TableRoom::of(slot, narrow, zones * DRIVES_MAX as u64);
                assert!(!full.short, "{level} {smallest}");
                assert!(full.for_volumes() >= VOLUMES_BYTES_LEAST - HEAD_BYTES_LEAST);
                assert_eq!(full.segments_most(3), None);
            }
        }
    }

    /// Each shard of a pool with the most of them may leave as many stripes torn as may be under
    /// way, and the tables may be full.
    #[test]
    fn what_is_decided_about_every_log_has_room_in_the_tables_of_drives_of_any_use() {
        let torn = Settings::default().stripes_in_flight + MOVED_IN_FLIGHT_MAX;
        let log = DecidedLog {
            torn: (0..torn as u64).map(Sequence::new).collect(),
            ..DecidedLog::default()
        };
        let decided = Decided {
            incarnation: Incarnation::new(1),
            slice_blocks: 1,
            logs: vec![log; SHARDS_MAX],
        };
        let body = Body {
            sequences: vec![Sequence::NONE; SHARDS_MAX],
            decided: Some(decided),
            ..Body::default()
        };
        let head = body.encoded_bytes() as u64;
        let blocks = 16_000_000_000 / BLOCK_BYTES as u64;
        let slot = slot_blocks_for(Level::Raid6.narrow(4), blocks, 1 << 14, 4 * (blocks >> 14));
        let kept = head_bytes(planned_bytes(slot));
        assert!(head <= kept, "{head} bytes, and {kept} are kept");
    }

    /// The larger the tables, the more updates wait for one checkpoint. In a pool of 1 PB they are
    /// written so seldom that they take a small part of what the drives can write.
    #[test]
    fn tables_of_large_pools_are_written_in_proportion_to_what_hosts_write() {
        let wide = Level::Raid6.shape(8);
        let zones = |terabytes: u64| terabytes * 1_000_000_000_000 / (1 << 30);
        let worth = |drives: u64, terabytes| {
            updates_worth_tables(wide, drives * zones(terabytes), drives) as u64
        };
        assert_eq!((worth(8, 1), worth(3, 4)), (0, 0));
        let petabyte = worth(8, 122);
        assert!(petabyte > 400_000, "{petabyte}");
        let tables = drives_bytes(wide, 8 * zones(122), 8);
        assert!(tables <= petabyte * BLOCK_BYTES as u64 / TABLES_PART + SMALL_TABLES);
        // Without that 100,000 updates brought a seventh of their size.
        assert!(tables * 7 > 100_000 * BLOCK_BYTES as u64);
    }

    #[test]
    fn where_drives_are_too_large_segments_and_volumes_have_their_parts() {
        let narrow = Level::Raid5.narrow(3);
        let slot = slot_blocks_for(narrow, 1300, 32, 120);
        let short = TableRoom::of(slot, narrow, 1 << 20);
        assert!(short.short && short.for_volumes() >= short.bytes / VOLUMES_PART);
        let most = short.segments_most(3).expect("a bound");
        assert_eq!(short.segments_left(0, 0, 3), Some(most));
        let used = 10 * segment_bytes(3) as u64;
        assert_eq!(short.segments_left(used, 0, 3), Some(most - 10));
        let volumes = short.for_volumes() + segment_bytes(3) as u64;
        assert_eq!(short.segments_left(used, volumes, 3), Some(most - 11));
        assert_eq!(short.segments_left(short.bytes, 1, 3), Some(0));
    }
}
