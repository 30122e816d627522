//! [`Session`]: a target held open, on threads of its own, for loads one after the other.
//!
//! Each thread has an event loop and some of the target's devices. Real devices are spread over
//! the machine's processors; what goes by a virtual clock shares one thread, and so one clock.

mod danger;
mod device;
mod error;
mod open;

use std::ops::Range;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::JoinHandle;

use block::{BlockDevice, BlockRange, Geometry, Lba};
use drive::EmulatedDrive;
use reactor::{Reactor, ReactorConfig};
use ssd::{FlashCounters, Profile};

pub use error::SessionError;

use self::open::Opened;
use crate::experiment::Smart;
use crate::load::{Job, JobReport, Journal, Progress, Stop, Verify, Workload};
use crate::plan::{Clock, Target, TargetKind};

/// Capacity factor of emulated drives where the plan says nothing: 8 GB of a 7.68 TB drive.
const DRIVE_SCALE: f64 = 0.001;

/// Pieces in which a device is deallocated.
const PURGE_BLOCKS: u64 = 1 << 18;

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

/// One thread's part of a target.
#[derive(Clone, Debug)]
struct Part {
    target: Target,
    profile: Option<Profile>,
    seed: u64,
    writes: bool,
    destroy: Vec<String>,
    own: Vec<String>,
    /// Indexes of drives, paths or addresses.
    drives: Range<u32>,
}

/// A target held open. Its threads end with it.
pub struct Session {
    workers: Vec<Worker>,
    region_bytes: u64,
}

struct Worker {
    commands: Option<Sender<Command>>,
    thread: Option<JoinHandle<()>>,
    devices: u32,
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

enum Command {
    Run(Run),
    Purge(Sender<Result<(), SessionError>>),
    Counts(Sender<DriveCounts>),
    Health(Sender<Vec<Smart>>),
    /// Asks for the files that were made, which are then not removed at the end.
    Release(Sender<Vec<PathBuf>>),
}

/// A load, as a thread is told to run it.
struct Run {
    workload: Workload,
    first_job: u32,
    progress: Vec<Arc<Progress>>,
    stop: Stop,
    reply: Sender<Result<Vec<JobReport>, SessionError>>,
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
            let (ready, opened) = mpsc::channel();
            let (commands, received) = mpsc::channel();
            let thread = std::thread::spawn(move || work(&part, &ready, &received));
            let worker = Worker {
                commands: Some(commands),
                thread: Some(thread),
                devices: 0,
            };
            session.workers.push(worker);
            let (devices, bytes) = opened.recv().map_err(|_| SessionError::Lost)??;
            session.region_bytes = session.region_bytes.min(bytes);
            if let Some(worker) = session.workers.last_mut() {
                worker.devices = devices;
            }
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
        for worker in &mut self.workers {
            worker.commands = None;
        }
        for worker in &mut self.workers {
            if let Some(thread) = worker.thread.take() {
                // A thread that panicked has said so.
                drop(thread.join());
            }
        }
    }
}

