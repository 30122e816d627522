//! Reservations over the cores: the first core decides for every namespace, one request after the
//! other, and answers once every core serves by the new state.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use access::Nqn;
use block::BlockDevice;
use nvme::Status;
use nvme::event::AsyncEvent;
use nvme::reservation::{CAPABILITIES, NotificationType, PERSISTENCE};

use super::state::NO_ROOM;
use super::{HostId, Request, Reservations, Unkept};
use crate::home::{Message, OWNER};
use crate::namespace::Namespace;
use crate::per_core::Core;

/// How long another core may take to serve by a new state, which may mean to wait for commands
/// that devices have.
const APPLY_TIMEOUT: Duration = Duration::from_secs(60);

/// A new state on its way to the other cores.
#[derive(Clone, Debug)]
pub(crate) struct News {
    pub subsystem_nqn: Nqn,
    pub nsid: u32,
    pub state: Arc<Reservations>,
    pub notices: Arc<Vec<(HostId, NotificationType)>>,
    /// Commands that began earlier have to end first.
    pub drain: bool,
}

const GONE: Status = Status::INVALID_NAMESPACE.do_not_retry();

impl<D: BlockDevice + 'static> Core<D> {
    /// RESCAP.
    pub fn reservation_capabilities(&self) -> u8 {
        let kept = self.keeper.borrow().is_some();
        CAPABILITIES | if kept { PERSISTENCE } else { 0 }
    }

    /// Does what another core asks for.
    pub fn receive_reservation(self: &Rc<Self>, message: Message) {
        let core = Rc::clone(self);
        match message {
            Message::Reserve {
                token,
                from,
                subsystem_nqn,
                nsid,
                host,
                name,
                request,
            } => drop(reactor::spawn(async move {
                let decided = core.decide(&subsystem_nqn, nsid, (host, &name), request);
                let result = decided.await;
                core.post(from, Message::Done { token, result });
            })),
            Message::Reservations { token, from, news } => drop(reactor::spawn(async move {
                core.apply(&news).await;
                let result = Ok(());
                core.post(from, Message::Done { token, result });
            })),
            _ => {}
        }
    }

    /// Has the owner of a namespace's reservations decide on a request of a host, by its identifier
    /// and its name.
    pub async fn reserve(
        &self,
        subsystem_nqn: &Nqn,
        nsid: u32,
        (host, name): (HostId, &Nqn),
        request: Request,
    ) -> Result<(), Status> {
        if self.identifiers.index == OWNER {
            let host = (host, name);
            return self.decide(subsystem_nqn, nsid, host, request).await;
        }
        let (token, receiver) = self.ask(OWNER, |token| Message::Reserve {
            token,
            from: self.identifiers.index,
            subsystem_nqn: subsystem_nqn.clone(),
            nsid,
            host,
            name: name.clone(),
            request,
        });
        let answer = reactor::timeout(APPLY_TIMEOUT * 2, receiver).await;
        self.awaited.borrow_mut().remove(&token);
        match answer {
            Ok(Ok(answer)) => answer,
            _ => Err(Status::INTERNAL_ERROR),
        }
    }

    /// Decides on a request: on the owner alone.
    pub async fn decide(
        &self,
        subsystem_nqn: &Nqn,
        nsid: u32,
        (host, name): (HostId, &Nqn),
        request: Request,
    ) -> Result<(), Status> {
        let subsystem = self.subsystem(subsystem_nqn).ok_or(GONE)?;
        let namespace = subsystem.namespace(nsid).ok_or(GONE)?;
        let _turn = namespace.changing.lock().await;
        // Who was denied it meanwhile changes nothing any more.
        if !subsystem.shows(nsid, name) {
            return Err(GONE);
        }
        let before = namespace.reservations()?;
        let change = before.execute(host, name.tag(), request)?;
        if change.state == *before {
            return Ok(());
        }
        let state = Arc::new(change.state);
        self.keep(subsystem_nqn, nsid, &before, &state).await?;
        let news = News {
            subsystem_nqn: subsystem_nqn.clone(),
            nsid,
            state,
            notices: Arc::new(change.notices),
            drain: matches!(request, Request::PreemptAndAbort(..)),
        };
        self.spread(&namespace, news).await
    }

    /// Has a state written that is to survive a power loss, or forgotten that no longer is.
    async fn keep(
        &self,
        nqn: &Nqn,
        nsid: u32,
        before: &Reservations,
        state: &Arc<Reservations>,
    ) -> Result<(), Status> {
        if !before.persistent && !state.persistent {
            return Ok(());
        }
        let keeper = self.keeper.borrow().clone();
        let Some(keeper) = keeper else {
            return Err(Status::INVALID_FIELD.do_not_retry());
        };
        let kept = keeper(nqn, nsid, state.persistent.then(|| Arc::clone(state)));
        kept.await.map_err(|unkept| match unkept {
            Unkept::NoRoom => NO_ROOM,
            Unkept::Failed(problem) => {
                tracing::error!(nsid, problem, "reservations cannot be kept");
                Status::INTERNAL_ERROR
            }
        })
    }

    /// Makes every core serve by a new state, this one first.
    async fn spread(&self, namespace: &Rc<Namespace<D>>, news: News) -> Result<(), Status> {
        let others: Vec<_> = (0..self.identifiers.cores)
            .filter(|core| *core != self.identifiers.index)
            .map(|core| {
                let (from, news) = (self.identifiers.index, news.clone());
                self.ask(core, |token| Message::Reservations { token, from, news })
            })
            .collect();
        self.apply_to(namespace, &news).await;
        let mut done = Ok(());
        for (token, receiver) in others {
            let answer = reactor::timeout(APPLY_TIMEOUT, receiver).await;
            self.awaited.borrow_mut().remove(&token);
            if !matches!(answer, Ok(Ok(Ok(())))) {
                // That core may serve by the old state: the host has to ask again.
                done = Err(Status::INTERNAL_ERROR);
            }
        }
        done
    }

    /// Serves by a new state from now on.
    pub async fn apply(&self, news: &News) {
        let subsystem = self.subsystem(&news.subsystem_nqn);
        // A namespace that is being removed serves nobody.
        if let Some(namespace) = subsystem.and_then(|subsystem| subsystem.namespace(news.nsid)) {
            self.apply_to(&namespace, news).await;
        }
    }

    async fn apply_to(&self, namespace: &Namespace<D>, news: &News) {
        namespace.set_reservations(Some(&news.state));
        for controller in self.controllers_of(&news.subsystem_nqn) {
            let view = controller.subsystem();
            if view.is_none_or(|view| view.namespace(news.nsid).is_none()) {
                continue;
            }
            for (_, kind) in news
                .notices
                .iter()
                .filter(|(host, _)| *host == controller.host_id)
            {
                let told = controller.notices.borrow_mut().push(news.nsid, *kind);
                if told {
                    controller.raise(AsyncEvent::RESERVATION);
                }
            }
        }
        if news.drain {
            namespace.in_flight.drain().await;
        }
    }
}
