//! Error information, SMART / health and firmware slots.

use zerocopy::little_endian::{U16, U32, U64, U128};

wire! {
    /// One entry of the error information log.
    pub struct ErrorEntry [64] {
        /// Unique, rising count of this error; 0 is no entry.
        pub error_count: U64,
        /// SQID.
        pub submission_queue: U16,
        /// CID.
        pub command_id: U16,
        /// Status with phase bit.
        pub status: U16,
        /// Byte and bit of the parameter in error; FFFFh when none.
        pub parameter: U16,
        /// First LBA in error.
        pub lba: U64,
        /// Namespace.
        pub namespace_id: U32,
        /// Vendor specific page.
        pub vendor: u8,
        /// Transport type: 3 is TCP.
        pub transport: u8,
        /// Reserved.
        pub reserved30: [u8; 2],
        /// Command specific.
        pub command_specific: U64,
        /// Transport specific.
        pub transport_specific: U16,
        /// Reserved.
        pub reserved42: [u8; 22],
    }

    /// SMART / health information.
    pub struct SmartHealth [512] {
        /// Critical warning bits.
        pub critical_warning: u8,
        /// Composite temperature, kelvin.
        pub temperature: U16,
        /// Available spare, percent.
        pub spare: u8,
        /// Threshold of the spare, percent.
        pub spare_threshold: u8,
        /// Percentage used.
        pub percentage_used: u8,
        /// Endurance group critical warnings.
        pub endurance_warning: u8,
        /// Reserved.
        pub reserved7: [u8; 25],
        /// Thousands of 512-byte units read.
        pub data_units_read: U128,
        /// Thousands of 512-byte units written.
        pub data_units_written: U128,
        /// Read commands.
        pub read_commands: U128,
        /// Write commands.
        pub write_commands: U128,
        /// Busy time, minutes.
        pub busy_minutes: U128,
        /// Power cycles.
        pub power_cycles: U128,
        /// Power on hours.
        pub power_on_hours: U128,
        /// Unsafe shutdowns.
        pub unsafe_shutdowns: U128,
        /// Media and data integrity errors.
        pub media_errors: U128,
        /// Entries ever made in the error log.
        pub error_entries: U128,
        /// Minutes above the warning temperature.
        pub warning_temperature_minutes: U32,
        /// Minutes above the critical temperature.
        pub critical_temperature_minutes: U32,
        /// Temperature sensors, kelvin; 0 is none.
        pub sensors: [U16; 8],
        /// Thermal management transitions and times.
        pub thermal: [U32; 4],
        /// Reserved.
        pub reserved232: [u8; 280],
    }

    /// Endurance group information. Units are 10^9 bytes, rounded up.
    pub struct EnduranceGroup [512] {
        /// Critical warning bits.
        pub critical_warning: u8,
        /// Reserved.
        pub reserved1: [u8; 2],
        /// Available spare, percent.
        pub spare: u8,
        /// Threshold of the spare, percent.
        pub spare_threshold: u8,
        /// Percentage used.
        pub percentage_used: u8,
        /// Domain identifier.
        pub domain: U16,
        /// Reserved.
        pub reserved8: [u8; 24],
        /// Units that may be written in the group's life.
        pub endurance_estimate: U128,
        /// Units read by hosts.
        pub data_units_read: U128,
        /// Units written by hosts.
        pub data_units_written: U128,
        /// Units written to the media.
        pub media_units_written: U128,
        /// Read commands.
        pub read_commands: U128,
        /// Write commands.
        pub write_commands: U128,
        /// Media and data integrity errors.
        pub media_errors: U128,
        /// Entries ever made in the error log.
        pub error_entries: U128,
        /// TEGCAP, bytes.
        pub total_capacity: U128,
        /// UEGCAP, bytes.
        pub unallocated_capacity: U128,
        /// Reserved.
        pub reserved192: [u8; 320],
    }

    /// Firmware slot information.
    pub struct FirmwareSlots [512] {
        /// AFI: the active slot in bits 2:0.
        pub active: u8,
        /// Reserved.
        pub reserved1: [u8; 7],
        /// Revisions in slots 1 to 7.
        pub revisions: [[u8; 8]; 7],
        /// Reserved.
        pub reserved64: [u8; 448],
    }
}
