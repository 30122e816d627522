//! Asynchronous events (NVMe 2.0 §5.2).

use crate::log::LogPage;

/// Bits of the event configuration feature and of OAES.
pub mod config {
    /// SMART critical warnings (configuration only).
    pub const SMART_MASK: u32 = 0xff;
    /// Those of them that every controller has: spare, temperature, reliability, media and volatile
    /// memory. Linux's refuses the feature with any other.
    pub const SMART_COMMON: u32 = 0x1f;
    /// Namespace attribute notices.
    pub const NAMESPACE_ATTRIBUTE: u32 = 1 << 8;
    /// ANA change notices.
    pub const ANA_CHANGE: u32 = 1 << 11;
    /// Cross-Controller Reset completed notices (NVMe 2.3 figure 328).
    pub const CROSS_RESET: u32 = 1 << 20;
    /// Discovery log change notices.
    pub const DISCOVERY_CHANGE: u32 = 1 << 31;
}

/// An asynchronous event: dword 0 of the completion of an Asynchronous Event Request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AsyncEvent {
    /// Type: 0 error, 1 SMART, 2 notice, 6 I/O command set, 7 vendor.
    pub kind: u8,
    /// Which event of that type.
    pub information: u8,
    /// The log page that says more; reading it clears the event.
    pub page: LogPage,
}

impl AsyncEvent {
    /// Namespace attribute changed.
    pub const NAMESPACE_CHANGED: AsyncEvent = AsyncEvent::notice(0x00, LogPage::CHANGED_NAMESPACES);
    /// ANA change.
    pub const ANA_CHANGED: AsyncEvent = AsyncEvent::notice(0x03, LogPage::ANA);
    /// A reservation notification waits (event of the NVM command set).
    pub const RESERVATION: AsyncEvent = AsyncEvent {
        kind: 6,
        information: 0x00,
        page: LogPage::RESERVATION,
    };
    /// Discovery log page change.
    pub const DISCOVERY_CHANGED: AsyncEvent = AsyncEvent::notice(0xf0, LogPage::DISCOVERY);

    /// A Cross-Controller Reset completed that was not done at once (NVMe 2.3 figure 154).
    pub const CROSS_RESET_COMPLETED: AsyncEvent = AsyncEvent::notice(0xf4, LogPage::CROSS_RESETS);

    const fn notice(information: u8, page: LogPage) -> AsyncEvent {
        AsyncEvent {
            kind: 2,
            information,
            page,
        }
    }

    /// Dword 0 of the completion.
    pub fn result(self) -> u32 {
        u32::from(self.kind) | u32::from(self.information) << 8 | u32::from(self.page.0) << 16
    }

    /// From dword 0 of the completion.
    pub fn from_result(result: u32) -> AsyncEvent {
        let [kind, information, page, _] = result.to_le_bytes();
        AsyncEvent {
            kind: kind & 0b111,
            information,
            page: LogPage(page),
        }
    }
}
