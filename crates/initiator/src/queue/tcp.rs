//! Queues on a socket, each driven by two tasks, one for each direction.
//!
//! Sends batch themselves: while one is in flight, and until every task that is ready has run,
//! new commands gather for the next. Completions come in as many as one receive brings.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::ops::Range;
use std::rc::Rc;

use access::TlsPsk;
use block::Buffer;
use reactor::net::{SendBatch, SocketOptions, TcpStream};
use reactor::spawn;
use reactor::sync::Notify;
use tls::Stream;

use super::{Lane, Queue, QueuePair};
use crate::connection::{Connection, Outlet, Settings};
use crate::{Error, LossReason};

/// Memory for what a receive brings, except for large payloads.
const STAGING_BYTES: usize = 256 << 10;

/// A connection on its socket.
pub(super) struct TcpLane {
    stream: Stream,
    pub(super) connection: RefCell<Connection>,
    /// There is something to send.
    pub(super) output: Notify,
    /// The connection has been initialized, or lost.
    settled: Notify,
}

impl Outlet for SendBatch {
    fn push_bytes(&mut self, bytes: &[u8]) {
        SendBatch::push_bytes(self, bytes);
    }

    fn push_buffer(&mut self, buffer: Buffer, range: Range<usize>) {
        SendBatch::push_buffer(self, buffer, range);
    }

    fn is_full(&self) -> bool {
        SendBatch::is_full(self)
    }
}

impl TcpLane {
    pub(super) fn close(&self, reason: LossReason) {
        self.connection.borrow_mut().fail(reason);
        self.stream.shutdown();
    }

    /// Wakes its tasks after a change.
    pub(super) fn tell(&self) {
        let connection = self.connection.borrow();
        if connection.loss().is_some() {
            self.output.notify_one();
            self.settled.notify_all();
        } else if connection.has_output() {
            self.output.notify_one();
        }
    }

    async fn wait_until_settled(&self) -> Result<(), LossReason> {
        loop {
            {
                let connection = self.connection.borrow();
                if let Some(reason) = connection.loss() {
                    return Err(reason);
                }
                if connection.is_ready() {
                    return Ok(());
                }
            }
            self.settled.notified().await;
        }
    }
}

impl QueuePair {
    /// Connects to `address`, under TLS if there is a key, and initializes the connection; no
    /// command has been sent yet.
    pub(crate) async fn over_tcp(
        address: SocketAddr,
        settings: Settings,
        psk: Option<&TlsPsk>,
        lost: Rc<Notify>,
    ) -> Result<QueuePair, Error> {
        let stream = TcpStream::connect(address, &SocketOptions::default())
            .await
            .map_err(|source| Error::Unreachable { address, source })?;
        let stream = match psk {
            Some(psk) => Stream::connect(stream, psk)
                .await
                .map_err(|source| Error::Tls { address, source })?,
            None => Stream::plain(stream),
        };
        let lane = Rc::new(TcpLane {
            stream,
            connection: RefCell::new(Connection::new(settings)),
            output: Notify::new(),
            settled: Notify::new(),
        });
        let queue = QueuePair::new(Lane::Tcp(Rc::clone(&lane)), settings.depth, lost);
        drop(spawn(send(Rc::clone(&queue.0), Rc::clone(&lane))));
        drop(spawn(receive(Rc::clone(&queue.0), Rc::clone(&lane))));
        let mut opening = Opening(Some(&queue));
        lane.wait_until_settled().await?;
        opening.0 = None;
        drop(opening);
        Ok(queue)
    }
}

/// Closes a queue that nobody has got yet, so that giving up half way leaves no tasks behind.
struct Opening<'a>(Option<&'a QueuePair>);

impl Drop for Opening<'_> {
    fn drop(&mut self) {
        if let Some(queue) = self.0 {
            queue.close(LossReason::Disconnected);
        }
    }
}

async fn send(queue: Rc<Queue>, lane: Rc<TcpLane>) {
    let mut batch = SendBatch::new();
    loop {
        lane.connection.borrow_mut().transmit(&mut batch);
        if batch.is_empty() {
            if lane.connection.borrow().loss().is_some() {
                break;
            }
            lane.output.notified().await;
            continue;
        }
        let (sent, result) = lane.stream.send(batch).await;
        batch = sent;
        let mut connection = lane.connection.borrow_mut();
        connection.transmitted(batch.take_buffers());
        if let Err(error) = result {
            connection.fail(LossReason::Network(error.kind()));
        }
        drop(connection);
        queue.after_change();
    }
    lane.stream.shutdown();
}

async fn receive(queue: Rc<Queue>, lane: Rc<TcpLane>) {
    let mut staging = Buffer::new(STAGING_BYTES);
    let mut settled = false;
    while lane.connection.borrow().loss().is_none() {
        let lent = lane.connection.borrow_mut().lend();
        match lent {
            Some((buffer, range)) => receive_payload(&lane, buffer, range).await,
            None => staging = receive_some(&lane, staging).await,
        }
        if !settled && lane.connection.borrow().is_ready() {
            settled = true;
            lane.settled.notify_all();
        }
        queue.after_change();
    }
}

async fn receive_payload(lane: &TcpLane, buffer: Buffer, range: Range<usize>) {
    let wanted = range.len();
    let (buffer, result) = lane.stream.recv_exact(buffer, range).await;
    let mut connection = lane.connection.borrow_mut();
    match result {
        Ok(()) => connection.returned(buffer, wanted),
        Err(error) => {
            connection.fail(loss_of(&error));
            connection.returned(buffer, 0);
        }
    }
}

async fn receive_some(lane: &TcpLane, staging: Buffer) -> Buffer {
    let wanted = lane.connection.borrow().receive_hint_bytes(staging.len());
    let (staging, result) = lane.stream.recv(staging, 0..wanted).await;
    let mut connection = lane.connection.borrow_mut();
    match result {
        Ok(0) => connection.fail(LossReason::Closed),
        // An offence has already ended the connection, which is all there is to do about it.
        Ok(bytes) => drop(connection.receive(&staging[..bytes])),
        Err(error) => connection.fail(loss_of(&error)),
    }
    staging
}

fn loss_of(error: &std::io::Error) -> LossReason {
    match error.kind() {
        std::io::ErrorKind::UnexpectedEof => LossReason::Closed,
        kind => LossReason::Network(kind),
    }
}
