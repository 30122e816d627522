//! Secrets that a host proves, and keys that it encrypts with, from files.

use std::fmt::Display;
use std::str::FromStr;

use access::Secret;
use api::{KeyGroup, KeyHash, SecretText};
use clap::Args;
use initiator::{ConnectOptions, Credentials, TlsKey};
use serde::{Deserialize, Serialize};

use crate::secret::read_secret;

/// Secrets of a host, checked when they are read; given to another process as they are.
#[derive(Args, Clone, Debug, Default, Serialize, Deserialize)]
pub struct HostSecrets {
    /// Prove the secret in this file, of the form DHHC-1:TT:BASE64:, to a node that asks; - is
    /// standard input
    #[arg(long, value_name = "FILE", value_parser = read::<Secret>)]
    dhchap_secret_file: Option<SecretText>,
    /// Have the node prove the secret in this file
    #[arg(long, value_name = "FILE", value_parser = read::<Secret>,
        requires = "dhchap_secret_file")]
    controller_secret_file: Option<SecretText>,
    /// Of the groups, the weakest that the node may demand: null (none), ffdhe2048, ffdhe3072,
    /// ffdhe4096, ffdhe6144 or ffdhe8192; ffdhe2048 unless given
    #[arg(long, value_name = "GROUP", requires = "dhchap_secret_file")]
    #[serde(default)]
    dhchap_group_min: Option<KeyGroup>,
    /// Of the hashes, the weakest that the node may demand: sha256, sha384 or sha512; sha256 unless
    /// given
    #[arg(long, value_name = "HASH", requires = "dhchap_secret_file")]
    #[serde(default)]
    dhchap_hash_min: Option<KeyHash>,
    /// Connect under TLS, with the key in this file, of the form NVMeTLSkey-1:HH:BASE64:
    #[arg(long, value_name = "FILE", value_parser = read::<TlsKey>, alias = "tls-key")]
    tls_key_file: Option<SecretText>,
}

/// The weakest group unless another is given: one that keeps the secret from who listens.
const GROUP_MIN: KeyGroup = KeyGroup::Ffdhe2048;

/// Reads what must be a `T`.
fn read<T: FromStr<Err: Display>>(path: &str) -> Result<SecretText, String> {
    let text = read_secret(path)?;
    match text.reveal().parse::<T>() {
        Ok(_) => Ok(text),
        Err(error) => Err(error.to_string()),
    }
}

impl HostSecrets {
    /// Whether connections are to be under TLS.
    pub fn has_tls_key(&self) -> bool {
        self.tls_key_file.is_some()
    }

    /// Whether somebody said what the node may demand at least.
    pub fn has_minimum(&self) -> bool {
        self.dhchap_group_min.is_some() || self.dhchap_hash_min.is_some()
    }

    /// The secret that the host proves, and the one that the controller has to prove.
    pub fn dhchap(&self) -> (Option<&str>, Option<&str>) {
        let (host, controller) = (&self.dhchap_secret_file, &self.controller_secret_file);
        (
            host.as_ref().map(SecretText::reveal),
            controller.as_ref().map(SecretText::reveal),
        )
    }

    /// Has connections made with `options` use them.
    pub fn apply(&self, options: &mut ConnectOptions) -> Result<(), String> {
        let (host, controller) = self.dhchap();
        if let Some(host) = host {
            let controller = controller.map(parsed).transpose()?;
            let credentials = Credentials::new(parsed(host)?, controller);
            let hash = self.dhchap_hash_min.unwrap_or_default();
            let group = self.dhchap_group_min.unwrap_or(GROUP_MIN);
            let (hash, group) = (parsed(&hash.to_string())?, parsed(&group.to_string())?);
            options.credentials = Some(credentials.at_least(hash, group));
        }
        let key = self.tls_key_file.as_ref().map(SecretText::reveal);
        options.tls_key = key.map(parsed).transpose()?;
        Ok(())
    }
}

fn parsed<T: FromStr<Err: Display>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|error: T::Err| error.to_string())
}
