//! [`Session`]: one end of a secure channel, without its socket.

use std::sync::LazyLock;
use std::task::Poll;

use access::{PskHash, TlsPsk};
use reactor::foreign::{self, Queues};
use s2n_tls::config::Config;
use s2n_tls::connection::Connection;
use s2n_tls::enums::{Blinding, Mode, PskHmac, Version};
use s2n_tls::psk::Psk;
use s2n_tls::security::Policy;

use crate::TlsError;

/// s2n-tls' name for TLS 1.3 and nothing older.
const POLICY: &str = "AWS-CRT-SDK-TLSv1.3";

/// The cipher suites of NVMe/TCP (§3.6.1.2), in s2n-tls' words.
const SUITES: [&str; 2] = ["TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384"];

/// No certificates, and none trusted: who has none of the keys is nobody.
static CONFIG: LazyLock<Result<Config, TlsError>> = LazyLock::new(|| {
    let mut builder = Config::builder();
    builder.with_system_certs(false)?;
    builder.set_security_policy(&Policy::from_version(POLICY)?)?;
    Ok(builder.build()?)
});

/// One end of a TLS 1.3 connection: ciphertext in and out on one side, plaintext on the other.
///
/// After an error the session is over.
pub struct Session {
    connection: Connection,
    queues: Queues,
    established: bool,
}

impl Session {
    /// The host's end, which offers one key.
    ///
    /// # Errors
    /// [`TlsError::Failed`] when the library does not take the key.
    pub fn host(psk: &TlsPsk) -> Result<Session, TlsError> {
        Session::new(Mode::Client, psk)
    }

    /// The controller's end, with the one key that was chosen from what the host offers.
    ///
    /// # Errors
    /// As [`Session::host`].
    pub fn controller(psk: &TlsPsk) -> Result<Session, TlsError> {
        Session::new(Mode::Server, psk)
    }

    fn new(mode: Mode, psk: &TlsPsk) -> Result<Session, TlsError> {
        let mut connection = Connection::new(mode);
        connection.set_config(CONFIG.clone()?)?;
        // The library would put the thread to sleep, which serves others. There is nothing to hide:
        // all suites here check a record as a whole.
        connection.set_blinding(Blinding::SelfService)?;
        connection.set_receive_callback(Some(foreign::receive))?;
        connection.set_send_callback(Some(foreign::send))?;
        connection.prefer_throughput()?;
        let mut builder = Psk::builder()?;
        builder.set_identity(psk.identity.as_bytes())?;
        builder.set_secret(&psk.secret)?;
        builder.set_hmac(match psk.hash {
            PskHash::Sha256 => PskHmac::SHA256,
            PskHash::Sha384 => PskHmac::SHA384,
        })?;
        connection.append_psk(&builder.build()?)?;
        Ok(Session {
            connection,
            queues: Queues::default(),
            established: false,
        })
    }

    /// Takes ciphertext from the peer.
    pub fn receive(&mut self, bytes: &[u8]) {
        self.queues.arrived(bytes);
    }

    /// Goes on with the handshake; true once both ends have agreed.
    ///
    /// # Errors
    /// [`TlsError::Failed`] when they cannot.
    pub fn handshake(&mut self) -> Result<bool, TlsError> {
        if self.established {
            return Ok(true);
        }
        let connection = &mut self.connection;
        let step = self
            .queues
            .during(|| connection.poll_negotiate().map_ok(drop));
        match step {
            Poll::Pending => Ok(false),
            Poll::Ready(result) => {
                result?;
                self.check()?;
                self.established = true;
                Ok(true)
            }
        }
    }

    /// Both ends agreed on something; that it is what was wanted.
    fn check(&self) -> Result<(), TlsError> {
        let suite = self.connection.cipher_suite()?;
        let version = self.connection.actual_protocol_version()?;
        if version != Version::TLS13 || !SUITES.contains(&suite) {
            return Err(TlsError::Failed("another version or cipher suite"));
        }
        if self.connection.negotiated_psk_identity_length()? == 0 {
            return Err(TlsError::Failed("no pre-shared key was used"));
        }
        Ok(())
    }

    /// Puts plaintext at the start of `into`, and says how much: 0 when the peer has ended the
    /// session, `None` when more ciphertext is wanted.
    ///
    /// # Errors
    /// [`TlsError::Failed`] when what came was not made by the peer.
    pub fn read(&mut self, into: &mut [u8]) -> Result<Option<usize>, TlsError> {
        let connection = &mut self.connection;
        match self.queues.during(|| connection.poll_recv(into)) {
            Poll::Pending => Ok(None),
            Poll::Ready(result) => Ok(Some(result?)),
        }
    }

    /// Encrypts `plaintext`, all of it.
    ///
    /// # Errors
    /// [`TlsError::Failed`] when the session is over.
    pub fn write(&mut self, mut plaintext: &[u8]) -> Result<(), TlsError> {
        let connection = &mut self.connection;
        self.queues.during(|| {
            while !plaintext.is_empty() {
                let Poll::Ready(written) = connection.poll_send(plaintext) else {
                    return Err(TlsError::Failed("the library does not take more"));
                };
                plaintext = plaintext.get(written?..).unwrap_or_default();
            }
            Ok(())
        })
    }

    /// Ciphertext for the peer. Whoever sends it empties it.
    pub fn outgoing(&mut self) -> &mut Vec<u8> {
        &mut self.queues.outgoing
    }
}

impl std::fmt::Debug for Session {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Session(..)")
    }
}
