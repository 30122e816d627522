//! The node at a glance, and who is connected.

use api::{Counts, Name, Session, Status};

use super::pools::{PoolEntry, hexadecimal};
use super::{Control, Objects};
use crate::events::timestamp;

impl Control {
    /// The node at a glance.
    pub async fn status(&self) -> Status {
        let sessions = self
            .node
            .sessions()
            .await
            .map_or(0, |sessions| sessions.len() as u64);
        let mut objects = self.objects.lock().await;
        self.look_at_pools(&mut objects).await;
        let offline_drives = objects
            .drives
            .values()
            .filter(|d| d.offline.is_some())
            .count();
        let offline_volumes = objects
            .volumes
            .values()
            .filter(|v| v.offline.is_some())
            .count();
        let offline_pools = objects
            .pools
            .values()
            .filter(|p| p.offline.is_some())
            .count();
        Status {
            name: self.identity.name.clone(),
            uuid: self.identity.uuid,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            started: timestamp(self.started),
            nvme_addresses: self
                .node
                .addresses()
                .iter()
                .map(ToString::to_string)
                .collect(),
            discovery_nqn: node::DISCOVERY_NQN.to_owned(),
            cores: self.cores.clone(),
            drives: counts(objects.drives.len(), offline_drives),
            volumes: counts(objects.volumes.len(), offline_volumes),
            pools: counts(objects.pools.len(), offline_pools),
            sessions,
            problems: self.problems(&objects),
        }
    }

    /// Who is connected now.
    pub async fn sessions(&self) -> Result<Vec<Session>, api::ErrorBody> {
        let sessions = self
            .node
            .sessions()
            .await
            .map_err(|error| super::drives::refused(&error))?;
        let objects = self.objects.lock().await;
        let host_of = |nqn: &str| -> Option<Name> {
            let mut hosts = objects.hosts.iter();
            hosts
                .find(|(_, host)| host.nqn == nqn)
                .map(|(name, _)| name.clone())
        };
        let show = |session: node::SessionFacts| Session {
            host: host_of(&session.host_nqn),
            host_nqn: session.host_nqn,
            remote: session.remote.to_string(),
            nqn: session.subsystem_nqn,
            controller_id: session.controller_id,
            queues: session.queues,
        };
        let mut sessions: Vec<Session> = sessions.into_iter().map(show).collect();
        sessions.sort_by_key(Session::key);
        Ok(sessions)
    }

    fn problems(&self, objects: &Objects) -> Vec<String> {
        let mut problems = Vec::new();
        for (name, drive) in &objects.drives {
            if let Some(reason) = &drive.offline {
                problems.push(format!("drive {name} is offline: {reason}"));
            }
            if let Some(fault) = self.faults.of(name) {
                problems.push(format!("drive {name}: {fault}"));
            }
        }
        for (name, entry) in &objects.pools {
            problems.extend(pool_problems(name, entry));
        }
        for (name, volume) in &objects.volumes {
            if let Some(reason) = &volume.offline {
                problems.push(format!("volume {name} is offline: {reason}"));
            }
        }
        problems
    }
}

fn counts(total: usize, offline: usize) -> Counts {
    Counts {
        total: total as u64,
        offline: offline as u64,
    }
}

/// What is wrong with a pool.
fn pool_problems(name: &Name, entry: &PoolEntry) -> Vec<String> {
    let mut problems = entry.unserved.clone();
    if let Some(reason) = &entry.offline {
        problems.push(format!("pool {name} is offline: {reason}"));
        return problems;
    }
    let Some(facts) = &entry.facts else {
        return problems;
    };
    let status = &facts.status;
    if let Some(reason) = status.reason {
        problems.push(format!("pool {name} is offline: {reason}"));
    }
    for drive in status.drives.iter().filter(|drive| !drive.active) {
        let called = entry.record.members.get(&hexadecimal(&drive.id.0));
        let called = called.map_or(String::new(), |name| format!(", drive {name},"));
        let index = drive.index;
        problems.push(format!(
            "pool {name} is degraded: member {index}{called} is missing or has failed"
        ));
    }
    problems
}
