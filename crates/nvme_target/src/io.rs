//! Commands of I/O queues (NVM Command Set 1.0 §3).

use std::cell::Cell;
use std::rc::Rc;

use access::{Nqn, NqnTag};
use block::{BlockDevice, BlockRange, Buffer, Durability, IoError, Lba};
use nvme::command::{
    ALL_NAMESPACES, DATASET_DEALLOCATE, DatasetManagement, DatasetRange, ReadWrite, command_flags,
    control,
};
use nvme::{IoOpcode, Status, SubmissionEntry};
use qos::Direction;
use zerocopy::FromBytes;

use crate::copy::Copies;
use crate::errors::Failure;
use crate::home::Behaviour;
use crate::in_flight::Entered;
use crate::instance::Instance;
use crate::lock::Blocks;
use crate::namespace::{By, Namespace};
use crate::pace::Pass;
use crate::paths::Paths;
use crate::per_core::Core;
use crate::reservation::{Access, HostId};
use crate::tally::add;
use crate::transport::{Command, Reply};
use crate::view::View;

/// A Compare and Write covers at most this many bytes.
pub(crate) const COMPARE_WRITE_BYTES_MAX: u32 = 64 << 10;

/// Verify reads this much at a time.
const VERIFY_BYTES: u64 = 1 << 20;

/// One I/O queue, on the core its connection lives on.
pub(crate) struct IoQueue<D> {
    pub controller_id: u16,
    /// Who its controller was when it joined.
    pub instance: Instance,
    pub queue_id: u16,
    pub host_nqn: Nqn,
    pub host_tag: NqnTag,
    pub host_id: HostId,
    pub subsystem: Rc<View<D>>,
    pub transfer_bytes_max: u32,
    pub behaviour: Behaviour,
    /// How good a path its connection is.
    pub paths: Rc<Paths>,
    pub copies: Copies,
    /// Set by every command; the keep alive timer looks and clears.
    pub traffic: Cell<bool>,
    /// The connection is being closed: nothing waits for its turn any more.
    pub gone: Cell<bool>,
}

/// A refused command: the status it ends with.
type Refused = Status;

