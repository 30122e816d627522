//! From the threads that answer the kernel to the event loop that speaks NVMe/TCP, and back.

use std::rc::Rc;
use std::sync::mpsc;
use std::thread::JoinHandle;

use block::{BlockDevice, BlockRange, Buffer, Durability, Geometry, IoError, Lba};
use initiator::{ConnectOptions, Controller, Namespace, Reconnect, TargetAddress};
use reactor::mailbox::{self, TrySendError};
use reactor::{Reactor, ReactorConfig};

/// Requests that wait for the event loop; more than the kernel keeps outstanding.
const MAILBOX: usize = 1024;

/// Commands in flight on the one queue.
const QUEUE_DEPTH: u16 = 512;

/// What the kernel asks, with whom to tell.
pub enum Request {
    Read {
        offset: u64,
        bytes: usize,
        done: ReadDone,
    },
    Write {
        offset: u64,
        data: Buffer,
        done: Done,
    },
    Flush {
        done: Done,
    },
    Deallocate {
        offset: u64,
        bytes: u64,
        done: Done,
    },
    WriteZeroes {
        offset: u64,
        bytes: u64,
        done: Done,
    },
}

/// Told what was read.
pub type ReadDone = Box<dyn FnOnce(Result<&[u8], IoError>) + Send>;

/// Told how it went.
pub type Done = Box<dyn FnOnce(Result<(), IoError>) + Send>;

/// The event loop's thread; it ends, and disconnects, when all senders are gone.
pub struct Bridge {
    pub requests: mailbox::Sender<Request>,
    pub geometry: Geometry,
    pub thread: JoinHandle<()>,
}

/// Why there is no bridge.
#[derive(Debug, thiserror::Error)]
pub enum BridgeError {
    #[error(transparent)]
    Start(#[from] reactor::StartError),
    #[error("{0}: {1}")]
    Target(String, initiator::Error),
    #[error("the event loop ended at its start")]
    Lost,
}

impl Bridge {
    /// Connects; a controller that is lost later is waited for.
    pub fn connect(address: TargetAddress, host_nqn: String) -> Result<Bridge, BridgeError> {
        let (requests, received) = mailbox::channel(MAILBOX);
        let (ready, connected) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            let reactor = match Reactor::io_uring(ReactorConfig::default()) {
                Ok(reactor) => reactor,
                // Whoever started this waits for the answer.
                Err(error) => return drop(ready.send(Err(error.into()))),
            };
            reactor.run(serve(address, host_nqn, ready, received));
        });
        let geometry = connected.recv().map_err(|_| BridgeError::Lost)??;
        Ok(Bridge {
            requests,
            geometry,
            thread,
        })
    }
}

/// Hands a request to the event loop; when that is gone, the request is told so.
pub fn submit(requests: &mailbox::Sender<Request>, request: Request) {
    let mut request = request;
    loop {
        match requests.try_send(request) {
            Ok(()) => return,
            Err(TrySendError::Closed(request)) => return request.refuse(IoError::DeviceGone),
            Err(TrySendError::Full(back)) => {
                request = back;
                std::thread::yield_now();
            }
        }
    }
}

async fn serve(
    address: TargetAddress,
    host_nqn: String,
    ready: mpsc::Sender<Result<Geometry, BridgeError>>,
    mut requests: mailbox::Receiver<Request>,
) {
    let (controller, namespace) = match connect(&address, host_nqn).await {
        Ok(connected) => connected,
        Err(error) => {
            let error = BridgeError::Target(address.to_string(), error);
            return drop(ready.send(Err(error)));
        }
    };
    drop(ready.send(Ok(namespace.geometry())));
    let namespace = Rc::new(namespace);
    while let Some(request) = requests.recv().await {
        let namespace = Rc::clone(&namespace);
        drop(reactor::spawn(
            async move { request.run(&*namespace).await },
        ));
    }
    // What was acknowledged and may still be in a cache is made to last before we go.
    let _ = namespace.flush().await;
    controller.disconnect().await;
}

