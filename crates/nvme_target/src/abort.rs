//! Abort (NVMe 2.0 §5.1) of commands on I/O queues: those that wait for room, which have not begun,
//! and Copy, which is carried out in steps. What a device has is left to end by itself.

use std::rc::Rc;

use block::BlockDevice;
use nvme::Status;

use crate::home::{Done, Message, QueuePlace};
use crate::per_core::{ANSWER_TIMEOUT, Core};
use crate::session::{Role, Session};
use crate::transport::Reply;

/// Nothing was aborted.
const NOT_ABORTED: Done = Err(Status::INVALID_FIELD);

impl<D: BlockDevice + 'static> Core<D> {
    /// Aborts a command of an I/O queue, on whichever core that is; true once it has ended for
    /// that. One that ends later is aborted all the same.
    pub async fn abort(&self, place: QueuePlace, command_id: u16) -> bool {
        let from = self.identifiers.index;
        if place.core == from {
            let ended = self.abort_here(place.session, command_id);
            return reactor::timeout(ANSWER_TIMEOUT, ended).await == Ok(true);
        }
        let (token, answer) = self.ask(place.core, |token| Message::Abort {
            token,
            from,
            session: place.session,
            command_id,
        });
        let answer = reactor::timeout(ANSWER_TIMEOUT, answer).await;
        self.awaited.borrow_mut().remove(&token);
        matches!(answer, Ok(Ok(Ok(()))))
    }

    /// Does what another core asks for.
    pub fn abort_for(self: &Rc<Self>, (from, token): (u16, u64), session: u64, command_id: u16) {
        let core = Rc::clone(self);
        drop(reactor::spawn(async move {
            let result = match core.abort_here(session, command_id).await {
                true => Ok(()),
                false => NOT_ABORTED,
            };
            core.post(from, Message::Done { token, result });
        }));
    }

    async fn abort_here(&self, session: u64, command_id: u16) -> bool {
        let session = self.sessions.borrow().get(&session).cloned();
        match session {
            Some(session) => session.abort(command_id).await,
            None => false,
        }
    }
}

impl<D: BlockDevice + 'static> Session<D> {
    async fn abort(&self, command_id: u16) -> bool {
        if let Some(tag) = self.take_waiting(command_id) {
            self.respond(tag, Reply::status(Status::ABORT_REQUESTED));
            return true;
        }
        match self.role.get() {
            Some(Role::Io(queue)) => queue.copies.abort(command_id).await,
            _ => false,
        }
    }
}
