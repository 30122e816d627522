//! Hosts: what a core tells of their coming and going.

use nvme::FatalErrorStatus;
use nvme::authentication::Failure;
use nvme_target::{CloseReason, Fault, Loss, RefusalReason, Target, TargetEvent};

use crate::spec::{EventSink, NodeEvent};
use crate::volume::Volume;

/// Passes on what the target tells about hosts; failures of devices are told by the drives.
pub async fn tell(target: Target<Volume>, sink: EventSink) {
    loop {
        for event in target.next_events().await {
            if let Some(event) = told(event) {
                sink(event);
            }
        }
    }
}

fn told(event: TargetEvent) -> Option<NodeEvent> {
    Some(match event {
        TargetEvent::HostConnected {
            host_nqn,
            host_id,
            host_address,
            subsystem_nqn,
            ..
        } => NodeEvent::HostConnected {
            host: host_nqn.to_string(),
            host_id,
            address: host_address,
            subsystem: subsystem_nqn.to_string(),
        },
        TargetEvent::HostDisconnected {
            host_nqn,
            subsystem_nqn,
            reason,
            ..
        } => NodeEvent::HostDisconnected {
            host: host_nqn.to_string(),
            subsystem: subsystem_nqn.to_string(),
            reason: reason_in_words(reason),
        },
        TargetEvent::HostRefused {
            host_nqn,
            host_address,
            subsystem_nqn,
            reason,
            times,
        } => NodeEvent::HostRefused {
            host: host_nqn.map(|nqn| nqn.to_string()),
            address: host_address,
            subsystem: subsystem_nqn.map(|nqn| nqn.to_string()),
            served: matches!(reason, RefusalReason::Lost(_)),
            reason: refusal_in_words(reason),
            times,
        },
        TargetEvent::ProtectionChanged {
            host_nqn,
            subsystem_nqn,
            nsid,
            protected,
        } => NodeEvent::ProtectionChanged {
            host: host_nqn.to_string(),
            subsystem: subsystem_nqn.to_string(),
            nsid,
            protected,
        },
        TargetEvent::DeviceFailed { .. } => return None,
    })
}

fn reason_in_words(reason: CloseReason) -> &'static str {
    match reason {
        CloseReason::Host => "the host closed the connection",
        CloseReason::Network => "the connection broke",
        CloseReason::Protocol => "the host broke the protocol",
        CloseReason::Silence => "the host kept silent for too long",
        CloseReason::Controller => "the controller was reset or the host shut out",
        CloseReason::Shutdown => "the node is stopping",
        CloseReason::Authentication => "the host did not prove who it is",
        CloseReason::Refused => "the host was refused again and again",
        CloseReason::Displaced => "another connection has its place",
    }
}

fn refusal_in_words(reason: RefusalReason) -> &'static str {
    match reason {
        RefusalReason::NotAllowed => "it is not allowed",
        RefusalReason::TlsRequired => "it has a TLS key and came without TLS",
        RefusalReason::TlsFailed => "it has another TLS key, or somebody used its name",
        RefusalReason::NoSecureChannel => "it has no TLS key that is known here",
        RefusalReason::NotAuthenticated(failure) => failure_in_words(failure),
        RefusalReason::Malformed(fault) => fault_in_words(fault),
        RefusalReason::NoName => "it gave no host NQN, and not every host is allowed there",
        RefusalReason::NoSubsystem => "no such volume is served here",
        RefusalReason::NoController => "the controller of its queue is gone; it may come again",
        RefusalReason::IdentifierTaken => "another host is connected with its host identifier",
        RefusalReason::Stopping => "the node is stopping",
        RefusalReason::TooManyControllers => "every controller identifier is in use",
        RefusalReason::TooManyConnections => "too many connections are open, in all or from there",
        RefusalReason::TooManyProofs => "too many hosts wait to authenticate",
        RefusalReason::ProofLate => "it has a secret and did not prove it in time",
        RefusalReason::Late => "another core of the node did not answer in time",
        RefusalReason::TooManyCommands => "it sent more commands than its queue takes",
        RefusalReason::Protocol(error) => offence_in_words(error),
        RefusalReason::Lost(Loss::Broken) => "the connection broke",
        RefusalReason::Lost(Loss::MidCommand) => "it closed the connection in mid-command",
    }
}

fn fault_in_words(fault: Fault) -> &'static str {
    match fault {
        Fault::Missing => "it sent another command before Connect",
        Fault::Repeated => "it sent Connect on a queue that is connected",
        Fault::Data => "its Connect comes without its data, or with less than 1024 bytes in place",
        Fault::Format => "its Connect has a record format other than 0",
        Fault::QueueSize => "its Connect has a queue size that is not allowed",
        Fault::QueueId => "its Connect has a queue number that is too large",
        Fault::ControllerId => "its Connect asks for a controller by number, not for a new one",
        Fault::SubsystemName => "its Connect has a subsystem NQN that is none",
        Fault::HostName => "its Connect has a host NQN that is none (nqn.YYYY-MM.example...)",
    }
}

fn offence_in_words(error: FatalErrorStatus) -> &'static str {
    match error {
        FatalErrorStatus::INVALID_HEADER_FIELD => "it sent a header that is not allowed",
        FatalErrorStatus::SEQUENCE_ERROR => "it sent something that may not come at that point",
        FatalErrorStatus::HEADER_DIGEST_ERROR => "the digest of a header was wrong",
        FatalErrorStatus::DATA_OUT_OF_RANGE => "it sent data that nobody asked for",
        FatalErrorStatus::LIMIT_EXCEEDED => "it sent more data than was allowed",
        FatalErrorStatus::UNSUPPORTED_PARAMETER => "it wants something that is not supported",
        _ => "it broke the protocol",
    }
}

fn failure_in_words(failure: Failure) -> &'static str {
    match failure {
        Failure::FAILED => "it did not prove its secret, or does not believe the node's",
        Failure::PROTOCOL_UNUSABLE => "it offers another protocol than DH-HMAC-CHAP",
        Failure::SECURE_CHANNEL_MISMATCH => "it wants a secure channel",
        Failure::HASH_UNUSABLE => "host and node do not agree on a hash",
        Failure::GROUP_UNUSABLE => "host and node do not agree on a Diffie-Hellman group",
        Failure::INCORRECT_PAYLOAD => "its authentication messages are malformed",
        _ => "its authentication messages are out of order",
    }
}
