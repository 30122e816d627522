//! [`PoolError`]: why a pool cannot be made, opened or changed.

pub(crate) mod label;

use crate::error::label::{DamagedLabel, NewerFormat};
use crate::format::plausible::Implausible;
use crate::ids::DriveId;
use crate::level::Level;
use crate::offline::OfflineReason;
use crate::volumes::{IDS_END, IdsUsedUp};
use block::IoError;

/// A member of a pool that works as far as the pool knows, and that it cannot be opened with now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AbsentMember {
    /// The drive.
    pub id: DriveId,
    /// Its position among the members.
    pub index: usize,
    /// Its size.
    pub bytes: u64,
    /// Position, among the drives given, of what it is by a label that is not whole or cannot be
    /// read; `None` if it is none of them.
    pub given: Option<usize>,
}

/// What went wrong with a control operation, in terms of what the caller can do about it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PoolError {
    /// The level needs more drives, or allows fewer.
    #[error("{level} needs {min} to {max} drives; there are {found}")]
    DriveCount {
        /// The level asked for.
        level: Level,
        /// Fewest drives it needs.
        min: usize,
        /// Most drives a pool may have.
        max: usize,
        /// Drives given.
        found: usize,
    },
    /// Segments cannot be so wide.
    #[error("width of {level} on {drives} drives: {width}; allowed: {allowed}")]
    Width {
        /// The level asked for.
        level: Level,
        /// The width asked for.
        width: usize,
        /// Drives given.
        drives: usize,
        /// What there could be instead, for the reader.
        allowed: String,
    },
    /// A drive is too small to be of use.
    #[error("drive {index} has {found} blocks of 4 KiB; at least {min} are needed")]
    DriveTooSmall {
        /// Position among the drives given.
        index: usize,
        /// Its size in 4 KiB blocks.
        found: u64,
        /// The least size.
        min: u64,
    },
    /// A drive already belongs to a pool.
    #[error("drive {index} belongs to pool {pool:?}; wipe it first if that pool is not needed")]
    DriveInUse {
        /// Position among the drives given.
        index: usize,
        /// The pool's name.
        pool: String,
    },
    /// A drive carries a label of which nothing is whole.
    #[error(
        "the label of drive {index} is damaged{}: it names pool {:?}, member {}; wipe the drive \
         if what is on it is not needed", .label.why(), .label.pool_name, .label.index
    )]
    LabelDamaged {
        /// Position among the drives given.
        index: usize,
        /// What can be told of it.
        label: DamagedLabel,
    },
    /// A drive would not read one of its two superblocks, and that may be the latest.
    #[error(
        "a label of drive {index} cannot be read, and it may be what the pool was last: see to \
         that drive and try again; or open the pool without that drive, or accept the loss of what \
         was written last"
    )]
    LabelUnreadable {
        /// Position among the drives given.
        index: usize,
    },
    /// The latest superblock of a drive, or its tables, are damaged, and nothing else says what
    /// they said.
    #[error(
        "the latest label of drive {index}, number {lost}, is damaged, and the one before is \
         number {older}: volumes and snapshots that were made or changed last, and what was \
         written to them, would be missing or old; give the drives that have the latest label, \
         or accept the loss"
    )]
    LatestLabelDamaged {
        /// Position among the drives given.
        index: usize,
        /// What the pool would be opened as.
        older: u64,
        /// What it was last, as far as can be told.
        lost: u64,
    },
    /// The log tells of a later superblock than any that was found.
    #[error(
        "the latest label of these drives is number {opened}, and the log was written after \
         number {found}: volumes and snapshots that were made or changed between the two, and \
         what was written to them, would be missing or old; give the drives that have the latest \
         label, or accept the loss"
    )]
    RolledBack {
        /// The number of the newest superblock that was found.
        opened: u64,
        /// The largest that the log tells of.
        found: u64,
    },
    /// Drives would not read the end of the log, and there may be acknowledged writes.
    #[error(
        "{drives} drives cannot be read where the log ends, and it may go on there: see to them \
         and try again, or accept the loss of what was written last"
    )]
    LogUnreadable {
        /// How many of them, at one place.
        drives: usize,
    },
    /// A drive has become smaller than it was when it joined the pool.
    #[error(
        "drive {index} has {found} blocks of 4 KiB and had {before} when it joined the pool: give \
         it its size back, or open the pool without it"
    )]
    DriveShrank {
        /// Position among the drives given.
        index: usize,
        /// Its size in 4 KiB blocks.
        found: u64,
        /// The size that it had.
        before: u64,
    },
    /// None of the drives carries a pool.
    #[error("no drive carries a pool")]
    NoPool,
    /// Drives of more than one pool were given.
    #[error("the drives belong to different pools: {0:?} and {1:?}; give those of one")]
    MixedPools(String, String),
    /// The same drive was given twice, or a copy of it.
    #[error("two of the drives are copies of one another (member {0}); give only the true one")]
    DuplicateDrive(usize),
    /// A later version wrote the pool.
    #[error("{0}")]
    NewerFormat(NewerFormat),
    /// Too few members are there.
    #[error("{present} of {members} members are there and current; {needed} are needed: {missing}")]
    MembersMissing {
        /// Members that are there and current.
        present: usize,
        /// All members.
        members: usize,
        /// How many it takes.
        needed: usize,
        /// The missing ones, for the reader.
        missing: String,
    },
    /// Members are absent that the pool could do without, and nobody has said that it should.
    #[error("{} of {members} members are absent; open the pool with them", .absent.len())]
    MembersAbsent {
        /// All members.
        members: usize,
        /// Those that are absent.
        absent: Vec<AbsentMember>,
    },
    /// Two sets of drives were each used without the other.
    #[error(
        "the drives were used apart: some as epoch {left}, some as epoch {right}, and neither \
         knows the other; open the pool with only the set that is to be kept"
    )]
    SplitBrain {
        /// Epoch number of one set.
        left: u64,
        /// Positions, among the drives given, of those that belong to the one set.
        left_drives: Vec<usize>,
        /// Epoch number of the other.
        right: u64,
        /// Positions of those that belong to the other.
        right_drives: Vec<usize>,
    },
    /// Another host holds the pool.
    #[error("host {holder} holds the pool; export it there, or force if that host is off")]
    Held {
        /// The holder's identifier in hexadecimal.
        holder: String,
    },
    /// Another host goes on publishing, however often the pool is claimed.
    #[error("host {holder} goes on using the pool although it has been claimed; stop that host")]
    StillInUse {
        /// The host's identifier in hexadecimal.
        holder: String,
    },
    /// Metadata could not be read with all the redundancy there is.
    #[error("the pool's {0} is damaged beyond its redundancy")]
    Damaged(&'static str),
    /// Checksums are right, and nothing of the product writes this: nothing is done by it.
    #[error("the pool's drives say what those of no pool do: {0}; the pool is not opened")]
    Implausible(Implausible),
    /// Acknowledged stripes are missing from the log.
    #[error("the log misses acknowledged stripe {0}: more drives lost data than the level allows")]
    LogDamaged(u64),
    /// Too many drives are gone; nothing more can be written.
    #[error("the pool is offline: {0}")]
    Offline(OfflineReason),
    /// Too many members are out of use already for one more to be taken out of it.
    #[error(
        "the pool cannot do without that drive: {lacking} of its members are out of use already, \
         and no more than {lost_max} may be; wait for the rebuild, or add a drive"
    )]
    Indispensable {
        /// Members out of use of which blocks have not been rebuilt.
        lacking: usize,
        /// How many may be.
        lost_max: usize,
    },
    /// A drive that was to leave has failed before it was empty.
    #[error("the drive failed before it was empty, and is out of use: nothing was wiped")]
    DriveFailed,
    /// A drive was to leave, and blocks of volumes cannot be read to be moved off it.
    #[error(
        "the drive holds blocks that cannot be read, and what is beside them: it stays; events \
         name the volumes, and once those are gone or have been written anew it can leave"
    )]
    BlocksUnreadable,
    /// A scrub was ended before it was through.
    #[error("the scrub was stopped")]
    ScrubStopped,
    /// There is no such volume, snapshot or drive.
    #[error("no such {0}")]
    NotFound(&'static str),
    /// A volume or snapshot is called so already.
    #[error("the name {0:?} is taken")]
    NameTaken(String),
    /// The request makes no sense, whatever the pool's state.
    #[error("invalid request: {0}")]
    Invalid(&'static str),
    /// There is no room in the superblocks for more volumes, snapshots or what is kept with them.
    #[error(
        "the pool has no room for more: its tables of volumes and snapshots would take {bytes} \
         bytes; allowed: {allowed}; delete volumes or snapshots first"
    )]
    TablesFull {
        /// What the tables would take.
        bytes: u64,
        /// What they may take.
        allowed: u64,
    },
    /// Every number that a volume, a snapshot or what lies below them can have has been given.
    #[error(
        "a pool can make {} volumes and snapshots in its life, and this one has: move its volumes \
         to a new pool",
        IDS_END / 2
    )]
    IdsUsedUp,
    /// Not enough space for what was asked.
    #[error("out of space")]
    NoSpace,
    /// A drive failed the request.
    #[error("drive error: {0}")]
    Io(IoError),
    /// The kernel gave no random bytes.
    #[error("no random bytes from the system")]
    Entropy,
}

impl From<Implausible> for PoolError {
    fn from(found: Implausible) -> PoolError {
        PoolError::Implausible(found)
    }
}

impl From<IdsUsedUp> for PoolError {
    fn from(_: IdsUsedUp) -> PoolError {
        PoolError::IdsUsedUp
    }
}

impl From<IoError> for PoolError {
    fn from(error: IoError) -> PoolError {
        match error {
            IoError::CapacityExceeded => PoolError::NoSpace,
            other => PoolError::Io(other),
        }
    }
}

impl From<getrandom::Error> for PoolError {
    fn from(_: getrandom::Error) -> PoolError {
        PoolError::Entropy
    }
}
