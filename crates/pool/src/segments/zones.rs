//! [`Zones`]: the zones of a pool's drives that are no segment's, and which of them a new segment
//! takes. No I/O.

use crate::ids::Generation;
use std::cmp::Reverse;

/// Bits of a zone's number where a superblock names zones that are set apart: later zones of a
/// drive never are.
pub(crate) const ZONE_BITS: u32 = 24;

/// Zones have at least so many blocks: the largest atomic write fits even one column.
pub(crate) const ZONE_BLOCKS_MIN: u32 = 32;
/// A drive has at least so many zones.
pub(crate) const ZONES_MIN: u32 = 24;

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
fn turn(generation: Generation, drives: usize) -> usize {
    let part = generation.get().wrapping_mul(0x9e37_79b9);
    ((u64::from(part) * drives as u64) >> 32) as usize
}

fn on_drive(drive: u8, zones: &[u32]) -> impl Iterator<Item = Zone> {
    let zone = move |index: &u32| Zone {
        drive,
        index: *index,
    };
    zones.iter().map(zone)
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
    /// Zones that would be free, by drive, while only those set apart are to be used.
    held: Option<Vec<Vec<u32>>>,
    /// Zones in which nothing is begun, by drive, as superblocks say: they are for the time after
    /// a crash.
    apart: Vec<Vec<u32>>,
    /// They were set apart, and are free once a superblock says so.
    returning: Vec<Zone>,
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
            apart: vec![Vec::new(); zones.len()],
            returning: Vec::new(),
        }
    }

    /// From now on only what is set apart is free, until [`let_go`](Zones::let_go).
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

    /// True while only what is set apart is free, on account of [`hold`](Zones::hold).
    pub fn are_held(&self) -> bool {
        self.held.is_some()
    }

    /// Where a zone of a drive goes that is nobody's.
    fn free_of(&mut self, drive: usize) -> Option<&mut Vec<u32>> {
        self.held.as_mut().unwrap_or(&mut self.free).get_mut(drive)
    }

    /// What new segments are cut from.
    fn source(&self) -> &Vec<Vec<u32>> {
        match self.held {
            Some(_) => &self.apart,
            None => &self.free,
        }
    }

    fn source_mut(&mut self) -> &mut Vec<Vec<u32>> {
        match self.held {
            Some(_) => &mut self.apart,
            None => &mut self.free,
        }
    }

    /// How many new segments can have on each drive for which `usable` holds.
    pub fn free(&self, usable: impl Fn(usize) -> bool) -> Vec<usize> {
        let count = |(drive, zones): (usize, &Vec<u32>)| {
            if usable(drive) { zones.len() } else { 0 }
        };
        self.source().iter().enumerate().map(count).collect()
    }

    /// How many hold nothing, be they held back or set apart.
    pub fn vacant(&self, usable: impl Fn(usize) -> bool) -> Vec<usize> {
        let held = self.held.iter().flatten().map(Vec::len);
        let held = held.chain(std::iter::repeat(0));
        let known = self.free.iter().zip(held).zip(&self.apart).enumerate();
        let mut vacant: Vec<usize> = known
            .map(|(drive, ((free, held), apart))| match usable(drive) {
                true => free.len() + held + apart.len(),
                false => 0,
            })
            .collect();
        let returning = self.returning.iter().map(|zone| usize::from(zone.drive));
        for drive in returning.filter(|drive| usable(*drive)) {
            vacant[drive] += 1;
        }
        vacant
    }

    /// Zones that are set apart.
    pub fn apart(&self) -> Vec<Zone> {
        let drives = (0u8..).zip(&self.apart);
        let zones = drives.flat_map(|(drive, zones)| on_drive(drive, zones));
        zones.collect()
    }

    /// Some that are free and are taken before others.
    pub fn used_next(&self) -> Vec<Zone> {
        let drives = (0u8..).zip(&self.free);
        let some = |zones: &Vec<u32>| zones.len().saturating_sub(8);
        let zones = drives.flat_map(|(drive, zones)| on_drive(drive, &zones[some(zones)..]));
        zones.collect()
    }

    /// Sets those of them apart that are free.
    pub fn keep_apart(&mut self, zones: &[Zone]) {
        for zone in zones {
            let drive = usize::from(zone.drive);
            let Some(free) = self.free.get_mut(drive) else {
                continue;
            };
            if let Some(place) = free.iter().position(|index| *index == zone.index) {
                free.remove(place);
                self.apart[drive].push(zone.index);
            }
        }
    }

    /// Sets zones apart until there are so many of each drive for which `usable` holds, or a
    /// quarter of what it has.
    pub fn set_apart(&mut self, count: usize, usable: impl Fn(usize) -> bool) {
        let named = |zones: &u32| *zones <= 1 << ZONE_BITS;
        for drive in (0..self.free.len()).filter(|drive| usable(*drive)) {
            let (free, apart) = (&mut self.free[drive], &mut self.apart[drive]);
            if self.counts.get(drive).is_some_and(named) {
                let count = count.min((free.len() + apart.len()) / 4);
                let missing = count.saturating_sub(apart.len());
                apart.extend(free.drain(..missing));
            }
        }
    }

    /// Nothing is set apart any more. These are free once they are
    /// [`returned`](Zones::returned), which may be when a superblock does not name them.
    pub fn give_up_apart(&mut self) -> Vec<Zone> {
        let given_up = self.apart();
        self.apart.iter_mut().for_each(Vec::clear);
        self.returning.extend(&given_up);
        given_up
    }

    /// They are as free as any other.
    pub fn returned(&mut self, zones: &[Zone]) {
        for zone in zones {
            if let Some(place) = self.returning.iter().position(|other| other == zone) {
                self.returning.swap_remove(place);
                if let Some(free) = self.free_of(usize::from(zone.drive)) {
                    free.insert(0, zone.index);
                }
            }
        }
    }

    /// The columns of a new segment, on the drives with the most free zones; those beyond the
    /// usable drives stay without a zone, at most `missing_max` of them. `None` when there are too
    /// few zones.
    pub fn take(
        &mut self,
        generation: Generation,
        width: usize,
        missing_max: usize,
        usable: impl Fn(usize) -> bool,
    ) -> Option<Vec<Option<Zone>>> {
        let free = self.source_mut();
        let mut order: Vec<usize> = (0..free.len())
            .filter(|drive| usable(*drive) && !free[*drive].is_empty())
            .collect();
        if order.len() + missing_max < width {
            return None;
        }
        let turn = turn(generation, order.len());
        order.rotate_left(turn);
        let mut order: Vec<(usize, usize)> = order.into_iter().enumerate().collect();
        order.sort_by_key(|(_, drive)| Reverse(free[*drive].len()));
        order.truncate(width);
        order.sort_unstable();
        let mut columns: Vec<Option<Zone>> = Vec::with_capacity(width);
        for (_, drive) in order {
            let index = free[drive].pop()?;
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

    /// The same of all zones that wait for it.
    pub fn all_discarded(&mut self) {
        let all = std::mem::take(&mut self.discarding);
        for drive in 0..self.counts.len() {
            let Some(free) = self.free_of(drive) else {
                continue;
            };
            let own = all.iter().rev().filter(|it| usize::from(it.drive) == drive);
            let mut zones: Vec<u32> = own.map(|zone| zone.index).collect();
            zones.append(free);
            *free = zones;
        }
    }

    /// Adds the zones of a drive that joined, or takes away those of one that left.
    pub fn set_drive(&mut self, drive: usize, zones: u32) {
        if let Some(free) = self.free_of(drive) {
            *free = (0..zones).rev().collect();
            self.counts[drive] = zones;
            self.apart[drive].clear();
            let stays = |zone: &Zone| usize::from(zone.drive) != drive;
            self.discarding.retain(stays);
            self.filling.retain(stays);
            self.returning.retain(stays);
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
        assert!(
            zones.take(Generation::new(1), 1, 0, |_| true).is_none()
                && zones.begin_filling(0).is_none()
        );
        assert!(zones.are_held() && zones.let_go() && !zones.let_go());
        assert_eq!(zones.free(|_| true), [3, 4]);
    }

    #[test]
    fn what_is_set_apart_is_free_while_all_else_is_held() {
        let zone = |index| Zone { drive: 0, index };
        let mut zones = Zones::new(&[9, 4], [zone(0)].iter());
        zones.keep_apart(&[zone(0), zone(3), Zone { drive: 7, index: 1 }]);
        assert_eq!(zones.apart(), [zone(3)], "the others are not free");
        zones.set_apart(3, |drive| drive == 0);
        let counts = |zones: &Zones| (zones.free(|_| true), zones.vacant(|_| true));
        assert_eq!(counts(&zones), (vec![6, 4], vec![8, 4]));
        zones.hold();
        assert_eq!(counts(&zones), (vec![2, 0], vec![8, 4]));
        assert!(zones.begin_filling(0).is_none());
        let taken = zones.take(Generation::new(1), 1, 0, |_| true).unwrap();
        assert!(!zones.apart().contains(&taken[0].unwrap()));
        assert_eq!(counts(&zones), (vec![1, 0], vec![7, 4]));
        assert!(zones.let_go());
        let given_up = zones.give_up_apart();
        assert_eq!(counts(&zones), (vec![6, 4], vec![7, 4]));
        for _ in 0..2 {
            zones.returned(&given_up);
            assert_eq!(counts(&zones), (vec![7, 4], vec![7, 4]));
        }
        zones.set_apart(1, |_| true);
        zones.set_drive(0, 3);
        assert_eq!(counts(&zones), (vec![3, 3], vec![3, 4]));
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
