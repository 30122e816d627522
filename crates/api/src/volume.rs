//! Volumes: what hosts connect to.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use thiserror::Error;
use utoipa::openapi::{ObjectBuilder, RefOr, Schema, Type};
use utoipa::{IntoParams, PartialSchema, ToSchema};
use uuid::Uuid;

use crate::{Limits, Name, Size, SnapshotName};

/// Whether an object can be used now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ObjectState {
    /// It works.
    Online,
    /// It exists and keeps its identity, but does not answer; `reason` says why.
    Offline,
}

/// Who has a volume write protected, and so who can lift that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum WriteProtection {
    /// Whoever administers the node. No host can lift it.
    Administrator,
    /// A host that sees the volume. Hosts can lift it, and so can whoever administers the node.
    Host,
}

/// The size of a logical block as hosts see it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "u32", into = "u32")]
pub enum BlockSize {
    /// 512 bytes, emulated over blocks of 4 KiB where the drive has those.
    Bytes512,
    /// 4 KiB: what flash does best.
    #[default]
    Bytes4096,
}

/// A number that is no [`BlockSize`].
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("block size {0}; allowed: 512, 4096")]
pub struct BlockSizeError(u32);

impl BlockSize {
    /// The number of bytes.
    pub fn bytes(self) -> u32 {
        self.into()
    }
}

impl TryFrom<u32> for BlockSize {
    type Error = BlockSizeError;

    fn try_from(bytes: u32) -> Result<BlockSize, BlockSizeError> {
        match bytes {
            512 => Ok(BlockSize::Bytes512),
            4096 => Ok(BlockSize::Bytes4096),
            other => Err(BlockSizeError(other)),
        }
    }
}

impl From<BlockSize> for u32 {
    fn from(size: BlockSize) -> u32 {
        match size {
            BlockSize::Bytes512 => 512,
            BlockSize::Bytes4096 => 4096,
        }
    }
}

impl PartialSchema for BlockSize {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(Type::Integer)
            .enum_values(Some([512, 4096]))
            .description(Some("Bytes in a logical block"))
            .into()
    }
}

impl ToSchema for BlockSize {
    fn name() -> Cow<'static, str> {
        Cow::Borrowed("BlockSize")
    }
}

/// How a volume is to be deleted; the query of `DELETE /v1/volumes/{name}`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct DeleteQuery {
    /// Delete it while hosts are connected, which lose their disk
    #[serde(default)]
    pub force: Option<bool>,
}

/// What a volume is to be; the body of `PUT /v1/volumes/{name}`.
///
/// It stands on a `drive`, on a `pool` with a `size`, or starts out as a `snapshot`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct VolumeSpec {
    /// The drive that the volume takes whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drive: Option<Name>,
    /// With a drive that carries something, such as a file system or a partition table: take it all
    /// the same, and wipe it. Without this or `keep_data` such a drive is refused.
    #[serde(default, skip_serializing_if = "is_false")]
    pub force: bool,
    /// With a drive: leave what it carries as it is, and serve it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub keep_data: bool,
    /// The pool that holds it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<Name>,
    /// Its size in a pool, rounded up to a multiple of 4 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<Size>,
    /// Keep space for all of it in the pool, so that no write fails for want of space. Otherwise
    /// space is taken when it is written.
    #[serde(default, skip_serializing_if = "is_false")]
    pub reserved: bool,
    /// The snapshot that it starts out as, in that one's pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<SnapshotName>,
    /// Bytes in a logical block as hosts see it.
    #[serde(default)]
    pub block_bytes: BlockSize,
    /// Names of the hosts that may see the volume; `any` stands for every host. An empty list
    /// hides the volume from everyone.
    #[serde(default)]
    pub hosts: Vec<Name>,
    /// The subsystem that the volume is a namespace of. Without one the volume is the only
    /// namespace of a subsystem of its own name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subsystem: Option<Name>,
    /// The tenant it belongs to; none: nobody's in particular.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<Name>,
    /// Make it the replica of the volume of this identity, on another node: no host may see it
    /// until it is promoted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = "uuid")]
    pub replica_of: Option<Uuid>,
}

