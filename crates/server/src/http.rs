//! The REST API's side towards the network: connections, and what may come over them.
//!
//! Whoever connects is bounded in everything: how many connections, how long a header or a body
//! may take, how large it may be, how long an answer may stay unread. Nothing here runs on the data
//! path's cores.

mod failures;
mod front;
mod permission;
mod places;
mod refusals;
mod tags;
mod tls;
mod unread;

use std::sync::Arc;
use std::time::Duration;

use api::{ErrorBody, ErrorCode};
use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderValue, StatusCode, header};
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

pub use self::front::Front;
use self::places::{Place, Places, Proof};
pub use self::tls::{Tls, TlsError};
use self::unread::UnreadLimit;
use crate::routes::Refusal;

/// How long a request's header may take, and a connection stay idle.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a connection may live that shows no good token.
const UNPROVEN_LIFE: Duration = Duration::from_secs(10);

/// What is larger than this is not even read to be refused in our own words: more than [`Front`]
/// allows.
const HEADER_BYTES_MAX: usize = 128 << 10;

const HEADERS_MAX: usize = 256;

/// Browsers that came over TLS once come so for a year.
const TLS_ONLY: HeaderValue = HeaderValue::from_static("max-age=31536000");

/// How long one has to wait for the answer who has come with too many wrong tokens: to be refused
/// again and again takes the node's time.
const TOO_MANY_PAUSE: Duration = Duration::from_secs(1);

/// How long accepting pauses when the system is out of something.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The REST API on its task.
pub struct Rest {
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Rest {
    /// Starts serving what arrives at `listener`, once there is one, with TLS if there is an
    /// acceptor for it.
    pub fn start(
        listener: impl Future<Output = TcpListener> + Send + 'static,
        front: Front,
        tls: Option<TlsAcceptor>,
    ) -> Rest {
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
    listener: impl Future<Output = TcpListener>,
    front: Arc<Front>,
    tls: Option<TlsAcceptor>,
    mut stopping: watch::Receiver<bool>,
) {
    let listener = tokio::select! {
        _ = stopping.changed() => return,
        listener = listener => listener,
    };
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
                        let connection = Connection {
                            asker,
                            proof: place.proof(),
                            under_tls: tls.is_some(),
                        };
                        let serving = serve(stream, connection, tls.clone(), front, stopping);
                        connections.spawn(in_place(place, serving));
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

/// A connection as its requests see it.
#[derive(Clone)]
struct Connection {
    asker: Asker,
    proof: Proof,
    under_tls: bool,
}

/// Serves a connection as long as it has its place.
async fn in_place(place: Place, serving: impl Future<Output = ()>) {
    tokio::select! {
        () = serving => {}
        () = place.evicted() => {}
    }
}

async fn serve(
    stream: TcpStream,
    connection: Connection,
    tls: Option<TlsAcceptor>,
    front: Arc<Front>,
    stopping: watch::Receiver<bool>,
) {
    let Some(tls) = tls else {
        return exchange(stream, connection, front, stopping).await;
    };
    let peer = connection.asker.remote();
    match tokio::time::timeout(HEADER_TIMEOUT, tls.accept(stream)).await {
        Ok(Ok(stream)) => exchange(stream, connection, front, stopping).await,
        Ok(Err(error)) => tracing::debug!("REST API: {peer} speaks no TLS of ours: {error}"),
        Err(_) => tracing::debug!("REST API: {peer} was too slow to agree on TLS"),
    }
}

/// Makes a change whole, whoever is there to hear of it: a connection that ends takes what it waits
/// for with it, and half a change is not what its client asked for.
async fn whole(front: Arc<Front>, request: Request<Body>, from: Connection) -> Response {
    let made = tokio::spawn(async move {
        front
            .answer(request, from.asker.remote(), &from.proof)
            .await
    });
    made.await.unwrap_or_else(|error| {
        let message = format!("the request failed: {error}");
        Refusal(ErrorBody::new(ErrorCode::Internal, message)).into_response()
    })
}

/// Requests and answers of one connection.
async fn exchange<S>(
    stream: S,
    from: Connection,
    front: Arc<Front>,
    mut stopping: watch::Receiver<bool>,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (peer, proof) = (from.asker.remote(), from.proof.clone());
    let answer = service_fn(move |request: hyper::Request<Incoming>| {
        let (front, from) = (Arc::clone(&front), from.clone());
        async move {
            let mut request = request.map(Body::new);
            request.extensions_mut().insert(from.asker);
            let under_tls = from.under_tls;
            let mut answer: Response = match request.method().is_safe() {
                true => {
                    front
                        .answer(request, from.asker.remote(), &from.proof)
                        .await
                }
                false => whole(front, request, from).await,
            };
            if answer.status() == StatusCode::TOO_MANY_REQUESTS {
                tokio::time::sleep(TOO_MANY_PAUSE).await;
            }
            if under_tls {
                let headers = answer.headers_mut();
                headers.insert(header::STRICT_TRANSPORT_SECURITY, TLS_ONLY);
            }
            Ok::<_, std::convert::Infallible>(answer)
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_buf_size(HEADER_BYTES_MAX)
        .max_headers(HEADERS_MAX)
        .serve_connection(TokioIo::new(UnreadLimit::new(stream)), answer);
    let young = tokio::time::sleep(UNPROVEN_LIFE);
    tokio::pin!(connection, young);
    let (mut closing, mut is_young) = (false, true);
    let ended = loop {
        tokio::select! {
            ended = connection.as_mut() => break ended,
            _ = stopping.changed(), if !closing => closing = true,
            () = young.as_mut(), if is_young => {
                is_young = false;
                closing |= !proof.is_given();
            }
        }
        if closing {
            connection.as_mut().graceful_shutdown();
        }
    };
    if let Err(error) = ended {
        tracing::debug!("REST API: the connection from {peer} ended with: {error}");
    }
}
