//! [`Namespace`]: a remote namespace as a [`BlockDevice`].

mod copy;

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use block::{BlockDevice, BlockRange, Buffer, Durability, Geometry, IoError, Lba, write_joined};
use nvme::command::{ReadWrite, control};
use nvme::identify::{
    Cns, ControllerData, NamespaceData, NvmControllerData, dlfeat, nsattr, nsfeat, oncs,
};
use nvme::{IoOpcode, SglDescriptor, Status, SubmissionEntry};
use reactor::{Instant, now, sleep};
use zerocopy::FromBytes;

use self::copy::CopyLimits;
pub use self::copy::CopySource;
use crate::connection::Data;
use crate::{Controller, Error, LossReason, Reconnect};

/// Commands over at most this many blocks: NLB is 16 bits, 0's based.
const COMMAND_BLOCKS_MAX: u64 = 1 << 16;

/// How soon a command is repeated whose status says that this may help, and later on.
const RETRY_DELAY: Duration = Duration::from_millis(100);
const RETRY_DELAY_MAX: Duration = Duration::from_secs(1);

/// A namespace of a connected controller.
///
/// With [`ConnectOptions::reconnect`](crate::ConnectOptions::reconnect), I/O that a lost connection
/// interrupts waits for the controller to come back and is repeated, and so is I/O that ends with a
/// status that may pass, such as that of a namespace whose drives are not there yet. Without, it
/// fails, for a lost connection with [`IoError::DeviceGone`].
///
/// What changes data is repeated, or sent anew, once the lost controller has ended with all that it
/// had under way: the controller that took its place is asked to see to that.
#[derive(Clone)]
pub struct Namespace {
    controller: Controller,
    namespace_id: u32,
    geometry: Rc<Cell<Geometry>>,
    /// NSATTR said so when the controller was last asked.
    write_protected: Rc<Cell<bool>>,
    limits: Limits,
    /// Where the controller copies.
    copy_limits: Option<CopyLimits>,
    /// Since when commands end with what may pass, without one that did not.
    unready_since: Rc<Cell<Option<Instant>>>,
}

/// What one command may cover, in blocks.
#[derive(Clone, Copy, Debug)]
struct Limits {
    transfer: u64,
    write_zeroes: u64,
    verify: u64,
}

impl Namespace {
    pub(crate) async fn open(
        controller: Controller,
        namespace_id: u32,
    ) -> Result<Namespace, Error> {
        let data = namespace_data(&controller, namespace_id).await?;
        let data = parse(&data)?;
        let identified = controller.identify()?;
        let geometry = geometry_of(data, &identified).ok_or(Error::Namespace(namespace_id))?;
        let limits = Limits::of(&controller, geometry.block_bytes).await?;
        let geometry = Rc::new(Cell::new(geometry));
        Ok(Namespace {
            controller,
            namespace_id,
            geometry,
            write_protected: Rc::new(Cell::new(is_protected(data))),
            limits,
            copy_limits: CopyLimits::of(data, &identified),
            unready_since: Rc::default(),
        })
    }

    /// NSID.
    pub fn namespace_id(&self) -> u32 {
        self.namespace_id
    }

    /// The controller it is reached through.
    pub fn controller(&self) -> &Controller {
        &self.controller
    }

    /// How long commands have ended with nothing but statuses that may pass, and whether they are
    /// not waited for any more; `None` where they do not.
    pub fn unready(&self) -> Option<(Duration, bool)> {
        let waited = now() - self.unready_since.get()?;
        let policy = self.controller.shared().options.reconnect;
        let waits = policy.is_some_and(|policy| waited < policy.controller_loss_timeout);
        Some((waited, !waits))
    }

    /// Whether the controller refuses writes, with [`IoError::WriteProtected`], as far as it was
    /// asked.
    pub fn is_write_protected(&self) -> bool {
        self.write_protected.get()
    }

    /// Asks the controller again for the size and whether it refuses writes; a namespace may grow.
    ///
    /// # Errors
    /// [`Error`] when it cannot be asked, or the namespace is no longer what it was.
    pub async fn refresh(&self) -> Result<Geometry, Error> {
        let data = namespace_data(&self.controller, self.namespace_id).await?;
        let data = parse(&data)?;
        let before = self.geometry.get();
        let identified = self.controller.identify()?;
        let now = geometry_of(data, &identified)
            .filter(|now| now.block_bytes == before.block_bytes)
            .ok_or(Error::Namespace(self.namespace_id))?;
        self.geometry.set(now);
        self.write_protected.set(is_protected(data));
        Ok(now)
    }

