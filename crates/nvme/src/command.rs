//! Submission and completion queue entries and the NVM and admin commands in them
//! (NVMe 2.0 §3.3.3, §4.6; NVM Command Set 1.0 §3.2).

use zerocopy::little_endian::{U16, U32, U64};

use crate::Status;

open_enum! {
    /// Admin opcodes.
    #[derive(zerocopy::Unaligned)]
    pub struct AdminOpcode(u8);
    /// Get Log Page.
    GET_LOG_PAGE = 0x02;
    /// Identify.
    IDENTIFY = 0x06;
    /// Abort.
    ABORT = 0x08;
    /// Set Features.
    SET_FEATURES = 0x09;
    /// Get Features.
    GET_FEATURES = 0x0a;
    /// Asynchronous Event Request.
    ASYNC_EVENT_REQUEST = 0x0c;
    /// Namespace Management.
    NAMESPACE_MANAGEMENT = 0x0d;
    /// Namespace Attachment.
    NAMESPACE_ATTACHMENT = 0x15;
    /// Keep Alive.
    KEEP_ALIVE = 0x18;
    /// Cross-Controller Reset.
    CROSS_CONTROLLER_RESET = 0x38;
    /// Any Fabrics command.
    FABRICS = 0x7f;
    /// Format NVM.
    FORMAT_NVM = 0x80;
}

open_enum! {
    /// NVM command set opcodes.
    #[derive(zerocopy::Unaligned)]
    pub struct IoOpcode(u8);
    /// Flush.
    FLUSH = 0x00;
    /// Write.
    WRITE = 0x01;
    /// Read.
    READ = 0x02;
    /// Write Uncorrectable.
    WRITE_UNCORRECTABLE = 0x04;
    /// Compare.
    COMPARE = 0x05;
    /// Write Zeroes.
    WRITE_ZEROES = 0x08;
    /// Dataset Management.
    DATASET_MANAGEMENT = 0x09;
    /// Verify.
    VERIFY = 0x0c;
    /// Reservation Register.
    RESERVATION_REGISTER = 0x0d;
    /// Reservation Report.
    RESERVATION_REPORT = 0x0e;
    /// Reservation Acquire.
    RESERVATION_ACQUIRE = 0x11;
    /// Reservation Release.
    RESERVATION_RELEASE = 0x15;
    /// Copy.
    COPY = 0x19;
    /// Any Fabrics command.
    FABRICS = 0x7f;
}

/// Bits of [`SubmissionEntry::flags`].
pub mod command_flags {
    /// FUSE: first command of a fused pair.
    pub const FUSED_FIRST: u8 = 0b01;
    /// FUSE: second command of a fused pair.
    pub const FUSED_SECOND: u8 = 0b10;
    /// Mask of FUSE.
    pub const FUSED_MASK: u8 = 0b11;
    /// PSDT: the data pointer is an SGL, metadata is one contiguous buffer.
    pub const SGL: u8 = 0b01 << 6;
    /// Mask of PSDT.
    pub const TRANSFER_MASK: u8 = 0b11 << 6;
}

/// Which way data goes for a command: the two low bits of every opcode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// No data.
    None,
    /// From host to controller.
    ToController,
    /// From controller to host.
    ToHost,
    /// Both ways; no command of these sets does.
    Both,
}

impl Direction {
    /// The direction that an opcode (or a Fabrics command type) implies.
    pub fn of(opcode: u8) -> Direction {
        match opcode & 0b11 {
            0b00 => Direction::None,
            0b01 => Direction::ToController,
            0b10 => Direction::ToHost,
            _ => Direction::Both,
        }
    }
}

/// SGL descriptor types and subtypes: byte 15 of a descriptor.
pub mod sgl {
    /// Data block with an offset into the capsule.
    pub const DATA_BLOCK_OFFSET: u8 = 0x01;
    /// Data block at an address.
    pub const DATA_BLOCK_ADDRESS: u8 = 0x00;
    /// Transport data block: data moves in data PDUs.
    pub const TRANSPORT_DATA_BLOCK: u8 = 0x5a;
    /// Keyed data block: memory of the host that RDMA reaches.
    pub const KEYED_DATA_BLOCK: u8 = 0x40;
    /// The same, whose key ends with the answer.
    pub const KEYED_DATA_BLOCK_INVALIDATE: u8 = 0x4f;
}

