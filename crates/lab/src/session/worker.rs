//! [`Worker`]: a thread with an event loop and its part of a target, which does what it is asked.

use std::ops::Range;
use std::path::PathBuf;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::task::{Context, Poll, Wake};
use std::thread::{JoinHandle, Thread};

use block::{BlockDevice, BlockRange, Geometry, Lba};
use drive::EmulatedDrive;
use reactor::mailbox::{self, TrySendError};
use reactor::{Reactor, ReactorConfig};
use ssd::Profile;

use super::device::Device;
use super::open::{self, Opened};
use super::{DriveCounts, SessionError};
use crate::experiment::Smart;
use crate::load::{Job, JobReport, Journal, Progress, Stop, Verify, Workload};
use crate::plan::{Clock, Target};

/// Each that asks waits for its answer, so that one or two are on their way at most.
const COMMANDS_MAX: usize = 4;

/// Pieces in which a device is deallocated.
const PURGE_BLOCKS: u64 = 1 << 18;

/// One thread's part of a target.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub(super) target: Target,
    pub(super) profile: Option<Profile>,
    pub(super) seed: u64,
    pub(super) writes: bool,
    pub(super) destroy: Vec<String>,
    pub(super) own: Vec<String>,
    /// Indexes of drives, paths or addresses.
    pub(super) drives: Range<u32>,
}

/// What a thread is asked.
pub(super) enum Command {
    Run(Run),
    Purge(Sender<Result<(), SessionError>>),
    Counts(Sender<DriveCounts>),
    Health(Sender<Vec<Smart>>),
    /// Asks for the files that were made, which are then not removed at the end.
    Release(Sender<Vec<PathBuf>>),
}

/// A load, as a thread is told to run it.
pub(super) struct Run {
    pub(super) workload: Workload,
    pub(super) first_job: u32,
    pub(super) progress: Vec<Arc<Progress>>,
    pub(super) stop: Stop,
    pub(super) reply: Sender<Result<Vec<JobReport>, SessionError>>,
}

/// A thread that has opened its part.
pub(super) struct Worker {
    commands: Option<mailbox::Sender<Command>>,
    thread: Option<JoinHandle<()>>,
    /// How many devices it has.
    pub(super) devices: u32,
}

impl Worker {
    /// Opens `part` on a thread of its own; the smallest of its devices has so many bytes for
    /// loads.
    ///
    /// # Errors
    /// [`SessionError`]; nothing stays open.
    pub(super) fn start(part: Part) -> Result<(Worker, u64), SessionError> {
        let (ready, opened) = mpsc::channel();
        let (commands, received) = mailbox::channel(COMMANDS_MAX);
        let thread = std::thread::spawn(move || work(&part, &ready, received));
        let mut worker = Worker {
            commands: Some(commands),
            thread: Some(thread),
            devices: 0,
        };
        let bytes;
        (worker.devices, bytes) = opened.recv().map_err(|_| SessionError::Lost)??;
        Ok((worker, bytes))
    }

    pub(super) fn send(&self, command: Command) {
        if let Some(commands) = &self.commands {
            // A thread that has ended drops the reply's sender with the command.
            let sent = commands.try_send(command);
            let full = matches!(sent, Err(TrySendError::Full(_)));
            assert!(!full, "a thread is asked when it has answered");
        }
    }

    /// Tells the thread to close what it has opened.
    pub(super) fn end(&mut self) {
        self.commands = None;
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.end();
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has said so.
            drop(thread.join());
        }
    }
}

/// The thread's life: opens, answers, closes.
fn work(
    part: &Part,
    ready: &Sender<Result<(u32, u64), SessionError>>,
    mut commands: mailbox::Receiver<Command>,
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
    while let Some(command) = next(&reactor, &mut commands, part.target.clock) {
        match command {
            Command::Run(run) => {
                let reply = run.reply.clone();
                let ran = reactor.run(run_jobs(&devices, run));
                drop(reply.send(ran.and_then(|reports| connected(part, &devices, reports))));
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

/// The next command; `None` once there will be none. What keeps a target goes on meanwhile: the
/// keep alive of a connection, the lease of a pool. Virtual time stands still between loads.
fn next(
    reactor: &Reactor,
    commands: &mut mailbox::Receiver<Command>,
    clock: Option<Clock>,
) -> Option<Command> {
    match clock {
        Some(Clock::Virtual) => wait(commands.recv()),
        _ => reactor.run(commands.recv()),
    }
}

/// Wakes a thread that waits outside an event loop.
struct Unparks(Thread);

impl Wake for Unparks {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits on this thread, on which no event loop runs meanwhile.
fn wait<F: Future>(future: F) -> F::Output {
    let waker = Arc::new(Unparks(std::thread::current())).into();
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
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

/// The reports, unless a load ended because a volume's connection did.
fn connected(
    part: &Part,
    devices: &[Rc<Device>],
    reports: Vec<JobReport>,
) -> Result<Vec<JobReport>, SessionError> {
    if reports.iter().all(|report| report.errors.is_empty()) {
        return Ok(reports);
    }
    let first = part.drives.start as usize;
    let addresses = part.target.addresses.iter().skip(first);
    let mut devices = devices.iter().zip(addresses);
    match devices.find_map(|(device, address)| Some((address, device.loss()?))) {
        Some((address, reason)) => Err(SessionError::ConnectionLost {
            address: address.clone(),
            reason,
        }),
        None => Ok(reports),
    }
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
