//! Events and audit lines for a syslog receiver, as RFC 5424 has them.
//!
//! Whoever records something puts it in a queue and goes on. Where the receiver is absent or slow
//! the queue fills, and what does not fit is counted and left out: the node itself keeps it anyway.

mod message;
mod outlet;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use api::{AuditEntry, Event, Settings, SyslogTarget};
use tokio::sync::{mpsc, watch};
use tokio::time::sleep;

use crate::outage::Outage;

pub use self::message::Message;
use self::outlet::Outlet;
pub use self::outlet::authorities;

/// Messages that wait for the receiver: what a node says on a bad day in a minute.
const QUEUED_MAX: usize = 1024;

/// Room that events leave for audit lines: anybody on the network can cause events.
const KEPT_FOR_AUDIT: usize = 256;

/// How long until an absent receiver is tried again.
const PAUSE: Duration = Duration::from_secs(1);

/// Where messages are put.
pub struct Syslog {
    sender: mpsc::Sender<Message>,
    /// There is a receiver to tell.
    wanted: AtomicBool,
    sent: AtomicU64,
    dropped: AtomicU64,
}

/// Messages on their way to the receiver.
pub type Queue = mpsc::Receiver<Message>;

impl Syslog {
    /// The queue's two ends.
    pub fn new() -> (Syslog, Queue) {
        let (sender, queue) = mpsc::channel(QUEUED_MAX + KEPT_FOR_AUDIT);
        let syslog = Syslog {
            sender,
            wanted: AtomicBool::new(false),
            sent: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
        };
        (syslog, queue)
    }

    /// Tells the receiver of an event. Never waits: the data path records events too.
    pub fn tell_event(&self, event: &Event) {
        self.tell(KEPT_FOR_AUDIT, || Message::of_event(event));
    }

    /// Tells the receiver of a change; events leave room for that.
    pub fn tell_audit(&self, entry: &AuditEntry) {
        self.tell(0, || Message::of_audit(entry));
    }

    fn tell(&self, kept_free: usize, message: impl FnOnce() -> Message) {
        if !self.wanted.load(Ordering::Relaxed) {
            return;
        }
        if self.sender.capacity() <= kept_free || self.sender.try_send(message()).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Messages that were sent, and those that were left out.
    pub fn counts(&self) -> (u64, u64) {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        (read(&self.sent), read(&self.dropped))
    }

    /// Sends what comes through `queue` to the receiver that the settings name, until the node
    /// stops. Tells of a receiver that takes nothing for a while, and of its return.
    pub async fn deliver(
        &self,
        node: &str,
        mut queue: Queue,
        mut settings: watch::Receiver<Settings>,
        tell: impl Fn(&str),
    ) {
        let mut next = None;
        loop {
            let target = settings.borrow_and_update().syslog.clone();
            self.wanted.store(target.is_some(), Ordering::Relaxed);
            let ends = async { settings.wait_for(|it| it.syslog != target).await.is_err() };
            tokio::select! {
                ends = ends => if ends {
                    return;
                },
                () = self.serve(node, target.as_ref(), (&mut queue, &mut next), &tell) => return,
            }
        }
    }

    /// Returns when nobody can record anything any more. The message that is being sent is in
    /// `next`, for the next receiver if this one does not get it.
    async fn serve(
        &self,
        node: &str,
        target: Option<&SyslogTarget>,
        (queue, next): (&mut Queue, &mut Option<Message>),
        tell: &impl Fn(&str),
    ) {
        let Some(target) = target else {
            // What still comes after the receiver was taken out of the settings has no reader.
            *next = None;
            while queue.recv().await.is_some() {}
            return;
        };
        let mut outage = Outage::of(format!("syslog receiver {}", target.address), "messages");
        let mut outlet = None;
        loop {
            if next.is_none() {
                *next = queue.recv().await;
            }
            let Some(message) = next.as_ref() else {
                return;
            };
            let text = message.text(node);
            while let Err(error) = send(target, &mut outlet, &text).await {
                tracing::debug!("syslog receiver {}: {error}", target.address);
                if let Some(said) = outage.goes_on(self.counts().1, error) {
                    tell(&said);
                }
                sleep(PAUSE).await;
            }
            *next = None;
            self.sent.fetch_add(1, Ordering::Relaxed);
            if let Some(said) = outage.ends(self.counts().1) {
                tell(&said);
            }
        }
    }
}

/// Sends a message, over a new connection if there is none; fine when the system has taken it.
async fn send(
    target: &SyslogTarget,
    outlet: &mut Option<Outlet>,
    text: &str,
) -> std::io::Result<()> {
    let mut open = match outlet.take() {
        Some(open) => open,
        None => Outlet::open(target).await?,
    };
    open.send(text).await?;
    *outlet = Some(open);
    Ok(())
}

#[cfg(test)]
mod tests {
    use api::{Severity, SyslogTransport};
    use tokio::io::AsyncReadExt;
    use tokio::net::TcpListener;

