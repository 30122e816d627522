//! Connect (NVMe 2.0 §6.3): what a connection becomes.

use std::cell::Cell;
use std::rc::Rc;

use access::Nqn;
use block::BlockDevice;
use nvme::command::SubmissionEntry;
use nvme::fabrics::{
    CONTROLLER_ID_DYNAMIC, Connect, ConnectData, Fabrics, FabricsType, connect_attributes,
    connect_offset,
};
use nvme::text::from_terminated;
use nvme::{AdminOpcode, Status};
use zerocopy::FromBytes;

use crate::controller::{Controller, Host, Kind};
use crate::copy::Copies;
use crate::gate;
use crate::home::{AttachRequest, QueuePlace, Refusal};
use crate::io::IoQueue;
use crate::refusals::Refused;
use crate::report::{CloseReason, Fault, RefusalReason};
use crate::reservation::NO_HOST;
use crate::secure;
use crate::session::{Role, Session};
use crate::transport::{Command, Reply};

/// A connection whose Connect was refused so often is closed: no host tries again on the same one.
const REFUSED_CONNECTS_MAX: u32 = 3;

/// A volume that is not served now may be later: its pool is imported, say.
const NO_SUBSYSTEM: Refusal =
    Refusal::absent(connect_offset::SUBSYSTEM_NQN, RefusalReason::NoSubsystem);

/// The other host may be gone when this one comes again.
pub(crate) const IDENTIFIER_TAKEN: Refusal =
    Refusal::absent(connect_offset::HOST_ID, RefusalReason::IdentifierTaken);

/// Executes the first command of a connection, which must be Connect.
pub(crate) async fn connect<D: BlockDevice + 'static>(
    session: &Rc<Session<D>>,
    command: &Command,
) -> Reply {
    match establish(session, command).await {
        Ok(controller_id) => {
            session.admit();
            session.connected.notify_one();
            Reply::result(u64::from(controller_id) | u64::from(gate::requirement(session)))
        }
        Err(refusal) => {
            refuse(session, command, refusal.reason);
            Reply {
                result: refusal
                    .parameter
                    .map_or(0, |parameter| u64::from(parameter.result())),
                ..Reply::status(refusal.status)
            }
        }
    }
}

/// Tells the node, as far as the host said who it is.
fn refuse<D: BlockDevice + 'static>(
    session: &Rc<Session<D>>,
    command: &Command,
    reason: RefusalReason,
) {
    let bytes = command.data.as_deref().unwrap_or_default();
    let data = ConnectData::ref_from_prefix(bytes)
        .ok()
        .filter(|_| is_connect(&command.entry))
        .map(|(data, _)| data);
    let named = |field: &[u8]| from_terminated(field)?.parse().ok();
    let host_nqn = data.and_then(|data| match is_nameless(data) {
        true => made_name(data),
        false => named(&data.host_nqn),
    });
    let subsystem_nqn = data.and_then(|data| named(&data.subsystem_nqn));
    tell(session, (host_nqn, subsystem_nqn), reason);
    count(session);
}

/// Refuses what came in place of Connect, in a form that nothing reads.
pub(crate) fn refuse_unread<D: BlockDevice + 'static>(session: &Rc<Session<D>>) {
    let reason = RefusalReason::Malformed(Fault::Data);
    tell(session, (None, None), reason);
    count(session);
}

/// Refuses a Connect on a queue that is connected already, and goes on as it is.
pub(crate) fn refuse_another<D: BlockDevice + 'static>(session: &Session<D>) -> Status {
    let reason = RefusalReason::Malformed(Fault::Repeated);
    tell(session, session.names(), reason);
    Status::COMMAND_SEQUENCE_ERROR.do_not_retry()
}

fn tell<D: BlockDevice + 'static>(
    session: &Session<D>,
    (host_nqn, subsystem_nqn): (Option<Nqn>, Option<Nqn>),
    reason: RefusalReason,
) {
    session.core.report_refusal(Refused {
        host_nqn,
        host_address: session.host_address,
        subsystem_nqn,
        reason,
    });
}

/// Counts what one connection is refused; one that goes on is closed.
fn count<D: BlockDevice + 'static>(session: &Rc<Session<D>>) {
    let refusals = session.refused_connects.get() + 1;
    session.refused_connects.set(refusals);
    if refusals == REFUSED_CONNECTS_MAX {
        session.close_once_told(CloseReason::Refused);
    }
}

