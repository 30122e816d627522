//! Log pages (NVMe 2.0 §5.16).

mod discovery;
mod health;

pub use discovery::{
    AddressFamily, DiscoveryEntry, DiscoveryHeader, RDMA_SPECIFIC, SECURITY_TLS_1_3, SubsystemType,
    TRANSPORT_RDMA, TRANSPORT_TCP, entry_flags, requirements,
};
pub use health::{EnduranceGroup, ErrorEntry, FirmwareSlots, SmartHealth};
use zerocopy::little_endian::{U16, U32, U64};

use crate::command::{AdminOpcode, SglDescriptor, SubmissionEntry, view};

open_enum! {
    /// LID.
    #[derive(zerocopy::Unaligned)]
    pub struct LogPage(u8);
    /// Supported log pages.
    SUPPORTED = 0x00;
    /// Error information.
    ERROR = 0x01;
    /// SMART / health information.
    SMART = 0x02;
    /// Firmware slot information.
    FIRMWARE = 0x03;
    /// Changed namespace list.
    CHANGED_NAMESPACES = 0x04;
    /// Commands supported and effects.
    COMMAND_EFFECTS = 0x05;
    /// Device self-test.
    SELF_TEST = 0x06;
    /// Endurance group information.
    ENDURANCE_GROUP = 0x09;
    /// Asymmetric namespace access.
    ANA = 0x0c;
    /// Feature identifiers supported and effects.
    FEATURE_EFFECTS = 0x12;
    /// NVMe-MI commands supported and effects.
    MANAGEMENT_EFFECTS = 0x13;
    /// Cross-Controller Reset.
    CROSS_RESETS = 0x1e;
    /// Discovery.
    DISCOVERY = 0x70;
    /// Reservation notification.
    RESERVATION = 0x80;
}

wire! {
    /// Get Log Page.
    pub struct GetLogPage [64] {
        /// Opcode, flags, CID.
        pub front: [u8; 4],
        /// NSID.
        pub namespace_id: U32,
        /// Reserved, MPTR.
        pub reserved: [u8; 16],
        /// DPTR.
        pub data: SglDescriptor,
        /// LID.
        pub page: LogPage,
        /// Bit 7 is RAE (retain asynchronous event); bits 6:0 LSP.
        pub specific: u8,
        /// NUMDL: lower half of the dwords, 0's based.
        pub dwords_low: U16,
        /// NUMDU.
        pub dwords_high: U16,
        /// LSI.
        pub specific_id: U16,
        /// LPOL and LPOU: byte offset into the page.
        pub offset: U64,
        /// UUID index in bits 6:0.
        pub uuid_index: u8,
        /// Reserved.
        pub reserved14: u8,
        /// Bit 7 is OT: the offset counts entries instead of bytes.
        pub offset_type: u8,
        /// CSI.
        pub command_set: u8,
        /// Reserved.
        pub reserved15: U32,
    }

    /// Commands supported and effects: one dword per opcode, see [`effects`].
    pub struct CommandEffects [4096] {
        /// Admin commands.
        pub admin: [U32; 256],
        /// I/O commands.
        pub io: [U32; 256],
        /// Reserved.
        pub reserved: [u8; 2048],
    }

    /// Supported log pages: bit 0 of a dword says that the page is.
    pub struct SupportedPages [1024] {
        /// One dword per page.
        pub pages: [U32; 256],
    }

    /// Changed namespace list; FFFFFFFFh alone says that there are too many.
    pub struct ChangedNamespaces [4096] {
        /// Identifiers, rising, then zeroes.
        pub namespaces: [U32; 1024],
    }

    /// Front of the ANA log.
    pub struct AnaHeader [16] {
        /// CHGCNT.
        pub change_count: U64,
        /// Group descriptors that follow.
        pub groups: U16,
        /// Reserved.
        pub reserved: [u8; 6],
    }

    /// Front of an ANA group descriptor; its namespace identifiers follow.
    pub struct AnaGroup [32] {
        /// ANAGRPID.
        pub group: U32,
        /// Namespace identifiers that follow.
        pub namespaces: U32,
        /// Change count of the group.
        pub change_count: U64,
        /// See [`AnaState`].
        pub state: AnaState,
        /// Reserved.
        pub reserved: [u8; 15],
    }

    /// Front of the log of Cross-Controller Resets (NVMe 2.3 §5.2.12.3.1); its entries follow.
    pub struct CrossResetHeader [8] {
        /// NE: entries that follow, at most [`CROSS_RESETS_LOGGED_MAX`].
        pub entries: U16,
        /// Reserved.
        pub reserved: [u8; 6],
    }

    /// A Cross-Controller Reset in its log.
    pub struct CrossResetEntry [8] {
        /// ICID.
        pub controller_id: U16,
        /// CIU.
        pub uniquifier: u8,
        /// Reserved.
        pub reserved: u8,
        /// ACID.
        pub alternate_id: U16,
        /// CCRS.
        pub state: CrossResetState,
        /// CCRF: see [`cross_reset_flags`].
        pub flags: u8,
    }
}

