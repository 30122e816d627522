//! [`Nqn`]: an NVMe Qualified Name (NVMe 2.0 §4.5).

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use sha2::{Digest, Sha256};

/// The longest name, in bytes.
pub const NQN_BYTES_MAX: usize = 223;

const UUID_PREFIX: &str = "nqn.2014-08.org.nvmexpress:uuid:";

/// An NVMe Qualified Name: `nqn.yyyy-mm.reverse.domain[:anything]`, or
/// `nqn.2014-08.org.nvmexpress:uuid:` and a UUID. Cheap to clone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nqn(Arc<str>);

/// Why a text is no name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NqnError {
    /// Longer than [`NQN_BYTES_MAX`] bytes.
    #[error("name of {0} bytes; at most {NQN_BYTES_MAX} are allowed")]
    TooLong(usize),
    /// Does not start with `nqn.yyyy-mm.`.
    #[error("name does not start with nqn.YYYY-MM.")]
    Date,
    /// What follows the date is no reverse domain name.
    #[error("no reverse domain name (like com.example) after the date")]
    Domain,
    /// Nothing follows the colon, or a control character does.
    #[error("text after the colon is empty or has control characters")]
    Text,
    /// What follows `:uuid:` is no UUID.
    #[error("no UUID (32 hexadecimal digits, or 8-4-4-4-12 of them) after {UUID_PREFIX}")]
    Uuid,
}

impl Nqn {
    /// The name that the specification has for a host, or another thing, with a UUID.
    pub fn of_uuid(uuid: [u8; 16]) -> Nqn {
        let digits = format!("{:032x}", u128::from_be_bytes(uuid));
        let mut name = UUID_PREFIX.to_owned();
        for (index, digit) in digits.chars().enumerate() {
            if matches!(index, 8 | 12 | 16 | 20) {
                name.push('-');
            }
            name.push(digit);
        }
        Nqn(Arc::from(name))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// What stands for it.
    pub fn tag(&self) -> NqnTag {
        let digest: [u8; 32] = Sha256::digest(self.0.as_bytes()).into();
        let mut tag = [0; NQN_TAG_BYTES];
        tag.iter_mut().zip(digest).for_each(|(to, from)| *to = from);
        NqnTag(tag)
    }
}

/// What stands for a name where there is no room for it, or no time to compare it: the beginning of
/// its SHA-256. Names that are told apart by it are none that somebody chose to be alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NqnTag(pub [u8; NQN_TAG_BYTES]);

/// Bytes of a [`NqnTag`]: too many to find another name of it on purpose.
pub const NQN_TAG_BYTES: usize = 9;

impl FromStr for Nqn {
    type Err = NqnError;

    fn from_str(text: &str) -> Result<Nqn, NqnError> {
        check(text)?;
        Ok(Nqn(Arc::from(text)))
    }
}

impl TryFrom<&str> for Nqn {
    type Error = NqnError;

