//! [`Instance`]: one life of a controller, and its end: when none of its commands has an effect any
//! more.
//!
//! A host that has lost a controller sends its commands again through another one. A write that the
//! lost one still has under way must not land after the same block was written anew. So the host
//! has the lost controller reset by the other one, and waits until that is done (Cross-Controller
//! Reset). Where it cannot, it waits as long as the lost controller said that it takes (CQT).
//!
//! The core of the lost controller ends it, which closes its connections on all cores. A command
//! that had not reached its device is refused from then on. One that had is waited for: each core
//! answers once it executes none.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use access::Nqn;
use block::BlockDevice;
use nvme::Status;
use reactor::sync::oneshot;

use crate::home::{Done, Message};
use crate::per_core::{ANSWER_TIMEOUT, Core};
use crate::report::CloseReason;
use crate::session::Role;

/// CQT: a device has a command for a minute, about. The kernel aborts what an NVMe drive does not
/// answer after 30 seconds, and resets the drive after 30 more; a pool takes a silent drive out of
/// use sooner. The rest is what we take ourselves to notice that a host is silent: its timeout is
/// rounded up twice to the granularity of a second, and looked at twice a second.
pub(crate) const QUIESCE_MS: u16 = 60_000 + 3_000;

/// How long a core waits at first, and at last, before it looks again.
const LOOK_PERIODS: [Duration; 2] = [Duration::from_millis(1), Duration::from_millis(50)];

/// One life of a controller: from when it is enabled until it is reset or ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Instance {
    pub controller_id: u16,
    /// CIU.
    pub uniquifier: u8,
    /// CIRN.
    pub random: u64,
}

impl Instance {
    /// A controller that has not been enabled: it takes no commands that matter.
    pub const fn not_enabled(controller_id: u16) -> Instance {
        Instance {
            controller_id,
            uniquifier: 0,
            random: 0,
        }
    }
}

/// A controller that is to be reset, and whose it has to be.
#[derive(Clone, Debug)]
pub(crate) struct Impacted {
    pub instance: Instance,
    pub host_nqn: Nqn,
    pub subsystem_nqn: Nqn,
}

/// The latest CIU of each controller identifier that was in use.
#[derive(Default)]
pub(crate) struct Uniquifiers(BTreeMap<u16, u8>);

impl Uniquifiers {
    /// The one after the latest, never 0; the first is `random`, so that nodes that are started
    /// again do not give the same ones.
    fn next(&mut self, controller_id: u16, random: u8) -> u8 {
        let latest = self.0.entry(controller_id).or_insert(random);
        *latest = latest.checked_add(1).unwrap_or(1);
        *latest
    }
}

impl<D: BlockDevice + 'static> Core<D> {
    /// Who a controller is that is enabled now.
    pub fn next_instance(&self, controller_id: u16) -> Instance {
        let mut random = [0; 9];
        getrandom::fill(&mut random).expect("the kernel gives random bytes");
        let [first, random @ ..] = random;
        Instance {
            controller_id,
            uniquifier: self.uniquifiers.borrow_mut().next(controller_id, first),
            random: u64::from_le_bytes(random),
        }
    }

    /// Ends a controller, on whichever core it lives. `Err` with [`Status::INVALID_CONTROLLER_ID`]
    /// says that this one is not there, or is there no more.
    pub async fn reset(&self, impacted: Impacted) -> Done {
        let id = impacted.instance.controller_id;
        if !self.identifiers.ids.contains(id) {
            // Another node may have it, of which nobody here can tell.
            return Err(Status::INVALID_FIELD.do_not_retry());
        }
        let home = self.identifiers.core_of(id);
        let from = self.identifiers.index;
        if home == from {
            return self.reset_here(&impacted);
        }
        let (token, answer) = self.ask(home, |token| Message::Reset {
            token,
            from,
            impacted,
        });
        let answer = reactor::timeout(ANSWER_TIMEOUT, answer).await;
        self.awaited.borrow_mut().remove(&token);
        match answer {
            Ok(Ok(answer)) => answer,
            _ => Err(Status::COMMAND_INTERRUPTED),
        }
    }

    /// Does what another core asks for.
    pub fn receive_reset(self: &Rc<Self>, message: Message) {
        match message {
            Message::Reset {
                token,
                from,
                impacted,
            } => {
                let result = self.reset_here(&impacted);
                self.post(from, Message::Done { token, result });
            }
            Message::Quiesce {
                token,
                from,
                instance,
            } => {
                let core = Rc::clone(self);
                drop(reactor::spawn(async move {
                    core.quiesce_here(instance).await;
                    let result = Ok(());
                    core.post(from, Message::Done { token, result });
                }));
            }
            Message::ResetSubsystem {
                subsystem_nqn,
                host,
            } => self.reset_subsystem_here(&subsystem_nqn, &host, None),
            _ => {}
        }
    }

    /// Ends a controller that lives here.
    fn reset_here(&self, impacted: &Impacted) -> Done {
        let controllers = self.controllers.borrow();
        let found = controllers.get(&impacted.instance.controller_id).cloned();
        drop(controllers);
        let found = found.filter(|found| found.instance.get() == impacted.instance);
        let found = found.ok_or(Status::INVALID_CONTROLLER_ID)?;
        let is_own =
            found.host_nqn == impacted.host_nqn && found.subsystem_nqn == impacted.subsystem_nqn;
        if !is_own {
            return Err(Status::INVALID_FIELD.do_not_retry());
        }
        self.end_controller(&found, CloseReason::Controller);
        Ok(())
    }

    /// Returns once no core executes a command of a controller that has ended. `Err`: a core is
    /// gone, and did not say.
    pub async fn quiesce(&self, instance: Instance) -> Done {
        let from = self.identifiers.index;
        let others = (0..self.identifiers.cores).filter(|core| *core != from);
        let ask = |core| {
            let (_, answer) = self.ask(core, |token| Message::Quiesce {
                token,
                from,
                instance,
            });
            answer
        };
        let answers: Vec<oneshot::Receiver<Done>> = others.map(ask).collect();
        self.quiesce_here(instance).await;
        for answer in answers {
            answer.await.unwrap_or(Err(Status::INTERNAL_ERROR))?;
        }
        Ok(())
    }

    async fn quiesce_here(&self, instance: Instance) {
        let [mut period, most] = LOOK_PERIODS;
        while self.acts_here(instance) {
            reactor::sleep(period).await;
            period = (period * 2).min(most);
        }
    }

    /// True while a connection executes something for a controller that has ended, or may yet: one
    /// that asks to join as an I/O queue has been answered before, or is refused. I/O queues that
    /// were not told of the end are closed.
    fn acts_here(&self, instance: Instance) -> bool {
        let mut acts = false;
        for session in self.served.borrow().values() {
            acts |= match session.role.get() {
                Some(Role::Io(queue)) if queue.instance == instance => {
                    session.close(CloseReason::Controller);
                    session.executes()
                }
                // It is closed with its controller.
                Some(Role::Admin(controller)) if controller.instance.get() == instance => {
                    session.closing().is_none() || session.executes()
                }
                None => session.joining.get() == Some(instance.controller_id),
                Some(_) => false,
            };
        }
        acts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_controller_identifier_that_is_used_again_has_another_uniquifier() {
        let mut uniquifiers = Uniquifiers::default();
        let mut latest = uniquifiers.next(7, 250);
        for _ in 0..1000 {
            let next = uniquifiers.next(7, 250);
            assert!(next != 0 && next != latest, "{next} after {latest}");
            latest = next;
        }
        assert_ne!(uniquifiers.next(8, 255), 0);
    }
}
