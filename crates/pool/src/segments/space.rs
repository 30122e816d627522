//! How much a pool can hold, what is kept back, and what upkeep has to do next. No I/O.

use crate::ids::SegmentNumber;
use crate::level::Level;
use crate::location::BLOCK_BYTES;
use crate::segments::zones::formable;

/// Of what is not reserved, so much may be live; the rest is what keeps cleaning cheap.
const FILL_MAX_PERCENT: u64 = 90;
/// Segments that are open: wide and narrow ones for hosts, and the cleaner's.
const OPEN_SEGMENTS: usize = 3;
/// The same for each further shard, and one that lies ready for it.
const OPEN_SEGMENTS_MORE: usize = 4;
/// A node that was changed has at least so many records.
const NODE_RECORDS_LEAST: u64 = 63;
/// What nodes have when blocks are written in random order.
const NODE_RECORDS_TYPICAL: u64 = 180;
/// Segments so small that 16 of them hold less lie ready in greater number: else checkpoints
/// would be taken for want of ready segments long before enough updates wait for the map.
const READY_BLOCKS: u64 = 32 << 10;
/// Free segments that become ready only when the cleaner has nothing else to begin with.
pub(crate) const LAST_RESORT: usize = 2;
/// Cleaning that has begun frees so many segments more than are needed at once, at least.
const CLEANED_AT_ONCE: usize = 4;

/// The size of a pool, in segments as wide as the drives allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size {
    /// Segments that fit on the live drives.
    pub segments: u64,
    /// Data blocks of one of them.
    pub segment_blocks: u64,
    /// Segments that are open, or lie ready for one shard.
    pub open_segments: usize,
}

/// What a size was reckoned for: the drives that take data, how often drives came and went, and the
/// width of segments that lack those that are gone.
pub(crate) type SizeOf = (u32, u64, Option<usize>);

/// The width at which segments are formed on `drives` drives.
pub(crate) fn formed_width(level: Level, width: usize, drives: usize) -> usize {
    level.shape(width.min(drives)).width()
}

impl Size {
    /// From the zones of every live drive.
    pub fn of(level: Level, width: usize, zone_rows: u32, zones: &[usize]) -> Size {
        let live = zones.iter().filter(|zones| **zones > 0).count();
        Size::short(level, formed_width(level, width, live), zone_rows, zones)
    }

    /// The same where segments are so wide, and lack the drives that are gone.
    pub fn short(level: Level, width: usize, zone_rows: u32, zones: &[usize]) -> Size {
        let live = zones.iter().filter(|zones| **zones > 0).count();
        let shape = level.shape(width);
        Size {
            segments: formable(zones, shape.width().min(live.max(1))) as u64,
            segment_blocks: shape.data as u64 * u64::from(zone_rows),
            open_segments: OPEN_SEGMENTS,
        }
    }

    /// The same, for a pool of so many shards.
    pub fn for_shards(self, shards: u64) -> Size {
        Size {
            open_segments: OPEN_SEGMENTS + (shards - 1) as usize * OPEN_SEGMENTS_MORE,
            ..self
        }
    }

    /// The same, if there may be no more than so many segments.
    pub fn at_most(self, segments: Option<u64>) -> Size {
        Size {
            segments: segments.map_or(self.segments, |most| self.segments.min(most)),
            ..self
        }
    }

    /// Data blocks of what is neither the map's nor kept free for the work under way.
    pub fn unreserved_blocks(&self) -> u64 {
        let blocks = self.segments * self.segment_blocks * FILL_MAX_PERCENT / 100;
        let nodes = blocks / NODE_RECORDS_TYPICAL + 1;
        let map = self.map_reserve(nodes, blocks, self.segment_blocks) + self.map_share(nodes);
        let kept = map + LAST_RESORT + self.kept_for_cleaner() + self.open_segments;
        self.segments.saturating_sub(kept as u64) * self.segment_blocks
    }

    /// Live data blocks that the pool takes, in whatever order they are written.
    pub fn usable_blocks(&self) -> u64 {
        self.unreserved_blocks() * FILL_MAX_PERCENT / 100
    }

    /// The same in bytes.
    pub fn usable_bytes(&self) -> u64 {
        self.usable_blocks() * BLOCK_BYTES as u64
    }

