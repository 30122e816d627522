//! Queues on an RDMA device, each driven by one task that takes what the device has ended.
//! Commands go to the device when they are submitted.

use std::cell::RefCell;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;

use block::Buffer;
use nvme::rdma::{ConnectAccept, ConnectReject, ConnectRequest, RejectStatus};
use nvme::{CompletionEntry, SubmissionEntry};
use rdma::{HostCompletion, HostQueue, RdmaError, Shape};
use reactor::spawn;
use reactor::sync::Notify;
use zerocopy::IntoBytes;

use super::{Lane, Queue, QueuePair};
use crate::connection::{CommandId, Device, KeyedConnection, KeyedSettings, Memory};
use crate::{Error, LossReason};

/// A connection on its device.
pub(super) struct RdmaLane {
    device: HostQueue,
    pub(super) connection: RefCell<KeyedConnection>,
    depth: u16,
}

/// Why a controller does not agree to a connection.
#[derive(Debug, thiserror::Error)]
#[error("the controller refuses the connection: {0:?}")]
struct Rejected(RejectStatus);

impl QueuePair {
    /// Connects a queue at `address`; no command has been sent yet.
    pub(crate) async fn over_rdma(
        address: SocketAddr,
        (queue_id, controller_id): (u16, u16),
        settings: KeyedSettings,
        lost: Rc<Notify>,
    ) -> Result<QueuePair, Error> {
        let unreachable = |source| Error::Unreachable { address, source };
        let shape = Shape {
            receives: u32::from(settings.depth) + 1,
            receive_bytes: size_of::<CompletionEntry>() as u32,
            sends: settings.depth.into(),
        };
        let message_bytes = size_of::<SubmissionEntry>() as u32 + settings.in_capsule_bytes;
        let request = ConnectRequest::new(queue_id, settings.depth, controller_id);
        let connected = HostQueue::connect(address, &shape, message_bytes, request.as_bytes());
        let (device, said) = connected
            .await
            .map_err(|error| unreachable(reason_of(error)))?;
        if ConnectAccept::of(&said).is_none() {
            return Err(Error::Nonsense("answer to a connection over RDMA"));
        }
        let lane = Rc::new(RdmaLane {
            device,
            connection: RefCell::new(KeyedConnection::new(settings)),
            depth: settings.depth,
        });
        let queue = QueuePair::new(Lane::Rdma(Rc::clone(&lane)), settings.depth, lost);
        drop(spawn(receive(Rc::clone(&queue.0), lane)));
        Ok(queue)
    }
}

/// What the controller said about it, where it did.
fn reason_of(error: RdmaError) -> io::Error {
    let said = match &error {
        RdmaError::Rejected { private, .. } => ConnectReject::status_of(private),
        _ => None,
    };
    match said.filter(|status| status.name().is_some()) {
        Some(status) => io::Error::new(io::ErrorKind::ConnectionRefused, Rejected(status)),
        None => error.into(),
    }
}

impl RdmaLane {
    /// Gives what waits to the device.
    pub(super) fn transmit(&self) {
        self.connection.borrow_mut().transmit(&mut &self.device);
    }

    pub(super) fn close(&self, reason: LossReason) {
        self.connection.borrow_mut().fail(reason);
    }

    /// Once the connection is lost, has the controller reach no buffer any more; they come back.
    pub(super) fn let_go(&self) {
        let mut connection = self.connection.borrow_mut();
        if connection.loss().is_none() {
            return;
        }
        self.device.disconnect();
        for id in (0..self.depth).map(CommandId) {
            if let Some(buffer) = self.device.reclaim(id.0) {
                connection.returned(id, buffer);
            }
        }
    }

    /// Takes what the device has ended, and says whether there was something.
    fn poll(&self) -> Result<bool, RdmaError> {
        self.device.poll(|completion| {
            let mut connection = self.connection.borrow_mut();
            match completion {
                HostCompletion::Sent(place) => connection.sent(CommandId(place)),
                // An offence has already ended the connection, which is all there is to do.
                HostCompletion::Response(response) => {
                    if let Ok(id) = connection.receive(response)
                        && let Some(buffer) = self.device.reclaim(id.0)
                    {
                        connection.returned(id, buffer);
                    }
                }
            }
        })
    }

    /// Waits until the device may have ended something, unless it has already.
    async fn wait(&self) -> Result<(), RdmaError> {
        self.device.arm()?;
        match self.poll()? {
            true => Ok(()),
            false => self.device.wait().await,
        }
    }

    fn loss_of(&self, error: &RdmaError) -> LossReason {
        match self.device.is_gone() {
            true => LossReason::Closed,
            false => loss_of(error),
        }
    }
}

/// As a network's.
fn loss_of(error: &RdmaError) -> LossReason {
    match error {
        RdmaError::MemoryLock { needed, allowed } => LossReason::MemoryLock {
            needed_bytes: *needed,
            allowed_bytes: *allowed,
        },
        RdmaError::Call { source, .. } => LossReason::Network(source.kind()),
        _ => LossReason::Network(io::ErrorKind::ConnectionReset),
    }
}

impl Device for &HostQueue {
    fn lend(
        &mut self,
        id: CommandId,
        buffer: Buffer,
        writable: bool,
    ) -> Result<Memory, (Buffer, LossReason)> {
        match HostQueue::lend(self, id.0, buffer, writable) {
            Ok(remote) => Ok(Memory {
                address: remote.address,
                key: remote.key,
            }),
            Err((buffer, error)) => Err((buffer, loss_of(&error))),
        }
    }

    fn send(
        &mut self,
        id: CommandId,
        entry: &SubmissionEntry,
        data: &[u8],
    ) -> Result<(), LossReason> {
        let sent = HostQueue::send(self, id.0, entry.as_bytes(), data);
        sent.map_err(|error| loss_of(&error))
    }
}

/// Takes what the device has ended, for as long as the connection is there.
async fn receive(queue: Rc<Queue>, lane: Rc<RdmaLane>) {
    while lane.connection.borrow().loss().is_none() {
        let found = match lane.poll() {
            Ok(false) => lane.wait().await,
            Ok(true) => Ok(()),
            Err(error) => Err(error),
        };
        if let Err(error) = found {
            lane.close(lane.loss_of(&error));
        }
        queue.after_change();
        // Those who were woken go on before more is looked for.
        reactor::yield_now().await;
    }
}
