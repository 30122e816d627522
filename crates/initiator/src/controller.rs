//! [`Controller`]: a handle on a controller that keeps itself alive, and comes back if asked to.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use block::Buffer;
use nvme::event::AsyncEvent;
use nvme::feature::Feature;
use nvme::identify::{Cns, ControllerData, IDENTIFY_BYTES, Identify};
use nvme::log::{GetLogPage, LogPage};
use nvme::{CompletionEntry, SubmissionEntry};
use reactor::sync::{Notify, Queue};
use reactor::{CancelOnDrop, spawn, timeout};

use crate::connection::Data;
use crate::establish::{Session, command, get_feature_entry, set_feature_entry};
use crate::fence::Fence;
use crate::queue::QueuePair;
use crate::supervise::supervise;
use crate::{ConnectOptions, Endpoint, Error, LossReason, Namespace};

/// Events kept for [`Controller::next_event`]; beyond them the oldest is dropped.
const EVENTS_KEPT: usize = 64;

/// Whether a controller can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It takes commands.
    Live,
    /// Lost, and being reconnected to; I/O waits.
    Connecting,
    /// Given up; I/O fails, and works again if the controller comes back
    /// ([`Reconnect::afterwards`](crate::Reconnect::afterwards)).
    Failing(LossReason),
    /// Disconnected, or lost for good.
    Dead(LossReason),
}

/// A connected controller. Clones are handles on the same one; it is disconnected when the last of
/// them, and of its [`Namespace`]s, is dropped.
#[derive(Clone)]
pub struct Controller(Rc<Handle>);

struct Handle {
    shared: Rc<Shared>,
    _supervisor: CancelOnDrop<()>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.shared.end(LossReason::Disconnected);
    }
}

/// What handles and the supervising task share.
pub(crate) struct Shared {
    /// Where the subsystem is reached; at least one.
    pub(crate) paths: Vec<Endpoint>,
    /// Which of them is in use, or was last.
    pub(crate) path: Cell<usize>,
    pub(crate) subsystem_nqn: String,
    pub(crate) options: ConnectOptions,
    pub(crate) session: RefCell<Option<Rc<Session>>>,
    /// What writes wait for.
    pub(crate) fence: Fence,
    pub(crate) state: Cell<State>,
    /// Why the latest attempt to reconnect failed.
    pub(crate) failure: RefCell<Option<Error>>,
    pub(crate) changed: Notify,
    pub(crate) events: Queue<AsyncEvent>,
    next_queue: Cell<usize>,
}

impl Shared {
    /// The controller is gone and stays so.
    pub(crate) fn end(&self, reason: LossReason) {
        if !matches!(self.state.get(), State::Dead(_)) {
            self.state.set(State::Dead(reason));
        }
        if let Some(session) = self.session.borrow_mut().take() {
            session.close(reason);
        }
        self.events.close();
        self.changed.notify_all();
    }

    /// Keeps an event for whoever asks next; the oldest gives way when nobody does.
    pub(crate) fn keep_event(&self, event: AsyncEvent) {
        if self.events.len() >= EVENTS_KEPT {
            let _ = self.events.try_pop();
        }
        // Fails only once the controller is dead, when nobody is told anything any more.
        let _ = self.events.try_push(event);
    }

    /// Whether a controller by another path may take over.
    pub(crate) fn changes_paths(&self) -> bool {
        self.paths.len() > 1 && self.options.reconnect.is_some()
    }

    /// The session in use; `None` while there is none.
    fn live_session(&self) -> Option<Rc<Session>> {
        let session = self.session.borrow();
        session
            .as_ref()
            .filter(|_| self.state.get() == State::Live)
            .cloned()
    }

    /// An I/O queue, in turn, for a command; waits while the controller is being reconnected to,
    /// and with what changes data until nothing of a lost controller can land any more.
    pub(crate) async fn io_queue(&self, opcode: u8) -> Result<QueuePair, LossReason> {
        loop {
            if let State::Dead(reason) | State::Failing(reason) = self.state.get() {
                return Err(reason);
            }
            if !self.fence.holds(opcode)
                && let Some(queue) = self.next_live_queue()
            {
                return Ok(queue);
            }
            self.changed.notified().await;
        }
    }

    fn next_live_queue(&self) -> Option<QueuePair> {
        let session = self.session.borrow();
        let queues = &session.as_ref()?.io;
        let queue = queues.get(self.next_queue.get() % queues.len().max(1))?;
        self.next_queue.set(self.next_queue.get().wrapping_add(1));
        (queue.loss().is_none()).then(|| queue.clone())
    }
}

