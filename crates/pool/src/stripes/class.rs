//! Who wants segments, and of what a pool makes them.

use crate::level::{Level, Shape};
use crate::segments::zones::Zone;

/// Who wants a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    HostWide,
    HostNarrow,
    /// For what hosts wrote, and of which much is dead by now.
    Moved,
    /// For what was moved before: it is seldom written, and stays out of the way of the other.
    MovedAgain,
}

impl Class {
    /// How many there are.
    pub const COUNT: usize = 4;

    /// True for the cleaner's.
    pub fn moves(self) -> bool {
        matches!(self, Class::Moved | Class::MovedAgain)
    }
}

/// What the pool is made of, as far as placing stripes goes.
#[derive(Clone, Copy)]
pub(crate) struct Rules {
    pub level: Level,
    pub width: usize,
    pub zone_rows: u32,
    /// Drives that take data, by the bit of their index.
    pub taking: u32,
    /// Ready segments that hosts leave to the cleaner.
    pub kept: usize,
    /// Columns of a new segment that have no drive, at most.
    pub columns_without: usize,
}

impl Rules {
    pub fn wide(&self) -> Shape {
        self.level.shape(self.width)
    }

    /// True when a segment with these columns may be written: no drive of them has gone, and no
    /// more of them lack one than those of a new segment would.
    pub fn accepts(&self, columns: &[Option<Zone>]) -> bool {
        let zones = columns.iter().flatten();
        let without = columns.len() - zones.clone().count();
        let takes = |zone: &Zone| self.taking >> zone.drive & 1 == 1;
        without <= self.columns_without && zones.clone().all(takes)
    }

    pub fn narrow(&self) -> Shape {
        self.level.narrow(self.width)
    }
}
