//! [`Gate`]: keeps a queue closed until its host has authenticated, and runs the authentication
//! where no queue has to wait for it.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use access::Nqn;
use block::{BlockDevice, Buffer};
use nvme::authentication::{Authentication, Failure, requirement as wanted};
use nvme::fabrics::{Fabrics, FabricsType};
use nvme::{AdminOpcode, Status, SubmissionEntry};

use crate::authentication::{Authenticator, MESSAGE_BYTES_MAX, Verdict};
use crate::refusals::Refused;
use crate::report::{CloseReason, RefusalReason, TargetEvent};
use crate::session::{Role, Session};
use crate::transport::{Command, Reply};

/// What a host has to prove on one queue.
pub(crate) struct Gate {
    /// Away while it computes.
    authenticator: RefCell<Option<Authenticator>>,
    /// The host has proved it, or is to be closed out: see [`Gate::check`].
    open: Cell<bool>,
    host_nqn: Nqn,
    subsystem_nqn: Nqn,
}

impl Gate {
    /// `Err` with what commands are answered while the host has not authenticated.
    pub fn check(&self) -> Result<(), Reply> {
        if self.open.get() {
            return Ok(());
        }
        Err(Reply::status(
            Status::AUTHENTICATION_REQUIRED.do_not_retry(),
        ))
    }
}

/// Closes the queue if its host has to authenticate.
pub(crate) fn close<D: BlockDevice + 'static>(
    session: &Session<D>,
    host_nqn: Nqn,
    subsystem_nqn: Nqn,
) {
    let Some(keys) = session.core.host_keys.borrow().get(&host_nqn).cloned() else {
        return;
    };
    let authenticator = Authenticator::new(keys, host_nqn.clone(), subsystem_nqn.clone());
    // A connection gets one role, and its gate with it.
    let _ = session.gate.set(Gate {
        authenticator: RefCell::new(Some(authenticator)),
        open: Cell::new(false),
        host_nqn,
        subsystem_nqn,
    });
}

/// AUTHREQ of the answer to Connect.
pub(crate) fn requirement<D>(session: &Session<D>) -> u32 {
    session.gate.get().map_or(0, |_| wanted::AUTHENTICATE)
}

/// Tells the node of a new controller, once nothing is left to prove.
pub(crate) fn announce<D: BlockDevice + 'static>(session: &Session<D>) {
    let Some(Role::Admin(controller)) = session.role.get() else {
        return;
    };
    if !session.is_open() || controller.announced.replace(true) {
        return;
    }
    controller.last_seen.set(reactor::now());
    session.core.report(TargetEvent::HostConnected {
        host_nqn: controller.host_nqn.clone(),
        host_id: controller.host_id,
        host_address: session.host_address,
        subsystem_nqn: controller.subsystem_nqn.clone(),
        controller_id: controller.id,
    });
}

/// True for Authentication Send and Authentication Receive.
pub(crate) fn is_authentication(entry: &SubmissionEntry) -> bool {
    entry.opcode == AdminOpcode::FABRICS.0
        && matches!(
            Fabrics::of(entry).fabrics_type,
            FabricsType::AUTHENTICATION_SEND | FabricsType::AUTHENTICATION_RECEIVE
        )
}

/// Executes Authentication Send or Authentication Receive.
pub(crate) async fn authenticate<D: BlockDevice + 'static>(
    session: &Rc<Session<D>>,
    gate: &Gate,
    command: &mut Command,
) -> Reply {
    let entry = *Authentication::of(&command.entry);
    let length = entry.length.get();
    if !entry.is_known() || length == 0 || length > MESSAGE_BYTES_MAX {
        return Reply::status(Status::INVALID_FIELD.do_not_retry());
    }
    let taken = gate.authenticator.borrow_mut().take();
    let Some(mut authenticator) = taken else {
        return Reply::status(Status::COMMAND_SEQUENCE_ERROR.do_not_retry());
    };
    let reply = if entry.fabrics_type == FabricsType::AUTHENTICATION_SEND {
        let message = command.data.take().unwrap_or_else(|| Buffer::new(0));
        // Milliseconds of arithmetic: this core has queues to serve.
        authenticator = reactor::blocking(move || {
            let mut authenticator = authenticator;
            let bytes = message.get(..length as usize).unwrap_or(&message);
            authenticator.receive(bytes);
            authenticator
        })
        .await;
        Reply::success()
    } else {
        let room = length.min(entry.data.length.get());
        match authenticator.transmit(room as usize) {
            Some(mut message) => {
                // The host gets as much as it asked for; beyond the message there are zeroes.
                message.resize(room as usize, 0);
                Reply::data(Buffer::copy_of(&message))
            }
            None => Reply::status(Status::COMMAND_SEQUENCE_ERROR.do_not_retry()),
        }
    };
    let verdict = authenticator.verdict();
    gate.authenticator.borrow_mut().replace(authenticator);
    gate.open.set(verdict == Verdict::Passed);
    match verdict {
        Verdict::Open => {}
        Verdict::Passed => announce(session),
        Verdict::Failed(failure) => refuse(session, gate, failure),
    }
    reply
}

/// The host has failed: its controller goes, once it was told why.
fn refuse<D: BlockDevice + 'static>(session: &Rc<Session<D>>, gate: &Gate, failure: Failure) {
    session.core.report_refusal(Refused {
        host_nqn: Some(gate.host_nqn.clone()),
        host_address: session.host_address,
        subsystem_nqn: Some(gate.subsystem_nqn.clone()),
        reason: RefusalReason::NotAuthenticated(failure),
    });
    session.close_once_told(CloseReason::Authentication);
}
