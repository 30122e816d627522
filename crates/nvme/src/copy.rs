//! Copy (NVM Command Set 1.1 §3.3.2): blocks go to other blocks without crossing the network. The
//! command's data is a list of source ranges, which are copied one behind the other.

use zerocopy::FromBytes;
use zerocopy::little_endian::{U16, U32, U64};

use crate::command::{SglDescriptor, SubmissionEntry, view};
use crate::{IoOpcode, Status};

/// A Copy command names at most this many source ranges: NR is 8 bits, 0's based.
pub const COPY_RANGES_MAX: usize = 256;

open_enum! {
    /// DESFMT: what source ranges are made of. The formats for other protection information than
    /// that of 16-bit guards, and for memory, are not here.
    #[derive(zerocopy::Unaligned)]
    pub struct CopyFormat(u8);
    /// Sources are in the namespace that is written.
    OWN = 0;
    /// Each source says which namespace it is in.
    NAMED = 2;
}

wire! {
    /// Copy.
    pub struct CopyCommand [64] {
        /// Opcode.
        pub opcode: IoOpcode,
        /// See [`command_flags`](crate::command::command_flags).
        pub flags: u8,
        /// CID.
        pub command_id: U16,
        /// NSID: the namespace that is written.
        pub namespace_id: U32,
        /// Command dwords 2 and 3.
        pub dword2: [U32; 2],
        /// MPTR.
        pub metadata: U64,
        /// DPTR: the source ranges.
        pub data: SglDescriptor,
        /// SDLBA: where the first block goes.
        pub start: U64,
        /// NR, 0's based.
        pub ranges_minus_one: u8,
        /// DESFMT in bits 3:0, PRINFOR in bits 7:4.
        pub format: u8,
        /// See [`control`](crate::command::control).
        pub control: U16,
        /// Command dwords 13 to 15: directives and tags.
        pub dword13: [U32; 3],
    }

    /// One source range of a [`CopyCommand`], of either [`CopyFormat`].
    pub struct SourceRange [32] {
        /// SNSID, with [`CopyFormat::NAMED`].
        pub namespace_id: U32,
        /// Reserved.
        pub reserved4: U32,
        /// SLBA.
        pub start: U64,
        /// NLB, 0's based.
        pub blocks_minus_one: U16,
        /// Reserved.
        pub reserved18: [u8; 4],
        /// SOPT: see [`FAST_COPY_ONLY`].
        pub options: U16,
        /// Expected tags.
        pub tags: U64,
    }
}

/// Bit of [`SourceRange::options`], with [`CopyFormat::NAMED`]: the range is copied by a method as
/// fast as reading and writing by the host, or not at all (FCO).
pub const FAST_COPY_ONLY: u16 = 1 << 15;

view!(CopyCommand);

impl CopyCommand {
    /// A copy of so many source ranges to the blocks from `start` on, 1 to [`COPY_RANGES_MAX`],
    /// which is not checked here beyond wrapping as the field does.
    pub fn new(namespace_id: u32, start: u64, format: CopyFormat, ranges: usize) -> CopyCommand {
        let data = SglDescriptor::transport((ranges * size_of::<SourceRange>()) as u32);
        let entry = SubmissionEntry::new(IoOpcode::COPY.0, namespace_id, data);
        let mut command = *CopyCommand::of(&entry);
        command.start = start.into();
        command.format = format.0;
        command.ranges_minus_one = ranges.wrapping_sub(1) as u8;
        command
    }

    /// DESFMT.
    pub fn source_format(&self) -> CopyFormat {
        CopyFormat(self.format & 0xf)
    }

    /// How many source ranges there are.
    pub fn ranges(&self) -> usize {
        usize::from(self.ranges_minus_one) + 1
    }

    /// The source ranges in the command's data.
    ///
    /// # Errors
    /// Data SGL Length Invalid where there are fewer than the command says.
    pub fn sources<'a>(&self, data: &'a [u8]) -> Result<&'a [SourceRange], Status> {
        <[SourceRange]>::ref_from_prefix_with_elems(data, self.ranges())
            .map(|(ranges, _)| ranges)
            .map_err(|_| Status::DATA_SGL_LENGTH_INVALID)
    }
}

impl SourceRange {
    /// The range of `blocks` blocks, 1 to 65536, from `start` on.
    pub fn new(namespace_id: u32, start: u64, blocks: u32) -> SourceRange {
        SourceRange {
            namespace_id: namespace_id.into(),
            reserved4: U32::ZERO,
            start: start.into(),
            blocks_minus_one: U16::new(blocks.wrapping_sub(1) as u16),
            reserved18: [0; 4],
            options: U16::ZERO,
            tags: U64::ZERO,
        }
    }

    /// How many blocks it has.
    pub fn blocks(&self) -> u64 {
        u64::from(self.blocks_minus_one.get()) + 1
    }
}

#[cfg(test)]
mod tests {
    use zerocopy::IntoBytes;

    use super::*;
    use crate::command::control;

    /// Figures 32 to 35 and 39.
    #[test]
    fn a_copy_and_its_source_ranges_are_as_the_specification_has_them() {
        let mut copy = CopyCommand::new(7, 0x1122_3344_5566_7788, CopyFormat::NAMED, 128);
        copy.control = (control::FORCE_UNIT_ACCESS | 1 << 4).into();
        let bytes = copy.as_bytes();
        assert_eq!((bytes[0], bytes[4]), (0x19, 7));
        assert_eq!(bytes[40..48], 0x1122_3344_5566_7788_u64.to_le_bytes());
        let dword12 = u32::from_le_bytes(bytes[48..52].try_into().unwrap());
        assert_eq!(dword12, 1 << 30 | 1 << 20 | 2 << 8 | 127);
        assert_eq!(copy.data.length.get(), 4096);

        let mut source = SourceRange::new(9, 0x0102_0304_0506_0708, 65536);
        source.options = FAST_COPY_ONLY.into();
        let bytes = source.as_bytes();
        assert_eq!((bytes[0], bytes[16], bytes[17]), (9, 0xff, 0xff));
        assert_eq!(bytes[8..16], 0x0102_0304_0506_0708_u64.to_le_bytes());
        assert_eq!((bytes[22], bytes[23], source.blocks()), (0, 0x80, 65536));
    }

    /// Whatever bytes come and whatever number of ranges is said, ranges are what the bytes have.
    #[test]
    fn source_ranges_are_read_from_what_is_there() {
        let bytes: Vec<u8> = (0..=255).cycle().take(COPY_RANGES_MAX * 32).collect();
        for said in [1, 2, 127, 128, 255, 256] {
            let command = CopyCommand::new(1, 0, CopyFormat::OWN, said);
            for length in [0, 1, 31, 32, 33, 63, 64, 4095, 4096, 8191, 8192] {
                let found = command.sources(&bytes[..length]);
                match length >= said * 32 {
                    true => assert_eq!(found.unwrap().as_bytes(), &bytes[..said * 32]),
                    false => assert_eq!(found, Err(Status::DATA_SGL_LENGTH_INVALID)),
                }
            }
        }
    }
}
