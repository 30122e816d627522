//! What a target tells about itself: sessions, counters, events. Plain data that may travel.

use std::net::SocketAddr;
use std::time::Duration;

use access::Nqn;
use nvme::FatalErrorStatus;
use nvme::authentication::Failure;

use crate::latency::Latency;
use crate::reservation::HostId;

/// A controller and the host that uses it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionInfo {
    /// CNTLID.
    pub controller_id: u16,
    /// True for a discovery controller.
    pub discovery: bool,
    /// Who connected.
    pub host_nqn: Nqn,
    /// From where.
    pub host_address: SocketAddr,
    /// To what.
    pub subsystem_nqn: Nqn,
    /// PORTID of the port that it came through.
    pub port_id: u16,
    /// I/O queues that are connected.
    pub io_queues: u16,
    /// KATO; 0 is none.
    pub keep_alive_ms: u32,
    /// Since when.
    pub connected_for: Duration,
}

/// Counts of one core's target since it started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Connections open now.
    pub connections: u64,
    /// Connections ever accepted.
    pub connections_accepted: u64,
    /// Controllers that exist now.
    pub controllers: u64,
    /// Connections that ended because a host broke the protocol.
    pub protocol_errors: u64,
    /// Controllers that ended because a host kept silent.
    pub keep_alive_expirations: u64,
    /// Connections that were closed at once because no place was left for them.
    pub connections_refused: u64,
    /// Connections without a proof, or for discovery, that made room for others.
    pub connections_displaced: u64,
    /// Times that a host was refused, or its connection cut, for whatever reason.
    pub hosts_refused: u64,
    /// Per namespace.
    pub namespaces: Vec<NamespaceCounters>,
}

/// Counts of one namespace on one core.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamespaceCounters {
    /// Its subsystem.
    pub subsystem_nqn: Nqn,
    /// NSID.
    pub nsid: u32,
    /// Read commands.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Write commands.
    pub writes: u64,
    /// How long read commands took.
    pub read_latency: Latency,
    /// Bytes written.
    pub write_bytes: u64,
    /// How long write commands took.
    pub write_latency: Latency,
    /// Flush commands.
    pub flushes: u64,
    /// Dataset Management commands.
    pub deallocates: u64,
    /// Write Zeroes, Compare and Verify commands.
    pub others: u64,
    /// Commands that ended with an error.
    pub errors: u64,
    /// Commands that waited for their turn: limits, or others that go first.
    pub delayed: u64,
    /// How long together.
    pub delay: Duration,
}

/// Why a controller or connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// The host closed the connection.
    Host,
    /// The connection broke.
    Network,
    /// The host broke the protocol.
    Protocol,
    /// The host kept silent for longer than its keep alive timeout, or than it may before Connect.
    Silence,
    /// The controller was reset or its host was shut out, so its connections go.
    Controller,
    /// The target is shutting down.
    Shutdown,
    /// The host did not prove who it is.
    Authentication,
    /// The host's Connect was refused again and again.
    Refused,
    /// It had proved nothing, or was there for discovery, and its place was wanted.
    Displaced,
}

/// Why a host was refused, or its connection cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusalReason {
    /// It is not among the hosts that are allowed.
    NotAllowed,
    /// It did not prove who it is.
    NotAuthenticated(Failure),
    /// It has a key for TLS and came without.
    TlsRequired,
    /// It, or somebody in its name, has another key for TLS.
    TlsFailed,
    /// There is no secure channel where its port wants one.
    NoSecureChannel,
    /// Its Connect is none, or not as the specification wants it.
    Malformed(Fault),
    /// It gave no name, and what it asked for is not for any host.
    NoName,
    /// No subsystem of that name is served at that port.
    NoSubsystem,
    /// The controller that its I/O queue is for is gone, or not its own. A host comes to that whose
    /// controller was lost while it connected.
    NoController,
    /// Another host is connected to the subsystem with its host identifier.
    IdentifierTaken,
    /// The target is shutting down.
    Stopping,
    /// Every controller identifier is in use.
    TooManyControllers,
    /// As many connections are open as may be, in all or from its address.
    TooManyConnections,
    /// It wants to authenticate, and too many wait for that.
    TooManyProofs,
    /// The core that has its controller did not answer in time.
    Late,
    /// It has a secret and did not prove it in time.
    ProofLate,
    /// It broke the protocol.
    Protocol(FatalErrorStatus),
    /// It has more commands outstanding than its queue has entries.
    TooManyCommands,
    /// It was served, and a connection of its I/O queues is lost.
    Lost(Loss),
}

/// How a host lost the connection of an I/O queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// The host or the network reset it, or nothing came through any more.
    Broken,
    /// The host closed it while commands were under way, as it does when these take it too long.
    MidCommand,
}

/// What is wrong with a Connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Another command comes in its place.
    Missing,
    /// The queue is connected already.
    Repeated,
    /// Its data does not come with it, or is shorter than the specification has it.
    Data,
    /// RECFMT.
    Format,
    /// SQSIZE.
    QueueSize,
    /// QID.
    QueueId,
    /// CNTLID.
    ControllerId,
    /// SUBNQN is no name.
    SubsystemName,
    /// HOSTNQN is no name.
    HostName,
}

/// Something an operator may want to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TargetEvent {
    /// A host has a new controller.
    HostConnected {
        /// The host.
        host_nqn: Nqn,
        /// HOSTID.
        host_id: HostId,
        /// From where.
        host_address: SocketAddr,
        /// To what.
        subsystem_nqn: Nqn,
        /// The controller.
        controller_id: u16,
    },
    /// A controller is gone.
    HostDisconnected {
        /// The host.
        host_nqn: Nqn,
        /// From what.
        subsystem_nqn: Nqn,
        /// The controller.
        controller_id: u16,
        /// Why.
        reason: CloseReason,
    },
    /// A host was refused, or its connection cut.
    HostRefused {
        /// The host, if it said who it is.
        host_nqn: Option<Nqn>,
        /// From where.
        host_address: SocketAddr,
        /// From what, if it said that.
        subsystem_nqn: Option<Nqn>,
        /// Why.
        reason: RefusalReason,
        /// How often since that address was last told of for that reason; the names are those of
        /// the last time.
        times: u64,
    },
    /// A host has had a namespace protected, or had that lifted.
    ProtectionChanged {
        /// The host.
        host_nqn: Nqn,
        /// The subsystem.
        subsystem_nqn: Nqn,
        /// The namespace.
        nsid: u32,
        /// Nobody writes to it any more; otherwise everybody may.
        protected: bool,
    },
    /// A device failed a command.
    DeviceFailed {
        /// The subsystem.
        subsystem_nqn: Nqn,
        /// The namespace.
        nsid: u32,
        /// Errors of this subsystem so far.
        errors: u64,
    },
}
