//! [`Controller`]: what a host talks to through an admin queue, on the core that queue lives on.

mod admin;
mod administration;
mod cross_reset;
mod effects;
mod event;
mod feature;
mod identify;
mod log;
mod of_namespace;
mod property;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::rc::{Rc, Weak};
use std::time::Duration;

use access::Nqn;
use nvme::fabrics::Configuration;
use reactor::{CancelOnDrop, Instant};

use self::cross_reset::CrossResets;
use self::event::Events;
use self::feature::Features;
use self::identify::KEEP_ALIVE_GRANULARITY_100MS;
use crate::home::QueuePlace;
use crate::identities::Use;
use crate::instance::Instance;
use crate::paths::Paths;
use crate::reservation::Notices;
use crate::session::Session;
use crate::settings::TargetSettings;
use crate::view::View;

/// The longest keep alive timeout of a discovery controller. Anybody may have one, so it has to
/// show now and then that somebody is there; a host of a subsystem need not have any timeout.
const DISCOVERY_KEEP_ALIVE_MS_MAX: u32 = 600_000;

/// How long a host may be silent that has not enabled its controller, or has shut it down
/// (NVMe 2.0 §3.9: the keep alive timer does not run then).
const NOT_ENABLED_TIMEOUT: Duration = Duration::from_secs(120);

/// What a controller gives access to.
pub(crate) enum Kind<D> {
    /// A subsystem with namespaces, as its host sees it.
    Io(Rc<View<D>>),
    /// The discovery subsystem, by the NQN that its host is told.
    Discovery(Nqn),
}

/// A controller.
pub(crate) struct Controller<D> {
    pub id: u16,
    pub kind: Kind<D>,
    pub subsystem_nqn: Nqn,
    pub host_nqn: Nqn,
    pub host_id: [u8; 16],
    /// Its use of that identifier, from the host's proof on to its end.
    pub identity: RefCell<Option<Use>>,
    pub host_address: SocketAddr,
    /// Where the host reached us: what discovery reports for ports that listen everywhere.
    pub local_address: SocketAddr,
    /// The port that it came through.
    pub port_id: u16,
    /// How good a path that is.
    pub paths: Rc<Paths>,
    pub since: Instant,
    /// The host has proved who it is, where it has to: the node was told of it.
    pub announced: Cell<bool>,
    /// Who it is since it was enabled last.
    pub instance: Cell<Instance>,
    pub configuration: Cell<Configuration>,
    pub status: Cell<u32>,
    /// NSSRO: its host has had the subsystem reset, and has not said since that it knows.
    pub was_reset: Cell<bool>,
    /// Makes caches of devices safe, after the host has asked for a shutdown.
    flushing: RefCell<Option<CancelOnDrop<()>>>,
    /// KATO of Connect, which counts again after a reset.
    pub connect_keep_alive_ms: u32,
    pub keep_alive_ms: Cell<u32>,
    pub last_seen: Cell<Instant>,
    pub admin: Weak<Session<D>>,
    /// I/O queues, by identifier.
    pub queues: RefCell<BTreeMap<u16, QueuePlace>>,
    pub(crate) events: RefCell<Events>,
    pub(crate) notices: RefCell<Notices>,
    pub(crate) changed_namespaces: RefCell<BTreeSet<u32>>,
    pub(crate) features: RefCell<Features>,
    /// Resets of other controllers that its host asked it for.
    cross_resets: RefCell<CrossResets>,
}

/// Who connects, and how.
pub(crate) struct Host {
    pub nqn: Nqn,
    pub id: [u8; 16],
    pub address: SocketAddr,
    pub local_address: SocketAddr,
    pub port_id: u16,
    pub paths: Rc<Paths>,
}

impl<D> Controller<D> {
    pub fn new(
        id: u16,
        kind: Kind<D>,
        subsystem_nqn: Nqn,
        host: Host,
        keep_alive_ms: u32,
        admin: Weak<Session<D>>,
    ) -> Controller<D> {
        let now = reactor::now();
        let controller = Controller {
            id,
            kind,
            subsystem_nqn,
            host_nqn: host.nqn,
            host_id: host.id,
            identity: RefCell::default(),
            host_address: host.address,
            local_address: host.local_address,
            port_id: host.port_id,
            paths: host.paths,
            since: now,
            announced: Cell::new(false),
            instance: Cell::new(Instance::not_enabled(id)),
            configuration: Cell::default(),
            status: Cell::new(0),
            was_reset: Cell::new(false),
            flushing: RefCell::default(),
            connect_keep_alive_ms: keep_alive_ms,
            keep_alive_ms: Cell::new(0),
            last_seen: Cell::new(now),
            admin,
            queues: RefCell::default(),
            events: RefCell::default(),
            notices: RefCell::default(),
            changed_namespaces: RefCell::default(),
            features: RefCell::default(),
            cross_resets: RefCell::default(),
        };
        controller.set_keep_alive(keep_alive_ms);
        controller
    }

    /// The host is to be heard of this often, in whole units of the granularity that we state; what
    /// it may ask for at most counts if it asks for more.
    pub fn set_keep_alive(&self, asked_ms: u32) {
        let most = match self.kind {
            Kind::Io(_) => u32::MAX,
            Kind::Discovery(_) => DISCOVERY_KEEP_ALIVE_MS_MAX,
        };
        let granularity = u32::from(KEEP_ALIVE_GRANULARITY_100MS) * 100;
        let rounded = asked_ms.checked_next_multiple_of(granularity);
        self.keep_alive_ms
            .set(rounded.unwrap_or(asked_ms).min(most));
    }

    /// True when a host that was not heard of for `silent` is to be given up: after its keep alive
    /// timeout, rounded up to the granularity we state; a discovery controller without one after
    /// the idle timeout. A controller that is not enabled, or is shut down, has a time of its own.
    pub fn is_expired(&self, silent: Duration, settings: &TargetSettings) -> bool {
        let configuration = self.configuration.get();
        if !configuration.enabled() || configuration.shutdown() != 0 {
            return silent > NOT_ENABLED_TIMEOUT;
        }
        let granularity = Duration::from_millis(u64::from(KEEP_ALIVE_GRANULARITY_100MS) * 100);
        match self.keep_alive_ms.get() {
            0 => self.is_discovery() && silent > settings.discovery_idle_timeout,
            timeout => silent > Duration::from_millis(u64::from(timeout)) + granularity,
        }
    }

    pub fn is_discovery(&self) -> bool {
        matches!(self.kind, Kind::Discovery(_))
    }

    pub fn subsystem(&self) -> Option<&Rc<View<D>>> {
        match &self.kind {
            Kind::Io(subsystem) => Some(subsystem),
            Kind::Discovery(_) => None,
        }
    }
}
