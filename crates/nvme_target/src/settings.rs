//! What a target, its ports, subsystems and namespaces are made of.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use access::{AllowedHosts, Nqn, Shares};
use nvme::SubmissionEntry;

use crate::paths::AnaGroupId;
use crate::transport::ConnectionSettings;

/// Connections that may be open at once on a core, unless said otherwise.
pub const CONNECTIONS_MAX: usize = 4096;

/// Limits and timeouts of a target, the same on every core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TargetSettings {
    /// What connections offer and allow.
    pub connection: ConnectionSettings,
    /// Entries that a submission queue may have (MQES), 2 to 4096.
    pub queue_entries_max: u16,
    /// I/O queues that a controller may have, at least 1.
    pub io_queues_max: u16,
    /// Connections that may be open at once on this core. One more is closed at once, or has the
    /// place of one that has proved nothing. A quarter may have proved nothing or only discover,
    /// and a quarter of these may be of one address, as may three quarters of all.
    pub connections_max: usize,
    /// Data of reads that a connection may have in execution or waiting to be sent; one command
    /// more is let through, so that any size makes progress.
    pub read_bytes_max: usize,
    /// Data of all connections of this core that may be awaited, in execution or not sent yet.
    /// Beyond it each goes on with one command at a time.
    pub data_bytes_max: usize,
    /// Turns of the event loop that answers may wait for those of other commands of the connection,
    /// to be sent with them. Where other cores carry commands out, what came from a host at once
    /// would otherwise be answered in pieces, and come again in pieces. Turns are short where there
    /// is little to do.
    pub answers_wait_turns: u32,
    /// How long a connection may take to send ICReq, and then Connect.
    pub connect_timeout: Duration,
    /// How long a host that has to authenticate may take for it, on each connection.
    pub authentication_timeout: Duration,
    /// How long a host may leave what it was sent unacknowledged, or probes of an idle connection
    /// unanswered, before TCP gives it up.
    pub network_timeout: Duration,
    /// How long a discovery controller without keep alive may stay idle.
    pub discovery_idle_timeout: Duration,
}

impl Default for TargetSettings {
    fn default() -> TargetSettings {
        TargetSettings {
            connection: ConnectionSettings::default(),
            queue_entries_max: 1024,
            io_queues_max: 128,
            connections_max: CONNECTIONS_MAX,
            read_bytes_max: 16 << 20,
            data_bytes_max: 1 << 30,
            answers_wait_turns: 0,
            connect_timeout: Duration::from_secs(10),
            authentication_timeout: Duration::from_secs(60),
            network_timeout: Duration::from_secs(60),
            discovery_idle_timeout: Duration::from_secs(120),
        }
    }
}

impl TargetSettings {
    /// Bytes that a node receives for each entry of a queue over RDMA: a whole capsule.
    pub(crate) fn rdma_receive_bytes(&self) -> u32 {
        size_of::<SubmissionEntry>() as u32 + self.connection.in_capsule_bytes_max
    }

    /// Bytes of memory that a host's queue of so many entries locks over RDMA, beside those of
    /// transfers.
    pub fn rdma_queue_bytes(&self, entries: u32) -> u64 {
        u64::from(entries) * u64::from(self.rdma_receive_bytes())
    }

    /// How connections share the places. One address may not take all, be it that of a router; and
    /// most are for hosts of subsystems, whatever comes of discovery and of strangers.
    pub(crate) fn shares(&self) -> Shares {
        let all = self.connections_max;
        Shares {
            all,
            of_address: (all / 4 * 3).max(1),
            unproven: (all / 4).max(1),
            unproven_of_address: (all / 16).max(1),
        }
    }
}

/// How hosts come to a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transport {
    /// NVMe/TCP.
    #[default]
    Tcp,
    /// NVMe/RDMA: an address of an RDMA device.
    Rdma,
}

/// A port: an address that hosts connect to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortSettings {
    /// PORTID in the discovery log; unique in the target.
    pub id: u16,
    /// Where to listen; port 0 picks one.
    pub listen: SocketAddr,
    /// What discovery tells hosts to connect to, where that differs from `listen` (address
    /// translation, floating addresses).
    pub advertise: Option<SocketAddr>,
    /// Share the address with the other cores' targets.
    pub reuse_port: bool,
    /// Hosts connect under TLS, with a key of theirs, or not at all.
    pub tls: bool,
    /// How hosts come.
    pub transport: Transport,
}

/// Which ports a subsystem is served on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PortSet {
    /// Every port.
    All,
    /// These ports.
    List(Vec<u16>),
}

impl PortSet {
    /// True when the port with this identifier is one of them.
    pub fn contains(&self, id: u16) -> bool {
        match self {
            PortSet::All => true,
            PortSet::List(ids) => ids.contains(&id),
        }
    }
}

/// A subsystem: what a host connects to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubsystemSettings {
    /// Its name.
    pub nqn: Nqn,
    /// Serial number, at most 20 ASCII characters.
    pub serial: String,
    /// Model, at most 40 ASCII characters.
    pub model: String,
    /// Hosts that may connect and see every namespace. Others may see those that
    /// [`Target::set_namespace_hosts`](crate::Target::set_namespace_hosts) shows them.
    pub allowed: AllowedHosts,
    /// Ports it is served on.
    pub ports: PortSet,
    /// The tenant it belongs to; `None`: it is the node's own.
    pub tenant: Option<Arc<str>>,
}

/// A namespace's identity; all cores use the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamespaceSettings {
    /// NSID, 1 to [`NAMESPACE_ID_MAX`].
    pub nsid: u32,
    /// NGUID.
    pub nguid: [u8; 16],
    /// UUID.
    pub uuid: [u8; 16],
    /// EUI64, where there is one.
    pub eui64: Option<[u8; 8]>,
    /// Its ANA group, for as long as it is there.
    pub group: AnaGroupId,
}

/// The largest NSID (NN in Identify Controller).
pub const NAMESPACE_ID_MAX: u32 = 8192;
