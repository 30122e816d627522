//! Namespaces: how much of a drive's flash is handed out; the rest is over-provisioning.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{BlockSize, Size};

/// A namespace to create; the body of `POST /v1/drives/{name}/namespaces`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NamespaceSpec {
    /// Its size; a multiple of the block size.
    pub size: Size,
    /// Its logical block size.
    #[serde(default)]
    pub block_bytes: BlockSize,
}

/// A namespace of a drive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Namespace {
    /// Its identifier.
    pub nsid: u32,
    /// Its size in bytes.
    pub bytes: u64,
    /// Bytes in its logical block.
    pub block_bytes: u32,
    /// The node can use it: it is attached to the node's machine, or on an emulated drive.
    pub attached: bool,
    /// True for the one that the node uses as the drive: that which an NVMe drive was added by,
    /// otherwise that with the lowest identifier.
    pub used_as_drive: bool,
}

/// The namespaces of a drive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Namespaces {
    /// Capacity in all (TNVMCAP).
    pub total_bytes: u64,
    /// Capacity in no namespace (UNVMCAP): it serves as spare flash.
    pub unallocated_bytes: u64,
    /// What is taken for a namespace is rounded up to a multiple of this.
    pub granularity_bytes: u64,
    /// Each namespace, by identifier.
    pub namespaces: Vec<Namespace>,
}

/// The health of a drive that can tell: NVMe's SMART and endurance group logs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DriveHealth {
    /// The drive's model.
    pub model: String,
    /// Spare flash left, in percent.
    pub available_spare_percent: u8,
    /// Media writes as percent of the warranted ones; may pass 100, stops at 255.
    pub percentage_used: u8,
    /// Thousands of 512-byte units read.
    pub data_units_read: u64,
    /// Thousands of 512-byte units written.
    pub data_units_written: u64,
    /// Read commands.
    pub host_read_commands: u64,
    /// Write commands.
    pub host_write_commands: u64,
    /// Bytes that the host may write in the drive's life, in billions.
    pub endurance_estimate_billions: u64,
    /// Bytes that the flash programmed, in billions.
    pub media_written_billions: u64,
    /// Media writes per host write, in thousandths.
    pub write_amplification_thousandths: u64,
    /// Requests that an emulated drive completed since it was opened.
    pub completed: u64,
    /// Those that took a tenth longer than the drive would have taken, or more.
    pub completed_late: u64,
}