impl<D: BlockDevice + 'static> IoQueue<D> {
    /// Executes one command.
    pub async fn execute(&self, entry: &SubmissionEntry, data: Option<Buffer>) -> Reply {
        self.traffic.set(true);
        match self.dispatch(entry, data).await {
            Ok(reply) => reply,
            Err(status) => self.failed(entry, status),
        }
    }

    /// The connection is being closed: what has not begun never will.
    pub fn leave(&self) {
        self.gone.set(true);
        self.copies.stop();
    }

    /// Executes Compare and Write as one; gives both replies, in order.
    pub async fn execute_fused(
        &self,
        core: &Core<D>,
        first: Command,
        second: Command,
    ) -> (Reply, Reply) {
        self.traffic.set(true);
        let (compare, write) = (first.entry, second.entry);
        let failed_first = |status| {
            (
                self.failed(&compare, status),
                Reply::status(Status::ABORTED_FAILED_FUSED),
            )
        };
        let pair = match self.fused_pair(&compare, &write, first.data, second.data) {
            Ok(pair) => pair,
            Err(status) => return failed_first(status),
        };
        match self.compare_and_write(core, pair).await {
            Ok(Ok(())) => (Reply::success(), Reply::success()),
            Ok(Err(error)) => (Reply::success(), self.failed(&write, error.into())),
            Err(status) => failed_first(status),
        }
    }

    /// `Err` where nothing is written; otherwise what came of the write.
    async fn compare_and_write(
        &self,
        core: &Core<D>,
        pair: FusedPair<D>,
    ) -> Result<Result<(), IoError>, Refused> {
        let namespace = Rc::clone(&pair.namespace);
        let arrived = reactor::turn_started();
        let bytes = pair.data.len() as u32;
        let _pass = self.turn(&namespace, Direction::Write, bytes).await?;
        let blocks = Blocks {
            subsystem_nqn: self.subsystem.settings.nqn.clone(),
            nsid: namespace.settings.nsid,
            range: pair.range,
        };
        let lock = core.lock(&blocks, &namespace.in_flight).await?;
        let outcome = self.compare_and_write_locked(pair).await;
        core.unlock(lock);
        if let Ok(written) = &outcome {
            let done = written.map_or(0, |()| u64::from(bytes));
            namespace.counters.count_write(arrived, done);
        }
        outcome
    }

    async fn compare_and_write_locked(
        &self,
        pair: FusedPair<D>,
    ) -> Result<Result<(), IoError>, Refused> {
        let namespace = &pair.namespace;
        let _entered = namespace.enter_locked(self.by(Access::Write))?;
        self.still_served(namespace)?;
        compare_blocks(namespace, pair.range, &pair.expected).await?;
        let device = &namespace.device;
        let write = device.write(pair.range.start, pair.data, pair.durability);
        Ok(write.await.1)
    }

    async fn dispatch(
        &self,
        entry: &SubmissionEntry,
        data: Option<Buffer>,
    ) -> Result<Reply, Refused> {
        if entry.flags & command_flags::FUSED_MASK != 0 {
            return Err(Status::INVALID_FIELD.do_not_retry());
        }
        match IoOpcode(entry.opcode) {
            IoOpcode::READ => self.read(ReadWrite::of(entry)).await,
            IoOpcode::WRITE => self.write(ReadWrite::of(entry), data).await,
            IoOpcode::FLUSH => self.flush(entry.namespace_id.get()).await,
            IoOpcode::WRITE_ZEROES => self.write_zeroes(ReadWrite::of(entry)).await,
            IoOpcode::DATASET_MANAGEMENT => {
                self.dataset_management(DatasetManagement::of(entry), data)
                    .await
            }
            IoOpcode::COMPARE => self.compare(ReadWrite::of(entry), data).await,
            IoOpcode::VERIFY => self.verify(ReadWrite::of(entry)).await,
            // Its own allocation, so that those of other commands need no room for it.
            IoOpcode::COPY => Ok(Box::pin(self.copy(entry, data)).await),
            _ => Err(Status::INVALID_OPCODE.do_not_retry()),
        }
    }

    async fn read(&self, command: &ReadWrite) -> Result<Reply, Refused> {
        let namespace = self.namespace(command.namespace_id.get())?;
        let range = range_of(&namespace, command)?;
        let bytes = self.transfer_bytes(&namespace, range)?;
        if command.data.length.get() < bytes {
            return Err(Status::DATA_SGL_LENGTH_INVALID.do_not_retry());
        }
        let arrived = reactor::turn_started();
        let _pass = self.turn(&namespace, Direction::Read, bytes).await?;
        let _entered = self.enter(&namespace, range, Access::Read).await?;
        let buffer = Buffer::new(bytes as usize);
        let (buffer, result) = namespace.device.read(range.start, buffer).await;
        let read = result.map_or(0, |()| u64::from(bytes));
        namespace.counters.count_read(arrived, read);
        result?;
        Ok(Reply::data(buffer))
    }

    async fn write(&self, command: &ReadWrite, data: Option<Buffer>) -> Result<Reply, Refused> {
        // There are no directives.
        if command.control.get() & control::DIRECTIVE_MASK != 0 {
            return Err(Status::INVALID_FIELD.do_not_retry());
        }
        let namespace = self.namespace(command.namespace_id.get())?;
        let range = range_of(&namespace, command)?;
        let data = self.data_of(&namespace, range, data)?;
        let arrived = reactor::turn_started();
        let bytes = data.len() as u32;
        let _pass = self.turn(&namespace, Direction::Write, bytes).await?;
        let _entered = self.enter(&namespace, range, Access::Write).await?;
        let (_, result) = namespace
            .device
            .write(range.start, data, durability(command.control.get()))
            .await;
        let written = result.map_or(0, |()| u64::from(bytes));
        namespace.counters.count_write(arrived, written);
        result?;
        Ok(Reply::success())
    }

    /// Flush of one namespace, or of all (NSID FFFFFFFFh).
    async fn flush(&self, id: u32) -> Result<Reply, Refused> {
        if id != ALL_NAMESPACES {
            self.flush_one(&self.namespace(id)?).await?;
            return Ok(Reply::success());
        }
        let all: Vec<_> = self
            .subsystem
            .namespaces
            .borrow()
            .values()
            .cloned()
            .collect();
        for namespace in all {
            self.flush_one(&namespace).await?;
        }
        Ok(Reply::success())
    }

    async fn flush_one(&self, namespace: &Rc<Namespace<D>>) -> Result<(), Refused> {
        let nothing = BlockRange::new(Lba(0), 0);
        let _entered = self.enter(namespace, nothing, Access::Flush).await?;
        add(&namespace.counters.flushes, 1);
        namespace.device.flush().await?;
        Ok(())
    }

    async fn write_zeroes(&self, command: &ReadWrite) -> Result<Reply, Refused> {
        let namespace = self.namespace(command.namespace_id.get())?;
        let range = range_of(&namespace, command)?;
        let _pass = self.turn(&namespace, Direction::Write, 0).await?;
        let _entered = self.enter(&namespace, range, Access::Write).await?;
        let deallocate = command.control.get() & control::DEALLOCATE != 0;
        add(&namespace.counters.others, 1);
        if deallocate && namespace.geometry().deallocates {
            namespace.device.deallocate(range).await?;
            if durability(command.control.get()) == Durability::Durable {
                namespace.device.flush().await?;
            }
        } else {
            namespace
                .device
                .write_zeroes(range, durability(command.control.get()))
                .await?;
        }
        Ok(Reply::success())
    }

    async fn dataset_management(
        &self,
        command: &DatasetManagement,
        data: Option<Buffer>,
    ) -> Result<Reply, Refused> {
        let namespace = self.namespace(command.namespace_id.get())?;
        let count = usize::from(command.ranges_minus_one) + 1;
        let data = data.unwrap_or_else(|| Buffer::new(0));
        let ranges = <[DatasetRange]>::ref_from_prefix_with_elems(&data, count)
            .map(|(ranges, _)| ranges)
            .map_err(|_| Status::DATA_SGL_LENGTH_INVALID.do_not_retry())?;
        let named = |range: &DatasetRange| {
            BlockRange::new(Lba(range.start.get()), u64::from(range.blocks.get()))
        };
        let geometry = namespace.geometry();
        if !ranges.iter().all(|range| geometry.contains(named(range))) {
            return Err(Status::LBA_OUT_OF_RANGE.do_not_retry());
        }
        add(&namespace.counters.deallocates, 1);
        if command.attributes.get() & DATASET_DEALLOCATE == 0 {
            return Ok(Reply::success());
        }
        let _pass = self.turn(&namespace, Direction::Write, 0).await?;
        for range in ranges {
            let range = named(range);
            let _entered = self.enter(&namespace, range, Access::Write).await?;
            namespace.device.deallocate(range).await?;
        }
        Ok(Reply::success())
    }

    async fn compare(&self, command: &ReadWrite, data: Option<Buffer>) -> Result<Reply, Refused> {
        let namespace = self.namespace(command.namespace_id.get())?;
        let range = range_of(&namespace, command)?;
        let data = self.data_of(&namespace, range, data)?;
        let bytes = data.len() as u32;
        let _pass = self.turn(&namespace, Direction::Read, bytes).await?;
        let _entered = self.enter(&namespace, range, Access::Read).await?;
        compare_blocks(&namespace, range, &data).await?;
        Ok(Reply::success())
    }

    async fn verify(&self, command: &ReadWrite) -> Result<Reply, Refused> {
        let namespace = self.namespace(command.namespace_id.get())?;
        let range = range_of(&namespace, command)?;
        add(&namespace.counters.others, 1);
        let block_bytes = u64::from(namespace.geometry().block_bytes);
        let mut done = 0;
        while done < range.blocks {
            let blocks = (range.blocks - done).min(VERIFY_BYTES / block_bytes);
            let bytes = (blocks * block_bytes) as u32;
            let start = Lba(range.start.0 + done);
            let _pass = self.turn(&namespace, Direction::Read, bytes).await?;
            let piece = BlockRange::new(start, blocks);
            let _entered = self.enter(&namespace, piece, Access::Read).await?;
            let buffer = Buffer::new(bytes as usize);
            namespace.device.read(start, buffer).await.1?;
            done += blocks;
        }
        Ok(Reply::success())
    }

    /// Waits until a command of the namespace may start; it ends when what this gives is dropped.
    async fn turn(
        &self,
        namespace: &Namespace<D>,
        direction: Direction,
        bytes: u32,
    ) -> Result<Pass, Refused> {
        let pace = &namespace.pace;
        pace.enter(direction, u64::from(bytes), &self.gone).await
    }

    /// Counts a command in, once nobody has `range` to himself.
    pub async fn enter<'a>(
        &self,
        namespace: &'a Rc<Namespace<D>>,
        range: BlockRange,
        access: Access,
    ) -> Result<Entered<'a>, Refused> {
        let entered = namespace.enter(range, self.by(access)).await?;
        self.still_served(namespace)?;
        Ok(entered)
    }

    /// A command that has waited while its connection ended does not begin any more: its host may
    /// have sent it again by another one, and have written something else since. Nor does one whose
    /// host was denied the namespace meanwhile.
    fn still_served(&self, namespace: &Rc<Namespace<D>>) -> Result<(), Refused> {
        if self.gone.get() {
            return Err(Status::ABORTED_QUEUE_DELETION);
        }
        match self.subsystem.still_has(namespace) {
            true => Ok(()),
            false => Err(GONE),
        }
    }

    fn by(&self, access: Access) -> By<'_> {
        By {
            host: self.host_id,
            name: &self.host_tag,
            access,
        }
    }

    fn namespace(&self, id: u32) -> Result<Rc<Namespace<D>>, Refused> {
        self.subsystem.namespace(id).ok_or(GONE)
    }

    /// Bytes of `range`, if one command may transfer them.
    fn transfer_bytes(&self, namespace: &Namespace<D>, range: BlockRange) -> Result<u32, Refused> {
        let bytes = range.blocks * u64::from(namespace.geometry().block_bytes);
        u32::try_from(bytes)
            .ok()
            .filter(|bytes| *bytes <= self.transfer_bytes_max)
            .ok_or(Status::INVALID_FIELD.do_not_retry())
    }

    /// The data of a command that brings exactly what `range` needs.
    fn data_of(
        &self,
        namespace: &Namespace<D>,
        range: BlockRange,
        data: Option<Buffer>,
    ) -> Result<Buffer, Refused> {
        let bytes = self.transfer_bytes(namespace, range)?;
        data.filter(|data| data.len() == bytes as usize)
            .ok_or(Status::DATA_SGL_LENGTH_INVALID.do_not_retry())
    }

    fn fused_pair(
        &self,
        compare: &SubmissionEntry,
        write: &SubmissionEntry,
        expected: Option<Buffer>,
        data: Option<Buffer>,
    ) -> Result<FusedPair<D>, Refused> {
        let invalid = Status::INVALID_FIELD.do_not_retry();
        if IoOpcode(compare.opcode) != IoOpcode::COMPARE
            || IoOpcode(write.opcode) != IoOpcode::WRITE
        {
            return Err(invalid);
        }
        let (compare, write) = (ReadWrite::of(compare), ReadWrite::of(write));
        let namespace = self.namespace(compare.namespace_id.get())?;
        let range = range_of(&namespace, compare)?;
        let same = write.namespace_id == compare.namespace_id
            && write.start == compare.start
            && write.blocks_minus_one == compare.blocks_minus_one;
        if !same || self.transfer_bytes(&namespace, range)? > COMPARE_WRITE_BYTES_MAX {
            return Err(invalid);
        }
        Ok(FusedPair {
            expected: self.data_of(&namespace, range, expected)?,
            data: self.data_of(&namespace, range, data)?,
            durability: durability(write.control.get()),
            namespace,
            range,
        })
    }

    /// The end of a command that has found a namespace not ready. `None` where its host is to have
    /// the answer later, since it would come again at once.
    pub fn when_not_ready(&self, nsid: u32) -> Option<Status> {
        let status = Status::NAMESPACE_NOT_READY;
        let now = reactor::turn_started();
        match self.subsystem.namespace(nsid) {
            Some(namespace) if namespace.unready.will_pass(now) => {
                let keeps_delays = self.behaviour.keeps_delays();
                keeps_delays.then(|| status.after_first_delay())
            }
            _ => Some(status),
        }
    }

    /// Counts a failure, and enters it into the error log when the device caused it.
    pub fn failed(&self, entry: &SubmissionEntry, status: Status) -> Reply {
        self.count_failure(&Failure {
            queue_id: self.queue_id,
            command_id: entry.command_id.get(),
            status,
            namespace_id: entry.namespace_id.get(),
            lba: ReadWrite::of(entry).start.get(),
        });
        Reply::status(status)
    }

    /// The same, of a failure elsewhere than where its command starts.
    pub fn count_failure(&self, failure: &Failure) {
        let of_device = status_is_of_device(failure.status);
        if let Some(namespace) = self.subsystem.namespace(failure.namespace_id) {
            add(&namespace.counters.errors, 1);
            add(&namespace.counters.device_errors, of_device.into());
        }
        if of_device {
            self.subsystem.errors.record(failure);
        }
    }
}

