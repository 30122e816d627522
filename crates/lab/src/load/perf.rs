//! A whole run: cores, connections, jobs, progress, one report. What `flashyard perf` calls.

use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use block::{BlockDevice, Geometry};
use initiator::{ConnectOptions, Controller, LossReason, Namespace, TargetAddress};
use reactor::cores::{CoreHandle, Cores, CoresConfig};
use reactor::{ReactorConfig, sleep};

use super::job::{Job, JobReport, Progress, Stop};
use super::journal::{Journal, JournalError};
use super::random::mix;
use super::report::Report;
use super::workload::{Region, Verify, Workload, WorkloadError};

/// How often whoever watches is told.
const WATCH_PERIOD: Duration = Duration::from_millis(250);

/// Everything a run needs to know.
#[derive(Clone, Debug)]
pub struct PerfOptions {
    /// What is loaded; namespace 1 if the address names none.
    pub target: TargetAddress,
    /// How each job connects. Queue count and depth follow from the workload.
    pub connect: ConnectOptions,
    /// What each job does.
    pub workload: Workload,
    /// CPUs to run on, jobs spread over them in turn; empty: one thread, not pinned.
    pub cores: Vec<usize>,
    /// Verification journals are kept here, one file a job with the job's number appended, and
    /// read from here if they exist.
    pub journal: Option<PathBuf>,
}

/// Counts of all jobs, for a progress display.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Completed reads.
    pub reads: u64,
    /// Completed writes.
    pub writes: u64,
    /// Bytes moved.
    pub bytes: u64,
    /// Failed I/Os.
    pub errors: u64,
    /// Blocks judged by the verification that follows the I/O.
    pub verified_blocks: u64,
}

/// Why a run did not happen.
#[derive(Debug, thiserror::Error)]
pub enum PerfError {
    /// The cores' event loops did not start.
    #[error(transparent)]
    Start(#[from] reactor::StartError),
    /// The target could not be reached, or used.
    #[error("{target}: {source}")]
    Target {
        /// Its address.
        target: String,
        /// Why.
        source: initiator::Error,
    },
    /// The workload does not fit the target.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// The verification journal cannot be used.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The journal belongs to another region or block size than the workload's.
    #[error("verification journal {0}: it covers other blocks than this workload")]
    JournalRegion(PathBuf),
    /// A job's thread ended without a word, which is a defect.
    #[error("a job ended without a report")]
    JobLost,
}

/// Runs the workload and reports; `watch` is told how it goes a few times a second.
///
/// # Errors
/// [`PerfError`] when nothing could be run; failed I/O and failed verification are in the report.
pub fn run(
    options: &PerfOptions,
    stop: &Stop,
    mut watch: impl FnMut(Snapshot),
) -> Result<Report, PerfError> {
    options.workload.check_memory()?;
    let cpus = match options.cores.as_slice() {
        [] => vec![None],
        cores => cores.iter().copied().map(Some).collect(),
    };
    let cores = Cores::start(CoresConfig {
        cpus,
        name: "perf".to_owned(),
        reactor: ReactorConfig::default(),
    })?;
    let jobs = options.workload.jobs.max(1);
    let ready = Arc::new(AtomicU32::new(0));
    let (sender, receiver) = mpsc::channel();
    let handles = cores.handles().iter().cycle();
    let progress: Vec<Arc<Progress>> = (0..jobs)
        .zip(handles)
        .map(|(number, core)| {
            let start = Start {
                options: options.clone(),
                number,
                progress: Arc::default(),
                stop: stop.clone(),
                ready: Arc::clone(&ready),
            };
            let progress = Arc::clone(&start.progress);
            launch(core, start, sender.clone());
            progress
        })
        .collect();
    drop(sender);
    let reports = gather(&receiver, jobs, stop, || watch(snapshot(&progress)))?;
    watch(snapshot(&progress));
    drop(cores);
    let target = options.target.to_string();
    let mut report = Report::of_jobs(target, options.workload.clone(), reports);
    report.interrupted |= stop.is_stopped();
    Ok(report)
}

/// What a job is told when it is sent to its core.
struct Start {
    options: PerfOptions,
    number: u32,
    progress: Arc<Progress>,
    stop: Stop,
    /// Jobs that have connected: all begin together.
    ready: Arc<AtomicU32>,
}

type Outcome = Result<JobReport, PerfError>;

fn launch(core: &CoreHandle, start: Start, sender: mpsc::Sender<Outcome>) {
    let submitted = core.submit(move || async move {
        let ready = Arc::clone(&start.ready);
        let connected = start.connect().await;
        ready.fetch_add(1, Ordering::Relaxed);
        let outcome = match connected {
            Ok(connected) => connected.run().await,
            Err(error) => Err(error),
        };
        // The receiver is gone when another job has failed; then nobody wants this outcome.
        let _ = sender.send(outcome);
    });
    drop(submitted);
}

/// Waits for all jobs; the first that cannot run ends the others.
fn gather(
    receiver: &mpsc::Receiver<Outcome>,
    jobs: u32,
    stop: &Stop,
    mut watch: impl FnMut(),
) -> Result<Vec<JobReport>, PerfError> {
    let mut reports = Vec::new();
    let mut failure = None;
    let mut ended = 0;
    while ended < jobs {
        match receiver.recv_timeout(WATCH_PERIOD) {
            Ok(Ok(report)) => reports.push(report),
            Ok(Err(error)) => {
                stop.stop();
                failure = failure.or(Some(error));
            }
            Err(mpsc::RecvTimeoutError::Timeout) => {
                watch();
                continue;
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                return Err(failure.unwrap_or(PerfError::JobLost));
            }
        }
        ended += 1;
    }
    failure.map_or(Ok(reports), Err)
}

fn snapshot(progress: &[Arc<Progress>]) -> Snapshot {
    let mut sum = Snapshot::default();
    for job in progress {
        sum.reads += job.reads.load(Ordering::Relaxed);
        sum.writes += job.writes.load(Ordering::Relaxed);
        sum.bytes += job.bytes.load(Ordering::Relaxed);
        sum.errors += job.errors.load(Ordering::Relaxed);
        sum.verified_blocks += job.verified_blocks.load(Ordering::Relaxed);
    }
    sum
}

/// A job that has its connection and waits for the others.
struct Connected {
    start: Start,
    controller: Controller,
    namespace: Namespace,
    journal: Option<Journal>,
}

impl Start {
    async fn connect(self) -> Result<Connected, PerfError> {
        let options = &self.options;
        let target = &options.target;
        let named = |source| PerfError::Target {
            target: target.to_string(),
            source,
        };
        let mut connect = options.connect.clone();
        connect.io_queues = 1;
        connect.queue_depth = options.workload.depth.min(4096) as u16;
        let controller = Controller::connect(target, &target.subsystem_nqn, connect)
            .await
            .map_err(named)?;
        let namespace = controller
            .namespace(target.namespace_id.unwrap_or(1))
            .await
            .map_err(named)?;
        let region = options
            .workload
            .region(&namespace.geometry(), self.number)?;
        let journal = self.journal(&namespace.geometry(), region)?;
        Ok(Connected {
            start: self,
            controller,
            namespace,
            journal,
        })
    }

