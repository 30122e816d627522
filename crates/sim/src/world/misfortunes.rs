//! What happens to hosts and drives between lives of the pool, and at the beginning of one.

use super::rivals::REQUESTS_LAST;
use super::{Served, World};
use crate::drive::{Lie, SimDrive};
use pool::{DriveId, PoolState};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

/// An opening takes about so long, most of which it waits whether another host opens the pool, too.
const OPENING: Duration = Duration::from_millis(102);

impl World {
    /// The host is gone, with the power or without.
    pub(super) fn end_host(&self) {
        self.drives
            .borrow()
            .iter()
            .for_each(|drive| drive.hang(false));
        match self.options.processes_die && self.ends.once_in(3) {
            true if self.options.latecomers => {
                let late = || self.lates.once_in(2);
                let drives = self.drives.borrow();
                drives.iter().for_each(|drive| drive.lose_host_but(late));
            }
            true => self.drives.borrow().iter().for_each(SimDrive::lose_host),
            false => self.lose_power(),
        }
    }

    pub(super) fn lose_power(&self) {
        for drive in self.drives.borrow().iter() {
            drive.lose_power();
        }
    }

    /// A pool that has got over bad drives may meet others: at most so many at once.
    pub(super) fn spoil_others(&self, pool: &Served) {
        let status = pool.status();
        if !self.options.bad_drives {
            return;
        }
        let ids = self.ids.borrow();
        let is_member = |index: &usize| {
            let id = ids[*index];
            status.drives.iter().any(|drive| Some(drive.id) == id)
        };
        let mut bad = self.bad.borrow_mut();
        bad.retain(|index| {
            let stays = is_member(index);
            if !stays {
                self.drives.borrow()[*index].live_on();
            }
            stays
        });
        let known = |id: DriveId| bad.iter().any(|index| ids[*index] == Some(id));
        let mut failed = status.drives.iter().filter(|drive| !drive.active);
        if !failed.all(|drive| known(drive.id)) {
            return;
        }
        let random = match status.state {
            PoolState::Online => &self.random,
            _ => &self.more,
        };
        let members: Vec<usize> = (0..ids.len()).filter(is_member).collect();
        let most = self.lost_max.min(members.len());
        while bad.len() < most && random.once_in(2) {
            let index = members[random.below(members.len() as u64) as usize];
            if !bad.contains(&index) {
                bad.push(index);
            }
        }
    }

    /// What happens to bad drives while the power is off. Returns the absent ones.
    pub(super) fn misfortune(&self, last: bool) -> BTreeSet<usize> {
        let mut absent = BTreeSet::new();
        let drives = self.drives.borrow();
        for &index in self.bad.borrow().iter() {
            let drive = &drives[index];
            if self.extra.once_in(8) {
                drive.not_ready_for(1 + self.extra.below(100));
            }
            match self.random.below(6) {
                0 => drive.die_after(self.random.below(2000)),
                1 => drive.decay(1 + self.random.below(20)),
                2 => drive.revive(),
                3 if !last => {
                    absent.insert(index);
                }
                _ => {}
            }
        }
        absent
    }

    /// A bad drive that is there may answer nothing in this life.
    pub(super) fn silence(&self) {
        if !self.options.latecomers || !self.silences.once_in(8) {
            return;
        }
        let bad = self.bad.borrow();
        if let Some(index) = bad.get(self.silences.below(bad.len() as u64) as usize) {
            self.drives.borrow()[*index].hang(true);
        }
    }

    /// Bad drives lie in this life, each in one way, or do not.
    pub(super) fn deceive(&self) {
        if !self.options.liars {
            return;
        }
        for &index in self.bad.borrow().iter() {
            let drive = &self.drives.borrow()[index];
            match Lie::ALL.get(self.lies.below(8) as usize) {
                Some(lie) => drive.lie(*lie, 1 << self.lies.below(8), u64::MAX),
                None => drive.tell_truth(),
            }
        }
    }

    /// Whoever gave requests to a drive waits for them no more: they arrive all the same.
    pub(super) fn land_what_was_left(&self, drive: &SimDrive) {
        for flight in drive.under_way() {
            let time = self.leaving.below(1 << self.leaving.below(22));
            let drive = drive.clone();
            drop(reactor::spawn(async move {
                reactor::sleep(Duration::from_micros(time).min(REQUESTS_LAST)).await;
                drive.land_late(flight);
            }));
        }
    }

    /// What the last process had begun, and what stayed on its way when it died, reaches the drives
    /// now.
    pub(super) fn land_late_requests(self: &Rc<Self>) {
        for drive in self.drives.borrow().iter() {
            for flight in drive.late() {
                // At any moment of the opening, or soon after it.
                let opening = OPENING * self.lates.below(2) as u32;
                let time = self.lates.below(1 << self.lates.below(22));
                let time = (opening + Duration::from_micros(time)).min(REQUESTS_LAST);
                let (drive, world) = (drive.clone(), self.clone());
                drop(reactor::spawn(async move {
                    reactor::sleep(time).await;
                    let is_label = drive.is_label(flight);
                    world.late_label.set(world.late_label.get() || is_label);
                    drive.land_late(flight);
                }));
            }
        }
    }
}
