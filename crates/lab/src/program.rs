//! Other programs that take part in an experiment: run to their end, or kept beside it.
//!
//! Each is in a process group of its own, so that an interrupt at the terminal reaches this
//! program alone, which then ends what it started, in order.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};

use crate::load::Stop;

/// How often a running program is looked after.
const POLL_PERIOD: Duration = Duration::from_millis(100);

/// Lines of its complaints that an error shows.
const LINES: usize = 5;

/// Where `make lab-tools` leaves what no distribution has, unless this variable says otherwise: a
/// directory beside that of this program. Never one below the working directory, in which anybody
/// may have put a program of that name.
const TOOLS_VARIABLE: &str = "FLASHYARD_LAB_TOOLS";
const TOOLS: &str = "../lab-tools";

/// Programs, and what installs them on Debian and Ubuntu.
const INSTALL: [(&str, &str); 10] = [
    ("fio", "apt-get install fio"),
    ("mkfs.xfs", "apt-get install xfsprogs"),
    ("mount", "apt-get install mount"),
    ("umount", "apt-get install mount"),
    ("mariadbd", "apt-get install mariadb-server-core"),
    ("mariadb-install-db", "apt-get install mariadb-server-core"),
    ("mariadb", "apt-get install mariadb-client-core"),
    ("java", "apt-get install openjdk-17-jre-headless"),
    ("go-tpc", "make lab-tools, in Flashyard's source"),
    ("go-ycsb", "make lab-tools, in Flashyard's source"),
];

/// Why a program did not do what it was started for.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// It is not there.
    #[error(
        "{program} is not installed; on Debian and Ubuntu: {}",
        install(program)
    )]
    Missing {
        /// Its name.
        program: String,
    },
    /// The system refused something.
    #[error("{doing}: {source}")]
    System {
        /// What was being done.
        doing: String,
        /// What it said.
        source: io::Error,
    },
    /// It ended with an error, or too early.
    #[error("{program} ended with {status}: {complaint}")]
    Failed {
        /// Its name.
        program: String,
        /// How.
        status: String,
        /// Its last lines.
        complaint: String,
    },
    /// It runs, but does not answer.
    #[error("{program} does not answer after {seconds} s: {complaint}")]
    Silent {
        /// Its name.
        program: String,
        /// How long it was waited for.
        seconds: u64,
        /// Its last lines.
        complaint: String,
    },
}

fn install(program: &str) -> &'static str {
    let found = INSTALL.iter().find(|(name, _)| *name == program);
    found.map_or("the package that has it", |(_, command)| command)
}

/// Names what the system refused.
pub(crate) fn system(doing: impl Into<String>) -> impl FnOnce(io::Error) -> ProgramError {
    let doing = doing.into();
    move |source| ProgramError::System { doing, source }
}

fn starting(program: &str) -> impl FnOnce(io::Error) -> ProgramError {
    let program = program.to_owned();
    move |source| match source.kind() {
        io::ErrorKind::NotFound => ProgramError::Missing { program },
        _ => system(format!("starting {program}"))(source),
    }
}

/// Where `name` is of what `make lab-tools` builds; just the name if it is not there.
pub(crate) fn tool(name: &str) -> PathBuf {
    let said = std::env::var_os(TOOLS_VARIABLE).map(PathBuf::from);
    let built = place_of_tools(said).map(|place| place.join(name));
    built
        .filter(|built| built.exists())
        .unwrap_or_else(|| PathBuf::from(name))
}

/// Where such programs are looked for. An empty variable is none, and a relative path is below the
/// working directory.
fn place_of_tools(said: Option<PathBuf>) -> Option<PathBuf> {
    let beside = || Some(std::env::current_exe().ok()?.parent()?.join(TOOLS));
    said.filter(|place| place.is_absolute()).or_else(beside)
}

/// The program's name, without its place.
fn name_of(command: &Command) -> String {
    let path = Path::new(command.get_program());
    let name = path.file_name().unwrap_or(path.as_os_str());
    name.to_string_lossy().into_owned()
}

/// Runs a short command to its end; gives what it printed.
///
/// # Errors
/// When it is not there, or ends with an error.
pub(crate) fn answer(command: &mut Command) -> Result<String, ProgramError> {
    let program = name_of(command);
    let output = command.stdin(Stdio::null()).process_group(0).output();
    let output = output.map_err(starting(&program))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if output.status.success() {
        return Ok(text(&output.stdout));
    }
    Err(ProgramError::Failed {
        program,
        status: output.status.to_string(),
        complaint: last_lines(&text(&output.stderr)),
    })
}

