//! [`Session`]: a target held open, on threads of its own, for loads one after the other.
//!
//! Each thread has an event loop and some of the target's devices. Real devices are spread over
//! the machine's processors; what goes by a virtual clock shares one thread, and so one clock.

mod danger;
mod device;
mod error;
mod open;
mod worker;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};

use ssd::{FlashCounters, Profile};

pub use error::SessionError;
pub use open::KEEP_ALIVE;

use self::worker::{Command, Part, Run, Worker};
use crate::experiment::Smart;
use crate::load::{JobReport, Progress, Stop, Workload};
use crate::plan::{Clock, Target, TargetKind};

/// Capacity factor of emulated drives where the plan says nothing: 8 GB of a 7.68 TB drive.
const DRIVE_SCALE: f64 = 0.001;

/// How a target is opened.
#[derive(Clone, Debug)]
pub struct SessionOptions {
    /// What.
    pub target: Target,
    /// The drive that the target names, if it does.
    pub profile: Option<Profile>,
    /// What is random about the target follows from this.
    pub seed: u64,
    /// Whether anything will be written.
    pub writes: bool,
    /// Devices and volumes that may be overwritten whatever they hold.
    pub destroy: Vec<String>,
    /// Devices and volumes that the experiment has written to before: what has no name there is its
    /// own.
    pub own: Vec<String>,
}

/// A target held open. Its threads end with it.
pub struct Session {
    workers: Vec<Worker>,
    region_bytes: u64,
}

/// What emulated drives have counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DriveCounts {
    /// Pages that hosts wrote, and that drives copied.
    pub flash: FlashCounters,
    /// Requests completed.
    pub completed: u64,
    /// Of those, late by a tenth or more.
    pub late: u64,
}

/// A load under way.
pub struct Running {
    replies: Vec<Receiver<Result<Vec<JobReport>, SessionError>>>,
    /// Each job's.
    pub progress: Vec<Arc<Progress>>,
}

impl Session {
    /// Opens a target.
    ///
    /// # Errors
    /// [`SessionError`]; nothing stays open.
    pub fn open(options: &SessionOptions) -> Result<Session, SessionError> {
        for path in &options.target.paths {
            if options.writes {
                danger::refuse_if_in_use(path)?;
            }
        }
        let mut session = Session {
            workers: Vec::new(),
            region_bytes: u64::MAX,
        };
        for part in parts(options) {
            let (worker, bytes) = Worker::start(part)?;
            session.region_bytes = session.region_bytes.min(bytes);
            session.workers.push(worker);
        }
        Ok(session)
    }

    /// Devices that the target consists of.
    pub fn devices(&self) -> u32 {
        self.workers.iter().map(|worker| worker.devices).sum()
    }

    /// Bytes of each device that are used, in whole mebibytes.
    pub fn region_bytes(&self) -> u64 {
        (self.region_bytes - self.region_bytes % (1 << 20)).max(1 << 20)
    }

    /// Starts a load on every device at once.
    pub fn start(&self, workload: &Workload, stop: &Stop) -> Running {
        let mut running = Running {
            replies: Vec::new(),
            progress: Vec::new(),
        };
        let mut workload = workload.clone();
        let region = workload.size_bytes.unwrap_or(u64::MAX);
        workload.size_bytes = Some(region.min(self.region_bytes()));
        let mut first_job = 0;
        for worker in &self.workers {
            let jobs = worker.devices * workload.jobs;
            let progress: Vec<Arc<Progress>> = (0..jobs).map(|_| Arc::default()).collect();
            running.progress.extend(progress.iter().cloned());
            let (reply, replied) = mpsc::channel();
            running.replies.push(replied);
            worker.send(Command::Run(Run {
                workload: workload.clone(),
                first_job,
                progress,
                stop: stop.clone(),
                reply,
            }));
            first_job += jobs;
        }
        running
    }

    /// Deallocates everything that loads use.
    ///
    /// # Errors
    /// When a device refuses.
    pub fn purge(&self) -> Result<(), SessionError> {
        for reply in self.ask(Command::Purge) {
            reply?;
        }
        Ok(())
    }

    /// What the target's emulated drives have counted, together.
    pub fn counts(&self) -> DriveCounts {
        let sum = |sum: DriveCounts, one: DriveCounts| DriveCounts {
            flash: sum.flash.and(&one.flash),
            completed: sum.completed + one.completed,
            late: sum.late + one.late,
        };
        self.ask(Command::Counts)
            .into_iter()
            .fold(DriveCounts::default(), sum)
    }

    /// The SMART values of the target's emulated drives.
    pub fn health(&self) -> Vec<Smart> {
        self.ask(Command::Health).into_iter().flatten().collect()
    }

    /// Closes the target, and leaves the files that were made for it, which it names.
    pub fn release(self) -> Vec<PathBuf> {
        self.ask(Command::Release).into_iter().flatten().collect()
    }

    /// Every thread's answer; one that has ended gives none.
    fn ask<T>(&self, command: fn(Sender<T>) -> Command) -> Vec<T> {
        let replies: Vec<Receiver<T>> = self
            .workers
            .iter()
            .map(|worker| {
                let (reply, replied) = mpsc::channel();
                worker.send(command(reply));
                replied
            })
            .collect();
        replies
            .iter()
            .filter_map(|reply| reply.recv().ok())
            .collect()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // All close at once; each is waited for where it is dropped.
        self.workers.iter_mut().for_each(Worker::end);
    }
}

impl Running {
    /// The jobs' reports once the load has ended; `watch` is called a few times a second.
    ///
    /// # Errors
    /// The first refusal of a job.
    pub fn wait(
        self,
        period: std::time::Duration,
        mut watch: impl FnMut(&[Arc<Progress>]),
    ) -> Result<Vec<JobReport>, SessionError> {
        let mut reports = Vec::new();
        for reply in &self.replies {
            loop {
                match reply.recv_timeout(period) {
                    Ok(found) => break reports.extend(found?),
                    Err(mpsc::RecvTimeoutError::Timeout) => watch(&self.progress),
                    Err(mpsc::RecvTimeoutError::Disconnected) => return Err(SessionError::Lost),
                }
            }
        }
        Ok(reports)
    }
}

/// What each thread gets: one device after the other in turn, or everything for one.
fn parts(options: &SessionOptions) -> Vec<Part> {
    let target = &options.target;
    let count = match target.kind {
        TargetKind::Volume => target.addresses.len() as u32,
        _ if !target.paths.is_empty() => target.paths.len() as u32,
        _ => target.drives.unwrap_or(default_drives(target.kind)),
    };
    let array = matches!(target.kind, TargetKind::InplaceRaid6 | TargetKind::Pool);
    let one = array || target.clock == Some(Clock::Virtual);
    let processors = std::thread::available_parallelism().map_or(1, usize::from) as u32;
    let threads = if one { 1 } else { count.min(processors).max(1) };
    let part = |number: u32| Part {
        target: target.clone(),
        profile: options.profile.clone(),
        seed: options.seed,
        writes: options.writes,
        destroy: options.destroy.clone(),
        own: options.own.clone(),
        drives: count * number / threads..count * (number + 1) / threads,
    };
    (0..threads).map(part).collect()
}

/// The smallest number that makes sense.
fn default_drives(kind: TargetKind) -> u32 {
    match kind {
        TargetKind::InplaceRaid6 | TargetKind::Pool => 6,
        _ => 1,
    }
}
