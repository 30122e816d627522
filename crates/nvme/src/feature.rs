//! Features (NVMe 2.0 §5.27) and the commands that read and set them.

use zerocopy::little_endian::{U16, U32};

use crate::command::{SglDescriptor, view};

open_enum! {
    /// FID.
    #[derive(zerocopy::Unaligned)]
    pub struct Feature(u8);
    /// Arbitration.
    ARBITRATION = 0x01;
    /// Power management.
    POWER_MANAGEMENT = 0x02;
    /// Temperature threshold.
    TEMPERATURE_THRESHOLD = 0x04;
    /// Error recovery.
    ERROR_RECOVERY = 0x05;
    /// Volatile write cache.
    VOLATILE_WRITE_CACHE = 0x06;
    /// Number of queues.
    NUMBER_OF_QUEUES = 0x07;
    /// Interrupt coalescing.
    INTERRUPT_COALESCING = 0x08;
    /// Interrupt vector configuration.
    INTERRUPT_VECTOR = 0x09;
    /// Write atomicity normal.
    WRITE_ATOMICITY = 0x0a;
    /// Asynchronous event configuration.
    ASYNC_EVENT_CONFIGURATION = 0x0b;
    /// Autonomous power state transition.
    AUTONOMOUS_POWER = 0x0c;
    /// Timestamp.
    TIMESTAMP = 0x0e;
    /// Keep alive timer.
    KEEP_ALIVE_TIMER = 0x0f;
    /// Host behaviour support.
    HOST_BEHAVIOUR = 0x16;
    /// Host identifier.
    HOST_IDENTIFIER = 0x81;
    /// Reservation notification mask.
    RESERVATION_MASK = 0x82;
    /// Reservation persistence.
    RESERVATION_PERSISTENCE = 0x83;
    /// Namespace write protection.
    WRITE_PROTECTION = 0x84;
}

open_enum! {
    /// SEL of Get Features.
    #[derive(zerocopy::Unaligned)]
    pub struct Select(u8);
    /// The value in force.
    CURRENT = 0;
    /// The default value.
    DEFAULT = 1;
    /// The saved value.
    SAVED = 2;
    /// Bit 0 saveable, bit 1 namespace specific, bit 2 changeable.
    CAPABILITIES = 3;
}

/// Result bits for [`Select::CAPABILITIES`].
pub mod capability {
    /// The value can be saved.
    pub const SAVEABLE: u32 = 1 << 0;
    /// The feature has a value per namespace.
    pub const NAMESPACE_SPECIFIC: u32 = 1 << 1;
    /// The value can be changed.
    pub const CHANGEABLE: u32 = 1 << 2;
}

open_enum! {
    /// WPS, bits 2:0 of the value of [`Feature::WRITE_PROTECTION`] (NVMe 2.0 §5.27.1.28).
    pub struct ProtectionState(u32);
    /// Hosts may write.
    NONE = 0b000;
    /// Until a host lifts it.
    WRITE_PROTECT = 0b001;
    /// Until the next power cycle.
    UNTIL_POWER_CYCLE = 0b010;
    /// For ever.
    PERMANENT = 0b011;
}

impl ProtectionState {
    /// From the value of the feature.
    pub fn from_value(value: u32) -> ProtectionState {
        ProtectionState(value & 0b111)
    }
}

wire! {
    /// Get Features and Set Features.
    pub struct Features [64] {
        /// Opcode, flags, CID.
        pub front: [u8; 4],
        /// NSID.
        pub namespace_id: U32,
        /// Reserved, MPTR.
        pub reserved: [u8; 16],
        /// DPTR.
        pub data: SglDescriptor,
        /// FID.
        pub feature: Feature,
        /// SEL in bits 2:0, for Get Features.
        pub select: u8,
        /// Reserved.
        pub reserved10: u8,
        /// Bit 7 is SV (save), for Set Features.
        pub save: u8,
        /// Dword 11: the value.
        pub value: U32,
        /// Dwords 12 to 15.
        pub dword12: [U32; 4],
    }

    /// Data of the timestamp feature.
    pub struct Timestamp [8] {
        /// Milliseconds since 1970, 48 bits.
        pub milliseconds: [u8; 6],
        /// Bit 0: the clock stopped since; bits 3:1: origin (0 reset, 1 set by the host).
        pub attributes: u8,
        /// Reserved.
        pub reserved: u8,
    }

    /// Data of the host behaviour support feature.
    pub struct HostBehaviour [512] {
        /// ACRE: the host understands retry delays.
        pub retry_delays: u8,
        /// ETDAS.
        pub extended_telemetry: u8,
        /// LBAFEE.
        pub extended_lba_formats: u8,
        /// HDISNS.
        pub dispersed_namespaces: u8,
        /// CDFE: the bit of each [`CopyFormat`](crate::copy::CopyFormat) beyond the first two that
        /// the host wants.
        pub copy_formats: U16,
        /// Reserved.
        pub reserved: [u8; 506],
    }

    /// Value and result of the number of queues feature: both 0's based.
    pub struct QueueCount [4] {
        /// I/O submission queues.
        pub submission: U16,
        /// I/O completion queues.
        pub completion: U16,
    }
}

view!(Features);

impl Timestamp {
    /// From milliseconds since 1970; what exceeds 48 bits is cut.
    pub fn new(milliseconds: u64, attributes: u8) -> Timestamp {
        let [a, b, c, d, e, f, _, _] = milliseconds.to_le_bytes();
        Timestamp {
            milliseconds: [a, b, c, d, e, f],
            attributes,
            reserved: 0,
        }
    }

    /// Milliseconds since 1970.
    pub fn milliseconds(&self) -> u64 {
        let [a, b, c, d, e, f] = self.milliseconds;
        u64::from_le_bytes([a, b, c, d, e, f, 0, 0])
    }
}

impl QueueCount {
    /// As one number.
    pub fn value(self) -> u32 {
        u32::from(self.submission.get()) | u32::from(self.completion.get()) << 16
    }

    /// From one number.
    pub fn from_value(value: u32) -> QueueCount {
        QueueCount {
            submission: U16::new(value as u16),
            completion: U16::new((value >> 16) as u16),
        }
    }
}
