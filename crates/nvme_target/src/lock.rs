//! Blocks that one command has to itself, on every core: what makes Compare and Write one step.
//!
//! The first core grants them, to one command of a namespace after the other. It has every core,
//! itself too, hold back commands that overlap and come later, and answers once those that came
//! earlier have ended everywhere. Where two hosts have a namespace of a drive, both are held back.
//! Commands that are no Compare and Write pay nothing but the look at a cell of their own core that
//! [`InFlight`] tells of.
//!
//! Nobody gives up waiting: what is waited for are commands that devices have, and a core that went
//! on without another's answer would break in upon a command there. A core that grants waits for
//! no lock of another namespace, and one that was asked for its part waits for no other core, so
//! these waits come to an end.

use std::rc::Rc;

use access::Nqn;
use block::{BlockDevice, BlockRange};
use nvme::Status;
use reactor::sync::oneshot;

use crate::home::{Done, Message, OWNER};
use crate::in_flight::{InFlight, Locked};
use crate::per_core::Core;

/// Blocks of a namespace.
#[derive(Clone, Debug)]
pub(crate) struct Blocks {
    pub subsystem_nqn: Nqn,
    pub nsid: u32,
    pub range: BlockRange,
}

/// Blocks that a command has to itself until it gives this back with [`Core::unlock`].
pub(crate) struct Lock<'a> {
    _here: Option<Locked<'a>>,
    /// Cores that were asked to hold them back, with the tokens of these requests.
    elsewhere: Vec<(u16, u64)>,
}

impl<D: BlockDevice + 'static> Core<D> {
    /// Gives a command of this core `blocks` to itself; `in_flight` is who uses them here.
    pub async fn lock<'a>(
        &self,
        blocks: &Blocks,
        in_flight: &'a InFlight,
    ) -> Result<Lock<'a>, Status> {
        if self.identifiers.index == OWNER {
            return self.lock_from_here(blocks, in_flight).await;
        }
        let (place, granted) = self.ask_to_lock(OWNER, blocks);
        answer(granted).await?;
        Ok(Lock {
            _here: None,
            elsewhere: vec![place],
        })
    }

    /// Holds back others on this core, and if it is the first on all cores.
    async fn lock_from_here<'a>(
        &self,
        blocks: &Blocks,
        in_flight: &'a InFlight,
    ) -> Result<Lock<'a>, Status> {
        let here = in_flight.lock(blocks.range).await;
        let below = if self.identifiers.index == OWNER {
            1..self.identifiers.cores
        } else {
            0..0
        };
        let asked: Vec<_> = below.map(|core| self.ask_to_lock(core, blocks)).collect();
        here.alone().await;
        let mut lock = Lock {
            _here: Some(here),
            elsewhere: Vec::with_capacity(asked.len()),
        };
        let mut refused = None;
        for (place, locked) in asked {
            match answer(locked).await {
                Ok(()) => lock.elsewhere.push(place),
                Err(status) => refused = Some(status),
            }
        }
        match refused {
            None => Ok(lock),
            Some(status) => {
                self.unlock(lock);
                Err(status)
            }
        }
    }

    /// Gives what [`Core::unlock`] needs to know, and where the answer comes.
    fn ask_to_lock(&self, core: u16, blocks: &Blocks) -> ((u16, u64), oneshot::Receiver<Done>) {
        let (from, blocks) = (self.identifiers.index, blocks.clone());
        let (token, answer) = self.ask(core, |token| Message::Lock {
            token,
            from,
            blocks,
        });
        ((core, token), answer)
    }

    /// Lets others use the blocks again, on every core.
    pub fn unlock(&self, lock: Lock) {
        let from = self.identifiers.index;
        for (core, token) in lock.elsewhere {
            self.post(core, Message::Unlock { token, from });
        }
    }

    /// Holds back others for the core `from`, until that says [`Message::Unlock`].
    pub fn lock_for(self: &Rc<Self>, from: u16, token: u64, blocks: Blocks) {
        let core = Rc::clone(self);
        drop(reactor::spawn(async move {
            let subsystem = core.subsystem(&blocks.subsystem_nqn);
            let in_flight = subsystem.and_then(|subsystem| subsystem.in_flight(blocks.nsid));
            let locked = match &in_flight {
                Some(in_flight) => core.lock_from_here(&blocks, in_flight).await,
                // Not all cores have it yet, or not all have it any more.
                None => Err(Status::NAMESPACE_NOT_READY),
            };
            let (sender, unlocked) = oneshot::channel::<()>();
            if locked.is_ok() {
                core.locks.borrow_mut().insert((from, token), sender);
            }
            let result = locked.as_ref().map(|_| ()).map_err(|status| *status);
            core.post(from, Message::Done { token, result });
            if let Ok(lock) = locked {
                // The sender is dropped, nothing is sent.
                let _ = unlocked.await;
                core.unlock(lock);
            }
        }));
    }

    /// Lets go of what [`Core::lock_for`] holds back.
    pub fn unlock_for(&self, from: u16, token: u64) {
        self.locks.borrow_mut().remove(&(from, token));
    }
}

async fn answer(answer: oneshot::Receiver<Done>) -> Done {
    answer.await.unwrap_or(Err(Status::INTERNAL_ERROR))
}
