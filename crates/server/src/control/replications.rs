//! Replications: which there are, what of them is remembered, and how each stands.

pub(super) mod replicas;
pub(super) mod replicating;

use std::time::SystemTime;

use api::{
    ErrorBody, ErrorCode, Name, Replication, ReplicationSpec, ReplicationStanding, Severity,
};
use uuid::Uuid;

use crate::control::volumes::identified;
use crate::control::volumes::snapshots::pool_volume;
use crate::control::words::not_found;
use crate::control::{Control, Objects};
use crate::events::{seconds, time_at, timestamp};
use crate::metrics::KnownReplication;
use crate::replications::{Copied, ReplicationRecord};
use crate::state::Kind;

/// The most replications of a node: a copy of each takes its turn within minutes.
const REPLICATIONS_MAX: usize = 256;

impl Control {
    /// Every replication, by name.
    pub async fn replications(&self) -> Vec<Replication> {
        let objects = self.objects.seen();
        let all = objects.replications.iter();
        all.map(|(name, record)| self.shown_replication(&objects, name, record))
            .collect()
    }

    /// One replication.
    pub async fn replication(&self, name: &Name) -> Result<Replication, ErrorBody> {
        let objects = self.objects.seen();
        let record = objects.replications.get(name);
        let record = record.ok_or_else(|| not_found("replication", name))?;
        Ok(self.shown_replication(&objects, name, record))
    }

    /// Makes the replication `name` be what `spec` says, and begins a copy.
    pub async fn set_replication(
        &self,
        name: &Name,
        mut spec: ReplicationSpec,
    ) -> Result<Replication, ErrorBody> {
        spec.check()?;
        spec.certificate = spec.certificate.map(|text| text.to_ascii_lowercase());
        let mut objects = self.objects.change().await;
        let before = objects.replications.get(name).cloned();
        if before.is_none() && objects.replications.len() >= REPLICATIONS_MAX {
            let message =
                format!("{REPLICATIONS_MAX} replications exist; allowed: {REPLICATIONS_MAX}");
            return Err(ErrorBody::new(ErrorCode::OutOfSpace, message));
        }
        let volume = replicated(&objects, name, &spec.volume)?;
        let kept = before.as_ref().and_then(|record| record.spec.token.clone());
        spec.token = spec.token.or(kept);
        if spec.token.is_none() {
            let message = "none is kept; allowed: a token of that node, for the role operator";
            return Err(ErrorBody::invalid("token", message));
        }
        let record = match &before {
            Some(before) if before.volume != volume => {
                let message = format!(
                    "replication {name} is of volume {}; allowed: that one, or another replication",
                    before.spec.volume
                );
                return Err(ErrorBody::invalid("volume", message));
            }
            Some(before) => ReplicationRecord {
                spec,
                ..before.clone()
            },
            None => ReplicationRecord {
                spec,
                volume,
                snapshots: Vec::new(),
                copied: None,
            },
        };
        if before.as_ref() != Some(&record) {
            self.remember(Kind::Replication, name, record.clone())
                .await?;
            let ReplicationSpec {
                volume,
                to,
                every_seconds,
                ..
            } = &record.spec;
            let message = format!("set: volume {volume} to {to}, every {every_seconds} s");
            self.tell_replication(Severity::Info, name, &message);
            objects.replications.insert(name.clone(), record.clone());
        }
        let shown = self.shown_replication(&objects, name, &record);
        drop(objects);
        self.replicating.hasten(name);
        Ok(shown)
    }

    /// Copies no more; the replica and the snapshots stay.
    pub async fn remove_replication(&self, name: &Name) -> Result<(), ErrorBody> {
        let mut objects = self.objects.change().await;
        if !objects.replications.contains_key(name) {
            return Err(not_found("replication", name));
        }
        self.forget(Kind::Replication, name).await?;
        objects.replications.remove(name);
        drop(objects);
        self.replicating.stop(name);
        let message = "removed; the replica and the snapshots stay";
        self.tell_replication(Severity::Info, name, message);
        Ok(())
    }