async fn establish<D: BlockDevice + 'static>(
    session: &Rc<Session<D>>,
    command: &Command,
) -> Result<u16, Refusal> {
    if !is_connect(&command.entry) {
        let status = Status::COMMAND_SEQUENCE_ERROR;
        return Err(Refusal::malformed(status, Fault::Missing));
    }
    let connect = Connect::of(&command.entry);
    let bytes = command.data.as_deref().unwrap_or_default();
    let (data, _) = ConnectData::ref_from_prefix(bytes)
        .map_err(|_| Refusal::malformed(Status::DATA_SGL_LENGTH_INVALID, Fault::Data))?;
    if connect.record_format.get() != 0 {
        let status = Status::CONNECT_INCOMPATIBLE_FORMAT;
        return Err(Refusal::malformed(status, Fault::Format));
    }
    let entries_max = session.core.settings.queue_entries_max;
    let entries = connect.queue_size.get().saturating_add(1);
    if entries < 2 || entries > entries_max {
        let offset = connect_offset::QUEUE_SIZE;
        return Err(Refusal::in_command(offset, Fault::QueueSize));
    }
    let subsystem = (connect_offset::SUBSYSTEM_NQN, Fault::SubsystemName);
    let subsystem_nqn = name(&data.subsystem_nqn, subsystem)?;
    let host_nqn = match is_nameless(data) {
        true => name_of_nameless(session, data, &subsystem_nqn)?,
        false => name(&data.host_nqn, (connect_offset::HOST_NQN, Fault::HostName))?,
    };
    secure::check(session, &host_nqn, &subsystem_nqn)?;
    let controller_id = if connect.queue_id.get() == 0 {
        connect_admin(session, connect, data, subsystem_nqn, host_nqn)?
    } else {
        connect_io(session, connect, data, subsystem_nqn, host_nqn).await?
    };
    let flow_control = connect.attributes & connect_attributes::DISABLE_FLOW_CONTROL == 0;
    session
        .machine
        .borrow_mut()
        .set_queue(entries, flow_control);
    Ok(controller_id)
}

fn is_connect(entry: &SubmissionEntry) -> bool {
    entry.opcode == AdminOpcode::FABRICS.0
        && Fabrics::of(entry).fabrics_type == FabricsType::CONNECT
}

fn name(field: &[u8], (offset, fault): (u16, Fault)) -> Result<Nqn, Refusal> {
    from_terminated(field)
        .and_then(|text| text.parse().ok())
        .ok_or(Refusal::in_data(offset, RefusalReason::Malformed(fault)))
}

/// SPDK's perf gives no host NQN unless it is told to.
fn is_nameless(data: &ConnectData) -> bool {
    data.host_nqn.first() == Some(&0)
}

/// The name under which a host without one is known, if it has an identifier.
fn made_name(data: &ConnectData) -> Option<Nqn> {
    (data.host_id != NO_HOST).then(|| Nqn::of_uuid(data.host_id))
}

/// Lets a host without a name in where any host may come, and nowhere else: no list means it.
fn name_of_nameless<D: BlockDevice + 'static>(
    session: &Session<D>,
    data: &ConnectData,
    subsystem_nqn: &Nqn,
) -> Result<Nqn, Refusal> {
    let core = &session.core;
    let is_for_any = core.is_discovery(subsystem_nqn)
        || core
            .subsystem(subsystem_nqn)
            .ok_or(NO_SUBSYSTEM)?
            .admits_anybody();
    let refusal = Refusal::in_data(connect_offset::HOST_NQN, RefusalReason::NoName);
    made_name(data).filter(|_| is_for_any).ok_or(refusal)
}

/// A new controller.
fn connect_admin<D: BlockDevice + 'static>(
    session: &Rc<Session<D>>,
    connect: &Connect,
    data: &ConnectData,
    subsystem_nqn: Nqn,
    host_nqn: Nqn,
) -> Result<u16, Refusal> {
    let core = &session.core;
    if data.controller_id.get() != CONTROLLER_ID_DYNAMIC {
        let reason = RefusalReason::Malformed(Fault::ControllerId);
        return Err(Refusal::in_data(connect_offset::CONTROLLER_ID, reason));
    }
    if core.stopping.get() {
        let status = Status::CONNECT_CONTROLLER_BUSY;
        return Err(Refusal::passing(status, RefusalReason::Stopping));
    }
    let kind = kind_for(session, &subsystem_nqn, &host_nqn)?;
    let id = core.free_controller_id().ok_or(Refusal::passing(
        Status::CONNECT_CONTROLLER_BUSY,
        RefusalReason::TooManyControllers,
    ))?;
    let host = Host {
        nqn: host_nqn.clone(),
        id: data.host_id,
        address: session.host_address,
        local_address: session.local_address,
        port_id: session.origin.port_id,
        paths: Rc::clone(&session.origin.paths),
    };
    // Of a host that has to prove who it is, once it has.
    let keys = core.host_keys(&host_nqn, &subsystem_nqn);
    let identity = match (&kind, &keys) {
        (Kind::Io(_), None) => {
            let host = (&host_nqn, session.secured.get().is_some());
            Some(core.take_identifier(&subsystem_nqn, data.host_id, host)?)
        }
        _ => None,
    };
    let controller = Rc::new(Controller::new(
        id,
        kind,
        subsystem_nqn.clone(),
        host,
        connect.keep_alive_ms.get(),
        Rc::downgrade(session),
    ));
    controller.identity.replace(identity);
    if let Some(subsystem) = core.subsystem(&subsystem_nqn) {
        let was_reset = subsystem.resetters.has((data.host_id, host_nqn.tag()));
        controller.was_reset.set(was_reset);
    }
    if session
        .role
        .set(Role::Admin(Rc::clone(&controller)))
        .is_err()
    {
        let status = Status::COMMAND_SEQUENCE_ERROR;
        return Err(Refusal::malformed(status, Fault::Repeated));
    }
    core.controllers.borrow_mut().insert(id, controller);
    if let Some(keys) = keys {
        gate::close(session, keys, host_nqn, subsystem_nqn);
    }
    gate::announce(session);
    Ok(id)
}

