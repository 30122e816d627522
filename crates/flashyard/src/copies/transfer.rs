//! Data of a volume over NVMe/TCP, many parts at once, with bounded memory; and what may block
//! meanwhile, on a thread beside, so that the controller is kept alive.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use block::{BlockDevice, BlockRange, Buffer, Durability, Lba};
use initiator::{Controller, Namespace, State, TargetAddress};
use reactor::{spawn, timeout};

use super::Connecting;
use super::error::CopyError;
use super::onlooker::Onlooker;

/// Bytes read or written with one request: what many nodes take in one command.
pub const PART_BYTES: u64 = 256 << 10;
/// What is under way at once; twice as much is in memory, for the pipe has its turn meanwhile.
pub const BATCH_BYTES: u64 = 8 << 20;
pub const BATCH_PARTS: usize = 32;
/// How soon an interrupt or a lost connection is noticed while a pipe waits.
const LOOKS_EVERY: Duration = Duration::from_millis(100);

/// A part of a volume, and what stands there.
pub struct Part {
    pub start: u64,
    pub contents: Contents,
}

pub enum Contents {
    Data(Buffer),
    /// So many bytes that read as zeroes.
    Zeroes(u64),
}

/// A part that is to be read.
#[derive(Clone, Copy)]
pub struct Wanted {
    pub start: u64,
    pub bytes: u64,
    /// It reads as zeroes, and need not be read.
    pub zeroes: bool,
}

/// A volume that this process is a host of.
pub struct Remote {
    controller: Controller,
    namespace: Namespace,
}

impl Remote {
    /// Connects. A connection that is lost is not made again: what was written and not yet flushed
    /// could be lost with the node's power.
    pub async fn connect(
        address: &TargetAddress,
        connecting: Connecting,
    ) -> Result<Remote, CopyError> {
        let failed = |source| CopyError::Target {
            address: address.to_string(),
            source,
        };
        let Connecting { options, .. } = connecting;
        let controller = Controller::connect(address, &address.subsystem_nqn, options);
        let controller = controller.await.map_err(failed)?;
        let namespace = controller.namespace(address.namespace_id.unwrap_or(1));
        let namespace = namespace.await.map_err(failed)?;
        Ok(Remote {
            controller,
            namespace,
        })
    }

    /// How many bytes the volume has.
    pub fn bytes(&self) -> u64 {
        let geometry = self.namespace.geometry();
        geometry.block_count * u64::from(geometry.block_bytes)
    }

    fn block_bytes(&self) -> u64 {
        u64::from(self.namespace.geometry().block_bytes)
    }

    /// Reads parts, all at once.
    pub async fn read(&self, wanted: Vec<Wanted>) -> Result<Vec<Part>, CopyError> {
        let block = self.block_bytes();
        let reading = wanted.into_iter().map(|part| {
            let namespace = self.namespace.clone();
            let Wanted {
                start,
                bytes,
                zeroes,
            } = part;
            spawn(async move {
                if zeroes {
                    let contents = Contents::Zeroes(bytes);
                    return Ok(Part { start, contents });
                }
                // At most PART_BYTES.
                let buffer = Buffer::new(bytes as usize);
                let (buffer, done) = namespace.read(Lba(start / block), buffer).await;
                let contents = Contents::Data(buffer);
                done.map(|()| Part { start, contents }).map_err(io_error(
                    "cannot read",
                    start,
                    bytes,
                ))
            })
        });
        let reading: Vec<_> = reading.collect();
        let mut parts = Vec::with_capacity(reading.len());
        for part in reading {
            parts.push(part.await?);
        }
        Ok(parts)
    }

    /// Writes parts, all at once; they do not overlap.
    pub async fn write(&self, parts: Vec<Part>) -> Result<(), CopyError> {
        let block = self.block_bytes();
        let writing = parts.into_iter().map(|Part { start, contents }| {
            let namespace = self.namespace.clone();
            let at = Lba(start / block);
            spawn(async move {
                let (bytes, done) = match contents {
                    Contents::Data(buffer) => {
                        let write = namespace.write(at, buffer, Durability::Cached);
                        let (buffer, done) = write.await;
                        (buffer.len() as u64, done)
                    }
                    Contents::Zeroes(bytes) => {
                        let range = BlockRange {
                            start: at,
                            blocks: bytes / block,
                        };
                        (bytes, clear(&namespace, range).await)
                    }
                };
                done.map_err(io_error("cannot write", start, bytes))
            })
        });
        let writing: Vec<_> = writing.collect();
        for part in writing {
            part.await?;
        }
        Ok(())
    }

    /// Waits for something that a pipe may hold up, until somebody interrupts or the connection is
    /// lost.
    pub async fn beside<T>(
        &self,
        onlooker: &Onlooker,
        work: impl Future<Output = T>,
    ) -> Result<T, CopyError> {
        let mut work = pin!(work);
        while !onlooker.is_stopped() {
            if let Ok(done) = timeout(LOOKS_EVERY, work.as_mut()).await {
                return Ok(done);
            }
            if let State::Dead(reason) | State::Failing(reason) = self.controller.state() {
                return Err(CopyError::Lost(reason));
            }
        }
        Err(CopyError::Interrupted)
    }

    /// Makes durable what was written.
    pub async fn flush(&self) -> Result<(), CopyError> {
        let flushed = self.namespace.flush().await;
        flushed.map_err(io_error("cannot flush", 0, self.bytes()))
    }

    pub async fn disconnect(&self) {
        self.controller.disconnect().await;
    }
}

/// Has a range read as zeroes, and gives its space back where that can be.
async fn clear(namespace: &Namespace, range: BlockRange) -> Result<(), block::IoError> {
    match namespace.geometry().deallocates {
        true => namespace.deallocate(range).await,
        false => namespace.write_zeroes(range, Durability::Cached).await,
    }
}

fn io_error(
    verb: &'static str,
    start: u64,
    bytes: u64,
) -> impl FnOnce(block::IoError) -> CopyError {
    move |error| CopyError::Io {
        verb,
        bytes,
        start,
        error,
    }
}
