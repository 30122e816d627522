//! [`QueuePair`]: a connection on its socket or its device, driven by tasks of its own.

mod rdma;
mod tcp;

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use nvme::{CompletionEntry, SubmissionEntry};
use reactor::sync::Notify;

use self::rdma::RdmaLane;
use self::tcp::TcpLane;
use crate::LossReason;
use crate::connection::{CommandId, Data, Outcome};

/// One queue of a controller: submits commands as they are, without retries.
#[derive(Clone)]
pub struct QueuePair(Rc<Queue>);

struct Queue {
    lane: Lane,
    /// Who waits for the command in each slot.
    wakers: RefCell<Vec<Option<Waker>>>,
    /// A slot has become free.
    freed: Notify,
    /// Shared by the queues of a controller: one of them is lost.
    lost: Rc<Notify>,
}

/// What carries the commands, with the machine for it.
enum Lane {
    Tcp(Rc<TcpLane>),
    Rdma(Rc<RdmaLane>),
}

impl Lane {
    fn submit(&self, entry: SubmissionEntry, data: Data) -> Result<CommandId, Data> {
        match self {
            Lane::Tcp(lane) => lane.connection.borrow_mut().submit(entry, data),
            Lane::Rdma(lane) => lane.connection.borrow_mut().submit(entry, data),
        }
    }

    fn submit_fused(
        &self,
        first: (SubmissionEntry, Data),
        second: (SubmissionEntry, Data),
    ) -> Result<[CommandId; 2], (Data, Data)> {
        match self {
            Lane::Tcp(lane) => lane.connection.borrow_mut().submit_fused(first, second),
            Lane::Rdma(lane) => lane.connection.borrow_mut().submit_fused(first, second),
        }
    }

    fn next_finished(&self) -> Option<CommandId> {
        match self {
            Lane::Tcp(lane) => lane.connection.borrow_mut().next_finished(),
            Lane::Rdma(lane) => lane.connection.borrow_mut().next_finished(),
        }
    }

    fn take(&self, id: CommandId) -> Option<(Data, Outcome)> {
        match self {
            Lane::Tcp(lane) => lane.connection.borrow_mut().take(id),
            Lane::Rdma(lane) => lane.connection.borrow_mut().take(id),
        }
    }

    fn orphan(&self, id: CommandId) {
        match self {
            Lane::Tcp(lane) => lane.connection.borrow_mut().orphan(id),
            Lane::Rdma(lane) => lane.connection.borrow_mut().orphan(id),
        }
    }

    fn take_released(&self) -> bool {
        match self {
            Lane::Tcp(lane) => lane.connection.borrow_mut().take_released(),
            Lane::Rdma(lane) => lane.connection.borrow_mut().take_released(),
        }
    }

    fn loss(&self) -> Option<LossReason> {
        match self {
            Lane::Tcp(lane) => lane.connection.borrow().loss(),
            Lane::Rdma(lane) => lane.connection.borrow().loss(),
        }
    }
}

impl QueuePair {
    fn new(lane: Lane, depth: u16, lost: Rc<Notify>) -> QueuePair {
        QueuePair(Rc::new(Queue {
            lane,
            wakers: RefCell::new(vec![None; usize::from(depth)]),
            freed: Notify::new(),
            lost,
        }))
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
            let submitted = self.0.lane.submit(entry, data);
            match submitted {
                Ok(id) => {
                    self.0.flush();
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
            let submitted = self.0.lane.submit_fused(first, second);
            match submitted {
                Ok([one, other]) => {
                    self.0.flush();
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
        self.0.lane.loss()
    }

    /// Header digests and data digests, as agreed with the controller.
    pub fn digests(&self) -> (bool, bool) {
        match &self.0.lane {
            Lane::Tcp(lane) => lane.connection.borrow().digests(),
            Lane::Rdma(_) => (false, false),
        }
    }

    /// Ends the queue: everything in flight ends with `reason`.
    pub(crate) fn close(&self, reason: LossReason) {
        match &self.0.lane {
            Lane::Tcp(lane) => lane.close(reason),
            Lane::Rdma(lane) => lane.close(reason),
        }
        self.0.after_change();
    }
}

impl Queue {
    /// Sends what waits to be sent, now or in a moment.
    fn flush(&self) {
        match &self.lane {
            Lane::Tcp(lane) => lane.output.notify_one(),
            Lane::Rdma(lane) => {
                lane.transmit();
                if lane.connection.borrow().loss().is_some() {
                    self.after_change();
                }
            }
        }
    }

    /// Wakes whoever waits for what has just happened on the connection.
    fn after_change(&self) {
        if let Lane::Rdma(lane) = &self.lane {
            lane.let_go();
        }
        let mut wakers = self.wakers.borrow_mut();
        while let Some(id) = self.lane.next_finished() {
            if let Some(waker) = wakers.get_mut(usize::from(id.0)).and_then(Option::take) {
                waker.wake();
            }
        }
        drop(wakers);
        if self.lane.take_released() {
            self.freed.notify_all();
        }
        if self.lane.loss().is_some() {
            self.freed.notify_all();
            self.lost.notify_one();
        }
        if let Lane::Tcp(lane) = &self.lane {
            lane.tell();
        }
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
    type Output = (Data, Outcome);

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let queue = self.queue;
        if let Some(outcome) = queue.lane.take(self.id) {
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
            self.queue.lane.orphan(self.id);
            self.queue.freed.notify_one();
        }
    }
}
