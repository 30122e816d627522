//! Reservation commands of I/O queues: from their fields to a [`Request`], and the report.

use block::{BlockDevice, Buffer};
use nvme::reservation::{
    EXTENDED, Keys, NO_CONTROLLER, Registrant, ReportHeader, Reservation, ReservationType, action,
};
use nvme::{IoOpcode, Status, SubmissionEntry};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, FromZeros, IntoBytes};

use super::{NO_HOST, Request, Reservations};
use crate::io::IoQueue;
use crate::per_core::Core;
use crate::rules::Asked;
use crate::transport::Reply;

/// CPTPL: bits 7:6 of the last byte of the dword.
const CHANGE_PERSISTENCE: [Option<bool>; 4] = [None, None, Some(false), Some(true)];

/// True for the commands of this page.
pub(crate) fn is_reservation(opcode: u8) -> bool {
    matches!(
        IoOpcode(opcode),
        IoOpcode::RESERVATION_REGISTER
            | IoOpcode::RESERVATION_REPORT
            | IoOpcode::RESERVATION_ACQUIRE
            | IoOpcode::RESERVATION_RELEASE
    )
}

/// Executes a reservation command.
pub(crate) async fn execute<D: BlockDevice + 'static>(
    core: &Core<D>,
    queue: &IoQueue<D>,
    entry: &SubmissionEntry,
    data: Option<&[u8]>,
) -> Reply {
    queue.traffic.set(true);
    if queue.host_id == NO_HOST {
        return Reply::status(Status::HOST_IDENTIFIER_NOT_INITIALIZED.do_not_retry());
    }
    let command = Reservation::of(entry);
    let nsid = command.namespace_id.get();
    let Some(namespace) = queue.subsystem.namespace(nsid) else {
        return Reply::status(Status::INVALID_NAMESPACE.do_not_retry());
    };
    if IoOpcode(entry.opcode) == IoOpcode::RESERVATION_REPORT {
        let known = namespace.rules();
        let report = known.and_then(|rules| report(command, &rules.reservations));
        return report.unwrap_or_else(Reply::status);
    }
    let request = match request(command, data.unwrap_or_default()) {
        Ok(request) => request,
        Err(status) => return Reply::status(status.do_not_retry()),
    };
    let nqn = &queue.subsystem.settings.nqn;
    let host = (queue.host_id, &queue.host_nqn);
    let asked = Asked::Reservation(request);
    match core.ask_for(nqn, nsid, host, asked).await {
        Ok(()) => Reply::success(),
        Err(status) => Reply::status(status),
    }
}

/// What a command asks for.
fn request(command: &Reservation, data: &[u8]) -> Result<Request, Status> {
    let act = command.action & action::MASK;
    let ignore = command.action & action::IGNORE_KEY != 0;
    let register = IoOpcode(command.opcode) == IoOpcode::RESERVATION_REGISTER;
    if ignore && !register {
        return Err(Status::INVALID_FIELD);
    }
    let short = Status::DATA_SGL_LENGTH_INVALID;
    let (current, rest) = U64::read_from_prefix(data).map_err(|_| short)?;
    let key = current.get();
    if IoOpcode(command.opcode) == IoOpcode::RESERVATION_RELEASE {
        return match act {
            action::RELEASE => Ok(Request::Release(key, kind(command)?)),
            action::CLEAR => Ok(Request::Clear(key)),
            _ => Err(Status::INVALID_FIELD),
        };
    }
    let (other, _) = U64::read_from_prefix(rest).map_err(|_| short)?;
    let keys = Keys { current, other };
    let other = keys.other.get();
    if register {
        let compared = (!ignore).then_some(key);
        let persist = CHANGE_PERSISTENCE[usize::from(command.persistence >> 6)];
        return match act {
            // Where a key is preempted, 0 stands for all.
            action::REGISTER | action::REPLACE if other == 0 => Err(Status::INVALID_FIELD),
            action::REGISTER => Ok(Request::Register(other, persist)),
            action::UNREGISTER => Ok(Request::Unregister(compared, persist)),
            action::REPLACE => Ok(Request::Replace(compared, other, persist)),
            _ => Err(Status::INVALID_FIELD),
        };
    }
    let kind = kind(command)?;
    match act {
        action::ACQUIRE => Ok(Request::Acquire(key, kind)),
        action::PREEMPT => Ok(Request::Preempt(key, other, kind)),
        action::PREEMPT_AND_ABORT => Ok(Request::PreemptAndAbort(key, other, kind)),
        _ => Err(Status::INVALID_FIELD),
    }
}

fn kind(command: &Reservation) -> Result<ReservationType, Status> {
    ReservationType::from_number(command.kind).ok_or(Status::INVALID_FIELD)
}

/// The extended report: hosts over fabrics have identifiers of 128 bits.
fn report(command: &Reservation, state: &Reservations) -> Result<Reply, Status> {
    if command.report.get() & EXTENDED == 0 {
        return Err(Status::HOST_IDENTIFIER_INCONSISTENT.do_not_retry());
    }
    let bytes = command.report_bytes();
    if bytes > u64::from(command.data.length.get()) {
        return Err(Status::DATA_SGL_LENGTH_INVALID.do_not_retry());
    }
    let mut header = ReportHeader::new_zeroed();
    header.generation = U32::new(state.generation);
    header.kind = state.held.map_or(0, |held| held.kind.number());
    let registrants = u16::try_from(state.registrants.len());
    header.registrants = U16::new(registrants.unwrap_or(u16::MAX));
    header.persistent = u8::from(state.persistent);
    let mut report = header.as_bytes().to_vec();
    for (host, key) in &state.registrants {
        let mut registrant = Registrant::new_zeroed();
        registrant.controller_id = U16::new(NO_CONTROLLER);
        registrant.status = u8::from(state.is_holder(host));
        registrant.key = U64::new(*key);
        registrant.host_id = *host;
        report.extend_from_slice(registrant.as_bytes());
    }
    report.resize(bytes as usize, 0);
    Ok(Reply::data(Buffer::copy_of(&report)))
}
