//! Identify Controller.

use zerocopy::little_endian::{U16, U32, U64, U128};

wire! {
    /// A power state descriptor.
    pub struct PowerState [32] {
        /// MP: maximum power, in centiwatts unless MXPS is set.
        pub power_max: U16,
        /// Reserved.
        pub reserved: u8,
        /// MXPS and NOPS.
        pub flags: u8,
        /// The remaining fields.
        pub rest: [u8; 28],
    }

    /// Identify Controller (CNS 01h).
    pub struct ControllerData [4096] {
        /// VID.
        pub vendor_id: U16,
        /// SSVID.
        pub subsystem_vendor_id: U16,
        /// SN.
        pub serial: [u8; 20],
        /// MN.
        pub model: [u8; 40],
        /// FR.
        pub firmware: [u8; 8],
        /// RAB.
        pub arbitration_burst: u8,
        /// IEEE OUI.
        pub oui: [u8; 3],
        /// CMIC: see [`cmic`].
        pub multipath: u8,
        /// MDTS: power of two of 4 KiB pages; 0 is no limit.
        pub transfer_size_max: u8,
        /// CNTLID.
        pub controller_id: U16,
        /// VER.
        pub version: U32,
        /// RTD3R.
        pub resume_latency: U32,
        /// RTD3E.
        pub entry_latency: U32,
        /// OAES: see [`crate::event::config`].
        pub async_events: U32,
        /// CTRATT: see [`ControllerAttributes`].
        pub attributes: U32,
        /// RRLS.
        pub read_recovery_levels: U16,
        /// Reserved.
        pub reserved102: [u8; 9],
        /// CNTRLTYPE: see [`controller_type`].
        pub controller_type: u8,
        /// FGUID.
        pub fru_guid: [u8; 16],
        /// CRDT1 to CRDT3.
        pub retry_delays: [U16; 3],
        /// CRCAP.
        pub reachability: u8,
        /// CIU: tells a controller from those that had its identifier before (NVMe 2.3 figure 328).
        pub instance_uniquifier: u8,
        /// CIRN: a number that nobody guesses, new whenever the controller becomes ready
        /// (NVMe 2.3 figure 328).
        pub instance_random: U64,
        /// Reserved.
        pub reserved144: [u8; 109],
        /// NVMSR, VWCI, MEC: management interface.
        pub management: [u8; 3],
        /// OACS: see [`oacs`].
        pub admin_commands: U16,
        /// ACL, 0's based.
        pub abort_limit: u8,
        /// AERL, 0's based.
        pub event_request_limit: u8,
        /// FRMW.
        pub firmware_updates: u8,
        /// LPA: see [`lpa`].
        pub log_attributes: u8,
        /// ELPE, 0's based.
        pub error_log_entries: u8,
        /// NPSS, 0's based.
        pub power_states: u8,
        /// AVSCC.
        pub admin_vendor_commands: u8,
        /// APSTA.
        pub power_transitions: u8,
        /// WCTEMP, kelvin.
        pub warning_temperature: U16,
        /// CCTEMP, kelvin.
        pub critical_temperature: U16,
        /// MTFA.
        pub firmware_activation_time: U16,
        /// HMPRE.
        pub host_memory_preferred: U32,
        /// HMMIN.
        pub host_memory_minimum: U32,
        /// TNVMCAP, bytes.
        pub total_capacity: U128,
        /// UNVMCAP, bytes.
        pub unallocated_capacity: U128,
        /// RPMBS.
        pub replay_protected: U32,
        /// EDSTT.
        pub self_test_time: U16,
        /// DSTO.
        pub self_test_options: u8,
        /// FWUG.
        pub firmware_granularity: u8,
        /// KAS: granularity of the keep alive timer in 100 ms.
        pub keep_alive_granularity: U16,
        /// HCTMA.
        pub thermal_management: U16,
        /// MNTMT.
        pub thermal_minimum: U16,
        /// MXTMT.
        pub thermal_maximum: U16,
        /// SANICAP.
        pub sanitize: U32,
        /// HMMINDS.
        pub host_memory_descriptor: U32,
        /// HMMAXD.
        pub host_memory_descriptors: U16,
        /// NSETIDMAX.
        pub nvm_set_max: U16,
        /// ENDGIDMAX.
        pub endurance_group_max: U16,
        /// ANATT, seconds.
        pub ana_transition_s: u8,
        /// ANACAP: see [`anacap`].
        pub ana_capabilities: u8,
        /// ANAGRPMAX.
        pub ana_group_max: U32,
        /// NANAGRPID.
        pub ana_groups: U32,
        /// PELS.
        pub persistent_event_log: U32,
        /// Domain identifier.
        pub domain: U16,
        /// Reserved.
        pub reserved358: [u8; 10],
        /// MEGCAP.
        pub endurance_group_capacity: U128,
        /// TMPTHHA.
        pub threshold_hysteresis: u8,
        /// Reserved.
        pub reserved385: u8,
        /// CQT, milliseconds: how long at most the controller takes to have no command under way
        /// any more, once it has lost its host; 0 does not say (NVMe 2.3 figure 328).
        pub command_quiesce_ms: U16,
        /// Reserved.
        pub reserved388: [u8; 124],
        /// SQES.
        pub submission_entry_size: u8,
        /// CQES.
        pub completion_entry_size: u8,
        /// MAXCMD.
        pub commands_max: U16,
        /// NN: the largest namespace identifier.
        pub namespace_max: U32,
        /// ONCS: see [`oncs`].
        pub io_commands: U16,
        /// FUSES: see [`fuses`].
        pub fused: U16,
        /// FNA.
        pub format: u8,
        /// VWC: bit 0 present; bits 2:1 are 11b when Flush takes NSID FFFFFFFFh, 10b when not.
        pub write_cache: u8,
        /// AWUN, 0's based blocks.
        pub atomic_normal: U16,
        /// AWUPF, 0's based blocks.
        pub atomic_power_fail: U16,
        /// ICSVSCC.
        pub io_vendor_commands: u8,
        /// NWPC: see [`nwpc`].
        pub write_protection: u8,
        /// ACWU, 0's based blocks.
        pub atomic_compare_write: U16,
        /// OCFS: a bit for each [`CopyFormat`](crate::copy::CopyFormat).
        pub copy_formats: U16,
        /// SGLS: see [`sgls`].
        pub sgl_support: U32,
        /// MNAN.
        pub namespaces_allowed: U32,
        /// MAXDNA.
        pub domain_attachments: U128,
        /// MAXCNA.
        pub controller_attachments: U32,
        /// Reserved.
        pub reserved564: [u8; 204],
        /// SUBNQN, NUL terminated.
        pub subsystem_nqn: [u8; 256],
        /// Reserved.
        pub reserved1024: [u8; 768],
        /// IOCCSZ, 16-byte units.
        pub command_capsule_units: U32,
        /// IORCSZ, 16-byte units.
        pub response_capsule_units: U32,
        /// ICDOFF, 16-byte units.
        pub capsule_data_offset: U16,
        /// FCATT: bit 0 set for the static controller model.
        pub fabrics_attributes: u8,
        /// MSDBD: SGL descriptors in a capsule.
        pub sgl_descriptors_max: u8,
        /// OFCS: bit 0 set when Disconnect is supported.
        pub fabrics_commands: U16,
        /// DCTYPE.
        pub discovery_type: u8,
        /// CCRL: resets of other controllers that it has in progress at most; 0 where it resets
        /// none (NVMe 2.3 figure 328).
        pub cross_resets_max: u8,
        /// Reserved.
        pub reserved1808: [u8; 240],
        /// PSD0 to PSD31.
        pub power_state_descriptors: [PowerState; 32],
        /// Vendor specific.
        pub vendor: [u8; 1024],
    }

    /// Identify Controller for the NVM command set (CNS 06h, CSI 00h).
    pub struct NvmControllerData [4096] {
        /// VSL.
        pub verify_limit: u8,
        /// WZSL.
        pub write_zeroes_limit: u8,
        /// WUSL.
        pub write_uncorrectable_limit: u8,
        /// DMRL: ranges of a Dataset Management.
        pub dataset_ranges_limit: u8,
        /// DMRSL: blocks of one range.
        pub dataset_range_blocks_limit: U32,
        /// DMSL: blocks of one command.
        pub dataset_blocks_limit: U64,
        /// Reserved.
        pub reserved: [u8; 4080],
    }
}

