//! [`Job`]: one workload on one device, at its queue depth, on one core.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use block::{BlockDevice, Buffer, Durability, IoError, Lba};
use reactor::{Instant, now, sleep, sleep_until, spawn, yield_now};

use super::journal::Journal;
use super::offsets::Offsets;
use super::random::SplitMix;
use super::report::{EXAMPLES, Verification};
use super::statistics::{Direction, Statistics};
use super::verification::{self, Findings};
use super::workload::{Region, Verify, Workload, WorkloadError};

/// How often the counts that others may watch are brought up to date.
const PROGRESS_PERIOD: Duration = Duration::from_millis(100);

/// How soon a write of a block is tried again that is still being written.
const BUSY_BLOCK_DELAY: Duration = Duration::from_micros(20);

/// Ends jobs from outside, from any thread: they finish what is in flight and report.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Asks all jobs that share this to end.
    pub fn stop(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// True once asked.
    pub fn is_stopped(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// What a job has done so far, for watching from any thread; ramp time included.
#[derive(Debug, Default)]
pub struct Progress {
    /// Completed reads.
    pub reads: AtomicU64,
    /// Completed writes.
    pub writes: AtomicU64,
    /// Bytes moved.
    pub bytes: AtomicU64,
    /// Failed I/Os.
    pub errors: AtomicU64,
    /// Blocks judged by the verification that follows the I/O.
    pub verified_blocks: AtomicU64,
}

/// One workload on one device.
pub struct Job<D> {
    /// What is loaded.
    pub device: Rc<D>,
    /// With what.
    pub workload: Workload,
    /// Which of the workload's jobs this is.
    pub number: u32,
    /// What is known to be on the device, for verified workloads. Without one, a verified
    /// workload that only reads checks each block by itself.
    pub journal: Option<Journal>,
    /// Where progress is shown.
    pub progress: Arc<Progress>,
    /// Ends the job early.
    pub stop: Stop,
}

/// What one job found.
#[derive(Debug)]
pub struct JobReport {
    /// What it measured.
    pub statistics: Statistics,
    /// For how long.
    pub elapsed: Duration,
    /// It was ended from outside.
    pub interrupted: bool,
    /// What verification found.
    pub verification: Option<Verification>,
    /// The first few failures in words.
    pub errors: Vec<String>,
    /// The journal, brought up to date.
    pub journal: Option<Journal>,
}

impl<D: BlockDevice + 'static> Job<D> {
    /// Runs the workload, then, if it is verified and writes, reads back all that was acknowledged.
    ///
    /// # Errors
    /// When the workload does not fit the device; failures of I/O are in the report.
    pub async fn run(self) -> Result<JobReport, WorkloadError> {
        let region = self.workload.region(&self.device.geometry(), self.number)?;
        let writes = self.workload.pattern.writes();
        let verifies = self.workload.verify == Verify::Crc32c;
        let depth = self.workload.depth;
        let buffers = buffers(&self.workload).await;
        let run = Rc::new(Run::new(self, region));
        let slots: Vec<_> = buffers
            .into_iter()
            .map(|buffer| spawn(run_slot(Rc::clone(&run), buffer)))
            .collect();
        let ticker = spawn(show_progress(Rc::clone(&run))).cancel_on_drop();
        for slot in slots {
            slot.await;
        }
        let elapsed = run.elapsed();
        let mut found = run.findings.borrow().verification();
        let journal = run.journal.take();
        if let Some(journal) = journal.as_ref().filter(|_| verifies && writes)
            && !run.gave_up.get()
        {
            let pass = verification::Pass {
                depth,
                transfer_blocks: region.transfer_blocks,
                progress: &run.progress.verified_blocks,
            };
            found.add(&verification::verify(&*run.device, journal, pass).await);
        }
        drop(ticker);
        run.publish();
        Ok(JobReport {
            statistics: run.statistics.take(),
            elapsed,
            interrupted: run.stop.is_stopped(),
            verification: verifies.then_some(found),
            errors: run.errors.take(),
            journal,
        })
    }
}

/// What the slots of a running job share.
struct Run<D> {
    device: Rc<D>,
    workload: Workload,
    region: Region,
    block_bytes: u64,
    offsets: RefCell<Offsets>,
    directions: RefCell<SplitMix>,
    journal: RefCell<Option<Journal>>,
    findings: RefCell<Findings>,
    statistics: RefCell<Statistics>,
    errors: RefCell<Vec<String>>,
    progress: Arc<Progress>,
    stop: Stop,
    issued: Cell<u64>,
    issue_max: u64,
    started: Instant,
    measured_from: Instant,
    measured_to: Option<Instant>,
    last_completed: Cell<Instant>,
    ramp: Cell<Totals>,
    gave_up: Cell<bool>,
}

/// Completed during ramp time, hence in no statistics.
#[derive(Clone, Copy, Default)]
struct Totals {
    reads: u64,
    writes: u64,
    bytes: u64,
}

/// One I/O to be done.
#[derive(Clone, Copy)]
struct Request {
    direction: Direction,
    start: u64,
    due: Option<Instant>,
}

impl<D: BlockDevice> Run<D> {
    fn new(job: Job<D>, region: Region) -> Run<D> {
        let started = now();
        let workload = job.workload;
        let measured_from = started + workload.ramp_time;
        Run {
            block_bytes: u64::from(job.device.geometry().block_bytes),
            device: job.device,
            offsets: RefCell::new(workload.offsets(&region, job.number)),
            directions: RefCell::new(SplitMix::new(!workload.job_seed(job.number))),
            journal: RefCell::new(job.journal),
            findings: RefCell::default(),
            statistics: RefCell::default(),
            errors: RefCell::default(),
            progress: job.progress,
            stop: job.stop,
            issued: Cell::new(0),
            issue_max: workload.io_limit(&region).unwrap_or(u64::MAX),
            started,
            measured_from,
            measured_to: workload.runtime.map(|runtime| measured_from + runtime),
            last_completed: Cell::new(measured_from),
            ramp: Cell::default(),
            gave_up: Cell::new(false),
            workload,
            region,
        }
    }

    fn is_over(&self, at: Instant) -> bool {
        self.gave_up.get()
            || self.stop.is_stopped()
            || self.measured_to.is_some_and(|end| at >= end)
    }

    fn next_request(&self, at: Instant) -> Option<Request> {
        let number = self.issued.get();
        if number == self.issue_max || self.is_over(at) {
            return None;
        }
        self.issued.set(number + 1);
        let position = self.offsets.borrow_mut().next_position();
        Some(Request {
            direction: self.direction(),
            start: self.region.start_block + position * self.region.transfer_blocks,
            due: self.workload.rate_iops.map(|rate| {
                let nanoseconds = u128::from(number) * 1_000_000_000 / u128::from(rate);
                self.started + Duration::from_nanos(nanoseconds as u64)
            }),
        })
    }

    fn direction(&self) -> Direction {
        let reads = match self.workload.effective_read_percent() {
            0 => false,
            100 => true,
            percent => self.directions.borrow_mut().below(100) < u64::from(percent),
        };
        if reads {
            Direction::Read
        } else {
            Direction::Write
        }
    }

    fn completed(&self, request: Request, begun: Instant, ended: Instant) {
        let bytes = u64::from(self.workload.transfer_bytes);
        if ended < self.measured_from {
            let mut ramp = self.ramp.get();
            ramp.bytes += bytes;
            match request.direction {
                Direction::Read => ramp.reads += 1,
                Direction::Write => ramp.writes += 1,
            }
            return self.ramp.set(ramp);
        }
        if self.measured_to.is_some_and(|end| ended > end) {
            return;
        }
        self.last_completed.set(ended);
        let since_start = ended - self.measured_from;
        let mut statistics = self.statistics.borrow_mut();
        statistics.record(request.direction, bytes, ended - begun, since_start);
    }

    fn failed(&self, request: Request, error: IoError) {
        self.statistics.borrow_mut().record_error(request.direction);
        let mut errors = self.errors.borrow_mut();
        if errors.len() < EXAMPLES {
            let name = match request.direction {
                Direction::Read => "read",
                Direction::Write => "write",
            };
            let blocks = self.region.transfer_blocks;
            errors.push(format!(
                "{name} of {blocks} blocks at {}: {error}",
                Lba(request.start)
            ));
        }
        if !self.workload.continue_on_error {
            self.gave_up.set(true);
        }
    }

    /// Measured time: all of it, unless the job ended early.
    fn elapsed(&self) -> Duration {
        match self.measured_to {
            Some(end) if !self.is_cut_short() => end - self.measured_from,
            _ => self.last_completed.get() - self.measured_from,
        }
    }

    fn is_cut_short(&self) -> bool {
        self.gave_up.get() || self.stop.is_stopped() || self.issued.get() == self.issue_max
    }

    fn publish(&self) {
        let (statistics, ramp) = (self.statistics.borrow(), self.ramp.get());
        let (reads, writes) = (&statistics.reads, &statistics.writes);
        let set = |counter: &AtomicU64, value| counter.store(value, Ordering::Relaxed);
        set(&self.progress.reads, ramp.reads + reads.ios);
        set(&self.progress.writes, ramp.writes + writes.ios);
        set(
            &self.progress.bytes,
            ramp.bytes + reads.bytes + writes.bytes,
        );
        set(&self.progress.errors, reads.errors + writes.errors);
    }
}

async fn show_progress<D: BlockDevice + 'static>(run: Rc<Run<D>>) {
    loop {
        sleep(PROGRESS_PERIOD).await;
        run.publish();
    }
}

