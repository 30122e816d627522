//! [`Renaming`]: what volumes of an imported pool are to be called, where their names, or the NQNs
//! by which hosts know them, are taken here.

use std::collections::BTreeSet;

use api::{ErrorBody, ErrorCode, Name, PoolImport, VolumeSpec};
use node::{VolumeId, VolumeInfo};

use crate::control::drives::refused;
use crate::control::kept::{self, Address};
use crate::control::{Control, Objects};
use crate::state::{Place, VolumeRecord};

/// What is to be done before the volumes of a pool are served.
#[derive(Default)]
pub(super) struct Renaming {
    names: Vec<(VolumeId, Name)>,
    attributes: Vec<(VolumeId, Vec<u8>)>,
}

/// Why a volume cannot be served under the name that it would have.
#[derive(PartialEq, Eq)]
enum Taken {
    Name,
    Address,
}

impl Renaming {
    /// What an import asks for of the pool that was opened as `pool`, once nothing is in the way.
    ///
    /// # Errors
    /// What is in the way, all of it, and what can be done about it; nothing has been changed.
    pub async fn plan(
        control: &Control,
        objects: &Objects,
        pool: &Name,
        how: &PoolImport,
    ) -> Result<Renaming, ErrorBody> {
        let contents = control.node.pool_contents(pool.as_str()).await;
        let (volumes, snapshots) = contents.map_err(|error| refused(&error))?;
        let named = |name: &Name| volumes.iter().any(|volume| volume.name == name.as_str());
        if let Some(unknown) = how.rename_volumes.keys().find(|name| !named(name)) {
            let all: Vec<&str> = volumes.iter().map(|volume| volume.name.as_str()).collect();
            let message = format!(
                "the pool has no volume {unknown}; volumes: {}",
                all.join(", ")
            );
            return Err(ErrorBody::invalid("rename_volumes", message));
        }
        let mut renaming = Renaming::default();
        let mut in_the_way = Vec::new();
        let mut names: BTreeSet<&str> = snapshots.iter().map(|info| info.name.as_str()).collect();
        for volume in &volumes {
            let asked = how.rename_volumes.iter();
            let asked = asked.filter(|(from, _)| from.as_str() == volume.name);
            let new = asked.map(|(_, to)| to).next();
            let called = new.map_or(volume.name.as_str(), Name::as_str);
            if !names.insert(called) {
                let message = format!("the pool has two volumes or snapshots called {called} then");
                return Err(ErrorBody::invalid("rename_volumes", message));
            }
            match (taken(objects, pool, called, volume), new) {
                (Some(Taken::Name), _) | (Some(Taken::Address), None) => {
                    in_the_way.push(volume.name.clone());
                }
                (Some(Taken::Address), Some(new)) => {
                    let attributes = readdressed(control, objects, pool, new, volume)?;
                    renaming.attributes.push((volume.id, attributes));
                }
                (None, _) => {}
            }
            if let Some(new) = new.filter(|new| new.as_str() != volume.name) {
                renaming.names.push((volume.id, new.clone()));
            }
        }
        match in_the_way.as_slice() {
            [] => Ok(renaming),
            in_the_way => Err(refusal(in_the_way)),
        }
    }

    /// Does it. What fails here is a drive: what was planned is in nobody's way.
    pub async fn carry_out(self, control: &Control, pool: &Name) -> Result<(), ErrorBody> {
        for (id, name) in self.names {
            let renamed = control
                .node
                .rename_pool_volume(pool.as_str(), id, name.as_str());
            renamed.await.map_err(|error| refused(&error))?;
        }
        for (id, attributes) in self.attributes {
            let kept = control
                .node
                .set_pool_volume_attributes(pool.as_str(), id, attributes);
            kept.await.map_err(|error| refused(&error))?;
        }
        Ok(())
    }
}

fn refusal(in_the_way: &[String]) -> ErrorBody {
    let advice: Vec<String> = in_the_way
        .iter()
        .map(|volume| format!("--rename-volume {volume}=NAME"))
        .collect();
    let message = format!(
        "volumes {} of the pool have the names, or the NQNs, of volumes that are here: import it \
         with {}, or rename those that are here; nothing was changed",
        in_the_way.join(", "),
        advice.join(" ")
    );
    ErrorBody::new(ErrorCode::AlreadyExists, message)
}

/// What a volume that is here has of what this one would have, being called so.
fn taken(objects: &Objects, pool: &Name, called: &str, volume: &VolumeInfo) -> Option<Taken> {
    let others = objects.volumes.iter();
    let mut others = others.filter(|(_, entry)| entry.record.place.pool() != Some(pool));
    if others.clone().any(|(name, _)| name.as_str() == called) {
        return Some(Taken::Name);
    }
    let (own, _) = kept::decode(&volume.attributes, place(pool, volume)).ok()?;
    let same = |record: &VolumeRecord| {
        record.uuid == own.uuid || (&record.nqn, record.nsid) == (&own.nqn, own.nsid)
    };
    let taken = others.any(|(_, entry)| same(&entry.record));
    taken.then_some(Taken::Address)
}

/// What is kept about a volume, with an NQN of its new name.
fn readdressed(
    control: &Control,
    objects: &Objects,
    pool: &Name,
    name: &Name,
    volume: &VolumeInfo,
) -> Result<Vec<u8>, ErrorBody> {
    let record = control.new_record(objects, name, place(pool, volume), &VolumeSpec::default());
    let address = Address {
        nqn: record.nqn,
        nsid: record.nsid,
        uuid: record.uuid,
    };
    kept::readdressed(&volume.attributes, address).map_err(|unread| {
        let message = format!("volume {name}: {unread}");
        ErrorBody::new(ErrorCode::Internal, message)
    })
}

fn place(pool: &Name, volume: &VolumeInfo) -> Place {
    Place::Pool {
        name: pool.clone(),
        volume: volume.id.0,
    }
}
