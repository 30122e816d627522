//! [`Zones`]: the zones of a pool's drives that are no segment's, and which of them a new segment
//! takes. No I/O.

use std::cmp::Reverse;

/// A fixed run of blocks on one drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Zone {
    pub drive: u8,
    pub index: u32,
}

/// How many segments of `width` zones, each on another drive, can be cut from the free zones.
pub(crate) fn formable(free: &[usize], width: usize) -> usize {
    let enough =
        |count: usize| free.iter().map(|zones| (*zones).min(count)).sum::<usize>() >= width * count;
    let (mut low, mut high) = (0, free.iter().sum::<usize>() / width.max(1) + 1);
    while high - low > 1 {
        let middle = (low + high) / 2;
        if enough(middle) {
            low = middle
        } else {
            high = middle
        }
    }
    low
}

/// On which of `drives` a segment of this generation begins, so that each has its share of data and
/// of parity. Steps of the golden ratio fill a circle evenly, and so does every second or third of
/// them: it does not matter which generations go to the map and which to stripes.
fn turn(generation: u32, drives: usize) -> usize {
    let part = generation.wrapping_mul(0x9e37_79b9);
    ((u64::from(part) * drives as u64) >> 32) as usize
}

/// Zones that are no segment's.
#[derive(Debug, Default)]
pub(crate) struct Zones {
    /// Free zones by drive; the last is taken first.
    free: Vec<Vec<u32>>,
    /// How many zones each drive has.
    counts: Vec<u32>,
    /// Their drives have not yet been told that what is in them may be forgotten: not free.
    discarding: Vec<Zone>,
    /// What a segment has elsewhere is being copied here.
    filling: Vec<Zone>,
    /// Zones that would be free, by drive, while none is to be used.
    held: Option<Vec<Vec<u32>>>,
}