open_enum! {
    /// How far a Cross-Controller Reset is.
    #[derive(zerocopy::Unaligned)]
    pub struct CrossResetState(u8);
    /// In progress.
    IN_PROGRESS = 0x00;
    /// The controller is reset, and has no command under way any more.
    SUCCESS = 0x01;
    /// It is not.
    FAILED = 0x02;
}

/// Bits of [`CrossResetEntry::flags`].
pub mod cross_reset_flags {
    /// V: the controller was the one that was named.
    pub const VALIDATED: u8 = 1 << 0;
    /// CLRI: a reset of it was begun.
    pub const INITIATED: u8 = 1 << 1;
}

view!(GetLogPage);

open_enum! {
    /// Asymmetric namespace access state.
    #[derive(zerocopy::Unaligned)]
    pub struct AnaState(u8);
    /// Optimized.
    OPTIMIZED = 0x01;
    /// Non-optimized.
    NON_OPTIMIZED = 0x02;
    /// Inaccessible.
    INACCESSIBLE = 0x03;
    /// Persistent loss.
    PERSISTENT_LOSS = 0x04;
    /// Changing.
    CHANGE = 0x0f;
}

/// Bits of a dword of [`CommandEffects`], and of the page of features supported and effects.
pub mod effects {
    /// The command is supported.
    pub const SUPPORTED: u32 = 1 << 0;
    /// It may change the contents of a namespace.
    pub const CONTENT_CHANGE: u32 = 1 << 1;
    /// NIC: it may change which namespaces there are, or are attached.
    pub const INVENTORY_CHANGE: u32 = 1 << 3;
    /// Scope (CSP, FSP): a namespace.
    pub const OF_NAMESPACE: u32 = 1 << 20;
    /// Scope: a controller.
    pub const OF_CONTROLLER: u32 = 1 << 21;
    /// Scope: the NVM subsystem.
    pub const OF_SUBSYSTEM: u32 = 1 << 25;
}

/// RAE in [`GetLogPage::specific`]: do not clear the event.
pub const RETAIN_EVENT: u8 = 1 << 7;
/// LSP of the log of Cross-Controller Resets, RMC: entries that are complete go once they are read.
pub const REMOVE_COMPLETED: u8 = 1 << 0;
/// Entries of the log of Cross-Controller Resets at most: a page of 4 KiB.
pub const CROSS_RESETS_LOGGED_MAX: usize = 511;
/// LSP of the ANA log: groups only, no namespace identifiers.
pub const ANA_GROUPS_ONLY: u8 = 1 << 0;

impl GetLogPage {
    /// `bytes` (a multiple of 4, at least 4) of a page from `offset`.
    pub fn new(page: LogPage, namespace_id: u32, offset: u64, bytes: u32) -> GetLogPage {
        let data = SglDescriptor::transport(bytes);
        let entry = SubmissionEntry::new(AdminOpcode::GET_LOG_PAGE.0, namespace_id, data);
        let mut command = *GetLogPage::of(&entry);
        let dwords_minus_one = (bytes / 4).saturating_sub(1);
        command.page = page;
        command.dwords_low = U16::new(dwords_minus_one as u16);
        command.dwords_high = U16::new((dwords_minus_one >> 16) as u16);
        command.offset = U64::new(offset);
        command
    }

    /// Bytes asked for.
    pub fn bytes(&self) -> u64 {
        let dwords = u64::from(self.dwords_high.get()) << 16 | u64::from(self.dwords_low.get());
        (dwords + 1) * 4
    }

    /// True when the event that announced the page is to stay pending.
    pub fn retains_event(&self) -> bool {
        self.specific & RETAIN_EVENT != 0
    }
}
