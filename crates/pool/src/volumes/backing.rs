//! [`Backing`]: where a write has its space from. No I/O.

use crate::ids::LayerId;
use crate::volumes::Volume;

/// Where an admitted write has its space from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Backing {
    /// Every block of it counts as a new one.
    Counted,
    /// It is promised to the volume.
    Promised,
    /// The layer on top of the volume holds some of the blocks, which do not count.
    Held { layer: LayerId },
}

impl Backing {
    /// False if the volume has changed since, so that the space might be somebody else's by now: a
    /// snapshot keeps what the layer holds, and takes the layer with it.
    pub fn stands(self, volume: &Volume) -> bool {
        match self {
            Backing::Counted => true,
            Backing::Promised => volume.reserved,
            Backing::Held { layer } => volume.layer == layer,
        }
    }
}