impl Zones {
    /// Of drives that have so many zones, all but those `used`.
    pub fn new<'a>(zones: &[u32], used: impl Iterator<Item = &'a Zone>) -> Zones {
        let mut taken: Vec<Vec<bool>> = zones
            .iter()
            .map(|count| vec![false; *count as usize])
            .collect();
        for zone in used {
            if let Some(flag) = taken
                .get_mut(usize::from(zone.drive))
                .and_then(|drive| drive.get_mut(zone.index as usize))
            {
                *flag = true;
            }
        }
        let free_of = |drive: &Vec<bool>| {
            let zones = drive.iter().enumerate().rev();
            zones
                .filter(|(_, used)| !**used)
                .map(|(zone, _)| zone as u32)
                .collect()
        };
        Zones {
            free: taken.iter().map(free_of).collect(),
            counts: zones.to_vec(),
            discarding: Vec::new(),
            filling: Vec::new(),
            held: None,
        }
    }

    /// Nothing is free from now on, nor what else would be, until [`let_go`](Zones::let_go).
    pub fn hold(&mut self) {
        if self.held.is_none() {
            let none = vec![Vec::new(); self.free.len()];
            self.held = Some(std::mem::replace(&mut self.free, none));
        }
    }

    /// What was held is free. True if anything was.
    pub fn let_go(&mut self) -> bool {
        let held = self.held.take();
        held.map(|held| self.free = held).is_some()
    }

    /// True while nothing is free on account of [`hold`](Zones::hold).
    pub fn are_held(&self) -> bool {
        self.held.is_some()
    }

    /// Where a zone of a drive goes that is nobody's.
    fn free_of(&mut self, drive: usize) -> Option<&mut Vec<u32>> {
        self.held.as_mut().unwrap_or(&mut self.free).get_mut(drive)
    }

    /// How many are free on each drive for which `usable` holds.
    pub fn free(&self, usable: impl Fn(usize) -> bool) -> Vec<usize> {
        let count = |(drive, zones): (usize, &Vec<u32>)| {
            if usable(drive) { zones.len() } else { 0 }
        };
        self.free.iter().enumerate().map(count).collect()
    }

    /// The columns of a new segment, on the drives with the most free zones; those beyond the
    /// usable drives stay without a zone, at most `missing_max` of them. `None` when there are too
    /// few zones.
    pub fn take(
        &mut self,
        generation: u32,
        width: usize,
        missing_max: usize,
        usable: impl Fn(usize) -> bool,
    ) -> Option<Vec<Option<Zone>>> {
        let mut order: Vec<usize> = (0..self.free.len())
            .filter(|drive| usable(*drive) && !self.free[*drive].is_empty())
            .collect();
        if order.len() + missing_max < width {
            return None;
        }
        let turn = turn(generation, order.len());
        order.rotate_left(turn);
        let mut order: Vec<(usize, usize)> = order.into_iter().enumerate().collect();
        order.sort_by_key(|(_, drive)| Reverse(self.free[*drive].len()));
        order.truncate(width);
        order.sort_unstable();
        let mut columns: Vec<Option<Zone>> = Vec::with_capacity(width);
        for (_, drive) in order {
            let index = self.free[drive].pop()?;
            columns.push(Some(Zone {
                drive: drive as u8,
                index,
            }));
        }
        columns.resize(width, None);
        Some(columns)
    }

    /// A free zone of a drive, for a copy of what a segment has elsewhere.
    pub fn begin_filling(&mut self, drive: usize) -> Option<Zone> {
        let zone = Zone {
            drive: drive as u8,
            index: self.free.get_mut(drive)?.pop()?,
        };
        self.filling.push(zone);
        Some(zone)
    }

    /// True while a zone is being filled: its drive has not left since that began.
    pub fn is_filling(&self, zone: Zone) -> bool {
        self.filling.contains(&zone)
    }

    /// True while any is.
    pub fn are_filling(&self) -> bool {
        !self.filling.is_empty()
    }

    /// The copy is a segment's from now on. False if its drive has left.
    pub fn end_filling(&mut self, zone: Zone) -> bool {
        let index = self.filling.iter().position(|other| *other == zone);
        index.map(|index| self.filling.swap_remove(index)).is_some()
    }

    /// No segment will have the copy.
    pub fn give_back(&mut self, zone: Zone) {
        if self.end_filling(zone) {
            self.vacate([zone]);
        }
    }

    /// Nothing that counts is in these zones any more: they are free once they are
    /// [`discarded`](Zones::discarded), if there are such.
    pub fn vacate(&mut self, zones: impl IntoIterator<Item = Zone>) {
        let counts = &self.counts;
        // Tables may name zones of a larger drive that had this one's place before.
        let there = |zone: &Zone| {
            let count = counts.get(usize::from(zone.drive));
            count.is_some_and(|count| zone.index < *count)
        };
        self.discarding.extend(zones.into_iter().filter(there));
    }

    /// Zones whose drives may forget what is in them.
    pub fn discarding(&self) -> &[Zone] {
        &self.discarding
    }

    /// The drive has been told: the zone is free, if it still is this pool's.
    pub fn discarded(&mut self, zone: Zone) {
        let Some(index) = self.discarding.iter().position(|other| *other == zone) else {
            return;
        };
        self.discarding.swap_remove(index);
        if let Some(free) = self.free_of(usize::from(zone.drive)) {
            free.insert(0, zone.index);
        }
    }

    /// Adds the zones of a drive that joined, or takes away those of one that left.
    pub fn set_drive(&mut self, drive: usize, zones: u32) {
        if let Some(free) = self.free_of(drive) {
            *free = (0..zones).rev().collect();
            self.counts[drive] = zones;
            let stays = |zone: &Zone| usize::from(zone.drive) != drive;
            self.discarding.retain(stays);
            self.filling.retain(stays);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What lay behind the end of a drive that has the place of a larger one.
    #[test]
    fn no_zone_is_free_that_a_drive_does_not_have() {
        let zone = |index| Zone { drive: 1, index };
        let mut zones = Zones::new(&[2, 3], [zone(7), zone(2)].iter());
        zones.vacate([zone(7), zone(2), Zone { drive: 9, index: 0 }]);
        assert_eq!(zones.discarding(), [zone(2)]);
        zones.set_drive(1, 2);
        zones.vacate([zone(2), zone(1)]);
        assert_eq!(zones.discarding(), [zone(1)]);
    }

    #[test]
    fn nothing_is_free_while_zones_are_held() {
        let zone = |index| Zone { drive: 0, index };
        let mut zones = Zones::new(&[3, 2], [zone(0)].iter());
        zones.hold();
        zones.vacate([zone(0)]);
        zones.discarded(zone(0));
        zones.set_drive(1, 4);
        assert_eq!(zones.free(|_| true), [0, 0]);
        assert!(zones.take(1, 1, 0, |_| true).is_none() && zones.begin_filling(0).is_none());
        assert!(zones.are_held() && zones.let_go() && !zones.let_go());
        assert_eq!(zones.free(|_| true), [3, 4]);
    }

    #[test]
    fn unequal_drives_form_as_many_segments_as_they_can() {
        assert_eq!(formable(&[10, 10, 10], 3), 10);
        assert_eq!(formable(&[10, 10, 100], 3), 10);
        assert_eq!(formable(&[10, 10, 100], 2), 20);
        assert_eq!(formable(&[4, 4, 4, 4], 3), 5);
        assert_eq!(formable(&[5], 2), 0);
    }
}
