//! [`Outlet`]: an open way to a syslog receiver.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use api::{SyslogTarget, SyslogTransport};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::names::resolve;

/// How long connecting, or handing over a message, may take.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Where Debian and its relatives keep the authorities that the machine trusts.
const SYSTEM_AUTHORITIES: &str = "/etc/ssl/certs/ca-certificates.crt";

/// An open way to a receiver.
pub enum Outlet {
    /// A message a datagram (RFC 5426).
    Udp(UdpSocket),
    /// Messages with their length before them (RFC 6587 §3.4.1).
    Tcp(TcpStream),
    /// The same in TLS (RFC 5425).
    Tls(Box<TlsStream<TcpStream>>),
}

impl Outlet {
    /// Opens the way that `target` asks for.
    pub async fn open(target: &SyslogTarget) -> io::Result<Outlet> {
        in_time(async {
            let addresses = &*resolve(&target.address).await?;
            Ok(match target.transport {
                SyslogTransport::Udp => {
                    let any = match addresses.first().is_some_and(SocketAddr::is_ipv4) {
                        true => "0.0.0.0:0",
                        false => "[::]:0",
                    };
                    let socket = UdpSocket::bind(any).await?;
                    socket.connect(addresses).await?;
                    Outlet::Udp(socket)
                }
                SyslogTransport::Tcp => Outlet::Tcp(TcpStream::connect(addresses).await?),
                SyslogTransport::Tls => {
                    let trusted = authorities(target.ca_certificate.as_deref())?;
                    let name = host(&target.address).to_owned();
                    let name = ServerName::try_from(name).map_err(io::Error::other)?;
                    let stream = TcpStream::connect(addresses).await?;
                    let stream = connector(trusted)?.connect(name, stream).await?;
                    Outlet::Tls(Box::new(stream))
                }
            })
        })
        .await
    }

    /// Hands over one message.
    pub async fn send(&mut self, text: &str) -> io::Result<()> {
        let framed = format!("{} {text}", text.len());
        in_time(async {
            match self {
                Outlet::Udp(socket) => socket.send(text.as_bytes()).await.map(drop),
                Outlet::Tcp(stream) => {
                    still_open(stream).await?;
                    stream.write_all(framed.as_bytes()).await
                }
                Outlet::Tls(stream) => {
                    still_open(stream.get_ref().0).await?;
                    stream.write_all(framed.as_bytes()).await?;
                    stream.flush().await
                }
            }
        })
        .await
    }
}

/// A receiver that restarted has closed the connection; the system would still take one message
/// for it, and lose that.
async fn still_open(stream: &TcpStream) -> io::Result<()> {
    match timeout(Duration::ZERO, stream.peek(&mut [0])).await {
        Ok(Ok(0)) => Err(io::ErrorKind::ConnectionReset.into()),
        Ok(Err(error)) => Err(error),
        Ok(Ok(_)) | Err(_) => Ok(()),
    }
}

async fn in_time<T>(work: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    let done = timeout(TIMEOUT, work).await;
    done.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

/// The host of `HOST:PORT`, without the brackets of an IPv6 address.
fn host(address: &str) -> &str {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    host.trim_matches(['[', ']'])
}

/// Those in `pem`, or those that the machine trusts.
pub fn authorities(pem: Option<&str>) -> io::Result<RootCertStore> {
    let certificates: Result<Vec<_>, _> = match pem {
        Some(pem) => CertificateDer::pem_slice_iter(pem.as_bytes()).collect(),
        None => CertificateDer::pem_file_iter(SYSTEM_AUTHORITIES).and_then(|found| found.collect()),
    };
    let mut store = RootCertStore::empty();
    for certificate in certificates.map_err(io::Error::other)? {
        store.add(certificate).map_err(io::Error::other)?;
    }
    if store.is_empty() {
        return Err(io::Error::other("no certificate in it"));
    }
    Ok(store)
}

fn connector(trusted: RootCertStore) -> io::Result<TlsConnector> {
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?;
    let config = config.with_root_certificates(trusted).with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    /// One that accepts, and never reads what it is sent.
    #[tokio::test]
    async fn a_receiver_that_reads_nothing_is_given_up() {
        let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let target = SyslogTarget {
            address: silent.local_addr().unwrap().to_string(),
            transport: SyslogTransport::Tcp,
            ca_certificate: None,
        };
        let mut outlet = Outlet::open(&target).await.unwrap();
        // Nothing but the time limit is left to wait for once the system takes no more.
        tokio::time::pause();
        let sent = outlet.send(&"x".repeat(64 << 20)).await;
        assert_eq!(sent.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }
}
