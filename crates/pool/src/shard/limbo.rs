//! [`Limbo`]: what was freed, and a reader may still be in. No I/O.

use crate::ids::{Era, SegmentNumber};
use crate::segments::zones::Zone;
use std::collections::{BTreeSet, VecDeque};

/// What is free when nobody reads there any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Freed {
    Segment(SegmentNumber),
    /// A zone that a segment has left for another.
    Zone(Zone),
}

/// In the order in which it was freed. Whether a segment is there takes a few steps, however many
/// are.
#[derive(Debug, Default)]
pub(crate) struct Limbo {
    /// Each with the era in which that was.
    freed: VecDeque<(Era, Freed)>,
    segments: BTreeSet<SegmentNumber>,
}

impl Limbo {
    pub fn len(&self) -> usize {
        self.freed.len()
    }

    /// More was freed, in this era.
    pub fn add(&mut self, era: Era, freed: impl IntoIterator<Item = Freed>) {
        for freed in freed {
            if let Freed::Segment(number) = freed {
                self.segments.insert(number);
            }
            self.freed.push_back((era, freed));
        }
    }

    /// Takes out what was freed before the era of the `oldest` reader; everything if there is none.
    pub fn take_before(&mut self, oldest: Option<Era>) -> Vec<Freed> {
        let ended = |era: Era| oldest.is_none_or(|oldest| era < oldest);
        let mut taken = Vec::new();
        while let Some((_, freed)) = self.freed.pop_front_if(|(era, _)| ended(*era)) {
            if let Freed::Segment(number) = freed {
                self.segments.remove(&number);
            }
            taken.push(freed);
        }
        taken
    }

    pub fn has(&self, segment: SegmentNumber) -> bool {
        self.segments.contains(&segment)
    }

    pub fn zones(&self) -> impl Iterator<Item = Zone> {
        self.freed.iter().filter_map(|(_, freed)| match freed {
            Freed::Zone(zone) => Some(*zone),
            Freed::Segment(_) => None,
        })
    }

    /// Forgets zones for which `stays` does not hold.
    pub fn retain_zones(&mut self, stays: impl Fn(Zone) -> bool) {
        self.freed.retain(|(_, freed)| match freed {
            Freed::Zone(zone) => stays(*zone),
            Freed::Segment(_) => true,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_freed_waits_for_readers_of_its_era_and_of_earlier_ones() {
        let zone = |drive| Zone { drive, index: 3 };
        let number = SegmentNumber::new;
        let mut limbo = Limbo::default();
        let (before, after) = (Era::default().next(), Era::default().next().next());
        limbo.add(before, [Freed::Segment(number(7)), Freed::Zone(zone(1))]);
        limbo.add(after, [Freed::Zone(zone(2)), Freed::Segment(number(9))]);
        assert!(limbo.has(number(7)) && limbo.has(number(9)) && !limbo.has(number(8)));
        assert_eq!(limbo.take_before(Some(before)), []);
        let first = limbo.take_before(Some(after));
        assert_eq!(first, [Freed::Segment(number(7)), Freed::Zone(zone(1))]);
        assert!(!limbo.has(number(7)) && limbo.has(number(9)));
        assert_eq!(limbo.zones().collect::<Vec<_>>(), [zone(2)]);
        limbo.retain_zones(|zone| zone.drive != 2);
        assert_eq!((limbo.len(), limbo.zones().count()), (1, 0));
        assert_eq!(limbo.take_before(None), [Freed::Segment(number(9))]);
    }
}
