//! Rules over the cores: the first core decides for every namespace, one request after the other,
//! and answers once every core goes by the new rules.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use access::Nqn;
use block::BlockDevice;
use nvme::Status;
use nvme::event::AsyncEvent;
use nvme::reservation::{CAPABILITIES, NotificationType, PERSISTENCE};
use reactor::sync::MutexGuard;

use super::{Asked, Changed, NotInForce, Protection, Rules, Unkept};
use crate::home::{Message, OWNER};
use crate::io::GONE;
use crate::namespace::Namespace;
use crate::per_core::Core;
use crate::report::TargetEvent;
use crate::reservation::HostId;

/// How long another core may take to go by new rules, which may mean to wait for commands that
/// devices have.
const APPLY_TIMEOUT: Duration = Duration::from_secs(60);

/// New rules on their way to the other cores.
#[derive(Clone, Debug)]
pub(crate) struct News {
    pub subsystem_nqn: Nqn,
    pub nsid: u32,
    pub rules: Arc<Rules>,
    pub notices: Arc<Vec<(HostId, NotificationType)>>,
    /// Commands that began earlier have to end first.
    pub drain: bool,
}

impl<D: BlockDevice + 'static> Core<D> {
    /// RESCAP.
    pub fn reservation_capabilities(&self) -> u8 {
        CAPABILITIES | if self.keeps_rules() { PERSISTENCE } else { 0 }
    }

    /// Whether rules can survive a power loss. Write protection always does, so it is offered
    /// nowhere else.
    pub fn keeps_rules(&self) -> bool {
        self.keeper.borrow().is_some()
    }

    /// Does what another core asks for.
    pub fn receive_rules(self: &Rc<Self>, message: Message) {
        let core = Rc::clone(self);
        match message {
            Message::Ask {
                token,
                from,
                subsystem_nqn,
                nsid,
                host,
                name,
                asked,
            } => drop(reactor::spawn(async move {
                let decided = core.decide(&subsystem_nqn, nsid, (host, &name), asked);
                let result = decided.await;
                core.post(from, Message::Done { token, result });
            })),
            Message::Rules { token, from, news } => drop(reactor::spawn(async move {
                core.apply(&news).await;
                let result = Ok(());
                core.post(from, Message::Done { token, result });
            })),
            _ => {}
        }
    }

    /// Has the owner of a namespace's rules decide on what a host asks for, by its identifier and
    /// its name.
    pub async fn ask_for(
        &self,
        subsystem_nqn: &Nqn,
        nsid: u32,
        (host, name): (HostId, &Nqn),
        asked: Asked,
    ) -> Result<(), Status> {
        if self.identifiers.index == OWNER {
            let host = (host, name);
            return self.decide(subsystem_nqn, nsid, host, asked).await;
        }
        let (token, receiver) = self.ask(OWNER, |token| Message::Ask {
            token,
            from: self.identifiers.index,
            subsystem_nqn: subsystem_nqn.clone(),
            nsid,
            host,
            name: name.clone(),
            asked,
        });
        let answer = reactor::timeout(APPLY_TIMEOUT * 2, receiver).await;
        self.awaited.borrow_mut().remove(&token);
        match answer {
            Ok(Ok(answer)) => answer,
            _ => Err(Status::INTERNAL_ERROR),
        }
    }

    /// Decides on what a host asks for: on the owner alone.
    async fn decide(
        &self,
        subsystem_nqn: &Nqn,
        nsid: u32,
        (host, name): (HostId, &Nqn),
        asked: Asked,
    ) -> Result<(), Status> {
        let subsystem = self.subsystem(subsystem_nqn).ok_or(GONE)?;
        let namespace = subsystem.namespace(nsid).ok_or(GONE)?;
        let turn = namespace.changing.lock().await;
        // Who was denied it meanwhile changes nothing any more.
        if !subsystem.shows(nsid, name) {
            return Err(GONE);
        }
        let before = namespace.rules()?;
        let changed = before.asked(host, name.tag(), asked)?;
        let change = (&*before, changed);
        let done = self.put_in_force(subsystem_nqn, &namespace, &turn, change);
        let done = done.await;
        if let Err(NotInForce::Unkept(Unkept::Failed(problem))) = &done {
            tracing::error!(nsid, problem, "rules of a namespace cannot be kept");
        }
        if namespace.protection() != before.protection {
            self.report(TargetEvent::ProtectionChanged {
                host_nqn: name.clone(),
                subsystem_nqn: subsystem_nqn.clone(),
                nsid,
                protected: namespace.is_protected(),
            });
        }
        Ok(done?)
    }

    /// Has a namespace be protected as its administrator says: on the owner alone.
    pub async fn protect(
        &self,
        subsystem_nqn: &Nqn,
        nsid: u32,
        protection: Protection,
    ) -> Result<(), NotInForce> {
        assert_eq!(self.identifiers.index, OWNER, "another core decides");
        let subsystem = self.subsystem(subsystem_nqn);
        let namespace = subsystem.and_then(|subsystem| subsystem.namespace(nsid));
        let namespace = namespace.ok_or(NotInForce::Unserved)?;
        let turn = namespace.changing.lock().await;
        let before = namespace.rules()?;
        let change = (&*before, before.protected(protection));
        self.put_in_force(subsystem_nqn, &namespace, &turn, change)
            .await
    }

    /// Has new rules kept and every core go by them, in the turn of whoever changes them.
    async fn put_in_force(
        &self,
        subsystem_nqn: &Nqn,
        namespace: &Rc<Namespace<D>>,
        _turn: &MutexGuard<'_, ()>,
        (before, changed): (&Rules, Changed),
    ) -> Result<(), NotInForce> {
        if changed.rules == *before && !changed.drain {
            return Ok(());
        }
        let nsid = namespace.settings.nsid;
        self.keep((subsystem_nqn, nsid), before, &changed.rules)
            .await?;
        let news = News {
            subsystem_nqn: subsystem_nqn.clone(),
            nsid,
            rules: Arc::new(changed.rules),
            notices: Arc::new(changed.notices),
            drain: changed.drain,
        };
        self.spread(namespace, news).await?;
        if !changed.flush {
            return Ok(());
        }
        let flushed = namespace.device.flush().await;
        flushed.map_err(NotInForce::Unflushed)
    }

    /// Has rules written that are to survive a power loss, or forgotten that no longer are.
    async fn keep(
        &self,
        (nqn, nsid): (&Nqn, u32),
        before: &Rules,
        after: &Rules,
    ) -> Result<(), NotInForce> {
        let lasting = after.lasting();
        if lasting == before.lasting() {
            return Ok(());
        }
        let keeper = self.keeper.borrow().clone();
        let keeper = keeper.ok_or(Status::INVALID_FIELD.do_not_retry())?;
        Ok(keeper(nqn, nsid, lasting.map(Arc::new)).await?)
    }

    /// Makes every core go by new rules, this one first.
    async fn spread(&self, namespace: &Rc<Namespace<D>>, news: News) -> Result<(), NotInForce> {
        let others: Vec<_> = (0..self.identifiers.cores)
            .filter(|core| *core != self.identifiers.index)
            .map(|core| {
                let (from, news) = (self.identifiers.index, news.clone());
                self.ask(core, |token| Message::Rules { token, from, news })
            })
            .collect();
        self.apply_to(namespace, &news).await;
        let mut done = Ok(());
        for (token, receiver) in others {
            let answer = reactor::timeout(APPLY_TIMEOUT, receiver).await;
            self.awaited.borrow_mut().remove(&token);
            if !matches!(answer, Ok(Ok(Ok(())))) {
                // That core may go by the old rules: whoever asked has to ask again.
                done = Err(NotInForce::Late);
            }
        }
        done
    }

    /// Goes by new rules from now on.
    async fn apply(&self, news: &News) {
        let subsystem = self.subsystem(&news.subsystem_nqn);
        // A namespace that is being removed serves nobody.
        if let Some(namespace) = subsystem.and_then(|subsystem| subsystem.namespace(news.nsid)) {
            self.apply_to(&namespace, news).await;
        }
    }

    async fn apply_to(&self, namespace: &Namespace<D>, news: &News) {
        let was_protected = namespace.is_protected();
        namespace.set_rules(Some(&news.rules));
        let is_another = namespace.is_protected() != was_protected;
        for controller in self.controllers_of(&news.subsystem_nqn) {
            let view = controller.subsystem();
            if view.is_none_or(|view| view.namespace(news.nsid).is_none()) {
                continue;
            }
            if is_another {
                controller.namespace_changed(news.nsid);
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