wire! {
    /// An SGL descriptor (NVMe 2.0 §4.3.2).
    pub struct SglDescriptor [16] {
        /// Address, or offset into the capsule.
        pub address: U64,
        /// Bytes.
        pub length: U32,
        /// Reserved.
        pub reserved: [u8; 3],
        /// Type in bits 7:4, subtype in bits 3:0: see [`sgl`].
        pub kind: u8,
    }

    /// A submission queue entry. Commands with fields of their own have a view of the same bytes:
    /// [`ReadWrite`], [`Identify`](crate::identify::Identify), ...
    pub struct SubmissionEntry [64] {
        /// Opcode: [`AdminOpcode`] or [`IoOpcode`].
        pub opcode: u8,
        /// See [`command_flags`].
        pub flags: u8,
        /// CID.
        pub command_id: U16,
        /// NSID.
        pub namespace_id: U32,
        /// Command dwords 2 and 3.
        pub dword2: [U32; 2],
        /// MPTR.
        pub metadata: U64,
        /// DPTR as an SGL descriptor.
        pub data: SglDescriptor,
        /// Command dwords 10 to 15.
        pub dword10: [U32; 6],
    }

    /// A completion queue entry.
    pub struct CompletionEntry [16] {
        /// Dwords 0 and 1: command specific.
        pub result: U64,
        /// SQHD: head of the submission queue.
        pub submission_head: U16,
        /// SQID: reserved on fabrics.
        pub submission_queue: U16,
        /// CID.
        pub command_id: U16,
        /// Status with phase bit: see [`Status::wire`].
        pub status: U16,
    }

    /// Read, Write, Compare, Verify, Write Zeroes.
    pub struct ReadWrite [64] {
        /// Opcode.
        pub opcode: IoOpcode,
        /// See [`command_flags`].
        pub flags: u8,
        /// CID.
        pub command_id: U16,
        /// NSID.
        pub namespace_id: U32,
        /// Command dwords 2 and 3.
        pub dword2: [U32; 2],
        /// MPTR.
        pub metadata: U64,
        /// DPTR.
        pub data: SglDescriptor,
        /// SLBA.
        pub start: U64,
        /// NLB, 0's based.
        pub blocks_minus_one: U16,
        /// See [`control`].
        pub control: U16,
        /// Dataset management hints.
        pub dataset: U32,
        /// Reference tag.
        pub reference_tag: U32,
        /// Application tag and mask.
        pub application_tag: U32,
    }

    /// Dataset Management.
    pub struct DatasetManagement [64] {
        /// Opcode.
        pub opcode: IoOpcode,
        /// See [`command_flags`].
        pub flags: u8,
        /// CID.
        pub command_id: U16,
        /// NSID.
        pub namespace_id: U32,
        /// Reserved.
        pub dword2: [U32; 2],
        /// MPTR.
        pub metadata: U64,
        /// DPTR.
        pub data: SglDescriptor,
        /// NR, 0's based.
        pub ranges_minus_one: u8,
        /// Reserved.
        pub reserved10: [u8; 3],
        /// Bit 2 deallocates; bits 0 and 1 are hints.
        pub attributes: U32,
        /// Reserved.
        pub reserved12: [U32; 4],
    }

    /// One range of a Dataset Management command.
    pub struct DatasetRange [16] {
        /// Context attributes: hints.
        pub attributes: U32,
        /// Blocks.
        pub blocks: U32,
        /// Starting LBA.
        pub start: U64,
    }

    /// Abort.
    pub struct Abort [64] {
        /// Opcode, flags, CID, NSID.
        pub front: [u8; 8],
        /// Dwords 2 to 9.
        pub reserved: [u8; 32],
        /// SQID of the command to abort.
        pub submission_queue: U16,
        /// CID of the command to abort.
        pub command_id: U16,
        /// Dwords 11 to 15.
        pub reserved11: [U32; 5],
    }

    /// Cross-Controller Reset (NVMe 2.3 §5.4.3): ends another controller, which its host has lost.
    pub struct CrossControllerReset [64] {
        /// Opcode, flags, CID, NSID.
        pub front: [u8; 8],
        /// Dwords 2 to 9.
        pub reserved: [u8; 32],
        /// ICID: CNTLID of the controller to reset.
        pub controller_id: U16,
        /// CIU that it says in Identify Controller.
        pub uniquifier: u8,
        /// Rest of dword 10, and dword 11.
        pub reserved10: [u8; 5],
        /// CIRN that it says in Identify Controller.
        pub random: U64,
        /// Dwords 14 and 15.
        pub reserved14: [U32; 2],
    }
}

/// Bits of dword 0 of the completion of a [`CrossControllerReset`].
pub mod cross_reset_result {
    /// IRS: the reset has been done. Otherwise it is under way, and the log page tells of its end.
    pub const IMMEDIATE: u32 = 1 << 0;
    /// V: the controller was the one that was named. Undefined without IRS.
    pub const VALIDATED: u32 = 1 << 1;
    /// CLRI: a reset of it was begun. Undefined without IRS.
    pub const INITIATED: u32 = 1 << 2;
}