/// A session by the first path that takes one, and which path that is.
async fn first_session(
    paths: &[Endpoint],
    subsystem_nqn: &str,
    options: &ConnectOptions,
) -> Result<(usize, Session), Error> {
    let mut first = None;
    for (path, endpoint) in paths.iter().enumerate() {
        match Session::establish_in_time(*endpoint, subsystem_nqn, options).await {
            Ok(session) => return Ok((path, session)),
            Err(error) => first = first.or(Some(error)),
        }
    }
    Err(first.unwrap_or(Error::Option {
        option: "paths",
        found: "none".to_owned(),
        allowed: "at least one is required",
    }))
}

impl Controller {
    /// Connects to a subsystem (the discovery subsystem included) at `endpoint`, which is a
    /// [`TargetAddress`](crate::TargetAddress), or an address over TCP.
    ///
    /// # Errors
    /// [`Error`] when the first attempt fails; later losses are a matter of
    /// [`ConnectOptions::reconnect`].
    pub async fn connect(
        endpoint: impl Into<Endpoint>,
        subsystem_nqn: &str,
        options: ConnectOptions,
    ) -> Result<Controller, Error> {
        Controller::connect_by(&[endpoint.into()], subsystem_nqn, options).await
    }

    /// Connects by the first of several `paths` to a subsystem that takes the connection. There
    /// is one connection at a time. When it is lost, and [`ConnectOptions::reconnect`] says so,
    /// a controller is connected to by the next path, in turn. So it is where a namespace is
    /// not accessible by the path in use.
    ///
    /// # Errors
    /// [`Error`] of the first path, if the first attempt by each of them fails, or if there is
    /// none.
    pub async fn connect_by(
        paths: &[Endpoint],
        subsystem_nqn: &str,
        options: ConnectOptions,
    ) -> Result<Controller, Error> {
        options.check()?;
        for endpoint in paths {
            options.check_for(endpoint.transport)?;
        }
        let (path, session) = first_session(paths, subsystem_nqn, &options).await?;
        let shared = Rc::new(Shared {
            paths: paths.to_vec(),
            path: Cell::new(path),
            subsystem_nqn: subsystem_nqn.to_owned(),
            options,
            session: RefCell::new(Some(Rc::new(session))),
            fence: Fence::default(),
            state: Cell::new(State::Live),
            failure: RefCell::default(),
            changed: Notify::new(),
            events: Queue::bounded(EVENTS_KEPT),
            next_queue: Cell::new(0),
        });
        let supervisor = spawn(supervise(Rc::clone(&shared))).cancel_on_drop();
        Ok(Controller(Rc::new(Handle {
            shared,
            _supervisor: supervisor,
        })))
    }

    /// Whether the controller can be used.
    pub fn state(&self) -> State {
        self.0.shared.state.get()
    }

    /// Why the connection in use is lost, or the controller given up, if it is.
    pub fn loss(&self) -> Option<LossReason> {
        if let State::Dead(reason) | State::Failing(reason) = self.state() {
            return Some(reason);
        }
        let session = self.0.shared.session.borrow();
        let session = session.as_ref()?;
        let mut queues = session.io.iter().chain([&session.admin]);
        queues.find_map(QueuePair::loss)
    }

    /// Why the latest attempt to get the controller back failed, in words.
    pub fn last_failure(&self) -> Option<String> {
        let failure = self.0.shared.failure.borrow();
        failure.as_ref().map(Error::to_string)
    }

    /// Waits until the state changes.
    pub async fn state_changed(&self) -> State {
        let before = self.state();
        while self.state() == before {
            self.0.shared.changed.notified().await;
        }
        self.state()
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.0.shared
    }

    fn session(&self) -> Result<Rc<Session>, Error> {
        self.0
            .shared
            .live_session()
            .ok_or_else(|| match self.state() {
                State::Dead(reason) | State::Failing(reason) => Error::ConnectionLost(reason),
                _ => Error::ConnectionLost(LossReason::Closed),
            })
    }

    /// CNTLID.
    ///
    /// # Errors
    /// While there is no connection.
    pub fn controller_id(&self) -> Result<u16, Error> {
        Ok(self.session()?.controller_id)
    }

    /// Identify Controller, as read when the controller was connected.
    ///
    /// # Errors
    /// While there is no connection.
    pub fn identify(&self) -> Result<Rc<ControllerData>, Error> {
        Ok(Rc::clone(&self.session()?.data))
    }

    /// I/O queue number `index` from 0, for commands as they are. After a loss they are not kept
    /// back, as those of a [`Namespace`] are, until the lost controller has ended.
    ///
    /// # Errors
    /// While there is no connection, or no such queue.
    pub fn queue(&self, index: usize) -> Result<QueuePair, Error> {
        let session = self.session()?;
        session.io.get(index).cloned().ok_or(Error::Option {
            option: "I/O queue",
            found: index.to_string(),
            allowed: "fewer than were granted",
        })
    }

