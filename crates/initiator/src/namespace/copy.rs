//! Copy: blocks go to other blocks on the controller's side.

use block::{BlockDevice, BlockRange, Buffer, Durability, IoError, Lba};
use nvme::copy::{COPY_RANGES_MAX, CopyCommand, CopyFormat, SourceRange};
use nvme::identify::{ControllerData, NamespaceData, oncs};
use zerocopy::IntoBytes;

use super::{Namespace, flags_of};
use crate::connection::Data;

/// Blocks that a copy reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopySource {
    /// NSID of the namespace that they are in.
    pub namespace_id: u32,
    /// The blocks.
    pub range: BlockRange,
}

/// What one Copy command may have.
#[derive(Clone, Copy, Debug)]
pub(super) struct CopyLimits {
    range_blocks: u64,
    blocks: u64,
    ranges: usize,
    /// Sources may be in other namespaces.
    from_others: bool,
}

impl CopyLimits {
    /// `None` where the controller does not copy.
    pub fn of(data: &NamespaceData, controller: &ControllerData) -> Option<CopyLimits> {
        let limits = CopyLimits {
            range_blocks: data.copy_range_blocks_max.get().into(),
            blocks: data.copy_blocks_max.get().into(),
            ranges: usize::from(data.copy_ranges_max) + 1,
            from_others: controller.copy_formats.get() & 1 << CopyFormat::NAMED.0 != 0,
        };
        let copies = controller.io_commands.get() & oncs::COPY != 0;
        let has_room = limits.range_blocks > 0 && limits.blocks > 0;
        (copies && has_room).then_some(limits)
    }
}

impl Namespace {
    /// Copies `sources`, one behind the other, to the blocks at `start`, without transferring
    /// them, in as many commands as the controller's limits make necessary. After a failure any
    /// part may have been copied.
    ///
    /// # Errors
    /// [`IoError::InvalidRequest`] where the controller does not copy, or not from other
    /// namespaces; where one of these has blocks of another size; and where a source overlaps what
    /// is written, which it must not.
    pub async fn copy(
        &self,
        sources: &[CopySource],
        start: Lba,
        durability: Durability,
    ) -> Result<(), IoError> {
        let limits = self.copy_limits.ok_or(IoError::InvalidRequest)?;
        let is_own = |source: &CopySource| source.namespace_id == self.namespace_id;
        let format = match sources.iter().all(is_own) {
            true => CopyFormat::OWN,
            false if limits.from_others => CopyFormat::NAMED,
            false => return Err(IoError::InvalidRequest),
        };
        let blocks = sources.iter().map(|source| source.range.blocks);
        let blocks = blocks.fold(0, u64::saturating_add);
        let written = BlockRange::new(start, blocks);
        if !self.geometry().contains(written) {
            return Err(IoError::OutOfRange);
        }
        let overlap = |source: &CopySource| is_own(source) && source.range.overlaps(written);
        if sources.iter().any(overlap) {
            return Err(IoError::InvalidRequest);
        }
        let mut at = start;
        let mut ranges = Vec::new();
        let mut collected = 0;
        for source in sources {
            let mut done = 0;
            while done < source.range.blocks {
                let left = source.range.blocks - done;
                let blocks = left.min(limits.range_blocks).min(limits.blocks - collected);
                // A source that wraps is out of range anyway.
                let first = source.range.start.0.saturating_add(done);
                ranges.push(SourceRange::new(source.namespace_id, first, blocks as u32));
                done += blocks;
                collected += blocks;
                let ranges_max = limits.ranges.min(COPY_RANGES_MAX);
                if ranges.len() == ranges_max || collected == limits.blocks {
                    self.copy_once(&ranges, at, (format, durability)).await?;
                    at = Lba(at.0 + std::mem::take(&mut collected));
                    ranges.clear();
                }
            }
        }
        match ranges.is_empty() {
            true => Ok(()),
            false => self.copy_once(&ranges, at, (format, durability)).await,
        }
    }

    async fn copy_once(
        &self,
        ranges: &[SourceRange],
        start: Lba,
        (format, durability): (CopyFormat, Durability),
    ) -> Result<(), IoError> {
        let mut command = CopyCommand::new(self.namespace_id, start.0, format, ranges.len());
        command.control = flags_of(durability).into();
        let data = Data::Out(Buffer::copy_of(ranges.as_bytes()));
        self.run(*command.entry(), data).await.1
    }
}
