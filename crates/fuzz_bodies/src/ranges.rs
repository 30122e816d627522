//! Copy and Dataset Management with ranges of every kind, to a target that serves small namespaces,
//! beside a model of what these hold: what is refused changes nothing, and what is not does what it
//! says.

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use access::{AllowedHosts, Nqn};
use block::{BlockDevice, BlockRange, Buffer, Durability, Geometry, Lba};
use drive::MemoryDrive;
use initiator::{ConnectOptions, Controller, Data, QueuePair};
use nvme::command::{DATASET_DEALLOCATE, DatasetManagement, DatasetRange};
use nvme::copy::{CopyCommand, CopyFormat, FAST_COPY_ONLY, SourceRange};
use nvme::{IoOpcode, SglDescriptor, Status, SubmissionEntry};
use nvme_target::rules::Protection;
use nvme_target::{
    AnaGroupId, Links, NamespaceSettings, PortSet, PortSettings, SubsystemSettings, Target,
    TargetSettings, Transport,
};
use reactor::Reactor;
use zerocopy::IntoBytes;
use zerocopy::little_endian::{U32, U64};

use crate::Input;

const SUBSYSTEM: &str = "nqn.2024-01.io.flashyard:ranges";
const HOST: &str = "nqn.2014-08.org.nvmexpress:uuid:f81d4fae-7dec-11d0-a765-00a0c91e6bf6";

/// Bytes in a block of each namespace; two are alike.
const BLOCK_BYTES: [u32; 3] = [4096, 4096, 512];
/// Blocks of each: less than a piece of a Copy, so that it reads all before it writes.
const BLOCKS: u64 = 16;
/// Source ranges of a Copy at most (MSRC).
const SOURCES_MAX: usize = 128;
/// More than enough for any input; a command that hangs is found by it.
const LIMIT: Duration = Duration::from_secs(3600);

/// Runs the decisions in `bytes` on a target.
pub fn ranges(bytes: &[u8]) {
    Reactor::simulated(0).run(async {
        let run = async { Run::start(Input::new(bytes)).await.all().await };
        reactor::timeout(LIMIT, run).await.expect("a command hangs");
    });
}

/// A namespace, and what each of its blocks is to hold.
struct Space {
    device: Rc<MemoryDrive>,
    blocks: Vec<u8>,
    is_protected: bool,
}

struct Run<'a> {
    input: Input<'a>,
    target: Target<MemoryDrive>,
    queue: QueuePair,
    _host: Controller,
    spaces: Vec<Space>,
    /// What was written last.
    stamp: u8,
}

fn nqn() -> Nqn {
    SUBSYSTEM.parse().expect("a name")
}

fn target() -> Target<MemoryDrive> {
    let links = Links::connect(1).pop().expect("one core");
    let target = Target::start(TargetSettings::default(), links);
    target.keep_rules(Arc::new(|_, _, _| Box::pin(async { Ok(()) })));
    let port = PortSettings {
        id: 1,
        listen: ([127, 0, 0, 1], 4420).into(),
        advertise: None,
        reuse_port: false,
        tls: false,
        transport: Transport::Tcp,
    };
    target.add_port(port).expect("a free port");
    let subsystem = SubsystemSettings {
        nqn: nqn(),
        serial: "FY0001".into(),
        model: "Flashyard".into(),
        allowed: AllowedHosts::Any,
        ports: PortSet::All,
        tenant: None,
    };
    target.add_subsystem(subsystem).expect("the first one");
    target
}

