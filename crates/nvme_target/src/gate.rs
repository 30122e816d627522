//! [`Gate`]: keeps a queue closed until its host has authenticated, and runs the authentication
//! where no queue has to wait for it.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use access::{HostKeys, Nqn};
use block::{BlockDevice, Buffer};
use nvme::authentication::{Authentication, Failure, requirement as wanted};
use nvme::fabrics::{Fabrics, FabricsType};
use nvme::{AdminOpcode, Status, SubmissionEntry};

use crate::authentication::{Authenticator, MESSAGE_BYTES_MAX, Verdict};
use crate::home::{AttachRequest, QueuePlace, Refusal};
use crate::refusals::Refused;
use crate::report::{CloseReason, RefusalReason, TargetEvent};
use crate::session::{Role, Session};
use crate::strangers::Lane;
use crate::transport::{Command, Reply};

/// A computation's price: that of the usual group.
const PROOF_PRICE: Duration = Duration::from_micros(1500);

/// What a host has to prove on one queue.
pub(crate) struct Gate {
    /// Away while it computes.
    authenticator: RefCell<Option<Authenticator>>,
    /// The host has proved it, or is to be closed out: see [`Gate::check`].
    open: Cell<bool>,
    keys: Arc<HostKeys>,
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

/// Closes the queue until its host has authenticated.
pub(crate) fn close<D: BlockDevice + 'static>(
    session: &Session<D>,
    keys: Arc<HostKeys>,
    host_nqn: Nqn,
    subsystem_nqn: Nqn,
) {
    let authenticator =
        Authenticator::new(Arc::clone(&keys), host_nqn.clone(), subsystem_nqn.clone());
    // A connection gets one role, and its gate with it.
    let _ = session.gate.set(Gate {
        authenticator: RefCell::new(Some(authenticator)),
        open: Cell::new(false),
        keys,
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
    // Anybody may discover, as often as it likes.
    if controller.is_discovery() {
        return;
    }
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
        let Some(message) = command.data.take() else {
            gate.authenticator.borrow_mut().replace(authenticator);
            return Reply::status(Status::DATA_SGL_LENGTH_INVALID.do_not_retry());
        };
        let address = session.host_address.ip();
        let Some(turn) = session.core.proofs.turn(address, &gate.host_nqn).await else {
            refuse(session, gate, RefusalReason::TooManyProofs);
            return Reply::status(Status::COMMAND_INTERRUPTED);
        };
        let strangers = &session.core.strangers;
        strangers.step(Lane::Proofs, session.id, PROOF_PRICE).await;
        if session.closing().is_some() {
            return Reply::status(Status::COMMAND_INTERRUPTED);
        }
        // Milliseconds of arithmetic: this core has queues to serve.
        authenticator = reactor::computing(move || {
            let mut authenticator = authenticator;
            let bytes = message.get(..length as usize).unwrap_or(&message);
            authenticator.receive(bytes);
            authenticator
        })
        .await;
        drop(turn);
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
    match authenticator.verdict() {
        Verdict::Open => {}
        Verdict::Passed => {
            if let Err(refusal) = open(session, gate).await {
                refuse(session, gate, refusal.reason);
            }
        }
        Verdict::Failed(failure) => {
            gate.open.set(false);
            refuse(session, gate, RefusalReason::NotAuthenticated(failure));
        }
    }
    gate.authenticator.borrow_mut().replace(authenticator);
    reply
}

/// The host has proved who it is: what it is connected to is its own from now on.
async fn open<D: BlockDevice + 'static>(
    session: &Rc<Session<D>>,
    gate: &Gate,
) -> Result<(), Refusal> {
    if gate.open.get() {
        return Ok(());
    }
    let core = &session.core;
    if core.host_keys(&gate.host_nqn, &gate.subsystem_nqn).as_ref() != Some(&gate.keys) {
        // It was another secret that it proved.
        let reason = RefusalReason::NotAuthenticated(Failure::FAILED);
        return Err(Refusal::passing(Status::AUTHENTICATION_REQUIRED, reason));
    }
    if let Some(Role::Admin(controller)) = session.role.get()
        && !controller.is_discovery()
    {
        let (subsystem, id) = (&gate.subsystem_nqn, controller.host_id);
        let taken = core.take_identifier(subsystem, id, (&gate.host_nqn, true))?;
        controller.identity.replace(Some(taken));
    }
    if let Some(Role::Io(queue)) = session.role.get() {
        let request = AttachRequest {
            controller_id: queue.controller_id,
            queue_id: queue.queue_id,
            host_nqn: gate.host_nqn.clone(),
            host_id: queue.host_id,
            subsystem_nqn: gate.subsystem_nqn.clone(),
            place: QueuePlace {
                core: core.identifiers.index,
                session: session.id,
            },
            joins: true,
        };
        let joined = core.attach(request).await?;
        let is_another = joined.instance != queue.instance;
        if session.closing().is_some() || is_another {
            // It has left before it joined, or the controller that it was for has.
            core.detach(queue.controller_id, queue.queue_id, session.id);
        }
        if is_another {
            let status = Status::COMMAND_SEQUENCE_ERROR;
            return Err(Refusal::passing(status, RefusalReason::NoController));
        }
        queue.traffic.set(true);
    }
    gate.open.set(true);
    session.admit();
    announce(session);
    Ok(())
}

/// The host has failed: its controller goes, once it was told why.
fn refuse<D: BlockDevice + 'static>(session: &Rc<Session<D>>, gate: &Gate, reason: RefusalReason) {
    session.core.report_refusal(Refused {
        host_nqn: Some(gate.host_nqn.clone()),
        host_address: session.host_address,
        subsystem_nqn: Some(gate.subsystem_nqn.clone()),
        reason,
    });
    session.close_once_told(CloseReason::Authentication);
}