/// Bits of [`ControllerData::attributes`].
pub struct ControllerAttributes;

impl ControllerAttributes {
    /// 128-bit host identifiers.
    pub const HOST_ID_128: u32 = 1 << 0;
    /// Endurance groups.
    pub const ENDURANCE_GROUPS: u32 = 1 << 4;
    /// Traffic based keep alive.
    pub const TRAFFIC_KEEP_ALIVE: u32 = 1 << 6;
    /// Namespace granularity list.
    pub const NAMESPACE_GRANULARITY: u32 = 1 << 7;
    /// UUID list.
    pub const UUID_LIST: u32 = 1 << 9;
    /// Reservations take a host identifier other than 0 (RHII).
    pub const RESERVATIONS_NEED_HOST_ID: u32 = 1 << 18;
}

/// Values of CNTRLTYPE.
pub mod controller_type {
    /// A subsystem with namespaces.
    pub const IO: u8 = 1;
    /// Discovery.
    pub const DISCOVERY: u8 = 2;
}

/// Bits of [`ControllerData::multipath`].
pub mod cmic {
    /// The subsystem may have more than one port.
    pub const PORTS: u8 = 1 << 0;
    /// The subsystem may have more than one controller.
    pub const CONTROLLERS: u8 = 1 << 1;
    /// ANA reporting.
    pub const ANA: u8 = 1 << 3;
}