/// Runs a long command to its end, or to ours; gives what it printed, `None` if it was stopped.
/// `watch` is told the time that passed.
///
/// # Errors
/// As [`answer`].
pub(crate) fn watched(
    command: &mut Command,
    stop: &Stop,
    watch: &mut dyn FnMut(Duration),
) -> Result<Option<String>, ProgramError> {
    let program = name_of(command);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command
        .process_group(0)
        .spawn()
        .map_err(starting(&program))?;
    let printed = drain(child.stdout.take());
    let complained = drain(child.stderr.take());
    let started = Instant::now();
    let mut told = false;
    let status = loop {
        if let Some(status) = child
            .try_wait()
            .map_err(system(format!("waiting for {program}")))?
        {
            break status;
        }
        if stop.is_stopped() && !told {
            // It ends what it does and reports; if it is gone already, all the better.
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
        return Err(ProgramError::Failed {
            program,
            status: status.to_string(),
            complaint: lines.join("; "),
        });
    }
    Ok(Some(text))
}

fn drain<R: Read + Send + 'static>(pipe: Option<R>) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut text = String::new();
        // A pipe that breaks has told all it will.
        drop(pipe.map(|mut pipe| pipe.read_to_string(&mut text)));
        text
    })
}

fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines
        .split_at(lines.len().saturating_sub(LINES))
        .1
        .join("; ")
}

/// A program that runs beside the experiment; it is killed when this is dropped.
#[derive(Debug)]
pub(crate) struct Companion {
    program: String,
    child: Child,
    log: PathBuf,
}

impl Companion {
    /// Starts it; what it says goes to `log`.
    ///
    /// # Errors
    /// When it is not there, or cannot be started.
    pub(crate) fn start(command: &mut Command, log: PathBuf) -> Result<Companion, ProgramError> {
        let program = name_of(command);
        let file = File::create(&log).map_err(system(log.display().to_string()))?;
        let both = file
            .try_clone()
            .map_err(system(log.display().to_string()))?;
        command
            .stdin(Stdio::null())
            .stdout(file)
            .stderr(both)
            .process_group(0);
        let child = command.spawn().map_err(starting(&program))?;
        Ok(Companion {
            program,
            child,
            log,
        })
    }

    /// Its number.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until `answers` is true; false when stopped before.
    ///
    /// # Errors
    /// When it ends instead, or takes longer than `limit`.
    pub(crate) fn wait_until(
        &mut self,
        stop: &Stop,
        limit: Duration,
        mut answers: impl FnMut(&str) -> bool,
    ) -> Result<bool, ProgramError> {
        let started = Instant::now();
        loop {
            if stop.is_stopped() {
                return Ok(false);
            }
            let ended = self.child.try_wait();
            let ended = ended.map_err(system(format!("waiting for {}", self.program)))?;
            let said = std::fs::read_to_string(&self.log).unwrap_or_default();
            if let Some(status) = ended {
                return Err(ProgramError::Failed {
                    program: self.program.clone(),
                    status: status.to_string(),
                    complaint: last_lines(&said),
                });
            }
            if answers(&said) {
                return Ok(true);
            }
            if started.elapsed() > limit {
                return Err(ProgramError::Silent {
                    program: self.program.clone(),
                    seconds: limit.as_secs(),
                    complaint: last_lines(&said),
                });
            }
            std::thread::sleep(POLL_PERIOD);
        }
    }

    /// Asks it to end and waits, but no longer than `limit`, nor when stopped; then kills it.
    pub(crate) fn end(mut self, stop: &Stop, limit: Duration) {
        // If it is gone already, all the better.
        let _ = rustix::process::kill_process(Pid::from_child(&self.child), Signal::TERM);
        let started = Instant::now();
        while started.elapsed() < limit && !stop.is_stopped() {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(POLL_PERIOD);
        }
    }
}

impl Drop for Companion {
    fn drop(&mut self) {
        // Both fail only if it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_tool_is_looked_for_below_the_working_directory() {
        let said = |place: &str| place_of_tools(Some(PathBuf::from(place)));
        assert_eq!(said("/opt/tools"), Some(PathBuf::from("/opt/tools")));
        let beside = place_of_tools(None);
        assert!(beside.as_ref().is_some_and(|place| place.is_absolute()));
        for relative in ["", ".", "target/lab-tools", "../lab-tools"] {
            assert_eq!(said(relative), beside, "{relative:?}");
        }
    }

    #[test]
    fn what_is_missing_is_named_with_the_command_that_installs_it() {
        let missing = ProgramError::Missing {
            program: "go-tpc".to_owned(),
        };
        assert!(
            missing
                .to_string()
                .ends_with("make lab-tools, in Flashyard's source")
        );
        let none = answer(&mut Command::new("/nonexistent/mariadbd")).unwrap_err();
        assert!(
            none.to_string()
                .contains("apt-get install mariadb-server-core"),
            "{none}"
        );
    }

    #[test]
    fn a_companion_that_ends_early_says_why_and_one_that_is_dropped_is_gone() {
        let directory = tempfile::tempdir().unwrap();
        let log = directory.path().join("log");
        let mut early = Command::new("sh");
        early.args(["-c", "echo no such engine; exit 3"]);
        let mut early = Companion::start(&mut early, log.clone()).unwrap();
        let stop = Stop::default();
        let ended = early
            .wait_until(&stop, Duration::from_secs(20), |_| false)
            .unwrap_err();
        assert!(
            ended.to_string().contains("exit status: 3: no such engine"),
            "{ended}"
        );
        let kept = Companion::start(Command::new("sleep").arg("600"), log).unwrap();
        let place = format!("/proc/{}", kept.pid());
        assert!(Path::new(&place).exists());
        drop(kept);
        assert!(!Path::new(&place).exists());
    }
}
