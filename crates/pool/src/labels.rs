//! Labels: whose a drive is, for people and programs that have not opened the pool.

pub(crate) mod quorum;
pub(crate) mod slots;

use crate::error::PoolError;
use crate::format::drive_layout::FIRST_SLOT;
use crate::format::superblock::MEMBER_ACTIVE;
use crate::ids::{DriveId, HostId, PoolId};
use crate::labels::slots::{Found, Tables};
use crate::level::Level;
use crate::location::BLOCK_BYTES;
use block::BlockDevice;

/// The byte of a drive where its first label begins. A pool uses nothing before it.
pub const FIRST_LABEL_AT: u64 = FIRST_SLOT * BLOCK_BYTES as u64;

/// What a drive's label says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// The pool it belongs to.
    pub pool: PoolId,
    /// The pool's name.
    pub pool_name: String,
    /// The pool's level.
    pub level: Level,
    /// This drive.
    pub drive: DriveId,
    /// Its position among the members.
    pub index: usize,
    /// How many members the pool has.
    pub members: usize,
    /// The newest membership that this drive knows.
    pub epoch: u64,
    /// The members that work, as of that membership.
    pub active: Vec<DriveId>,
    /// The host that holds the pool; `None` after an export.
    pub holder: Option<HostId>,
}

/// Says which pool a drive belongs to, if any.
///
/// # Errors
/// [`PoolError::LabelDamaged`] if it had a label of which nothing is whole.
pub async fn probe<D: BlockDevice>(device: &D) -> Result<Option<Label>, PoolError> {
    match slots::find(device, Tables::Checked).await? {
        Found::Blank => Ok(None),
        Found::Newer(newer) => Err(PoolError::NewerFormat(newer.into())),
        Found::Damaged(label) => Err(PoolError::LabelDamaged { index: 0, label }),
        Found::Slot(slot) => {
            let superblock = &slot.superblock;
            let level = Level::from_code(superblock.level).ok_or(PoolError::Damaged("label"))?;
            Ok(Some(Label {
                pool: PoolId(superblock.pool_id),
                pool_name: superblock.name(),
                level,
                drive: DriveId(superblock.drive_id),
                index: usize::from(superblock.drive_index),
                members: superblock
                    .members
                    .iter()
                    .filter(|member| member.state != 0)
                    .count(),
                epoch: superblock.epoch.number.get(),
                active: superblock
                    .members
                    .iter()
                    .filter(|member| member.state == MEMBER_ACTIVE)
                    .map(|member| DriveId(member.id))
                    .collect(),
                holder: (superblock.holder != [0; 16]).then_some(HostId(superblock.holder)),
            }))
        }
    }
}

/// Makes a drive forget the pool that it belongs to, or did.
pub async fn wipe<D: BlockDevice>(device: &D) -> Result<(), PoolError> {
    Ok(slots::wipe_all(device).await?)
}
