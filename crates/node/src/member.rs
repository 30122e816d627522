//! [`Member`]: a drive as a shard of a pool sees it, on the shard's core or on another.

use block::Geometry;

use crate::placed::Placed;
use crate::remote::VolumeId;
use crate::watched::WatchedDrive;

/// A core's handle to a drive of a pool.
pub type Member = Placed<WatchedDrive>;

/// Where the cores of a pool find a drive.
#[derive(Clone, Debug)]
pub struct Seat {
    /// The drive's name.
    pub drive: String,
    /// The core that has it.
    pub home: usize,
    /// Under what number that core answers for it when others ask, and what the drive is.
    pub lent: (VolumeId, Geometry),
}
