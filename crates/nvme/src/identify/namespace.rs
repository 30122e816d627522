//! Identify Namespace, in its three forms.

use zerocopy::little_endian::{U16, U32, U64, U128};

wire! {
    /// An LBA format.
    pub struct LbaFormat [4] {
        /// MS: metadata bytes.
        pub metadata_bytes: U16,
        /// LBADS: power of two of the block size.
        pub block_shift: u8,
        /// RP: relative performance.
        pub relative_performance: u8,
    }

    /// Identify Namespace for the NVM command set (CNS 00h).
    pub struct NamespaceData [4096] {
        /// NSZE.
        pub size_blocks: U64,
        /// NCAP.
        pub capacity_blocks: U64,
        /// NUSE.
        pub used_blocks: U64,
        /// NSFEAT: see [`nsfeat`].
        pub features: u8,
        /// NLBAF, 0's based.
        pub lba_formats: u8,
        /// FLBAS: index of the format in use.
        pub format: u8,
        /// MC.
        pub metadata: u8,
        /// DPC.
        pub protection_capabilities: u8,
        /// DPS.
        pub protection: u8,
        /// NMIC: see [`nmic`].
        pub multipath: u8,
        /// RESCAP.
        pub reservations: u8,
        /// FPI.
        pub format_progress: u8,
        /// DLFEAT: see [`dlfeat`].
        pub deallocate: u8,
        /// NAWUN, 0's based.
        pub atomic_normal: U16,
        /// NAWUPF, 0's based.
        pub atomic_power_fail: U16,
        /// NACWU, 0's based.
        pub atomic_compare_write: U16,
        /// NABSN, 0's based.
        pub atomic_boundary_normal: U16,
        /// NABO.
        pub atomic_boundary_offset: U16,
        /// NABSPF, 0's based.
        pub atomic_boundary_power_fail: U16,
        /// NOIOB.
        pub optimal_io_boundary: U16,
        /// NVMCAP, bytes.
        pub capacity_bytes: U128,
        /// NPWG, 0's based.
        pub preferred_write_granularity: U16,
        /// NPWA, 0's based.
        pub preferred_write_alignment: U16,
        /// NPDG, 0's based.
        pub preferred_deallocate_granularity: U16,
        /// NPDA, 0's based.
        pub preferred_deallocate_alignment: U16,
        /// NOWS, 0's based.
        pub optimal_write_size: U16,
        /// MSSRL: blocks of one source range of a Copy.
        pub copy_range_blocks_max: U16,
        /// MCL: blocks of a Copy.
        pub copy_blocks_max: U32,
        /// MSRC: source ranges of a Copy, 0's based.
        pub copy_ranges_max: u8,
        /// Reserved.
        pub reserved81: [u8; 11],
        /// ANAGRPID.
        pub ana_group: U32,
        /// Reserved.
        pub reserved96: [u8; 3],
        /// NSATTR: see [`nsattr`].
        pub attributes: u8,
        /// NVMSETID.
        pub nvm_set: U16,
        /// ENDGID.
        pub endurance_group: U16,
        /// NGUID.
        pub nguid: [u8; 16],
        /// EUI64.
        pub eui64: [u8; 8],
        /// LBAF0 to LBAF63.
        pub formats: [LbaFormat; 64],
        /// Vendor specific.
        pub vendor: [u8; 3712],
    }

    /// Identify Namespace independent of command sets (CNS 08h).
    pub struct IndependentNamespaceData [4096] {
        /// NSFEAT.
        pub features: u8,
        /// NMIC: see [`nmic`].
        pub multipath: u8,
        /// RESCAP.
        pub reservations: u8,
        /// FPI.
        pub format_progress: u8,
        /// ANAGRPID.
        pub ana_group: U32,
        /// NSATTR: see [`nsattr`].
        pub attributes: u8,
        /// Reserved.
        pub reserved9: u8,
        /// NVMSETID.
        pub nvm_set: U16,
        /// ENDGID.
        pub endurance_group: U16,
        /// NSTAT: bit 0 is ready.
        pub status: u8,
        /// Reserved.
        pub reserved15: [u8; 4081],
    }

    /// Identify Namespace specific to the NVM command set (CNS 05h, CSI 00h).
    pub struct NvmNamespaceData [4096] {
        /// LBSTM.
        pub storage_tag_mask: U64,
        /// PIC.
        pub protection_capabilities: u8,
        /// Reserved.
        pub reserved9: [u8; 3],
        /// ELBAF0 to ELBAF63.
        pub extended_formats: [U32; 64],
        /// Reserved.
        pub reserved268: [u8; 3828],
    }
}

/// Bits of [`NamespaceData::features`].
pub mod nsfeat {
    /// Thin provisioning.
    pub const THIN: u8 = 1 << 0;
    /// The NAWUN, NAWUPF and NACWU fields hold.
    pub const ATOMICS: u8 = 1 << 1;
    /// Deallocated or unwritten block errors.
    pub const UNWRITTEN_ERROR: u8 = 1 << 2;
    /// The NPWG, NPWA, NPDG, NPDA and NOWS fields hold.
    pub const PREFERRED_SIZES: u8 = 1 << 4;
}

/// Bits of [`NamespaceData::multipath`].
pub mod nmic {
    /// May be attached to several controllers at once.
    pub const SHARED: u8 = 1 << 0;
}

/// Bits of [`NamespaceData::attributes`].
pub mod nsattr {
    /// Write protected now, for whatever reason.
    pub const WRITE_PROTECTED: u8 = 1 << 0;
}

/// Values of [`NamespaceData::deallocate`].
pub mod dlfeat {
    /// Deallocated blocks read as zeroes.
    pub const READS_ZEROES: u8 = 0b001;
    /// DEAC of Write Zeroes is supported.
    pub const WRITE_ZEROES_DEALLOCATES: u8 = 1 << 3;
}