/// For what is left out unless it is so: serde asks with a reference.
#[allow(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde asks with a reference"
)]
pub(crate) fn is_false(flag: &bool) -> bool {
    !flag
}

/// The same for a count of what mostly there is none of.
#[allow(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde asks with a reference"
)]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// A volume as the node serves it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Volume {
    /// The volume's name.
    pub name: Name,
    /// The drive it takes whole, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drive: Option<Name>,
    /// The pool that holds it, if one does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<Name>,
    /// Space for all of it is kept in the pool.
    #[serde(default, skip_serializing_if = "is_false")]
    pub reserved: bool,
    /// The snapshot that it was cloned from or rolled back to last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
    /// Whether hosts can use it now.
    pub state: ObjectState,
    /// Why it is not online.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Capacity in bytes; zero while the volume has never been online.
    pub capacity_bytes: u64,
    /// Blocks of 4 KiB that are lost, as the last scrub of its pool on this node found. Where a
    /// node of the map is lost, all that it may have told of counts.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub lost_blocks: u64,
    /// Bytes in a logical block as hosts see it.
    pub block_bytes: BlockSize,
    /// Names of the hosts that may see it; `any` stands for every host.
    pub hosts: Vec<Name>,
    /// The tenant it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<Name>,
    /// The volume on another node that it is the replica of, by its identity: no host may see it
    /// until it is promoted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = "uuid")]
    pub replica_of: Option<Uuid>,
    /// What it may do, and what it is promised.
    #[serde(default, skip_serializing_if = "Limits::is_unlimited")]
    pub limits: Limits,
    /// Who has it write protected, if anybody: no host writes to it then. Absent too while its pool
    /// is not open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_protection: Option<WriteProtection>,
    /// NVMe Qualified Name of its subsystem: what a host connects to. Empty, as `uuid` is zero,
    /// while what its pool keeps about it cannot be read: `reason` says why.
    #[schema(examples("nqn.2026-11.example.flashyard:node-1:scratch"))]
    pub nqn: String,
    /// Namespace identifier within the subsystem.
    pub nsid: u32,
    /// Identity of the namespace; the same for the life of the volume.
    #[schema(value_type = String, format = "uuid")]
    pub uuid: Uuid,
}

/// A volume's new size; the body of `POST /v1/volumes/{name}/resize`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct VolumeResize {
    /// The size, rounded up to a multiple of 4 KiB.
    pub size: Size,
    /// Cut off what is behind a smaller size: without this a volume only grows.
    #[serde(default)]
    pub allow_shrink: bool,
}

/// A volume's new name; the body of `POST /v1/volumes/{name}/rename`. Hosts do not see it: the
/// volume's NQN and identity stay.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct VolumeRename {
    /// The name.
    pub name: Name,
}

/// Whether a pool keeps space for all of a volume; the body of `POST /v1/volumes/{name}/reserve`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct VolumeReserve {
    /// True: no write of it fails for want of space from now on. False: space is taken when it is
    /// written.
    pub reserved: bool,
}

/// Whether a volume is write protected; the body of `POST /v1/volumes/{name}/protect`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct VolumeProtect {
    /// True: no host writes to it from now on, and none can change that. False: hosts may write,
    /// whoever had it write protected.
    pub protected: bool,
}

/// What a volume becomes again; the body of `POST /v1/volumes/{name}/rollback`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct VolumeRollback {
    /// The snapshot, of this volume, the one it began as, or of a volume that began as one of this;
    /// what was written since is lost.
    pub snapshot: SnapshotName,
    /// Do it while hosts are connected, which do not expect their disk to change.
    #[serde(default)]
    pub force: bool,
    /// Cut off what is behind the size that the snapshot has; never while hosts are connected.
    #[serde(default)]
    pub allow_shrink: bool,
    /// Do it only while the volume is the replica of the one of this identity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = "uuid")]
    pub replica_of: Option<Uuid>,
}
