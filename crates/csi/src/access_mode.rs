//! What a volume is to be used as: which combinations of access modes and types there are.

use tonic::Status;

use crate::proto::VolumeCapability;
use crate::proto::volume_capability::access_mode::Mode;
use crate::proto::volume_capability::{AccessType, MountVolume};

/// A use of a volume that this driver allows.
#[derive(Clone, Debug, PartialEq)]
pub struct Use {
    /// Who reads and writes it.
    pub mode: Mode,
    /// The file system and how it is mounted; none for a raw block device.
    pub mount: Option<MountVolume>,
}

impl Use {
    /// What a capability says.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for what is missing, and for file systems on several nodes.
    pub fn of(capability: Option<&VolumeCapability>) -> Result<Use, Status> {
        let capability =
            capability.ok_or_else(|| Status::invalid_argument("volume_capability is missing"))?;
        let mount = match &capability.access_type {
            Some(AccessType::Block(_)) => None,
            Some(AccessType::Mount(mount)) => Some(mount.clone()),
            None => {
                return Err(Status::invalid_argument(
                    "volume_capability has no access_type; allowed: block, mount",
                ));
            }
        };
        let mode = capability.access_mode.as_ref().map(|mode| mode.mode());
        let mode = mode.filter(|mode| *mode != Mode::Unknown).ok_or_else(|| {
            Status::invalid_argument("volume_capability has no access_mode that is known")
        })?;
        let asked = Use { mode, mount };
        if asked.is_shared() && asked.mount.is_some() {
            return Err(Status::invalid_argument(format!(
                "access mode {} is for raw block volumes: a file system is mounted on one node; \
                 allowed: volumeMode Block, or ReadWriteOnce",
                mode.as_str_name()
            )));
        }
        Ok(asked)
    }

    /// What every one of several capabilities says.
    ///
    /// # Errors
    /// As of [`Use::of`], and where there are none.
    pub fn all(capabilities: &[VolumeCapability]) -> Result<Vec<Use>, Status> {
        if capabilities.is_empty() {
            return Err(Status::invalid_argument("volume_capabilities are missing"));
        }
        capabilities.iter().map(|one| Use::of(Some(one))).collect()
    }

    /// Several nodes have it at a time.
    pub fn is_shared(&self) -> bool {
        matches!(
            self.mode,
            Mode::MultiNodeReaderOnly | Mode::MultiNodeSingleWriter | Mode::MultiNodeMultiWriter
        )
    }

    /// Nobody writes.
    pub fn is_read_only(&self) -> bool {
        matches!(
            self.mode,
            Mode::SingleNodeReaderOnly | Mode::MultiNodeReaderOnly
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::volume_capability::{AccessMode, BlockVolume};

    fn capability(mode: Mode, mount: bool) -> VolumeCapability {
        VolumeCapability {
            access_mode: Some(AccessMode { mode: mode.into() }),
            access_type: Some(match mount {
                true => AccessType::Mount(MountVolume::default()),
                false => AccessType::Block(BlockVolume {}),
            }),
        }
    }

    #[test]
    fn only_raw_blocks_are_used_by_several_nodes() {
        for mode in [
            Mode::MultiNodeReaderOnly,
            Mode::MultiNodeSingleWriter,
            Mode::MultiNodeMultiWriter,
        ] {
            assert!(Use::of(Some(&capability(mode, false))).is_ok());
            let refused = Use::of(Some(&capability(mode, true))).unwrap_err();
            assert!(refused.message().contains("raw block"), "{refused}");
        }
        for mode in [Mode::SingleNodeWriter, Mode::SingleNodeReaderOnly] {
            assert!(Use::of(Some(&capability(mode, true))).is_ok());
        }
    }

    #[test]
    fn what_is_missing_is_named() {
        assert!(Use::all(&[]).is_err());
        assert!(Use::of(Some(&VolumeCapability::default())).is_err());
        assert!(Use::of(Some(&capability(Mode::Unknown, false))).is_err());
    }
}
