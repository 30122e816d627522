//! fio as the runner of a load: a job file made from the plan (or one's own), and its answer
//! (json+) read back.

mod answer;
mod job_file;

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};

use crate::experiment::Measured;
use crate::load::Stop;
use crate::plan::Case;
use answer::Answer;

/// How often a running fio is looked after.
const POLL_PERIOD: Duration = Duration::from_millis(100);

/// Lines of its complaints that an error shows.
const LINES: usize = 5;

/// Why fio did not run a load.
#[derive(Debug, thiserror::Error)]
pub enum FioError {
    /// It is not there.
    #[error("fio is not installed; on Debian and Ubuntu: apt-get install fio")]
    Missing,
    /// The system refused something.
    #[error("{doing}: {source}")]
    System {
        /// What was being done.
        doing: String,
        /// What it said.
        source: io::Error,
    },
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
    /// fio ended with an error.
    #[error("fio ended with {status}: {complaint}")]
    Failed {
        /// How.
        status: String,
        /// Its last lines.
        complaint: String,
    },
    /// Its answer is not what we know.
    #[error("fio's answer cannot be read: {0}")]
    Answer(String),
}

fn system(doing: impl Into<String>) -> impl FnOnce(io::Error) -> FioError {
    let doing = doing.into();
    move |source| match source.kind() {
        io::ErrorKind::NotFound if doing == "starting fio" => FioError::Missing,
        _ => FioError::System { doing, source },
    }
}

/// fio's version.
///
/// # Errors
/// [`FioError::Missing`].
pub fn version() -> Result<String, FioError> {
    let output = Command::new("fio").arg("--version").output();
    let output = output.map_err(system("starting fio"))?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
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
        .env("TARGET", names.join(":"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let Some(text) = watched(&mut command, stop, &mut watch)? else {
        return Ok(None);
    };
    let answer = Answer::parse(&text)?;
    let series = directory.path().join("series_iops.log");
    let series = std::fs::read_to_string(series).unwrap_or_default();
    Ok(Some(answer.measured(&series)))
}

/// Runs the command to its end, or to ours; gives what it printed, `None` if it was stopped.
fn watched(
    command: &mut Command,
    stop: &Stop,
    watch: &mut impl FnMut(Duration),
) -> Result<Option<String>, FioError> {
    let mut child = command.spawn().map_err(system("starting fio"))?;
    let drain = |pipe: Option<Box<dyn Read + Send>>| {
        std::thread::spawn(move || {
            let mut text = String::new();
            // A pipe that breaks has told all it will.
            drop(pipe.map(|mut pipe| pipe.read_to_string(&mut text)));
            text
        })
    };
    let printed = drain(child.stdout.take().map(|pipe| Box::new(pipe) as Box<_>));
    let complained = drain(child.stderr.take().map(|pipe| Box::new(pipe) as Box<_>));
    let started = Instant::now();
    let mut told = false;
    let status = loop {
        if let Some(status) = child.try_wait().map_err(system("waiting for fio"))? {
            break status;
        }
        if stop.is_stopped() && !told {
            // It ends its jobs and reports; if it is gone already, all the better.
            let _ = rustix::process::kill_process(Pid::from_child(&child), Signal::INT);
            told = true;
        }
        watch(started.elapsed());
        std::thread::sleep(POLL_PERIOD);
    };
    let text = printed.join().unwrap_or_default();
    let complaint = complained.join().unwrap_or_default();
    if told || stop.is_stopped() {
        return Ok(None);
    }
    if !status.success() {
        let lines: Vec<&str> = complaint.lines().chain(text.lines()).take(LINES).collect();
        return Err(FioError::Failed {
            status: status.to_string(),
            complaint: lines.join("; "),
        });
    }
    Ok(Some(text))
}

/// Whether a job file of one's own can be used.
///
/// # Errors
/// When it cannot be read, or names its own targets.
pub fn check_file(path: &Path) -> Result<(), FioError> {
    job_file::adopted(path).map(|_| ())
}
