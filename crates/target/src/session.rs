//! [`Session`]: one connection with what it is connected to, without its socket.

use std::cell::{Cell, OnceCell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;

use block::BlockDevice;
use nvme::command::command_flags;
use nvme::fabrics::{Fabrics, FabricsType};
use nvme::{AdminOpcode, Direction, Status};
use reactor::sync::{Notify, Signal};

use crate::connect;
use crate::controller::Controller;
use crate::io::IoQueue;
use crate::per_core::Core;
use crate::report::CloseReason;
use crate::transport::{Command, Connection, End, Reply, Tag, Work};

/// What a connection is, once Connect has said so.
pub(crate) enum Role<D> {
    /// An admin queue.
    Admin(Rc<Controller<D>>),
    /// An I/O queue.
    Io(IoQueue<D>),
}

/// One connection.
pub(crate) struct Session<D> {
    pub id: u64,
    pub core: Rc<Core<D>>,
    pub port_id: u16,
    pub host_address: SocketAddr,
    pub local_address: SocketAddr,
    pub machine: RefCell<Connection>,
    pub role: OnceCell<Role<D>>,
    /// Connect has succeeded.
    pub connected: Notify,
    /// There is something to send.
    pub transmit: Notify,
    /// Something was sent.
    pub sent: Notify,
    /// Bytes handed to the socket and not sent yet.
    pub sending: Cell<usize>,
    /// The connection is to be closed.
    closed: Notify,
    closing: Cell<Option<CloseReason>>,
    /// Data bytes that reads in execution may yet add to the outbox.
    reading: Cell<usize>,
    /// Slots that wait for a command.
    idle: RefCell<Vec<Rc<Slot>>>,
    slots: Cell<usize>,
    ended: Notify,
}

/// Where a looping task gets its next command from; `None` ends it.
type Slot = Signal<Option<Work>>;

impl<D: BlockDevice + 'static> Session<D> {
    pub fn new(
        core: Rc<Core<D>>,
        id: u64,
        port_id: u16,
        host_address: SocketAddr,
        local_address: SocketAddr,
    ) -> Session<D> {
        Session {
            id,
            port_id,
            host_address,
            local_address,
            machine: RefCell::new(Connection::new(core.settings.connection)),
            core,
            role: OnceCell::new(),
            connected: Notify::new(),
            transmit: Notify::new(),
            sent: Notify::new(),
            sending: Cell::new(0),
            closed: Notify::new(),
            closing: Cell::new(None),
            reading: Cell::new(0),
            idle: RefCell::default(),
            slots: Cell::new(0),
            ended: Notify::new(),
        }
    }

    /// Asks for the connection to be closed; the first reason counts.
    pub fn close(&self, reason: CloseReason) {
        if self.closing.get().is_none() {
            self.closing.set(Some(reason));
            self.closed.notify_one();
            self.transmit.notify_one();
            self.sent.notify_one();
        }
    }

    /// Returns when the connection is to be closed. For one caller at a time.
    pub async fn wait_for_close(&self) {
        while self.closing.get().is_none() {
            self.closed.notified().await;
        }
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
    /// as the host uses more of its queue. Stops when reads have filled the room for their data:
    /// true says that commands are left.
    pub fn dispatch(self: &Rc<Self>) -> bool {
        loop {
            let mut machine = self.machine.borrow_mut();
            let unsent = machine.outbox().len_bytes() + self.sending.get() + self.reading.get();
            if unsent > self.core.settings.read_bytes_max {
                return machine.has_work();
            }
            let Some(work) = machine.take_work() else {
                return false;
            };
            drop(machine);
            self.reading.set(self.reading.get() + read_bytes(&work));
            let idle = self.idle.borrow_mut().pop();
            let slot = idle.unwrap_or_else(|| self.start_slot());
            slot.set(Some(work));
        }
    }

    fn start_slot(self: &Rc<Self>) -> Rc<Slot> {
        let slot = Rc::new(Slot::new());
        self.slots.set(self.slots.get() + 1);
        drop(reactor::spawn(Rc::clone(self).run_slot(Rc::clone(&slot))));
        slot
    }

    async fn run_slot(self: Rc<Self>, slot: Rc<Slot>) {
        while let Some(work) = slot.wait().await {
            let bytes = read_bytes(&work);
            self.execute(work).await;
            self.reading.set(self.reading.get() - bytes);
            if self.closing.get().is_some() {
                break;
            }
            self.idle.borrow_mut().push(Rc::clone(&slot));
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

    async fn execute(self: &Rc<Self>, work: Work) {
        match (work, self.role.get()) {
            (Work::One(command), Some(Role::Io(queue))) => {
                if command.entry.opcode == AdminOpcode::FABRICS.0 {
                    return self.queue_fabrics(command);
                }
                let tag = command.tag;
                let reply = queue.execute(command).await;
                self.respond(tag, reply);
            }
            (Work::One(command), Some(Role::Admin(controller))) => {
                let tag = command.tag;
                if let Some(reply) = controller.execute(self, command).await {
                    self.respond(tag, reply);
                }
            }
            (Work::One(command), None) => {
                let tag = command.tag;
                let reply = connect::connect(self, &command).await;
                self.respond(tag, reply);
            }
            (Work::Fused(first, second), Some(Role::Io(queue))) => {
                let tags = (first.tag, second.tag);
                let (first, second) = queue.execute_fused(first, second).await;
                self.respond(tags.0, first);
                self.respond(tags.1, second);
            }
            (Work::Fused(first, second), _) => {
                let invalid = Status::INVALID_FIELD.do_not_retry();
                self.respond(first.tag, Reply::status(invalid));
                self.respond(second.tag, Reply::status(invalid));
            }
        }
    }

    /// Fabrics commands of an I/O queue: only Disconnect has a meaning there.
    fn queue_fabrics(&self, command: Command) {
        let status = match Fabrics::of(&command.entry).fabrics_type {
            FabricsType::DISCONNECT => Status::SUCCESS,
            FabricsType::CONNECT => Status::COMMAND_SEQUENCE_ERROR.do_not_retry(),
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

    /// True while a command is executed or an answer is on its way.
    pub fn is_busy(&self) -> bool {
        self.idle.borrow().len() < self.slots.get()
            || self.sending.get() > 0
            || !self.machine.borrow_mut().outbox().is_empty()
    }

    /// A host with too many commands outstanding loses its controller with all queues, any other
    /// error costs the connection alone.
    pub fn end_association(&self, end: End) {
        if end != End::TooManyCommands {
            return;
        }
        if let Some(Role::Io(queue)) = self.role.get() {
            self.core.abandon(queue.controller_id);
        }
    }

    /// The connection is gone: so is what it was connected to.
    pub fn forget(&self, reason: CloseReason) {
        self.core.sessions.borrow_mut().remove(&self.id);
        match self.role.get() {
            Some(Role::Admin(controller)) => self.core.end_controller(controller, reason),
            Some(Role::Io(queue)) => {
                self.core
                    .detach(queue.controller_id, queue.queue_id, self.id);
            }
            None => {}
        }
    }
}

/// Bytes of data that the answer may carry.
fn read_bytes(work: &Work) -> usize {
    match work {
        Work::One(command)
            if Direction::of(command.entry.opcode) == Direction::ToHost
                && command.entry.flags & command_flags::FUSED_MASK == 0 =>
        {
            command.entry.data.length.get() as usize
        }
        _ => 0,
    }
}