    /// Remembers which snapshots of the volume are there for it, or are about to be taken.
    pub(super) async fn note_snapshots(
        &self,
        (name, volume): (&Name, Uuid),
        snapshots: &[Name],
    ) -> Result<(), String> {
        let changed = self.change_replication((name, volume), |record| {
            record.snapshots = snapshots.to_vec();
        });
        match changed.await? {
            true => Ok(()),
            false => Err("it was removed".to_owned()),
        }
    }

    /// Remembers that a copy is complete.
    pub(super) async fn note_copied(
        &self,
        (name, volume): (&Name, Uuid),
        copied: Copied,
    ) -> Result<(), String> {
        let mut first = false;
        let changed = self.change_replication((name, volume), |record| {
            first = record.copied.is_none();
            record.snapshots = copied.snapshots;
            record.copied = Some(copied.at);
        });
        if changed.await? && first {
            self.tell_replication(Severity::Info, name, "the first copy is complete");
        }
        Ok(())
    }

    /// Whether it is there to be changed.
    async fn change_replication(
        &self,
        (name, volume): (&Name, Uuid),
        change: impl FnOnce(&mut ReplicationRecord),
    ) -> Result<bool, String> {
        let mut objects = self.objects.change().await;
        let record = objects.replications.get(name).cloned();
        // Another may have been made of this name.
        let Some(mut record) = record.filter(|record| record.volume == volume) else {
            return Ok(false);
        };
        change(&mut record);
        let remembered = self.remember(Kind::Replication, name, record.clone());
        remembered.await.map_err(|error| error.message)?;
        objects.replications.insert(name.clone(), record);
        Ok(true)
    }

    pub(super) fn tell_replication(&self, severity: Severity, name: &Name, message: &str) {
        self.events.record(severity, &object(name), message);
    }

    /// What figures say of it.
    pub(super) fn known_replication(
        &self,
        name: &Name,
        record: &ReplicationRecord,
    ) -> KnownReplication {
        KnownReplication {
            copied: record.copied,
            has_problem: self.replicating.shown(name).1.is_some(),
        }
    }

    fn shown_replication(
        &self,
        objects: &Objects,
        name: &Name,
        record: &ReplicationRecord,
    ) -> Replication {
        let spec = record.spec.clone();
        let copied = record.copied.map(|at| timestamp(time_at(at)));
        let now = seconds(SystemTime::now());
        let (job, problem) = self.replicating.shown(name);
        Replication {
            name: name.clone(),
            volume: named(objects, record.volume).unwrap_or(spec.volume),
            to: spec.to,
            certificate: spec.certificate,
            pool: spec.pool,
            replica: spec.replica,
            every_seconds: spec.every_seconds,
            bandwidth: spec.bandwidth,
            in_the_clear: spec.in_the_clear,
            standing: ReplicationStanding {
                copied,
                lag_seconds: record.copied.map(|at| now.saturating_sub(at)),
                job,
                problem,
            },
        }
    }
}

/// What events and jobs call a replication.
pub(super) fn object(name: &Name) -> String {
    format!("replication/{name}")
}

/// What the volume with this identity is called.
pub(super) fn named(objects: &Objects, volume: Uuid) -> Option<Name> {
    let mut volumes = objects.volumes.iter();
    let found = volumes.find(|(_, entry)| entry.record.uuid == volume);
    found.map(|(name, _)| name.clone())
}

/// The identity of a volume that the replication `name` may be of.
fn replicated(objects: &Objects, name: &Name, volume: &Name) -> Result<Uuid, ErrorBody> {
    let at = |error: ErrorBody| error.at("volume".to_owned());
    pool_volume(objects, volume).map_err(at)?;
    let uuid = identified(objects, volume).map_err(at)?.record.uuid;
    let mut others = objects.replications.iter();
    let other = others.find(|(other, record)| *other != name && record.volume == uuid);
    match other {
        None => Ok(uuid),
        Some((other, _)) => {
            let message = format!("volume {volume} has replication {other}; allowed: one");
            Err(at(ErrorBody::new(ErrorCode::InUse, message)))
        }
    }
}