    fn try_from(text: &str) -> Result<Nqn, NqnError> {
        text.parse()
    }
}

impl fmt::Display for Nqn {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl fmt::Debug for Nqn {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Nqn({})", self.0)
    }
}

fn check(text: &str) -> Result<(), NqnError> {
    if text.len() > NQN_BYTES_MAX {
        return Err(NqnError::TooLong(text.len()));
    }
    if let Some(uuid) = text.strip_prefix(UUID_PREFIX) {
        return if is_uuid(uuid) {
            Ok(())
        } else {
            Err(NqnError::Uuid)
        };
    }
    let rest = text.strip_prefix("nqn.").ok_or(NqnError::Date)?;
    let (date, name) = rest.split_once('.').ok_or(NqnError::Date)?;
    if !is_date(date) {
        return Err(NqnError::Date);
    }
    let (domain, tail) = match name.split_once(':') {
        Some((domain, tail)) => (domain, Some(tail)),
        None => (name, None),
    };
    if !domain.split('.').all(is_label) {
        return Err(NqnError::Domain);
    }
    match tail {
        Some(tail) if tail.is_empty() || tail.chars().any(char::is_control) => Err(NqnError::Text),
        _ => Ok(()),
    }
}

/// `yyyy-mm`.
fn is_date(date: &str) -> bool {
    let Some((year, month)) = date.split_once('-') else {
        return false;
    };
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    year.len() == 4
        && month.len() == 2
        && digits(year)
        && month
            .parse::<u8>()
            .is_ok_and(|month| (1..=12).contains(&month))
}

/// One part of a domain name. Underscores are no hostname characters, but names in use have them.
fn is_label(label: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    (1..=63).contains(&label.len())
        && label.bytes().all(inner)
        && !label.starts_with('-')
        && !label.ends_with('-')
}

/// With dashes as the specification has it, or without, as machine identifiers are written that
/// hosts make their names of (nvme-cli 1, libnvme with systemd).
fn is_uuid(text: &str) -> bool {
    if text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return true;
    }
    let groups = [8, 4, 4, 4, 12];
    let mut parts = text.split('-');
    groups.iter().all(|length| {
        parts.next().is_some_and(|part| {
            part.len() == *length && part.bytes().all(|byte| byte.is_ascii_hexdigit())
        })
    }) && parts.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_hosts_use_are_accepted() {
        let longest = format!(
            "nqn.2024-01.io.flashyard:{}",
            "x".repeat(NQN_BYTES_MAX - 25)
        );
        // The part after the colon is optional (NVMe 2.0 §4.5).
        let label = format!(".{}", "y".repeat(51));
        let longest_domain = format!("nqn.2024-01.com{}", label.repeat(4));
        assert_eq!(longest_domain.len(), NQN_BYTES_MAX);
        for name in [
            "nqn.2014-08.org.nvmexpress:uuid:f81d4fae-7dec-11d0-a765-00a0c91e6bf6",
            "nqn.2014-08.org.nvmexpress:uuid:07e4a0a641d54bff96b28a173dcfb6b5",
            "nqn.2014-08.com.example",
            &longest_domain,
            "nqn.2014-08.org.nvmexpress.discovery",
            "nqn.2016-06.io.spdk:cnode1",
            "nqn.2019-10.com.kioxia:KCM61:X0Y0",
            "nqn.2024-01.io.flashyard:volume:a b/c",
            &longest,
        ] {
            assert_eq!(
                name.parse::<Nqn>().map(|nqn| nqn.to_string()),
                Ok(name.to_string())
            );
        }
    }

    #[test]
    fn a_uuid_makes_a_name() {
        let name = Nqn::of_uuid(0x0781_d4fa_7dec_11d0_a765_00a0_c91e_6bf6_u128.to_be_bytes());
        let text = "nqn.2014-08.org.nvmexpress:uuid:0781d4fa-7dec-11d0-a765-00a0c91e6bf6";
        assert_eq!(text.parse(), Ok(name));
    }

    #[test]
    fn what_is_no_name_is_refused_with_the_reason() {
        let too_long = format!(
            "nqn.2024-01.io.flashyard:{}",
            "x".repeat(NQN_BYTES_MAX - 24)
        );
        for (name, reason) in [
            ("", NqnError::Date),
            ("iqn.2014-08.org.example:x", NqnError::Date),
            ("nqn.2014-13.org.example:x", NqnError::Date),
            ("nqn.2014-00.org.example:x", NqnError::Date),
            ("nqn.14-08.org.example:x", NqnError::Date),
            ("nqn.2014-08", NqnError::Date),
            ("nqn.2014-08.", NqnError::Domain),
            ("nqn.2014-08.org..example", NqnError::Domain),
            ("nqn.2014-08.-org:x", NqnError::Domain),
            ("nqn.2014-08.org.example:", NqnError::Text),
            ("nqn.2014-08.org.example:a\nb", NqnError::Text),
            ("nqn.2014-08.org.nvmexpress:uuid:1234", NqnError::Uuid),
            (
                "nqn.2014-08.org.nvmexpress:uuid:07e4a0a641d54bff96b28a173dcfb6b",
                NqnError::Uuid,
            ),
            (
                "nqn.2014-08.org.nvmexpress:uuid:07e4a0a641d54bff96b28a173dcfb6bg",
                NqnError::Uuid,
            ),
            (
                "nqn.2014-08.org.nvmexpress:uuid:f81d4fae7dec-11d0-a765-00a0c91e6bf6",
                NqnError::Uuid,
            ),
            (
                "nqn.2014-08.org.nvmexpress:uuid:f81d4fae-7dec-11d0-a765-00a0c91e6bf6-1",
                NqnError::Uuid,
            ),
            (&too_long, NqnError::TooLong(NQN_BYTES_MAX + 1)),
        ] {
            assert_eq!(name.parse::<Nqn>(), Err(reason), "{name}");
        }
    }
}
