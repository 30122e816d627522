//! What is measured: the rows of the table, and one row's sample.

use std::fmt;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Result;

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

/// A file full of data that is no run of zeroes, so that reads of it reach the drive.
pub fn prepare_file(directory: &Path) -> Result<PathBuf> {
    let path = directory.join("drive");
    let mut file = File::create(&path)?;
    let mut chunk = vec![0_u8; 1 << 20];
    let mut word = 1_u64;
    for _ in 0..FILE_BYTES / chunk.len() as u64 {
        for bytes in chunk.chunks_exact_mut(8) {
            word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        file.write_all(&chunk)?;
    }
    file.sync_all()?;
    Ok(path)
}