/// Bits of [`ControllerData::admin_commands`].
pub mod oacs {
    /// Namespace Management and Namespace Attachment.
    pub const NAMESPACE_MANAGEMENT: u16 = 1 << 3;
}

/// Bits of [`ControllerData::log_attributes`].
pub mod lpa {
    /// SMART information per namespace.
    pub const SMART_PER_NAMESPACE: u8 = 1 << 0;
    /// Commands supported and effects log.
    pub const COMMAND_EFFECTS: u8 = 1 << 1;
    /// Offsets and 32-bit lengths.
    pub const EXTENDED: u8 = 1 << 2;
    /// Supported log pages and related logs.
    pub const SUPPORTED_PAGES: u8 = 1 << 5;
}

/// Bits of [`ControllerData::io_commands`].
pub mod oncs {
    /// Compare.
    pub const COMPARE: u16 = 1 << 0;
    /// Dataset Management.
    pub const DATASET_MANAGEMENT: u16 = 1 << 2;
    /// Write Zeroes.
    pub const WRITE_ZEROES: u16 = 1 << 3;
    /// Save and Select in features.
    pub const FEATURE_SELECT: u16 = 1 << 4;
    /// Reservations.
    pub const RESERVATIONS: u16 = 1 << 5;
    /// Timestamp.
    pub const TIMESTAMP: u16 = 1 << 6;
    /// Verify.
    pub const VERIFY: u16 = 1 << 7;
    /// Copy.
    pub const COPY: u16 = 1 << 8;
    /// What a Copy writes is as atomic as one Write (NVMCSA).
    pub const COPY_SINGLE_ATOMICITY: u16 = 1 << 9;
}

/// Bits of [`ControllerData::fused`].
pub mod fuses {
    /// Compare and Write.
    pub const COMPARE_WRITE: u16 = 1 << 0;
}

/// Bits of [`ControllerData::write_protection`].
pub mod nwpc {
    /// No Write Protect and Write Protect.
    pub const WRITE_PROTECT: u8 = 1 << 0;
}

/// Bits of [`ControllerData::sgl_support`].
pub mod sgls {
    /// SGLs are supported, without alignment requirement.
    pub const SUPPORTED: u32 = 0b01;
    /// Keyed SGL data block descriptors.
    pub const KEYED: u32 = 1 << 2;
    /// The address may be an offset.
    pub const OFFSET: u32 = 1 << 20;
    /// Transport SGL data block descriptors.
    pub const TRANSPORT: u32 = 1 << 21;
}

/// Bits of [`ControllerData::ana_capabilities`].
pub mod anacap {
    /// Reports the optimized state.
    pub const OPTIMIZED: u8 = 1 << 0;
    /// Reports the non-optimized state.
    pub const NON_OPTIMIZED: u8 = 1 << 1;
    /// Reports the inaccessible state.
    pub const INACCESSIBLE: u8 = 1 << 2;
    /// Reports the persistent loss state.
    pub const PERSISTENT_LOSS: u8 = 1 << 3;
    /// Reports the change state.
    pub const CHANGE: u8 = 1 << 4;
    /// A namespace's group does not change while it is attached.
    pub const GROUP_FIXED: u8 = 1 << 6;
}
