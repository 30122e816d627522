//! How a host is connected, and how it connects.

use std::collections::{BTreeMap, BTreeSet};
use std::time::SystemTime;

use api::{
    ANY_HOST, Caller, ErrorBody, Host, HostConnections, HostNamespace, HostSession, Name,
    host_and_port,
};
use node::{AnaGroupId, Asker, SessionFacts};

use crate::control::hosts::shown;
use crate::control::operating::ports::Reached;
use crate::control::words::{not_found, refused};
use crate::control::{Control, Objects, VolumeEntry};
use crate::events::timestamp;

/// How long a host tries to come back before its disk is gone: as long as `flashyard attach` does.
const CONTROLLER_LOSS_SECONDS: u32 = 600;

/// How long it waits between two tries.
const RECONNECT_SECONDS: u32 = 2;

/// After so long without an answer a host goes another way. A node that dies says nothing.
const KEEP_ALIVE_SECONDS: u32 = 5;

/// Subsystems that a host may connect to, and whether its keys count there.
type Wanted = BTreeMap<String, bool>;

impl Control {
    /// How a host is connected and how it connects, as far as it is the caller's business, with the
    /// node's addresses as `asker` reaches them.
    pub async fn host_connections(
        &self,
        name: &Name,
        caller: &Caller,
        asker: &Asker,
    ) -> Result<HostConnections, ErrorBody> {
        let sessions = self.node.sessions().await;
        let sessions = sessions.map_err(|error| refused(&error))?;
        let reached = self.reached(asker, None);
        let objects = self.objects.seen();
        let spec = objects.hosts.get(name);
        let spec = spec.ok_or_else(|| not_found("host", name))?;
        let host = shown(&objects, name, spec);
        let groups = groups(&objects, caller, name);
        let path_of = |id, nqn: &str| {
            let groups = groups.get(nqn).into_iter().flatten().copied();
            self.path_to(id, groups)
        };
        let is_seen = |nqn: &str| {
            let mut volumes = objects.volumes.values().map(|volume| &volume.record);
            caller.tenant.is_none()
                || volumes.any(|it| it.nqn == nqn && caller.sees(it.tenant.as_ref()))
        };
        let now = SystemTime::now();
        let show = |session: SessionFacts| HostSession {
            path: path_of(session.port, &session.subsystem_nqn),
            nqn: session.subsystem_nqn,
            controller_id: session.controller_id,
            remote: session.remote.to_string(),
            port: session.port,
            queues: session.queues,
            keep_alive_ms: session.keep_alive_ms,
            connected: timestamp(now.checked_sub(session.connected_for).unwrap_or(now)),
        };
        let own = sessions.into_iter();
        let own = own.filter(|session| session.host_nqn == host.nqn);
        let own = own.filter(|session| is_seen(&session.subsystem_nqn));
        let mut sessions: Vec<HostSession> = own.map(show).collect();
        sessions.sort_by(|a, b| (&a.nqn, a.controller_id).cmp(&(&b.nqn, b.controller_id)));
        Ok(HostConnections {
            namespaces: namespaces(&objects, caller, (name, &sessions)),
            commands: commands(&host, &self.wanted(&objects, caller, &host), &reached),
            last_refusal: self.refused.last(&host.nqn),
            sessions,
            host,
        })
    }

    /// The subsystems that a host may connect to, of volumes and of drives that it administers.
    fn wanted(&self, objects: &Objects, caller: &Caller, host: &Host) -> Wanted {
        let mut wanted = Wanted::new();
        for (_, volume) in visible(objects, caller, &host.name) {
            let record = &volume.record;
            let keys_count = host.tenant.is_none()
                || host.tenant == record.tenant
                || record.hosts.contains(&host.name);
            *wanted.entry(record.nqn.clone()).or_default() |= keys_count;
        }
        let drives = objects.drives.iter().filter(|(_, drive)| {
            caller.tenant.is_none() && drive.record.administrators.contains(&host.name)
        });
        wanted.extend(drives.map(|(drive, _)| (self.administration_name(drive), true)));
        wanted
    }
}

/// The volumes that a host may see and a caller may know of.
fn visible<'a>(
    objects: &'a Objects,
    caller: &'a Caller,
    host: &'a Name,
) -> impl Iterator<Item = (&'a Name, &'a VolumeEntry)> {
    let is_allowed = move |allowed: &Name| allowed == host || allowed.as_str() == ANY_HOST;
    objects.volumes.iter().filter(move |(_, volume)| {
        let record = &volume.record;
        !record.nqn.is_empty()
            && record.hosts.iter().any(is_allowed)
            && caller.sees(record.tenant.as_ref())
    })
}

/// ANA groups of what is visible, by the subsystem.
fn groups<'a>(
    objects: &'a Objects,
    caller: &'a Caller,
    host: &'a Name,
) -> BTreeMap<&'a str, BTreeSet<AnaGroupId>> {
    let mut groups: BTreeMap<&str, BTreeSet<AnaGroupId>> = BTreeMap::new();
    for (_, entry) in visible(objects, caller, host) {
        let of_subsystem = groups.entry(&entry.record.nqn).or_default();
        of_subsystem.insert(objects.group_of(&entry.record));
    }
    groups
}

