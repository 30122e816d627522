//! [`Plan`]: what a stream is to become, decided before anything is made or written.

use api::{
    BlockSize, ErrorCode, ExtentsQuery, Name, Snapshot, SnapshotName, SnapshotSpec, Volume,
    VolumeResize, VolumeSpec,
};
use client::{Client, ClientError};
use stream::{Header, Origin};
use uuid::Uuid;

use super::Receive;
use super::names::Names;
use crate::copies::aside::Aside;
use crate::copies::error::CopyError;
use crate::copies::name;

/// What a stream is laid on.
pub enum Ground {
    /// Nothing: a volume is made.
    Nothing { pool: Name, tenant: Option<Name> },
    /// The volume, as it was at a snapshot.
    Base {
        volume: Box<Volume>,
        snapshot: SnapshotName,
        bytes: u64,
    },
}

/// Where everything of one receive goes.
pub struct Plan {
    pub ground: Ground,
    pub names: Names,
    /// Nobody but this writes to the volume.
    is_replica: bool,
}

impl Plan {
    /// # Errors
    /// Why the stream cannot be received there.
    pub fn of(receive: &Receive, client: &Client, header: &Header) -> Result<Plan, CopyError> {
        let there = match client.volume(&receive.name) {
            Ok(volume) => Some(volume),
            Err(ClientError::Refused(body)) if body.code == ErrorCode::NotFound => None,
            Err(error) => return Err(error.into()),
        };
        block_size(header)?;
        let names = Names::of(&receive.name, receive.taken(header)?)?;
        let ground = match (&header.base, there) {
            (None, None) => nothing(receive)?,
            (None, Some(_)) => {
                return Err(CopyError::Refused(format!(
                    "volume {} exists, and the stream is all of snapshot {}; allowed: the name of \
                     a volume that is not there, or a stream since a snapshot that it has",
                    receive.name, header.snapshot.name
                )));
            }
            (Some(base), None) => {
                return Err(CopyError::Refused(format!(
                    "the stream of snapshot {} builds on {}, and there is no volume {}; allowed: a \
                     volume that has received {}",
                    header.snapshot.name, base.name, receive.name, base.name
                )));
            }
            (Some(base), Some(volume)) => on_base(receive, client, header, base, volume)?,
        };
        Ok(Plan {
            ground,
            names,
            is_replica: receive.replica_of.is_some(),
        })
    }

    /// Makes the volume aside.
    pub fn begin(
        &self,
        client: &Client,
        header: &Header,
        host: &Name,
    ) -> Result<Volume, CopyError> {
        let spec = match &self.ground {
            Ground::Nothing { pool, tenant } => VolumeSpec {
                pool: Some(pool.clone()),
                tenant: tenant.clone(),
                size: Some(api::Size(header.volume_bytes)),
                block_bytes: block_size(header)?,
                ..VolumeSpec::default()
            },
            Ground::Base {
                volume,
                snapshot,
                bytes,
            } => VolumeSpec {
                snapshot: Some(snapshot.clone()),
                size: (header.volume_bytes > *bytes).then_some(api::Size(header.volume_bytes)),
                block_bytes: volume.block_bytes,
                tenant: volume.tenant.clone(),
                ..VolumeSpec::default()
            },
        };
        let spec = VolumeSpec {
            hosts: vec![host.clone()],
            ..spec
        };
        Ok(client.create_volume(&self.names.volume, &spec)?)
    }

    /// Makes the volume aside as small as the snapshot: a clone is never smaller than what it
    /// begins as.
    pub fn resize(&self, client: &Client, header: &Header) -> Result<(), CopyError> {
        if let Ground::Base { bytes, .. } = self.ground
            && header.volume_bytes < bytes
        {
            let to = VolumeResize {
                size: api::Size(header.volume_bytes),
                allow_shrink: true,
            };
            client.resize_volume(&self.names.volume, &to)?;
        }
        Ok(())
    }

