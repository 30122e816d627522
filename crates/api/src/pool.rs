//! Pools: drives under one redundancy, out of which volumes are made.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::Name;
use crate::volume::is_false;

/// How a pool spreads redundancy over its drives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum PoolLevel {
    /// No redundancy: any lost drive loses data. From one drive on.
    Raid0,
    /// Two or three copies of everything. From two drives on.
    Raid1,
    /// Survives any one lost drive. From three drives on.
    Raid5,
    /// Survives any two lost drives. From four drives on.
    Raid6,
    /// Mirrored pairs of columns; survives any one lost drive. From four drives on.
    Raid10,
}

impl PoolLevel {
    /// Every level.
    pub const ALL: [PoolLevel; 5] = [
        PoolLevel::Raid0,
        PoolLevel::Raid1,
        PoolLevel::Raid5,
        PoolLevel::Raid6,
        PoolLevel::Raid10,
    ];

    /// The word that people know it by.
    pub fn as_str(self) -> &'static str {
        match self {
            PoolLevel::Raid0 => "raid0",
            PoolLevel::Raid1 => "raid1",
            PoolLevel::Raid5 => "raid5",
            PoolLevel::Raid6 => "raid6",
            PoolLevel::Raid10 => "raid10",
        }
    }
}

impl fmt::Display for PoolLevel {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

impl FromStr for PoolLevel {
    type Err = String;

    fn from_str(text: &str) -> Result<PoolLevel, String> {
        let found = PoolLevel::ALL
            .into_iter()
            .find(|level| level.as_str() == text);
        found.ok_or_else(|| format!("level {text:?}; allowed: raid0, raid1, raid5, raid6, raid10"))
    }
}

/// What a pool is to be; the body of `PUT /v1/pools/{name}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PoolSpec {
    /// Its redundancy.
    pub level: PoolLevel,
    /// The drives it takes whole.
    pub drives: Vec<Name>,
    /// Drives that one stripe is spread over; all of them unless said otherwise, or up to three for
    /// raid1, and an even number for raid10. Fewer leave room to rebuild at full width when a drive
    /// is lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub width: Option<u8>,
    /// Take drives that carry something, such as a file system or a partition table, all the same:
    /// it is wiped. Without this they are refused. A label of another pool is never taken so.
    #[serde(default, skip_serializing_if = "is_false")]
    pub force: bool,
}

/// How a drive is to be added to a pool; the query of `PUT /v1/pools/{name}/drives/{drive}`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct AddDriveQuery {
    /// Take a drive that carries something, such as a file system, all the same: it is wiped
    #[serde(default)]
    pub force: Option<bool>,
}

/// How well a pool is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum PoolState {
    /// Every member works.
    Online,
    /// Members are missing; everything can be read and written.
    Degraded,
    /// Nothing can be read or written; `reason` says why.
    Offline,
}

/// A member of a pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PoolMember {
    /// Its position among the members.
    pub index: u32,
    /// What the drive is called on this node; nothing if it never was here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drive: Option<Name>,
    /// Its identity, as its label has it.
    pub id: String,
    /// Its size.
    pub bytes: u64,
    /// Space on it that nothing has been written to, or that is free again; the same on every
    /// member once a drive that joined has taken its share.
    pub free_bytes: u64,
    /// False: it failed or is missing.
    pub active: bool,
    /// True while it takes much longer than the other members.
    pub slow: bool,
    /// Reads that it failed since the pool was opened.
    pub read_errors: u64,
    /// Blocks that came back wrong since the pool was opened.
    pub corrupt_blocks: u64,
}

/// Running totals of a pool since it was opened, in blocks of 4 KiB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PoolCounters {
    /// Blocks that hosts wrote and had acknowledged.
    pub host_blocks_written: u64,
    /// Blocks that went to the drives for them, redundancy included.
    pub stripe_blocks_written: u64,
    /// Blocks that went to the drives for the map, redundancy included.
    pub map_blocks_written: u64,
    /// Live blocks that were moved to free space, or off a drive.
    pub relocated_blocks: u64,
    /// Blocks that were copied to another drive, redundancy included, for each to have its share.
    pub rebalanced_blocks: u64,
    /// Blocks that hosts and the map read by rebuilding them from the rest of their row.
    pub reconstructed_reads: u64,
    /// Blocks that were found bad, rebuilt and written back.
    pub repaired_blocks: u64,
    /// Reads that failed with all the redundancy there is.
    pub unrecovered_reads: u64,
}

/// What a pool's segments are: the runs of blocks in which it takes and frees space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PoolSegments {
    /// Segments that the free zones make up.
    pub free: u64,
    /// Have zones and hold nothing yet.
    pub ready: u64,
    /// Being filled.
    pub open: u64,
    /// Being emptied, or emptied and free after the next checkpoint.
    pub cleaning: u64,
    /// Hold the map.
    pub map: u64,
    /// Full, by the share of them that lives: below a tenth, below two tenths, and so on. What is
    /// dead comes back by cleaning; the fuller a segment, the more that costs.
    pub closed: [u64; 10],
}

/// The map of a pool: where each block of each volume is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PoolMap {
    /// What it takes on the drives, redundancy not counted.
    pub bytes: u64,
    /// How much of it is in memory.
    pub cached_bytes: u64,
    /// How much of it may be; what is not there is read from the drives again.
    pub cache_bytes: u64,
}

