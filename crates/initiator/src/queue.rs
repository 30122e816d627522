//! [`QueuePair`]: a [`Connection`] on a socket, driven by two tasks, one for each direction.
//!
//! Sends batch themselves: while one is in flight, and until every task that is ready has run,
//! new commands gather for the next. Completions come in as many as one receive brings.

use std::cell::RefCell;
use std::future::Future;
use std::net::SocketAddr;
use std::ops::Range;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use access::TlsPsk;
use block::Buffer;
use nvme::{CompletionEntry, SubmissionEntry};
use reactor::net::{SendBatch, SocketOptions, TcpStream};
use reactor::spawn;
use reactor::sync::Notify;
use tls::Stream;

use crate::connection::{CommandId, Connection, Data, Outlet, Settings};
use crate::{Error, LossReason};

/// Memory for what a receive brings, except for large payloads.
const STAGING_BYTES: usize = 256 << 10;

/// One queue of a controller: submits commands as they are, without retries.
#[derive(Clone)]
pub struct QueuePair(Rc<Queue>);

struct Queue {
    stream: Stream,
    connection: RefCell<Connection>,
    /// Who waits for the command in each slot.
    wakers: RefCell<Vec<Option<Waker>>>,
    /// There is something to send.
    output: Notify,
    /// A slot has become free.
    freed: Notify,
    /// The connection has been initialized, or lost.
    settled: Notify,
    /// Shared by the queues of a controller: one of them is lost.
    lost: Rc<Notify>,
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

impl QueuePair {
    /// Connects to `address`, under TLS if there is a key, and initializes the connection; no
    /// command has been sent yet.
    pub(crate) async fn open(
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
        let queue = Rc::new(Queue {
            stream,
            connection: RefCell::new(Connection::new(settings)),
            wakers: RefCell::new(vec![None; usize::from(settings.depth)]),
            output: Notify::new(),
            freed: Notify::new(),
            settled: Notify::new(),
            lost,
        });
        drop(spawn(send(Rc::clone(&queue))));
        drop(spawn(receive(Rc::clone(&queue))));
        let queue = QueuePair(queue);
        let mut opening = Opening(Some(&queue));
        queue.wait_until_settled().await?;
        opening.0 = None;
        drop(opening);
        Ok(queue)
    }

    async fn wait_until_settled(&self) -> Result<(), LossReason> {
        loop {
            {
                let connection = self.0.connection.borrow();
                if let Some(reason) = connection.loss() {
                    return Err(reason);
                }
                if connection.is_ready() {
                    return Ok(());
                }
            }
            self.0.settled.notified().await;
        }
    }

    /// Sends a command and waits for its completion, whatever the status in it. Waits for a free
    /// slot first if the queue is full. The data comes back whatever happens.
    ///
    /// Dropping the future leaves the command with the controller and its data with the queue.
    pub async fn submit(
        &self,
        entry: SubmissionEntry,
        mut data: Data,
    ) -> (Data, Result<CompletionEntry, LossReason>) {
        loop {
            let submitted = self.0.connection.borrow_mut().submit(entry, data);
            match submitted {
                Ok(id) => {
                    self.0.output.notify_one();
                    return Pending::new(&self.0, id).await;
                }
                Err(back) => data = back,
            }
            if let Some(reason) = self.loss() {
                return (data, Err(reason));
            }
            self.0.freed.notified().await;
        }
    }

    /// Sends two commands that the controller executes as one, and waits for both.
    pub async fn submit_fused(
        &self,
        mut first: (SubmissionEntry, Data),
        mut second: (SubmissionEntry, Data),
    ) -> [(Data, Result<CompletionEntry, LossReason>); 2] {
        loop {
            let (first_entry, second_entry) = (first.0, second.0);
            let submitted = self.0.connection.borrow_mut().submit_fused(first, second);
            match submitted {
                Ok([one, other]) => {
                    self.0.output.notify_one();
                    let (one, other) = (Pending::new(&self.0, one), Pending::new(&self.0, other));
                    return [one.await, other.await];
                }
                Err((one, other)) => {
                    first = (first_entry, one);
                    second = (second_entry, other);
                }
            }
            if let Some(reason) = self.loss() {
                return [(first.1, Err(reason)), (second.1, Err(reason))];
            }
            self.0.freed.notified().await;
        }
    }

