//! [`identities`]: what a ClientHello offers, read before TLS begins.

use crate::TlsError;

/// A ClientHello larger than this is none of a host's: identities have at most 560 bytes.
const HELLO_BYTES_MAX: usize = 16 << 10;

const RECORD_HEADER_BYTES: usize = 5;
const HANDSHAKE_RECORD: u8 = 22;
const CLIENT_HELLO: u8 = 1;
const PRE_SHARED_KEY: u16 = 41;
/// Of `legacy_version` and `random`.
const FIXED_BYTES: usize = 34;
/// Of `obfuscated_ticket_age`.
const AGE_BYTES: usize = 4;

/// The identities of pre-shared keys that the ClientHello at the start of `bytes` offers, in the
/// host's order; `None` while the ClientHello is not complete (RFC 8446 §4.1.2, §4.2.11).
///
/// # Errors
/// [`TlsError::Hello`] when this is no ClientHello that offers one.
pub fn identities(bytes: &[u8]) -> Result<Option<Vec<String>>, TlsError> {
    let Some(message) = message(bytes)? else {
        return Ok(None);
    };
    let found = offered(&message).filter(|found| !found.is_empty());
    found.map(Some).ok_or(TlsError::Hello)
}

/// The body of the ClientHello, out of the records that it came in.
fn message(mut bytes: &[u8]) -> Result<Option<Vec<u8>>, TlsError> {
    let mut message = Vec::new();
    while let Some(kind) = bytes.first() {
        if *kind != HANDSHAKE_RECORD {
            return Err(TlsError::Hello);
        }
        let Some(length) = bytes.get(3..RECORD_HEADER_BYTES) else {
            return Ok(None);
        };
        let length = number(length);
        if length == 0 || message.len() + length > HELLO_BYTES_MAX {
            return Err(TlsError::Hello);
        }
        let end = RECORD_HEADER_BYTES + length;
        let Some(fragment) = bytes.get(RECORD_HEADER_BYTES..end) else {
            return Ok(None);
        };
        message.extend_from_slice(fragment);
        bytes = bytes.get(end..).unwrap_or_default();
        if message.first() != Some(&CLIENT_HELLO) {
            return Err(TlsError::Hello);
        }
        if let Some(length) = message.get(1..4) {
            let end = 4 + number(length);
            if let Some(body) = message.get(4..end) {
                return Ok(Some(body.to_vec()));
            }
        }
    }
    Ok(None)
}

fn offered(body: &[u8]) -> Option<Vec<String>> {
    let mut body = Reader(body.get(FIXED_BYTES..)?);
    body.vector(1)?; // legacy_session_id
    body.vector(2)?; // cipher_suites
    body.vector(1)?; // legacy_compression_methods
    let mut extensions = Reader(body.vector(2)?);
    while !extensions.0.is_empty() {
        let kind = extensions.take(2)?;
        let data = extensions.vector(2)?;
        if number(kind) != usize::from(PRE_SHARED_KEY) {
            continue;
        }
        let mut offered = Reader(Reader(data).vector(2)?);
        let mut found = Vec::new();
        while !offered.0.is_empty() {
            let identity = offered.vector(2)?;
            offered.take(AGE_BYTES)?;
            // What is no text names no key of ours.
            found.extend(str::from_utf8(identity).map(str::to_owned));
        }
        return Some(found);
    }
    None
}

/// A number, its highest byte first.
fn number(bytes: &[u8]) -> usize {
    bytes
        .iter()
        .fold(0, |number, byte| number << 8 | usize::from(*byte))
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(bytes)?;
        self.0 = rest;
        Some(taken)
    }

    /// A vector whose length comes first, in `length_bytes`.
    fn vector(&mut self, length_bytes: usize) -> Option<&'a [u8]> {
        let length = number(self.take(length_bytes)?);
        self.take(length)
    }
}
