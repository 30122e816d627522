//! Volumes of other cores: a request travels in a mailbox to the core where the volume lives,
//! the answer, with the buffer, travels back.
//!
//! Every core has a [`Post`]: slots for the requests it has under way elsewhere, and workers that
//! carry out what other cores ask of it. Slots, workers and mailboxes are made at start and
//! reused, so a request allocates nothing. Requests and answers use separate mailboxes: a core
//! that is full of requests still takes answers, so no two cores wait for each other.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

use block::{BlockDevice, BlockRange, Buffer, Durability, Geometry, IoError, Lba};
use reactor::mailbox::{self, Receiver, Sender};
use reactor::sync::{Queue, Signal};
use slab::Slab;

use crate::volume::{Path, Volume};

/// Messages that fit between two cores before senders wait.
const MAILBOX_MESSAGES: usize = 1024;

/// Requests of other cores that a core carries out at once.
const WORKERS: usize = 128;

/// Names a volume between the cores of a node.
pub type VolumeId = u64;

/// What a core gets to reach the others.
pub struct Wiring {
    core: usize,
    requests: Receiver<Request>,
    answers: Receiver<Answer>,
    to_request: Vec<Sender<Request>>,
    to_answer: Vec<Sender<Answer>>,
}

struct Request {
    volume: VolumeId,
    operation: Operation,
    from_core: usize,
    slot: usize,
}

enum Operation {
    Read {
        start: Lba,
        buffer: Buffer,
    },
    Write {
        start: Lba,
        buffer: Buffer,
        durability: Durability,
    },
    WriteVectored {
        start: Lba,
        buffers: Vec<Buffer>,
        durability: Durability,
    },
    Flush,
    Deallocate {
        range: BlockRange,
    },
    WriteZeroes {
        range: BlockRange,
        durability: Durability,
    },
}

struct Answer {
    slot: usize,
    outcome: Outcome,
}

type Outcome = (Memory, Result<(), IoError>);

/// What was given with a request, on its way back.
enum Memory {
    None,
    One(Buffer),
    Several(Vec<Buffer>),
}

/// The wiring of `cores` cores, one for each.
pub fn wire(cores: usize) -> Vec<Wiring> {
    let requests: Vec<_> = (0..cores)
        .map(|_| mailbox::channel(MAILBOX_MESSAGES))
        .collect();
    let answers: Vec<_> = (0..cores)
        .map(|_| mailbox::channel(MAILBOX_MESSAGES))
        .collect();
    let (to_request, requests): (Vec<_>, Vec<_>) = requests.into_iter().unzip();
    let (to_answer, answers): (Vec<_>, Vec<_>) = answers.into_iter().unzip();
    let receivers = requests.into_iter().zip(answers).enumerate();
    receivers
        .map(|(core, (requests, answers))| Wiring {
            core,
            requests,
            answers,
            to_request: to_request.clone(),
            to_answer: to_answer.clone(),
        })
        .collect()
}

/// A core's end of the traffic between cores.
pub struct Post {
    core: usize,
    to_request: Vec<Sender<Request>>,
    slots: RefCell<Slab<Slot>>,
    /// Signals of slots that are free, to be used again.
    spare: RefCell<Vec<Rc<Signal<Outcome>>>>,
    volumes: RefCell<HashMap<VolumeId, Rc<Volume>>>,
}

struct Slot {
    signal: Rc<Signal<Outcome>>,
    /// The request's future was dropped: nobody waits for the answer.
    abandoned: bool,
}

impl Post {
    /// Starts the traffic of this core, on its reactor.
    pub fn start(wiring: Wiring) -> Rc<Post> {
        let post = Rc::new(Post {
            core: wiring.core,
            to_request: wiring.to_request,
            slots: RefCell::default(),
            spare: RefCell::default(),
            volumes: RefCell::default(),
        });
        if post.to_request.len() > 1 {
            let queue = Rc::new(Queue::bounded(WORKERS));
            for _ in 0..WORKERS {
                let worker = Rc::clone(&post).work(Rc::clone(&queue), wiring.to_answer.clone());
                drop(reactor::spawn(worker));
            }
            drop(reactor::spawn(hand_out(wiring.requests, queue)));
            drop(reactor::spawn(
                Rc::clone(&post).take_answers(wiring.answers),
            ));
        }
        post
    }

