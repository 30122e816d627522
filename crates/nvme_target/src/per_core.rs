//! [`Core`]: everything one core's target knows.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use access::Nqn;
use block::BlockDevice;
use nvme::event::AsyncEvent;
use qos::Terms;
use reactor::sync::{Notify, oneshot};
use reactor::{Instant, mailbox};

use crate::controller::Controller;
use crate::credentials::Credentials;
use crate::home::{Account, Done, Identifiers, Message, NodeIdentity};
use crate::identities::Identities;
use crate::instance::Uniquifiers;
use crate::joining::Answer;
use crate::pace::{Bounds, Place};
use crate::paths::{Changed, PathState};
use crate::port::Port;
use crate::proofs::Proofs;
use crate::refusals::{Refusals, Refused};
use crate::report::{CloseReason, RefusalReason, TargetEvent};
use crate::room::Room;
use crate::rules::RulesKeeper;
use crate::session::{Role, Session};
use crate::settings::TargetSettings;
use crate::strangers::Strangers;
use crate::subsystem::Subsystem;
use crate::view::View;

/// Events kept for the node until it takes them; older ones go.
const EVENTS_MAX: usize = 256;

/// How long another core may take to answer.
pub(crate) const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

/// Everything one core's target knows.
pub(crate) struct Core<D> {
    pub settings: TargetSettings,
    pub started: Instant,
    pub identifiers: Identifiers,
    /// NQN of the discovery subsystem, beside the well-known one.
    pub discovery_nqn: Option<Nqn>,
    pub ports: RefCell<BTreeMap<u16, Port>>,
    pub subsystems: RefCell<BTreeMap<Nqn, Rc<Subsystem<D>>>>,
    pub controllers: RefCell<BTreeMap<u16, Rc<Controller<D>>>>,
    /// Drives and pools whose volumes share them, by name.
    pub places: RefCell<BTreeMap<Arc<str>, Rc<Place>>>,
    /// What hosts have to prove.
    pub credentials: Credentials,
    pub sessions: RefCell<BTreeMap<u64, Rc<Session<D>>>>,
    /// Those, and connections that are closed and whose last commands are under way.
    pub served: RefCell<BTreeMap<u64, Rc<Session<D>>>>,
    pub session_count: Cell<u64>,
    /// Connections whose last command has not ended yet, closed ones included.
    pub serving: Cell<u64>,
    /// Of what discovery reports.
    pub generation: Cell<u64>,
    pub protocol_errors: Cell<u64>,
    pub keep_alive_expirations: Cell<u64>,
    /// Refusals of hosts for any reason.
    pub hosts_refused: Cell<u64>,
    /// What connections have taken.
    pub room: Room,
    /// What is done for those who have proved nothing.
    pub strangers: Rc<Strangers>,
    /// Who has its turn to authenticate.
    pub proofs: Proofs,
    pub stopping: Cell<bool>,
    pub events: RefCell<VecDeque<TargetEvent>>,
    refusals: RefCell<Refusals>,
    pub events_arrived: Notify,
    /// Where rules of namespaces are kept that are to survive a power loss.
    pub keeper: RefCell<Option<RulesKeeper>>,
    /// Who waits for [`Message::Done`].
    pub awaited: RefCell<BTreeMap<u64, oneshot::Sender<Done>>>,
    /// Ends what is held back for other cores, by these and their tokens.
    pub locks: RefCell<BTreeMap<(u16, u64), oneshot::Sender<()>>>,
    /// How often each controller identifier of this core was used.
    pub uniquifiers: RefCell<Uniquifiers>,
    last_controller_id: Cell<u16>,
    others: Vec<mailbox::Sender<Message>>,
    /// Who waits for [`Message::Attached`].
    pub answers: RefCell<BTreeMap<u64, oneshot::Sender<Answer>>>,
    accounts: RefCell<BTreeMap<u64, oneshot::Sender<Account>>>,
    last_token: Cell<u64>,
}