    /// Compares the blocks at `start` with `buffer`: [`IoError::CompareFailure`] if they differ.
    pub async fn compare(&self, start: Lba, buffer: Buffer) -> (Buffer, Result<(), IoError>) {
        self.transfer(IoOpcode::COMPARE, start, buffer, 0).await
    }

    /// Reads the blocks of `range` on the controller's side, without transferring them.
    pub async fn verify(&self, range: BlockRange) -> Result<(), IoError> {
        self.over_range(IoOpcode::VERIFY, range, self.limits.verify, 0)
            .await
    }

    /// Writes `write` if the blocks at `start` hold `compare`, as one atomic operation; both must
    /// have the same length. Never repeated after a lost connection: whether it took effect is
    /// then unknown, and the error is [`IoError::DeviceGone`].
    pub async fn compare_and_write(
        &self,
        start: Lba,
        compare: Buffer,
        write: Buffer,
    ) -> (Buffer, Buffer, Result<(), IoError>) {
        let blocks = match self.blocks_of(start, compare.len()) {
            Ok(blocks) if compare.len() == write.len() && blocks <= self.limits.transfer => blocks,
            Ok(_) => return (compare, write, Err(IoError::InvalidRequest)),
            Err(error) => return (compare, write, Err(error)),
        };
        let shared = self.controller.shared();
        let Ok(queue) = shared.io_queue(IoOpcode::WRITE.0).await else {
            return (compare, write, Err(IoError::DeviceGone));
        };
        let first = self.entry(IoOpcode::COMPARE, start, blocks, 0);
        let second = self.entry(IoOpcode::WRITE, start, blocks, 0);
        let [first, second] = queue
            .submit_fused((first, Data::Out(compare)), (second, Data::Out(write)))
            .await;
        let result = [&first.1, &second.1]
            .into_iter()
            .try_for_each(|outcome| match outcome {
                Ok(completion) => completion.status().to_io_result(),
                Err(_) => Err(IoError::DeviceGone),
            });
        (buffer_of(first.0), buffer_of(second.0), result)
    }

    fn entry(&self, opcode: IoOpcode, start: Lba, blocks: u64, flags: u16) -> SubmissionEntry {
        let data = SglDescriptor::transport(0);
        let mut command = ReadWrite::new(opcode, self.namespace_id, start.0, blocks as u32, data);
        command.control = flags.into();
        *command.entry()
    }

    /// How many blocks a transfer covers.
    fn blocks_of(&self, start: Lba, bytes: usize) -> Result<u64, IoError> {
        let geometry = self.geometry.get();
        if let Some(range) = geometry.range_of_bytes(start, bytes) {
            return Ok(range.blocks);
        }
        let block_bytes = geometry.block_bytes as usize;
        let whole = bytes > 0 && bytes.is_multiple_of(block_bytes);
        Err(if whole {
            IoError::OutOfRange
        } else {
            IoError::InvalidRequest
        })
    }

    /// One transfer in as many commands as it takes, which is nearly always one.
    async fn transfer(
        &self,
        opcode: IoOpcode,
        start: Lba,
        buffer: Buffer,
        flags: u16,
    ) -> (Buffer, Result<(), IoError>) {
        let blocks = match self.blocks_of(start, buffer.len()) {
            Ok(blocks) => blocks,
            Err(error) => return (buffer, Err(error)),
        };
        if blocks > self.limits.transfer {
            return self.transfer_in_parts(opcode, start, buffer, flags).await;
        }
        let entry = self.entry(opcode, start, blocks, flags);
        let reads = opcode == IoOpcode::READ;
        let data = if reads {
            Data::In(buffer)
        } else {
            Data::Out(buffer)
        };
        let (data, result) = self.run(entry, data).await;
        (buffer_of(data), result)
    }

    /// The slow way, for transfers that the controller does not take whole.
    async fn transfer_in_parts(
        &self,
        opcode: IoOpcode,
        start: Lba,
        mut buffer: Buffer,
        flags: u16,
    ) -> (Buffer, Result<(), IoError>) {
        let block_bytes = self.geometry.get().block_bytes as usize;
        let part_bytes = self.limits.transfer as usize * block_bytes;
        let mut at = start;
        for part in buffer.chunks_mut(part_bytes) {
            let blocks = (part.len() / block_bytes) as u64;
            let entry = self.entry(opcode, at, blocks, flags);
            at = Lba(at.0 + blocks);
            let copy = Buffer::copy_of(part);
            let reads = opcode == IoOpcode::READ;
            let data = if reads {
                Data::In(copy)
            } else {
                Data::Out(copy)
            };
            let (data, result) = self.run(entry, data).await;
            if result.is_err() {
                return (buffer, result);
            }
            if let Data::In(copy) = &data {
                part.copy_from_slice(copy);
            }
        }
        (buffer, Ok(()))
    }

