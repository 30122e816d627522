//! [`Member`]: a drive as a shard of a pool sees it, on the shard's core or on another.

use std::sync::Arc;

use block::Geometry;
use drive::SharedDrive;

use crate::volume::placed::Placed;
use crate::volume::remote::VolumeId;
use crate::volume::watched::WatchedDrive;

/// A core's handle to a drive of a pool.
pub type Member = Placed<WatchedDrive>;

/// Where the cores of a pool find a drive.
#[derive(Clone)]
pub struct Seat {
    /// The drive's name.
    pub drive: String,
    /// The core that has it.
    pub home: usize,
    /// What that core gives to the others.
    pub lent: Lent,
}

/// A drive for cores that do not have it.
#[derive(Clone)]
pub struct Lent {
    /// Under what number its core answers for it.
    pub id: VolumeId,
    /// What it is.
    pub geometry: Geometry,
    /// For handles of their own, if it is a drive that several cores can use.
    pub shared: Option<Arc<SharedDrive>>,
}