impl<D: BlockDevice + 'static> Core<D> {
    pub fn new(
        settings: TargetSettings,
        (index, others): (u16, Vec<mailbox::Sender<Message>>),
        (identities, node): (Identities, NodeIdentity),
    ) -> Core<D> {
        Core {
            settings,
            started: reactor::now(),
            identifiers: Identifiers {
                index,
                cores: others.len() as u16,
                ids: node.controller_ids,
            },
            discovery_nqn: node.discovery_nqn,
            ports: RefCell::default(),
            subsystems: RefCell::default(),
            controllers: RefCell::default(),
            places: RefCell::default(),
            credentials: Credentials::new(identities),
            sessions: RefCell::default(),
            served: RefCell::default(),
            session_count: Cell::new(0),
            serving: Cell::new(0),
            generation: Cell::new(1),
            protocol_errors: Cell::new(0),
            keep_alive_expirations: Cell::new(0),
            hosts_refused: Cell::new(0),
            room: Room::new(&settings),
            strangers: Strangers::new(),
            proofs: Proofs::default(),
            stopping: Cell::new(false),
            events: RefCell::default(),
            refusals: RefCell::default(),
            events_arrived: Notify::new(),
            keeper: RefCell::default(),
            awaited: RefCell::default(),
            locks: RefCell::default(),
            uniquifiers: RefCell::default(),
            last_controller_id: Cell::new(0),
            others,
            answers: RefCell::default(),
            accounts: RefCell::default(),
            last_token: Cell::new(0),
        }
    }

    /// A subsystem, by name.
    pub fn subsystem(&self, nqn: &Nqn) -> Option<Rc<Subsystem<D>>> {
        self.subsystems.borrow().get(nqn).cloned()
    }

    /// Terms, with the place they speak of: the same for all volumes there.
    pub fn bounds(&self, terms: &Arc<Terms>) -> Bounds {
        let mut places = self.places.borrow_mut();
        places.retain(|_, place| Rc::strong_count(place) > 1);
        let place = terms.part.as_ref().map(|part| {
            let name = Arc::clone(&part.place);
            let place = places.entry(name);
            let place = place.or_insert_with(|| Rc::new(Place::new(part.room)));
            place.set_room(part.room);
            Rc::clone(place)
        });
        Bounds {
            terms: Arc::clone(terms),
            place,
        }
    }

    pub fn all_subsystems(&self) -> Vec<Rc<Subsystem<D>>> {
        self.subsystems.borrow().values().cloned().collect()
    }

    /// Keeps an event for the node.
    pub fn report(&self, event: TargetEvent) {
        let mut events = self.events.borrow_mut();
        if events.len() >= EVENTS_MAX {
            // Anybody can cause events of hosts; these make room before those of devices.
            let of_host = |event: &TargetEvent| !matches!(event, TargetEvent::DeviceFailed { .. });
            let oldest = events.iter().position(of_host).unwrap_or(0);
            events.remove(oldest);
        }
        events.push_back(event);
        self.events_arrived.notify_one();
    }

    /// Tells the node of a refusal, now or with others.
    pub fn report_refusal(&self, refused: Refused) {
        if !matches!(refused.reason, RefusalReason::Lost(_)) {
            self.hosts_refused.set(self.hosts_refused.get() + 1);
        }
        let told = self.refusals.borrow_mut().note(refused, reactor::now());
        if let Some(event) = told {
            self.report(event);
        }
    }

    /// Takes a place for a new connection, if need be that of one that has proved nothing.
    pub fn take_place(&self, session: u64, address: IpAddr) -> bool {
        let taken = self.room.take_place(session, address);
        if let Some(Some(displaced)) = taken {
            self.close_session(displaced, CloseReason::Displaced);
        }
        taken.is_some()
    }

    /// What discovery reports has changed: persistent discovery controllers hear of it.
    pub fn discovery_changed(&self) {
        self.generation.set(self.generation.get() + 1);
        for controller in self.all_controllers() {
            if controller.is_discovery() {
                controller.raise(AsyncEvent::DISCOVERY_CHANGED);
            }
        }
    }

    /// A port has become a better or a worse path to some groups: hosts hear of it that came
    /// through it and see a namespace of these. A persistent loss ends with the controllers that
    /// reported it.
    pub fn path_changed(&self, port_id: u16, changed: &Changed) {
        for controller in self.all_controllers() {
            let view = controller.subsystem();
            let sees = view.is_some_and(|view| view.sees_any(|group| changed.concerns(group)));
            match changed.from {
                _ if !sees || controller.port_id != port_id => {}
                PathState::PersistentLoss => {
                    self.end_controller(&controller, CloseReason::Controller);
                }
                _ => controller.raise(AsyncEvent::ANA_CHANGED),
            }
        }
    }

    pub fn all_controllers(&self) -> Vec<Rc<Controller<D>>> {
        self.controllers.borrow().values().cloned().collect()
    }

    pub fn all_sessions(&self) -> Vec<Rc<Session<D>>> {
        self.sessions.borrow().values().cloned().collect()
    }

    /// An identifier that no controller of this core has; `None` when all are taken.
    pub fn free_controller_id(&self) -> Option<u16> {
        let controllers = self.controllers.borrow();
        let mut id = self.last_controller_id.get();
        for _ in 0..self.identifiers.count() {
            id = self.identifiers.after(id)?;
            if !controllers.contains_key(&id) {
                self.last_controller_id.set(id);
                return Some(id);
            }
        }
        None
    }

    /// Ends a controller: its queues' connections are closed, its admin connection too.
    pub fn end_controller(&self, controller: &Controller<D>, reason: CloseReason) {
        if self
            .controllers
            .borrow_mut()
            .remove(&controller.id)
            .is_none()
        {
            return;
        }
        controller.identity.take();
        self.close_queues(controller);
        if let Some(admin) = controller.admin.upgrade() {
            admin.close(reason);
        }
        if !controller.announced.get() || controller.is_discovery() {
            return;
        }
        self.report(TargetEvent::HostDisconnected {
            host_nqn: controller.host_nqn.clone(),
            subsystem_nqn: controller.subsystem_nqn.clone(),
            controller_id: controller.id,
            reason,
        });
    }

    /// Closes the connections of a controller's I/O queues.
    pub fn close_queues(&self, controller: &Controller<D>) {
        for place in controller.queues.take().into_values() {
            if place.core == self.identifiers.index {
                self.close_session(place.session, CloseReason::Controller);
            } else {
                self.post(
                    place.core,
                    Message::Close {
                        session: place.session,
                    },
                );
            }
        }
    }

    fn close_session(&self, id: u64, reason: CloseReason) {
        let session = self.sessions.borrow().get(&id).cloned();
        if let Some(session) = session {
            session.close(reason);
        }
    }

    /// Asks another core for what it answers with [`Message::Done`]; gives the token, and where
    /// the answer comes. Who gives up takes the token out of `awaited`.
    pub fn ask(
        &self,
        core: u16,
        message: impl FnOnce(u64) -> Message,
    ) -> (u64, oneshot::Receiver<Done>) {
        let (sender, receiver) = oneshot::channel();
        let token = self.next_token();
        self.awaited.borrow_mut().insert(token, sender);
        self.post(core, message(token));
        (token, receiver)
    }

    pub fn next_token(&self) -> u64 {
        let token = self.last_token.get() + 1;
        self.last_token.set(token);
        token
    }

    /// What hosts did, on all cores, to what one sees of a subsystem; a core that has stopped is
    /// left out.
    pub async fn account(&self, view: &View<D>, nsid: Option<u32>) -> Account {
        let (subsystem_nqn, host_nqn) = (&view.settings.nqn, &view.host);
        let mut account = self.account_here(subsystem_nqn, host_nqn, nsid);
        let from = self.identifiers.index;
        for core in (0..self.identifiers.cores).filter(|core| *core != from) {
            let token = self.next_token();
            let (sender, receiver) = oneshot::channel();
            self.accounts.borrow_mut().insert(token, sender);
            let message = Message::Account {
                token,
                from,
                subsystem_nqn: subsystem_nqn.clone(),
                host_nqn: host_nqn.clone(),
                nsid,
            };
            self.post(core, message);
            let answer = reactor::timeout(ANSWER_TIMEOUT, receiver).await;
            self.accounts.borrow_mut().remove(&token);
            if let Ok(Ok(other)) = answer {
                account.add(other);
            }
        }
        account
    }

    fn account_here(&self, subsystem_nqn: &Nqn, host_nqn: &Nqn, nsid: Option<u32>) -> Account {
        let subsystem = self.subsystem(subsystem_nqn);
        let account = subsystem.map(|subsystem| subsystem.account(host_nqn, nsid));
        account.unwrap_or_default()
    }

    /// Ends a controller whose host broke the rules of one of its queues.
    pub fn abandon(&self, controller_id: u16) {
        let home = self.identifiers.core_of(controller_id);
        if home != self.identifiers.index {
            return self.post(home, Message::Abandon { controller_id });
        }
        let controller = self.controllers.borrow().get(&controller_id).cloned();
        if let Some(controller) = controller {
            self.end_controller(&controller, CloseReason::Protocol);
        }
    }

    /// Tells the controller's core that a queue had traffic.
    fn traffic(&self, controller_id: u16, now: Instant) {
        let home = self.identifiers.core_of(controller_id);
        if home != self.identifiers.index {
            self.post(home, Message::Traffic { controller_id });
        } else if let Some(controller) = self.controllers.borrow().get(&controller_id) {
            controller.last_seen.set(now);
        }
    }

    /// Sends a message to another core; a full mailbox is waited for elsewhere.
    pub fn post(&self, core: u16, message: Message) {
        let Some(sender) = self.others.get(usize::from(core)) else {
            return;
        };
        if let Err(mailbox::TrySendError::Full(message)) = sender.try_send(message) {
            let sender = sender.clone();
            drop(reactor::spawn(async move {
                // A core that has stopped has nothing left to be told.
                let _ = sender.send(message).await;
            }));
        }
    }

    /// Does what another core asks for.
    pub fn receive(self: &Rc<Self>, message: Message) {
        match message {
            Message::Attach { token, request } => {
                let from = request.place.core;
                let result = self.attach_here(request);
                self.post(from, Message::Attached { token, result });
            }
            Message::Attached { token, result } => {
                let waiting = self.answers.borrow_mut().remove(&token);
                if let Some(waiting) = waiting {
                    // The connection that asked may be gone; its end detaches the queue.
                    let _ = waiting.send(result);
                }
            }
            Message::Account {
                token,
                from,
                subsystem_nqn,
                host_nqn,
                nsid,
            } => {
                let account = self.account_here(&subsystem_nqn, &host_nqn, nsid);
                self.post(from, Message::Accounted { token, account });
            }
            Message::Accounted { token, account } => {
                let waiting = self.accounts.borrow_mut().remove(&token);
                if let Some(waiting) = waiting {
                    // Who asked may have given up.
                    let _ = waiting.send(account);
                }
            }
            Message::Detach {
                controller_id,
                queue_id,
                place,
            } => {
                self.detach_here(controller_id, queue_id, place);
            }
            Message::Close { session } => self.close_session(session, CloseReason::Controller),
            message @ (Message::Ask { .. } | Message::Rules { .. }) => {
                self.receive_rules(message);
            }
            Message::Lock {
                token,
                from,
                blocks,
            } => self.lock_for(from, token, blocks),
            Message::Abort {
                token,
                from,
                session,
                command_id,
            } => self.abort_for((from, token), session, command_id),
            Message::Unlock { token, from } => self.unlock_for(from, token),
            Message::Done { token, result } => {
                let waiting = self.awaited.borrow_mut().remove(&token);
                if let Some(waiting) = waiting {
                    // Who asked may have given up.
                    let _ = waiting.send(result);
                }
            }
            Message::Abandon { controller_id } => self.abandon(controller_id),
            message @ (Message::Reset { .. }
            | Message::Quiesce { .. }
            | Message::ResetSubsystem { .. }) => self.receive_reset(message),
            Message::Traffic { controller_id } => self.traffic(controller_id, reactor::now()),
        }
    }

    /// What is looked at twice a second.
    pub fn tick(&self) {
        let now = reactor::now();
        self.check_keep_alive(now);
        let refusals = self.refusals.borrow_mut().due(now);
        for event in refusals {
            self.report(event);
        }
        for subsystem in self.all_subsystems() {
            if let Some((nsid, errors)) = subsystem.errors.new_ones() {
                self.report(TargetEvent::DeviceFailed {
                    subsystem_nqn: subsystem.settings.nqn.clone(),
                    nsid,
                    errors,
                });
            }
        }
    }

    /// True while commands are executed or answers wait to be sent.
    pub fn is_busy(&self) -> bool {
        self.sessions
            .borrow()
            .values()
            .any(|session| session.is_busy())
    }

    /// Notes which controllers were heard of and ends those that kept silent too long.
    fn check_keep_alive(&self, now: Instant) {
        for session in self.sessions.borrow().values() {
            if let Some(Role::Io(queue)) = session.role.get()
                && queue.traffic.replace(false)
            {
                self.traffic(queue.controller_id, now);
            }
        }
        for controller in self.all_controllers() {
            let silent = now - controller.last_seen.get();
            // A host may compute for long before it has authenticated: that has its own timeout.
            if controller.announced.get() && controller.is_expired(silent, &self.settings) {
                self.keep_alive_expirations
                    .set(self.keep_alive_expirations.get() + 1);
                self.end_controller(&controller, CloseReason::Silence);
            }
        }
    }
}
