//! The keyring `.nvme`, from which the kernel's host takes keys of TLS.

use std::fs;

use access::TlsPsk;

use super::{AttachError, tools};

/// What this process may see of all keys, a line each (proc_keys(5)).
const KEYS: &str = "/proc/keys";

/// What the kernel calls keys of TLS.
const TYPE: &str = "psk";

/// By what the kernel knows a key, or a keyring.
pub type KeySerial = i32;

/// Whether the kernel's host can do TLS.
pub fn is_there() -> bool {
    own(&table()).is_some()
}

/// Has the keyring hold the key. It is the one that is there already if that has the same identity:
/// connections keep to theirs, and one that is replaced is out of reach for `tlshd`, by which they
/// come back.
pub fn hold(psk: &TlsPsk) -> Result<KeySerial, AttachError> {
    let keys = table();
    let keyring = own(&keys).ok_or(AttachError::KernelTls)?.to_string();
    if let Some(serial) = found(&keys, TYPE, &psk.identity) {
        return Ok(serial);
    }
    let words = ["padd", TYPE, &psk.identity, &keyring];
    let made = tools::run_with("keyctl", &words, &psk.secret)?;
    made.parse().map_err(|_| AttachError::Tool {
        command: "keyctl padd".to_owned(),
        said: made,
    })
}

fn own(keys: &str) -> Option<KeySerial> {
    found(keys, "keyring", ".nvme")
}

fn table() -> String {
    // Names of keys may be no text.
    String::from_utf8_lossy(&fs::read(KEYS).unwrap_or_default()).into_owned()
}

/// The serial number of the key of a type and a description. A line has the number, flags, uses,
/// timeout, permissions, two owners, the type, and the description up to a colon.
fn found(table: &str, kind: &str, description: &str) -> Option<KeySerial> {
    table.lines().find_map(|line| {
        let mut rest = line;
        let mut words = [""; 8];
        for word in &mut words {
            (*word, rest) = rest.trim_start().split_once(' ')?;
        }
        let (name, _) = rest.trim_start().rsplit_once(": ")?;
        let is_it = words[7] == kind && name == description;
        let serial = u32::from_str_radix(words[0], 16).ok().filter(|_| is_it)?;
        KeySerial::try_from(serial).ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of Linux 6.12.
    const TABLE: &str = "\
07d5b9b2 I------     1 perm 1f0f0000     0     0 keyring   .dns_resolver: empty
0ce1f0d5 I------     2 perm 1f0f0000     0     0 keyring   .nvme: 1
2a9bc0a4 I--Q---     1 perm 3f010000     0     0 psk       NVMe1R01 nqn.h nqn.s Ab+=: 32
1b2c3d4e I--Q---     1 perm 3f010000     0     0 user      NVMe1R01 nqn.h nqn.t Ab+=: 32
";

    #[test]
    fn keys_are_found_by_type_and_all_of_their_description() {
        let key = |kind, name| found(TABLE, kind, name);
        assert_eq!(key("keyring", ".nvme"), Some(0x0ce1_f0d5));
        assert_eq!(key("psk", "NVMe1R01 nqn.h nqn.s Ab+="), Some(0x2a9b_c0a4));
        assert_eq!(key("psk", "NVMe1R01 nqn.h nqn.s"), None);
        assert_eq!(key("psk", "NVMe1R01 nqn.h nqn.t Ab+="), None);
        assert_eq!(found("", "keyring", ".nvme"), None);
        assert_eq!(found("one two", "keyring", ".nvme"), None);
    }
}
