//! Requests over io_uring: the kernel leaves them in entries of its rings, a queue for each
//! processor, and finds the answers there. No system call more than the event loop makes anyway,
//! and data goes from the entry to the connection and back without being copied here.

use std::cell::RefCell;
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::rc::Rc;

use block::{BlockDevice, Buffer, Durability, IoError};
use reactor::Task;
use reactor::fuse::FuseEntry;
use rustix::io::Errno;

use super::channel;
use super::file_system::WRITE_BYTES;
use super::wire::{self, Asked};
use super::work::{Span, Work, errno};

/// Says whether the kernel offers io_uring; the administrator's to change, not ours.
const PARAMETER: &str = "/sys/module/fuse/parameters/enable_uring";

/// Which processors there may ever be: each has a queue, and the kernel waits for all of them.
const PROCESSORS: &str = "/sys/devices/system/cpu/possible";

/// Entries of all queues together, and at least for each. The kernel uses the entry again that it
/// used last, and touches what a request fills: the memory of most entries is never there.
const ENTRIES: usize = 256;
const QUEUE_ENTRIES_MIN: usize = 8;

/// Whether the kernel would serve a file system of ours over io_uring now.
pub fn is_offered() -> bool {
    why_not().is_none()
}

/// Why the kernel would not, if so.
pub fn why_not() -> Option<String> {
    match std::fs::read_to_string(PARAMETER) {
        Ok(value) if value.trim() == "Y" => None,
        Ok(value) => Some(format!("{PARAMETER} is {}", value.trim())),
        Err(_) => Some("this kernel's FUSE does not offer it".to_owned()),
    }
}

/// The tasks that serve the entries.
pub struct Served(Vec<Task<()>>);

impl Served {
    /// Gives the kernel entries for all its queues, and serves what it puts into them.
    ///
    /// # Errors
    /// The first that the kernel gave: then it may wait for entries for ever, and the file system
    /// has to be mounted anew without.
    pub async fn start<D: BlockDevice + 'static>(
        device_file: &Rc<OwnedFd>,
        device: &Rc<D>,
    ) -> io::Result<Served> {
        let text = std::fs::read_to_string(PROCESSORS)?;
        let queues = processors(&text).ok_or(ErrorKind::InvalidData)?;
        let entries = (ENTRIES / usize::from(queues)).max(QUEUE_ENTRIES_MIN);
        let refused = Rc::new(RefCell::new(None));
        let mut served = Vec::new();
        for queue in 0..queues {
            for _ in 0..entries {
                let entry = FuseEntry::new(device_file, queue, WRITE_BYTES)?;
                let (device, refused) = (Rc::clone(device), Rc::clone(&refused));
                served.push(reactor::spawn(async move {
                    let ended = serve(entry, &*device).await;
                    refused.borrow_mut().get_or_insert(ended);
                }));
            }
        }
        // Once to submit them all, once to see which came back: refusals do at once.
        reactor::yield_now().await;
        reactor::yield_now().await;
        match refused.take() {
            Some(error) => Err(error),
            None => Ok(Served(served)),
        }
    }

    /// Waits until the kernel has given all of them back, as it does when the file system ends.
    pub async fn ended(self) {
        for task in self.0 {
            task.await;
        }
    }
}

/// How many processors a list such as `0-3,8` names.
fn processors(list: &str) -> Option<u16> {
    let mut count = 0_u16;
    for range in list.trim().split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u16, u16) = (first.parse().ok()?, last.parse().ok()?);
        count = count.checked_add(last.checked_sub(first)?.checked_add(1)?)?;
    }
    Some(count)
}

/// Serves what comes in one entry, until the kernel gives it back; why it did.
async fn serve<D: BlockDevice>(mut entry: FuseEntry, device: &D) -> io::Error {
    loop {
        if let Err(error) = entry.next().await {
            return error;
        }
        let request = entry.request();
        let asked = wire::parse_parts(request.header, request.arguments, request.payload);
        let (work, bytes) = match asked {
            Some((_, asked)) => {
                let bytes = match asked {
                    Asked::Write { data, .. } => data.len(),
                    _ => 0,
                };
                (Work::of(asked, &device.geometry()), bytes)
            }
            None => (Work::Answer(Err(Errno::PROTO.raw_os_error())), 0),
        };
        let payload = entry.take_payload();
        let (payload, done) = run(work, bytes, payload, device).await;
        entry.put_payload(payload);
        let (errno, bytes) = match done {
            Ok(bytes) => (0, bytes),
            Err(errno) => (errno, 0),
        };
        entry.answer(&wire::answer(entry.unique(), errno, bytes), bytes);
    }
}

