//! Names that stay: of pools, drives, hosts, volumes and snapshots.

/// Identifies a volume; never given twice in a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VolumeId(pub u32);

/// Identifies a snapshot; never given twice in a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SnapshotId(pub u32);

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
pub(crate) struct ShardId(pub u64);

impl ShardId {
    /// The one with which the coordinator lives.
    pub const FIRST: ShardId = ShardId(0);

    /// Its place in a list of all.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Sixteen bytes in hexadecimal.
pub(crate) fn hexadecimal(bytes: &[u8; 16]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
