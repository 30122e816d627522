//! Namespace Management and Attachment (NVMe 2.0 §5.23, §5.22) and the lists that go with them.

use zerocopy::little_endian::{U16, U32, U64};

use crate::command::{AdminOpcode, SglDescriptor, SubmissionEntry, view};

/// Controllers that a controller list can name.
pub const CONTROLLER_LIST_MAX: usize = 2047;

open_enum! {
    /// SEL of Namespace Management.
    #[derive(zerocopy::Unaligned)]
    pub struct Management(u8);
    /// Create a namespace.
    CREATE = 0;
    /// Delete a namespace.
    DELETE = 1;
}

open_enum! {
    /// SEL of Namespace Attachment.
    #[derive(zerocopy::Unaligned)]
    pub struct Attachment(u8);
    /// Attach the namespace to controllers.
    ATTACH = 0;
    /// Detach it from controllers.
    DETACH = 1;
}

wire! {
    /// Namespace Management. Create brings a [`NamespaceData`](super::NamespaceData).
    pub struct NamespaceManagement [64] {
        /// Opcode, flags, CID.
        pub front: [u8; 4],
        /// NSID: of the namespace to delete.
        pub namespace_id: U32,
        /// Reserved, MPTR.
        pub reserved: [u8; 16],
        /// DPTR.
        pub data: SglDescriptor,
        /// SEL in bits 3:0.
        pub select: Management,
        /// Reserved.
        pub reserved10: [u8; 6],
        /// CSI.
        pub command_set: u8,
        /// Reserved.
        pub reserved12: [U32; 4],
    }

    /// Namespace Attachment. Brings a [`ControllerList`].
    pub struct NamespaceAttachment [64] {
        /// Opcode, flags, CID.
        pub front: [u8; 4],
        /// NSID.
        pub namespace_id: U32,
        /// Reserved, MPTR.
        pub reserved: [u8; 16],
        /// DPTR.
        pub data: SglDescriptor,
        /// SEL in bits 3:0.
        pub select: Attachment,
        /// Reserved.
        pub reserved10: [u8; 7],
        /// Reserved.
        pub reserved12: [U32; 4],
    }

    /// Controller list: rising identifiers.
    pub struct ControllerList [4096] {
        /// How many there are.
        pub count: U16,
        /// CNTLIDs.
        pub controllers: [U16; CONTROLLER_LIST_MAX],
    }

    /// What sizes a namespace should be a multiple of.
    pub struct Granularity [16] {
        /// NSG, bytes.
        pub size_bytes: U64,
        /// NCG, bytes.
        pub capacity_bytes: U64,
    }

    /// Namespace granularity list (CNS 16h).
    pub struct GranularityList [288] {
        /// Bit 0: descriptors belong to the LBA formats one by one; clear: the first is for all.
        pub attributes: U32,
        /// How many descriptors there are, 0's based.
        pub descriptors_minus_one: u8,
        /// Reserved.
        pub reserved: [u8; 27],
        /// NGD.
        pub descriptors: [Granularity; 16],
    }
}

view!(NamespaceManagement, NamespaceAttachment);

impl NamespaceManagement {
    /// A create, whose data is the namespace wanted.
    pub fn create() -> NamespaceManagement {
        let data = SglDescriptor::transport(0);
        let entry = SubmissionEntry::new(AdminOpcode::NAMESPACE_MANAGEMENT.0, 0, data);
        *NamespaceManagement::of(&entry)
    }

    /// A delete of this namespace.
    pub fn delete(namespace_id: u32) -> NamespaceManagement {
        let data = SglDescriptor::transport(0);
        let entry = SubmissionEntry::new(AdminOpcode::NAMESPACE_MANAGEMENT.0, namespace_id, data);
        NamespaceManagement {
            select: Management::DELETE,
            ..*NamespaceManagement::of(&entry)
        }
    }
}

impl NamespaceAttachment {
    /// An attachment or detachment of this namespace, whose data is the controllers.
    pub fn new(select: Attachment, namespace_id: u32) -> NamespaceAttachment {
        let data = SglDescriptor::transport(0);
        let entry = SubmissionEntry::new(AdminOpcode::NAMESPACE_ATTACHMENT.0, namespace_id, data);
        NamespaceAttachment {
            select,
            ..*NamespaceAttachment::of(&entry)
        }
    }
}