    /// How many I/O queues there are.
    pub fn queue_count(&self) -> usize {
        self.session().map_or(0, |session| session.io.len())
    }

    /// Header digests and data digests, as agreed on the admin queue.
    ///
    /// # Errors
    /// While there is no connection.
    pub fn digests(&self) -> Result<(bool, bool), Error> {
        Ok(self.session()?.admin.digests())
    }

    /// Any admin command as it is; the completion is returned whatever its status.
    pub async fn admin(
        &self,
        entry: SubmissionEntry,
        data: Data,
    ) -> (Data, Result<CompletionEntry, Error>) {
        let session = match self.session() {
            Ok(session) => session,
            Err(error) => return (data, Err(error)),
        };
        let (data, result) = session.admin.submit(entry, data).await;
        (data, result.map_err(Error::ConnectionLost))
    }

    /// An admin command that returns `bytes` of data and must succeed.
    async fn fetch(&self, entry: SubmissionEntry, bytes: usize) -> Result<Buffer, Error> {
        let data = Data::In(Buffer::zeroed(bytes));
        let (data, _) = command(&self.session()?.admin, entry, data).await?;
        data.into_buffer().ok_or(Error::Nonsense("answer"))
    }

    /// Identify with any CNS.
    ///
    /// # Errors
    /// [`Error::Command`] with the controller's status, or the loss of the connection.
    pub async fn identify_structure(&self, cns: Cns, namespace_id: u32) -> Result<Buffer, Error> {
        self.fetch(*Identify::new(cns, namespace_id).entry(), IDENTIFY_BYTES)
            .await
    }

    /// Namespace identifiers that can be used on this controller, rising.
    ///
    /// # Errors
    /// [`Error::Command`] with the controller's status, or the loss of the connection.
    pub async fn active_namespaces(&self) -> Result<Vec<u32>, Error> {
        let mut found = Vec::new();
        loop {
            let after = found.last().copied().unwrap_or(0);
            let list = self
                .identify_structure(Cns::ACTIVE_NAMESPACES, after)
                .await?;
            let (entries, _) = list.as_chunks::<4>();
            let page = entries.iter().map(|entry| u32::from_le_bytes(*entry));
            let before = found.len();
            found.extend(page.take_while(|namespace_id| *namespace_id > after));
            if found.len() - before < entries.len() {
                return Ok(found);
            }
        }
    }

    /// A namespace as a block device.
    ///
    /// # Errors
    /// [`Error::Namespace`] when it is not there or not of a format that can be used.
    pub async fn namespace(&self, namespace_id: u32) -> Result<Namespace, Error> {
        Namespace::open(self.clone(), namespace_id).await
    }

    /// `bytes` (a multiple of 4) of a log page from `offset`.
    ///
    /// # Errors
    /// [`Error::Command`] with the controller's status, or the loss of the connection.
    pub async fn log_page(
        &self,
        page: LogPage,
        namespace_id: u32,
        offset: u64,
        bytes: usize,
    ) -> Result<Buffer, Error> {
        let length = u32::try_from(bytes)
            .ok()
            .filter(|length| length % 4 == 0 && *length > 0);
        let Some(length) = length else {
            return Err(Error::Option {
                option: "log page bytes",
                found: bytes.to_string(),
                allowed: "a positive multiple of 4",
            });
        };
        self.fetch(
            *GetLogPage::new(page, namespace_id, offset, length).entry(),
            bytes,
        )
        .await
    }

    /// A feature's current value.
    ///
    /// # Errors
    /// [`Error::Command`] with the controller's status, or the loss of the connection.
    pub async fn get_feature(&self, feature: Feature, dword11: u32) -> Result<u32, Error> {
        let entry = get_feature_entry(feature, dword11);
        let (_, completion) = command(&self.session()?.admin, entry, Data::None).await?;
        Ok(completion.result.get() as u32)
    }

    /// Sets a feature that takes no data; returns the result.
    ///
    /// # Errors
    /// [`Error::Command`] with the controller's status, or the loss of the connection.
    pub async fn set_feature(&self, feature: Feature, value: u32) -> Result<u32, Error> {
        let entry = set_feature_entry(feature, value);
        let (_, completion) = command(&self.session()?.admin, entry, Data::None).await?;
        Ok(completion.result.get() as u32)
    }

    /// The next asynchronous event; `None` once the controller is dead.
    pub async fn next_event(&self) -> Option<AsyncEvent> {
        self.0.shared.events.pop().await
    }

    /// Shuts the controller down in order and closes the connections.
    pub async fn disconnect(&self) {
        if let Ok(session) = self.session() {
            // Whether it answers or not: the connections are closed either way.
            drop(timeout(self.0.shared.options.connect_timeout, session.shut_down()).await);
        }
        self.0.shared.end(LossReason::Disconnected);
    }
}
