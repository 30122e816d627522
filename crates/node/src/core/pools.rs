//! What a core does for pools, its own and those of other cores.

use std::rc::Rc;
use std::sync::Arc;

use block::Geometry;
use pool::PoolError;
use reactor::file::FileIdentity;
use reactor::{Failed, Scope};

use super::Core;
use crate::core::open_pools::{Pools, Seated};
use crate::counts::DriveCounts;
use crate::error::NodeError;
use crate::spec::DriveLabel;
use crate::taking::{self, Taking};
use crate::volume::member::{Lent, Member, Seat};
use crate::volume::placed::Placed;
use crate::volume::remote::{RemoteVolume, VolumeId};
use crate::volume::watched::WatchedDrive;
use crate::volume::{Parts, Path, Volume};

impl Core {
    /// The pools of which this core has a shard.
    pub fn pools(&self) -> &Pools {
        &self.pools
    }

    /// Handles to the drives of a pool.
    pub async fn members(&self, seats: &[Seat]) -> Result<Vec<Seated>, NodeError> {
        let mut seated = Vec::with_capacity(seats.len());
        for seat in seats {
            seated.push((seat.drive.clone(), self.member(seat).await?));
        }
        Ok(seated)
    }

    /// A handle to a drive of a pool: this core's own, where there can be one.
    pub async fn member(&self, seat: &Seat) -> Result<Member, NodeError> {
        if seat.home == self.post.core() {
            return Ok(Placed::Here(self.drive(&seat.drive)?));
        }
        if let Some(shared) = &seat.lent.shared
            // Without one, the core that has the drive does what is to be done.
            && let Ok(drive) = shared.open().await
        {
            let guest = WatchedDrive::new(seat.drive.clone(), drive, self.events.clone());
            let mut guests = self.guests.borrow_mut();
            guests.insert(seat.drive.clone(), guest.clone());
            return Ok(Placed::Here(guest));
        }
        let post = Rc::clone(&self.drive_post);
        let Lent { id, geometry, .. } = seat.lent;
        Ok(Placed::Elsewhere(RemoteVolume::new(
            post, seat.home, id, geometry,
        )))
    }

    /// Lets go of this core's handle of another core's drive; gives what was done by it.
    pub fn dismiss(&self, drive: &str) -> DriveCounts {
        let guest = self.guests.borrow_mut().remove(drive);
        guest.map_or_else(DriveCounts::default, |guest| guest.counts())
    }

    /// Answers for what the shard of this core has of a volume of a pool, as `id`.
    pub fn make_part(
        &self,
        id: VolumeId,
        (pool, volume): (&str, pool::VolumeId),
        block_bytes: u32,
    ) -> Result<Geometry, NodeError> {
        let path = Path::to_part(pool, &self.pools.part(pool, volume)?, block_bytes)?;
        self.post.stand_on(id, path);
        self.volume_geometry(id)
    }

    /// Sends requests to the volume `id` to the shards that have its slices.
    pub fn join_parts(&self, id: VolumeId, parts: &Parts) {
        self.post.stand_on(id, Path::to_parts(&self.post, parts));
    }

    /// Lends a drive of this core to the others: answers for it, as `id`, when they ask.
    pub fn lend(&self, drive: &str, id: VolumeId) -> Result<Lent, NodeError> {
        let drive = self.drive(drive)?;
        let shared = drive.share().map(Arc::new);
        let volume = Volume::new(Path::Drive(drive));
        let geometry = block::BlockDevice::geometry(&*volume);
        self.drive_post.insert(id, volume);
        Ok(Lent {
            id,
            geometry,
            shared,
        })
    }

    /// Stops answering for a drive as `id`, of which other cores have `counted` so much.
    pub fn take_back(&self, drive: &str, id: VolumeId, counted: DriveCounts) {
        self.drive_post.remove(id);
        if let Some(drive) = self.drives.borrow().get(drive) {
            drive.add_counts(counted);
        }
    }

    /// Which file or block device a drive of this core is, if it is one.
    pub fn identity(&self, drive: &str) -> Option<FileIdentity> {
        self.drives.borrow().get(drive)?.identity()
    }

    /// Gives a drive of this core to a new user, who relies on nothing that was written before.
    pub fn forget_failed_flush(&self, drive: &str) {
        if let Some(drive) = self.drives.borrow().get(drive) {
            drive.forget_failed_flush();
        }
    }