fn namespaces(
    objects: &Objects,
    caller: &Caller,
    (host, sessions): (&Name, &[HostSession]),
) -> Vec<HostNamespace> {
    let mut paths: BTreeMap<&str, u32> = BTreeMap::new();
    for session in sessions {
        *paths.entry(&session.nqn).or_default() += 1;
    }
    let shown = visible(objects, caller, host).map(|(volume, entry)| HostNamespace {
        volume: volume.clone(),
        nqn: entry.record.nqn.clone(),
        nsid: entry.record.nsid,
        capacity_bytes: entry.record.capacity_bytes,
        paths: paths.get(entry.record.nqn.as_str()).copied().unwrap_or(0),
    });
    shown.collect()
}

/// A command for each subsystem and address, the better paths first. A host whose TLS key counts
/// connects under TLS alone, and one without such a key cannot.
fn commands(host: &Host, wanted: &Wanted, reached: &[Reached]) -> Vec<String> {
    let mut commands = Vec::new();
    for (nqn, keys_count) in wanted {
        let under_tls = host.tls && *keys_count;
        for reached in reached.iter().filter(|port| port.tls == under_tls) {
            let (transport, (ip, port)) =
                (reached.transport.word(), host_and_port(&reached.address));
            let [ip, nqn, host_nqn] = [ip, nqn, &host.nqn].map(quoted);
            let mut command = format!(
                "nvme connect --transport={transport} --traddr={ip} --trsvcid={port} --nqn={nqn} \
                 --hostnqn={host_nqn} --ctrl-loss-tmo={CONTROLLER_LOSS_SECONDS} \
                 --reconnect-delay={RECONNECT_SECONDS} --keep-alive-tmo={KEEP_ALIVE_SECONDS}"
            );
            if under_tls {
                command.push_str(" --tls");
            }
            if let Some(key) = host.key.filter(|_| *keys_count) {
                command.push_str(" --dhchap-secret=\"${DHCHAP_SECRET}\"");
                if key.mutual {
                    command.push_str(" --dhchap-ctrl-secret=\"${DHCHAP_CTRL_SECRET}\"");
                }
            }
            commands.push(command);
        }
    }
    commands
}

/// A word as a shell takes it, whatever is in a name.
fn quoted(word: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b".:_-/%".contains(&byte);
    match word.bytes().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

#[cfg(test)]
mod tests {
    use api::{HostKey, KeyGroup, KeyHash, PortTransport};

    use super::*;

    fn host() -> Host {
        Host {
            name: "db".parse().unwrap(),
            nqn: "nqn.2026-11.example:db".to_owned(),
            key: None,
            tls: false,
            tenant: None,
            volumes: Vec::new(),
        }
    }

    fn at(address: &str, tls: bool) -> Reached {
        Reached {
            address: address.to_owned(),
            tls,
            transport: PortTransport::Tcp,
        }
    }

    fn made(host: &Host, nqn: &str, keys_count: bool) -> Vec<String> {
        let wanted = Wanted::from([(nqn.to_owned(), keys_count)]);
        let reached = [at("192.0.2.1:4420", false), at("[2001:db8::1]:4421", true)];
        commands(host, &wanted, &reached)
    }

    #[test]
    fn a_command_has_all_that_a_host_needs() {
        let plain = made(&host(), "nqn.2026-11.example:v", true);
        assert_eq!(
            plain,
            [
                "nvme connect --transport=tcp --traddr=192.0.2.1 --trsvcid=4420 \
              --nqn=nqn.2026-11.example:v --hostnqn=nqn.2026-11.example:db \
              --ctrl-loss-tmo=600 --reconnect-delay=2 --keep-alive-tmo=5"
            ]
        );
        let key = HostKey {
            hash: KeyHash::default(),
            group: KeyGroup::default(),
            mutual: true,
        };
        let keyed = Host {
            key: Some(key),
            tls: true,
            ..host()
        };
        let secured = made(&keyed, "nqn.2026-11.example:v", true);
        let [command] = secured.as_slice() else {
            panic!("{secured:?}")
        };
        assert!(
            command.contains(" --traddr=2001:db8::1 --trsvcid=4421 "),
            "{command}"
        );
        let end = " --tls --dhchap-secret=\"${DHCHAP_SECRET}\" \
                   --dhchap-ctrl-secret=\"${DHCHAP_CTRL_SECRET}\"";
        assert!(command.ends_with(end), "{command}");
        // Keys of a tenant's host count on what is the tenant's.
        assert_eq!(made(&keyed, "nqn.2026-11.example:v", false), plain);
    }

    /// Under TLS there is no RDMA.
    #[test]
    fn ports_over_rdma_are_paths_of_hosts_without_tls() {
        let over_rdma = Reached {
            transport: PortTransport::Rdma,
            ..at("192.0.2.1:4420", false)
        };
        let reached = [at("192.0.2.1:4420", false), over_rdma];
        let wanted = Wanted::from([("nqn.2026-11.example:v".to_owned(), true)]);
        let plain = commands(&host(), &wanted, &reached);
        assert!(
            plain[0].contains("--transport=tcp --traddr=192.0.2.1"),
            "{plain:?}"
        );
        assert!(
            plain[1].contains("--transport=rdma --traddr=192.0.2.1"),
            "{plain:?}"
        );
        let host = Host {
            tls: true,
            ..host()
        };
        assert!(commands(&host, &wanted, &reached).is_empty());
    }

    /// A name may have anything behind its colon; no shell makes more of it than a name.
    #[test]
    fn no_name_becomes_a_command() {
        let command = made(&host(), "nqn.2026-11.example:a b;$(c)'d", true);
        let word = "--nqn='nqn.2026-11.example:a b;$(c)'\\''d' ";
        assert!(
            command.iter().all(|line| line.contains(word)),
            "{command:?}"
        );
    }
}
