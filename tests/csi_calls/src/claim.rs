//! A volume on its way to a workload and back.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use csi::proto::volume_capability::access_mode::Mode;
use csi::proto::volume_capability::{AccessMode, AccessType, BlockVolume, MountVolume};
use csi::proto::volume_content_source::{SnapshotSource, Type};
use csi::proto::*;

use crate::{Answer, Caller};

/// Parameters and the like.
pub fn map(pairs: &[(&str, &str)]) -> HashMap<String, String> {
    let pairs = pairs.iter();
    pairs
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}

/// The NQN of the host called `host`.
pub fn nqn(host: &str) -> String {
    format!("nqn.2026-11.example:{host}")
}

/// A use of a volume: with a file system of this kind, or as a raw device.
pub fn capability(mode: Mode, file_system: Option<&str>) -> VolumeCapability {
    VolumeCapability {
        access_mode: Some(AccessMode { mode: mode.into() }),
        access_type: Some(match file_system {
            None => AccessType::Block(BlockVolume {}),
            Some(kind) => AccessType::Mount(MountVolume {
                fs_type: kind.to_owned(),
                ..MountVolume::default()
            }),
        }),
    }
}

/// A volume on its way to a workload.
#[derive(Clone)]
pub struct Claim {
    /// What it is made by.
    pub create: CreateVolumeRequest,
    /// What the driver made.
    pub volume: Volume,
    /// What publishing it told its host.
    pub published: HashMap<String, String>,
    /// Where it is staged on a host.
    pub staging: PathBuf,
    /// Where a workload finds it.
    pub target: PathBuf,
}

impl Claim {
    /// A volume called `name` of `mib`, which appears below `directory`.
    pub fn new(name: &str, mib: i64, capability: VolumeCapability, directory: &Path) -> Claim {
        Claim {
            create: CreateVolumeRequest {
                name: name.to_owned(),
                capacity_range: Some(CapacityRange {
                    required_bytes: mib << 20,
                    limit_bytes: 0,
                }),
                volume_capabilities: vec![capability],
                ..CreateVolumeRequest::default()
            },
            volume: Volume::default(),
            published: HashMap::new(),
            staging: directory.join(format!("{name}.staging")),
            target: directory.join(format!("{name}.target")),
        }
    }

    /// The driver's name for it.
    pub fn id(&self) -> String {
        self.volume.volume_id.clone()
    }

    fn capability(&self) -> Option<VolumeCapability> {
        self.create.volume_capabilities.first().cloned()
    }

    fn path(path: &Path) -> String {
        path.to_str().unwrap().to_owned()
    }

    /// Makes the volume.
    ///
    /// # Errors
    /// The driver's status.
    pub fn created(&mut self, caller: &Caller) -> Answer<()> {
        let made = caller.create_volume(self.create.clone())?;
        self.volume = made.volume.unwrap();
        Ok(())
    }

    /// Lets the host called `host` have it.
    ///
    /// # Errors
    /// The driver's status.
    pub fn publish_to(&mut self, caller: &Caller, host: &str) -> Answer<()> {
        let published = caller.controller_publish_volume(ControllerPublishVolumeRequest {
            volume_id: self.id(),
            node_id: nqn(host),
            volume_capability: self.capability(),
            volume_context: self.volume.volume_context.clone(),
            ..ControllerPublishVolumeRequest::default()
        })?;
        self.published = published.publish_context;
        Ok(())
    }

    /// Has a host attach it, and mount its file system for all of its workloads.
    ///
    /// # Errors
    /// The driver's status.
    pub fn stage(&self, caller: &Caller) -> Answer<()> {
        let staged = caller.node_stage_volume(NodeStageVolumeRequest {
            volume_id: self.id(),
            publish_context: self.published.clone(),
            staging_target_path: Claim::path(&self.staging),
            volume_capability: self.capability(),
            volume_context: self.volume.volume_context.clone(),
            ..NodeStageVolumeRequest::default()
        });
        staged.map(drop)
    }

    /// Has a workload find it.
    ///
    /// # Errors
    /// The driver's status.
    pub fn node_publish(&self, caller: &Caller, readonly: bool) -> Answer<()> {
        let published = caller.node_publish_volume(NodePublishVolumeRequest {
            volume_id: self.id(),
            publish_context: self.published.clone(),
            staging_target_path: Claim::path(&self.staging),
            target_path: Claim::path(&self.target),
            volume_capability: self.capability(),
            readonly,
            ..NodePublishVolumeRequest::default()
        });
        published.map(drop)
    }

