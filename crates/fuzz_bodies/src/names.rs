//! Names and addresses: what parses must say the same again.

use access::Nqn;
use initiator::{TargetAddress, TargetName};
use nvme::text::{from_padded, from_terminated, terminated};

/// Parses `bytes` as every kind of name there is.
pub fn names(bytes: &[u8]) {
    let padded = from_padded(bytes);
    assert!(padded.len() <= bytes.len());
    if let Some(name) = from_terminated(bytes) {
        assert!(!name.contains('\0') && name.len() < bytes.len());
    }
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    if let Ok(nqn) = text.parse::<Nqn>() {
        assert_eq!(nqn.as_str(), text);
        assert_eq!(nqn.to_string(), text);
        assert_eq!(
            from_terminated(&terminated::<256>(text)),
            Some(text),
            "fits its field"
        );
    }
    if let Ok(address) = text.parse::<TargetAddress>() {
        let again = address.to_string().parse::<TargetAddress>();
        assert_eq!(again, Ok(address), "an address reads back");
    }
    if let Ok(name) = text.parse::<TargetName>() {
        let again = name.to_string().parse::<TargetName>();
        assert_eq!(again, Ok(name), "a target's name reads back");
    }
}
