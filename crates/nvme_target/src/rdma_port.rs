//! Queue pairs: where connections meet RDMA devices, as `tcp` does for sockets.

use std::cell::Cell;
use std::rc::Rc;

use block::{BlockDevice, Buffer};
use nvme::rdma::{ConnectAccept, ConnectReject, ConnectRequest, KeyedDataBlock, RejectStatus};
use rdma::{Completion, Listener, QueuePair, RdmaError, Remote, Request, Shape};
use zerocopy::IntoBytes;

use crate::per_core::Core;
use crate::report::CloseReason;
use crate::session::{Origin, Session};
use crate::settings::TargetSettings;
use crate::tcp::{RECEIVE_PRICE, last_word, note_end};
use crate::transport::Tag;

/// Entries that an admin queue may have: more than hosts ask for (Linux and SPDK: 32).
const ADMIN_ENTRIES_MAX: u32 = 128;
/// Requests of the device for each entry of a queue: to fetch data, or to write it and answer; and
/// one for an answer whose entry the host has used again before we know that it has it.
const SENDS_PER_ENTRY: u32 = 4;

/// A queue pair in use.
struct Lane {
    queue: QueuePair,
    /// Answers that the device has.
    answering: Cell<u32>,
    /// Nothing goes out any more.
    is_over: Cell<bool>,
}

/// Accepts connections of a port until cancelled.
pub(crate) async fn accept<D: BlockDevice + 'static>(
    core: Rc<Core<D>>,
    origin: Origin,
    listener: Listener,
) {
    while let Some(request) = listener.next().await {
        let Some((host_address, local_address)) = request.addresses() else {
            continue;
        };
        let shape = match shape_of(request.private_data(), &core.settings) {
            Ok(shape) => shape,
            Err(status) => {
                core.protocol_errors.set(core.protocol_errors.get() + 1);
                request.reject(ConnectReject::new(status).as_bytes());
                continue;
            }
        };
        match Session::welcome(&core, &origin, host_address, local_address) {
            Some(session) => drop(reactor::spawn(serve(session, request, shape))),
            None => {
                request.reject(ConnectReject::new(RejectStatus::NO_RESOURCES).as_bytes());
            }
        }
    }
    tracing::warn!(port = origin.port_id, "no more connections over RDMA");
}

/// How large the queue pair is that a host asks for.
fn shape_of(private: &[u8], settings: &TargetSettings) -> Result<Shape, RejectStatus> {
    let request = ConnectRequest::of(private)?;
    let most = match request.queue_id.get() {
        0 => ADMIN_ENTRIES_MAX.min(u32::from(settings.queue_entries_max)),
        id if id > settings.io_queues_max => return Err(RejectStatus::INVALID_QUEUE_ID),
        _ => u32::from(settings.queue_entries_max),
    };
    let entries = request.entries();
    if entries < 2 || entries > most {
        return Err(RejectStatus::INVALID_SEND_SIZE);
    }
    Ok(Shape {
        receives: entries,
        receive_bytes: settings.rdma_receive_bytes(),
        sends: entries * SENDS_PER_ENTRY,
    })
}

/// One connection, from its request to its end.
async fn serve<D: BlockDevice + 'static>(session: Rc<Session<D>>, request: Request, shape: Shape) {
    session.enter();
    let receives = u16::try_from(shape.receives).unwrap_or(u16::MAX);
    match request.accept(&shape, ConnectAccept::new(receives).as_bytes()) {
        Ok(queue) => {
            let lane = Rc::new(Lane {
                queue,
                answering: Cell::new(0),
                is_over: Cell::new(false),
            });
            exchange(&session, &lane).await;
        }
        Err(error) => {
            tracing::warn!(host = %session.host_address, %error, "no queue pair");
            session.forget(CloseReason::Network);
        }
    }
    session.leave();
}

/// Carries capsules and data until the connection is to end.
async fn exchange<D: BlockDevice + 'static>(session: &Rc<Session<D>>, lane: &Rc<Lane>) {
    let receiving = reactor::spawn(receive(Rc::clone(session), Rc::clone(lane)));
    let mut transmitting = reactor::spawn(transmit(Rc::clone(session), Rc::clone(lane)));
    let (_, all_said) = last_word(session, &mut transmitting).await;
    lane.is_over.set(true);
    session.transmit.notify_one();
    lane.queue.disconnect();
    receiving.await;
    if !all_said {
        transmitting.await;
    }
    session.drain().await;
    session.sending.set(0);
    session.release();
}