    /// Segments that must stay free so that a checkpoint can write every node of the map anew,
    /// and those of `updates` more.
    /// `holds` is what a segment that could be formed now would take.
    pub fn map_reserve(&self, map_nodes: u64, updates: u64, holds: u64) -> usize {
        let nodes = self.map_reserve_nodes(map_nodes, updates);
        1 + nodes.div_ceil(holds.max(1)) as usize
    }

    /// So many nodes a checkpoint can always write.
    pub fn map_reserve_nodes(&self, map_nodes: u64, updates: u64) -> u64 {
        let blocks = self.segments * self.segment_blocks;
        let most = blocks / NODE_RECORDS_LEAST;
        (map_nodes + updates / NODE_RECORDS_LEAST).min(most) + 8
    }

    /// Segments that the nodes may lie in: emptied ones are freed one checkpoint later, and
    /// sparse ones are compacted beyond this.
    pub fn map_share(&self, map_nodes: u64) -> usize {
        2 + (3 * map_nodes).div_ceil(self.segment_blocks.max(1)) as usize
    }

    /// How many segments a checkpoint should free at least, where it merges up to so many updates:
    /// not much fewer blocks than that, and never more than the cleaner empties at a time.
    pub fn worth_freeing(&self, updates: u64) -> usize {
        let segments = updates / self.segment_blocks.max(1);
        (segments as usize).clamp(1, cleaned_at_once(self.ready_target()))
    }

    /// Wide segments that hosts and rebuilds leave to the cleaner: what it empties at a time.
    pub fn kept_for_cleaner(&self) -> usize {
        self.ready_target() / 2
    }

    /// How many wide segments should lie ready.
    pub fn ready_target(&self) -> usize {
        let many = READY_BLOCKS.div_ceil(self.segment_blocks.max(1)).max(16);
        (self.segments / 50)
            .clamp(4, 16)
            .max(many.min(self.segments / 32)) as usize
    }
}

/// What upkeep sees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Situation {
    /// The writer waits for a segment.
    pub starved: bool,
    /// Updates wait for the map, more than they should or while nothing else is to be done.
    pub overlay_full: bool,
    /// A checkpoint would change something: updates, or segments to free.
    pub dirty: bool,
    /// Wide segments ready to be written, and how many there should be.
    pub ready: usize,
    pub ready_target: usize,
    /// How many of those ready no durable tables name yet: they are about to be announced.
    pub unannounced: usize,
    /// How many of them only the cleaner takes.
    pub kept: usize,
    /// Segments that could be made ready: free ones beyond the map's reserve.
    pub spare: usize,
    /// The cleaner may have the last free segments.
    pub last_resort: bool,
    /// The cleaner's open segment has room, or shards are still to clean what it has begun.
    pub moved_room: bool,
    /// Segments that hold nothing and only wait for a checkpoint to be free.
    pub freeable: usize,
    /// Segments that are free as soon as those who read have ended.
    pub read: usize,
    /// Segments that will be free without one as soon as a further stripe is durable.
    pub replaced: usize,
    /// So many of them are worth a checkpoint.
    pub worth_freeing: usize,
    /// Segments have been emptied since the last checkpoint.
    pub begun: bool,
    /// A segment lacks a drive, and its blocks can be moved to where none is lacking.
    pub degraded: bool,
    /// As `degraded`, but a checkpoint is needed before or instead of moving blocks.
    pub degraded_waits: bool,
    /// Some segment would free space if it were cleaned.
    pub victim: bool,
    /// Cleaning the best victim frees much for little.
    pub victim_cheap: bool,
    /// Free zones are on few drives, and will be on others: segments can be formed of them then.
    pub uneven: bool,
    /// What is to be done about the oldest segments.
    pub aged: Aged,
}

/// What upkeep does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Rest,
    Checkpoint,
    /// Make segments ready out of what is free.
    Announce,
    Clean,
    /// Move the blocks of a segment that lacks a drive.
    Rebuild,
    /// Move the blocks of the oldest segment.
    Renew,
    /// Nothing would free a segment: the writes that wait are refused.
    Refuse,
}

impl Situation {
    /// Segments that can be written, or will be after a checkpoint.
    fn free(&self) -> usize {
        self.ready + self.spare + self.freeable + self.replaced
    }

    /// Too few for hosts to go on for long; cleaning that has begun goes on until there are more
    /// than enough, so that one checkpoint frees many.
    pub fn low(&self) -> bool {
        let more = match self.begun {
            true => self.cleaned_at_once(),
            false => 0,
        };
        self.free() < self.ready_target + more
    }