/// Bits of [`ReadWrite::control`].
pub mod control {
    /// DTYPE of Write and Copy: the kind of directive.
    pub const DIRECTIVE_MASK: u16 = 0b1111 << 4;
    /// DEAC of Write Zeroes: deallocate if possible.
    pub const DEALLOCATE: u16 = 1 << 9;
    /// PRINFO: protection information.
    pub const PROTECTION_MASK: u16 = 0b1111 << 10;
    /// FUA.
    pub const FORCE_UNIT_ACCESS: u16 = 1 << 14;
    /// LR: limited retry, a hint.
    pub const LIMITED_RETRY: u16 = 1 << 15;
}

/// Bit of [`DatasetManagement::attributes`]: deallocate.
pub const DATASET_DEALLOCATE: u32 = 1 << 2;
/// A Dataset Management command names at most this many ranges.
pub const DATASET_RANGES_MAX: usize = 256;
/// NSID that means every namespace.
pub const ALL_NAMESPACES: u32 = u32::MAX;

/// Views of the same 64 bytes.
macro_rules! view {
    ($($name:ty),+) => {
        $(
            impl $name {
                /// The entry seen as this command.
                pub fn of(entry: &$crate::SubmissionEntry) -> &$name {
                    zerocopy::transmute_ref!(entry)
                }

                /// This command as the entry it is.
                pub fn entry(&self) -> &$crate::SubmissionEntry {
                    zerocopy::transmute_ref!(self)
                }
            }
        )+
    };
}
pub(crate) use view;

view!(ReadWrite, DatasetManagement, Abort, CrossControllerReset);

impl CrossControllerReset {
    /// Ends the controller that has these three numbers.
    pub fn new(controller_id: u16, uniquifier: u8, random: u64) -> CrossControllerReset {
        let opcode = AdminOpcode::CROSS_CONTROLLER_RESET.0;
        let entry = SubmissionEntry::new(opcode, 0, SglDescriptor::transport(0));
        let mut command = *CrossControllerReset::of(&entry);
        command.controller_id = controller_id.into();
        command.uniquifier = uniquifier;
        command.random = random.into();
        command
    }
}

impl SglDescriptor {
    /// Data that moves in data PDUs.
    pub fn transport(length: u32) -> SglDescriptor {
        SglDescriptor {
            address: U64::ZERO,
            length: U32::new(length),
            reserved: [0; 3],
            kind: sgl::TRANSPORT_DATA_BLOCK,
        }
    }

    /// Data in the capsule, right behind the command.
    pub fn in_capsule(length: u32) -> SglDescriptor {
        SglDescriptor {
            kind: sgl::DATA_BLOCK_OFFSET,
            ..SglDescriptor::transport(length)
        }
    }
}

impl SubmissionEntry {
    /// An entry with this opcode, namespace and data pointer, and nothing else; `command_id` is
    /// for the queue to set.
    pub fn new(opcode: u8, namespace_id: u32, data: SglDescriptor) -> SubmissionEntry {
        SubmissionEntry {
            opcode,
            flags: command_flags::SGL,
            command_id: U16::ZERO,
            namespace_id: U32::new(namespace_id),
            dword2: [U32::ZERO; 2],
            metadata: U64::ZERO,
            data,
            dword10: [U32::ZERO; 6],
        }
    }
}

impl CompletionEntry {
    /// A completion without result.
    pub fn new(command_id: u16, status: Status) -> CompletionEntry {
        CompletionEntry {
            result: U64::ZERO,
            submission_head: U16::ZERO,
            submission_queue: U16::ZERO,
            command_id: U16::new(command_id),
            status: U16::new(status.wire()),
        }
    }

    /// The status.
    pub fn status(&self) -> Status {
        Status::from_wire(self.status.get())
    }
}

impl ReadWrite {
    /// A command over `blocks` blocks from `start`; `blocks` is 1 to 65536 and is not checked
    /// here beyond wrapping as the field does.
    pub fn new(
        opcode: IoOpcode,
        namespace_id: u32,
        start: u64,
        blocks: u32,
        data: SglDescriptor,
    ) -> ReadWrite {
        let mut command = *ReadWrite::of(&SubmissionEntry::new(opcode.0, namespace_id, data));
        command.start = U64::new(start);
        command.blocks_minus_one = U16::new(blocks.wrapping_sub(1) as u16);
        command
    }
}
