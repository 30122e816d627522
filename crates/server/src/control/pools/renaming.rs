//! [`Renaming`]: what volumes of an imported pool are to be called, where their names, or the NQNs
//! by which hosts know them, are taken here.

use std::collections::BTreeSet;

use api::{ErrorBody, ErrorCode, Name, PoolImport, VolumeSpec};
use node::{VolumeId, VolumeInfo};

use super::adopt::place;
use super::agreement::Newcomers;
use crate::control::words::refused;

use crate::control::volumes::kept::{self, Address};
use crate::control::{Control, Objects};

/// What is to be done before the volumes of a pool are served.
#[derive(Default)]
pub(super) struct Renaming {
    names: Vec<(VolumeId, Name)>,
    attributes: Vec<(VolumeId, Vec<u8>)>,
}

/// Why a volume cannot be served under the name that it would have.
enum Taken {
    Name,
    /// Another volume has its address, or does not agree about it: what is wrong.
    Address(String),
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
        let mut newcomers = Newcomers::new(objects, pool);
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
            match (taken(&mut newcomers, objects, pool, called, volume), new) {
                (Some(Taken::Name), _) => {
                    let reason = format!("a volume is called {called}");
                    in_the_way.push((volume.name.clone(), reason));
                }
                (Some(Taken::Address(reason)), None) => {
                    in_the_way.push((volume.name.clone(), reason));
                }
                (Some(Taken::Address(_)), Some(new)) => {
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
            let kept = control.describe(pool, id, attributes).await;
            kept.map_err(|error| refused(&error))?;
        }
        Ok(())
    }
}

fn refusal(in_the_way: &[(String, String)]) -> ErrorBody {
    let advice: Vec<String> = in_the_way
        .iter()
        .map(|(volume, _)| format!("--rename-volume {volume}=NAME"))
        .collect();
    let reasons: Vec<String> = in_the_way
        .iter()
        .map(|(volume, reason)| format!("{volume} ({reason})"))
        .collect();
    let message = format!(
        "volumes of the pool have the names, or the NQNs, of volumes that are here: {}; import it \
         with {}, or rename those that are here; nothing was changed",
        reasons.join(", "),
        advice.join(" ")
    );
    ErrorBody::new(ErrorCode::AlreadyExists, message)
}

/// What is in the way of this volume, being called so.
fn taken(
    newcomers: &mut Newcomers<'_>,
    objects: &Objects,
    pool: &Name,
    called: &str,
    volume: &VolumeInfo,
) -> Option<Taken> {
    let mut others = objects.volumes.iter();
    if others
        .any(|(name, entry)| name.as_str() == called && entry.record.place.pool() != Some(pool))
    {
        return Some(Taken::Name);
    }
    let name: Name = called.parse().ok()?;
    let (record, hosts) = kept::decode(&volume.attributes, place(pool, volume)).ok()?;
    let admitted = newcomers.admit(&name, record, &hosts);
    admitted.err().map(Taken::Address)
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