    /// What a drive of this core carries.
    pub async fn label(&self, drive: &str) -> Result<DriveLabel, NodeError> {
        let device = self.drive(drive)?;
        // However a label is damaged, it is no reason for others to end.
        let scope = Scope::new();
        let found = scope.run(pool::probe(&device)).await;
        let Ok(found) = found else {
            let why = NodeError::panicked("", &scope);
            return Ok(DriveLabel::Unreadable(why.to_string()));
        };
        Ok(match found {
            Ok(None) => DriveLabel::Blank,
            Ok(Some(label)) => DriveLabel::Pool(label),
            Err(PoolError::NewerFormat(newer)) => DriveLabel::Newer(newer),
            Err(PoolError::LabelDamaged { label, .. }) => DriveLabel::Damaged(label),
            Err(error) => DriveLabel::Unreadable(error.to_string()),
        })
    }

    /// The contents of a drive of this core beside labels of pools, in words.
    pub async fn contents(&self, drive: &str) -> Result<Option<String>, NodeError> {
        let found = self.drive(drive)?.contents().await;
        let found = found.map_err(|error| NodeError::Unread {
            drive: drive.to_owned(),
            error,
        })?;
        Ok(found.map(|contents| contents.to_string()))
    }

    /// The contents of a drive of this core before the label of a pool, in words.
    pub async fn leftovers(&self, drive: &str) -> Result<Option<String>, NodeError> {
        let found = drive::contents_before(&self.drive(drive)?, pool::FIRST_LABEL_AT).await;
        let found = found.map_err(|error| NodeError::Unread {
            drive: drive.to_owned(),
            error,
        })?;
        Ok(found.map(|contents| contents.to_string()))
    }

    /// Wipes a drive of this core before the label of a pool.
    pub async fn wipe_leftovers(&self, drive: &str) -> Result<(), NodeError> {
        let wiped = drive::wipe_before(&self.drive(drive)?, pool::FIRST_LABEL_AT).await;
        wiped.map_err(|error| NodeError::Wipe {
            drive: drive.to_owned(),
            error,
        })
    }

    /// Refuses a drive of this core that must not be taken so.
    pub async fn check_taking(&self, drive: &str, taking: Taking) -> Result<(), NodeError> {
        taking::check(drive, &self.drive(drive)?.into(), taking).await
    }

    /// Makes a drive of this core that was checked ready for its new use.
    pub async fn clear(&self, drive: &str, taking: Taking) -> Result<(), NodeError> {
        taking::clear(drive, &self.drive(drive)?.into(), taking).await
    }

    /// Makes a drive of this core forget the pool that it carries, and nothing else.
    pub async fn clear_label(&self, drive: &str) -> Result<(), NodeError> {
        match self.label(drive).await? {
            DriveLabel::Blank | DriveLabel::Unreadable(_) => Ok(()),
            DriveLabel::Pool(_) | DriveLabel::Newer(_) | DriveLabel::Damaged(_) => {
                self.forget_pool(drive).await
            }
        }
    }

    /// Makes a drive of this core hold nothing that anybody would recognise.
    pub async fn wipe(&self, drive: &str) -> Result<(), NodeError> {
        self.forget_pool(drive).await?;
        taking::wipe(drive, &self.drive(drive)?.into()).await
    }

    /// Wipes a drive of this core that its pool has let go of. One that has a label has been taken
    /// by another host since.
    pub async fn wipe_forgotten(&self, drive: &str) -> Result<(), NodeError> {
        match self.label(drive).await? {
            DriveLabel::Blank => taking::wipe(drive, &self.drive(drive)?.into()).await,
            _ => Ok(()),
        }
    }

    async fn forget_pool(&self, drive: &str) -> Result<(), NodeError> {
        let device = self.drive(drive)?;
        let scope = Scope::new();
        let wiped = scope.run(pool::wipe(&device)).await;
        let wiped = wiped.map_err(|Failed| NodeError::panicked("", &scope))?;
        wiped.map_err(|error| NodeError::pool("", error, &[drive.to_owned()]))
    }

    /// What a volume of this core is now.
    pub fn volume_geometry(&self, id: VolumeId) -> Result<Geometry, NodeError> {
        let volume = self.post.volume(id);
        let volume = volume.ok_or_else(|| NodeError::UnknownVolume(id.to_string()))?;
        Ok(block::BlockDevice::geometry(&*volume))
    }

    /// The drive `name` of this core, with a namespace to use.
    pub(super) fn drive(&self, name: &str) -> Result<WatchedDrive, NodeError> {
        let drive = self.drives.borrow().get(name).cloned();
        drive.ok_or_else(|| NodeError::UnknownDrive(name.to_owned()))
    }
}
