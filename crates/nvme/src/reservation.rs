//! Reservations (NVMe 2.0 §7.2 to §7.5, §8.19): commands, their data, and the notification log.

use zerocopy::little_endian::{U16, U32, U64};

use crate::SglDescriptor;
use crate::command::view;

/// What a reservation forbids those who do not hold it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ReservationType {
    /// Only the holder writes.
    WriteExclusive,
    /// Only the holder reads and writes.
    ExclusiveAccess,
    /// Only registrants write.
    WriteExclusiveRegistrantsOnly,
    /// Only registrants read and write.
    ExclusiveAccessRegistrantsOnly,
    /// Only registrants write, and all of them hold it.
    WriteExclusiveAllRegistrants,
    /// Only registrants read and write, and all of them hold it.
    ExclusiveAccessAllRegistrants,
}

impl ReservationType {
    /// All of them, in the order of their numbers.
    pub const ALL: [ReservationType; 6] = [
        ReservationType::WriteExclusive,
        ReservationType::ExclusiveAccess,
        ReservationType::WriteExclusiveRegistrantsOnly,
        ReservationType::ExclusiveAccessRegistrantsOnly,
        ReservationType::WriteExclusiveAllRegistrants,
        ReservationType::ExclusiveAccessAllRegistrants,
    ];

    /// RTYPE.
    pub fn number(self) -> u8 {
        self as u8 + 1
    }

    /// The type with this RTYPE.
    pub fn from_number(number: u8) -> Option<ReservationType> {
        ReservationType::ALL
            .get(usize::from(number).checked_sub(1)?)
            .copied()
    }

    /// True when those without access may not even read.
    pub fn forbids_reads(self) -> bool {
        self as u8 % 2 == 1
    }

    /// True when every registrant has the holder's access.
    pub fn admits_registrants(self) -> bool {
        self as u8 >= 2
    }

    /// True when every registrant is a holder.
    pub fn is_held_by_all(self) -> bool {
        self as u8 >= 4
    }
}

wire! {
    /// Reservation Register, Acquire, Release and Report.
    pub struct Reservation [64] {
        /// Opcode.
        pub opcode: u8,
        /// See [`crate::command::command_flags`].
        pub flags: u8,
        /// CID.
        pub command_id: U16,
        /// NSID.
        pub namespace_id: U32,
        /// Reserved, MPTR.
        pub reserved: [u8; 16],
        /// DPTR.
        pub data: SglDescriptor,
        /// Action in bits 2:0 and IEKEY in bit 3; for a report, the low half of NUMD.
        pub action: u8,
        /// RTYPE of Acquire and Release.
        pub kind: u8,
        /// Reserved.
        pub reserved42: u8,
        /// CPTPL of Register, in bits 7:6.
        pub persistence: u8,
        /// Bit 0 is EDS of a report.
        pub report: U32,
        /// Reserved.
        pub reserved48: [u8; 16],
    }

    /// Data of Register (CRKEY, NRKEY) and Acquire (CRKEY, PRKEY).
    pub struct Keys [16] {
        /// The host's key.
        pub current: U64,
        /// The new key, or the one to preempt.
        pub other: U64,
    }

    /// Front of an extended report; a [`Registrant`] each follows.
    pub struct ReportHeader [64] {
        /// GEN.
        pub generation: U32,
        /// RTYPE; 0 is no reservation.
        pub kind: u8,
        /// REGCTL: registrants that follow.
        pub registrants: U16,
        /// Reserved.
        pub reserved7: [u8; 2],
        /// PTPLS.
        pub persistent: u8,
        /// Reserved.
        pub reserved10: [u8; 54],
    }

    /// A registrant in an extended report.
    pub struct Registrant [64] {
        /// CNTLID; FFFFh is a host as such.
        pub controller_id: U16,
        /// RCSTS: bit 0 says that it holds the reservation.
        pub status: u8,
        /// Reserved.
        pub reserved: [u8; 5],
        /// RKEY.
        pub key: U64,
        /// HOSTID.
        pub host_id: [u8; 16],
        /// Reserved.
        pub reserved32: [u8; 32],
    }

    /// The notification log: one notification, the oldest.
    pub struct Notification [64] {
        /// Log page count: numbers notifications from 1.
        pub count: U64,
        /// See [`NotificationType`].
        pub kind: NotificationType,
        /// Number of available log pages: notifications that wait beside this one, at most 255.
        pub more: u8,
        /// Reserved.
        pub reserved: [u8; 2],
        /// NSID.
        pub namespace_id: U32,
        /// Reserved.
        pub reserved16: [u8; 48],
    }
}

view!(Reservation);

open_enum! {
    /// What happened to a reservation; also the bit of the notification mask.
    #[derive(zerocopy::Unaligned)]
    pub struct NotificationType(u8);
    /// No notification.
    NONE = 0x00;
    /// This host's registration was preempted.
    REGISTRATION_PREEMPTED = 0x01;
    /// The reservation was released.
    RELEASED = 0x02;
    /// The reservation was preempted.
    PREEMPTED = 0x03;
}

/// Actions: bits 2:0 of [`Reservation::action`], and IEKEY beside them.
pub mod action {
    /// Register: RREGA.
    pub const REGISTER: u8 = 0;
    /// Register: unregister.
    pub const UNREGISTER: u8 = 1;
    /// Register: replace the key.
    pub const REPLACE: u8 = 2;
    /// Acquire: RACQA.
    pub const ACQUIRE: u8 = 0;
    /// Acquire: preempt.
    pub const PREEMPT: u8 = 1;
    /// Acquire: preempt and abort.
    pub const PREEMPT_AND_ABORT: u8 = 2;
    /// Release: RRELA.
    pub const RELEASE: u8 = 0;
    /// Release: clear.
    pub const CLEAR: u8 = 1;
    /// Mask of the action.
    pub const MASK: u8 = 0b111;
    /// IEKEY: do not compare the host's key.
    pub const IGNORE_KEY: u8 = 1 << 3;
}

/// RESCAP: everything but persistence through power loss, which is bit 0.
pub const CAPABILITIES: u8 = 0xfe;
/// RESCAP: persistence through power loss.
pub const PERSISTENCE: u8 = 1 << 0;
/// Bit 0 of [`Reservation::report`]: EDS, 128-bit host identifiers.
pub const EXTENDED: u32 = 1 << 0;
/// CNTLID of a registrant that is a host as such.
pub const NO_CONTROLLER: u16 = 0xffff;

impl Reservation {
    /// Bytes that a report is to have (NUMD).
    pub fn report_bytes(&self) -> u64 {
        let low = u32::from_le_bytes([self.action, self.kind, self.reserved42, self.persistence]);
        (u64::from(low) + 1) * 4
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_have_their_numbers_and_meanings() {
        let meanings = ReservationType::ALL.map(|kind| {
            assert_eq!(ReservationType::from_number(kind.number()), Some(kind));
            let (reads, admits) = (kind.forbids_reads(), kind.admits_registrants());
            (kind.number(), reads, admits, kind.is_held_by_all())
        });
        assert_eq!(
            meanings,
            [
                (1, false, false, false),
                (2, true, false, false),
                (3, false, true, false),
                (4, true, true, false),
                (5, false, true, true),
                (6, true, true, true),
            ]
        );
        assert_eq!(ReservationType::from_number(0), None);
        assert_eq!(ReservationType::from_number(7), None);
    }
}
