//! Contents of a pool's drives that another program wrote before their labels.

use api::{ErrorBody, ErrorCode, Name, PoolImport};

use crate::control::Control;
use crate::control::words::refused;

impl Control {
    /// Refuses drives that another program has used since they became a pool's: their labels may
    /// be whole, and what that program wrote would be lost.
    pub(super) async fn check_leftovers(
        &self,
        drives: &[Name],
        how: &PoolImport,
    ) -> Result<(), ErrorBody> {
        for drive in drives.iter().filter(|_| !how.overwrite) {
            // A drive that cannot be read is a member that is absent.
            let Ok(Some(carries)) = self.node.drive_leftovers(drive.as_str()).await else {
                continue;
            };
            let message = format!(
                "drive {drive} carries {carries} beside the label of the pool, as if something \
                 else used it: --overwrite imports the pool all the same, and it is gone"
            );
            return Err(ErrorBody::new(ErrorCode::InUse, message).at("overwrite".to_owned()));
        }
        Ok(())
    }

    /// Wipes the drives of a pool that was imported before their labels.
    pub(super) async fn wipe_leftovers(
        &self,
        drives: &[Name],
        how: &PoolImport,
    ) -> Result<(), ErrorBody> {
        for drive in drives.iter().filter(|_| how.overwrite) {
            let wiped = self.node.wipe_drive_leftovers(drive.as_str()).await;
            wiped.map_err(|error| refused(&error))?;
        }
        Ok(())
    }
}