/// What a host gets access to, if it may have that.
fn kind_for<D: BlockDevice + 'static>(
    session: &Session<D>,
    subsystem_nqn: &Nqn,
    host_nqn: &Nqn,
) -> Result<Kind<D>, Refusal> {
    let core = &session.core;
    if core.is_discovery(subsystem_nqn) {
        let is_secured = session.secured.get().is_some();
        let name = core.discovery_name(subsystem_nqn, is_secured);
        return Ok(Kind::Discovery(name.clone()));
    }
    let subsystem = core
        .subsystem(subsystem_nqn)
        .filter(|subsystem| subsystem.settings.ports.contains(session.origin.port_id))
        .ok_or(NO_SUBSYSTEM)?;
    if !subsystem.admits(host_nqn) {
        let status = Status::CONNECT_INVALID_HOST;
        return Err(Refusal::lasting(status, RefusalReason::NotAllowed));
    }
    Ok(Kind::Io(subsystem.of_host(host_nqn)))
}

/// Another I/O queue of a controller, which may live on another core. A host that has to
/// authenticate only learns that it may: the queue joins once it has (see [`gate`]).
async fn connect_io<D: BlockDevice + 'static>(
    session: &Rc<Session<D>>,
    connect: &Connect,
    data: &ConnectData,
    subsystem_nqn: Nqn,
    host_nqn: Nqn,
) -> Result<u16, Refusal> {
    let core = &session.core;
    let (controller_id, queue_id) = (data.controller_id.get(), connect.queue_id.get());
    if queue_id > core.settings.io_queues_max {
        let offset = connect_offset::QUEUE_ID;
        return Err(Refusal::in_command(offset, Fault::QueueId));
    }
    let subsystem = core.subsystem(&subsystem_nqn).ok_or(NO_SUBSYSTEM)?;
    let keys = core.host_keys(&host_nqn, &subsystem_nqn);
    let request = AttachRequest {
        controller_id,
        queue_id,
        host_nqn: host_nqn.clone(),
        host_id: data.host_id,
        subsystem_nqn: subsystem_nqn.clone(),
        place: QueuePlace {
            core: core.identifiers.index,
            session: session.id,
        },
        joins: keys.is_none(),
    };
    session.joining.set(Some(controller_id));
    let joined = core.attach(request).await;
    session.joining.set(None);
    let joined = joined?;
    // Who was denied meanwhile gets no queue that a fence has not seen.
    if !subsystem.admits(&host_nqn) {
        core.detach(controller_id, queue_id, session.id);
        let status = Status::CONNECT_INVALID_HOST;
        return Err(Refusal::lasting(status, RefusalReason::NotAllowed));
    }
    let queue = IoQueue {
        controller_id,
        instance: joined.instance,
        queue_id,
        host_tag: host_nqn.tag(),
        host_nqn: host_nqn.clone(),
        host_id: data.host_id,
        subsystem: subsystem.of_host(&host_nqn),
        transfer_bytes_max: core.settings.connection.transfer_bytes_max,
        behaviour: joined.behaviour,
        paths: Rc::clone(&session.origin.paths),
        copies: Copies::default(),
        // Connecting is a sign of life of whoever has proved to be the host.
        traffic: Cell::new(keys.is_none()),
        gone: Cell::new(false),
    };
    // The connection may have got another role, or its end, while the other core answered.
    if session.closing().is_some() || session.role.set(Role::Io(queue)).is_err() {
        core.detach(controller_id, queue_id, session.id);
        let status = Status::COMMAND_SEQUENCE_ERROR;
        return Err(Refusal::passing(status, RefusalReason::NoController));
    }
    if let Some(keys) = keys {
        gate::close(session, keys, host_nqn, subsystem_nqn);
    }
    Ok(controller_id)
}
