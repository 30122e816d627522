//! Fabrics commands and properties (NVMe 2.0 §3.1.3, §6).

use zerocopy::little_endian::{U16, U32, U64};

use crate::command::{AdminOpcode, SglDescriptor, command_flags, view};

/// NQN of the discovery subsystem that every port answers to.
pub const DISCOVERY_NQN: &str = "nqn.2014-08.org.nvmexpress.discovery";
/// Bytes of an NQN field; the name is at most 223 bytes and is followed by NUL.
pub const NQN_FIELD_BYTES: usize = 256;
/// CNTLID of a Connect that asks for a new controller.
pub const CONTROLLER_ID_DYNAMIC: u16 = 0xffff;
/// CNTLID of a Connect in the static model that takes any controller.
pub const CONTROLLER_ID_ANY_STATIC: u16 = 0xfffe;
/// The largest CNTLID a controller may have.
pub const CONTROLLER_ID_MAX: u16 = 0xffef;

open_enum! {
    /// FCTYPE.
    #[derive(zerocopy::Unaligned)]
    pub struct FabricsType(u8);
    /// Property Set.
    PROPERTY_SET = 0x00;
    /// Connect.
    CONNECT = 0x01;
    /// Property Get.
    PROPERTY_GET = 0x04;
    /// Authentication Send.
    AUTHENTICATION_SEND = 0x05;
    /// Authentication Receive.
    AUTHENTICATION_RECEIVE = 0x06;
    /// Disconnect.
    DISCONNECT = 0x08;
}

wire! {
    /// The part that every Fabrics command shares.
    pub struct Fabrics [64] {
        /// [`AdminOpcode::FABRICS`].
        pub opcode: u8,
        /// See [`command_flags`].
        pub flags: u8,
        /// CID.
        pub command_id: U16,
        /// FCTYPE.
        pub fabrics_type: FabricsType,
        /// Reserved.
        pub reserved: [u8; 19],
        /// SGL1.
        pub data: SglDescriptor,
        /// Command specific.
        pub specific: [u8; 24],
    }

    /// Connect.
    pub struct Connect [64] {
        /// [`AdminOpcode::FABRICS`].
        pub opcode: u8,
        /// See [`command_flags`].
        pub flags: u8,
        /// CID.
        pub command_id: U16,
        /// FCTYPE.
        pub fabrics_type: FabricsType,
        /// Reserved.
        pub reserved: [u8; 19],
        /// SGL1: the [`ConnectData`].
        pub data: SglDescriptor,
        /// RECFMT: 0.
        pub record_format: U16,
        /// QID: 0 is the admin queue.
        pub queue_id: U16,
        /// SQSIZE, 0's based.
        pub queue_size: U16,
        /// CATTR: see [`connect_attributes`].
        pub attributes: u8,
        /// Reserved.
        pub reserved47: u8,
        /// KATO.
        pub keep_alive_ms: U32,
        /// Reserved.
        pub reserved52: [u8; 12],
    }

    /// What a Connect carries.
    pub struct ConnectData [1024] {
        /// HOSTID.
        pub host_id: [u8; 16],
        /// CNTLID.
        pub controller_id: U16,
        /// Reserved.
        pub reserved: [u8; 238],
        /// SUBNQN, NUL terminated.
        pub subsystem_nqn: [u8; NQN_FIELD_BYTES],
        /// HOSTNQN, NUL terminated.
        pub host_nqn: [u8; NQN_FIELD_BYTES],
        /// Reserved.
        pub reserved768: [u8; 256],
    }

    /// Property Get and Property Set.
    pub struct Property [64] {
        /// [`AdminOpcode::FABRICS`].
        pub opcode: u8,
        /// See [`command_flags`].
        pub flags: u8,
        /// CID.
        pub command_id: U16,
        /// FCTYPE.
        pub fabrics_type: FabricsType,
        /// Reserved.
        pub reserved: [u8; 35],
        /// ATTRIB: bits 2:0 are 0 for four bytes, 1 for eight.
        pub attributes: u8,
        /// Reserved.
        pub reserved41: [u8; 3],
        /// OFST: see [`PropertyOffset`].
        pub offset: U32,
        /// VALUE, for Property Set.
        pub value: U64,
        /// Reserved.
        pub reserved56: [u8; 8],
    }

    /// Disconnect.
    pub struct Disconnect [64] {
        /// [`AdminOpcode::FABRICS`].
        pub opcode: u8,
        /// See [`command_flags`].
        pub flags: u8,
        /// CID.
        pub command_id: U16,
        /// FCTYPE.
        pub fabrics_type: FabricsType,
        /// Reserved.
        pub reserved: [u8; 35],
        /// RECFMT: 0.
        pub record_format: U16,
        /// Reserved.
        pub reserved42: [u8; 22],
    }
}

