//! What a new volume stands on: a drive, a pool, or a snapshot in one.

use api::{ErrorBody, ErrorCode, GrantUse, Name, Size, VolumeSpec};
use node::{DriveLabel, Taking};

use crate::control::drives::user;
use crate::control::pools::pool_of;
use crate::control::tenants::grants::Asker;
use crate::control::volumes::drive_online;
use crate::control::volumes::pool_volumes::Beginning;
use crate::control::volumes::room::check_size;
use crate::control::words::{in_use, list, refused};
use crate::control::{Control, Objects};

/// What a new volume is to stand on, once that has been checked.
pub(in crate::control) enum Standing {
    /// All of this drive, taken so.
    Drive(Name, Taking),
    /// This pool.
    Pool(Name, Beginning),
}

impl Control {
    /// What a new volume is to stand on, if the asker may have it there.
    pub(in crate::control) async fn standing(
        &self,
        objects: &Objects,
        asker: Asker<'_>,
        spec: &VolumeSpec,
    ) -> Result<Standing, ErrorBody> {
        if asker.is_some() && spec.drive.is_some() {
            let message = "drives are the node's; allowed for this token: a pool with a size, or \
                           a snapshot";
            return Err(ErrorBody::new(ErrorCode::Forbidden, message).at("drive".to_owned()));
        }
        let volume = |bytes: u64| GrantUse {
            bytes,
            volumes: 1,
            snapshots: 0,
        };
        let taking = taking(spec)?;
        match (&spec.drive, &spec.pool, &spec.snapshot) {
            (Some(drive), None, None) if spec.size.is_none() && !spec.reserved => {
                self.check_drive(objects, drive).await?;
                Ok(Standing::Drive(drive.clone(), taking))
            }
            (Some(_), None, None) => {
                let message = "a volume takes its drive whole; allowed: a size with a pool";
                Err(ErrorBody::invalid("size", message))
            }
            (None, Some(pool), None) => {
                self.check_granted(objects, asker, pool)?;
                self.online_pool(objects, pool)
                    .map_err(|error| error.at("pool".to_owned()))?;
                let size = spec.size.ok_or_else(|| {
                    ErrorBody::invalid("size", "a volume of a pool needs a size, such as 10GiB")
                })?;
                check_size(size)?;
                self.check_grant(objects, asker, pool, volume(size.bytes()))
                    .await?;
                let beginning = Beginning::Empty {
                    size,
                    reserved: spec.reserved,
                };
                Ok(Standing::Pool(pool.clone(), beginning))
            }
            (None, pool, Some(snapshot)) => {
                let found = self
                    .snapshot_in(objects, asker, snapshot, pool.as_ref())
                    .await;
                let (found_in, info) = found.map_err(|error| error.at("snapshot".to_owned()))?;
                if pool.as_ref().is_some_and(|pool| *pool != found_in) {
                    let message = format!("snapshot {snapshot} is in pool {found_in}");
                    return Err(ErrorBody::invalid("pool", message));
                }
                spec.size.map_or(Ok(()), check_size)?;
                let bytes = spec.size.map_or(info.bytes, Size::bytes);
                self.check_grant(objects, asker, &found_in, volume(bytes))
                    .await?;
                let beginning = Beginning::Snapshot {
                    info,
                    size: spec.size,
                    reserved: spec.reserved,
                };
                Ok(Standing::Pool(found_in, beginning))
            }
            _ => {
                let message = "a volume stands on one thing; allowed: a drive, or a pool with a \
                               size, or a snapshot";
                Err(ErrorBody::invalid("drive", message))
            }
        }
    }

    /// Whether a new volume can take a drive.
    async fn check_drive(&self, objects: &Objects, drive: &Name) -> Result<(), ErrorBody> {
        let at = |error: ErrorBody| error.at("drive".to_owned());
        if !objects.drives.contains_key(drive) {
            let existing: Vec<Name> = objects.drives.keys().cloned().collect();
            let message = format!("no drive is named {drive}; drives: {}", list(&existing));
            return Err(ErrorBody::invalid("drive", message));
        }
        if let Some(other) = user(objects, drive) {
            let message = format!("drive {drive} is used by volume {other}");
            return Err(at(in_use(message)));
        }
        if let Some(pool) = pool_of(objects, drive) {
            let message = format!("drive {drive} is used by pool {pool}");
            return Err(at(in_use(message)));
        }
        drive_online(objects, drive)
            .map_err(|reason| ErrorBody::new(ErrorCode::NotReady, reason))?;
        let label = self.node.drive_label(drive.as_str()).await;
        let pool = match label.map_err(|error| refused(&error))? {
            DriveLabel::Pool(label) => label.pool_name,
            DriveLabel::Newer(newer) => {
                format!("{}, of format version {}", newer.pool_name, newer.version)
            }
            DriveLabel::Damaged(label) => format!("{} by a label that is damaged", label.pool_name),
            DriveLabel::Blank | DriveLabel::Unreadable(_) => return Ok(()),
        };
        let message = format!(
            "drive {drive} belongs to pool {pool}, which is not open here: import that, or wipe \
             the drive if what is on it is not needed"
        );
        Err(at(in_use(message)))
    }
}

/// The way that a volume takes its drive.
fn taking(spec: &VolumeSpec) -> Result<Taking, ErrorBody> {
    if spec.drive.is_none() && (spec.force || spec.keep_data) {
        let field = if spec.force { "force" } else { "keep_data" };
        let message = "only a volume that takes a drive whole finds anything on it; allowed: with \
                       a drive";
        return Err(ErrorBody::invalid(field, message));
    }
    match (spec.force, spec.keep_data) {
        (false, false) => Ok(Taking::Blank),
        (true, false) => Ok(Taking::Wiped),
        (false, true) => Ok(Taking::AsItIs),
        (true, true) => {
            let message = "what a drive carries is wiped or kept; allowed: force or keep_data";
            Err(ErrorBody::invalid("keep_data", message))
        }
    }
}
