//! Names that stay: of pools, drives, hosts, volumes and snapshots. Numbers of segments, layers,
//! shards, stripes, eras, epochs and incarnations: each kind is a type of its own, so that none is
//! taken for another.

use std::fmt;

/// A kind of numbers by which entries are kept.
pub(crate) trait Number: Copy + Ord {
    /// Numbers without a gap have places without one.
    fn index(self) -> usize;
}

/// Identifies a volume; never given twice in a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VolumeId(pub u32);

/// Identifies a snapshot; never given twice in a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SnapshotId(pub u32);

impl Number for VolumeId {
    fn index(self) -> usize {
        self.0 as usize
    }
}

impl Number for SnapshotId {
    fn index(self) -> usize {
        self.0 as usize
    }
}

/// Identifies a pool for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PoolId(pub [u8; 16]);

/// Identifies a drive of a pool for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DriveId(pub [u8; 16]);

/// Identifies a host that holds pools; all zeroes stands for none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostId(pub [u8; 16]);

/// A shard of a pool: the part that one core serves. They are numbered from 0 without a gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ShardId(u64);

impl ShardId {
    /// The one with which the coordinator lives.
    pub const FIRST: ShardId = ShardId(0);

    pub const fn new(number: u64) -> ShardId {
        ShardId(number)
    }

    pub const fn get(self) -> u64 {
        self.0
    }

    /// The one behind it.
    pub fn next(self) -> ShardId {
        ShardId(self.0 + 1)
    }

    /// Its place in a list of all.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A segment of a pool. Numbers of segments that are gone are given again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub(crate) struct SegmentNumber(u32);

impl SegmentNumber {
    pub const FIRST: SegmentNumber = SegmentNumber(0);
    /// Numbers are below this.
    pub const END: u32 = 1 << 24;
    pub const LAST: SegmentNumber = SegmentNumber(SegmentNumber::END - 1);

    pub const fn new(number: u32) -> SegmentNumber {
        SegmentNumber(number)
    }

    pub const fn get(self) -> u32 {
        self.0
    }

    /// The one that is tried behind this one; the first behind the last.
    pub fn next(self) -> SegmentNumber {
        SegmentNumber((self.0 + 1) % SegmentNumber::END)
    }
}

impl fmt::Display for SegmentNumber {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(out)
    }
}

impl Number for SegmentNumber {
    fn index(self) -> usize {
        self.0 as usize
    }
}

/// A layer; never given twice in a pool. A layer has a higher one than the layer it stands on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct LayerId(u32);

impl LayerId {
    /// None is lower, and none is higher.
    pub const LEAST: LayerId = LayerId(0);
    pub const MOST: LayerId = LayerId(u32::MAX);

    pub const fn new(number: u32) -> LayerId {
        LayerId(number)
    }

    pub const fn get(self) -> u32 {
        self.0
    }
}

impl fmt::Display for LayerId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(out)
    }
}

impl Number for LayerId {
    fn index(self) -> usize {
        self.0 as usize
    }
}

/// The life of a segment; never given twice in a pool. Recovery tells by it whose a header is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub(crate) struct Generation(u32);

impl Generation {
    /// Before the first that is given.
    pub const NONE: Generation = Generation(0);

    pub const fn new(number: u32) -> Generation {
        Generation(number)
    }

    pub const fn get(self) -> u32 {
        self.0
    }

    /// The one that is given behind this one.
    pub fn next(self) -> Generation {
        Generation(self.0 + 1)
    }
}

impl fmt::Display for Generation {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(out)
    }
}

/// The place of a stripe in the log of its shard; they are given without a gap. It says nothing
/// about the log of another shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub(crate) struct Sequence(u64);

impl Sequence {
    /// Before the first that is given.
    pub const NONE: Sequence = Sequence(0);

    pub const fn new(number: u64) -> Sequence {
        Sequence(number)
    }

    pub const fn get(self) -> u64 {
        self.0
    }

    /// That of the stripe behind it.
    pub fn next(self) -> Sequence {
        Sequence(self.0 + 1)
    }

    /// Those of the stripes behind it, up to this one.
    pub fn behind(self, through: Sequence) -> impl Iterator<Item = Sequence> {
        (self.0 + 1..=through.0).map(Sequence)
    }

    /// Those of the stripes behind it that are before `end`.
    pub fn until(self, end: Sequence) -> impl Iterator<Item = Sequence> {
        (self.0 + 1..end.0).map(Sequence)
    }

    /// How many stripes are behind `earlier`, up to it; none if it is the earlier one.
    pub fn stripes_since(self, earlier: Sequence) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl fmt::Display for Sequence {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(out)
    }
}

/// The merges that a shard has seen, none at first. A reader holds on to the era in which it began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct Era(u64);

impl Era {
    /// That of who begins after one more merge.
    pub fn next(self) -> Era {
        Era(self.0 + 1)
    }
}

/// The life of a pool between two recoveries; each has a higher one. Stripes of earlier ones are
/// not replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Incarnation(u64);

impl Incarnation {
    pub const LEAST: Incarnation = Incarnation(0);

    pub const fn new(number: u64) -> Incarnation {
        Incarnation(number)
    }

    pub const fn get(self) -> u64 {
        self.0
    }

    /// The one so many behind it.
    pub fn later_by(self, incarnations: u64) -> Incarnation {
        Incarnation(self.0 + incarnations)
    }
}

impl fmt::Display for Incarnation {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(out)
    }
}

/// How many memberships a pool had before one. Two that were apart may have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct EpochNumber(u64);

impl EpochNumber {
    pub const fn new(number: u64) -> EpochNumber {
        EpochNumber(number)
    }

    pub const fn get(self) -> u64 {
        self.0
    }

    /// That of the membership that comes behind it.
    pub fn next(self) -> EpochNumber {
        EpochNumber(self.0 + 1)
    }
}

/// A stripe: in which log, and where in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StripeId {
    pub shard: ShardId,
    pub sequence: Sequence,
}

/// Sixteen bytes in hexadecimal.
pub(crate) fn hexadecimal(bytes: &[u8; 16]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
