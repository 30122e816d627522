//! Copy (NVM Command Set 1.1 §3.3.2): the node reads and writes, and no block crosses the network.
//!
//! A Copy is carried out in pieces, one after the other: what makes up a piece is read, and the
//! piece is written as one. To limits, reservations and fences each read and each write is as one
//! of a host. So whoever waits for commands to end waits for one of these, and a Copy that is
//! aborted, or whose host is gone, begins no more of them.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use block::{BlockDevice, BlockRange, Buffer, Durability, Geometry, Lba};
use nvme::command::control;
use nvme::copy::{CopyCommand, CopyFormat, FAST_COPY_ONLY, SourceRange};
use nvme::{Status, SubmissionEntry};
use qos::Direction;
use reactor::sync::Notify;

use crate::errors::Failure;
use crate::in_flight::Entered;
use crate::io::{GONE, IoQueue, durability};
use crate::namespace::Namespace;
use crate::pace::Pass;
use crate::reservation::Access;
use crate::settings::NAMESPACE_ID_MAX;
use crate::transport::{COPY_PIECE_BYTES, Reply};

/// A Copy command copies this much at most: with the lowest limit that a volume may have, reads and
/// writes together, it takes half of the time that Linux waits for a command.
const BYTES_MAX: u32 = 8 << 20;

/// A Copy command names at most this many source ranges: as many as 4 KiB hold.
const RANGES_MAX: usize = 128;

/// What a Copy to a namespace may have, as Identify tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CopyLimits {
    /// MSSRL.
    pub range_blocks: u16,
    /// MCL.
    pub blocks: u32,
    /// MSRC.
    pub ranges_minus_one: u8,
}

impl CopyLimits {
    pub fn of(geometry: &Geometry) -> CopyLimits {
        let block_bytes = geometry.block_bytes;
        // What a Copy writes is as atomic as one write (NVMCSA): where a longer one than a piece
        // would have to be, a Copy is a piece.
        let atomic_bytes = u64::from(geometry.power_fail_atomic_blocks) * u64::from(block_bytes);
        let bytes = match atomic_bytes > u64::from(COPY_PIECE_BYTES) {
            true => COPY_PIECE_BYTES,
            false => BYTES_MAX,
        };
        let blocks = bytes / block_bytes;
        CopyLimits {
            range_blocks: u16::try_from(blocks).unwrap_or(u16::MAX),
            blocks,
            ranges_minus_one: RANGES_MAX as u8 - 1,
        }
    }
}

/// The Copy commands of a queue that are being carried out.
#[derive(Default)]
pub(crate) struct Copies {
    under_way: RefCell<Vec<Rc<Copying>>>,
    ended: Notify,
}

/// One of them.
#[derive(Default)]
struct Copying {
    command_id: u16,
    /// It begins nothing any more.
    stopped: Cell<bool>,
    /// Its host has asked for that, by Abort.
    aborted: Cell<bool>,
    /// It has ended before it had copied everything.
    ended_early: Cell<bool>,
}

impl Copies {
    fn begin(&self, command_id: u16) -> Rc<Copying> {
        let copying = Rc::new(Copying {
            command_id,
            ..Copying::default()
        });
        self.under_way.borrow_mut().push(Rc::clone(&copying));
        copying
    }

    fn end(&self, copying: &Rc<Copying>) {
        let mut under_way = self.under_way.borrow_mut();
        under_way.retain(|other| !Rc::ptr_eq(other, copying));
        self.ended.notify_all();
    }

    /// None of them begins anything any more.
    pub fn stop(&self) {
        for copying in self.under_way.borrow().iter() {
            copying.stopped.set(true);
        }
    }

    /// Ends one, and says whether it has ended for that.
    pub async fn abort(&self, command_id: u16) -> bool {
        let has_this = |copying: &&Rc<Copying>| copying.command_id == command_id;
        let found = self.under_way.borrow().iter().find(has_this).cloned();
        let Some(copying) = found else { return false };
        copying.aborted.set(true);
        copying.stopped.set(true);
        let is_under_way = || {
            let under_way = self.under_way.borrow();
            under_way.iter().any(|other| Rc::ptr_eq(other, &copying))
        };
        while is_under_way() {
            self.ended.notified().await;
        }
        copying.ended_early.get()
    }
}

impl Copying {
    /// `Err` once it is to begin nothing any more.
    fn check(&self) -> Result<(), Status> {
        match (self.stopped.get(), self.aborted.get()) {
            (false, _) => Ok(()),
            (true, true) => Err(Status::ABORT_REQUESTED),
            (true, false) => Err(Status::ABORTED_QUEUE_DELETION),
        }
    }
}

/// A Copy that may be carried out.
struct Job<'a> {
    copying: &'a Copying,
    nsid: u32,
    start: Lba,
    durability: Durability,
    sources: &'a [SourceRange],
    format: CopyFormat,
}