    /// Refuses a volume that is in use, or was written since the snapshot on which the stream
    /// builds.
    pub fn check_unchanged(&self, client: &Client) -> Result<(), CopyError> {
        let Ground::Base {
            volume, snapshot, ..
        } = &self.ground
        else {
            return Ok(());
        };
        if self.is_replica {
            return Ok(());
        }
        let sees = |host: &str| {
            volume
                .hosts
                .iter()
                .any(|name| [host, "any"].contains(&name.as_str()))
        };
        let sessions = client.sessions()?.items;
        let user = sessions.iter().find(|session| {
            session.nqn == volume.nqn && sees(session.host.as_ref().map_or("any", Name::as_str))
        });
        if let Some(user) = user {
            return Err(CopyError::Refused(format!(
                "volume {} is in use: {} is connected; allowed: a volume without connected hosts",
                volume.name, user.host_nqn
            )));
        }
        let mut aside = Aside::new(client, false);
        let now = SnapshotSpec {
            volume: volume.name.clone(),
            copy_of: None,
        };
        let now = in_pool(&client.create_snapshot(&self.names.snapshot, &now)?)?;
        aside.snapshot = Some(now.clone());
        let query = ExtentsQuery {
            since: Some(snapshot.clone()),
            ..ExtentsQuery::default()
        };
        let mut found = client.snapshot_extents(&now, &query)?;
        while let (true, Some(next)) = (found.extents.is_empty(), found.next) {
            let from = Some(next);
            found = client.snapshot_extents(
                &now,
                &ExtentsQuery {
                    from,
                    ..query.clone()
                },
            )?;
        }
        aside.delete_snapshot()?;
        match found.extents.first() {
            None => Ok(()),
            Some(first) => Err(CopyError::Refused(format!(
                "volume {} was written since snapshot {}, at byte {} for one; allowed: a volume \
                 that is what the snapshot is, as after `flashyard volume rollback {} {}`",
                volume.name, snapshot.name, first.start, volume.name, snapshot
            ))),
        }
    }
}

fn nothing(receive: &Receive) -> Result<Ground, CopyError> {
    let needed = || {
        CopyError::Refused(format!(
            "there is no volume {}; --pool says where to make it",
            receive.name
        ))
    };
    let pool = receive.pool.clone().ok_or_else(needed)?;
    Ok(Ground::Nothing {
        pool,
        tenant: receive.tenant.clone(),
    })
}

/// The copy of the stream's base that a volume has.
fn on_base(
    receive: &Receive,
    client: &Client,
    header: &Header,
    base: &Origin,
    volume: Volume,
) -> Result<Ground, CopyError> {
    if receive.replica_of.is_some() && volume.replica_of != receive.replica_of {
        return Err(CopyError::Refused(format!(
            "volume {} is no replica of this one: it was promoted, or is of another origin",
            volume.name
        )));
    }
    if volume.write_protection.is_some() {
        return Err(CopyError::Refused(format!(
            "volume {0} is write protected; allowed: once that is lifted (volume protect {0} \
             --off)",
            volume.name
        )));
    }
    let pool = volume.pool.as_ref();
    if let Some(asked) = &receive.pool
        && Some(asked) != pool
    {
        return Err(CopyError::Refused(format!(
            "volume {} is not in pool {asked}; allowed: the pool that holds it",
            volume.name
        )));
    }
    let all = client.snapshots()?.items;
    let own = all
        .iter()
        .filter(|it| it.volume.as_ref() == Some(&volume.name));
    let own: Vec<&Snapshot> = own.collect();
    let found = own.iter().find(|it| it.uuid == Uuid::from_bytes(base.uuid));
    let Some(found) = found else {
        let names: Vec<&str> = own.iter().map(|it| it.name.as_str()).collect();
        return Err(CopyError::Refused(format!(
            "the stream of snapshot {} builds on {} ({}), of which volume {} has no copy; it has: \
             {}",
            header.snapshot.name,
            base.name,
            Uuid::from_bytes(base.uuid),
            volume.name,
            if names.is_empty() {
                "none".to_owned()
            } else {
                names.join(", ")
            }
        )));
    };
    if volume.block_bytes.bytes() != header.block_bytes {
        return Err(CopyError::Refused(format!(
            "volume {} has blocks of {} bytes, and the snapshot has {}; allowed: the same",
            volume.name,
            volume.block_bytes.bytes(),
            header.block_bytes
        )));
    }
    Ok(Ground::Base {
        snapshot: in_pool(found)?,
        bytes: found.bytes,
        volume: Box::new(volume),
    })
}

/// A snapshot by its pool and its name.
pub fn in_pool(snapshot: &Snapshot) -> Result<SnapshotName, CopyError> {
    Ok(SnapshotName {
        pool: Some(snapshot.pool.clone()),
        name: name(&snapshot.name)?,
    })
}

pub fn block_size(header: &Header) -> Result<BlockSize, CopyError> {
    BlockSize::try_from(header.block_bytes).map_err(|error| CopyError::Refused(error.to_string()))
}