/// Does the work. `payload` holds a write's data, in its first `bytes`; it comes back with the
/// answer's payload, of which there are so many bytes.
async fn run<D: BlockDevice>(
    work: Work,
    bytes: usize,
    mut payload: Buffer,
    device: &D,
) -> (Buffer, Result<usize, i32>) {
    match work {
        Work::Nothing | Work::Read(None) => (payload, Ok(0)),
        Work::Read(Some(span)) => read(device, span, payload).await,
        Work::Write(range) => {
            payload.resize(bytes);
            let (payload, done) = device.write(range.start, payload, Durability::Cached).await;
            match done {
                Ok(()) => answered(payload, &wire::written(bytes as u32)),
                Err(error) => (payload, Err(errno(error))),
            }
        }
        Work::Command(command) => (payload, command.run(device).await.map(|()| 0)),
        Work::Answer(Ok(answer)) => answered(payload, &answer),
        Work::Answer(Err(errno)) => (payload, Err(errno)),
    }
}

/// Reads into the payload itself if what is asked for begins a block, as nearly all does.
async fn read<D: BlockDevice>(
    device: &D,
    span: Span,
    mut payload: Buffer,
) -> (Buffer, Result<usize, i32>) {
    if span.within.start == 0 && span.bytes <= payload.capacity() {
        payload.resize(span.bytes);
        let (payload, done) = device.read(span.first, payload).await;
        return (payload, done.map(|()| span.within.end).map_err(errno));
    }
    let (buffer, done) = channel::read(device, &span).await;
    match done {
        Ok(()) => answered(payload, &buffer[span.within]),
        Err(errno) => (payload, Err(errno)),
    }
}

/// Puts an answer's payload where the kernel looks for it.
fn answered(mut payload: Buffer, answer: &[u8]) -> (Buffer, Result<usize, i32>) {
    if answer.len() > payload.capacity() {
        return (payload, Err(errno(IoError::InvalidRequest)));
    }
    payload.resize(answer.len());
    payload.copy_from_slice(answer);
    (payload, Ok(answer.len()))
}

#[cfg(test)]
mod tests {
    use block::{Geometry, Lba};
    use drive::MemoryDrive;
    use reactor::Reactor;

    use super::*;

    #[test]
    fn lists_of_processors_are_counted() {
        let lists = [("0\n", 1), ("0-1\n", 2), ("0-3,8,10-11", 7)];
        for (list, count) in lists {
            assert_eq!(processors(list), Some(count), "{list}");
        }
        for nonsense in ["", "a", "3-1", "0-", "0-65535"] {
            assert_eq!(processors(nonsense), None, "{nonsense}");
        }
    }

    /// What was written is read, wherever it begins; what goes to the kernel lies at the front.
    #[test]
    fn payloads_are_moved_and_answers_begin_them() {
        Reactor::simulated(1).run(async {
            let device = MemoryDrive::new(Geometry::new(4096, 2).unwrap());
            let geometry = device.geometry();
            let data = [[1; 4096], [2; 4096]].concat();
            let mut payload = Buffer::new(16384);
            let place = payload.as_ptr();
            payload[..data.len()].copy_from_slice(&data);
            let work = Work::of(
                Asked::Write {
                    offset: 0,
                    data: &data,
                },
                &geometry,
            );
            let (mut payload, done) = run(work, data.len(), payload, &device).await;
            assert_eq!(done, Ok(8));
            assert_eq!(payload[..8], wire::written(8192));
            for (offset, bytes) in [(4096, 4096), (4000, 200), (8000, 4096), (9000, 1)] {
                let work = Work::of(Asked::Read { offset, bytes }, &geometry);
                let done;
                (payload, done) = run(work, 0, payload, &device).await;
                let from = (offset as usize).min(data.len());
                let expected = &data[from..(from + bytes as usize).min(data.len())];
                assert_eq!(payload[..done.unwrap()], *expected);
                assert_eq!(payload.as_ptr(), place);
            }
            let (buffer, _) = device.read(Lba(1), Buffer::new(4096)).await;
            assert_eq!(buffer[..], data[4096..]);
        });
    }
}