impl Worker {
    fn send(&self, command: Command) {
        if let Some(commands) = &self.commands {
            // A thread that has ended drops the reply's sender with the command.
            drop(commands.send(command));
        }
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

/// The thread's life: opens, answers, closes.
fn work(
    part: &Part,
    ready: &Sender<Result<(u32, u64), SessionError>>,
    commands: &Receiver<Command>,
) {
    let reactor = if part.target.clock == Some(Clock::Virtual) {
        Ok(Reactor::simulated(part.seed))
    } else {
        Reactor::io_uring(ReactorConfig::default())
    };
    let opened = reactor.map_err(SessionError::from).and_then(|reactor| {
        let opened = reactor.run(Opened::open(part))?;
        Ok((reactor, opened))
    });
    let (reactor, mut opened) = match opened {
        Ok(opened) => opened,
        // Whoever waits for it has asked for it.
        Err(error) => return drop(ready.send(Err(error))),
    };
    let devices: Vec<Rc<_>> = opened.devices.drain(..).map(Rc::new).collect();
    let bytes = |geometry: &Geometry| open::region_bytes(geometry, &part.target);
    let smallest = devices.iter().map(|device| bytes(&device.geometry())).min();
    drop(ready.send(Ok((devices.len() as u32, smallest.unwrap_or(0)))));
    for command in commands {
        match command {
            Command::Run(run) => {
                let reply = run.reply.clone();
                drop(reply.send(reactor.run(run_jobs(&devices, run))));
            }
            Command::Purge(reply) => {
                let bytes = smallest.unwrap_or(0);
                drop(reply.send(reactor.run(purge(&devices, bytes))));
            }
            Command::Counts(reply) => drop(reply.send(counts(&opened))),
            Command::Health(reply) => {
                let first = part.drives.start;
                drop(reply.send((first..).zip(&opened.emulated).map(smart).collect()));
            }
            Command::Release(reply) => drop(reply.send(std::mem::take(&mut opened.made))),
        }
    }
    reactor.run(async move {
        drop(devices);
        opened.close().await;
    });
}

fn counts(opened: &Opened) -> DriveCounts {
    let mut sum = DriveCounts::default();
    for drive in &opened.emulated {
        sum.flash = sum.flash.and(&drive.flash_counters());
        let punctuality = drive.punctuality();
        sum.completed += punctuality.completed;
        sum.late += punctuality.late;
    }
    sum
}

fn smart((index, drive): (u32, &EmulatedDrive)) -> Smart {
    let (health, punctuality) = (drive.health(), drive.punctuality());
    Smart {
        drive: format!("emulated {}", index + 1),
        percentage_used: health.percentage_used,
        data_units_read: health.data_units_read,
        data_units_written: health.data_units_written,
        host_read_commands: health.host_read_commands,
        host_write_commands: health.host_write_commands,
        write_amplification_thousandths: Some(health.write_amplification_thousandths),
        completed: Some((punctuality.completed, punctuality.late)),
    }
}

async fn run_jobs<D: BlockDevice + 'static>(
    devices: &[Rc<D>],
    run: Run,
) -> Result<Vec<JobReport>, SessionError> {
    let mut tasks = Vec::new();
    let mut progress = run.progress.into_iter();
    let each = devices
        .iter()
        .flat_map(|device| std::iter::repeat_n(device, run.workload.jobs as usize));
    for (number, device) in (run.first_job..).zip(each) {
        let journal = journal(&run.workload, &device.geometry(), number)?;
        let job = Job {
            device: Rc::clone(device),
            workload: run.workload.clone(),
            number,
            journal,
            progress: progress.next().unwrap_or_default(),
            stop: run.stop.clone(),
        };
        tasks.push(reactor::spawn(job.run()));
    }
    let mut reports = Vec::new();
    for task in tasks {
        reports.push(task.await?);
    }
    Ok(reports)
}

/// What a verified job remembers of its own writes; one that only reads checks each block alone.
fn journal(
    workload: &Workload,
    geometry: &Geometry,
    number: u32,
) -> Result<Option<Journal>, SessionError> {
    if workload.verify == Verify::None || !workload.pattern.writes() {
        return Ok(None);
    }
    let region = workload.region(geometry, number)?;
    let seed = workload.job_seed(number);
    let journal = Journal::new(
        seed,
        region.start_block,
        region.blocks(),
        geometry.block_bytes,
    );
    Ok(Some(journal))
}

async fn purge<D: BlockDevice>(devices: &[Rc<D>], bytes: u64) -> Result<(), SessionError> {
    for device in devices {
        let blocks = bytes / u64::from(device.geometry().block_bytes);
        for start in (0..blocks).step_by(PURGE_BLOCKS as usize) {
            let range = BlockRange::new(Lba(start), PURGE_BLOCKS.min(blocks - start));
            device.deallocate(range).await.map_err(SessionError::Io)?;
        }
    }
    Ok(())
}
