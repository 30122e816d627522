//! Drives: what a node keeps data on.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::{Name, ObjectState, Size};

/// What a drive is made of; the body of `PUT /v1/drives/{name}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(
    tag = "kind",
    rename_all = "snake_case",
    deny_unknown_fields,
    try_from = "AnyDrive"
)]
pub enum DriveSpec {
    /// A block device or a regular file.
    #[schema(title = "PathDrive")]
    Path {
        /// Absolute path on the node.
        #[schema(examples("/dev/nvme0n1"))]
        path: String,
        /// For a file that does not exist yet: make it, sparse, this large. An existing file
        /// must have exactly this size; a block device takes no size.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        size: Option<Size>,
    },
    /// Memory of the node: for tests, lost when the node stops.
    #[schema(title = "MemoryDrive")]
    Memory {
        /// Capacity.
        size: Size,
    },
    /// Takes every write and returns zeroes: for measuring everything above it.
    #[schema(title = "NullDrive")]
    Null {
        /// Capacity.
        size: Size,
    },
    /// A model of a drive with real data, as fast as the drive and as slow.
    #[schema(title = "EmulatedDrive")]
    Emulated {
        /// A profile that comes with the node, or the absolute path of one of your own.
        #[schema(examples("cm7-r-7.68"))]
        profile: String,
        /// Its capacity in millionths of the drive's; speed is not scaled.
        #[serde(default = "thousandth")]
        scale_ppm: u32,
        /// Everything takes this many percent of the drive's time: above 100 where the host or
        /// the network is slower than the drive.
        #[serde(default = "real_time")]
        dilation_percent: u32,
        /// Where its data is kept, in sparse files: an absolute path on the node. Without one it
        /// is kept in memory and lost when the node stops.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        directory: Option<String>,
    },
}

/// What a drive of any kind is made of. Read first, for what is wrong to be told by its name: of
/// fields that hang on another one, serde forgets which it was.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AnyDrive {
    kind: DriveKind,
    path: Option<String>,
    size: Option<Size>,
    profile: Option<String>,
    scale_ppm: Option<u32>,
    dilation_percent: Option<u32>,
    directory: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum DriveKind {
    Path,
    Memory,
    Null,
    Emulated,
}

impl TryFrom<AnyDrive> for DriveSpec {
    type Error = String;

    fn try_from(any: AnyDrive) -> Result<DriveSpec, String> {
        let emulated = any.kind == DriveKind::Emulated;
        for (field, is_there, may_be) in [
            ("path", any.path.is_some(), any.kind == DriveKind::Path),
            ("size", any.size.is_some(), !emulated),
            ("profile", any.profile.is_some(), emulated),
            ("scale_ppm", any.scale_ppm.is_some(), emulated),
            ("dilation_percent", any.dilation_percent.is_some(), emulated),
            ("directory", any.directory.is_some(), emulated),
        ] {
            if is_there && !may_be {
                return Err(format!("unknown field `{field}` for this kind of drive"));
            }
        }
        let lacks = |field: &str| format!("missing field `{field}` for this kind of drive");
        Ok(match any.kind {
            DriveKind::Path => DriveSpec::Path {
                path: any.path.ok_or_else(|| lacks("path"))?,
                size: any.size,
            },
            DriveKind::Memory => DriveSpec::Memory {
                size: any.size.ok_or_else(|| lacks("size"))?,
            },
            DriveKind::Null => DriveSpec::Null {
                size: any.size.ok_or_else(|| lacks("size"))?,
            },
            DriveKind::Emulated => DriveSpec::Emulated {
                profile: any.profile.ok_or_else(|| lacks("profile"))?,
                scale_ppm: any.scale_ppm.unwrap_or_else(thousandth),
                dilation_percent: any.dilation_percent.unwrap_or_else(real_time),
                directory: any.directory,
            },
        })
    }
}

fn thousandth() -> u32 {
    1000
}

fn real_time() -> u32 {
    100
}

impl DriveSpec {
    /// The word for this kind of drive, as `kind` has it.
    pub fn kind(&self) -> &'static str {
        match self {
            DriveSpec::Path { .. } => "path",
            DriveSpec::Memory { .. } => "memory",
            DriveSpec::Null { .. } => "null",
            DriveSpec::Emulated { .. } => "emulated",
        }
    }
}

/// How a drive is to be wiped; the query of `POST /v1/drives/{name}/wipe`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct WipeQuery {
    /// Wipe it although another host holds the pool that it is of, which loses a drive then
    #[serde(default)]
    pub force: Option<bool>,
}

/// A drive as the node sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Drive {
    /// The drive's name.
    pub name: Name,
    /// What it was made from.
    pub spec: DriveSpec,
    /// Whether it can be used now.
    pub state: ObjectState,
    /// Why it is not online.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Capacity in bytes; zero while the drive has never been open.
    pub capacity_bytes: u64,
    /// Bytes in the drive's logical block; zero while the drive has never been open.
    pub block_bytes: u32,
    /// False for drives whose contents end with the node: nothing on them outlives it.
    pub persistent: bool,
    /// Hosts that manage its namespaces over NVMe.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub administration: Option<Administration>,
    /// The volume that uses it whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume: Option<Name>,
    /// The pool that it is a member of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<Name>,
}

/// How hosts manage a drive's namespaces over NVMe.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Administration {
    /// Names of the hosts that may.
    pub hosts: Vec<Name>,
    /// NVMe Qualified Name of the drive as a subsystem: what they connect to.
    #[schema(examples("nqn.2026-11.example.flashyard:node-1:drive:d0"))]
    pub nqn: String,
}