    /// Why the queue is gone, if it is.
    pub fn loss(&self) -> Option<LossReason> {
        self.0.connection.borrow().loss()
    }

    /// Header digests and data digests, as agreed with the controller.
    pub fn digests(&self) -> (bool, bool) {
        self.0.connection.borrow().digests()
    }

    /// Ends the queue: everything in flight ends with `reason`.
    pub(crate) fn close(&self, reason: LossReason) {
        self.0.connection.borrow_mut().fail(reason);
        self.0.stream.shutdown();
        self.0.after_change();
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

impl Queue {
    /// Wakes whoever waits for what has just happened on the connection.
    fn after_change(&self) {
        let mut connection = self.connection.borrow_mut();
        let mut wakers = self.wakers.borrow_mut();
        while let Some(id) = connection.next_finished() {
            if let Some(waker) = wakers.get_mut(usize::from(id.0)).and_then(Option::take) {
                waker.wake();
            }
        }
        if connection.take_released() {
            self.freed.notify_all();
        }
        if connection.loss().is_some() {
            self.output.notify_one();
            self.freed.notify_all();
            self.settled.notify_all();
            self.lost.notify_one();
        } else if connection.has_output() {
            self.output.notify_one();
        }
    }
}

async fn send(queue: Rc<Queue>) {
    let mut batch = SendBatch::new();
    loop {
        queue.connection.borrow_mut().transmit(&mut batch);
        if batch.is_empty() {
            if queue.connection.borrow().loss().is_some() {
                break;
            }
            queue.output.notified().await;
            continue;
        }
        let (sent, result) = queue.stream.send(batch).await;
        batch = sent;
        let mut connection = queue.connection.borrow_mut();
        connection.transmitted(batch.take_buffers());
        if let Err(error) = result {
            connection.fail(LossReason::Network(error.kind()));
        }
        drop(connection);
        queue.after_change();
    }
    queue.stream.shutdown();
}

async fn receive(queue: Rc<Queue>) {
    let mut staging = Buffer::new(STAGING_BYTES);
    let mut settled = false;
    while queue.connection.borrow().loss().is_none() {
        let lent = queue.connection.borrow_mut().lend();
        match lent {
            Some((buffer, range)) => receive_payload(&queue, buffer, range).await,
            None => staging = receive_some(&queue, staging).await,
        }
        if !settled && queue.connection.borrow().is_ready() {
            settled = true;
            queue.settled.notify_all();
        }
        queue.after_change();
    }
}

async fn receive_payload(queue: &Queue, buffer: Buffer, range: Range<usize>) {
    let wanted = range.len();
    let (buffer, result) = queue.stream.recv_exact(buffer, range).await;
    let mut connection = queue.connection.borrow_mut();
    match result {
        Ok(()) => connection.returned(buffer, wanted),
        Err(error) => {
            connection.fail(loss_of(&error));
            connection.returned(buffer, 0);
        }
    }
}

async fn receive_some(queue: &Queue, staging: Buffer) -> Buffer {
    let wanted = queue.connection.borrow().receive_hint_bytes(staging.len());
    let (staging, result) = queue.stream.recv(staging, 0..wanted).await;
    let mut connection = queue.connection.borrow_mut();
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

/// Waits for one command.
struct Pending<'a> {
    queue: &'a Queue,
    id: CommandId,
    taken: bool,
}

impl<'a> Pending<'a> {
    fn new(queue: &'a Queue, id: CommandId) -> Pending<'a> {
        Pending {
            queue,
            id,
            taken: false,
        }
    }
}

impl Future for Pending<'_> {
    type Output = (Data, Result<CompletionEntry, LossReason>);

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let queue = self.queue;
        if let Some(outcome) = queue.connection.borrow_mut().take(self.id) {
            self.taken = true;
            queue.freed.notify_one();
            return Poll::Ready(outcome);
        }
        if let Some(waker) = queue.wakers.borrow_mut().get_mut(usize::from(self.id.0)) {
            match waker {
                Some(waker) => waker.clone_from(context.waker()),
                None => *waker = Some(context.waker().clone()),
            }
        }
        Poll::Pending
    }
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        if !self.taken {
            self.queue.connection.borrow_mut().orphan(self.id);
            self.queue.freed.notify_one();
        }
    }
}
