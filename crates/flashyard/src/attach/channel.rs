//! Requests that are read from `/dev/fuse`, and answers that are written there.

use std::io::{self, IoSlice};
use std::os::fd::OwnedFd;
use std::rc::Rc;

use block::{BlockDevice, Buffer, Durability};
use rustix::io::Errno;

use super::file_system::WRITE_BYTES;
use super::wire::{self, Asked};
use super::work::{Span, Work, errno};

/// Requests that are read from the kernel before what they led to is sent.
const BATCH: usize = 64;

/// Room for the largest request: a write's data, and what is before it.
const MESSAGE_BYTES: usize = WRITE_BYTES + 4096;

/// Reads requests and starts what they ask for, until the file system is unmounted.
pub async fn serve<D: BlockDevice + 'static>(
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
    match Work::of(asked, &device.geometry()) {
        Work::Nothing => {}
        Work::Answer(done) => {
            answer(&channel, unique, done.as_deref().map_err(|errno| *errno));
        }
        Work::Read(None) => answer(&channel, unique, Ok(&[])),
        Work::Read(Some(span)) => drop(reactor::spawn(async move {
            let (buffer, done) = read(&*device, &span).await;
            answer(&channel, unique, done.map(|()| &buffer[span.within]));
        })),
        Work::Write(range) => {
            let Asked::Write { data, .. } = asked else {
                return;
            };
            let (data, bytes) = (Buffer::copy_of(data), data.len() as u32);
            drop(reactor::spawn(async move {
                let (_, done) = device.write(range.start, data, Durability::Cached).await;
                let done = done.map(|()| wire::written(bytes)).map_err(errno);
                answer(&channel, unique, done.as_deref().map_err(|errno| *errno));
            }));
        }
        Work::Command(command) => drop(reactor::spawn(async move {
            let done = command.run(&*device).await;
            answer(&channel, unique, done.map(|()| &[][..]));
        })),
    }
}

/// Reads the blocks of `span` into memory of its own; an errno if that fails.
pub async fn read<D: BlockDevice>(device: &D, span: &Span) -> (Buffer, Result<(), i32>) {
    let (buffer, done) = device.read(span.first, Buffer::new(span.bytes)).await;
    (buffer, done.map_err(errno))
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