/// A buffer for each place in the queue, filled before time is measured. Each has a turn of the
/// event loop: with hundreds of them in one, the keep alive of a connection would wait for seconds
/// on a slow processor.
async fn buffers(workload: &Workload) -> Vec<Buffer> {
    let mut buffers = Vec::with_capacity(workload.depth as usize);
    for slot in 0..workload.depth {
        let mut buffer = Buffer::zeroed(workload.transfer_bytes as usize);
        if workload.pattern.writes() {
            SplitMix::new(workload.seed ^ u64::from(slot) << 32).fill(&mut buffer);
        }
        buffers.push(buffer);
        yield_now().await;
    }
    buffers
}

/// One place in the queue: does one I/O after the other until the job is over.
async fn run_slot<D: BlockDevice + 'static>(run: Rc<Run<D>>, mut buffer: Buffer) {
    let mut floors = Vec::with_capacity(run.region.transfer_blocks as usize);
    let mut begun = now();
    while let Some(request) = run.next_request(begun) {
        if let Some(due) = request.due {
            sleep_until(due).await;
            if run.is_over(now()) {
                return;
            }
            begun = due;
        }
        let (back, result) = match request.direction {
            Direction::Read => run.read(request, buffer, &mut floors).await,
            Direction::Write => run.write(request, buffer).await,
        };
        buffer = back;
        let ended = now();
        match result {
            Ok(()) => run.completed(request, begun, ended),
            Err(error) => run.failed(request, error),
        }
        begun = ended;
    }
}

