//! The REST API's side towards the network: connections, and what may come over them.
//!
//! Whoever connects is bounded in everything: how many connections, how long a header or a body
//! may take, how large it may be, how long an answer may stay unread. Nothing here runs on the data
//! path's cores.

mod failures;
mod front;
mod permission;
mod places;
mod tls;
mod unread;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use api::{ErrorBody, ErrorCode};
use axum::body::Body;
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use node::Asker;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsAcceptor;

pub use self::failures::REFILL;
pub use self::front::Front;
use self::places::Places;
pub use self::tls::{Tls, TlsError};
use self::unread::UnreadLimit;
use crate::routes::Refusal;

/// How long a request's header may take, and a connection stay idle.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);

/// A header larger than this is no header of a client of ours.
const HEADER_BYTES_MAX: usize = 64 << 10;

const HEADERS_MAX: usize = 64;

/// How long accepting pauses when the system is out of something.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The REST API on its task.
pub struct Rest {
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Rest {
    /// Starts serving what arrives at `listener`, with TLS if there is an acceptor for it.
    pub fn start(listener: TcpListener, front: Front, tls: Option<TlsAcceptor>) -> Rest {
        let (stop, stopping) = watch::channel(false);
        let task = tokio::spawn(accept(listener, Arc::new(front), tls, stopping));
        Rest { stop, task }
    }

    /// Stops accepting, and lets requests in flight end, for at most `timeout`.
    pub async fn stop(self, timeout: Duration) {
        self.stop.send_replace(true);
        match tokio::time::timeout(timeout, self.task).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!("the REST API ended with: {error}"),
            Err(_) => tracing::warn!("the REST API still had requests after {timeout:?}"),
        }
    }
}

async fn accept(
    listener: TcpListener,
    front: Arc<Front>,
    tls: Option<TlsAcceptor>,
    mut stopping: watch::Receiver<bool>,
) {
    let places = Places::default();
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            _ = stopping.changed() => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => {
                    // Without a place the connection is closed: that address has enough.
                    let asker = stream.local_addr().map(|local| Asker::new(local, peer));
                    let Ok(asker) = asker else {
                        // It is gone already.
                        continue;
                    };
                    if let Some(place) = places.take(asker.remote().ip()) {
                        let (front, stopping) = (Arc::clone(&front), stopping.clone());
                        let serving = serve(stream, asker, tls.clone(), front, stopping);
                        connections.spawn(async move {
                            serving.await;
                            drop(place);
                        });
                    }
                }
                Err(error) => {
                    tracing::warn!("REST API: a connection could not be accepted: {error}");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            },
            Some(_) = connections.join_next() => {}
        }
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
    front.idle().await;
}

async fn serve(
    stream: TcpStream,
    asker: Asker,
    tls: Option<TlsAcceptor>,
    front: Arc<Front>,
    stopping: watch::Receiver<bool>,
) {
    let Some(tls) = tls else {
        return exchange(stream, asker, front, stopping).await;
    };
    let peer = asker.remote();
    match tokio::time::timeout(HEADER_TIMEOUT, tls.accept(stream)).await {
        Ok(Ok(stream)) => exchange(stream, asker, front, stopping).await,
        Ok(Err(error)) => tracing::debug!("REST API: {peer} speaks no TLS of ours: {error}"),
        Err(_) => tracing::debug!("REST API: {peer} was too slow to agree on TLS"),
    }
}

/// Makes a change whole, whoever is there to hear of it: a connection that ends takes what it waits
/// for with it, and half a change is not what its client asked for.
async fn whole(front: Arc<Front>, request: Request<Body>, peer: SocketAddr) -> Response {
    let made = tokio::spawn(async move { front.answer(request, peer).await });
    made.await.unwrap_or_else(|error| {
        let message = format!("the request failed: {error}");
        Refusal(ErrorBody::new(ErrorCode::Internal, message)).into_response()
    })
}

/// Requests and answers of one connection.
async fn exchange<S>(
    stream: S,
    asker: Asker,
    front: Arc<Front>,
    mut stopping: watch::Receiver<bool>,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let peer = asker.remote();
    let answer = service_fn(move |request: hyper::Request<Incoming>| {
        let front = Arc::clone(&front);
        async move {
            let mut request = request.map(Body::new);
            request.extensions_mut().insert(asker);
            let answer: Response = match request.method().is_safe() {
                true => front.answer(request, peer).await,
                false => whole(front, request, peer).await,
            };
            Ok::<_, std::convert::Infallible>(answer)
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_buf_size(HEADER_BYTES_MAX)
        .max_headers(HEADERS_MAX)
        .serve_connection(TokioIo::new(UnreadLimit::new(stream)), answer);
    tokio::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        _ = stopping.changed() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!("REST API: the connection from {peer} ended with: {error}");
    }
}
