//! [`Target`]: the control side of one core's target.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use access::{AllowedHosts, HostKeys, Nqn, TlsKey};
use block::BlockDevice;
use qos::Terms;

use crate::administration::Administration;
use crate::error::TargetError;
use crate::home::Links;
use crate::in_flight::InFlight;
use crate::namespace::{Namespace, UsedBlocks};
use crate::per_core::Core;
use crate::port::Door;
use crate::report::{CloseReason, Counters, NamespaceCounters, SessionInfo, TargetEvent};
use crate::rules::{NotInForce, Protection, Rules, RulesKeeper};
use crate::session::{Role, Session};
use crate::settings::{NAMESPACE_ID_MAX, NamespaceSettings, SubsystemSettings, TargetSettings};
use crate::subsystem::Subsystem;
use crate::tcp;

/// How often keep alive timers are looked at.
const TICK: Duration = Duration::from_millis(500);

/// The target of one core. Clones are handles to the same one.
///
/// A node with several cores makes one on each, with [`Links`] between them, and applies every
/// change to all of them in the same order.
pub struct Target<D>(pub(crate) Rc<Core<D>>);

impl<D> Clone for Target<D> {
    fn clone(&self) -> Target<D> {
        Target(Rc::clone(&self.0))
    }
}

impl<D: BlockDevice + 'static> Target<D> {
    /// A target without ports and subsystems, on the current reactor.
    pub fn start(settings: TargetSettings, links: Links) -> Target<D> {
        let Links {
            index,
            others,
            mut inbox,
            identities,
            node,
        } = links;
        let known = (identities, node);
        let core = Rc::new(Core::new(settings, (index, others), known));
        let receiving = Rc::downgrade(&core);
        drop(reactor::spawn(async move {
            while let Some(message) = inbox.recv().await {
                match receiving.upgrade() {
                    Some(core) => core.receive(message),
                    None => return,
                }
            }
        }));
        let ticking = Rc::downgrade(&core);
        drop(reactor::spawn(async move {
            loop {
                reactor::sleep(TICK).await;
                match ticking.upgrade() {
                    Some(core) if !core.stopping.get() => core.tick(),
                    _ => return,
                }
            }
        }));
        Target(core)
    }

    /// Adds a subsystem without namespaces.
    pub fn add_subsystem(&self, settings: SubsystemSettings) -> Result<(), TargetError> {
        self.insert_subsystem(settings, None)
    }

    /// Adds a subsystem that is a drive, whose hosts administer it through `drive`.
    pub fn add_drive(
        &self,
        settings: SubsystemSettings,
        drive: Rc<dyn Administration>,
    ) -> Result<(), TargetError> {
        self.insert_subsystem(settings, Some(drive))
    }

    fn insert_subsystem(
        &self,
        settings: SubsystemSettings,
        drive: Option<Rc<dyn Administration>>,
    ) -> Result<(), TargetError> {
        check_text("serial", &settings.serial, 20)?;
        check_text("model", &settings.model, 40)?;
        let nqn = settings.nqn.clone();
        let mut subsystems = self.0.subsystems.borrow_mut();
        if self.0.is_discovery(&nqn) || subsystems.contains_key(&nqn) {
            return Err(TargetError::SubsystemExists(nqn));
        }
        let subsystem = Subsystem::new(settings, drive, self.0.identifiers);
        subsystems.insert(nqn, Rc::new(subsystem));
        drop(subsystems);
        self.0.discovery_changed();
        Ok(())
    }

    /// Disconnects every host of a subsystem, waits for commands in flight, and removes it.
    pub async fn remove_subsystem(&self, nqn: &Nqn) -> Result<(), TargetError> {
        let removed = self.0.subsystems.borrow_mut().remove(nqn);
        let subsystem = removed.ok_or_else(|| TargetError::UnknownSubsystem(nqn.clone()))?;
        for controller in self.0.controllers_of(nqn) {
            self.0.end_controller(&controller, CloseReason::Controller);
        }
        self.0.discovery_changed();
        for (_, namespace) in subsystem.remove_all() {
            namespace.remove().await;
        }
        Ok(())
    }

    /// Where rules of namespaces go that are to survive a power loss; without it they cannot.
    pub fn keep_rules(&self, keeper: RulesKeeper) {
        self.0.keeper.replace(Some(keeper));
    }

    /// Gives a namespace the rules it had before a power loss; `None`: nobody knows them yet, and
    /// until this is called again the namespace is not ready.
    pub fn restore_rules(
        &self,
        nqn: &Nqn,
        nsid: u32,
        rules: Option<&Arc<Rules>>,
    ) -> Result<(), TargetError> {
        let namespace = self.subsystem(nqn)?.namespace(nsid);
        let namespace = namespace.ok_or(TargetError::UnknownNamespace(nsid))?;
        namespace.set_rules(rules);
        Ok(())
    }

    /// Has a namespace be protected, as its administrator says, on all cores. When that is
    /// answered, no core executes a write of a host on a namespace that is protected, and what was
    /// written is durable. For the first core.
    pub async fn protect(
        &self,
        nqn: &Nqn,
        nsid: u32,
        protection: Protection,
    ) -> Result<(), NotInForce> {
        self.0.protect(nqn, nsid, protection).await
    }

    /// The write protection of a namespace, if there is one and as far as that is known.
    pub fn protection(&self, nqn: &Nqn, nsid: u32) -> Protection {
        let subsystem = self.0.subsystem(nqn);
        let namespace = subsystem.and_then(|subsystem| subsystem.namespace(nsid));
        namespace
            .map(|found| found.protection())
            .unwrap_or_default()
    }

    /// Changes what a host has to prove; `None`: nothing. A host that has another secret from now
    /// on is disconnected, so that it proves that one.
    pub fn set_host_keys(&self, host_nqn: &Nqn, keys: Option<HostKeys>) {
        let asked = keys.is_some();
        if self.0.credentials.set_host_keys(host_nqn, keys) && asked {
            self.disconnect(host_nqn);
        }
    }

    /// Which tenant a host belongs to, whose keys count on what is the tenant's; `None`: it is the
    /// node's own. To be said before the host has keys.
    pub fn set_host_tenant(&self, host_nqn: &Nqn, tenant: Option<Arc<str>>) {
        self.0.credentials.set_tenant(host_nqn, tenant);
    }

    /// Changes a host's key for TLS; `None`: it needs none. A host that has another key from now
    /// on, or none any more, is disconnected.
    pub fn set_tls_key(&self, host_nqn: &Nqn, key: Option<TlsKey>) {
        if self.0.credentials.set_tls_key(host_nqn, key) {
            self.disconnect(host_nqn);
        }
    }

    /// Ends what a host has where its keys count.
    fn disconnect(&self, host_nqn: &Nqn) {
        for controller in self.0.all_controllers() {
            if controller.host_nqn == *host_nqn
                && self.0.keys_count(host_nqn, &controller.subsystem_nqn)
            {
                self.0.end_controller(&controller, CloseReason::Controller);
            }
        }
    }

    /// Changes who may connect to a subsystem and see all of it; hosts that may see nothing there
    /// any more are disconnected.
    pub fn set_allowed_hosts(&self, nqn: &Nqn, allowed: AllowedHosts) -> Result<(), TargetError> {
        let subsystem = self.subsystem(nqn)?;
        let changed = subsystem.set_allowed(allowed);
        self.0.end_strangers(&subsystem);
        for (nsid, hosts) in changed {
            self.0.namespace_changed(&subsystem, nsid, &hosts);
        }
        self.0.discovery_changed();
        Ok(())
    }

    /// Changes who may see a namespace, beside those who may see all of its subsystem. Hosts that
    /// are connected are told if that is a change for them. To a host that sees it no more its
    /// commands are answered as if it were not there; one that sees nothing any more is
    /// disconnected.
    pub fn set_namespace_hosts(
        &self,
        nqn: &Nqn,
        nsid: u32,
        allowed: AllowedHosts,
    ) -> Result<(), TargetError> {
        let subsystem = self.subsystem(nqn)?;
        if subsystem.namespace(nsid).is_none() {
            return Err(TargetError::UnknownNamespace(nsid));
        }
        let changed = subsystem.set_guests(nsid, allowed);
        self.0.namespace_changed(&subsystem, nsid, &changed);
        self.0.discovery_changed();
        Ok(())
    }

    /// Returns when no host that may not see a namespace has a command under way on it here, or a
    /// connection to a subsystem of which it sees nothing: true, or false after `limit`. To be
    /// asked for on every core once [`Target::set_namespace_hosts`] and
    /// [`Target::set_allowed_hosts`] hold on all of them.
    pub async fn is_fenced(
        &self,
        nqn: &Nqn,
        nsid: u32,
        limit: Duration,
    ) -> Result<bool, TargetError> {
        let subsystem = self.subsystem(nqn)?;
        let until = reactor::now() + limit;
        let is_strange = |session: &Rc<Session<D>>| match session.role.get() {
            Some(Role::Io(queue)) => {
                queue.subsystem.settings.nqn == *nqn && !subsystem.admits(&queue.host_nqn)
            }
            _ => false,
        };
        for session in self.0.served.borrow().values() {
            if is_strange(session) {
                session.close(CloseReason::Controller);
            }
        }
        let is_alone = || !self.0.served.borrow().values().any(is_strange);
        if !wait_until(limit, is_alone).await {
            return Ok(false);
        }
        let Some(namespace) = subsystem.namespace(nsid) else {
            return Ok(true);
        };
        // What began before the change; a command that comes to its turn later is refused.
        let ended = async {
            drop(namespace.changing.lock().await);
            namespace.in_flight.drain().await;
        };
        let left = until.max(reactor::now()) - reactor::now();
        Ok(reactor::timeout(left, ended).await.is_ok())
    }

    /// Adds a namespace for the hosts that may see all of its subsystem; those that are connected
    /// are told.
    pub fn add_namespace(
        &self,
        nqn: &Nqn,
        settings: NamespaceSettings,
        device: Rc<D>,
    ) -> Result<(), TargetError> {
        let subsystem = self.subsystem(nqn)?;
        let nsid = settings.nsid;
        check_new(nsid, subsystem.namespace(nsid).is_some())?;
        if !subsystem.has_room_for(settings.group) {
            return Err(TargetError::TooManyGroups(nqn.clone()));
        }
        let namespace = Namespace::new(settings, device, Rc::new(InFlight::new()));
        let hosts = subsystem.insert(Rc::new(namespace));
        self.0.namespace_changed(&subsystem, nsid, &hosts);
        Ok(())
    }

    /// Has a namespace be thin: Identify tells what is in use of it by `used_blocks` from now on
    /// (NVM Command Set 1.1 §4.1.5.1, NUSE and THINP). Of others all blocks are in use.
    pub fn set_thin(
        &self,
        nqn: &Nqn,
        nsid: u32,
        used_blocks: UsedBlocks,
    ) -> Result<(), TargetError> {
        let namespace = self.subsystem(nqn)?.namespace(nsid);
        let namespace = namespace.ok_or(TargetError::UnknownNamespace(nsid))?;
        namespace.set_thin(used_blocks);
        Ok(())
    }

    /// Lets `host` use a namespace of a drive; the host is told.
    pub fn attach_namespace(
        &self,
        drive: &Nqn,
        host: &Nqn,
        settings: NamespaceSettings,
        device: Rc<D>,
    ) -> Result<(), TargetError> {
        let drive = self.subsystem(drive)?;
        let nsid = settings.nsid;
        let in_flight = drive.in_flight(nsid);
        let in_flight = in_flight.unwrap_or_else(|| Rc::new(InFlight::new()));
        let view = drive.of_host(host);
        check_new(nsid, view.namespace(nsid).is_some())?;
        let namespace = Namespace::new(settings, device, in_flight);
        view.put(nsid, Some(Rc::new(namespace)));
        let hosts = BTreeSet::from([host.clone()]);
        self.0.namespace_changed(&drive, nsid, &hosts);
        Ok(())
    }

    /// Removes a namespace: commands for it are refused from now on, hosts are told, and when the
    /// last command in flight has ended the device is handed back.
    pub async fn remove_namespace(&self, nqn: &Nqn, nsid: u32) -> Result<Rc<D>, TargetError> {
        let subsystem = self.subsystem(nqn)?;
        let removed = subsystem.remove(nsid);
        let (namespace, hosts) = removed.ok_or(TargetError::UnknownNamespace(nsid))?;
        self.0.namespace_changed(&subsystem, nsid, &hosts);
        self.0.discovery_changed();
        namespace.remove().await;
        Ok(Rc::clone(&namespace.device))
    }

    /// Takes a namespace of a drive from `host`, as [`Target::remove_namespace`] does.
    pub async fn detach_namespace(
        &self,
        drive: &Nqn,
        host: &Nqn,
        nsid: u32,
    ) -> Result<Rc<D>, TargetError> {
        let drive = self.subsystem(drive)?;
        let view = drive.of_host(host);
        let namespace = view.namespace(nsid);
        let namespace = namespace.ok_or(TargetError::UnknownNamespace(nsid))?;
        view.put(nsid, None);
        let hosts = BTreeSet::from([host.clone()]);
        self.0.namespace_changed(&drive, nsid, &hosts);
        namespace.remove().await;
        Ok(Rc::clone(&namespace.device))
    }

    /// These terms hold for a namespace from now on, on this core. The cores of a node share what
    /// is in them.
    pub fn set_terms(&self, nqn: &Nqn, nsid: u32, terms: &Arc<Terms>) -> Result<(), TargetError> {
        let namespace = self.subsystem(nqn)?.namespace(nsid);
        let namespace = namespace.ok_or(TargetError::UnknownNamespace(nsid))?;
        namespace.pace.set(self.0.bounds(terms));
        Ok(())
    }

    /// Says that a namespace's device has grown; hosts are told.
    pub fn namespace_resized(&self, nqn: &Nqn, nsid: u32) -> Result<(), TargetError> {
        let subsystem = self.subsystem(nqn)?;
        if subsystem.namespace(nsid).is_none() {
            return Err(TargetError::UnknownNamespace(nsid));
        }
        let hosts = subsystem.viewers(nsid);
        self.0.namespace_changed(&subsystem, nsid, &hosts);
        Ok(())
    }

    /// The controllers that live on this core and whose hosts have proved what they have to.
    pub fn sessions(&self) -> Vec<SessionInfo> {
        let now = reactor::now();
        let controllers = self.0.controllers.borrow();
        controllers
            .values()
            .filter(|controller| controller.announced.get())
            .map(|controller| SessionInfo {
                controller_id: controller.id,
                discovery: controller.is_discovery(),
                host_nqn: controller.host_nqn.clone(),
                host_address: controller.host_address,
                subsystem_nqn: controller.subsystem_nqn.clone(),
                port_id: controller.port_id,
                io_queues: controller.queues.borrow().len() as u16,
                keep_alive_ms: controller.keep_alive_ms.get(),
                connected_for: now - controller.since,
            })
            .collect()
    }

    /// This core's counts; those of a node are their sums.
    pub fn counters(&self) -> Counters {
        let core = &self.0;
        let mut namespaces = Vec::new();
        for subsystem in core.all_subsystems() {
            let nqn = &subsystem.settings.nqn;
            for (nsid, namespace) in subsystem.all_namespaces() {
                namespaces.push(counters_of(nqn, nsid, &namespace));
            }
        }
        Counters {
            connections: core.sessions.borrow().len() as u64,
            connections_accepted: core.session_count.get(),
            controllers: core.controllers.borrow().len() as u64,
            protocol_errors: core.protocol_errors.get(),
            keep_alive_expirations: core.keep_alive_expirations.get(),
            connections_refused: core.room.refused.get(),
            connections_displaced: core.room.displaced.get(),
            hosts_refused: core.hosts_refused.get(),
            namespaces,
        }
    }

    /// What happened since this was last called; the oldest are lost when nobody asks.
    pub fn take_events(&self) -> Vec<TargetEvent> {
        self.0.events.take().into()
    }

    /// Waits until something happens, then gives what did. For one caller at a time.
    pub async fn next_events(&self) -> Vec<TargetEvent> {
        loop {
            let events = self.take_events();
            if !events.is_empty() {
                return events;
            }
            self.0.events_arrived.notified().await;
        }
    }

    /// Stops listening, waits up to `grace` for commands in flight, closes every connection, and
    /// waits as long again for commands that devices still hold. False when some are left even so.
    pub async fn shutdown(&self, grace: Duration) -> bool {
        let core = &self.0;
        core.stopping.set(true);
        // Discovery goes on naming them: hosts would forget what a stopping target left out.
        for port in core.ports.borrow_mut().values_mut() {
            port.door = Door::Closed;
        }
        wait_until(grace, || !core.is_busy()).await;
        for controller in core.all_controllers() {
            core.end_controller(&controller, CloseReason::Shutdown);
        }
        for session in core.all_sessions() {
            session.close(CloseReason::Shutdown);
        }
        // Closing by itself takes a moment: the last words of each connection.
        wait_until(grace + tcp::LINGER * 3, || core.serving.get() == 0).await
    }

    fn subsystem(&self, nqn: &Nqn) -> Result<Rc<Subsystem<D>>, TargetError> {
        self.0
            .subsystem(nqn)
            .ok_or_else(|| TargetError::UnknownSubsystem(nqn.clone()))
    }
}

