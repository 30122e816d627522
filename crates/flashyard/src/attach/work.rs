//! What a request of the kernel's makes us do with the volume, however the request came.

use std::ops::Range;

use block::{BlockDevice, BlockRange, Durability, Geometry, IoError, Lba};
use rustix::io::Errno;

use super::file_system::about;
use super::wire::Asked;

/// What a request makes us do.
#[derive(Debug, PartialEq, Eq)]
pub enum Work {
    /// Nothing, not even an answer.
    Nothing,
    /// Answer with these blocks' bytes; `None` where nothing is, behind the end.
    Read(Option<Span>),
    /// Write the request's data to these blocks.
    Write(BlockRange),
    /// Something that moves no data, and whose answer is empty.
    Command(Command),
    /// Answer at once, with a payload or an errno.
    Answer(Result<Vec<u8>, i32>),
}

/// A command that moves no data.
#[derive(Debug, PartialEq, Eq)]
pub enum Command {
    Flush,
    Deallocate(BlockRange),
    WriteZeroes(BlockRange),
}

/// Bytes of a volume, and the blocks that they lie in.
#[derive(Debug, PartialEq, Eq)]
pub struct Span {
    pub first: Lba,
    /// Length of the blocks.
    pub bytes: usize,
    /// Where in the blocks the bytes are.
    pub within: Range<usize>,
}

impl Work {
    pub fn of(asked: Asked<'_>, geometry: &Geometry) -> Work {
        let made = match asked {
            Asked::Nothing => Ok(Work::Nothing),
            Asked::Read { offset, bytes } => {
                Ok(Work::Read(span(geometry, offset, u64::from(bytes))))
            }
            Asked::Write { offset, data } => {
                blocks(geometry, offset, data.len() as u64).map(Work::Write)
            }
            Asked::Flush => Ok(Work::Command(Command::Flush)),
            Asked::Deallocate { offset, bytes } => blocks(geometry, offset, bytes)
                .map(|range| Work::Command(Command::Deallocate(range))),
            Asked::WriteZeroes { offset, bytes } => blocks(geometry, offset, bytes)
                .map(|range| Work::Command(Command::WriteZeroes(range))),
            other => Ok(Work::Answer(about(other, geometry))),
        };
        made.unwrap_or_else(|error| Work::Answer(Err(errno(error))))
    }
}

impl Command {
    /// Does it; the errno if that fails.
    pub async fn run<D: BlockDevice>(self, device: &D) -> Result<(), i32> {
        let done = match self {
            Command::Flush => device.flush().await,
            // A hole in a file reads as zeroes, which not every device promises of its own.
            Command::Deallocate(range) if device.geometry().deallocates => {
                device.deallocate(range).await
            }
            Command::Deallocate(range) => device.write_zeroes(range, Durability::Cached).await,
            Command::WriteZeroes(range) => device.write_zeroes(range, Durability::Cached).await,
        };
        done.map_err(errno)
    }
}

/// The errno that says most of what the error says.
pub fn errno(error: IoError) -> i32 {
    let errno = match error {
        IoError::OutOfRange | IoError::InvalidRequest => Errno::INVAL,
        IoError::CapacityExceeded => Errno::NOSPC,
        IoError::WriteProtected => Errno::ROFS,
        IoError::NotReady => Errno::AGAIN,
        _ => Errno::IO,
    };
    errno.raw_os_error()
}

/// The run of blocks, if it is a whole number of them.
fn blocks(geometry: &Geometry, offset: u64, bytes: u64) -> Result<BlockRange, IoError> {
    let block = u64::from(geometry.block_bytes);
    let whole = offset.is_multiple_of(block) && bytes.is_multiple_of(block);
    let range = BlockRange::new(Lba(offset / block), bytes / block);
    match whole {
        true if geometry.contains(range) => Ok(range),
        true => Err(IoError::OutOfRange),
        false => Err(IoError::InvalidRequest),
    }
}

/// The whole blocks around what is asked for; what is beyond the end is cut off.
fn span(geometry: &Geometry, offset: u64, bytes: u64) -> Option<Span> {
    let end = offset.saturating_add(bytes).min(geometry.capacity_bytes());
    if offset >= end {
        return None;
    }
    let block = u64::from(geometry.block_bytes);
    let first = offset / block;
    let start = first * block;
    Some(Span {
        first: Lba(first),
        bytes: ((end.div_ceil(block) - first) * block) as usize,
        within: (offset - start) as usize..(end - start) as usize,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_that_are_no_whole_blocks_are_refused() {
        let geometry = Geometry::new(4096, 8).unwrap();
        assert_eq!(
            blocks(&geometry, 4096, 8192),
            Ok(BlockRange::new(Lba(1), 2))
        );
        assert_eq!(blocks(&geometry, 512, 4096), Err(IoError::InvalidRequest));
        assert_eq!(blocks(&geometry, 0, 100), Err(IoError::InvalidRequest));
        assert_eq!(blocks(&geometry, 28_672, 8192), Err(IoError::OutOfRange));
        let asked = Asked::Write {
            offset: 512,
            data: &[0; 4096],
        };
        let refused = Work::Answer(Err(Errno::INVAL.raw_os_error()));
        assert_eq!(Work::of(asked, &geometry), refused);
    }

    #[test]
    fn reads_that_cross_blocks_and_the_end_give_what_there_is() {
        let geometry = Geometry::new(4096, 2).unwrap();
        let found = |first, bytes, within| {
            let first = Lba(first);
            Some(Span {
                first,
                bytes,
                within,
            })
        };
        assert_eq!(span(&geometry, 4096, 4096), found(1, 4096, 0..4096));
        assert_eq!(span(&geometry, 4000, 200), found(0, 8192, 4000..4200));
        assert_eq!(span(&geometry, 8000, 4096), found(1, 4096, 3904..4096));
        assert_eq!(span(&geometry, 8192, 1), None);
        assert_eq!(span(&geometry, u64::MAX, 2), None);
    }
}
