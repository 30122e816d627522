//! What a core does for pools, its own and those of other cores.

use std::rc::Rc;
use std::sync::Arc;

use block::Geometry;
use pool::PoolError;
use reactor::file::FileIdentity;

use super::Core;
use crate::NodeError;
use crate::measure::DriveCounts;
use crate::member::{Lent, Member, Seat};
use crate::placed::Placed;
use crate::pools::{Pools, Seated};
use crate::remote::{RemoteVolume, VolumeId};
use crate::spec::DriveLabel;
use crate::volume::{Parts, Path, Volume};
use crate::watched::WatchedDrive;

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
        let path = Path::to_part(self.pools.part(pool, volume)?, block_bytes)?;
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

    /// What a drive of this core carries.
    pub async fn label(&self, drive: &str) -> Result<DriveLabel, NodeError> {
        let found = pool::probe(&self.drive(drive)?).await;
        Ok(match found {
            Ok(None) => DriveLabel::Blank,
            Ok(Some(label)) => DriveLabel::Pool(label),
            Err(PoolError::NewerFormat(newer)) => DriveLabel::Newer(newer),
            Err(PoolError::LabelDamaged { label, .. }) => DriveLabel::Damaged(label),
            Err(error) => DriveLabel::Unreadable(error.to_string()),
        })
    }

    /// Makes a drive of this core forget the pool that it carries.
    pub async fn wipe(&self, drive: &str) -> Result<(), NodeError> {
        let wiped = pool::wipe(&self.drive(drive)?).await;
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