    /// Space is short enough that padding a stripe costs more than it saves.
    pub fn frugal(&self) -> bool {
        self.free() < 2 * self.ready_target + self.cleaned_at_once()
    }

    /// How many segments cleaning should free now.
    pub fn wanted(&self) -> usize {
        (self.ready_target + self.cleaned_at_once()).saturating_sub(self.free())
    }

    fn cleaned_at_once(&self) -> usize {
        cleaned_at_once(self.ready_target)
    }
}

/// The more a checkpoint frees the fewer are needed.
fn cleaned_at_once(ready_target: usize) -> usize {
    CLEANED_AT_ONCE.max(ready_target / 2)
}

/// Decides; each action but the last brings the writer nearer to a segment.
pub(crate) fn plan(seen: Situation) -> Action {
    let more_ready = seen.ready < seen.ready_target && seen.spare > 0;
    let can_move = seen.ready > 0 || seen.moved_room;
    // Every checkpoint writes nearly all of a small map: better few that free much.
    let many = seen.freeable + seen.replaced >= seen.worth_freeing;
    let frees = seen.freeable > 0 && (many || !(seen.victim && can_move));
    // Of those left hosts get none.
    let short = seen.ready * 2 <= seen.ready_target;
    let renews = matches!(seen.aged, Aged::Victim(_)) && seen.ready > seen.kept;
    if seen.overlay_full {
        return Action::Checkpoint;
    }
    if seen.starved && (more_ready || seen.unannounced > 0) {
        return Action::Announce;
    }
    if seen.starved {
        return match (frees, seen.victim && can_move, seen.dirty) {
            (true, _, _) => Action::Checkpoint,
            (false, true, _) => Action::Clean,
            (false, false, true) => Action::Checkpoint,
            (false, false, false) if seen.victim && seen.last_resort => Action::Checkpoint,
            (false, false, false) if seen.read > 0 || seen.uneven => Action::Rest,
            (false, false, false) => Action::Refuse,
        };
    }
    if short && more_ready {
        return Action::Announce;
    }
    if short && frees {
        return Action::Checkpoint;
    }
    if seen.degraded && seen.ready > seen.kept {
        return Action::Rebuild;
    }
    if seen.degraded_waits || seen.degraded && (seen.freeable > 0 || more_ready) {
        return Action::Checkpoint;
    }
    match (seen.low(), seen.victim_cheap && can_move, seen.dirty) {
        (true, true, _) => Action::Clean,
        (true, false, true) if seen.ready < seen.ready_target => Action::Checkpoint,
        (false, _, _) if renews => Action::Renew,
        _ => Action::Rest,
    }
}

