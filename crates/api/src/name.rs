//! [`Name`]: what people call drives, volumes and hosts.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;
use utoipa::ToSchema;

/// Stands for every host in a volume's list of allowed hosts; no host can have this name.
pub const ANY_HOST: &str = "any";

/// The longest name; it has to fit, with the node's name, in an NVMe Qualified Name of 223 bytes.
const NAME_CHARS_MAX: usize = 63;

/// The name of a drive, volume, host, subsystem or node: 1 to 63 of `a-z`, `0-9`, `-`, `_` and
/// `.`, the first a letter or digit. Names are case-sensitive because only one case exists.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(try_from = "String", into = "String")]
#[schema(value_type = String, pattern = "^[a-z0-9][a-z0-9._-]{0,62}$", examples("scratch-1"))]
pub struct Name(String);

/// Why a text is no [`Name`].
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "name {0:?}; allowed: 1 to 63 of a-z, 0-9, '-', '_' and '.', starting with a letter or digit"
)]
pub struct NameError(String);

impl Name {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Name {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Name, NameError> {
        let allowed = |byte: u8| {
            byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_' | b'.')
        };
        let starts_well = text
            .bytes()
            .next()
            .is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
        if starts_well && text.len() <= NAME_CHARS_MAX && text.bytes().all(allowed) {
            Ok(Name(text.to_owned()))
        } else {
            Err(NameError(text.chars().take(2 * NAME_CHARS_MAX).collect()))
        }
    }
}

impl TryFrom<String> for Name {
    type Error = NameError;

    fn try_from(text: String) -> Result<Name, NameError> {
        text.parse()
    }
}

impl From<Name> for String {
    fn from(name: Name) -> String {
        name.0
    }
}

impl AsRef<str> for Name {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_short_lower_case_words() {
        for good in ["a", "0", "db-1", "nvme0n1", "a.b_c", &"x".repeat(63)] {
            assert_eq!(good.parse::<Name>().unwrap().as_str(), good);
        }
        for bad in [
            "",
            "-a",
            ".a",
            "A",
            "a b",
            "a/b",
            "a:b",
            "ä",
            "..",
            &"x".repeat(64),
        ] {
            assert!(bad.parse::<Name>().is_err(), "{bad:?} was taken for a name");
        }
    }

    #[test]
    fn a_name_in_json_is_checked() {
        assert_eq!(
            serde_json::from_str::<Name>("\"d0\"").unwrap().as_str(),
            "d0"
        );
        let refused = serde_json::from_str::<Name>("\"../d0\"")
            .unwrap_err()
            .to_string();
        assert!(refused.contains("allowed"), "{refused}");
    }
}