    /// A command without data over `range`, in as many pieces as `limit` makes necessary.
    async fn over_range(
        &self,
        opcode: IoOpcode,
        range: BlockRange,
        limit: u64,
        flags: u16,
    ) -> Result<(), IoError> {
        if !self.geometry.get().contains(range) {
            return Err(IoError::OutOfRange);
        }
        let mut done = 0;
        while done < range.blocks {
            let blocks = limit.min(range.blocks - done);
            let entry = self.entry(opcode, Lba(range.start.0 + done), blocks, flags);
            self.run(entry, Data::None).await.1?;
            done += blocks;
        }
        Ok(())
    }

    /// Runs one command, again if the connection is lost and the options say so.
    async fn run(&self, entry: SubmissionEntry, mut data: Data) -> (Data, Result<(), IoError>) {
        let shared = self.controller.shared();
        let policy = shared.options.reconnect;
        let mut delay = RETRY_DELAY;
        loop {
            let Ok(queue) = shared.io_queue(entry.opcode).await else {
                return (data, Err(IoError::DeviceGone));
            };
            let (back, outcome) = queue.submit(entry, data).await;
            data = back;
            match outcome {
                Ok(completion) => {
                    let status = completion.status();
                    if self.is_elsewhere(status) {
                        // The next command goes another way, be it after this one has failed.
                        queue.close(LossReason::Inaccessible);
                    }
                    if !self.waits(status, policy) {
                        return (data, status.to_io_result());
                    }
                    sleep(delay).await;
                    delay = (delay * 2).min(RETRY_DELAY_MAX);
                }
                Err(_) if policy.is_some() => {}
                Err(_) => return (data, Err(IoError::DeviceGone)),
            }
        }
    }

    /// Whether a command that ended so is repeated: what may pass is waited for as long as a lost
    /// controller is, counted from when it began, whichever command met it.
    fn waits(&self, status: Status, policy: Option<Reconnect>) -> bool {
        if !may_pass(status) && !self.is_elsewhere(status) {
            self.unready_since.take();
            return false;
        }
        let since = self.unready_since.get().unwrap_or_else(now);
        self.unready_since.set(Some(since));
        policy.is_some_and(|policy| now() - since < policy.controller_loss_timeout)
    }

    /// Whether another path may serve a command that ended so.
    fn is_elsewhere(&self, status: Status) -> bool {
        let by_path = [Status::ANA_INACCESSIBLE, Status::ANA_PERSISTENT_LOSS];
        by_path.contains(&status.code()) && self.controller.shared().changes_paths()
    }
}

/// True for failures that a repetition may not meet again, now or later.
fn may_pass(status: Status) -> bool {
    !status.is_do_not_retry()
        && matches!(
            status.code(),
            Status::NAMESPACE_NOT_READY
                | Status::COMMAND_INTERRUPTED
                | Status::TRANSIENT_TRANSPORT_ERROR
                | Status::ABORTED_QUEUE_DELETION
                | Status::ANA_TRANSITION
                | Status::ANA_INACCESSIBLE
        )
}

/// The queue hands every buffer back, so there is one.
fn buffer_of(data: Data) -> Buffer {
    data.into_buffer().unwrap_or_else(|| Buffer::new(0))
}

async fn namespace_data(controller: &Controller, namespace_id: u32) -> Result<Buffer, Error> {
    match controller
        .identify_structure(Cns::NAMESPACE, namespace_id)
        .await
    {
        Err(Error::Command(status)) if status.code() == Status::INVALID_NAMESPACE => {
            Err(Error::Namespace(namespace_id))
        }
        other => other,
    }
}

fn parse(bytes: &[u8]) -> Result<&NamespaceData, Error> {
    NamespaceData::ref_from_bytes(bytes).map_err(|_| Error::Nonsense("Identify Namespace data"))
}

fn is_protected(data: &NamespaceData) -> bool {
    data.attributes & nsattr::WRITE_PROTECTED != 0
}