/// Takes what the device has ended, feeds the machine, hands out commands.
async fn receive<D: BlockDevice + 'static>(session: Rc<Session<D>>, lane: Rc<Lane>) {
    let error = loop {
        match take(&session, &lane).await {
            Ok(()) => {}
            Err(error) => break error,
        }
    };
    lane.is_over.set(true);
    let reason = match lane.queue.is_gone() {
        true => CloseReason::Host,
        false => {
            tracing::debug!(host = %session.host_address, %error, "queue pair ended");
            CloseReason::Network
        }
    };
    session.close(reason);
    session.transmit.notify_one();
}

/// Waits until there is something, and takes it.
async fn take<D: BlockDevice + 'static>(
    session: &Rc<Session<D>>,
    lane: &Lane,
) -> Result<(), RdmaError> {
    let mut found = lane
        .queue
        .poll(|completion| feed(session, lane, completion))?;
    if !found {
        lane.queue.arm()?;
        found = lane
            .queue
            .poll(|completion| feed(session, lane, completion))?;
    }
    if !found {
        return lane.queue.wait().await;
    }
    if !session.is_trusted() {
        session.core.room.heard(session.id);
    }
    let ended = session.machine.borrow().end();
    if let Some(end) = ended {
        note_end(session, end);
    }
    if session.closing().is_none() {
        // Commands for whose answers there is no room wait in the machine.
        session.dispatch();
        session.resume();
    }
    session.transmit.notify_one();
    session.step(RECEIVE_PRICE).await;
    reactor::yield_now().await;
    Ok(())
}

fn feed<D: BlockDevice + 'static>(session: &Session<D>, lane: &Lane, completion: Completion<'_>) {
    match completion {
        Completion::Capsule(bytes) => session.machine.borrow_mut().receive_capsule(bytes),
        Completion::Fetched { token, data } => {
            if let Some(tag) = Tag::numbered(token) {
                session.machine.borrow_mut().fetched(tag, data);
            }
        }
        Completion::Answered { data_bytes } => {
            lane.answering.set(lane.answering.get().saturating_sub(1));
            let sending = session.sending.get();
            session.sending.set(sending.saturating_sub(data_bytes));
        }
    }
}

/// Has the device fetch data and give answers.
async fn transmit<D: BlockDevice + 'static>(session: Rc<Session<D>>, lane: Rc<Lane>) {
    loop {
        if lane.is_over.get() {
            return;
        }
        if let Err(error) = post(&session, &lane) {
            tracing::warn!(host = %session.host_address, %error, "cannot go on over RDMA");
            lane.is_over.set(true);
            return session.close(CloseReason::Network);
        }
        let is_silent = session.machine.borrow().unsent_bytes() == 0;
        if session.closing().is_some() && is_silent && lane.answering.get() == 0 {
            return;
        }
        session.transmit.notified().await;
    }
}

fn post<D: BlockDevice + 'static>(session: &Session<D>, lane: &Lane) -> Result<(), RdmaError> {
    while lane.queue.has_room() {
        let mut machine = session.machine.borrow_mut();
        if let Some(answer) = machine.take_answer() {
            drop(machine);
            let bytes = answer.data.as_ref().map_or(0, |(data, _, _)| data.len());
            session.sending.set(session.sending.get() + bytes);
            lane.answering.set(lane.answering.get() + 1);
            let data = answer
                .data
                .map(|(data, length, to)| (data, length, remote(&to)));
            let response: &[u8; 16] = zerocopy::transmute_ref!(&answer.entry);
            lane.queue.answer(data, response, answer.invalidate)?;
        } else if let Some(fetch) = machine.take_fetch() {
            drop(machine);
            let data = Buffer::new(fetch.from.length_bytes() as usize);
            lane.queue
                .fetch(fetch.tag.number(), data, remote(&fetch.from))?;
        } else {
            return Ok(());
        }
    }
    Ok(())
}

fn remote(block: &KeyedDataBlock) -> Remote {
    Remote {
        address: block.address.get(),
        key: block.key.get(),
    }
}
