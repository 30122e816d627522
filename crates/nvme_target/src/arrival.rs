//! How a connection arrives and leaves, whatever its transport.

use std::net::SocketAddr;
use std::rc::Rc;

use block::BlockDevice;

use crate::per_core::Core;
use crate::refusals::Refused;
use crate::report::{CloseReason, RefusalReason};
use crate::session::{Origin, Session};

impl<D: BlockDevice + 'static> Session<D> {
    /// A new connection, if there is a place for it.
    pub fn welcome(
        core: &Rc<Core<D>>,
        origin: &Origin,
        host_address: SocketAddr,
        local_address: SocketAddr,
    ) -> Option<Rc<Session<D>>> {
        let id = core.session_count.get() + 1;
        if !core.take_place(id, host_address.ip()) {
            core.report_refusal(Refused {
                host_nqn: None,
                host_address,
                subsystem_nqn: None,
                reason: RefusalReason::TooManyConnections,
            });
            return None;
        }
        core.session_count.set(id);
        let (served, origin) = (Rc::clone(core), origin.clone());
        let session = Rc::new(Session::new(
            served,
            id,
            origin,
            host_address,
            local_address,
        ));
        core.sessions.borrow_mut().insert(id, Rc::clone(&session));
        Some(session)
    }

    /// The connection is served from now on, until [`Session::leave`].
    pub fn enter(self: &Rc<Self>) {
        let core = &self.core;
        core.serving.set(core.serving.get() + 1);
        core.served.borrow_mut().insert(self.id, Rc::clone(self));
        if core.stopping.get() {
            self.close(CloseReason::Shutdown);
        }
    }

    /// Nothing of the connection is left.
    pub fn leave(&self) {
        let core = &self.core;
        core.served.borrow_mut().remove(&self.id);
        core.serving.set(core.serving.get() - 1);
    }
}
