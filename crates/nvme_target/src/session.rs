//! [`Session`]: one connection with what it is connected to, without its socket.

use std::cell::{Cell, OnceCell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use access::Nqn;
use block::BlockDevice;
use nvme::fabrics::{Fabrics, FabricsType};
use nvme::{AdminOpcode, Status};
use reactor::sync::{Notify, Signal};

use crate::connect;
use crate::controller::Controller;
use crate::gate::{self, Gate};
use crate::io::IoQueue;
use crate::paths::Paths;
use crate::per_core::Core;
use crate::portions::{Portions, Room};
use crate::refusals::Refused;
use crate::report::{CloseReason, Loss, RefusalReason};
use crate::reservation::command as reservation;
use crate::secure::Secured;
use crate::settings::Transport;
use crate::strangers::Lane;
use crate::transport::{Command, Connection, End, PRESSED_BYTES, Ready, Reply, Tag, Trust};
use crate::unready;

/// Bytes that may wait to be sent to whoever has proved nothing, or is there for discovery; one
/// answer more is let through.
const UNSENT_BYTES_UNTRUSTED: usize = 32 << 10;

/// What a connection is, once Connect has said so.
pub(crate) enum Role<D> {
    /// An admin queue.
    Admin(Rc<Controller<D>>),
    /// An I/O queue.
    Io(IoQueue<D>),
}

/// The port a connection was made through.
#[derive(Clone)]
pub(crate) struct Origin {
    pub port_id: u16,
    pub paths: Rc<Paths>,
    /// Its connections are under TLS.
    pub tls: bool,
    pub transport: Transport,
}

/// One connection.
pub(crate) struct Session<D> {
    pub id: u64,
    pub core: Rc<Core<D>>,
    pub origin: Origin,
    pub host_address: SocketAddr,
    pub local_address: SocketAddr,
    pub machine: RefCell<Connection>,
    /// Who is at the other end, where TLS has proved it.
    pub secured: OnceCell<Secured>,
    pub role: OnceCell<Role<D>>,
    /// How far the host is trusted.
    trust: Cell<Trust>,
    /// Data of this connection that the core counts.
    held: Cell<usize>,
    /// What the host has to prove on this queue, if it has to.
    pub gate: OnceCell<Gate>,
    /// The controller that its I/O queue asks to join.
    pub joining: Cell<Option<u16>>,
    /// How many Connects were refused.
    pub refused_connects: Cell<u32>,
    /// Connect has succeeded.
    pub connected: Notify,
    /// There is something to send.
    pub transmit: Notify,
    /// Something was sent.
    pub sent: Notify,
    /// Bytes handed to the socket, or to a device, and not sent yet.
    pub sending: Cell<usize>,
    /// The connection is to be closed.
    closed: Notify,
    closing: Cell<Option<CloseReason>>,
    /// Data that reads in execution may yet add to the outbox, or that Copy holds meanwhile, and
    /// such commands that wait for room.
    reads: RefCell<Portions<Errand>>,
    /// Slots that wait for a command.
    idle: RefCell<Vec<Rc<Slot>>>,
    slots: Cell<usize>,
    ended: Notify,
}

/// Where a looping task gets what to do next from; `None` ends it.
type Slot = Signal<Option<Errand>>;

/// Answers that are not given at once, in order.
struct Later {
    nsid: u32,
    answers: Vec<(Tag, Reply)>,
}

/// What a looping task is to execute, and how much data the answer may carry.
#[derive(Clone, Copy)]
struct Errand {
    ready: Ready,
    nsid: u32,
    answer_bytes: usize,
}

impl<D: BlockDevice + 'static> Session<D> {
    pub fn new(
        core: Rc<Core<D>>,
        id: u64,
        origin: Origin,
        host_address: SocketAddr,
        local_address: SocketAddr,
    ) -> Session<D> {
        let mut machine = match origin.transport {
            Transport::Tcp => Connection::new(core.settings.connection),
            Transport::Rdma => Connection::keyed(core.settings.connection),
        };
        machine.set_trust(Trust::Unproven);
        Session {
            id,
            origin,
            host_address,
            local_address,
            machine: RefCell::new(machine),
            core,
            secured: OnceCell::new(),
            role: OnceCell::new(),
            trust: Cell::new(Trust::Unproven),
            held: Cell::new(0),
            gate: OnceCell::new(),
            joining: Cell::new(None),
            refused_connects: Cell::new(0),
            connected: Notify::new(),
            transmit: Notify::new(),
            sent: Notify::new(),
            sending: Cell::new(0),
            closed: Notify::new(),
            closing: Cell::new(None),
            reads: RefCell::default(),
            idle: RefCell::default(),
            slots: Cell::new(0),
            ended: Notify::new(),
        }
    }

    /// Asks for the connection to be closed; the first reason counts.
    pub fn close(&self, reason: CloseReason) {
        if self.closing.get().is_none() {
            self.closing.set(Some(reason));
            if let Some(Role::Io(queue)) = self.role.get() {
                queue.leave();
            }
            self.core.strangers.leave(self.id);
            self.closed.notify_one();
            self.transmit.notify_one();
            self.sent.notify_one();
        }
    }

    /// As [`Session::close`], once the answer that is given now has left.
    pub fn close_once_told(self: &Rc<Self>, reason: CloseReason) {
        let session = Rc::clone(self);
        drop(reactor::spawn(async move {
            // The answer is given first, and leaves before the connection is closed.
            reactor::yield_now().await;
            session.close(reason);
        }));
    }

    /// Who is at the other end and what it is connected to, as far as it has said so.
    pub fn names(&self) -> (Option<Nqn>, Option<Nqn>) {
        match self.role.get() {
            Some(Role::Admin(controller)) => (
                Some(controller.host_nqn.clone()),
                Some(controller.subsystem_nqn.clone()),
            ),
            Some(Role::Io(queue)) => (
                Some(queue.host_nqn.clone()),
                Some(queue.subsystem.settings.nqn.clone()),
            ),
            None => (None, None),
        }
    }

    /// Returns when the connection is to be closed. For one caller at a time.
    pub async fn wait_for_close(&self) {
        while self.closing.get().is_none() {
            self.closed.notified().await;
        }
    }

    /// True unless the host has to prove something yet.
    pub fn is_open(&self) -> bool {
        self.gate.get().is_none_or(|gate| gate.check().is_ok())
    }

    /// Trusts the host as far as what it is connected to says, once it has nothing left to prove.
    pub fn admit(&self) {
        let trust = match self.role.get() {
            Some(Role::Admin(controller)) if controller.is_discovery() => Trust::Guest,
            Some(_) => Trust::Host,
            None => Trust::Unproven,
        };
        if !self.is_open() || self.trust.replace(trust) == trust {
            return;
        }
        self.machine.borrow_mut().set_trust(trust);
        if trust == Trust::Host {
            self.core.room.keep_place(self.id);
        }
    }

    /// Whether a host of a subsystem is at the other end, as far as that has to be proved.
    pub fn is_trusted(&self) -> bool {
        self.trust.get() == Trust::Host
    }

    /// Whether it carries an I/O queue of such a host. Admin queues have as many connections as
    /// there are hosts, and little to receive.
    pub fn has_io_queue(&self) -> bool {
        self.is_trusted() && matches!(self.role.get(), Some(Role::Io(_)))
    }

    /// Waits until something is done for the connection, which has this price; a host's never
    /// waits.
    pub async fn step(&self, price: Duration) {
        let lane = match self.trust.get() {
            Trust::Unproven => Lane::Unproven,
            Trust::Guest => Lane::Guests,
            Trust::Host => return,
        };
        if self.closing().is_none() {
            self.core.strangers.step(lane, self.id, price).await;
        }
    }

    /// Bytes that may wait to be sent, those that reads in execution will add included.
    fn unsent_max(&self, pressed: bool) -> usize {
        let most = self.core.settings.read_bytes_max;
        match self.is_trusted() {
            true if pressed => most.min(PRESSED_BYTES),
            true => most,
            false => most.min(UNSENT_BYTES_UNTRUSTED),
        }
    }

    /// Has the core count what the connection holds now.
    pub fn account(&self) {
        let machine = self.machine.borrow();
        let unsent = machine.unsent_bytes() + self.sending.get() + self.reads.borrow().bytes();
        let held = unsent + machine.write_bytes();
        self.core.room.hold(self.held.replace(held), held);
    }

    /// The connection has ended and holds nothing any more.
    pub fn release(&self) {
        self.core.room.hold(self.held.take(), 0);
    }

    /// What I/O on a namespace ends with that is to go through another port. Hosts try it there.
    fn refusal(&self, nsid: u32) -> Option<Status> {
        let Some(Role::Io(queue)) = self.role.get() else {
            return None;
        };
        queue.subsystem.refusal(nsid, &self.origin.paths)
    }

    /// Why the connection is being closed, if it is.
    pub fn closing(&self) -> Option<CloseReason> {
        self.closing.get()
    }

    /// Answers a command.
    pub fn respond(&self, tag: Tag, reply: Reply) {
        self.machine.borrow_mut().respond(tag, reply);
        self.transmit.notify_one();
    }

    /// Gives what was received to looping tasks, one for each command at most; more are started
    /// as the host uses more of its queue. Reads for which there is no room wait, and hold up no
    /// other command. True says that so much waits to be sent that nothing more is to be received.
    pub fn dispatch(self: &Rc<Self>) -> bool {
        if self.is_trusted() {
            self.core.strangers.note_host();
        }
        if self.role.get().is_none() && self.machine.borrow_mut().take_refused() {
            connect::refuse_unread(self);
        }
        let pressed = self.core.room.is_pressed();
        self.machine.borrow_mut().set_pressed(pressed);
        let is_full = self.hand_out();
        self.account();
        is_full
    }

    fn hand_out(self: &Rc<Self>) -> bool {
        loop {
            let Some(room) = self.read_room() else {
                return true;
            };
            let mut machine = self.machine.borrow_mut();
            let Some(ready) = machine.take_ready() else {
                return false;
            };
            let (nsid, answer_bytes) = match ready {
                Ready::One(tag) => machine.answer_of(tag),
                Ready::Fused(..) => (0, 0),
            };
            drop(machine);
            let errand = Errand {
                ready,
                nsid,
                answer_bytes: answer_bytes as usize,
            };
            let mut reads = self.reads.borrow_mut();
            let fits = match errand.answer_bytes {
                0 => Some(errand),
                bytes => reads.take(nsid, bytes, room, errand),
            };
            drop(reads);
            if let Some(errand) = fits {
                self.begin(errand);
            }
        }
    }

    fn begin(self: &Rc<Self>, errand: Errand) {
        let idle = self.idle.borrow_mut().pop();
        let slot = idle.unwrap_or_else(|| self.start_slot());
        slot.set(Some(errand));
    }

    /// Begins reads that waited, as far as there is room for their data now.
    pub fn resume(self: &Rc<Self>) {
        if !self.reads.borrow().is_waited_for() || self.closing.get().is_some() {
            return;
        }
        while let Some(room) = self.read_room() {
            let next = self.reads.borrow_mut().next(room);
            let Some(errand) = next else { return };
            self.begin(errand);
        }
    }

    /// Takes a command that waits for room, which has not begun, out of the line.
    pub fn take_waiting(&self, command_id: u16) -> Option<Tag> {
        let machine = self.machine.borrow();
        let is_this = |errand: &Errand| match errand.ready {
            Ready::One(tag) => machine.command_id(tag) == Some(command_id),
            Ready::Fused(..) => false,
        };
        let taken = self.reads.borrow_mut().take_out(is_this)?;
        match taken.ready {
            Ready::One(tag) => Some(tag),
            Ready::Fused(..) => None,
        }
    }

    /// Room for the data of reads; none while so much waits to be sent.
    fn read_room(&self) -> Option<Room> {
        let pressed = self.core.room.is_pressed();
        let most = self.unsent_max(pressed);
        let answered = self.machine.borrow().unsent_bytes() + self.sending.get();
        (answered <= most).then_some(Room {
            bytes: most,
            used: answered,
            is_scarce: pressed || !self.is_trusted(),
        })
    }

    fn start_slot(self: &Rc<Self>) -> Rc<Slot> {
        let slot = Rc::new(Slot::new());
        self.slots.set(self.slots.get() + 1);
        drop(reactor::spawn(Rc::clone(self).run_slot(Rc::clone(&slot))));
        slot
    }

    async fn run_slot(self: Rc<Self>, slot: Rc<Slot>) {
        while let Some(errand) = slot.wait().await {
            let later = match errand.ready {
                Ready::One(tag) => self.execute(tag).await,
                Ready::Fused(first, second) => self.execute_fused(first, second).await,
            };
            let (nsid, bytes) = (errand.nsid, errand.answer_bytes);
            self.reads.borrow_mut().give_back(nsid, bytes);
            if let Some(later) = later {
                Box::pin(self.answer_later(later)).await;
            }
            if self.closing.get().is_some() {
                break;
            }
            self.idle.borrow_mut().push(Rc::clone(&slot));
            self.resume();
        }
        self.slots.set(self.slots.get() - 1);
        self.ended.notify_one();
    }

    /// Ends the looping tasks and waits for commands in execution.
    pub async fn drain(&self) {
        for slot in self.idle.take() {
            slot.set(None);
        }
        while self.slots.get() > 0 {
            self.ended.notified().await;
        }
    }

    /// Executes a command and answers it, unless that is to be done later.
    async fn execute(self: &Rc<Self>, tag: Tag) -> Option<Later> {
        let mut command = self.machine.borrow_mut().command(tag)?;
        if self.closing.get().is_some() {
            self.respond(tag, Reply::status(Status::ABORTED_QUEUE_DELETION));
            return None;
        }
        let nsid = command.entry.namespace_id.get();
        if let Some(gate) = self.gate.get() {
            let passed = match gate::is_authentication(&command.entry) {
                true => Err(gate::authenticate(self, gate, &mut command).await),
                false => gate.check(),
            };
            if let Err(reply) = passed {
                self.respond(tag, reply);
                return None;
            }
        }
        let reply = match (self.role.get(), self.refusal(nsid)) {
            (Some(Role::Io(_)), _) if command.entry.opcode == AdminOpcode::FABRICS.0 => {
                self.queue_fabrics(command);
                return None;
            }
            (Some(Role::Io(_)), Some(status)) => Reply::status(status),
            (Some(Role::Io(queue)), None)
                if reservation::is_reservation(command.entry.opcode)
                    && queue.subsystem.drive.is_none() =>
            {
                let data = command.data.as_deref();
                reservation::execute(&self.core, queue, &command.entry, data).await
            }
            (Some(Role::Io(queue)), None) => {
                queue.execute(&command.entry, command.data.take()).await
            }
            (Some(Role::Admin(controller)), _) => controller.execute(self, command).await?,
            (None, _) => connect::connect(self, &command).await,
        };
        self.answer(nsid, [(tag, reply)])
    }

    /// Answers commands of a namespace, unless it is not ready and their host is to be answered
    /// later.
    fn answer<const N: usize>(&self, nsid: u32, answers: [(Tag, Reply); N]) -> Option<Later> {
        let mut answers = answers;
        let unready = |(_, reply): &&mut (Tag, Reply)| reply.status == Status::NAMESPACE_NOT_READY;
        if let Some((_, reply)) = answers.iter_mut().find(unready)
            && let Some(Role::Io(queue)) = self.role.get()
        {
            match queue.when_not_ready(nsid) {
                Some(status) => reply.status = status,
                None => {
                    return Some(Later {
                        nsid,
                        answers: answers.into(),
                    });
                }
            }
        }
        for (tag, reply) in answers {
            self.respond(tag, reply);
        }
        None
    }

    /// Answers once the namespace may be ready, and after the delay that hosts are told of at the
    /// latest. Nothing waits where there is nobody to be answered, or the node stops.
    async fn answer_later(self: &Rc<Self>, later: Later) {
        // What was kept free for its data is free, which another command may wait for.
        self.resume();
        if let Some(Role::Io(queue)) = self.role.get() {
            let waits = || self.closing.get().is_none() && !self.core.stopping.get();
            unready::wait(&queue.subsystem, later.nsid, waits).await;
        }
        for (tag, reply) in later.answers {
            self.respond(tag, reply);
        }
    }

    async fn execute_fused(self: &Rc<Self>, first: Tag, second: Tag) -> Option<Later> {
        if self.role.get().is_none() {
            connect::refuse_unread(self);
        }
        let commands = {
            let mut machine = self.machine.borrow_mut();
            (machine.command(first), machine.command(second))
        };
        let nsid = commands.0.as_ref();
        let nsid = nsid.map_or(0, |first| first.entry.namespace_id.get());
        let invalid = || Reply::status(Status::INVALID_FIELD.do_not_retry());
        let role = self.role.get().filter(|_| self.is_open());
        let replies = match (role, self.refusal(nsid), commands) {
            (_, Some(status), _) => (
                Reply::status(status),
                Reply::status(Status::ABORTED_FAILED_FUSED),
            ),
            (Some(Role::Io(queue)), None, (Some(first), Some(second))) => {
                queue.execute_fused(&self.core, first, second).await
            }
            _ => (invalid(), invalid()),
        };
        self.answer(nsid, [(first, replies.0), (second, replies.1)])
    }

    /// Fabrics commands of an I/O queue: only Disconnect has a meaning there.
    fn queue_fabrics(&self, command: Command) {
        let status = match Fabrics::of(&command.entry).fabrics_type {
            FabricsType::DISCONNECT => Status::SUCCESS,
            FabricsType::CONNECT => connect::refuse_another(self),
            FabricsType::PROPERTY_GET | FabricsType::PROPERTY_SET => {
                Status::INVALID_FIELD.do_not_retry()
            }
            _ => Status::INVALID_OPCODE.do_not_retry(),
        };
        self.respond(command.tag, Reply::status(status));
        if status.is_success() {
            self.close(CloseReason::Host);
        }
    }

    /// True while a command is executed.
    pub fn executes(&self) -> bool {
        self.idle.borrow().len() < self.slots.get()
    }

    /// True while a command of an I/O queue is executed.
    pub fn executes_io(&self) -> bool {
        matches!(self.role.get(), Some(Role::Io(_))) && self.executes()
    }

    /// True while a command is executed or an answer is on its way.
    pub fn is_busy(&self) -> bool {
        self.executes() || self.sending.get() > 0 || self.machine.borrow().unsent_bytes() > 0
    }

    /// A host with too many commands outstanding loses its controller with all queues, any other
    /// error costs the connection alone, as does whatever somebody does in a host's name.
    pub fn end_association(&self, end: End) {
        if end != End::TooManyCommands || !self.is_open() {
            return;
        }
        if let Some(Role::Io(queue)) = self.role.get() {
            self.core.abandon(queue.controller_id);
        }
    }

    /// The connection is gone: so is what it was connected to.
    pub fn forget(&self, reason: CloseReason) {
        self.core.sessions.borrow_mut().remove(&self.id);
        self.core.room.free_place(self.id);
        match self.role.get() {
            Some(Role::Admin(controller)) => self.core.end_controller(controller, reason),
            Some(Role::Io(queue)) => {
                self.tell_of_loss(reason);
                self.core
                    .detach(queue.controller_id, queue.queue_id, self.id);
            }
            None => {}
        }
    }

    /// A host that loses an I/O queue closes the rest by itself, and the end of its controller does
    /// not say why.
    fn tell_of_loss(&self, reason: CloseReason) {
        let loss = match reason {
            CloseReason::Network => Loss::Broken,
            CloseReason::Host if self.machine.borrow().outstanding() > 0 => Loss::MidCommand,
            _ => return,
        };
        if !self.is_open() {
            return;
        }
        let (host_nqn, subsystem_nqn) = self.names();
        self.core.report_refusal(Refused {
            host_nqn,
            host_address: self.host_address,
            subsystem_nqn,
            reason: RefusalReason::Lost(loss),
        });
    }
}
