//! The node at a glance, and who is connected.

use api::{Caller, Counts, ErrorBody, Name, PortTransport, Session, Size, Status};
use node::{AnaGroupId, Asker, PoolStatus};

use crate::control::pools::{PoolEntry, why_offline};
use crate::control::words::refused;
use crate::control::{Control, Objects, VolumeEntry};
use crate::events::timestamp;
use crate::words::hexadecimal;

/// Percent of a pool that is used or reserved from which on it is a problem: some time is left then
/// to delete something, or to add a drive.
const FULL_PERCENT: u128 = 95;

impl Control {
    /// The node at a glance: all of it, or as much as is the caller's business, with its addresses
    /// as `asker` reaches them, the better paths to a volume first.
    pub async fn status(
        &self,
        caller: &Caller,
        asker: &Asker,
        volume: Option<&Name>,
    ) -> Result<Status, ErrorBody> {
        let sessions = self.sessions(caller).await;
        let sessions = sessions.map_or(0, |sessions| sessions.len() as u64);
        let objects = self.look().await;
        let group = volume.map(|name| group_of(&objects, caller, name));
        let group = group.transpose()?;
        let offline_drives = objects
            .drives
            .values()
            .filter(|d| d.offline.is_some())
            .count();
        let offline_pools = objects
            .pools
            .values()
            .filter(|p| p.why_offline().is_some())
            .count();
        let visible = |volume: &&VolumeEntry| caller.sees(volume.record.tenant.as_ref());
        let volumes: Vec<_> = objects.volumes.values().filter(visible).collect();
        let offline_volumes = volumes
            .iter()
            .filter(|v| v.why_offline(&objects).is_some())
            .count();
        let (drives, pools) = match caller.tenant {
            None => (
                counts(objects.drives.len(), offline_drives),
                counts(objects.pools.len(), offline_pools),
            ),
            Some(_) => <(Counts, Counts)>::default(),
        };
        let mut problems = self.problems(&objects, caller);
        problems.extend(self.closed_ports());
        if caller.tenant.is_none() {
            problems.extend(self.problems.in_words());
        }
        let reached = self.reached(asker, group);
        let (over_tcp, over_rdma): (Vec<_>, Vec<_>) = reached
            .iter()
            .partition(|port| port.transport == PortTransport::Tcp);
        let under_tls = over_tcp.iter().filter(|port| port.tls);
        Ok(Status {
            name: self.identity.name.clone(),
            uuid: self.identity.uuid,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            started: timestamp(self.started),
            nvme_addresses: over_tcp.iter().map(|port| port.address.clone()).collect(),
            nvme_tls_addresses: under_tls.map(|port| port.address.clone()).collect(),
            nvme_rdma_addresses: over_rdma.iter().map(|port| port.address.clone()).collect(),
            discovery_nqn: node::discovery_nqn(self.identity.uuid).to_string(),
            cores: self.cores.clone(),
            drives,
            volumes: counts(volumes.len(), offline_volumes),
            pools,
            sessions,
            problems,
        })
    }

    /// Who is connected now.
    pub async fn sessions(&self, caller: &Caller) -> Result<Vec<Session>, ErrorBody> {
        let sessions = self
            .node
            .sessions()
            .await
            .map_err(|error| refused(&error))?;
        let objects = self.objects.seen();
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
        let visible = |session: &node::SessionFacts| {
            let mut volumes = objects.volumes.values().map(|volume| &volume.record);
            caller.tenant.is_none()
                || volumes.any(|volume| {
                    volume.nqn == session.subsystem_nqn && caller.sees(volume.tenant.as_ref())
                })
        };
        let sessions = sessions.into_iter().filter(visible);
        let mut sessions: Vec<Session> = sessions.map(show).collect();
        sessions.sort_by_key(Session::key);
        Ok(sessions)
    }

    fn problems(&self, objects: &Objects, caller: &Caller) -> Vec<String> {
        let mut problems = Vec::new();
        let drives = objects.drives.iter();
        for (name, drive) in drives.filter(|_| caller.tenant.is_none()) {
            if let Some(reason) = &drive.offline {
                problems.push(format!("drive {name} is offline: {reason}"));
            }
            if let Some(fault) = self.faults.of(name) {
                problems.push(format!("drive {name}: {fault}"));
            }
        }
        let pools = objects.pools.iter();
        for (name, entry) in pools.filter(|_| caller.tenant.is_none()) {
            problems.extend(pool_problems(name, entry));
        }
        let volumes = objects.volumes.iter();
        for (name, volume) in volumes.filter(|(_, v)| caller.sees(v.record.tenant.as_ref())) {
            if let Some(reason) = volume.why_offline(objects) {
                problems.push(format!("volume {name} is offline: {reason}"));
            }
        }
        problems
    }
}

/// The ANA group of a volume that a caller may know of.
fn group_of(objects: &Objects, caller: &Caller, name: &Name) -> Result<AnaGroupId, ErrorBody> {
    let unknown = || ErrorBody::invalid("volume", format!("no volume is named {name}"));
    let entry = objects.volume_for(caller, name).ok_or_else(unknown)?;
    Ok(objects.group_of(&entry.record))
}

fn counts(total: usize, offline: usize) -> Counts {
    Counts {
        total: total as u64,
        offline: offline as u64,
    }
}

/// That next to nothing is left of a pool, if so.
fn fullness(name: &Name, status: &PoolStatus) -> Option<String> {
    let (used, reserved) = (status.used_bytes, status.reserved_bytes);
    let taken = u128::from(used) + u128::from(reserved);
    let usable = status.usable_bytes;
    let full = usable > 0 && taken * 100 >= u128::from(usable) * FULL_PERCENT;
    full.then(|| {
        let [used, reserved, usable] = [used, reserved, usable].map(Size);
        format!("pool {name} is nearly full: {used} used and {reserved} reserved of {usable}")
    })
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
    if let Some(reason) = why_offline(facts) {
        problems.push(format!("pool {name} is offline: {reason}"));
    }
    problems.extend(fullness(name, status));
    let how = match status.drives_to_spare {
        0 => "degraded, no redundancy left",
        _ => "degraded",
    };
    for drive in status.drives.iter().filter(|drive| !drive.active) {
        let id = hexadecimal(&drive.id.0);
        let called = entry.record.members.get(&id);
        let called = called.map_or(String::new(), |name| format!(", drive {name},"));
        let instead = entry.instead.get(&id);
        let instead = instead.map_or(String::new(), |instead| format!(": {instead}"));
        let index = drive.index;
        problems.push(format!(
            "pool {name} is {how}: member {index}{called} is missing or has failed{instead}"
        ));
    }
    problems
}