/// A pool as the node sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Pool {
    /// The pool's name.
    pub name: Name,
    /// Its identity, for ever the same.
    pub id: String,
    /// Whether it can be used now.
    pub state: PoolState,
    /// Why it is offline, or what drives carry in place of members that it lacks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Its redundancy; nothing while it is not open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<PoolLevel>,
    /// Drives that one stripe is spread over; nothing while it is not open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub width: Option<u8>,
    /// Drives that it can lose from now on, whichever they are, and go on; nothing while it is not
    /// open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drives_to_spare: Option<u8>,
    /// What it can hold, redundancy and reserves taken off.
    pub usable_bytes: u64,
    /// What it holds.
    pub used_bytes: u64,
    /// Of that, what only deleted volumes and snapshots have: it is being freed.
    #[serde(default)]
    pub deleted_bytes: u64,
    /// What is kept for volumes that reserve space, beyond what they hold: no more of this is free
    /// than of what is used.
    #[serde(default)]
    pub reserved_bytes: u64,
    /// What its segments are; nothing while it is not open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub segments: Option<PoolSegments>,
    /// Its map; nothing while it is not open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub map: Option<PoolMap>,
    /// Every member.
    pub members: Vec<PoolMember>,
    /// Names of its volumes.
    pub volumes: Vec<Name>,
    /// When everything in it had been checked for the last time, in RFC 3339; nothing: never on
    /// this node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scrubbed: Option<String>,
    /// Running totals.
    pub counters: PoolCounters,
}

/// A pool that is on the node's drives and that it does not hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ImportablePool {
    /// Its name.
    pub name: String,
    /// Its identity.
    pub id: String,
    /// Its redundancy.
    pub level: PoolLevel,
    /// The drives of this node that carry it.
    pub drives: Vec<Name>,
    /// How many members it has.
    pub members: u32,
    /// The host that holds it, which is another one or this node under another identity; nothing
    /// after an export.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<String>,
}

/// How a pool is to be exported; the query of `POST /v1/pools/{name}/export`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ExportQuery {
    /// Export it while hosts are connected to its volumes, which lose their disks
    #[serde(default)]
    pub force: Option<bool>,
}

/// What a drive carries that neither a volume nor an open pool uses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CarriedLabel {
    /// The drive.
    pub drive: Name,
    /// It is of a pool that is among those that can be imported, as far as this drive goes.
    pub importable: bool,
    /// What that is, for people.
    pub carries: String,
    /// What to do about it, for people.
    pub advice: String,
}

/// How a pool is to be imported; the body of `POST /v1/pools/{name}/import`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PoolImport {
    /// Which one, if several have the name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Take it although another host holds it: right only if that host is off for good.
    #[serde(default)]
    pub force: bool,
    /// Take it although another program wrote something before the labels of its drives, such as a
    /// swap area: it is wiped. Without this it is named, and the pool refused.
    #[serde(default)]
    pub overwrite: bool,
    /// Go on from what can be read, although drives that do not read may hold what was written
    /// last: that is lost then.
    #[serde(default)]
    pub accept_loss: bool,
    /// Go on without members that are absent, as far as the redundancy goes: what they hold is
    /// rebuilt on the others, and they join as new drives when they are back. Members that `drives`
    /// leaves out are gone on without in any case.
    #[serde(default)]
    pub degraded: bool,
    /// Use these drives only; all that carry it unless said otherwise. Those that are left out stay
    /// so until they are added to the pool again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub drives: Vec<Name>,
    /// What to call it from now on.
    #[serde(default, rename = "as", skip_serializing_if = "Option::is_none")]
    pub rename: Option<Name>,
    /// What to call volumes from now on, by what they are called in the pool. One whose NQN or UUID
    /// a volume has that is here gets others as well.
    #[serde(
        default,
        deserialize_with = "each_once",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub rename_volumes: BTreeMap<Name, Name>,
}

/// Refuses an object that says two things of one name, of which one would be lost.
fn each_once<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<Name, Name>, D::Error> {
    struct EachOnce;

    impl<'de> Visitor<'de> for EachOnce {
        type Value = BTreeMap<Name, Name>;

        fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            formatter.write_str("an object with a new name for each name")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut found: A) -> Result<Self::Value, A::Error> {
            let mut names = BTreeMap::new();
            while let Some((name, new)) = found.next_entry::<Name, Name>()? {
                if names.contains_key(&name) {
                    let message = format!("{name} comes twice; allowed: once");
                    return Err(A::Error::custom(message));
                }
                names.insert(name, new);
            }
            Ok(names)
        }
    }

    from.deserialize_map(EachOnce)
}

/// The space of one volume or snapshot, exact as of a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SpaceUse {
    /// The volume or the snapshot.
    pub name: String,
    /// True for a snapshot.
    pub snapshot: bool,
    /// What it reads as other than never written or deallocated.
    pub logical_bytes: u64,
    /// What would be free if it were deleted.
    pub unique_bytes: u64,
    /// What others read as well.
    pub shared_bytes: u64,
}

/// Where all the space of a pool has gone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PoolUsage {
    /// Every volume and snapshot, by name.
    pub users: Vec<SpaceUse>,
    /// Blocks that nobody reads any more but that a common ancestor of volumes still holds.
    pub unnamed_bytes: u64,
    /// All data that lives.
    pub total_bytes: u64,
    /// What is kept for volumes that reserve space, beyond what they hold.
    #[serde(default)]
    pub reserved_bytes: u64,
}