    /// Which core this is.
    pub fn core(&self) -> usize {
        self.core
    }

    /// The volume `id` as this core serves it.
    pub fn volume(&self, id: VolumeId) -> Option<Rc<Volume>> {
        self.volumes.borrow().get(&id).cloned()
    }

    /// The volume `id` stands on `path` from now on; it is made if there is none.
    pub fn stand_on(&self, id: VolumeId, path: Path) {
        match self.volume(id) {
            Some(volume) => volume.set_path(path),
            None => self.insert(id, Volume::new(path)),
        }
    }

    /// Makes `volume` known as `id`.
    pub fn insert(&self, id: VolumeId, volume: Rc<Volume>) {
        self.volumes.borrow_mut().insert(id, volume);
    }

    /// Requests for `id` that still arrive find the device gone.
    pub fn remove(&self, id: VolumeId) {
        self.volumes.borrow_mut().remove(&id);
    }

    /// As [`remove`](Post::remove), for all: parts of them that other cores have keep this post.
    pub fn remove_all(&self) {
        drop(self.volumes.take());
    }

    async fn work(self: Rc<Post>, queue: Rc<Queue<Request>>, to_answer: Vec<Sender<Answer>>) {
        while let Some(request) = queue.pop().await {
            let Request {
                volume,
                operation,
                from_core,
                slot,
            } = request;
            let outcome = match self.volume(volume) {
                Some(volume) => operation.carry_out(&volume).await,
                None => (operation.into_memory(), Err(IoError::DeviceGone)),
            };
            if let Some(back) = to_answer.get(from_core) {
                // A core that has stopped waits for nothing.
                let _ = back.send(Answer { slot, outcome }).await;
            }
        }
    }

    async fn take_answers(self: Rc<Post>, mut answers: Receiver<Answer>) {
        while let Some(Answer { slot, outcome }) = answers.recv().await {
            let mut slots = self.slots.borrow_mut();
            match slots.get(slot) {
                Some(waiting) if !waiting.abandoned => waiting.signal.set(outcome),
                Some(_) => drop(slots.remove(slot)),
                None => {}
            }
        }
    }

    async fn ask(&self, home: usize, volume: VolumeId, operation: Operation) -> Outcome {
        let Some(mailbox) = self.to_request.get(home) else {
            return (operation.into_memory(), Err(IoError::Internal));
        };
        let signal = self.spare.borrow_mut().pop().unwrap_or_default();
        let waiting = Slot {
            signal: Rc::clone(&signal),
            abandoned: false,
        };
        let slot = self.slots.borrow_mut().insert(waiting);
        let claim = Claim {
            post: self,
            slot,
            sent: Cell::new(false),
            answered: Cell::new(false),
        };
        let request = Request {
            volume,
            operation,
            from_core: self.core,
            slot,
        };
        if let Err(closed) = mailbox.send(request).await {
            return (closed.0.operation.into_memory(), Err(IoError::DeviceGone));
        }
        claim.sent.set(true);
        let outcome = signal.wait().await;
        claim.answered.set(true);
        outcome
    }
}

/// A slot while its request's future lives.
struct Claim<'a> {
    post: &'a Post,
    slot: usize,
    sent: Cell<bool>,
    answered: Cell<bool>,
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        let mut slots = self.post.slots.borrow_mut();
        if self.sent.get() && !self.answered.get() {
            // The answer, with the buffer, is still to come and frees the slot.
            if let Some(slot) = slots.get_mut(self.slot) {
                slot.abandoned = true;
            }
        } else if let Some(slot) = slots.try_remove(self.slot)
            && self.answered.get()
        {
            self.post.spare.borrow_mut().push(slot.signal);
        }
    }
}

