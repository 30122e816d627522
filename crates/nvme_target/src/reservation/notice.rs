//! [`Notices`]: what one controller's host has not heard yet (NVMe 2.0 §5.16.1.14).

use std::collections::{BTreeMap, VecDeque};

use nvme::reservation::{Notification, NotificationType};
use zerocopy::FromZeros;
use zerocopy::little_endian::U32;

/// Notifications kept for a host that does not read them; the oldest go.
const NOTICES_MAX: usize = 256;

/// The notifications of a controller.
#[derive(Debug, Default)]
pub(crate) struct Notices {
    waiting: VecDeque<(u32, NotificationType)>,
    /// Number of the last notification that is gone.
    count: u64,
    /// Masked kinds of notifications, as the feature has them, by namespace.
    masks: BTreeMap<u32, u32>,
}

impl Notices {
    /// Notes what happened to a namespace; true when the host is to hear of it.
    pub fn push(&mut self, nsid: u32, kind: NotificationType) -> bool {
        if self.mask(nsid) & 1 << kind.0 != 0 {
            return false;
        }
        if self.waiting.len() >= NOTICES_MAX {
            self.waiting.pop_front();
            self.count += 1;
        }
        self.waiting.push_back((nsid, kind));
        true
    }

    /// The log page: the oldest notification; zeroes when there is none.
    pub fn page(&self) -> Notification {
        let mut page = Notification::new_zeroed();
        if let Some((nsid, kind)) = self.waiting.front() {
            page.count = (self.count + 1).into();
            page.kind = *kind;
            page.more = (self.waiting.len() - 1).min(255) as u8;
            page.namespace_id = U32::new(*nsid);
        }
        page
    }

    /// The host has read the oldest notification.
    pub fn pop(&mut self) {
        if self.waiting.pop_front().is_some() {
            self.count += 1;
        }
    }

    /// The host sees a namespace no more.
    pub fn forget(&mut self, nsid: u32) {
        let before = self.waiting.len();
        self.waiting.retain(|(of, _)| *of != nsid);
        self.count += (before - self.waiting.len()) as u64;
        self.masks.remove(&nsid);
    }

    /// True when the host has something to read.
    pub fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// The mask of a namespace.
    pub fn mask(&self, nsid: u32) -> u32 {
        self.masks.get(&nsid).copied().unwrap_or(0)
    }

    /// Masks kinds of notifications of a namespace.
    pub fn set_mask(&mut self, nsid: u32, mask: u32) {
        self.masks.insert(nsid, mask);
    }
}
