//! Host keys: what hosts prove before they are served (DH-HMAC-CHAP).

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{Name, SecretText};

/// Defines words that stand for themselves on the command line and in JSON.
macro_rules! words {
    (
        $(#[$meta:meta])*
        pub enum $name:ident { $($(#[$item_meta:meta])* $item:ident = $word:literal,)+ }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
        #[serde(rename_all = "lowercase")]
        pub enum $name { $($(#[$item_meta])* $item,)+ }

        impl fmt::Display for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str(match self { $($name::$item => $word,)+ })
            }
        }

        impl FromStr for $name {
            type Err = String;

            fn from_str(text: &str) -> Result<$name, String> {
                match text {
                    $($word => Ok($name::$item),)+
                    _ => {
                        let allowed = [$($word),+].join(", ");
                        Err(format!("{text:?} is not allowed; allowed: {allowed}"))
                    }
                }
            }
        }
    };
}

words! {
    /// The hash that host and node use, and no other.
    pub enum KeyHash {
        /// SHA-256.
        #[default]
        Sha256 = "sha256",
        /// SHA-384.
        Sha384 = "sha384",
        /// SHA-512.
        Sha512 = "sha512",
    }
}

words! {
    /// The Diffie-Hellman group that host and node use, and no other.
    pub enum KeyGroup {
        /// No Diffie-Hellman exchange.
        Null = "null",
        /// 2048 bits.
        Ffdhe2048 = "ffdhe2048",
        /// 3072 bits.
        #[default]
        Ffdhe3072 = "ffdhe3072",
        /// 4096 bits.
        Ffdhe4096 = "ffdhe4096",
        /// 6144 bits.
        Ffdhe6144 = "ffdhe6144",
        /// 8192 bits.
        Ffdhe8192 = "ffdhe8192",
    }
}

words! {
    /// The hash of a TLS key, and with it the cipher suite.
    pub enum TlsHash {
        /// SHA-256, with AES-128.
        #[default]
        Sha256 = "sha256",
        /// SHA-384, with AES-256.
        Sha384 = "sha384",
    }
}

/// A TLS key to set; the body of `PUT /v1/hosts/{name}/tls-key`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TlsKeySpec {
    /// The key as `nvme gen-tls-key` prints it: `NVMeTLSkey-1:HH:BASE64:`.
    pub key: SecretText,
}

/// A TLS key to make; the body of `POST /v1/hosts/{name}/tls-key`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TlsKeyRequest {
    /// The hash to use.
    #[serde(default)]
    pub hash: TlsHash,
}

/// A TLS key that was just made: it is never shown again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NewTlsKey {
    /// The host.
    pub host: Name,
    /// The key, for `nvme gen-tls-key` and `nvme connect --tls` on the host.
    pub key: SecretText,
}

/// A key to set; the body of `PUT /v1/hosts/{name}/key`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct HostKeySpec {
    /// What the host proves to know.
    pub secret: SecretText,
    /// What the node proves to know to a host that asks; another one than the host's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub controller_secret: Option<SecretText>,
    /// The hash to use.
    #[serde(default)]
    pub hash: KeyHash,
    /// The group to use.
    #[serde(default)]
    pub group: KeyGroup,
}

/// A key to make; the body of `POST /v1/hosts/{name}/key`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct HostKeyRequest {
    /// The node is to have a secret to prove as well.
    #[serde(default)]
    pub mutual: bool,
    /// The hash to use.
    #[serde(default)]
    pub hash: KeyHash,
    /// The group to use.
    #[serde(default)]
    pub group: KeyGroup,
}

/// A host's key as the node shows it: without the secrets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HostKey {
    /// The hash in use.
    pub hash: KeyHash,
    /// The group in use.
    pub group: KeyGroup,
    /// The node has a secret to prove as well.
    pub mutual: bool,
}

/// A key that was just made, with its secrets: they are never shown again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NewHostKey {
    /// The host.
    pub host: Name,
    /// `--dhchap-secret` of `nvme connect`.
    pub secret: SecretText,
    /// `--dhchap-ctrl-secret` of `nvme connect`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub controller_secret: Option<SecretText>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_not_shown_by_accident() {
        let spec = HostKeySpec {
            secret: "DHHC-1:00:secret:".into(),
            controller_secret: Some("DHHC-1:00:secret:".into()),
            hash: KeyHash::Sha384,
            group: KeyGroup::Ffdhe8192,
        };
        assert!(!format!("{spec:?}").contains("DHHC"), "{spec:?}");
        let text = serde_json::to_string(&spec).unwrap();
        assert_eq!(serde_json::from_str::<HostKeySpec>(&text).unwrap(), spec);
        assert!(text.contains(r#""group":"ffdhe8192""#), "{text}");
        let sparse = r#"{"secret":"x"}"#;
        let sparse: HostKeySpec = serde_json::from_str(sparse).unwrap();
        assert_eq!(sparse.group.to_string().parse(), Ok(KeyGroup::Ffdhe3072));
        assert!(
            "ffdhe1024"
                .parse::<KeyGroup>()
                .unwrap_err()
                .contains("ffdhe2048")
        );
    }
}