/// What is to be done about segments that are so old that too many redirects are kept for them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Aged {
    /// Nothing, or nothing more before the next checkpoint.
    #[default]
    No,
    /// The oldest is still written: the next checkpoint is to seal it.
    Open,
    /// It is to be moved, although that frees nothing.
    Victim(SegmentNumber),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_starved_writer_gets_a_segment_or_an_answer() {
        let starved = Situation {
            starved: true,
            ready_target: 4,
            ..Situation::default()
        };
        assert_eq!(plan(starved), Action::Refuse);
        assert_eq!(
            plan(Situation {
                dirty: true,
                ..starved
            }),
            Action::Checkpoint
        );
        assert_eq!(
            plan(Situation {
                spare: 1,
                ..starved
            }),
            Action::Announce
        );
        let on_their_way = Situation {
            ready: 4,
            unannounced: 4,
            ..starved
        };
        assert_eq!(plan(on_their_way), Action::Announce);
        let last = Situation {
            victim: true,
            last_resort: true,
            ..starved
        };
        assert_eq!(plan(last), Action::Checkpoint);
        let victim = Situation {
            victim: true,
            ready: 2,
            dirty: true,
            ..starved
        };
        assert_eq!(plan(victim), Action::Clean);
        let none_ready = Situation { ready: 0, ..victim };
        assert_eq!(plan(none_ready), Action::Checkpoint);
        let read = Situation { read: 1, ..starved };
        assert_eq!(plan(read), Action::Rest, "it is about to be free");
        let uneven = Situation {
            uneven: true,
            ..starved
        };
        assert_eq!(plan(uneven), Action::Rest, "so are zones");
        let begun = Situation {
            moved_room: true,
            ..none_ready
        };
        assert_eq!(plan(begun), Action::Clean, "what is begun is filled first");
    }

    #[test]
    fn a_checkpoint_for_a_starved_writer_frees_several_segments_if_it_can() {
        let some = Situation {
            starved: true,
            dirty: true,
            ready: 2,
            ready_target: 4,
            kept: 2,
            victim: true,
            freeable: 3,
            worth_freeing: 4,
            ..Situation::default()
        };
        assert_eq!(plan(some), Action::Clean);
        let enough = Situation {
            freeable: 4,
            ..some
        };
        assert_eq!(plan(enough), Action::Checkpoint);
        let no_room = Situation { ready: 0, ..some };
        assert_eq!(plan(no_room), Action::Checkpoint);
        let nothing_to_clean = Situation {
            victim: false,
            ..some
        };
        assert_eq!(plan(nothing_to_clean), Action::Checkpoint);
        let size = Size::of(Level::Raid6, 24, 64, &[300; 24]);
        assert_eq!(
            size.worth_freeing(100_000),
            4,
            "as many as are cleaned at once"
        );
        let large = Size::of(Level::Raid6, 24, 1 << 18, &[1000; 24]);
        assert_eq!(large.worth_freeing(100_000), 1);
    }

    #[test]
    fn a_pool_with_room_rests() {
        let easy = Situation {
            dirty: true,
            ready: 4,
            ready_target: 4,
            spare: 20,
            victim: true,
            victim_cheap: true,
            ..Situation::default()
        };
        assert_eq!(plan(easy), Action::Rest);
        let short = Situation {
            ready: 3,
            spare: 0,
            ..easy
        };
        assert_eq!(plan(short), Action::Clean);
        let cleaned = Situation {
            freeable: 1,
            ..short
        };
        assert_eq!(plan(cleaned), Action::Rest, "it is as good as free");
        let replaced = Situation {
            replaced: 1,
            ..short
        };
        assert_eq!(plan(replaced), Action::Rest, "so is this");
        let left_to_the_cleaner = Situation { ready: 2, ..easy };
        assert_eq!(plan(left_to_the_cleaner), Action::Announce);
        assert_eq!(
            plan(Situation {
                overlay_full: true,
                ..easy
            }),
            Action::Checkpoint
        );
    }

    #[test]
    fn segments_are_moved_for_their_age_where_there_is_room_and_nothing_else_to_do() {
        let easy = Situation {
            aged: Aged::Victim(SegmentNumber::FIRST),
            ready: 4,
            ready_target: 4,
            kept: 2,
            spare: 9,
            ..Situation::default()
        };
        assert_eq!(plan(easy), Action::Renew);
        let young = Situation {
            aged: Aged::No,
            ..easy
        };
        assert_eq!(plan(young), Action::Rest);
        let short = Situation {
            ready: 2,
            spare: 0,
            ..easy
        };
        assert_eq!(plan(short), Action::Rest);
        let starved = Situation {
            starved: true,
            dirty: true,
            spare: 0,
            ..easy
        };
        assert_eq!(plan(starved), Action::Checkpoint);
        let degraded = Situation {
            degraded: true,
            ..easy
        };
        assert_eq!(plan(degraded), Action::Rebuild);
    }

    #[test]
    fn a_rebuild_never_takes_the_reserve_of_the_cleaner() {
        let seen = Situation {
            degraded: true,
            ready: 3,
            ready_target: 4,
            kept: 2,
            ..Situation::default()
        };
        assert_eq!(plan(seen), Action::Rebuild);
        assert_eq!(plan(Situation { ready: 2, ..seen }), Action::Rest);
        let freeable = Situation {
            ready: 2,
            freeable: 1,
            dirty: true,
            ..seen
        };
        assert_eq!(plan(freeable), Action::Checkpoint);
        let starved = Situation {
            starved: true,
            dirty: true,
            ..seen
        };
        assert_eq!(plan(starved), Action::Checkpoint, "the writer comes first");
    }

    #[test]
    fn capacity_follows_the_drives_that_are_left() {
        let six = Size::of(Level::Raid6, 6, 16, &[64; 6]);
        assert_eq!((six.segments, six.segment_blocks), (64, 64));
        let five = Size::of(Level::Raid6, 6, 16, &[64, 64, 64, 64, 64, 0]);
        assert_eq!((five.segments, five.segment_blocks), (64, 48));
        assert!(five.usable_blocks() < six.usable_blocks());
    }
}
