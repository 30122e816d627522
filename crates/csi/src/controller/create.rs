//! Volumes: made, changed and deleted.

use api::{Name, SnapshotName, Volume, VolumeReserve, VolumeSpec};
use tonic::Status;

use super::Work;
use super::capacity::{Range, signed};
use super::source::Source;
use crate::access_mode::Use;
use crate::lookup::{At, room};
use crate::names::volume_name;
use crate::parameters::{Changes, Parameters};
use crate::proto;
use crate::proto::{
    CreateVolumeRequest, CreateVolumeResponse, DeleteVolumeRequest, DeleteVolumeResponse,
};
use crate::refusal::{given, if_there, is_absent, status};

/// A volume as it is asked for.
struct Asked {
    name: Name,
    range: Range,
    parameters: Parameters,
    changes: Changes,
    source: Option<Source>,
}

impl Work {
    pub(super) fn create_volume(
        &self,
        request: CreateVolumeRequest,
    ) -> Result<CreateVolumeResponse, Status> {
        let called = given("name", &request.name)?;
        Use::all(&request.volume_capabilities)?;
        let parameters = Parameters::read(&request.parameters)?;
        self.can_prove(parameters.demands)?;
        let later = Changes::read(&request.mutable_parameters)?;
        let name = volume_name(called)?;
        let _turn = self.turns.take(called)?;
        let asked = Asked {
            range: Range::of(request.capacity_range.as_ref())?,
            changes: parameters.mutable.clone().then(&later),
            source: self.source(request.volume_content_source.as_ref(), &name)?,
            parameters,
            name,
        };
        let at = match self.nodes.volume_called(&asked.name)? {
            Some(at) => {
                asked.check(&at.found)?;
                at
            }
            None => self.make(&asked)?,
        };
        let at = match &asked.source {
            Some(source) => source.finish(at, asked.range)?,
            None => at,
        };
        self.nodes.note(&at);
        self.apply(&at, &asked.changes)?;
        Ok(CreateVolumeResponse {
            volume: Some(proto::Volume {
                capacity_bytes: signed(at.found.capacity_bytes),
                volume_id: at.found.uuid.to_string(),
                volume_context: asked.parameters.context(),
                content_source: request.volume_content_source,
                accessible_topology: Vec::new(),
            }),
        })
    }

    fn make(&self, asked: &Asked) -> Result<At<Volume>, Status> {
        let spec = VolumeSpec {
            block_bytes: asked.parameters.block_size,
            reserved: asked.changes.reserved.unwrap_or_default(),
            ..VolumeSpec::default()
        };
        // The subsystem that volumes of a pool share has the pool's name.
        let subsystem = |pool: Option<&Name>| pool.filter(|_| asked.parameters.shared).cloned();
        if let Some(source) = &asked.source {
            source.check(asked.parameters.pool.as_ref(), asked.range)?;
            let spec = VolumeSpec {
                subsystem: subsystem(source.pool()),
                ..spec
            };
            return source.volume(&asked.name, spec);
        }
        let pools = self.nodes.pools(asked.parameters.pool.as_ref())?;
        let roomiest = pools.into_iter().max_by_key(|at| room(&at.found));
        let pool = roomiest.ok_or_else(|| match &asked.parameters.pool {
            Some(pool) => Status::invalid_argument(format!(
                "parameter pool is \"{pool}\", which no node that answers has online"
            )),
            None => Status::resource_exhausted("no node that answers has a pool online"),
        })?;
        let spec = VolumeSpec {
            pool: Some(pool.found.name.clone()),
            subsystem: subsystem(Some(&pool.found.name)),
            size: Some(api::Size(asked.range.size())),
            ..spec
        };
        let made = pool.client.create_volume(&asked.name, &spec);
        Ok(At {
            found: made.map_err(|error| status(&error))?,
            client: pool.client,
        })
    }

    /// Has limits and space be as `changes` say.
    pub(super) fn apply(&self, at: &At<Volume>, changes: &Changes) -> Result<(), Status> {
        let Volume {
            name,
            limits,
            capacity_bytes,
            ..
        } = &at.found;
        let wanted = changes.limits(*limits, *capacity_bytes);
        if wanted != *limits {
            let limited = at.client.limit_volume(name, &wanted);
            limited.map_err(|error| status(&error))?;
        }
        if let Some(reserved) = changes
            .reserved
            .filter(|wanted| *wanted != at.found.reserved)
        {
            let kept = at.client.reserve_volume(name, &VolumeReserve { reserved });
            kept.map_err(|error| status(&error))?;
        }
        Ok(())
    }

    pub(super) fn delete_volume(
        &self,
        request: DeleteVolumeRequest,
    ) -> Result<DeleteVolumeResponse, Status> {
        let identifier = given("volume_id", &request.volume_id)?;
        let _turn = self.turns.take(identifier)?;
        let Some(at) = if_there(self.nodes.volume(identifier))? else {
            // Nothing that nodes have could be called that, or it is gone.
            return Ok(DeleteVolumeResponse {});
        };
        if let Some(host) = at.found.hosts.first() {
            let message = format!("the volume is published to {host}: unpublish it first");
            return Err(Status::failed_precondition(message));
        }
        match at.client.delete_volume(&at.found.name, false) {
            Err(error) if !is_absent(&error) => return Err(status(&error)),
            _ => self.nodes.forget(at.found.uuid),
        }
        Ok(DeleteVolumeResponse {})
    }
}

impl Asked {
    /// Whether a volume of this name is what an earlier call of this kind made.
    fn check(&self, found: &Volume) -> Result<(), Status> {
        let other = |what: &str, is: &dyn std::fmt::Display| {
            let name = &self.name;
            let message = format!("volume {name} exists, and its {what} is {is}");
            Err(Status::already_exists(message))
        };
        let bytes = found.capacity_bytes;
        // One that began as something smaller grows in a moment.
        let grows = self.source.is_some() && self.range.required.is_some_and(|least| least > bytes);
        if !self.range.has(bytes) && !grows {
            return other("size in bytes", &bytes);
        }
        let pool = found.pool.as_ref().map_or("none", Name::as_str);
        if self
            .parameters
            .pool
            .as_ref()
            .is_some_and(|asked| asked.as_str() != pool)
        {
            return other("pool", &pool);
        }
        match &self.source {
            Some(source) => source.is_of(found),
            None if found.origin.is_some() => {
                let origin = found.origin.as_deref().unwrap_or_default();
                other("origin", &origin)
            }
            None if found.block_bytes != self.parameters.block_size => {
                other("block size", &found.block_bytes.bytes())
            }
            None => Ok(()),
        }
    }
}

/// A snapshot with its pool's name.
pub(super) fn in_pool(snapshot: &api::Snapshot) -> Result<SnapshotName, Status> {
    let text = format!("{}/{}", snapshot.pool, snapshot.name);
    text.parse()
        .map_err(|error: api::SnapshotNameError| Status::internal(error.to_string()))
}