impl<'a> Run<'a> {
    async fn start(input: Input<'a>) -> Run<'a> {
        let target = target();
        let mut spaces = Vec::new();
        for (nsid, block_bytes) in (1..).zip(BLOCK_BYTES) {
            let geometry = Geometry::new(block_bytes, BLOCKS).expect("a geometry");
            let device = Rc::new(MemoryDrive::new(geometry));
            let settings = NamespaceSettings {
                nsid,
                nguid: [nsid as u8; 16],
                uuid: [nsid as u8; 16],
                eui64: None,
                group: AnaGroupId::POOLLESS,
            };
            let added = target.add_namespace(&nqn(), settings, Rc::clone(&device));
            added.expect("a new namespace");
            spaces.push(Space {
                device,
                blocks: vec![0; BLOCKS as usize],
                is_protected: false,
            });
        }
        let address = SocketAddr::from(([127, 0, 0, 1], 4420));
        let host = Controller::connect(address, SUBSYSTEM, ConnectOptions::new(HOST)).await;
        let host = host.expect("a connection");
        let queue = host.queue(0).expect("a queue");
        Run {
            input,
            target,
            queue,
            _host: host,
            spaces,
            stamp: 0,
        }
    }

    async fn all(mut self) {
        self.check().await;
        while !self.input.is_empty() {
            match self.input.byte() % 8 {
                0 => self.protect().await,
                1 => self.write().await,
                2..=5 => self.copy().await,
                _ => self.dataset_management().await,
            }
            self.check().await;
        }
    }

    /// Protects a namespace, or lifts that.
    async fn protect(&mut self) {
        let index = usize::from(self.input.byte()) % self.spaces.len();
        let on = !self.spaces[index].is_protected;
        let nsid = index as u32 + 1;
        let protection = Protection::by_administrator(on);
        let changed = self.target.protect(&nqn(), nsid, protection).await;
        changed.expect("a namespace that is there");
        self.spaces[index].is_protected = on;
    }

    /// Fills a device, so that there is something to copy; whoever writes there is no host.
    async fn write(&mut self) {
        let index = usize::from(self.input.byte()) % self.spaces.len();
        for block in 0..BLOCKS {
            self.stamp = self.stamp.wrapping_add(1);
            let space = &mut self.spaces[index];
            space.blocks[block as usize] = self.stamp;
            let bytes = vec![self.stamp; BLOCK_BYTES[index] as usize];
            let data = Buffer::copy_of(&bytes);
            let written = space.device.write(Lba(block), data, Durability::Cached);
            written.await.1.expect("memory that fails nothing");
        }
    }

    async fn copy(&mut self) {
        let (nsid, start) = (self.namespace(), self.block());
        let format = match self.input.byte() {
            byte if byte < 128 => CopyFormat::OWN,
            byte if byte < 240 => CopyFormat::NAMED,
            byte => CopyFormat(byte & 0xf),
        };
        let count = self.count(SOURCES_MAX);
        let sources: Vec<SourceRange> = (0..count).map(|_| self.source()).collect();
        let mut command = CopyCommand::new(nsid, start, format, count);
        // Directives are the one thing there that is refused.
        command.control = match self.input.byte() {
            byte if byte < 240 => u16::from(byte & 1) << 14,
            byte => u16::from(byte & 0xf) << 4,
        }
        .into();
        let data = self.cut(sources.as_bytes());
        let is_whole = data.len() == size_of_val(&sources[..]);
        let status = self.submit(command.entry(), data).await;
        let copied = self.copied(&command, &sources).filter(|_| is_whole);
        assert_eq!(
            status.is_success(),
            copied.is_some(),
            "{status:?} of {command:?}"
        );
        let Some(copied) = copied else {
            assert!(status.is_do_not_retry(), "{status:?} of {command:?}");
            return;
        };
        let written = &mut self.spaces[nsid as usize - 1].blocks[start as usize..];
        written[..copied.len()].copy_from_slice(&copied);
    }

    /// What a Copy writes, if it is one that can be carried out.
    fn copied(&self, command: &CopyCommand, sources: &[SourceRange]) -> Option<Vec<u8>> {
        let nsid = command.namespace_id.get();
        let (format, start) = (command.source_format(), command.start.get());
        let to = self.space(nsid).filter(|space| !space.is_protected)?;
        let has_directive = command.control.get() & 0xf << 4 != 0;
        let is_known = matches!(format, CopyFormat::OWN | CopyFormat::NAMED);
        if has_directive || !is_known || sources.len() > SOURCES_MAX {
            return None;
        }
        let mut copied = Vec::new();
        for source in sources {
            let from = match format {
                CopyFormat::OWN => nsid,
                _ if source.options.get() & FAST_COPY_ONLY != 0 => return None,
                _ => source.namespace_id.get(),
            };
            let space = self.space(from)?;
            if space.device.geometry().block_bytes != to.device.geometry().block_bytes {
                return None;
            }
            copied.extend_from_slice(part(&space.blocks, source.start.get(), source.blocks())?);
        }
        part(&to.blocks, start, copied.len() as u64)?;
        let meets = |source: &SourceRange| {
            let (first, end) = (source.start.get(), source.start.get() + source.blocks());
            source.namespace_id.get() == nsid && first < start + copied.len() as u64 && start < end
        };
        let overlaps = format == CopyFormat::NAMED && sources.iter().any(meets);
        (!overlaps).then_some(copied)
    }

    async fn dataset_management(&mut self) {
        let nsid = self.namespace();
        let count = self.count(usize::from(u8::MAX) + 1);
        let ranges: Vec<DatasetRange> = (0..count).map(|_| self.dataset_range()).collect();
        let opcode = IoOpcode::DATASET_MANAGEMENT.0;
        let data = self.cut(ranges.as_bytes());
        let sgl = SglDescriptor::transport(data.len() as u32);
        let mut command = *DatasetManagement::of(&SubmissionEntry::new(opcode, nsid, sgl));
        command.ranges_minus_one = (count - 1) as u8;
        command.attributes = U32::new(u32::from(self.input.byte() % 8));
        let is_whole = data.len() == size_of_val(&ranges[..]);
        let status = self.submit(command.entry(), data).await;
        let deallocates = command.attributes.get() & DATASET_DEALLOCATE != 0;
        let is_within = |range: &DatasetRange| {
            let end = range.start.get().checked_add(range.blocks.get().into());
            end.is_some_and(|end| end <= BLOCKS)
        };
        let space = self.space(nsid);
        let is_done = space.is_some_and(|space| !(deallocates && space.is_protected))
            && is_whole
            && ranges.iter().all(is_within);
        assert_eq!(
            status.is_success(),
            is_done,
            "{status:?} of {command:?} {ranges:?}"
        );
        if !is_done || !deallocates {
            return;
        }
        for range in ranges {
            let first = range.start.get() as usize;
            let end = first + range.blocks.get() as usize;
            self.spaces[nsid as usize - 1].blocks[first..end].fill(0);
        }
    }

    async fn submit(&self, entry: &SubmissionEntry, data: &[u8]) -> Status {
        let mut entry = *entry;
        entry.data = SglDescriptor::transport(data.len() as u32);
        let data = match data.is_empty() {
            true => Data::None,
            false => Data::Out(Buffer::copy_of(data)),
        };
        let (_, completion) = self.queue.submit(entry, data).await;
        completion.expect("a connection that lasts").status()
    }

    fn space(&self, nsid: u32) -> Option<&Space> {
        self.spaces.get((nsid as usize).checked_sub(1)?)
    }

    /// A namespace, mostly one that is there.
    fn namespace(&mut self) -> u32 {
        match self.input.byte() {
            byte if byte < 250 => u32::from(byte % 3) + 1,
            byte => [0, 4, 8192, 8193, u32::MAX - 1, u32::MAX][usize::from(byte - 250)],
        }
    }

    /// A block, mostly one that is there.
    fn block(&mut self) -> u64 {
        match self.input.byte() {
            byte if byte < 250 => u64::from(byte) % (BLOCKS + 1),
            byte => u64::MAX >> ((byte - 250) * 12),
        }
    }

    /// How many ranges, mostly a few.
    fn count(&mut self, most: usize) -> usize {
        match self.input.byte() {
            byte if byte < 248 => usize::from(byte) % 4 + 1,
            byte if byte < 252 => most,
            _ => usize::from(u8::MAX) + 1,
        }
    }

    fn source(&mut self) -> SourceRange {
        let (nsid, start) = (self.namespace(), self.block());
        let blocks = match self.input.byte() {
            byte if byte < 250 => u32::from(byte) % 6 + 1,
            byte => 0x1_0000 >> (byte - 250),
        };
        let mut source = SourceRange::new(nsid, start, blocks);
        if self.input.byte() > 250 {
            source.options = FAST_COPY_ONLY.into();
        }
        source
    }

    fn dataset_range(&mut self) -> DatasetRange {
        let start = self.block();
        let blocks = match self.input.byte() {
            byte if byte < 250 => u32::from(byte) % 6,
            byte => u32::MAX >> ((byte - 250) * 5),
        };
        DatasetRange {
            attributes: U32::ZERO,
            blocks: U32::new(blocks),
            start: U64::new(start),
        }
    }

    /// Data as it is, or less of it.
    fn cut<'d>(&mut self, data: &'d [u8]) -> &'d [u8] {
        match self.input.byte() {
            byte if byte < 240 => data,
            _ => &data[..usize::from(self.input.short()) % (data.len() + 1)],
        }
    }

    /// That every device holds what the model does.
    async fn check(&self) {
        for (space, block_bytes) in self.spaces.iter().zip(BLOCK_BYTES) {
            let all = BlockRange::new(Lba(0), BLOCKS);
            let buffer = Buffer::new(all.blocks as usize * block_bytes as usize);
            let (held, read) = space.device.read(all.start, buffer).await;
            read.expect("memory that fails nothing");
            for (block, expected) in held.chunks(block_bytes as usize).zip(&space.blocks) {
                assert!(
                    block.iter().all(|byte| byte == expected),
                    "{:?}",
                    space.blocks
                );
            }
        }
    }
}

/// So many blocks from `start` on, if there are as many.
fn part(blocks: &[u8], start: u64, count: u64) -> Option<&[u8]> {
    let end = start.checked_add(count)?;
    blocks.get(usize::try_from(start).ok()?..usize::try_from(end).ok()?)
}
