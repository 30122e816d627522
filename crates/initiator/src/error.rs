//! [`Error`]: what a caller may have to act on.

use std::io;
use std::net::SocketAddr;

use nvme::fabrics::{InvalidParameter, connect_offset};
use nvme::{FatalError, Status};
use tls::TlsError;

use crate::Refusal;

/// Why a connection, and everything in flight on it, came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LossReason {
    /// The controller closed the connection.
    #[error("the controller closed the connection")]
    Closed,
    /// The network failed.
    #[error("the network failed: {0}")]
    Network(io::ErrorKind),
    /// The controller broke the protocol; it was told so.
    #[error("the controller broke the protocol: {0}")]
    Protocol(FatalError),
    /// The controller says that this host broke the protocol.
    #[error("the controller terminated the connection: {0}")]
    Terminated(FatalError),
    /// The controller is there, but the namespace is accessible by other paths alone.
    #[error("the namespace is not accessible by this path")]
    Inaccessible,
    /// No answer to a keep alive, or to a command that must be answered, in time.
    #[error("the controller did not answer in time")]
    Silent,
    /// The controller refuses this host, and asking again would not help.
    #[error("the controller refuses this host: {0:?}")]
    Refused(Status),
    /// Host and controller did not prove to each other what they should.
    #[error("host and controller did not prove who they are")]
    Unproved,
    /// The process may not lock the memory that a command's data needs: the same command would meet
    /// that again.
    #[error(
        "{needed_bytes} bytes of memory cannot be locked for RDMA; allowed are {allowed_bytes} \
         (ulimit -l, LimitMEMLOCK)"
    )]
    MemoryLock {
        /// Bytes that the command needs.
        needed_bytes: usize,
        /// Bytes that the process may lock.
        allowed_bytes: u64,
    },
    /// This end disconnected.
    #[error("disconnected")]
    Disconnected,
}

impl LossReason {
    /// True where a new connection would end for the same reason.
    pub(crate) fn lasts(self) -> bool {
        matches!(self, LossReason::MemoryLock { .. })
    }
}

/// Everything that can go wrong between a caller and a controller.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No connection to the address.
    #[error("cannot connect to {address}: {source}")]
    Unreachable {
        /// Where to.
        address: SocketAddr,
        /// What the network says.
        source: io::Error,
    },
    /// Host and controller did not agree on a secure channel.
    #[error("no TLS with {address}: {source}")]
    Tls {
        /// Where to.
        address: SocketAddr,
        /// Why not.
        source: TlsError,
    },
    /// The controller refused the Connect command.
    #[error(
        "connect of queue {queue_id} refused: {}{}",
        status_text(*.status),
        parameter_text(*.result)
    )]
    Refused {
        /// The queue that was to be connected; 0 is the admin queue.
        queue_id: u16,
        /// Its status.
        status: Status,
        /// For invalid parameters: which one, as [`nvme::fabrics::InvalidParameter`] reads it.
        result: u32,
    },
    /// Host and controller did not prove to each other what they should.
    #[error("authentication of queue {queue_id} failed: {refusal}")]
    Authentication {
        /// The queue.
        queue_id: u16,
        /// Who refused whom, and why.
        refusal: Refusal,
    },
    /// The controller asks for a proof, and there is nothing to prove with.
    #[error("the controller wants this host to authenticate, and no secret is given")]
    SecretRequired,
    /// The controller is to prove itself and does not ask to be authenticated to.
    #[error("the controller does not authenticate, and a secret to prove is given for it")]
    ControllerUnproved,
    /// The connection is gone; whether the command took effect is unknown.
    #[error("connection lost: {0}")]
    ConnectionLost(#[from] LossReason),
    /// The command failed.
    #[error("command failed: {0:?}")]
    Command(Status),
    /// The controller did not become ready, or said that it failed.
    #[error("the controller is not ready (status {0:#x})")]
    NotReady(u32),
    /// The controller's answers contradict the specification.
    #[error("the controller's {0} makes no sense")]
    Nonsense(&'static str),
    /// No such namespace, or one that cannot be used here.
    #[error("namespace {0} is not there, or its format is not supported")]
    Namespace(u32),
    /// An option cannot be used.
    #[error("{option}: {found} is not allowed; {allowed}")]
    Option {
        /// Its name.
        option: &'static str,
        /// What was given.
        found: String,
        /// What is allowed.
        allowed: &'static str,
    },
}

impl Error {
    /// Why another attempt to connect would fail as well, if that is certain. What may pass is not,
    /// whatever the controller says of it: an I/O queue whose controller was just lost, a
    /// controller that is busy, a subsystem that is not served yet (versions before this one said
    /// Do Not Retry of these while they started).
    pub(crate) fn lasts(&self) -> Option<LossReason> {
        match self {
            Error::Refused {
                queue_id: 0,
                status,
                result,
            } if status.is_do_not_retry() && !may_pass(*status, *result) => {
                Some(LossReason::Refused(status.code()))
            }
            Error::Authentication { .. } | Error::SecretRequired | Error::ControllerUnproved => {
                Some(LossReason::Unproved)
            }
            _ => None,
        }
    }
}

fn may_pass(status: Status, result: u32) -> bool {
    let subsystem = InvalidParameter {
        offset: connect_offset::SUBSYSTEM_NQN,
        in_data: true,
    };
    match status.code() {
        Status::CONNECT_CONTROLLER_BUSY => true,
        Status::CONNECT_INVALID_PARAMETERS => InvalidParameter::from_result(result) == subsystem,
        _ => false,
    }
}

fn status_text(status: Status) -> String {
    let for_good = if status.is_do_not_retry() {
        " (do not retry)"
    } else {
        ""
    };
    format!("{:?}{for_good}", status.code())
}

fn parameter_text(result: u32) -> String {
    if result == 0 {
        return String::new();
    }
    let parameter = InvalidParameter::from_result(result);
    let place = if parameter.in_data { "data" } else { "command" };
    format!(", parameter at byte {} of the {place}", parameter.offset)
}