    /// The journal of an earlier run, or a new one if this run writes.
    fn journal(&self, geometry: &Geometry, region: Region) -> Result<Option<Journal>, PerfError> {
        let workload = &self.options.workload;
        if workload.verify == Verify::None {
            return Ok(None);
        }
        if let Some(path) = self.journal_path().filter(|path| path.exists()) {
            let journal = Journal::load(&path)?;
            let fits = journal.first_block() <= region.start_block
                && journal.first_block() + journal.blocks() >= region.start_block + region.blocks()
                && journal.block_bytes() == geometry.block_bytes;
            return if fits {
                Ok(Some(journal))
            } else {
                Err(PerfError::JournalRegion(path))
            };
        }
        let new = || {
            let seed = run_seed(workload.job_seed(self.number));
            Journal::new(
                seed,
                region.start_block,
                region.blocks(),
                geometry.block_bytes,
            )
        };
        Ok(workload.pattern.writes().then(new))
    }

    fn journal_path(&self) -> Option<PathBuf> {
        let mut name = self.options.journal.clone()?.into_os_string();
        name.push(format!(".{}", self.number));
        Some(name.into())
    }
}

/// Stamps of an earlier run must not pass for this one's, whatever the workload's seed.
fn run_seed(seed: u64) -> u64 {
    let since_epoch = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    mix(seed ^ since_epoch.as_nanos() as u64)
}

impl Connected {
    async fn run(self) -> Outcome {
        let Connected {
            start,
            controller,
            namespace,
            journal,
        } = self;
        let jobs = start.options.workload.jobs;
        while start.ready.load(Ordering::Relaxed) < jobs && !start.stop.is_stopped() {
            sleep(Duration::from_millis(1)).await;
        }
        let path = start.journal_path();
        let job = Job {
            device: Rc::new(namespace),
            workload: start.options.workload,
            number: start.number,
            journal,
            progress: start.progress,
            stop: start.stop,
        };
        let mut report = job.run().await?;
        if let (Some(path), Some(journal)) = (path, &report.journal) {
            journal.save(&path)?;
        }
        // No report tells of this one, and the user can mend it.
        if let Some(reason @ LossReason::MemoryLock { .. }) = controller.loss() {
            return Err(PerfError::Target {
                target: start.options.target.to_string(),
                source: reason.into(),
            });
        }
        let lost = controller.loss().filter(|_| !report.errors.is_empty());
        if let Some(reason) = lost {
            report
                .errors
                .insert(0, format!("connection lost: {reason}"));
        }
        controller.disconnect().await;
        Ok(report)
    }
}
