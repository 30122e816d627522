//! Asynchronous events (NVMe 2.0 §5.2).

use block::BlockDevice;
use nvme::event::{AsyncEvent, config};
use nvme::log::LogPage;

use super::Controller;
use crate::transport::{Reply, Tag};

/// Asynchronous Event Requests a host may have outstanding (AERL is one less).
pub(crate) const EVENT_REQUESTS_MAX: usize = 4;

/// Reservation notifications are masked by a feature of their own, so they have no bit in the
/// configuration: this one is reserved there.
const RESERVATION: u32 = 1 << 30;

/// OAES of a controller with namespaces.
pub(super) const IO_EVENTS: u32 =
    config::NAMESPACE_ATTRIBUTE | config::ANA_CHANGE | config::CROSS_RESET;

/// Events a controller may send, in the order they are sent.
const KINDS: [(AsyncEvent, u32); 5] = [
    (AsyncEvent::CROSS_RESET_COMPLETED, config::CROSS_RESET),
    (AsyncEvent::NAMESPACE_CHANGED, config::NAMESPACE_ATTRIBUTE),
    (AsyncEvent::ANA_CHANGED, config::ANA_CHANGE),
    (AsyncEvent::DISCOVERY_CHANGED, config::DISCOVERY_CHANGE),
    (AsyncEvent::RESERVATION, RESERVATION),
];

/// Requests that wait for an event and events that wait for a request.
#[derive(Debug, Default)]
pub(crate) struct Events {
    waiting: Vec<(Tag, u16)>,
    /// Configuration bits of events that happened and were not sent.
    pending: u32,
    /// Configuration bits of events that were sent and whose log page was not read since.
    masked: u32,
}

impl Events {
    /// A request came; `Err` when there are too many.
    pub fn wait(&mut self, tag: Tag, command_id: u16) -> Result<(), ()> {
        if self.waiting.len() >= EVENT_REQUESTS_MAX {
            return Err(());
        }
        self.waiting.push((tag, command_id));
        Ok(())
    }

    /// Takes back the request with this command identifier.
    pub fn abort(&mut self, command_id: u16) -> Option<Tag> {
        let index = self.waiting.iter().position(|(_, id)| *id == command_id)?;
        Some(self.waiting.remove(index).0)
    }

    /// Takes back every request.
    pub fn abort_all(&mut self) -> Vec<Tag> {
        self.waiting.drain(..).map(|(tag, _)| tag).collect()
    }

    /// An event happened; `enabled` are the configuration bits the host set.
    pub fn raise(&mut self, event: AsyncEvent, enabled: u32) {
        for (kind, bit) in KINDS {
            if kind == event && enabled & bit != 0 {
                self.pending |= bit;
            }
        }
    }

    /// The log page of an event was read: the event may be sent again.
    pub fn read(&mut self, page: LogPage) {
        for (kind, bit) in KINDS {
            if kind.page == page {
                self.masked &= !bit;
            }
        }
    }

    /// The next event to send, and the request it answers.
    pub fn next(&mut self) -> Option<(Tag, AsyncEvent)> {
        let (event, bit) = KINDS
            .into_iter()
            .find(|(_, bit)| self.pending & !self.masked & bit != 0)?;
        if self.waiting.is_empty() {
            return None;
        }
        let (tag, _) = self.waiting.remove(0);
        self.pending &= !bit;
        self.masked |= bit;
        Some((tag, event))
    }
}

impl<D: BlockDevice + 'static> Controller<D> {
    /// Something happened that the host may want to hear of.
    pub fn raise(&self, event: AsyncEvent) {
        let enabled = self.features.borrow().event_configuration | RESERVATION;
        self.events.borrow_mut().raise(event, enabled);
        self.send_events();
    }

    /// A namespace was added, removed or resized, for this host at least.
    pub fn namespace_changed(&self, nsid: u32) {
        let view = self.subsystem();
        if view.is_none_or(|view| view.namespace(nsid).is_none()) {
            self.notices.borrow_mut().forget(nsid);
        }
        self.changed_namespaces.borrow_mut().insert(nsid);
        self.raise(AsyncEvent::NAMESPACE_CHANGED);
    }

    pub(super) fn send_events(&self) {
        let Some(admin) = self.admin.upgrade() else {
            return;
        };
        loop {
            let next = self.events.borrow_mut().next();
            let Some((tag, event)) = next else { return };
            admin.respond(tag, Reply::result(u64::from(event.result())));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::Tag;

    /// NVMe 2.0 §5.2: after an event is sent, its kind is masked until the log page is read.
    #[test]
    fn an_event_is_sent_once_until_its_log_page_is_read() {
        let mut events = Events::default();
        let all = config::NAMESPACE_ATTRIBUTE | config::DISCOVERY_CHANGE;
        events.raise(AsyncEvent::NAMESPACE_CHANGED, all);
        assert_eq!(events.next(), None);
        for id in 0..EVENT_REQUESTS_MAX as u16 {
            events.wait(Tag::for_test(id), id).unwrap();
        }
        assert_eq!(events.wait(Tag::for_test(9), 9), Err(()));
        let sent = events.next();
        assert_eq!(
            sent,
            Some((Tag::for_test(0), AsyncEvent::NAMESPACE_CHANGED))
        );
        events.raise(AsyncEvent::NAMESPACE_CHANGED, all);
        assert_eq!(events.next(), None);
        events.raise(AsyncEvent::ANA_CHANGED, all);
        assert_eq!(events.next(), None, "an event that is not enabled");
        events.read(LogPage::CHANGED_NAMESPACES);
        let sent = events.next();
        assert_eq!(
            sent,
            Some((Tag::for_test(1), AsyncEvent::NAMESPACE_CHANGED))
        );
        assert_eq!(events.abort(3), Some(Tag::for_test(3)));
        assert_eq!(events.abort(3), None);
        assert_eq!(events.abort_all(), vec![Tag::for_test(2)]);
    }
}
