//! What errors tell of labels: those that are damaged, and those of later versions.

use crate::format::plausible::Implausible;
use crate::format::superblock::{Newer, VERSION};
use crate::ids::{DriveId, PoolId};
use std::fmt;

/// What can be told of a label that is not whole any more: none of it is certain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamagedLabel {
    /// The pool that it names.
    pub pool: PoolId,
    /// That pool's name.
    pub pool_name: String,
    /// The drive that it says it is on.
    pub drive: DriveId,
    /// Its position among the members.
    pub index: usize,
    /// What no pool writes, where the checksum is right.
    pub implausible: Option<Box<Implausible>>,
}

impl DamagedLabel {
    /// Why it is not whole, where that is known: words to follow "damaged".
    pub fn why(&self) -> String {
        let why = self.implausible.as_ref();
        why.map_or_else(String::new, |why| {
            format!(", and not by decay ({why}; its checksum is right)")
        })
    }
}

/// A pool that a later version wrote. Its words say what that means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewerFormat {
    /// The version that a drive has.
    pub version: u32,
    /// Features of a version that is known, each a bit, that are not.
    pub features: u64,
    /// The pool.
    pub pool: PoolId,
    /// What it is called.
    pub pool_name: String,
}

impl fmt::Display for NewerFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, version, features) = (&self.pool_name, self.version, self.features);
        match features {
            0 => write!(
                f,
                "pool {name:?} has format version {version}; this program knows versions up to \
                 {VERSION}: use a newer one"
            ),
            _ => write!(
                f,
                "pool {name:?} has features {features:#x} of format version {version} that this \
                 program does not know: use a newer one"
            ),
        }
    }
}

impl From<Newer> for NewerFormat {
    fn from(found: Newer) -> NewerFormat {
        NewerFormat {
            version: found.version,
            features: found.features,
            pool: PoolId(found.pool_id),
            pool_name: found.name(),
        }
    }
}
