//! [`Administration`]: what stands behind a subsystem that is one drive, whose hosts see the
//! drive's capacity, wear and unattached namespaces, and may change the namespaces.

use std::future::Future;
use std::pin::Pin;

use access::Nqn;
use nvme::Status;

/// An answer that may come from another core.
pub type Answer<T> = Pin<Box<dyn Future<Output = Result<T, Status>>>>;

/// A drive that hosts administer. Called once per admin command, never on the data path.
///
/// Which namespaces a host has attached is told to the target by
/// [`Target::attach_namespace`](crate::Target::attach_namespace); a change that attaches or
/// detaches calls it before it ends.
pub trait Administration {
    /// What the drive is now.
    fn report(&self) -> Answer<DriveReport>;

    /// Does what `host` asks for; gives the identifier of the namespace concerned.
    fn change(&self, host: &Nqn, change: NamespaceChange) -> Answer<u32>;
}

/// What a host asks for with Namespace Management or Namespace Attachment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamespaceChange {
    /// Make a namespace, attached to nobody.
    Create {
        /// NSZE, in blocks of the format.
        size_blocks: u64,
        /// NCAP, in blocks of the format.
        capacity_blocks: u64,
        /// Index of the format: see [`FORMATS`].
        format: u8,
        /// More than one host may attach it.
        shared: bool,
    },
    /// Delete a namespace, or all of them (FFFFFFFFh), attached or not.
    Delete(u32),
    /// Attach a namespace to the host.
    Attach(u32),
    /// Detach a namespace from the host.
    Detach(u32),
}

/// Block sizes of the LBA formats of an administered drive, by index.
pub const FORMATS: [u32; 2] = [4096, 512];

/// A drive as its administrators see it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DriveReport {
    /// TNVMCAP.
    pub total_bytes: u64,
    /// UNVMCAP.
    pub unallocated_bytes: u64,
    /// What namespaces take is rounded up to this.
    pub granularity_bytes: u64,
    /// NN.
    pub namespace_id_max: u32,
    /// Every namespace, attached or not, by identifier.
    pub namespaces: Vec<DriveNamespace>,
    /// The SMART and endurance group logs.
    pub wear: Wear,
}

/// A namespace of an administered drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DriveNamespace {
    /// Its identifier.
    pub nsid: u32,
    /// Its size.
    pub blocks: u64,
    /// Bytes in a block, one of [`FORMATS`].
    pub block_bytes: u32,
    /// More than one host may attach it.
    pub shared: bool,
    /// NGUID and UUID.
    pub identity: [u8; 16],
}

/// What a drive counts over its life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wear {
    /// Available spare.
    pub available_spare_percent: u8,
    /// Percentage used, up to 255.
    pub percentage_used: u8,
    /// Thousands of 512-byte units read.
    pub data_units_read: u64,
    /// Thousands of 512-byte units written.
    pub data_units_written: u64,
    /// Read commands.
    pub read_commands: u64,
    /// Write commands.
    pub write_commands: u64,
    /// Billions of bytes that may be written in the drive's life.
    pub endurance_estimate_billions: u64,
    /// Billions of bytes read.
    pub data_read_billions: u64,
    /// Billions of bytes written.
    pub data_written_billions: u64,
    /// Billions of bytes that the media took.
    pub media_written_billions: u64,
}