async fn hand_out(mut requests: Receiver<Request>, queue: Rc<Queue<Request>>) {
    while let Some(request) = requests.recv().await {
        if queue.push(request).await.is_err() {
            return;
        }
    }
}

impl Operation {
    async fn carry_out(self, volume: &Volume) -> Outcome {
        match self {
            Operation::Read { start, buffer } => {
                let (buffer, result) = volume.read(start, buffer).await;
                (Memory::One(buffer), result)
            }
            Operation::Write {
                start,
                buffer,
                durability,
            } => {
                let (buffer, result) = volume.write(start, buffer, durability).await;
                (Memory::One(buffer), result)
            }
            Operation::WriteVectored {
                start,
                buffers,
                durability,
            } => {
                let written = volume.write_vectored(start, buffers, durability);
                let (buffers, result) = written.await;
                (Memory::Several(buffers), result)
            }
            Operation::Flush => (Memory::None, volume.flush().await),
            Operation::Deallocate { range } => (Memory::None, volume.deallocate(range).await),
            Operation::WriteZeroes { range, durability } => {
                (Memory::None, volume.write_zeroes(range, durability).await)
            }
        }
    }

    fn into_memory(self) -> Memory {
        match self {
            Operation::Read { buffer, .. } | Operation::Write { buffer, .. } => Memory::One(buffer),
            Operation::WriteVectored { buffers, .. } => Memory::Several(buffers),
            _ => Memory::None,
        }
    }
}

/// A volume that lives on another core.
#[derive(Clone)]
pub struct RemoteVolume {
    post: Rc<Post>,
    home: usize,
    id: VolumeId,
    geometry: Geometry,
}

impl RemoteVolume {
    /// The volume `id` of the core `home`, which has told its `geometry`.
    pub fn new(post: Rc<Post>, home: usize, id: VolumeId, geometry: Geometry) -> RemoteVolume {
        RemoteVolume {
            post,
            home,
            id,
            geometry,
        }
    }

    async fn ask(&self, operation: Operation) -> Outcome {
        self.post.ask(self.home, self.id, operation).await
    }

    /// A transfer's buffer comes back with its answer.
    async fn transfer(&self, operation: Operation) -> (Buffer, Result<(), IoError>) {
        match self.ask(operation).await {
            (Memory::One(buffer), result) => (buffer, result),
            _ => unreachable!("a transfer is answered with its buffer"),
        }
    }
}

impl BlockDevice for RemoteVolume {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    async fn read(&self, start: Lba, buffer: Buffer) -> (Buffer, Result<(), IoError>) {
        self.transfer(Operation::Read { start, buffer }).await
    }

    async fn write(
        &self,
        start: Lba,
        buffer: Buffer,
        durability: Durability,
    ) -> (Buffer, Result<(), IoError>) {
        self.transfer(Operation::Write {
            start,
            buffer,
            durability,
        })
        .await
    }

    async fn write_vectored(
        &self,
        start: Lba,
        buffers: Vec<Buffer>,
        durability: Durability,
    ) -> (Vec<Buffer>, Result<(), IoError>) {
        let operation = Operation::WriteVectored {
            start,
            buffers,
            durability,
        };
        match self.ask(operation).await {
            (Memory::Several(buffers), result) => (buffers, result),
            _ => unreachable!("a write is answered with its buffers"),
        }
    }

    async fn flush(&self) -> Result<(), IoError> {
        self.ask(Operation::Flush).await.1
    }

    async fn deallocate(&self, range: BlockRange) -> Result<(), IoError> {
        self.ask(Operation::Deallocate { range }).await.1
    }

    async fn write_zeroes(&self, range: BlockRange, durability: Durability) -> Result<(), IoError> {
        self.ask(Operation::WriteZeroes { range, durability })
            .await
            .1
    }
}

#[cfg(test)]
#[path = "remote_tests.rs"]
mod tests;