/// Waits until `done`, at most this long; true when it is done.
async fn wait_until(limit: Duration, done: impl Fn() -> bool) -> bool {
    let until = reactor::now() + limit;
    while !done() && reactor::now() < until {
        reactor::sleep(Duration::from_millis(5)).await;
    }
    done()
}

/// Refuses a number that a namespace cannot have, or that another one has.
fn check_new(nsid: u32, is_taken: bool) -> Result<(), TargetError> {
    if !(1..=NAMESPACE_ID_MAX).contains(&nsid) {
        return Err(TargetError::NamespaceId(nsid));
    }
    match is_taken {
        true => Err(TargetError::NamespaceExists(nsid)),
        false => Ok(()),
    }
}

fn counters_of<D>(nqn: &Nqn, nsid: u32, namespace: &Namespace<D>) -> NamespaceCounters {
    let counters = &namespace.counters;
    let (read_latency, write_latency) =
        (counters.read_latency.read(), counters.write_latency.read());
    NamespaceCounters {
        subsystem_nqn: nqn.clone(),
        nsid,
        reads: read_latency.count(),
        read_latency,
        read_bytes: counters.read_bytes.get(),
        writes: write_latency.count(),
        write_latency,
        write_bytes: counters.write_bytes.get(),
        flushes: counters.flushes.get(),
        deallocates: counters.deallocates.get(),
        others: counters.others.get(),
        errors: counters.errors.get(),
        delayed: namespace.pace.delayed.get(),
        delay: Duration::from_nanos(namespace.pace.delay_ns.get()),
    }
}

fn check_text(field: &'static str, value: &str, limit: usize) -> Result<(), TargetError> {
    if value.len() <= limit && value.bytes().all(|byte| (0x20..=0x7e).contains(&byte)) {
        return Ok(());
    }
    Err(TargetError::Text {
        field,
        value: value.to_owned(),
        limit,
    })
}
