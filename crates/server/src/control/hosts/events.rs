//! [`HostEvents`]: what the node tells of hosts that come, go, are refused and lose connections.

use std::net::SocketAddr;
use std::sync::Arc;

use api::Severity;

use crate::control::hosts::ids::HostIds;
use crate::control::hosts::refused::Refused;
use crate::events::Events;

/// Tells of hosts.
pub(in crate::control) struct HostEvents {
    events: Arc<Events>,
    ids: HostIds,
    refused: Arc<Refused>,
}

impl HostEvents {
    pub fn new(events: Arc<Events>, refused: Arc<Refused>) -> HostEvents {
        HostEvents {
            events,
            refused,
            ids: HostIds::default(),
        }
    }

    /// A host has a new controller.
    pub fn connected(&self, host: &str, id: [u8; 16], address: SocketAddr, subsystem: &str) {
        let message = format!("{host} connected from {address}");
        self.tell(Severity::Info, &of(subsystem), &message);
        if let Some(other) = self.ids.note(id, host) {
            let id = u128::from_be_bytes(id);
            let message = format!(
                "{host} at {address} has the host identifier of {other} ({id:032x}): only one of \
                 them can reserve a namespace; give one of them another (/etc/nvme/hostid)"
            );
            self.tell(Severity::Warning, &of(subsystem), &message);
        }
    }

    /// A host's controller is gone.
    pub fn disconnected(&self, host: &str, subsystem: &str, reason: &str) {
        let message = format!("{host} disconnected: {reason}");
        self.tell(Severity::Info, &of(subsystem), &message);
    }

    /// A host has had a volume write protected, or had that lifted.
    pub fn protection_changed(&self, host: &str, subsystem: &str, nsid: u32, protected: bool) {
        let message = match protected {
            true => format!("{host} write protected namespace {nsid}"),
            false => format!("{host} lifted the write protection of namespace {nsid}"),
        };
        self.tell(Severity::Info, &of(subsystem), &message);
    }

    /// A host was refused, or where it was `served` lost connections of I/O queues, for a reason
    /// and as often since it was last told of.
    pub fn befell(
        &self,
        served: bool,
        (host, address): (Option<&str>, SocketAddr),
        subsystem: Option<&str>,
        (reason, times): (&str, u64),
    ) {
        let what = match served {
            true => "lost a queue",
            false => "was refused",
        };
        if let (Some(host), false) = (host, served) {
            self.refused.note(host, address, subsystem, reason);
        }
        let host = host.unwrap_or("a host");
        let message = match times {
            1 => format!("{host} at {address} {what}: {reason}"),
            _ => {
                format!("{host} at {address}, or others there, {what} {times} more times: {reason}")
            }
        };
        let object = subsystem.map_or("node".to_owned(), of);
        self.tell(Severity::Warning, &object, &message);
    }

    fn tell(&self, severity: Severity, object: &str, message: &str) {
        self.events.record_of_hosts(severity, object, message);
    }
}

fn of(subsystem: &str) -> String {
    format!("subsystem/{subsystem}")
}
