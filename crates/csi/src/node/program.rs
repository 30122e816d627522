//! Other programs, run to their ends.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use tonic::Status;

/// What a program that ended has said.
pub struct Ended {
    /// Its exit code; none: a signal ended it.
    pub code: Option<i32>,
    /// Its standard output.
    pub output: String,
    /// The end of its standard error.
    pub error: String,
    /// What was run, for messages.
    command: String,
}

/// Most of what a program said that a message repeats.
const SAID_CHARS_MAX: usize = 600;

/// Runs a program to its end.
///
/// # Errors
/// `INTERNAL` when it cannot be run.
pub fn run<S: AsRef<OsStr>>(program: impl AsRef<Path>, arguments: &[S]) -> Result<Ended, Status> {
    let program = program.as_ref();
    let words = arguments.iter().map(|word| word.as_ref().to_string_lossy());
    let words: Vec<_> = words.collect();
    let command = format!("{} {}", program.display(), words.join(" "));
    let failed = |error: std::io::Error| Status::internal(format!("{command}: {error}"));
    let output = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .output();
    let Output {
        status,
        stdout,
        stderr,
    } = output.map_err(failed)?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    let said = text(&stderr);
    let skipped = said.chars().count().saturating_sub(SAID_CHARS_MAX);
    Ok(Ended {
        code: status.code(),
        output: text(&stdout),
        error: said.chars().skip(skipped).collect(),
        command,
    })
}

impl Ended {
    /// What it printed, if it succeeded.
    ///
    /// # Errors
    /// `INTERNAL` with what it said.
    pub fn succeeded(self) -> Result<String, Status> {
        match self.code {
            Some(0) => Ok(self.output),
            _ => Err(self.failure()),
        }
    }

    /// It failed, and what it said.
    pub fn failure(&self) -> Status {
        let said = if self.error.is_empty() {
            &self.output
        } else {
            &self.error
        };
        Status::internal(format!("{}: {said}", self.command))
    }
}