fn geometry_of(data: &NamespaceData, controller: &ControllerData) -> Option<Geometry> {
    let index = usize::from(data.format & 0xf | data.format >> 1 & 0x30);
    let format = data.formats.get(index)?;
    if format.metadata_bytes.get() != 0 {
        return None;
    }
    let block_bytes = 1u32.checked_shl(u32::from(format.block_shift))?;
    let mut geometry = Geometry::new(block_bytes, data.size_blocks.get()).ok()?;
    geometry.volatile_write_cache = controller.write_cache & 1 != 0;
    geometry.deallocates = data.deallocate & 0b111 == dlfeat::READS_ZEROES
        && data.deallocate & dlfeat::WRITE_ZEROES_DEALLOCATES != 0
        && controller.io_commands.get() & oncs::WRITE_ZEROES != 0;
    if data.features & nsfeat::ATOMICS != 0 {
        geometry.power_fail_atomic_blocks = u32::from(data.atomic_power_fail.get()) + 1;
        geometry.power_fail_atomic_boundary_blocks = match data.atomic_boundary_power_fail.get() {
            0 => 0,
            boundary => u32::from(boundary) + 1,
        };
    }
    if data.features & nsfeat::PREFERRED_SIZES != 0 {
        geometry.optimal_write_blocks = u32::from(data.preferred_write_granularity.get()) + 1;
    }
    Some(geometry)
}

impl Limits {
    async fn of(controller: &Controller, block_bytes: u32) -> Result<Limits, Error> {
        let data = controller.identify()?;
        let pages = |exponent: u8| match 1u64.checked_shl(u32::from(exponent)) {
            Some(pages) if exponent > 0 => {
                (pages.saturating_mul(4096) / u64::from(block_bytes)).clamp(1, COMMAND_BLOCKS_MAX)
            }
            _ => COMMAND_BLOCKS_MAX,
        };
        let paths = controller.shared().paths.iter();
        let described = paths.map(|path| path.transport.data_bytes_max()).min();
        let described = described.unwrap_or(u64::MAX);
        let transfer = pages(data.transfer_size_max).min(described / u64::from(block_bytes));
        let mut limits = Limits {
            transfer,
            write_zeroes: pages(data.transfer_size_max),
            verify: pages(data.transfer_size_max),
        };
        // Optional structure: a controller without it has no limits of its own.
        if let Ok(found) = controller
            .identify_structure(Cns::COMMAND_SET_CONTROLLER, 0)
            .await
            && let Ok(found) = NvmControllerData::ref_from_bytes(&found)
        {
            limits.write_zeroes = pages(found.write_zeroes_limit);
            limits.verify = pages(found.verify_limit);
        }
        Ok(limits)
    }
}

impl BlockDevice for Namespace {
    fn geometry(&self) -> Geometry {
        self.geometry.get()
    }

    async fn read(&self, start: Lba, buffer: Buffer) -> (Buffer, Result<(), IoError>) {
        self.transfer(IoOpcode::READ, start, buffer, 0).await
    }

    async fn write(
        &self,
        start: Lba,
        buffer: Buffer,
        durability: Durability,
    ) -> (Buffer, Result<(), IoError>) {
        self.transfer(IoOpcode::WRITE, start, buffer, flags_of(durability))
            .await
    }

    async fn write_vectored(
        &self,
        start: Lba,
        buffers: Vec<Buffer>,
        durability: Durability,
    ) -> (Vec<Buffer>, Result<(), IoError>) {
        write_joined(self, start, buffers, durability).await
    }

    async fn flush(&self) -> Result<(), IoError> {
        let data = SglDescriptor::transport(0);
        let entry = SubmissionEntry::new(IoOpcode::FLUSH.0, self.namespace_id, data);
        self.run(entry, Data::None).await.1
    }

    /// By Write Zeroes, as Dataset Management is a hint: a controller may leave any part of a range
    /// as it was.
    async fn deallocate(&self, range: BlockRange) -> Result<(), IoError> {
        let geometry = self.geometry.get();
        if !geometry.contains(range) {
            return Err(IoError::OutOfRange);
        }
        if !geometry.deallocates {
            return Ok(());
        }
        let limit = self.limits.write_zeroes;
        self.over_range(IoOpcode::WRITE_ZEROES, range, limit, control::DEALLOCATE)
            .await
    }

    async fn write_zeroes(&self, range: BlockRange, durability: Durability) -> Result<(), IoError> {
        let limit = self.limits.write_zeroes;
        self.over_range(IoOpcode::WRITE_ZEROES, range, limit, flags_of(durability))
            .await
    }
}

fn flags_of(durability: Durability) -> u16 {
    match durability {
        Durability::Cached => 0,
        Durability::Durable => control::FORCE_UNIT_ACCESS,
    }
}
