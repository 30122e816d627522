//! [`readable`]: waiting for a descriptor that is neither a file nor a socket of ours.
#![allow(unsafe_code, reason = "starts a ring operation; see the SAFETY line")]

use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;

use io_uring::opcode;

use crate::context;
use crate::operation::Resource;
use crate::ring;

/// Waits until a read of `descriptor` would not block, or would fail. For character devices whose
/// every read is a message; whoever reads has to bear that somebody else did first.
///
/// # Errors
/// The system's.
///
/// # Panics
/// Outside a reactor, and in a simulated one, which has no such devices.
pub async fn readable(descriptor: &Rc<OwnedFd>) -> io::Result<()> {
    let context = context::current();
    // SAFETY: the entry of a poll points to no memory.
    let operation = unsafe {
        ring::start(&context, descriptor, Resource::None, |fd, _| {
            opcode::PollAdd::new(fd, libc::POLLIN as u32).build()
        })
    };
    operation.await.0.map(|_| ())
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::io::Write;
    use std::time::Duration;

    use super::*;
    use crate::{Reactor, ReactorConfig, sleep, spawn};

    #[test]
    fn a_pipe_is_readable_once_something_is_in_it_or_its_other_end_is_gone() {
        let (reader, mut writer) = io::pipe().unwrap();
        let reader = Rc::new(OwnedFd::from(reader));
        Reactor::io_uring(ReactorConfig::default())
            .unwrap()
            .run(async move {
                let seen = Rc::new(Cell::new(0));
                let (waits, count) = (Rc::clone(&reader), Rc::clone(&seen));
                let waiting = spawn(async move {
                    let mut byte = [0];
                    loop {
                        readable(&waits).await.unwrap();
                        match rustix::io::read(&waits, &mut byte).unwrap() {
                            0 => return,
                            read => count.set(count.get() + read),
                        }
                    }
                });
                sleep(Duration::from_millis(5)).await;
                assert_eq!(seen.get(), 0);
                writer.write_all(b"ab").unwrap();
                sleep(Duration::from_millis(5)).await;
                drop(writer);
                waiting.await;
                assert_eq!(seen.get(), 2);
            });
    }
}
