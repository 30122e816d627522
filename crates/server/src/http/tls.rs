//! The REST API's certificate: given, or made at the first start.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use api::SecretText;
use files::Access;
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use sha2::{Digest, Sha256};
use tokio_rustls::TlsAcceptor;

use crate::config::CertificateFiles;
use crate::words::hexadecimal;

const CERTIFICATE_FILE: &str = "certificate.pem";
const KEY_FILE: &str = "certificate-key.pem";

/// The names in a certificate of our own making. Clients of ours know it by its fingerprint, so
/// that names matter to others only, on the same machine.
const OWN_NAMES: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// What HTTPS needs.
pub struct Tls {
    /// Makes connections secure.
    pub acceptor: TlsAcceptor,
    /// SHA-256 of the certificate, for people and clients to compare.
    pub fingerprint: String,
}

/// Why HTTPS cannot be served.
#[derive(Debug, thiserror::Error)]
#[error("{path}: {problem}", path = path.display())]
pub struct TlsError {
    path: PathBuf,
    problem: String,
}

impl Tls {
    /// Reads the given certificate and key, or those in the state directory, which are made if they
    /// are missing.
    pub fn open(given: Option<&CertificateFiles>, state: &Path) -> Result<Tls, TlsError> {
        match given {
            Some(given) => Tls::load(given),
            None => Tls::load(&made_in(state)?),
        }
    }

    /// Whether the given certificate and key can be used, or those in the state directory, if they
    /// are there. Makes nothing.
    pub fn check(given: Option<&CertificateFiles>, state: &Path) -> Result<(), TlsError> {
        let own = files_in(state);
        match given {
            Some(given) => Tls::load(given).map(drop),
            None if own.certificate.exists() => Tls::load(&own).map(drop),
            None => Ok(()),
        }
    }

    fn load(files: &CertificateFiles) -> Result<Tls, TlsError> {
        let at = |problem: String| TlsError {
            path: files.certificate.clone(),
            problem,
        };
        let chain = CertificateDer::pem_file_iter(&files.certificate)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .map_err(|error| at(error.to_string()))?;
        let first = chain.first().ok_or_else(|| at("no certificate".into()))?;
        let fingerprint = hexadecimal(&Sha256::digest(first));
        let key = PrivateKeyDer::from_pem_file(&files.key).map_err(|error| TlsError {
            path: files.key.clone(),
            problem: error.to_string(),
        })?;
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .and_then(|config| config.with_no_client_auth().with_single_cert(chain, key))
            .map_err(|error| at(error.to_string()))?;
        Ok(Tls {
            acceptor: TlsAcceptor::from(Arc::new(config)),
            fingerprint,
        })
    }
}

fn files_in(state: &Path) -> CertificateFiles {
    CertificateFiles {
        certificate: state.join(CERTIFICATE_FILE),
        key: state.join(KEY_FILE),
    }
}

fn made_in(state: &Path) -> Result<CertificateFiles, TlsError> {
    let files = files_in(state);
    // The certificate is written last: with it, the key is there.
    if files.certificate.exists() {
        return Ok(files);
    }
    let names = OWN_NAMES.map(str::to_owned);
    let made = rcgen::generate_simple_self_signed(names).map_err(|error| TlsError {
        path: files.certificate.clone(),
        problem: error.to_string(),
    })?;
    let key = SecretText::from(made.signing_key.serialize_pem());
    write_private(&files.key, key.reveal())?;
    write_private(&files.certificate, &made.cert.pem())?;
    Ok(files)
}

fn write_private(path: &Path, text: &str) -> Result<(), TlsError> {
    let written = files::replace(path, text.as_bytes(), Access::Owner);
    written.map_err(|error| TlsError {
        path: path.to_owned(),
        problem: error.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_certificate_is_made_once_and_its_key_kept_secret() {
        let state = tempfile::tempdir().unwrap();
        let first = Tls::open(None, state.path()).unwrap().fingerprint;
        assert_eq!(Tls::open(None, state.path()).unwrap().fingerprint, first);
        let key = state.path().join(KEY_FILE).metadata().unwrap();
        assert_eq!(key.permissions().mode() & 0o777, 0o600);

        let given = CertificateFiles {
            certificate: state.path().join(CERTIFICATE_FILE),
            key: state.path().join(KEY_FILE),
        };
        let elsewhere = tempfile::tempdir().unwrap();
        let opened = Tls::open(Some(&given), elsewhere.path()).unwrap();
        assert_eq!(opened.fingerprint, first);
    }

    #[test]
    fn a_certificate_that_is_none_is_named() {
        let state = tempfile::tempdir().unwrap();
        std::fs::write(state.path().join(CERTIFICATE_FILE), "no certificate").unwrap();
        let refused = Tls::open(None, state.path()).err().unwrap().to_string();
        assert!(refused.contains(CERTIFICATE_FILE), "{refused}");
    }
}
