//! [`SecretText`]: the one type of secrets that clients and nodes hold.

use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use zeroize::Zeroize;

/// The secret of a token, a secret as `nvme gen-dhchap-key` prints it, `DHHC-1:TT:BASE64:`, or a
/// key as `nvme gen-tls-key` does. Never shown by accident, and wiped from memory when dropped.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(transparent)]
#[schema(value_type = String, format = "password")]
pub struct SecretText(String);

impl SecretText {
    /// The secret itself.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

/// Takes the text over: no copy of it is left.
impl From<String> for SecretText {
    fn from(text: String) -> SecretText {
        SecretText(text)
    }
}

impl From<&str> for SecretText {
    fn from(text: &str) -> SecretText {
        SecretText(text.to_owned())
    }
}

impl fmt::Debug for SecretText {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("SecretText(..)")
    }
}

impl Drop for SecretText {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}
