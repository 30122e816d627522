//! Having drives forget what they carry.

use api::{ErrorBody, ErrorCode, Name, Severity};
use node::{DriveLabel, HostId};

use super::free_drive;
use super::show::identity;
use crate::control::Control;
use crate::control::words::refused;

impl Control {
    /// Makes a drive that nothing uses forget whatever it carries; with `force` although
    /// another host holds that pool.
    pub async fn wipe_drive(&self, drive: &Name, force: bool) -> Result<(), ErrorBody> {
        let mut objects = self.objects.change().await;
        self.look_at_pools(&mut objects).await;
        free_drive(&objects, drive, None)?;
        if !force {
            self.check_not_held(drive).await?;
        }
        let wiped = self.node.wipe_drive(drive.as_str()).await;
        wiped.map_err(|error| refused(&error))?;
        self.events
            .record(Severity::Info, &format!("drive/{drive}"), "wiped");
        Ok(())
    }

    /// Refuses a drive of a pool that another host holds, and may be writing to.
    async fn check_not_held(&self, drive: &Name) -> Result<(), ErrorBody> {
        let label = self.node.drive_label(drive.as_str()).await;
        let DriveLabel::Pool(label) = label.map_err(|error| refused(&error))? else {
            return Ok(());
        };
        let own = HostId(*self.identity.uuid.as_bytes());
        let Some(holder) = label.holder.filter(|holder| *holder != own) else {
            return Ok(());
        };
        let message = format!(
            "drive {drive} is of pool {}, which host {} holds: export the pool there, or wipe the \
             drive all the same with --force, which takes it from that pool",
            label.pool_name,
            identity(&holder.0)
        );
        Err(ErrorBody::new(ErrorCode::InUse, message))
    }
}
