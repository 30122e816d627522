//! The discovery log (NVMe 2.0 §5.16.1.23; NVMe/TCP 1.0 §3.1).

use zerocopy::little_endian::{U16, U64};

open_enum! {
    /// ADRFAM.
    #[derive(zerocopy::Unaligned)]
    pub struct AddressFamily(u8);
    /// IPv4.
    IPV4 = 0x01;
    /// IPv6.
    IPV6 = 0x02;
}

open_enum! {
    /// SUBTYPE.
    #[derive(zerocopy::Unaligned)]
    pub struct SubsystemType(u8);
    /// Another discovery subsystem.
    REFERRAL = 0x01;
    /// A subsystem with namespaces.
    NVM = 0x02;
    /// The discovery subsystem itself.
    CURRENT_DISCOVERY = 0x03;
}

/// TRTYPE of RDMA.
pub const TRANSPORT_RDMA: u8 = 1;

/// TSAS of RDMA: reliable connections (QPTYPE), of a provider that is not named (PRTYPE), made by
/// the connection manager over IP (CMS).
pub const RDMA_SPECIFIC: [u8; 3] = [1, 1, 1];

/// TRTYPE of TCP.
pub const TRANSPORT_TCP: u8 = 3;

/// SECTYPE of TLS 1.3.
pub const SECURITY_TLS_1_3: u8 = 2;

/// Bits of [`DiscoveryEntry::requirements`].
pub mod requirements {
    /// A secure channel is not required.
    pub const NO_SECURE_CHANNEL: u8 = 0b10;
    /// A secure channel is required.
    pub const SECURE_CHANNEL: u8 = 0b01;
    /// Submission queue flow control may be disabled.
    pub const FLOW_CONTROL_OPTIONAL: u8 = 1 << 2;
}

/// Bits of [`DiscoveryEntry::flags`].
pub mod entry_flags {
    /// All entries with this bit report the same information.
    pub const DUPLICATE: u16 = 1 << 0;
    /// The discovery controller supports explicit persistent connections.
    pub const PERSISTENT: u16 = 1 << 1;
}

wire! {
    /// Front of the discovery log.
    pub struct DiscoveryHeader [1024] {
        /// GENCTR.
        pub generation: U64,
        /// NUMREC.
        pub records: U64,
        /// RECFMT: 0.
        pub record_format: U16,
        /// Reserved.
        pub reserved: [u8; 1006],
    }

    /// One record of the discovery log.
    pub struct DiscoveryEntry [1024] {
        /// TRTYPE: 3 is TCP, 1 is RDMA.
        pub transport: u8,
        /// ADRFAM.
        pub address_family: AddressFamily,
        /// SUBTYPE.
        pub subsystem_type: SubsystemType,
        /// TREQ: see [`requirements`].
        pub requirements: u8,
        /// PORTID.
        pub port_id: U16,
        /// CNTLID: FFFFh for the dynamic model.
        pub controller_id: U16,
        /// ASQSZ: entries of the admin queue.
        pub admin_queue_size: U16,
        /// EFLAGS: see [`entry_flags`].
        pub flags: U16,
        /// Reserved.
        pub reserved12: [u8; 20],
        /// TRSVCID: the port, space padded.
        pub service: [u8; 32],
        /// Reserved.
        pub reserved64: [u8; 192],
        /// SUBNQN, NUL terminated.
        pub subsystem_nqn: [u8; 256],
        /// TRADDR: the address, space padded.
        pub address: [u8; 256],
        /// TSAS: of TCP, byte 0 is SECTYPE (0 none, 1 and 2 TLS); of RDMA see [`RDMA_SPECIFIC`].
        pub transport_specific: [u8; 256],
    }
}
