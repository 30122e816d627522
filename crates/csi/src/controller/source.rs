//! What a new volume starts out as: a snapshot, or another volume.

use api::{Name, Size, Snapshot, SnapshotSpec, Volume, VolumeResize, VolumeSpec};
use tonic::Status;

use super::Work;
use super::capacity::Range;
use super::create::in_pool;
use crate::lookup::At;
use crate::names::clone_name;
use crate::proto::VolumeContentSource;
use crate::proto::volume_content_source::Type;
use crate::refusal::{given, is_absent, status};

/// What a volume starts out as.
pub(super) enum Source {
    /// A snapshot.
    Snapshot(At<Snapshot>),
    /// What a volume is now, by way of a snapshot of this name that lasts as long as it takes.
    Volume(Box<At<Volume>>, Name),
}

impl Work {
    /// What `asked` names, for a volume that is to be called `target`.
    pub(super) fn source(
        &self,
        asked: Option<&VolumeContentSource>,
        target: &Name,
    ) -> Result<Option<Source>, Status> {
        let Some(asked) = asked else {
            return Ok(None);
        };
        Ok(Some(match &asked.r#type {
            None => {
                let message = "volume_content_source is empty; allowed: a snapshot, a volume";
                return Err(Status::invalid_argument(message));
            }
            Some(Type::Snapshot(snapshot)) => {
                let identifier = given("snapshot_id", &snapshot.snapshot_id)?;
                Source::Snapshot(self.nodes.snapshot(identifier)?)
            }
            Some(Type::Volume(volume)) => {
                let identifier = given("volume_id of the source", &volume.volume_id)?;
                let volume = self.nodes.volume(identifier)?;
                Source::Volume(Box::new(volume), clone_name(target)?)
            }
        }))
    }
}

impl Source {
    /// The pool that it is in, as what is made of it will be.
    pub fn pool(&self) -> Option<&Name> {
        match self {
            Source::Snapshot(at) => Some(&at.found.pool),
            Source::Volume(at, _) => at.found.pool.as_ref(),
        }
    }

    fn bytes(&self) -> u64 {
        match self {
            Source::Snapshot(at) => at.found.bytes,
            Source::Volume(at, _) => at.found.capacity_bytes,
        }
    }

    /// Whether a volume in `pool` with a size of `range` can start out as this.
    pub fn check(&self, pool: Option<&Name>, range: Range) -> Result<(), Status> {
        let own = self.pool();
        if pool.is_some() && pool != own {
            let own = own.map_or("none", Name::as_str);
            return Err(Status::invalid_argument(format!(
                "parameter pool is another than that of the source; allowed: {own}"
            )));
        }
        let bytes = self.bytes();
        match range.limit.is_some_and(|limit| limit < bytes) {
            false => Ok(()),
            true => Err(Status::out_of_range(format!(
                "the source has {bytes} bytes; allowed: at least as many"
            ))),
        }
    }

    /// Whether `found` can be what an earlier call made of this.
    pub fn is_of(&self, found: &Volume) -> Result<(), Status> {
        let own = match self {
            Source::Snapshot(at) => at.found.name.as_str(),
            Source::Volume(_, by_way) => by_way.as_str(),
        };
        match &found.origin {
            Some(origin) if origin == own => Ok(()),
            // The snapshot that it was cloned by is gone again.
            None if matches!(self, Source::Volume(..)) => Ok(()),
            origin => Err(Status::already_exists(format!(
                "volume {} exists, and began as {}",
                found.name,
                origin.as_deref().unwrap_or("nothing, or what is gone")
            ))),
        }
    }

    /// Makes a volume of it.
    pub fn volume(&self, name: &Name, spec: VolumeSpec) -> Result<At<Volume>, Status> {
        let (client, snapshot, spec) = match self {
            Source::Snapshot(at) => {
                let origin = at.found.volume.as_ref();
                let origin = origin.and_then(|name| at.client.volume(name).ok());
                // Where the origin is gone, its class may still say it.
                let block_bytes = origin.map_or(spec.block_bytes, |origin| origin.block_bytes);
                let spec = VolumeSpec {
                    block_bytes,
                    ..spec
                };
                (&at.client, in_pool(&at.found)?, spec)
            }
            Source::Volume(at, by_way) => {
                let of = SnapshotSpec {
                    volume: at.found.name.clone(),
                    copy_of: None,
                };
                let taken = at.client.create_snapshot(by_way, &of);
                let taken = taken.map_err(|error| status(&error))?;
                // Its file system has blocks of this size.
                let spec = VolumeSpec {
                    block_bytes: at.found.block_bytes,
                    ..spec
                };
                (&at.client, in_pool(&taken)?, spec)
            }
        };
        let spec = VolumeSpec {
            snapshot: Some(snapshot),
            ..spec
        };
        let made = client.create_volume(name, &spec);
        Ok(At {
            client: client.clone(),
            found: made.map_err(|error| status(&error))?,
        })
    }

    /// Gives the volume the size that is asked for, and leaves nothing beside it.
    pub fn finish(&self, at: At<Volume>, range: Range) -> Result<At<Volume>, Status> {
        let At { client, mut found } = at;
        if range
            .required
            .is_some_and(|least| least > found.capacity_bytes)
        {
            let to = VolumeResize {
                size: Size(range.size()),
                allow_shrink: false,
            };
            let grown = client.resize_volume(&found.name, &to);
            found = grown.map_err(|error| status(&error))?;
        }
        if let Source::Volume(_, by_way) = self {
            match client.delete_snapshot(&by_way.clone().into()) {
                Err(error) if !is_absent(&error) => return Err(status(&error)),
                _ => {}
            }
        }
        Ok(At { client, found })
    }
}
