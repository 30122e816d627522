//! HTTPS to a node whose certificate is known by its fingerprint.
//!
//! A node makes its own certificate, which no authority vouches for; what is checked is that the
//! node has the key of exactly the certificate that was accepted at login. Names do not count.

use std::fmt;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, SignatureScheme,
    StreamOwned,
};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use ureq::Error;
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, Either, LazyBuffers, NextTimeout, Transport,
    TransportAdapter,
};

/// Every node is asked under this name, which does not count.
const SERVER_NAME: &str = "flashyard";

/// SHA-256 of a certificate (DER), written as 64 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    /// The fingerprint of a certificate.
    pub fn of(certificate_der: &[u8]) -> Fingerprint {
        Fingerprint(Sha256::digest(certificate_der).into())
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0
            .iter()
            .try_for_each(|byte| write!(formatter, "{byte:02x}"))
    }
}

impl FromStr for Fingerprint {
    type Err = String;

    /// Colons between the digits are allowed, as other programs write them.
    fn from_str(text: &str) -> Result<Fingerprint, String> {
        let wrong = || {
            let allowed = "allowed: 64 hexadecimal digits, the certificate's SHA-256";
            format!("fingerprint {text:?}; {allowed}")
        };
        let digits: Option<Vec<u8>> = text
            .chars()
            .filter(|character| *character != ':')
            .map(|digit| u8::try_from(digit.to_digit(16)?).ok())
            .collect();
        let digits = digits.ok_or_else(wrong)?;
        let bytes: Vec<u8> = digits
            .chunks(2)
            .map(|pair| pair.iter().fold(0, |byte, digit| byte << 4 | digit))
            .collect();
        match (digits.len(), bytes.try_into()) {
            (64, Ok(bytes)) => Ok(Fingerprint(bytes)),
            _ => Err(wrong()),
        }
    }
}

impl TryFrom<String> for Fingerprint {
    type Error = String;

    fn try_from(text: String) -> Result<Fingerprint, String> {
        text.parse()
    }
}

impl From<Fingerprint> for String {
    fn from(fingerprint: Fingerprint) -> String {
        fingerprint.to_string()
    }
}

/// Asks what listens at `host:port` for its certificate, without trusting it.
pub fn presented_by(authority: &str, timeout: Duration) -> std::io::Result<Fingerprint> {
    let socket = TcpStream::connect(authority)?;
    socket.set_read_timeout(Some(timeout))?;
    socket.set_write_timeout(Some(timeout))?;
    let config = config(None).map_err(std::io::Error::other)?;
    let mut stream = StreamOwned::new(session(config).map_err(std::io::Error::other)?, socket);
    stream.conn.complete_io(&mut stream.sock)?;
    let certificate = stream.conn.peer_certificates().and_then(<[_]>::first);
    certificate
        .map(|certificate| Fingerprint::of(certificate))
        .ok_or_else(|| std::io::Error::other("it shows no certificate"))
}

fn config(pinned: Option<Fingerprint>) -> Result<Arc<ClientConfig>, rustls::Error> {
    let provider = Arc::new(ring::default_provider());
    let pin = Pin {
        pinned,
        provider: Arc::clone(&provider),
    };
    let config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(pin))
        .with_no_client_auth();
    Ok(Arc::new(config))
}

fn session(config: Arc<ClientConfig>) -> Result<ClientConnection, rustls::Error> {
    let name = ServerName::try_from(SERVER_NAME).map_err(|_| CertificateError::NotValidForName)?;
    ClientConnection::new(config, name)
}

/// Accepts the one certificate with the fingerprint, or, to learn one, any; in both cases the
/// other side must have its key.
#[derive(Debug)]
struct Pin {
    pinned: Option<Fingerprint>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Pin {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        match self.pinned {
            Some(pinned) if pinned != Fingerprint::of(end_entity) => {
                Err(CertificateError::ApplicationVerificationFailure.into())
            }
            _ => Ok(ServerCertVerified::assertion()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}

/// Puts TLS on connections of `https` addresses.
#[derive(Debug)]
pub struct PinnedTls {
    config: Arc<ClientConfig>,
}

impl PinnedTls {
    /// Connections only to the node whose certificate has the fingerprint.
    pub fn new(pinned: Fingerprint) -> Result<PinnedTls, rustls::Error> {
        let config = config(Some(pinned))?;
        Ok(PinnedTls { config })
    }
}

impl<In: Transport> Connector<In> for PinnedTls {
    type Out = Either<In, TlsTransport>;

    fn connect(
        &self,
        details: &ConnectionDetails,
        chained: Option<In>,
    ) -> Result<Option<Self::Out>, Error> {
        let Some(transport) = chained else {
            return Ok(None);
        };
        if !details.needs_tls() {
            return Ok(Some(Either::A(transport)));
        }
        let refused = |error: rustls::Error| Error::Other(Box::new(error));
        let mut session = session(Arc::clone(&self.config)).map_err(refused)?;
        let boxed: Box<dyn Transport> = Box::new(transport);
        let mut socket = TransportAdapter::new(boxed, details.current_time.clone());
        socket.set_timeout(details.timeout);
        session.complete_io(&mut socket)?;
        let (input, output) = (
            details.config.input_buffer_size(),
            details.config.output_buffer_size(),
        );
        Ok(Some(Either::B(TlsTransport {
            buffers: LazyBuffers::new(input, output),
            stream: StreamOwned::new(session, socket),
        })))
    }
}

/// A connection with TLS.
pub struct TlsTransport {
    buffers: LazyBuffers,
    stream: StreamOwned<ClientConnection, TransportAdapter>,
}

impl fmt::Debug for TlsTransport {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("TlsTransport")
    }
}

impl Transport for TlsTransport {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        self.stream.sock.set_timeout(timeout);
        let output = self.buffers.output();
        self.stream
            .write_all(output.get(..amount).unwrap_or(output))?;
        Ok(self.stream.flush()?)
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        self.stream.sock.set_timeout(timeout);
        let amount = self.stream.read(self.buffers.input_append_buf())?;
        self.buffers.input_appended(amount);
        Ok(amount > 0)
    }

    fn is_open(&mut self) -> bool {
        self.stream.sock.get_mut().is_open()
    }

    fn is_tls(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fingerprint_is_read_as_it_is_written() {
        let fingerprint = Fingerprint::of(b"certificate");
        let text = fingerprint.to_string();
        assert_eq!(text.len(), 64);
        assert_eq!(text.parse(), Ok(fingerprint));
        let pairs: Vec<&str> = (0..32).map(|at| &text[2 * at..2 * at + 2]).collect();
        assert_eq!(pairs.join(":").to_uppercase().parse(), Ok(fingerprint));
        for wrong in ["", "ab", &"g".repeat(64), &"a".repeat(63), &"a".repeat(66)] {
            assert!(wrong.parse::<Fingerprint>().is_err(), "{wrong}");
        }
    }
}
