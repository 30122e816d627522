//! [`Level`]: how a pool spreads redundancy over the columns of a segment.

use std::fmt;
use std::str::FromStr;

/// Most drives that a pool may have.
pub const DRIVES_MAX: usize = 32;

/// Copies that raid1 keeps at most; further drives add capacity.
const MIRROR_COPIES_MAX: usize = 3;

/// The redundancy of a pool, by the names people know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Level {
    /// No redundancy: any lost drive loses data.
    Raid0,
    /// Every block on each column of its segment: two copies, or three where there are drives.
    Raid1,
    /// One parity column.
    Raid5,
    /// Two parity columns, P and Q.
    Raid6,
    /// Pairs of mirrored columns.
    Raid10,
}

impl Level {
    /// Every level, weakest first.
    pub const ALL: [Level; 5] = [
        Level::Raid0,
        Level::Raid1,
        Level::Raid5,
        Level::Raid6,
        Level::Raid10,
    ];

    /// The number that stands for the level on disk.
    pub(crate) fn code(self) -> u8 {
        match self {
            Level::Raid0 => 0,
            Level::Raid1 => 1,
            Level::Raid5 => 5,
            Level::Raid6 => 6,
            Level::Raid10 => 10,
        }
    }

    pub(crate) fn from_code(code: u8) -> Option<Level> {
        Level::ALL.into_iter().find(|level| level.code() == code)
    }

    /// The fewest drives on which a pool of this level can be created.
    pub fn drives_min(self) -> usize {
        match self {
            Level::Raid0 => 1,
            Level::Raid1 => 2,
            Level::Raid5 => 3,
            Level::Raid6 | Level::Raid10 => 4,
        }
    }

    /// The columns of a wide segment on `drives` drives when nothing else is asked for.
    pub fn default_width(self, drives: usize) -> usize {
        match self {
            Level::Raid1 => drives.min(MIRROR_COPIES_MAX),
            Level::Raid10 => drives & !1,
            Level::Raid0 | Level::Raid5 | Level::Raid6 => drives,
        }
    }

    /// Whether segments can be exactly so wide on `drives` drives.
    pub(crate) fn allows_width(self, width: usize, drives: usize) -> bool {
        width <= drives && self.shape(width).width() == width
    }

    /// The widths of segments that there can be on `drives` drives, for people.
    pub(crate) fn widths(self, drives: usize) -> String {
        let least = self.shape(0).width();
        let most = self.default_width(drives);
        let even = match self {
            Level::Raid10 => ", even",
            _ => "",
        };
        format!("{least} to {most}{even}")
    }

    /// The shape of a segment of at most `width` columns; at least the narrowest there is.
    pub(crate) fn shape(self, width: usize) -> Shape {
        let shape = |data, redundant| Shape {
            level: self,
            data,
            redundant,
        };
        match self {
            Level::Raid0 => shape(width.max(1), 0),
            Level::Raid1 => shape(1, width.clamp(2, MIRROR_COPIES_MAX) - 1),
            Level::Raid5 => shape(width.max(2) - 1, 1),
            Level::Raid6 => shape(width.max(3) - 2, 2),
            Level::Raid10 => shape((width / 2).max(1), (width / 2).max(1)),
        }
    }

    /// The shape of the segments for lone writes, in a pool whose others are `width` wide.
    pub(crate) fn narrow(self, width: usize) -> Shape {
        match self {
            // It has nothing narrower.
            Level::Raid1 => self.shape(width),
            _ => self.shape(1),
        }
    }

    /// How many drives a pool whose segments are `width` wide may lose at once, whichever they are.
    pub fn drives_lost_max(self, width: usize) -> usize {
        match self {
            Level::Raid10 => 1,
            _ => self.shape(width).redundant,
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "raid{}", self.code())
    }
}

/// A word that names no level.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no RAID level is called {0:?}; there are raid0, raid1, raid5, raid6 and raid10")]
pub struct UnknownLevel(String);

impl FromStr for Level {
    type Err = UnknownLevel;

    fn from_str(text: &str) -> Result<Level, UnknownLevel> {
        Level::ALL
            .into_iter()
            .find(|level| level.to_string() == text)
            .ok_or_else(|| UnknownLevel(text.to_owned()))
    }
}

/// Data columns first, then the redundant ones: copies, or P and Q.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub level: Level,
    pub data: usize,
    pub redundant: usize,
}

impl Shape {
    pub fn width(self) -> usize {
        self.data + self.redundant
    }

    /// True when a row can be read although exactly the columns in `lost` are gone.
    pub fn survives(self, lost: impl Fn(usize) -> bool) -> bool {
        match self.level {
            Level::Raid0 | Level::Raid1 | Level::Raid10 => {
                (0..self.data).all(|data| self.copies(data).any(|column| !lost(column)))
            }
            Level::Raid5 | Level::Raid6 => {
                (0..self.width()).filter(|column| lost(*column)).count() <= self.redundant
            }
        }
    }

    /// The columns that hold the same bytes as data column `data`, itself first; for mirrors.
    pub fn copies(self, data: usize) -> impl Iterator<Item = usize> {
        let step = self.data;
        let end = match self.level {
            Level::Raid5 | Level::Raid6 => data + 1,
            _ => self.width(),
        };
        (data..end).step_by(step)
    }

    /// True for the levels whose redundant columns are copies of data columns.
    pub fn mirrors(self) -> bool {
        matches!(self.level, Level::Raid0 | Level::Raid1 | Level::Raid10)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for level in Level::ALL {
            assert_eq!(level.to_string().parse(), Ok(level));
            assert_eq!(Level::from_code(level.code()), Some(level));
        }
        assert!("raid7".parse::<Level>().is_err());
    }

    #[test]
    fn a_width_is_allowed_that_people_are_told_of() {
        for level in Level::ALL {
            for drives in level.drives_min()..=DRIVES_MAX {
                let allowed = |width: &usize| level.allows_width(*width, drives);
                let all: Vec<usize> = (0..=255).filter(allowed).collect();
                assert!(allowed(&level.default_width(drives)));
                let (least, most) = (all[0], all[all.len() - 1]);
                let told = level.widths(drives);
                assert!(told.starts_with(&format!("{least} to {most}")), "{told}");
                let step = if told.ends_with("even") { 2 } else { 1 };
                assert!((least..=most).step_by(step).eq(all), "{level}: {told}");
            }
        }
    }

    #[test]
    fn every_level_survives_what_it_promises_at_every_width() {
        for level in Level::ALL {
            for width in level.drives_min()..=DRIVES_MAX {
                let shape = level.shape(level.default_width(width));
                let promised = level.drives_lost_max(shape.width());
                assert!(shape.width() <= width);
                for first in 0..shape.width() {
                    for second in 0..shape.width() {
                        let lost = |column| {
                            (promised > 0 && column == first) || (promised > 1 && column == second)
                        };
                        assert!(shape.survives(lost), "{level} {width}: {first} {second}");
                    }
                }
                assert!(!shape.survives(|column| column <= shape.redundant));
            }
        }
    }
}
