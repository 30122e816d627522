//! Drives that join the pool, and drives that are asked to leave it.

use super::refusals::Purpose;
use super::{Served, World};
use crate::drive::SimDrive;
use pool::{DriveId, PoolError};
use std::time::Duration;

/// Most drives that a pool gets to.
const DRIVES_MAX: usize = 9;

impl World {
    /// A new drive joins, or one that was a member once.
    pub(super) async fn add_drive(&self, pool: &Served) -> Result<(), String> {
        let members: Vec<DriveId> = pool.status().drives.iter().map(|drive| drive.id).collect();
        if members.len() >= DRIVES_MAX {
            return Ok(());
        }
        let stranger = |id: &Option<DriveId>| id.is_none_or(|id| !members.contains(&id));
        let undecided = self.undecided.borrow().clone();
        let ids = self.ids.borrow().clone();
        let mut spare = (0..)
            .zip(&ids)
            .filter(|(index, _)| !undecided.contains(index));
        let spare = spare.find_map(|(index, id)| stranger(id).then_some(index));
        let index = spare.unwrap_or_else(|| {
            let mut drives = self.drives.borrow_mut();
            let blocks = 1150 + 40 * self.random.below(8);
            drives.push(SimDrive::new(blocks, self.power.clone()));
            self.ids.borrow_mut().push(None);
            drives.len() - 1
        });
        let drive = self.drives.borrow()[index].clone();
        if drive.is_dead() || self.bad.borrow().contains(&index) {
            return Ok(());
        }
        let added = self.or_give_up(pool.add_drive(drive.clone())).await;
        self.still_holds()?;
        let Some(added) = added else {
            // It joins or it does not: the next life knows.
            self.undecided.borrow_mut().insert(index);
            return Ok(());
        };
        let id = match added {
            Ok(id) => id,
            // Its last host had just added it.
            Err(PoolError::DriveInUse { .. }) if self.options.rivals => return Ok(()),
            Err(PoolError::DriveInUse { .. }) => return self.has_joined(pool, index).await,
            // It was bad once and cannot be read in all places.
            Err(PoolError::Io(_)) => return Ok(()),
            // As was its label; nobody needs it any more.
            Err(PoolError::LabelDamaged { .. }) => {
                // A drive that has died since is not tried again.
                let _ = pool::wipe(&drive).await;
                return self.still_holds();
            }
            Err(error) => return Err(format!("adding a drive: {error}")),
        };
        self.ids.borrow_mut()[index] = Some(id);
        Ok(())
    }

    /// A label of a former process, which arrived after the drives were looked at, has made this
    /// drive a member before anybody asked for it.
    async fn has_joined(&self, pool: &Served, index: usize) -> Result<(), String> {
        let drive = self.drives.borrow()[index].clone();
        let label = pool::probe(&drive).await;
        self.still_holds()?;
        let members = pool.status().drives;
        match label {
            Ok(Some(label)) if members.iter().any(|member| member.id == label.drive) => {
                self.ids.borrow_mut()[index] = Some(label.drive);
                Ok(())
            }
            other => Err(format!("adding a drive: refused as in use with {other:?}")),
        }
    }

    /// A drive is asked to leave; with too little space it may take for ever.
    pub(super) async fn remove_drive(&self, pool: &Served) -> Result<(), String> {
        let status = pool.status();
        let active = status.drives.iter().filter(|drive| drive.active);
        let active: Vec<DriveId> = active.map(|drive| drive.id).collect();
        let Some(id) = active.get(self.random.below(active.len() as u64) as usize) else {
            return Ok(());
        };
        let asked = self.asked(pool, 0, Purpose::Promise);
        let remove = reactor::timeout(Duration::from_secs(2), pool.remove_drive(*id));
        let removed = match self.or_leave(remove).await {
            Some(removed) => removed,
            None => {
                self.may_be_wiped_yet(*id);
                return self.still_holds();
            }
        };
        self.still_holds()?;
        match removed {
            Err(_) => {
                self.may_be_wiped_yet(*id);
                Ok(())
            }
            Ok(Ok(()) | Err(PoolError::NotFound(_))) => Ok(()),
            Ok(Err(PoolError::NoSpace)) => self.check_stays(pool, asked, active.len()),
            // A bad drive may die while it is emptied or wiped.
            Ok(Err(PoolError::DriveFailed | PoolError::Io(_))) => Ok(()),
            Ok(Err(error)) => Err(format!("removing a drive: {error}")),
        }
    }

    /// Who asked a drive to leave waits no more: labels may be on their way to it yet. It does not
    /// join again in this life.
    fn may_be_wiped_yet(&self, id: DriveId) {
        let found = self
            .ids
            .borrow()
            .iter()
            .position(|known| *known == Some(id));
        if let Some(index) = found {
            self.undecided.borrow_mut().insert(index);
            self.land_what_was_left(&self.drives.borrow()[index]);
        }
    }
}
