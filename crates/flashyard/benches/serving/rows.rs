//! What is measured: the rows of the table, and one row's sample.

use std::fmt;

/// Where the bytes come from and go to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Device {
    /// Keeps nothing, reads zeroes: the cost of the protocol alone.
    Null,
    /// 256 MiB of memory.
    Memory,
    /// A file of 2 GiB with real data, O_DIRECT.
    File,
}

/// One line of the table.
pub struct Row {
    /// What stores the data.
    pub device: Device,
    /// fio's word: randread, randwrite, read or write.
    pub pattern: &'static str,
    /// Bytes in one I/O.
    pub block_bytes: u32,
    /// I/Os in flight.
    pub depth: u32,
}

const fn row(device: Device, pattern: &'static str, block_bytes: u32, depth: u32) -> Row {
    Row {
        device,
        pattern,
        block_bytes,
        depth,
    }
}

/// The whole table, in the order it is run.
pub const ROWS: [Row; 11] = [
    row(Device::Null, "randread", 4096, 1),
    row(Device::Null, "randread", 4096, 32),
    row(Device::Null, "randread", 4096, 128),
    row(Device::Null, "randwrite", 4096, 128),
    row(Device::Null, "read", 131_072, 32),
    row(Device::Null, "write", 131_072, 32),
    row(Device::Memory, "randread", 4096, 128),
    row(Device::Memory, "randwrite", 4096, 128),
    row(Device::File, "randread", 4096, 1),
    row(Device::File, "randread", 4096, 128),
    row(Device::File, "randwrite", 4096, 128),
];

impl fmt::Display for Row {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let device = format!("{:?}", self.device).to_lowercase();
        write!(
            formatter,
            "{device} {} {} KiB QD {}",
            self.pattern,
            self.block_bytes / 1024,
            self.depth
        )
    }
}

/// Size of the file behind [`Device::File`].
pub const FILE_BYTES: u64 = 2 << 30;