view!(Fabrics, Connect, Property, Disconnect);

/// Bits of [`Connect::attributes`].
pub mod connect_attributes {
    /// The host asks for submission queue flow control to be off.
    pub const DISABLE_FLOW_CONTROL: u8 = 1 << 2;
    /// The host can delete individual I/O queues.
    pub const DELETE_IO_QUEUES: u8 = 1 << 3;
}

/// Byte offsets of Connect's fields, as IPO wants them.
pub mod connect_offset {
    /// QID in the command.
    pub const QUEUE_ID: u16 = 42;
    /// SQSIZE in the command.
    pub const QUEUE_SIZE: u16 = 44;
    /// KATO in the command.
    pub const KEEP_ALIVE: u16 = 48;
    /// HOSTID in the data.
    pub const HOST_ID: u16 = 0;
    /// CNTLID in the data.
    pub const CONTROLLER_ID: u16 = 16;
    /// SUBNQN in the data.
    pub const SUBSYSTEM_NQN: u16 = 256;
    /// HOSTNQN in the data.
    pub const HOST_NQN: u16 = 512;
}

/// Result of a refused Connect: IPO and IATTR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidParameter {
    /// Byte offset of the parameter.
    pub offset: u16,
    /// True when it is in the data, false when in the command.
    pub in_data: bool,
}

impl InvalidParameter {
    /// Dword 0 of the completion.
    pub fn result(self) -> u32 {
        u32::from(self.offset) | u32::from(self.in_data) << 16
    }

    /// From dword 0 of the completion.
    pub fn from_result(result: u32) -> InvalidParameter {
        InvalidParameter {
            offset: result as u16,
            in_data: result & 1 << 16 != 0,
        }
    }
}

open_enum! {
    /// Offset of a property.
    pub struct PropertyOffset(u32);
    /// CAP, eight bytes.
    CAPABILITIES = 0x00;
    /// VS.
    VERSION = 0x08;
    /// CC.
    CONFIGURATION = 0x14;
    /// CSTS.
    STATUS = 0x1c;
    /// NSSR.
    SUBSYSTEM_RESET = 0x20;
    /// CRTO.
    READY_TIMEOUTS = 0x68;
}

/// CAP (NVMe 2.0 §3.1.3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities(pub u64);

impl Capabilities {
    /// Capabilities of a fabrics controller: queues contiguous, NVM command set, 4 KiB pages.
    pub fn new(queue_entries_max: u16, ready_timeout_500ms: u8) -> Capabilities {
        let contiguous = 1 << 16;
        let nvm_command_set = 1 << 37;
        // CRMS.CRWMS: from version 2.0 on a controller has it, and CRTO with it.
        let ready_with_media = 1 << 59;
        Capabilities(
            u64::from(queue_entries_max.saturating_sub(1))
                | contiguous
                | u64::from(ready_timeout_500ms) << 24
                | nvm_command_set
                | ready_with_media,
        )
    }

    /// The same of a controller that takes NVM subsystem resets (NSSRS).
    pub fn with_subsystem_reset(self) -> Capabilities {
        Capabilities(self.0 | 1 << 36)
    }

    /// MQES as a count: entries that a queue may have.
    pub fn queue_entries_max(self) -> u32 {
        (self.0 & 0xffff) as u32 + 1
    }

    /// TO, in milliseconds.
    pub fn ready_timeout_ms(self) -> u64 {
        (self.0 >> 24 & 0xff) * 500
    }

    /// MPSMIN as bytes.
    pub fn page_bytes_min(self) -> u64 {
        4096 << (self.0 >> 48 & 0xf)
    }
}

/// CC (NVMe 2.0 §3.1.3.5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Configuration(pub u32);

impl Configuration {
    /// What a host writes to enable a controller: 64-byte and 16-byte queue entries.
    pub const ENABLE: Configuration = Configuration(1 | 6 << 16 | 4 << 20);

    /// EN.
    pub fn enabled(self) -> bool {
        self.0 & 1 != 0
    }

