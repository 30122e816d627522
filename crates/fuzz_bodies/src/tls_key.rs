//! Keys of TLS in their text form.

use access::{Nqn, TlsKey};

/// Reads `bytes` as a key; what is one reads back the same, and gives every host keys of its own.
pub fn tls_key(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else {
        return;
    };
    let Ok(key) = text.parse::<TlsKey>() else {
        return;
    };
    assert_eq!(*key.reveal(), text);
    let name = |text: &str| text.parse::<Nqn>().expect("a good name");
    let host = name("nqn.2026-11.org.example:host");
    let subsystem = name("nqn.2026-11.org.example:subsystem");
    let (psks, others) = (key.psks(&host, &subsystem), key.psks(&subsystem, &host));
    assert!(psks.len() >= 2 && psks.len() == others.len());
    for (psk, other) in psks.iter().zip(&others) {
        assert!(psk.identity != other.identity && psk.secret != other.secret);
    }
}
