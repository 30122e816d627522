//! [`BlockQueue`]: what the system says about a block device.

use std::path::PathBuf;

/// Properties of a block device, as its queue in sysfs has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockQueue {
    /// The smallest transfer, in bytes.
    pub logical_block_bytes: u32,
    /// Writes of at least this many bytes, aligned to as many, are not read-modify-writes inside
    /// the drive.
    pub physical_block_bytes: u32,
    /// Acknowledged writes may be lost with power until they are flushed.
    pub volatile_write_cache: bool,
    /// The device zeroes ranges by itself, giving their space back where it can; only then does
    /// [`File::punch_hole`](super::File::punch_hole) work on it.
    pub zeroes_offloaded: bool,
}

impl BlockQueue {
    /// The queue of the device with this number. What cannot be read is taken at its worst.
    pub(super) fn of(device: u64) -> BlockQueue {
        let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
        let device = PathBuf::from(format!("/sys/dev/block/{major}:{minor}"));
        let read = |name: &str| {
            // A partition has its disk's queue.
            ["queue", "../queue"]
                .iter()
                .find_map(|queue| std::fs::read_to_string(device.join(queue).join(name)).ok())
                .map(|text| text.trim().to_owned())
        };
        let number = |name: &str| read(name).and_then(|text| text.parse::<u64>().ok());
        let bytes = |name: &str| number(name).and_then(|bytes| u32::try_from(bytes).ok());
        BlockQueue {
            logical_block_bytes: bytes("logical_block_size").unwrap_or(4096),
            physical_block_bytes: bytes("physical_block_size").unwrap_or(4096),
            volatile_write_cache: read("write_cache").is_none_or(|cache| cache != "write through"),
            zeroes_offloaded: number("write_zeroes_max_bytes").is_some_and(|bytes| bytes > 0),
        }
    }
}