async fn connect(
    address: &TargetAddress,
    host_nqn: String,
) -> Result<(Controller, Namespace), initiator::Error> {
    let mut options = ConnectOptions::new(host_nqn);
    options.io_queues = 1;
    options.queue_depth = QUEUE_DEPTH;
    options.reconnect = Some(Reconnect::default());
    let controller = Controller::connect(address.address, &address.subsystem_nqn, options).await?;
    let namespace = controller
        .namespace(address.namespace_id.unwrap_or(1))
        .await?;
    Ok((controller, namespace))
}

/// The run of blocks, if it is a whole number of them.
fn blocks(geometry: &Geometry, offset: u64, bytes: u64) -> Result<BlockRange, IoError> {
    let block = u64::from(geometry.block_bytes);
    let whole = offset.is_multiple_of(block) && bytes.is_multiple_of(block);
    let range = BlockRange::new(Lba(offset / block), bytes / block);
    match whole {
        true if geometry.contains(range) => Ok(range),
        true => Err(IoError::OutOfRange),
        false => Err(IoError::InvalidRequest),
    }
}

impl Request {
    async fn run<D: BlockDevice>(self, device: &D) {
        let geometry = device.geometry();
        match self {
            Request::Read {
                offset,
                bytes,
                done,
            } => read(device, offset, bytes, done).await,
            Request::Write { offset, data, done } => {
                match blocks(&geometry, offset, data.len() as u64) {
                    Ok(range) => {
                        let written = device.write(range.start, data, Durability::Cached).await;
                        done(written.1);
                    }
                    Err(error) => done(Err(error)),
                }
            }
            Request::Flush { done } => done(device.flush().await),
            Request::Deallocate {
                offset,
                bytes,
                done,
            } => match blocks(&geometry, offset, bytes) {
                Ok(range) => done(device.deallocate(range).await),
                Err(error) => done(Err(error)),
            },
            Request::WriteZeroes {
                offset,
                bytes,
                done,
            } => match blocks(&geometry, offset, bytes) {
                Ok(range) => done(device.write_zeroes(range, Durability::Cached).await),
                Err(error) => done(Err(error)),
            },
        }
    }

    fn refuse(self, error: IoError) {
        match self {
            Request::Read { done, .. } => done(Err(error)),
            Request::Write { done, .. }
            | Request::Flush { done }
            | Request::Deallocate { done, .. }
            | Request::WriteZeroes { done, .. } => done(Err(error)),
        }
    }
}

/// Reads whole blocks around what was asked for; what is beyond the end is cut off.
async fn read<D: BlockDevice>(device: &D, offset: u64, bytes: usize, done: ReadDone) {
    let geometry = device.geometry();
    let end = (offset + bytes as u64).min(geometry.capacity_bytes());
    if offset >= end {
        return done(Ok(&[]));
    }
    let block = u64::from(geometry.block_bytes);
    let first = offset / block;
    let count = end.div_ceil(block) - first;
    let buffer = Buffer::new((count * block) as usize);
    let (buffer, result) = device.read(Lba(first), buffer).await;
    let within = (offset - first * block) as usize..(end - first * block) as usize;
    done(result.map(|()| &buffer[within]));
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn requests_that_are_no_whole_blocks_are_refused() {
        let geometry = Geometry::new(4096, 8).unwrap();
        assert_eq!(
            blocks(&geometry, 4096, 8192),
            Ok(BlockRange::new(Lba(1), 2))
        );
        assert_eq!(blocks(&geometry, 512, 4096), Err(IoError::InvalidRequest));
        assert_eq!(blocks(&geometry, 0, 100), Err(IoError::InvalidRequest));
        assert_eq!(blocks(&geometry, 28_672, 8192), Err(IoError::OutOfRange));
    }

    #[test]
    fn a_request_after_the_end_is_answered() {
        let (requests, received) = mailbox::channel(2);
        drop(received);
        let (sender, answer) = mpsc::channel();
        let done: Done = Box::new(move |result| {
            let _ = sender.send(result);
        });
        submit(&requests, Request::Flush { done });
        assert_eq!(answer.recv(), Ok(Err(IoError::DeviceGone)));
    }
}
