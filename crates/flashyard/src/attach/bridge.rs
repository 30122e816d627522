//! Between the kernel's FUSE requests and NVMe/TCP: both on one event loop, so that a request
//! changes threads only where the kernel itself makes it.

use std::io::{self, IoSlice};
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use block::{BlockDevice, BlockRange, Buffer, Durability, Geometry, IoError, Lba};
use initiator::{ConnectOptions, Controller, Namespace, Reconnect, TargetAddress};
use reactor::{Reactor, ReactorConfig};
use rustix::io::Errno;

use super::file_system::{Mounted, WRITE_BYTES, about};
use super::wire::{self, Asked};

/// Commands in flight on the one queue.
const QUEUE_DEPTH: u16 = 512;

/// Requests that are read from the kernel before what they led to is sent.
const BATCH: usize = 64;

/// Room for the largest request: a write's data, and what is before it.
const MESSAGE_BYTES: usize = WRITE_BYTES + 4096;

/// Why a volume is not served as a file.
#[derive(Debug, thiserror::Error)]
pub enum BridgeError {
    #[error(transparent)]
    Start(#[from] reactor::StartError),
    #[error("{address}: {source}")]
    Target {
        address: String,
        source: initiator::Error,
    },
    #[error("serving a file at {}: {source}", mount.display())]
    Mount { mount: PathBuf, source: io::Error },
}

/// Serves the volume at `address` as a file at `mount` until that is unmounted; a controller that
/// is lost meanwhile is waited for. `ready` is told its geometry once it can be used.
pub fn serve(
    address: &TargetAddress,
    host_nqn: String,
    mount: PathBuf,
    ready: impl FnOnce(&Geometry) -> io::Result<()>,
) -> Result<(), BridgeError> {
    let reactor = Reactor::io_uring(ReactorConfig::default())?;
    reactor.run(async move {
        let connected = connect(address, host_nqn).await;
        let (controller, namespace) = connected.map_err(|source| BridgeError::Target {
            address: address.to_string(),
            source,
        })?;
        let served = serve_at(&mount, Rc::new(namespace), ready).await;
        controller.disconnect().await;
        served.map_err(|source| BridgeError::Mount { mount, source })
    })
}

async fn serve_at<D: BlockDevice + 'static>(
    mount: &Path,
    device: Rc<D>,
    ready: impl FnOnce(&Geometry) -> io::Result<()>,
) -> io::Result<()> {
    let mounted = Mounted::mount(mount)?;
    ready(&device.geometry())?;
    let ended = requests(&mounted.channel, &device).await;
    // What was acknowledged and may still be in a cache is made to last before we go.
    let _ = device.flush().await;
    ended
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

/// Reads requests and starts what they ask for, until the file system is unmounted.
async fn requests<D: BlockDevice + 'static>(
    channel: &Rc<OwnedFd>,
    device: &Rc<D>,
) -> io::Result<()> {
    let mut message = vec![0; MESSAGE_BYTES];
    let mut in_batch = 0;
    loop {
        match rustix::io::read(channel, &mut message) {
            Ok(bytes) => {
                start(channel, device, &message[..bytes]);
                in_batch += 1;
                if in_batch == BATCH {
                    in_batch = 0;
                    reactor::yield_now().await;
                }
            }
            Err(Errno::AGAIN) => {
                in_batch = 0;
                reactor::readable(channel).await?;
            }
            // A request that was taken back before it was read.
            Err(Errno::NOENT | Errno::INTR) => {}
            // Unmounted.
            Err(Errno::NODEV) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
}

fn start<D: BlockDevice + 'static>(channel: &Rc<OwnedFd>, device: &Rc<D>, message: &[u8]) {
    let Some((unique, asked)) = wire::parse(message) else {
        // The kernel of another protocol would have been refused at the mount.
        return;
    };
    let (channel, device) = (Rc::clone(channel), Rc::clone(device));
    let geometry = device.geometry();
    match asked {
        Asked::Nothing => {}
        Asked::Read { offset, bytes } => drop(reactor::spawn(async move {
            let (buffer, within) = read(&*device, offset, u64::from(bytes)).await;
            let data = within.map(|within| &buffer[within]);
            answer(&channel, unique, data.map_err(errno));
        })),
        Asked::Write { offset, data } => {
            let bytes = data.len() as u32;
            let range = blocks(&geometry, offset, u64::from(bytes));
            let data = Buffer::copy_of(data);
            drop(reactor::spawn(async move {
                let done = match range {
                    Ok(range) => device.write(range.start, data, Durability::Cached).await.1,
                    Err(error) => Err(error),
                };
                let done = done.map(|()| wire::written(bytes)).map_err(errno);
                answer(&channel, unique, done.as_deref().map_err(|errno| *errno));
            }));
        }
        Asked::Flush | Asked::Deallocate { .. } | Asked::WriteZeroes { .. } => {
            let asked = command(&geometry, asked);
            drop(reactor::spawn(async move {
                let done = run(&*device, asked).await;
                answer(&channel, unique, done.map(|()| &[][..]).map_err(errno));
            }));
        }
        other => {
            let about = about(other, &geometry);
            answer(&channel, unique, about.as_deref().map_err(|errno| *errno));
        }
    }
}

/// A command that moves no data.
enum Command {
    Flush,
    Deallocate(BlockRange),
    WriteZeroes(BlockRange),
}

fn command(geometry: &Geometry, asked: Asked<'_>) -> Result<Command, IoError> {
    match asked {
        Asked::Deallocate { offset, bytes } => {
            blocks(geometry, offset, bytes).map(Command::Deallocate)
        }
        Asked::WriteZeroes { offset, bytes } => {
            blocks(geometry, offset, bytes).map(Command::WriteZeroes)
        }
        _ => Ok(Command::Flush),
    }
}

async fn run<D: BlockDevice>(device: &D, command: Result<Command, IoError>) -> Result<(), IoError> {
    match command? {
        Command::Flush => device.flush().await,
        Command::Deallocate(range) => device.deallocate(range).await,
        Command::WriteZeroes(range) => device.write_zeroes(range, Durability::Cached).await,
    }
}

/// Answers a request with a payload or an errno.
fn answer(channel: &OwnedFd, unique: u64, done: Result<&[u8], i32>) {
    let (errno, payload) = match done {
        Ok(payload) => (0, payload),
        Err(errno) => (errno, &[][..]),
    };
    let head = wire::answer(unique, errno, payload.len());
    let parts = [IoSlice::new(&head), IoSlice::new(payload)];
    // Whoever asked may be gone, and so may the file system: nobody waits for it then.
    let _ = rustix::io::writev(channel, &parts);
}

/// The errno that says most of what the error says.
fn errno(error: IoError) -> i32 {
    let errno = match error {
        IoError::OutOfRange | IoError::InvalidRequest => Errno::INVAL,
        IoError::CapacityExceeded => Errno::NOSPC,
        IoError::WriteProtected => Errno::ROFS,
        IoError::NotReady => Errno::AGAIN,
        _ => Errno::IO,
    };
    errno.raw_os_error()
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

/// Reads whole blocks around what was asked for; what is beyond the end is cut off. Gives the
/// blocks, and where in them it is.
async fn read<D: BlockDevice>(
    device: &D,
    offset: u64,
    bytes: u64,
) -> (Buffer, Result<Range<usize>, IoError>) {
    let geometry = device.geometry();
    let end = offset.saturating_add(bytes).min(geometry.capacity_bytes());
    if offset >= end {
        return (Buffer::new(0), Ok(0..0));
    }
    let block = u64::from(geometry.block_bytes);
    let first = offset / block;
    let count = end.div_ceil(block) - first;
    let buffer = Buffer::new((count * block) as usize);
    let (buffer, result) = device.read(Lba(first), buffer).await;
    let within = (offset - first * block) as usize..(end - first * block) as usize;
    (buffer, result.map(|()| within))
}

#[cfg(test)]
mod tests {
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
    fn reads_that_cross_blocks_and_the_end_give_what_there_is() {
        Reactor::simulated(1).run(async {
            let device = drive::MemoryDrive::new(Geometry::new(4096, 2).unwrap());
            let data = Buffer::copy_of(&[[1; 4096], [2; 4096]].concat());
            device
                .write(Lba(0), data, Durability::Cached)
                .await
                .1
                .unwrap();
            let (buffer, within) = read(&device, 4000, 200).await;
            let expected = [[1; 96].as_slice(), &[2; 104]].concat();
            assert_eq!(buffer[within.unwrap()], expected);
            assert_eq!(read(&device, 8000, 4096).await.1, Ok(8000 - 4096..4096));
            assert_eq!(read(&device, 8192, 1).await.1, Ok(0..0));
        });
    }
}