    /// Has the volume be of so many MiB.
    ///
    /// # Errors
    /// The driver's status.
    pub fn expand(&self, caller: &Caller, mib: i64) -> Answer<()> {
        let range = Some(CapacityRange {
            required_bytes: mib << 20,
            limit_bytes: 0,
        });
        let grown = caller.controller_expand_volume(ControllerExpandVolumeRequest {
            volume_id: self.id(),
            capacity_range: range,
            volume_capability: self.capability(),
            ..ControllerExpandVolumeRequest::default()
        });
        grown.map(drop)
    }

    /// Has a workload see that it is of so many MiB.
    ///
    /// # Errors
    /// The driver's status.
    pub fn node_expand(&self, caller: &Caller, mib: i64) -> Answer<()> {
        let grown = caller.node_expand_volume(NodeExpandVolumeRequest {
            volume_id: self.id(),
            volume_path: Claim::path(&self.target),
            capacity_range: Some(CapacityRange {
                required_bytes: mib << 20,
                limit_bytes: 0,
            }),
            ..NodeExpandVolumeRequest::default()
        });
        grown.map(drop)
    }

    /// Has it hold what a snapshot does, once it is made.
    pub fn restore_from(&mut self, snapshot_id: &str) {
        self.create.volume_content_source = Some(VolumeContentSource {
            r#type: Some(Type::Snapshot(SnapshotSource {
                snapshot_id: snapshot_id.to_owned(),
            })),
        });
    }

    /// The size of the file system that a workload sees, in bytes.
    ///
    /// # Errors
    /// The driver's status.
    pub fn file_system_bytes(&self, caller: &Caller) -> Answer<i64> {
        let stats = caller.node_get_volume_stats(NodeGetVolumeStatsRequest {
            volume_id: self.id(),
            volume_path: Claim::path(&self.target),
            staging_target_path: String::new(),
        })?;
        Ok(stats.usage[0].total)
    }

    /// Takes a snapshot called `name`.
    ///
    /// # Errors
    /// The driver's status.
    pub fn snapshot(&self, caller: &Caller, name: &str) -> Answer<Snapshot> {
        let taken = caller.create_snapshot(CreateSnapshotRequest {
            source_volume_id: self.id(),
            name: name.to_owned(),
            ..CreateSnapshotRequest::default()
        })?;
        Ok(taken.snapshot.unwrap())
    }

    /// Takes it from a workload.
    ///
    /// # Errors
    /// The driver's status.
    pub fn node_unpublish(&self, caller: &Caller) -> Answer<()> {
        let gone = caller.node_unpublish_volume(NodeUnpublishVolumeRequest {
            volume_id: self.id(),
            target_path: Claim::path(&self.target),
        });
        gone.map(drop)
    }

    /// Has a host detach it.
    ///
    /// # Errors
    /// The driver's status.
    pub fn unstage(&self, caller: &Caller) -> Answer<()> {
        let gone = caller.node_unstage_volume(NodeUnstageVolumeRequest {
            volume_id: self.id(),
            staging_target_path: Claim::path(&self.staging),
        });
        gone.map(drop)
    }

    /// Takes it from the host called `host`.
    ///
    /// # Errors
    /// The driver's status.
    pub fn unpublish_from(&self, caller: &Caller, host: &str) -> Answer<()> {
        let gone = caller.controller_unpublish_volume(ControllerUnpublishVolumeRequest {
            volume_id: self.id(),
            node_id: nqn(host),
            ..ControllerUnpublishVolumeRequest::default()
        });
        gone.map(drop)
    }

    /// Deletes the volume.
    ///
    /// # Errors
    /// The driver's status.
    pub fn delete(&self, caller: &Caller) -> Answer<()> {
        let gone = caller.delete_volume(DeleteVolumeRequest {
            volume_id: self.id(),
            ..DeleteVolumeRequest::default()
        });
        gone.map(drop)
    }

    /// From its creation to a workload on the host called `host`.
    ///
    /// # Errors
    /// The driver's status.
    pub fn bring(&mut self, caller: &Caller, host: &str) -> Answer<()> {
        self.created(caller)?;
        self.publish_to(caller, host)?;
        self.stage(caller)?;
        self.node_publish(caller, false)
    }

    /// And back again.
    ///
    /// # Errors
    /// The driver's status.
    pub fn take(&self, caller: &Caller, host: &str) -> Answer<()> {
        self.node_unpublish(caller)?;
        self.unstage(caller)?;
        self.unpublish_from(caller, host)?;
        self.delete(caller)
    }
}
