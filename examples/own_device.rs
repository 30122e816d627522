//! A block device of one's own, served over NVMe/TCP to any host.
//!
//! ```text
//! cargo run -p examples --bin own_device -- 127.0.0.1:4420
//! nvme connect -t tcp -a 127.0.0.1 -s 4420 -n nqn.2026-11.example.flashyard:own-device
//! ```

use std::cell::RefCell;
use std::collections::HashMap;
use std::env::args;
use std::rc::Rc;

use access::AllowedHosts;
use block::{BlockDevice, BlockRange, Buffer, Durability, Geometry, IoError, Lba, write_joined};
use nvme_target::{
    AnaGroupId, Links, NamespaceSettings, PortSet, PortSettings, SubsystemSettings, Target,
    TargetSettings,
};
use reactor::{Reactor, ReactorConfig};

const NQN: &str = "nqn.2026-11.example.flashyard:own-device";
const BLOCK_BYTES: u32 = 4096;
const BLOCKS: u64 = 1 << 28;

/// A terabyte that keeps only blocks that were written: all others read as zeroes.
struct Sparse {
    geometry: Geometry,
    blocks: RefCell<HashMap<u64, Box<[u8]>>>,
}

impl Sparse {
    fn new() -> anyhow::Result<Sparse> {
        let mut geometry = Geometry::new(BLOCK_BYTES, BLOCKS)?;
        geometry.deallocates = true;
        Ok(Sparse {
            geometry,
            blocks: RefCell::default(),
        })
    }

    /// The contract leaves checks to the device.
    fn check(&self, start: Lba, buffer: &Buffer) -> Result<(), IoError> {
        let range = self.geometry.range_of_bytes(start, buffer.len());
        let range = range.ok_or(IoError::InvalidRequest)?;
        self.check_range(range)
    }

    fn check_range(&self, range: BlockRange) -> Result<(), IoError> {
        match self.geometry.contains(range) {
            true => Ok(()),
            false => Err(IoError::OutOfRange),
        }
    }

    fn forget(&self, range: BlockRange) -> Result<(), IoError> {
        self.check_range(range)?;
        let (start, end) = (range.start.0, range.start.0 + range.blocks);
        let mut blocks = self.blocks.borrow_mut();
        blocks.retain(|number, _| !(start..end).contains(number));
        Ok(())
    }
}

impl BlockDevice for Sparse {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    async fn read(&self, start: Lba, mut buffer: Buffer) -> (Buffer, Result<(), IoError>) {
        if let Err(error) = self.check(start, &buffer) {
            return (buffer, Err(error));
        }
        let blocks = self.blocks.borrow();
        let parts = buffer.chunks_exact_mut(BLOCK_BYTES as usize);
        for (number, part) in (start.0..).zip(parts) {
            match blocks.get(&number) {
                Some(block) => part.copy_from_slice(block),
                None => part.fill(0),
            }
        }
        drop(blocks);
        (buffer, Ok(()))
    }

    async fn write(
        &self,
        start: Lba,
        buffer: Buffer,
        _: Durability,
    ) -> (Buffer, Result<(), IoError>) {
        if let Err(error) = self.check(start, &buffer) {
            return (buffer, Err(error));
        }
        let parts = buffer.chunks_exact(BLOCK_BYTES as usize).map(Box::from);
        self.blocks.borrow_mut().extend((start.0..).zip(parts));
        (buffer, Ok(()))
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
        Ok(())
    }

    async fn deallocate(&self, range: BlockRange) -> Result<(), IoError> {
        self.forget(range)
    }

    async fn write_zeroes(&self, range: BlockRange, _: Durability) -> Result<(), IoError> {
        self.forget(range)
    }
}

fn main() -> anyhow::Result<()> {
    let listen = args().nth(1).unwrap_or_else(|| "127.0.0.1:4420".into());
    let listen = listen.parse()?;
    Reactor::io_uring(ReactorConfig::default())?.run(async {
        // One target for this one core, which has no other cores to talk to.
        let links = Links::connect(1).remove(0);
        let target = Target::start(TargetSettings::default(), links);
        let address = target.add_port(PortSettings {
            id: 1,
            listen,
            advertise: None,
            reuse_port: false,
            tls: false,
            transport: nvme_target::Transport::Tcp,
        })?;
        target.add_subsystem(SubsystemSettings {
            nqn: NQN.parse()?,
            serial: "OWN0001".into(),
            model: "Own device".into(),
            allowed: AllowedHosts::Any,
            ports: PortSet::All,
            tenant: None,
        })?;
        let namespace = NamespaceSettings {
            nsid: 1,
            nguid: [1; 16],
            uuid: [2; 16],
            eui64: None,
            group: AnaGroupId::POOLLESS,
        };
        target.add_namespace(&NQN.parse()?, namespace, Rc::new(Sparse::new()?))?;
        println!("tcp://{address}/{NQN}");
        // Connections have tasks of their own; this one has nothing left to do.
        loop {
            for event in target.next_events().await {
                eprintln!("{event:?}");
            }
        }
    })
}