    use super::*;

    fn event(id: u64) -> Event {
        Event {
            id,
            time: "2026-11-21T12:00:00.000Z".into(),
            severity: Severity::Info,
            object: "node".into(),
            message: format!("event {id}"),
        }
    }

    fn change_of(id: u64) -> AuditEntry {
        AuditEntry {
            id,
            time: "2026-11-21T12:00:00.000Z".into(),
            token: "admin".parse().unwrap(),
            from: "10.0.0.1:5".into(),
            request: "r1".into(),
            method: "PUT".into(),
            path: "/v1/hosts/h".into(),
            body: None,
            status: 200,
            code: None,
            others: 0,
        }
    }

    fn target(address: String) -> Settings {
        Settings {
            syslog: Some(SyslogTarget {
                address,
                transport: SyslogTransport::Tcp,
                ca_certificate: None,
            }),
            ..Settings::default()
        }
    }

    /// Without a receiver nothing is queued; with an absent one the queue fills, what does not fit
    /// is counted, and once the receiver is there it gets what was queued, in order.
    #[tokio::test]
    async fn an_absent_receiver_costs_a_full_queue_and_no_more() {
        let place = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = place.local_addr().unwrap();
        drop(place);
        let (syslog, queue) = Syslog::new();
        let syslog = std::sync::Arc::new(syslog);
        syslog.tell_event(&event(0));
        assert_eq!(syslog.counts(), (0, 0));
        let (change, settings) = watch::channel(target(address.to_string()));
        let delivering = std::sync::Arc::clone(&syslog);
        let delivering = async move { delivering.deliver("n", queue, settings, |_| {}).await };
        let task = tokio::spawn(delivering);
        tokio::task::yield_now().await;
        let count = QUEUED_MAX as u64 + 10;
        for id in 1..=count {
            syslog.tell_event(&event(id));
        }
        let (sent, dropped) = syslog.counts();
        assert_eq!(sent, 0);
        assert!((9..=10).contains(&dropped), "{dropped}");
        // However many events there are, changes are told.
        for id in 0..KEPT_FOR_AUDIT as u64 {
            syslog.tell_audit(&change_of(id));
        }
        assert_eq!(syslog.counts().1, dropped);
        let listener = TcpListener::bind(address).await.unwrap();
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut text = String::new();
        while !text.contains("event 1000") {
            let mut part = [0; 4096];
            let length = stream.read(&mut part).await.unwrap();
            text += std::str::from_utf8(&part[..length]).unwrap();
        }
        let (length, rest) = text.split_once(' ').unwrap();
        let second = &rest[length.parse::<usize>().unwrap()..];
        assert!(
            second
                .trim_start_matches(char::is_numeric)
                .starts_with(" <30>1 ")
        );
        assert!(text.find("event 998") < text.find("event 999"));
        assert!(!text.contains("event 0"));
        drop(change);
        task.abort();
    }
}
