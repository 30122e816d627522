//! What a pool promises where one drive does one thing wrong: the table of `docs/pool.md`, which
//! `crates/sim/tests/promises.rs` compares with this one.

use crate::drive::Lie;
use pool::Level;

/// Something that happens to a pool, or that one of its drives does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The power fails.
    PowerLoss,
    /// A drive dies.
    LostDrive,
    /// A drive does not read a block.
    MediumError,
    /// A bit of a block is wrong.
    Decay,
    /// A drive says what is not so.
    Lie(Lie),
}

/// What is left of the redundancy of a level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Redundancy {
    /// No drive is lost; raid0 has none all the same.
    Whole,
    /// As many drives are lost as may be.
    None,
}

/// What a pool promises, the best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Promise {
    /// All that was acknowledged reads back.
    Right,
    /// It reads back or fails; the pool may be refused.
    Fails,
    /// The same, but the last writes before a crash may be missing.
    MayLackLast,
    /// The same, but all since the drive began to do so may be missing after a crash.
    MayBeStale,
}

/// The levels of the table, column by column. What is said of raid1 is said of raid10.
pub const COLUMNS: [(Level, Redundancy); 7] = [
    (Level::Raid1, Redundancy::Whole),
    (Level::Raid5, Redundancy::Whole),
    (Level::Raid6, Redundancy::Whole),
    (Level::Raid0, Redundancy::Whole),
    (Level::Raid1, Redundancy::None),
    (Level::Raid5, Redundancy::None),
    (Level::Raid6, Redundancy::None),
];

use Promise::{Fails, MayBeStale, MayLackLast, Right};

/// The faults, row by row, and for each column what is promised.
pub const TABLE: [(Fault, [Promise; COLUMNS.len()]); 11] = [
    (Fault::PowerLoss, row(Right)),
    (Fault::LostDrive, row(Fails)),
    (Fault::MediumError, row(Fails)),
    (Fault::Decay, row(MayLackLast)),
    (Fault::Lie(Lie::WrongRead), row(Right)),
    (Fault::Lie(Lie::LostWrite), row(MayLackLast)),
    (Fault::Lie(Lie::MisdirectedWrite), row(MayLackLast)),
    (Fault::Lie(Lie::IgnoredFlush), row(MayBeStale)),
    (Fault::Lie(Lie::OldContent), row(MayLackLast)),
    (Fault::Lie(Lie::LateDiscard), row(MayLackLast)),
    (Fault::Lie(Lie::BadDiscard), row(Right)),
];

/// All is right while there is redundancy, and else it is so.
const fn row(without: Promise) -> [Promise; COLUMNS.len()] {
    [Right, Right, Right, without, without, without, without]
}

impl Fault {
    /// As it is called.
    pub fn name(self) -> &'static str {
        match self {
            Fault::PowerLoss => "power loss",
            Fault::LostDrive => "lost drive",
            Fault::MediumError => "medium error",
            Fault::Decay => "decay",
            Fault::Lie(Lie::WrongRead) => "wrong data on one read",
            Fault::Lie(Lie::LostWrite) => "lost write",
            Fault::Lie(Lie::MisdirectedWrite) => "misdirected write",
            Fault::Lie(Lie::IgnoredFlush) => "flush that does nothing",
            Fault::Lie(Lie::OldContent) => "old content returns",
            Fault::Lie(Lie::LateDiscard) => "late discard",
            Fault::Lie(Lie::BadDiscard) => "partial, undone or garbage discard",
        }
    }
}

impl Promise {
    /// As it is called.
    pub fn name(self) -> &'static str {
        match self {
            Right => "right",
            Fails => "fails",
            MayLackLast => "may lack the last",
            MayBeStale => "may be stale",
        }
    }
}
