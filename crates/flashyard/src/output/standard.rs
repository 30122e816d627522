//! Standard output and standard error of the process, and what became of them.

use std::fmt::Display;
use std::fs::File;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU8, Ordering};

use crate::exit;

/// What became of standard output, which the whole process shares.
static STANDING: AtomicU8 = AtomicU8::new(OPEN);
const OPEN: u8 = 0;
const GONE: u8 = 1;
const FAILED: u8 = 2;

/// Writes to standard output. What stands in the way is for the caller to act on.
pub fn write(bytes: &[u8]) -> io::Result<()> {
    let mut output = io::stdout().lock();
    output.write_all(bytes)?;
    output.flush()
}

/// Standard output for bytes that are no text: its failures are those of the command, a reader
/// that has gone away among them.
pub fn stream() -> io::Result<File> {
    Ok(File::from(io::stdout().as_fd().try_clone_to_owned()?))
}

/// Prints lines. A reader that has gone away is remembered; any other failure is told once, and
/// makes the command end with 1.
pub fn print(text: &str) {
    put(format!("{}\n", text.trim_end()).as_bytes());
}

/// The same for bytes as they are.
pub fn put(bytes: &[u8]) {
    if STANDING.load(Ordering::Relaxed) == OPEN {
        noted(write(bytes));
    }
}

/// Acts on the outcome of something that was written to standard output.
pub fn noted(written: io::Result<()>) {
    match written {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::BrokenPipe => {
            STANDING.store(GONE, Ordering::Relaxed);
        }
        Err(error) => fail(&format_args!("standard output: {error}")),
    }
}

/// Says what went wrong with showing something; the command ends with 1.
pub fn fail(problem: &impl Display) {
    STANDING.store(FAILED, Ordering::Relaxed);
    tell(&format_args!("flashyard: {problem}"));
}

/// Whether anybody reads on.
pub fn is_read() -> bool {
    STANDING.load(Ordering::Relaxed) == OPEN
}

/// Whether standard output is a terminal.
pub fn is_terminal() -> bool {
    io::stdout().is_terminal()
}

/// The exit code of a command that would end with `code`.
pub fn settled(code: ExitCode) -> ExitCode {
    match STANDING.load(Ordering::Relaxed) {
        FAILED if code == exit::done() => ExitCode::from(1),
        _ => code,
    }
}

/// Says a line on standard error, if that takes it.
pub fn tell(line: &impl Display) {
    hint(&format_args!("{line}\n"));
}

/// The same without the end of a line: a question, or a display that is written over.
pub fn hint(text: &impl Display) {
    let mut output = io::stderr().lock();
    // There is nobody else to tell.
    let _ = write!(output, "{text}").and_then(|()| output.flush());
}