/// How far one has got.
#[derive(Clone, Copy, Default)]
struct Progress {
    /// The source range that is next, and how much of it is copied.
    range: usize,
    of_range: u64,
    /// Blocks that are copied.
    blocks: u64,
}

/// Blocks of a namespace.
#[derive(Clone, Copy)]
struct Place {
    nsid: u32,
    range: BlockRange,
}

/// What a Copy ends with, and where it came from.
struct Failed {
    status: Status,
    nsid: u32,
    lba: Lba,
}

impl<D: BlockDevice + 'static> IoQueue<D> {
    /// Executes a Copy. A failure says in dword 0 which source range is the first that may not
    /// have been copied.
    pub async fn copy(&self, entry: &SubmissionEntry, data: Option<Buffer>) -> Reply {
        let command = CopyCommand::of(entry);
        let data = data.unwrap_or_else(|| Buffer::new(0));
        let sources = match self.check_copy(command, &data) {
            Ok(sources) => sources,
            Err(status) => return self.failed(entry, status),
        };
        let copying = self.copies.begin(entry.command_id.get());
        let job = Job {
            copying: &copying,
            nsid: command.namespace_id.get(),
            start: Lba(command.start.get()),
            durability: durability(command.control.get()),
            sources,
            format: command.source_format(),
        };
        let mut progress = Progress::default();
        let outcome = self.carry_out(&job, &mut progress).await;
        copying.ended_early.set(outcome.is_err());
        self.copies.end(&copying);
        match outcome {
            Ok(()) => Reply::success(),
            Err(failed) => {
                self.count_failure(&Failure {
                    queue_id: self.queue_id,
                    command_id: entry.command_id.get(),
                    status: failed.status,
                    namespace_id: failed.nsid,
                    lba: failed.lba.0,
                });
                Reply {
                    result: progress.range as u64,
                    ..Reply::status(failed.status)
                }
            }
        }
    }

    /// The source ranges of a command that may be carried out as it is.
    fn check_copy<'a>(
        &self,
        command: &CopyCommand,
        data: &'a [u8],
    ) -> Result<&'a [SourceRange], Status> {
        let format = command.source_format();
        let is_enabled = match format {
            CopyFormat::OWN => true,
            CopyFormat::NAMED => self.behaviour.copies_from_others(),
            _ => false,
        };
        if !is_enabled || command.control.get() & control::DIRECTIVE_MASK != 0 {
            return Err(Status::INVALID_FIELD.do_not_retry());
        }
        let nsid = command.namespace_id.get();
        let written = self.subsystem.namespace(nsid).ok_or(GONE)?;
        let geometry = written.geometry();
        let limits = CopyLimits::of(&geometry);
        let too_much = Status::COMMAND_SIZE_LIMIT_EXCEEDED.do_not_retry();
        if command.ranges_minus_one > limits.ranges_minus_one {
            return Err(too_much);
        }
        let sources = command.sources(data).map_err(Status::do_not_retry)?;
        for source in sources {
            if source.blocks() > u64::from(limits.range_blocks) {
                return Err(too_much);
            }
            self.check_source(nsid, &geometry, (source, format))?;
        }
        let blocks = sources.iter().map(SourceRange::blocks).sum();
        if blocks > u64::from(limits.blocks) {
            return Err(too_much);
        }
        let range = BlockRange::new(Lba(command.start.get()), blocks);
        if !geometry.contains(range) {
            return Err(Status::LBA_OUT_OF_RANGE.do_not_retry());
        }
        let overlaps = |source: &SourceRange| {
            let place = place(nsid, (source, format));
            place.nsid == nsid && place.range.overlaps(range)
        };
        if format == CopyFormat::NAMED && sources.iter().any(overlaps) {
            return Err(Status::OVERLAPPING_RANGE.do_not_retry());
        }
        Ok(sources)
    }

    /// Whether blocks may be copied from this source to the namespace `nsid`. A namespace that the
    /// host does not see is as one that is not there.
    fn check_source(
        &self,
        nsid: u32,
        geometry: &Geometry,
        (source, format): (&SourceRange, CopyFormat),
    ) -> Result<(), Status> {
        let place = place(nsid, (source, format));
        if !(1..=NAMESPACE_ID_MAX).contains(&place.nsid) {
            return Err(GONE);
        }
        if let Some(status) = self.subsystem.refusal(place.nsid, &self.paths) {
            return Err(status);
        }
        let found = self.subsystem.namespace(place.nsid);
        let found = found.ok_or(Status::INVALID_FIELD.do_not_retry())?;
        let of_source = found.geometry();
        if of_source.block_bytes != geometry.block_bytes {
            return Err(Status::INCOMPATIBLE_NAMESPACE.do_not_retry());
        }
        if format == CopyFormat::NAMED && source.options.get() & FAST_COPY_ONLY != 0 {
            return Err(Status::FAST_COPY_NOT_POSSIBLE.do_not_retry());
        }
        match of_source.contains(place.range) {
            true => Ok(()),
            false => Err(Status::LBA_OUT_OF_RANGE.do_not_retry()),
        }
    }

    async fn carry_out(&self, job: &Job<'_>, progress: &mut Progress) -> Result<(), Failed> {
        while progress.range < job.sources.len() {
            let mut next = *progress;
            let start = Lba(job.start.0 + progress.blocks);
            let written = |status| Failed {
                status,
                nsid: job.nsid,
                lba: start,
            };
            let namespace = self.subsystem.namespace(job.nsid);
            let namespace = namespace.ok_or(GONE).map_err(written)?;
            let most = u64::from(COPY_PIECE_BYTES / namespace.geometry().block_bytes);
            let mut parts = Vec::new();
            while let Some(part) = next.advance(job, progress.blocks + most) {
                let read = self.read_part(job.copying, part).await;
                parts.push(read.map_err(|status| Failed {
                    status,
                    nsid: part.nsid,
                    lba: part.range.start,
                })?);
            }
            let range = BlockRange::new(start, next.blocks - progress.blocks);
            let done = self.write_piece(job, &namespace, range, parts).await;
            done.map_err(written)?;
            *progress = next;
        }
        Ok(())
    }

    async fn read_part(&self, copying: &Copying, part: Place) -> Result<Buffer, Status> {
        let namespace = self.subsystem.namespace(part.nsid).ok_or(GONE)?;
        let arrived = reactor::turn_started();
        let started = self.start(copying, &namespace, part.range, Access::Read);
        let (_started, bytes) = started.await?;
        let buffer = Buffer::new(bytes as usize);
        let (buffer, result) = namespace.device.read(part.range.start, buffer).await;
        let read = result.map_or(0, |()| u64::from(bytes));
        namespace.counters.count_read(arrived, read);
        result?;
        Ok(buffer)
    }

    async fn write_piece(
        &self,
        job: &Job<'_>,
        namespace: &Rc<Namespace<D>>,
        range: BlockRange,
        mut parts: Vec<Buffer>,
    ) -> Result<(), Status> {
        let arrived = reactor::turn_started();
        let started = self.start(job.copying, namespace, range, Access::Write);
        let (_started, bytes) = started.await?;
        let device = &namespace.device;
        let result = match (parts.pop(), parts.is_empty()) {
            (Some(only), true) => device.write(range.start, only, job.durability).await.1,
            (last, _) => {
                parts.extend(last);
                let written = device.write_vectored(range.start, parts, job.durability);
                written.await.1
            }
        };
        let written = result.map_or(0, |()| u64::from(bytes));
        namespace.counters.count_write(arrived, written);
        Ok(result?)
    }

    /// Waits until a read or a write may begin; gives how many bytes it has, and what it has until
    /// it ends.
    async fn start<'a>(
        &self,
        copying: &Copying,
        namespace: &'a Rc<Namespace<D>>,
        range: BlockRange,
        access: Access,
    ) -> Result<((Pass, Entered<'a>), u32), Status> {
        let bytes = range.blocks * u64::from(namespace.geometry().block_bytes);
        let direction = match access {
            Access::Read => Direction::Read,
            Access::Flush | Access::Write => Direction::Write,
        };
        let turn = namespace.pace.enter(direction, bytes, &copying.stopped);
        let pass = turn.await;
        copying.check()?;
        let entered = self.enter(namespace, range, access).await?;
        copying.check()?;
        Ok(((pass?, entered), bytes as u32))
    }
}

impl Progress {
    /// The next blocks to read, up to when so many are copied; none once they are.
    fn advance(&mut self, job: &Job<'_>, blocks_max: u64) -> Option<Place> {
        let source = job.sources.get(self.range)?;
        let whole = place(job.nsid, (source, job.format));
        let left = whole.range.blocks - self.of_range;
        let blocks = left.min(blocks_max - self.blocks);
        if blocks == 0 {
            return None;
        }
        let start = Lba(whole.range.start.0 + self.of_range);
        self.blocks += blocks;
        self.of_range += blocks;
        if blocks == left {
            self.range += 1;
            self.of_range = 0;
        }
        Some(Place {
            range: BlockRange::new(start, blocks),
            ..whole
        })
    }
}

/// Where a source range is, of a Copy to the namespace `nsid`.
fn place(nsid: u32, (source, format): (&SourceRange, CopyFormat)) -> Place {
    Place {
        nsid: match format {
            CopyFormat::NAMED => source.namespace_id.get(),
            _ => nsid,
        },
        range: BlockRange::new(Lba(source.start.get()), source.blocks()),
    }
}
