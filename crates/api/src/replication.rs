//! Replications: copies of volumes that a node keeps up to date on other nodes.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::volume::is_false;
use crate::{ErrorBody, LIMIT_BYTES_PER_SECOND_MIN, LIMIT_MAX, Name, SecretText};

/// The longest time from one copy to the next: a week.
pub const REPLICATION_SECONDS_MAX: u32 = 7 * 24 * 60 * 60;

/// An address of a node is no longer.
const ADDRESS_BYTES_MAX: usize = 512;

/// Digits of a certificate's fingerprint.
const FINGERPRINT_DIGITS: usize = 64;

/// Where a volume is copied to, and how often; the body of `PUT /v1/replications/{name}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReplicationSpec {
    /// A volume of a pool.
    pub volume: Name,
    /// Address of the REST API of the node that has the replica.
    #[schema(examples("https://node-2:4400"))]
    pub to: String,
    /// A token of that node, for the role operator; where one is kept already, that may stay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<SecretText>,
    /// SHA-256 of that node's certificate in hexadecimal, for `https`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate: Option<String>,
    /// The pool of that node that holds the replica.
    pub pool: Name,
    /// What the replica is called; else as the volume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replica: Option<Name>,
    /// Seconds from the begin of one copy to that of the next.
    #[schema(minimum = 1, maximum = 604800)]
    pub every_seconds: u32,
    /// Bytes a second that a copy reads at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1048576, maximum = 9007199254740991u64)]
    pub bandwidth: Option<u64>,
    /// Send data in the clear where that node has no NVMe/TCP address under TLS. Over `http`, which
    /// stays within a machine, that is so anyhow.
    #[serde(default, skip_serializing_if = "is_false")]
    pub in_the_clear: bool,
}

impl ReplicationSpec {
    /// Refuses what no replication can be.
    ///
    /// # Errors
    /// The field is named.
    pub fn check(&self) -> Result<(), ErrorBody> {
        let scheme = ["http://", "https://"]
            .into_iter()
            .find(|scheme| self.to.starts_with(scheme));
        let graphic = self.to.bytes().all(|byte| byte.is_ascii_graphic());
        let bytes = self.to.len();
        if scheme.is_none_or(|scheme| scheme.len() == bytes)
            || bytes > ADDRESS_BYTES_MAX
            || !graphic
        {
            let message = format!(
                "an address of {bytes} bytes; allowed: https://HOST:PORT, or http://HOST:PORT \
                 within this machine, of {ADDRESS_BYTES_MAX} bytes at most"
            );
            return Err(ErrorBody::invalid("to", message));
        }
        let is_secure = scheme == Some("https://");
        let digits = |text: &String| {
            text.len() == FINGERPRINT_DIGITS && text.bytes().all(|byte| byte.is_ascii_hexdigit())
        };
        if self.certificate.is_some() != is_secure || !self.certificate.iter().all(digits) {
            let message = "allowed: for https the SHA-256 of the node's certificate, 64 \
                           hexadecimal digits, and for http none";
            return Err(ErrorBody::invalid("certificate", message));
        }
        let seconds = self.every_seconds;
        if !(1..=REPLICATION_SECONDS_MAX).contains(&seconds) {
            let message = format!("{seconds}; allowed: 1 to {REPLICATION_SECONDS_MAX}");
            return Err(ErrorBody::invalid("every_seconds", message));
        }
        let allowed = LIMIT_BYTES_PER_SECOND_MIN..=LIMIT_MAX;
        if let Some(bytes) = self.bandwidth.filter(|bytes| !allowed.contains(bytes)) {
            let message = format!("{bytes}; allowed: {LIMIT_BYTES_PER_SECOND_MIN} to {LIMIT_MAX}");
            return Err(ErrorBody::invalid("bandwidth", message));
        }
        Ok(())
    }
}

/// A replication, and how it stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Replication {
    /// Its name.
    pub name: Name,
    /// The volume.
    pub volume: Name,
    /// Address of the REST API of the node that has the replica.
    pub to: String,
    /// SHA-256 of that node's certificate in hexadecimal, for `https`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate: Option<String>,
    /// The pool of that node that holds the replica.
    pub pool: Name,
    /// What the replica is called; else as the volume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replica: Option<Name>,
    /// Seconds from the begin of one copy to that of the next.
    pub every_seconds: u32,
    /// Bytes a second that a copy reads at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bandwidth: Option<u64>,
    /// Data may be sent in the clear.
    #[serde(default, skip_serializing_if = "is_false")]
    pub in_the_clear: bool,
    /// How far it is.
    pub standing: ReplicationStanding,
}

/// How far a replication is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReplicationStanding {
    /// What the volume was at this time, in UTC (RFC 3339), the replica is; nothing before the
    /// first copy is complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime)]
    pub copied: Option<String>,
    /// The age of that in seconds: what would be lost with this node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lag_seconds: Option<u64>,
    /// The job that copies now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<u64>,
    /// Why the last copy failed. It is tried again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(to: &str, certificate: Option<&str>, every_seconds: u32) -> ReplicationSpec {
        ReplicationSpec {
            volume: "data".parse().unwrap(),
            to: to.to_owned(),
            token: None,
            certificate: certificate.map(str::to_owned),
            pool: "p".parse().unwrap(),
            replica: None,
            every_seconds,
            bandwidth: None,
            in_the_clear: false,
        }
    }

    fn at_most(bandwidth: u64) -> ReplicationSpec {
        ReplicationSpec {
            bandwidth: Some(bandwidth),
            ..spec("http://127.0.0.1:4400", None, 1)
        }
    }

    #[test]
    fn an_address_its_certificate_and_the_time_are_checked() {
        let digits = "a".repeat(64);
        let digits = Some(digits.as_str());
        for good in [
            spec("http://127.0.0.1:4400", None, 1),
            spec("https://node-2:4400", digits, REPLICATION_SECONDS_MAX),
            at_most(LIMIT_BYTES_PER_SECOND_MIN),
        ] {
            assert_eq!(good.check(), Ok(()), "{good:?}");
        }
        for (bad, field) in [
            (spec("", None, 1), "to"),
            (spec("https://", digits, 1), "to"),
            (spec("node-2:4400", None, 1), "to"),
            (spec("http://a b", None, 1), "to"),
            (spec(&format!("http://{}", "x".repeat(600)), None, 1), "to"),
            (spec("https://node-2:4400", None, 1), "certificate"),
            (spec("https://node-2:4400", Some("ab"), 1), "certificate"),
            (spec("http://127.0.0.1:4400", digits, 1), "certificate"),
            (spec("http://127.0.0.1:4400", None, 0), "every_seconds"),
            (
                spec("http://127.0.0.1:4400", None, REPLICATION_SECONDS_MAX + 1),
                "every_seconds",
            ),
            (at_most(LIMIT_BYTES_PER_SECOND_MIN - 1), "bandwidth"),
            (at_most(LIMIT_MAX + 1), "bandwidth"),
        ] {
            let refusal = bad.check().unwrap_err();
            assert_eq!(refusal.field.as_deref(), Some(field), "{bad:?}");
        }
    }
}