    /// CSS.
    pub fn command_set(self) -> u8 {
        (self.0 >> 4 & 0b111) as u8
    }

    /// MPS.
    pub fn page_size(self) -> u8 {
        (self.0 >> 7 & 0b1111) as u8
    }

    /// AMS.
    pub fn arbitration(self) -> u8 {
        (self.0 >> 11 & 0b111) as u8
    }

    /// SHN: 1 is a normal, 2 an abrupt shutdown.
    pub fn shutdown(self) -> u8 {
        (self.0 >> 14 & 0b11) as u8
    }

    /// The same configuration with this SHN.
    pub fn with_shutdown(self, shutdown: u8) -> Configuration {
        Configuration(self.0 & !(0b11 << 14) | u32::from(shutdown & 0b11) << 14)
    }

    /// IOSQES.
    pub fn submission_entry_size(self) -> u8 {
        (self.0 >> 16 & 0b1111) as u8
    }

    /// IOCQES.
    pub fn completion_entry_size(self) -> u8 {
        (self.0 >> 20 & 0b1111) as u8
    }
}

/// CSTS (NVMe 2.0 §3.1.3.6).
pub mod controller_status {
    /// RDY.
    pub const READY: u32 = 1 << 0;
    /// CFS.
    pub const FATAL: u32 = 1 << 1;
    /// SHST: shutdown occurring.
    pub const SHUTDOWN_OCCURRING: u32 = 1 << 2;
    /// SHST: shutdown complete.
    pub const SHUTDOWN_COMPLETE: u32 = 2 << 2;
    /// NSSRO: an NVM subsystem reset has occurred; written, it is cleared.
    pub const SUBSYSTEM_RESET_OCCURRED: u32 = 1 << 4;
}

/// What written to NSSR resets the NVM subsystem: "NVMe".
pub const SUBSYSTEM_RESET: u32 = 0x4e56_4d65;

/// The version these rooms speak: 2.0.
pub const VERSION_2_0: u32 = 2 << 16;

fn front(fabrics_type: FabricsType) -> Fabrics {
    Fabrics {
        opcode: AdminOpcode::FABRICS.0,
        flags: command_flags::SGL,
        command_id: U16::ZERO,
        fabrics_type,
        reserved: [0; 19],
        data: SglDescriptor {
            kind: 0,
            ..SglDescriptor::transport(0)
        },
        specific: [0; 24],
    }
}

impl Connect {
    /// A Connect whose data travels in the capsule; `queue_size` is 0's based.
    pub fn new(queue_id: u16, queue_size: u16, keep_alive_ms: u32) -> Connect {
        let mut connect = *Connect::of(front(FabricsType::CONNECT).entry());
        connect.data = SglDescriptor::in_capsule(size_of::<ConnectData>() as u32);
        connect.queue_id = U16::new(queue_id);
        connect.queue_size = U16::new(queue_size);
        connect.keep_alive_ms = U32::new(keep_alive_ms);
        connect
    }
}

impl ConnectData {
    /// The data of a Connect; names longer than their fields are cut.
    pub fn new(
        host_id: [u8; 16],
        controller_id: u16,
        subsystem_nqn: &str,
        host_nqn: &str,
    ) -> ConnectData {
        ConnectData {
            host_id,
            controller_id: U16::new(controller_id),
            reserved: [0; 238],
            subsystem_nqn: crate::text::terminated(subsystem_nqn),
            host_nqn: crate::text::terminated(host_nqn),
            reserved768: [0; 256],
        }
    }
}

impl Property {
    /// Property Get; `wide` asks for eight bytes.
    pub fn get(offset: PropertyOffset, wide: bool) -> Property {
        let mut property = *Property::of(front(FabricsType::PROPERTY_GET).entry());
        property.attributes = u8::from(wide);
        property.offset = U32::new(offset.0);
        property
    }

    /// Property Set of a four-byte property.
    pub fn set(offset: PropertyOffset, value: u32) -> Property {
        let mut property = *Property::of(front(FabricsType::PROPERTY_SET).entry());
        property.offset = U32::new(offset.0);
        property.value = U64::new(u64::from(value));
        property
    }
}

impl Disconnect {
    /// Disconnect of the queue it is sent on.
    pub fn new() -> Disconnect {
        *Disconnect::of(front(FabricsType::DISCONNECT).entry())
    }
}

impl Default for Disconnect {
    fn default() -> Disconnect {
        Disconnect::new()
    }
}