impl<D: BlockDevice> Run<D> {
    async fn read(
        &self,
        request: Request,
        buffer: Buffer,
        floors: &mut Vec<u32>,
    ) -> (Buffer, Result<(), IoError>) {
        let verifies = self.workload.verify == Verify::Crc32c;
        if let Some(journal) = self.journal.borrow().as_ref().filter(|_| verifies) {
            journal.floors(request.start, self.region.transfer_blocks, floors);
        }
        let (buffer, result) = self.device.read(Lba(request.start), buffer).await;
        if verifies && result.is_ok() {
            let mut findings = self.findings.borrow_mut();
            match self.journal.borrow().as_ref() {
                Some(journal) => findings.judge(journal, request.start, &buffer, floors),
                None => findings.judge_alone(request.start, &buffer, self.block_bytes),
            }
        }
        (buffer, result)
    }

    async fn write(&self, request: Request, mut buffer: Buffer) -> (Buffer, Result<(), IoError>) {
        let Request { start, .. } = request;
        let verifies = self.workload.verify == Verify::Crc32c;
        while verifies && !self.begin(start, &mut buffer) {
            sleep(BUSY_BLOCK_DELAY).await;
        }
        let (buffer, result) = self
            .device
            .write(Lba(start), buffer, Durability::Cached)
            .await;
        if let Some(journal) = self.journal.borrow_mut().as_mut().filter(|_| verifies) {
            match result {
                Ok(()) => journal.acknowledge(start, self.region.transfer_blocks),
                Err(_) => journal.abandon(start, self.region.transfer_blocks),
            }
        }
        (buffer, result)
    }

    fn begin(&self, start: u64, buffer: &mut Buffer) -> bool {
        match self.journal.borrow_mut().as_mut() {
            Some(journal) => journal.begin(start, buffer),
            None => true,
        }
    }
}
