//! Secrets, which are shown once: made only where they can be shown.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use client::ClientError;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FallocateFlags, FileType, fallocate, fstat, major, minor};
use rustix::io::Errno;
use serde::Serialize;

use super::{Output, standard};
use crate::connection::Done;

/// Longer than any answer with a secret.
const ROOM_BYTES: u64 = 4096;

/// The device that forgets what is written to it; also what the runtime opens in place of a
/// standard output that was closed when the program started.
const NULL_DEVICE: (u32, u32) = (1, 3);

impl Output {
    /// Makes something that is shown this once, and shows it. It is not made where it cannot be
    /// shown; where that turns out only afterwards, `take_back` undoes it and says what it did.
    pub fn show_once<T: Serialize>(
        self,
        make: impl FnOnce() -> Result<T, ClientError>,
        people: impl FnOnce(&T) -> String,
        take_back: impl FnOnce(&T) -> String,
    ) -> Done {
        let output = io::stdout();
        if let Err(problem) = check(output.as_fd()) {
            let message = "what is shown only once was not made";
            standard::fail(&format_args!("standard output: {problem}: {message}"));
            return Ok(());
        }
        let made = make()?;
        let text = self.text(&made, people);
        if let Err(error) = standard::write(format!("{}\n", text.trim_end()).as_bytes()) {
            let done = take_back(&made);
            standard::fail(&format_args!("standard output: {error}: {done}"));
        }
        Ok(())
    }
}

/// Whether an answer will be taken, as far as that can be known without writing.
fn check(output: BorrowedFd) -> io::Result<()> {
    let mut watched = [PollFd::new(&output, PollFlags::OUT)];
    let at_once = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    poll(&mut watched, Some(&at_once))?;
    if watched[0]
        .revents()
        .intersects(PollFlags::ERR | PollFlags::HUP)
    {
        return Err(io::ErrorKind::BrokenPipe.into());
    }
    // Devices that take nothing refuse nothing as well.
    rustix::io::write(output, &[])?;
    let status = fstat(output)?;
    match FileType::from_raw_mode(status.st_mode) {
        FileType::CharacterDevice
            if (major(status.st_rdev), minor(status.st_rdev)) == NULL_DEVICE =>
        {
            Err(io::Error::other(
                "nobody sees what is written to the null device",
            ))
        }
        FileType::RegularFile => make_room(output, status.st_size as u64),
        _ => Ok(()),
    }
}

/// Takes space beyond a file's end for the answer, which then does not lack it.
fn make_room(output: BorrowedFd, length: u64) -> io::Result<()> {
    match fallocate(output, FallocateFlags::KEEP_SIZE, length, ROOM_BYTES) {
        Err(error @ (Errno::NOSPC | Errno::DQUOT | Errno::FBIG)) => Err(error.into()),
        // File systems that cannot do so say it when the answer is written.
        _ => Ok(()),
    }
}