/// What a host gets for a namespace that it does not see.
pub(crate) const GONE: Status = Status::INVALID_NAMESPACE.do_not_retry();

struct FusedPair<D> {
    namespace: Rc<Namespace<D>>,
    range: BlockRange,
    expected: Buffer,
    data: Buffer,
    durability: Durability,
}

fn status_is_of_device(status: Status) -> bool {
    matches!(
        status.code(),
        Status::UNRECOVERED_READ_ERROR
            | Status::WRITE_FAULT
            | Status::CAPACITY_EXCEEDED
            | Status::INTERNAL_ERROR
            | Status::INTERNAL_PATH_ERROR
    )
}

/// What a command that writes asks for, by its [`control`] field.
pub(crate) fn durability(control: u16) -> Durability {
    if control & control::FORCE_UNIT_ACCESS != 0 {
        Durability::Durable
    } else {
        Durability::Cached
    }
}

fn range_of<D: BlockDevice>(
    namespace: &Namespace<D>,
    command: &ReadWrite,
) -> Result<BlockRange, Refused> {
    let blocks = u64::from(command.blocks_minus_one.get()) + 1;
    let range = BlockRange::new(Lba(command.start.get()), blocks);
    if namespace.geometry().contains(range) {
        Ok(range)
    } else {
        Err(Status::LBA_OUT_OF_RANGE.do_not_retry())
    }
}

async fn compare_blocks<D: BlockDevice>(
    namespace: &Namespace<D>,
    range: BlockRange,
    expected: &[u8],
) -> Result<(), Refused> {
    add(&namespace.counters.others, 1);
    let buffer = Buffer::new(expected.len());
    let (found, result) = namespace.device.read(range.start, buffer).await;
    result?;
    if found[..] == *expected {
        Ok(())
    } else {
        Err(Status::COMPARE_FAILURE.do_not_retry())
    }
}
