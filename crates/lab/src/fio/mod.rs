//! fio as the runner of a load: a job file made from the plan (or one's own), and its answer
//! (json+) read back.

mod allowed;
mod answer;
mod job_file;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::experiment::Measured;
use crate::load::Stop;
use crate::plan::Case;
use crate::program::{self, ProgramError, system, watched};
use answer::Answer;

/// Why fio did not run a load.
#[derive(Debug, thiserror::Error)]
pub enum FioError {
    /// It is missing, or failed.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// A job file of one's own that names its own targets.
    #[error(
        "{}:{line}: filename has to be ${{TARGET}}, or be left out, so that the plan says what is \
         written to", path.display()
    )]
    Filename {
        /// The file.
        path: PathBuf,
        /// The line.
        line: usize,
    },
    /// A job file of one's own with an option that may name a file or run a program.
    #[error(
        "{}:{line}: {option:?} is not allowed in a plan's job file: options that describe the load \
         are, with {ENGINES} for ioengine", path.display(), ENGINES = allowed::ENGINES.join(", ")
    )]
    Option {
        /// The file.
        path: PathBuf,
        /// The line.
        line: usize,
        /// What it says.
        option: String,
    },
    /// Its answer is not what we know.
    #[error("fio's answer cannot be read: {0}")]
    Answer(String),
}

/// fio's version.
///
/// # Errors
/// [`FioError::Program`].
pub fn version() -> Result<String, FioError> {
    Ok(program::answer(Command::new("fio").arg("--version"))?)
}

/// Runs `case` on `paths`; `None` when it was stopped. `watch` is told the time that passed.
pub(crate) fn run(
    case: &Case,
    paths: &[PathBuf],
    stop: &Stop,
    mut watch: impl FnMut(Duration),
) -> Result<Option<Measured>, FioError> {
    let directory = tempfile::tempdir().map_err(system("making a directory"))?;
    let file = directory.path().join("job.fio");
    let text = match &case.fio_file {
        Some(path) => job_file::adopted(path)?,
        None => job_file::made(case, paths, &directory.path().join("series")),
    };
    std::fs::write(&file, text).map_err(system("writing the job file"))?;
    let names: Vec<String> = paths.iter().map(|path| job_file::escaped(path)).collect();
    let mut command = Command::new("fio");
    command.args(["--output-format=json+", "--eta=never"]);
    if let Some(section) = &case.fio_section {
        command.arg(format!("--section={section}"));
    }
    command
        .arg(&file)
        .current_dir(directory.path())
        .env("TARGET", names.join(":"));
    let Some(text) = watched(&mut command, stop, &mut watch)? else {
        return Ok(None);
    };
    let answer = Answer::parse(&text)?;
    let series = directory.path().join("series_iops.log");
    let series = std::fs::read_to_string(series).unwrap_or_default();
    Ok(Some(answer.measured(&series)))
}

/// Whether a job file of one's own can be used.
///
/// # Errors
/// When it cannot be read, or names its own targets.
pub fn check_file(path: &Path) -> Result<(), FioError> {
    job_file::adopted(path).map(|_| ())
}
