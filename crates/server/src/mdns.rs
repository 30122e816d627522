//! Announcements by multicast DNS (RFC 6762, RFC 6763), by which hosts find the node's discovery
//! without being told an address (TP8009).
//!
//! In this room: which service instances stand for the node's ports ([`instances`]), what becomes
//! of each (`standing`), and [`Announcer`], which has a responder on a thread of its own answer for
//! them. Not in this room: when ports change, and who is told what becomes of announcements.

mod instances;
mod standing;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use mdns_sd::{DaemonEvent, IfKind, Receiver, ServiceDaemon};
use tokio::time::Instant;

use self::instances::Instance;
pub use self::instances::{Announced, Instances, Offer, instances};
pub use self::standing::News;
use self::standing::Standing;

/// How often the responder looks for new interfaces.
const INTERFACES_LOOKED_AT_EVERY_SECONDS: u32 = 10;

/// How long an announcement may take: links come up.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long a responder that has announced nothing is kept: its sockets are made once.
const RESPONDER_TRIED_FOR: Duration = Duration::from_secs(30);

/// How long a stop waits until everybody has been told.
const GOODBYE: Duration = Duration::from_secs(1);

/// What announces a node.
pub struct Announcer {
    announced: Announced,
    responder: Option<Responder>,
    /// When all that was to be announced was last taken, or when this began.
    well_at: Instant,
    fault: Option<String>,
}

/// A responder with what it announces.
struct Responder {
    daemon: ServiceDaemon,
    heard: Receiver<DaemonEvent>,
    since: Instant,
    standing: Standing,
}

impl Announcer {
    /// Announces nothing yet.
    pub fn new(announced: Announced) -> Announcer {
        Announcer {
            announced,
            responder: None,
            well_at: Instant::now(),
            fault: None,
        }
    }

    /// Announces exactly these from now on.
    pub fn announce(&mut self, wanted: &Instances) {
        if self.responder.as_ref().is_some_and(Responder::is_in_vain) {
            self.leave();
        }
        // A name without an address is of no use.
        let with_addresses = wanted.iter().filter(|(_, addresses)| !addresses.is_empty());
        self.fault = self.try_to_announce(&with_addresses.collect()).err();
        if self.fault.is_none() {
            self.well_at = Instant::now();
        }
    }

    /// Why hosts are told less than they should be, if that has been so for a while.
    pub fn problem(&self) -> Option<String> {
        let reason = match &self.fault {
            Some(fault) => (self.well_at.elapsed() >= PATIENCE).then(|| fault.clone()),
            None => self.responder.as_ref()?.standing.late(PATIENCE),
        };
        reason.map(|reason| format!("hosts do not find the node by mDNS: {reason}"))
    }

    /// What becomes of announcements, as soon as something does.
    pub async fn news(&mut self) -> News {
        loop {
            let Some(responder) = &mut self.responder else {
                return std::future::pending().await;
            };
            match responder.heard.recv_async().await {
                Ok(event) => {
                    if let Some(news) = responder.standing.take(event) {
                        return news;
                    }
                }
                // Its thread has ended; the next call of `announce` starts another one.
                Err(_) => self.responder = None,
            }
        }
    }

    /// Tells everybody that nothing is announced any more, as far as that can be done in time.
    pub async fn end(mut self) {
        if let Some(responder) = self.responder.take()
            && let Ok(ended) = responder.daemon.shutdown()
        {
            let _ = tokio::time::timeout(GOODBYE, ended.recv_async()).await;
        }
    }

    /// Ends the responder, without waiting for it.
    fn leave(&mut self) {
        if let Some(responder) = self.responder.take() {
            // It fails only where the thread has ended already.
            let _ = responder.daemon.shutdown();
        }
    }

    fn try_to_announce(
        &mut self,
        wanted: &BTreeMap<&Instance, &BTreeSet<IpAddr>>,
    ) -> Result<(), String> {
        if wanted.is_empty() {
            self.leave();
            return Err("no port has an address for other machines".to_owned());
        }
        let responder = match &mut self.responder {
            Some(responder) => responder,
            none => none.insert(Responder::start().map_err(|error| error.to_string())?),
        };
        for name in responder.standing.keep_only(|it| wanted.contains_key(it)) {
            // It fails only where the thread has ended, or is overrun: nobody is told then.
            let _ = responder.daemon.unregister(&name);
        }
        let on_new_links = responder.standing.take_new_links();
        for (instance, addresses) in wanted {
            if on_new_links || !responder.standing.has(**instance, addresses) {
                let info = self.announced.describe(**instance, addresses);
                let info = info.map_err(|error| error.to_string())?;
                let name = info.get_fullname().to_owned();
                let given = responder.daemon.register(info);
                given.map_err(|error| error.to_string())?;
                responder.standing.give(**instance, addresses, name);
            }
        }
        Ok(())
    }
}

impl Responder {
    fn start() -> mdns_sd::Result<Responder> {
        let daemon = ServiceDaemon::new()?;
        let heard = daemon.monitor()?;
        daemon.set_ip_check_interval(INTERFACES_LOOKED_AT_EVERY_SECONDS)?;
        daemon.disable_interface(vec![IfKind::LoopbackV4, IfKind::LoopbackV6])?;
        Ok(Responder {
            daemon,
            heard,
            since: Instant::now(),
            standing: Standing::default(),
        })
    }

    /// Whether another one might do better.
    fn is_in_vain(&self) -> bool {
        !self.standing.is_any_announced() && self.since.elapsed() >= RESPONDER_TRIED_FOR
    }
}
