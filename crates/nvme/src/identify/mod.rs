//! Identify (NVMe 2.0 §5.17, NVM Command Set 1.0 §4.1.5).

mod controller;
mod management;
mod namespace;

pub use controller::{
    ControllerAttributes, ControllerData, NvmControllerData, PowerState, anacap, cmic,
    controller_type, fuses, lpa, nwpc, oacs, oncs, sgls,
};
pub use management::{
    Attachment, CONTROLLER_LIST_MAX, ControllerList, Granularity, GranularityList, Management,
    NamespaceAttachment, NamespaceManagement,
};
pub use namespace::{
    IndependentNamespaceData, LbaFormat, NamespaceData, NvmNamespaceData, dlfeat, nmic, nsattr,
    nsfeat,
};
use zerocopy::IntoBytes;
use zerocopy::little_endian::{U16, U32};

use crate::command::{AdminOpcode, SglDescriptor, SubmissionEntry, view};

/// Every Identify data structure has this size.
pub const IDENTIFY_BYTES: usize = 4096;

open_enum! {
    /// CNS: which structure is asked for.
    #[derive(zerocopy::Unaligned)]
    pub struct Cns(u8);
    /// Namespace, for the NVM command set.
    NAMESPACE = 0x00;
    /// Controller.
    CONTROLLER = 0x01;
    /// Active namespace ID list.
    ACTIVE_NAMESPACES = 0x02;
    /// Namespace identification descriptors.
    NAMESPACE_DESCRIPTORS = 0x03;
    /// NVM set list.
    NVM_SETS = 0x04;
    /// Namespace, specific to an I/O command set.
    COMMAND_SET_NAMESPACE = 0x05;
    /// Controller, specific to an I/O command set.
    COMMAND_SET_CONTROLLER = 0x06;
    /// Active namespace ID list of an I/O command set.
    COMMAND_SET_ACTIVE_NAMESPACES = 0x07;
    /// Namespace, independent of I/O command sets.
    INDEPENDENT_NAMESPACE = 0x08;
    /// Allocated namespace ID list.
    ALLOCATED_NAMESPACES = 0x10;
    /// Namespace, even if not attached.
    ALLOCATED_NAMESPACE = 0x11;
    /// Controllers a namespace is attached to.
    NAMESPACE_CONTROLLERS = 0x12;
    /// Controllers of the subsystem.
    CONTROLLERS = 0x13;
    /// Primary controller capabilities.
    PRIMARY_CONTROLLER = 0x14;
    /// Secondary controller list.
    SECONDARY_CONTROLLERS = 0x15;
    /// Namespace granularity list.
    NAMESPACE_GRANULARITY = 0x16;
    /// UUID list.
    UUIDS = 0x17;
    /// Domain list.
    DOMAINS = 0x18;
    /// Endurance group list.
    ENDURANCE_GROUPS = 0x19;
    /// Allocated namespace ID list of an I/O command set.
    COMMAND_SET_ALLOCATED_NAMESPACES = 0x1a;
    /// I/O command set combinations.
    COMMAND_SETS = 0x1c;
}

open_enum! {
    /// NIDT: kind of a namespace identification descriptor.
    #[derive(zerocopy::Unaligned)]
    pub struct IdentifierType(u8);
    /// EUI64, 8 bytes.
    EUI64 = 0x01;
    /// NGUID, 16 bytes.
    NGUID = 0x02;
    /// UUID, 16 bytes.
    UUID = 0x03;
    /// CSI, 1 byte.
    COMMAND_SET = 0x04;
}

wire! {
    /// Identify.
    pub struct Identify [64] {
        /// Opcode, flags, CID.
        pub front: [u8; 4],
        /// NSID.
        pub namespace_id: U32,
        /// Reserved, MPTR.
        pub reserved: [u8; 16],
        /// DPTR.
        pub data: SglDescriptor,
        /// CNS.
        pub cns: Cns,
        /// Reserved.
        pub reserved10: u8,
        /// CNTID.
        pub controller_id: U16,
        /// CNSSID.
        pub specific_id: U16,
        /// Reserved.
        pub reserved11: u8,
        /// CSI.
        pub command_set: u8,
        /// Reserved.
        pub reserved12: [U32; 2],
        /// UUID index.
        pub uuid_index: U32,
        /// Reserved.
        pub reserved15: U32,
    }

    /// Front of a namespace identification descriptor.
    pub struct DescriptorHeader [4] {
        /// NIDT.
        pub kind: IdentifierType,
        /// NIDL.
        pub length: u8,
        /// Reserved.
        pub reserved: U16,
    }
}

view!(Identify);

impl Identify {
    /// An Identify for this structure.
    pub fn new(cns: Cns, namespace_id: u32) -> Identify {
        let data = SglDescriptor::transport(IDENTIFY_BYTES as u32);
        let entry = SubmissionEntry::new(AdminOpcode::IDENTIFY.0, namespace_id, data);
        let mut identify = *Identify::of(&entry);
        identify.cns = cns;
        identify
    }
}

/// Appends one namespace identification descriptor to `list`.
pub fn push_descriptor(list: &mut Vec<u8>, kind: IdentifierType, identifier: &[u8]) {
    let header = DescriptorHeader {
        kind,
        length: identifier.len() as u8,
        reserved: U16::ZERO,
    };
    list.extend_from_slice(header.as_bytes());
    list.extend_from_slice(identifier);
}

/// The descriptors in a list, up to its end or to the first that does not fit.
pub fn descriptors(list: &[u8]) -> impl Iterator<Item = (IdentifierType, &[u8])> {
    let mut rest = list;
    std::iter::from_fn(move || {
        let (kind, length) = (*rest.first()?, usize::from(*rest.get(1)?));
        if length == 0 {
            return None;
        }
        let identifier = rest.get(4..4 + length)?;
        rest = rest.get(4 + length..)?;
        Some((IdentifierType(kind), identifier))
    })
}
