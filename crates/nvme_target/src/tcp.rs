//! Sockets: the one file where connections meet the network. Everything else is driven from here.

use std::io;
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

use block::{BlockDevice, Buffer};
use reactor::net::{
    BoundAddress, Keepalive, ListenOptions, SendBatch, SocketOptions, TcpListener, TcpStream,
};
use tls::Stream;

use crate::per_core::Core;
use crate::refusals::Refused;
use crate::report::{CloseReason, RefusalReason};
use crate::secure::secure;
use crate::session::{Origin, Session};
use crate::settings::PortSettings;
use crate::transport::{End, Part};

/// The receive buffer of an I/O queue: what one receive brings at most.
const RECEIVE_BYTES: usize = 128 << 10;
/// Of an admin queue, and as long as the other end is not known to be a host of a subsystem: a
/// command with the longest in-capsule data, and room to spare.
const RECEIVE_BYTES_SMALL: usize = 16 << 10;
/// Data that is still missing is received straight into place from this size on.
const DIRECT_BYTES_MIN: usize = 8 << 10;
/// One send carries about this much.
const SEND_BYTES: usize = 512 << 10;
const SEND_BYTES_UNTRUSTED: usize = 16 << 10;
/// What one receive brings at most of those who may have a small share of the core only.
const STEP_BYTES_UNTRUSTED: usize = 4 << 10;
/// What a receive and what is in it costs, about: a command for each 72 bytes, at worst.
pub(crate) const RECEIVE_PRICE: Duration = Duration::from_micros(10);
const BYTE_PRICE: Duration = Duration::from_nanos(20);
/// What a send of [`SEND_BYTES_UNTRUSTED`] costs, about.
const SEND_PRICE: Duration = Duration::from_micros(20);
/// How long a last word (C2HTermReq, the reply to Disconnect) may take to reach the host.
pub(crate) const LINGER: Duration = Duration::from_secs(1);
/// How long to wait after an accept that failed, when descriptors are used up, say.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Unanswered TCP probes after which a silent peer is given up.
const KEEPALIVE_PROBES: u32 = 3;

/// Takes a port's address. Connections whose peer is silent for `timeout` break.
pub(crate) fn reserve(settings: &PortSettings, timeout: Duration) -> io::Result<BoundAddress> {
    let keepalive = Keepalive {
        idle: timeout / 2,
        interval: timeout / 2 / KEEPALIVE_PROBES,
        probes: KEEPALIVE_PROBES,
    };
    let options = ListenOptions {
        reuse_port: settings.reuse_port,
        socket: SocketOptions {
            keepalive: Some(keepalive),
            user_timeout: Some(timeout),
            ..SocketOptions::default()
        },
        ..ListenOptions::default()
    };
    BoundAddress::bind(settings.listen, &options)
}

/// Accepts connections of a port until cancelled.
pub(crate) async fn accept<D: BlockDevice + 'static>(
    core: Rc<Core<D>>,
    origin: Origin,
    listener: TcpListener,
) {
    let port_id = origin.port_id;
    loop {
        match listener.accept().await {
            Ok((stream, host_address)) => {
                let local_address = stream.local_address();
                if let Some(session) = Session::welcome(&core, &origin, host_address, local_address)
                {
                    drop(reactor::spawn(serve(session, stream)));
                }
            }
            Err(error) => {
                tracing::warn!(port = port_id, %error, "accept failed");
                reactor::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// One connection, from accept to its end.
async fn serve<D: BlockDevice + 'static>(session: Rc<Session<D>>, stream: TcpStream) {
    session.enter();
    if let Some(stream) = secure(&session, stream).await {
        exchange(&session, stream).await;
    } else {
        session.forget(session.closing().unwrap_or(CloseReason::Network));
    }
    session.leave();
}

/// Carries bytes between the socket and the machine until the connection is to end.
async fn exchange<D: BlockDevice + 'static>(session: &Rc<Session<D>>, stream: Stream) {
    let receiving = reactor::spawn(receive(Rc::clone(session), stream.clone()));
    let mut transmitting = reactor::spawn(transmit(Rc::clone(session), stream.clone()));
    let (reason, all_said) = last_word(session, &mut transmitting).await;
    let told_why = matches!(
        reason,
        CloseReason::Protocol | CloseReason::Authentication | CloseReason::Refused
    );
    // The host has a moment to take it.
    if told_why && all_said {
        reactor::sleep(LINGER).await;
    }
    stream.shutdown();
    receiving.await;
    if !all_said {
        transmitting.await;
    }
    session.drain().await;
    session.release();
}

/// Waits until the connection is to be closed. The last word goes out first, unless others wait for
/// the place. Returns why it ends, and whether `transmitting` has come to its end.
pub(crate) async fn last_word<D: BlockDevice + 'static>(
    session: &Session<D>,
    transmitting: &mut (impl Future<Output = ()> + Unpin),
) -> (CloseReason, bool) {
    wait_for_end(session).await;
    let reason = session.closing().unwrap_or(CloseReason::Network);
    session.forget(reason);
    let patience = match reason {
        CloseReason::Displaced => Duration::ZERO,
        _ => LINGER,
    };
    let said = reactor::timeout(patience, transmitting).await;
    (reason, said.is_ok())
}

/// Returns when the connection is to be closed: by the host, by us, or because Connect, or
/// authentication where it is wanted, did not come in time.
async fn wait_for_end<D: BlockDevice + 'static>(session: &Session<D>) {
    let connect_timeout = session.core.settings.connect_timeout;
    let expired = reactor::timeout(connect_timeout, session.wait_for_close())
        .await
        .is_err();
    if expired && session.role.get().is_none() {
        session.close(CloseReason::Silence);
    }
    if session.gate.get().is_some() {
        let timeout = session.core.settings.authentication_timeout;
        let late = reactor::timeout(timeout, session.wait_for_close()).await;
        if late.is_err() && !session.is_open() {
            let (host_nqn, subsystem_nqn) = session.names();
            session.core.report_refusal(Refused {
                host_nqn,
                host_address: session.host_address,
                subsystem_nqn,
                reason: RefusalReason::ProofLate,
            });
            session.close(CloseReason::Authentication);
        }
    }
    session.wait_for_close().await;
}

/// Reads the socket, feeds the machine, hands out commands.
async fn receive<D: BlockDevice + 'static>(session: Rc<Session<D>>, stream: Stream) {
    let mut buffer = Buffer::new(RECEIVE_BYTES_SMALL);
    let mut filled = 0..0;
    let reason = loop {
        while session.dispatch() {
            session.sent.notified().await;
            if session.closing().is_some() {
                return;
            }
        }
        let direct = session.machine.borrow_mut().take_direct(DIRECT_BYTES_MIN);
        let received = match direct {
            Some((data, range)) => {
                let (data, received) = stream.recv(data, range).await;
                let count = *received.as_ref().unwrap_or(&0);
                session.machine.borrow_mut().direct_received(data, count);
                received
            }
            None => {
                if session.has_io_queue() && buffer.len() < RECEIVE_BYTES {
                    enlarge(&mut buffer, &mut filled);
                }
                make_room(&mut buffer, &mut filled);
                let room = match session.is_trusted() {
                    true => buffer.len() - filled.end,
                    false => (buffer.len() - filled.end).min(STEP_BYTES_UNTRUSTED),
                };
                let end = filled.end + session.machine.borrow().receive_hint(room);
                let (back, received) = stream.recv(buffer, filled.end..end).await;
                buffer = back;
                let count = *received.as_ref().unwrap_or(&0);
                session
                    .step(RECEIVE_PRICE + BYTE_PRICE * count as u32)
                    .await;
                filled.end += count;
                let bytes = buffer.get(filled.clone()).unwrap_or_default();
                filled.start += session.machine.borrow_mut().receive(bytes);
                received
            }
        };
        match received {
            Ok(0) => break CloseReason::Host,
            Ok(_) => {}
            Err(_) => break CloseReason::Network,
        }
        if !session.is_trusted() {
            session.core.room.heard(session.id);
        }
        let mut machine = session.machine.borrow_mut();
        let (ended, speaks) = (machine.end(), !machine.outbox().is_empty());
        drop(machine);
        if speaks {
            session.transmit.notify_one();
        }
        if let Some(end) = ended {
            note_end(&session, end);
        }
    };
    session.close(reason);
}

pub(crate) fn note_end<D: BlockDevice + 'static>(session: &Session<D>, end: End) {
    if session.closing().is_some() {
        return;
    }
    let reason = match end {
        End::HostTerminated(error) => {
            tracing::info!(host = %session.host_address, %error, "host terminated the connection");
            return session.close(CloseReason::Host);
        }
        End::Fatal(error) => RefusalReason::Protocol(error.status),
        End::TooManyCommands => RefusalReason::TooManyCommands,
    };
    let core = &session.core;
    core.protocol_errors.set(core.protocol_errors.get() + 1);
    let (host_nqn, subsystem_nqn) = session.names();
    core.report_refusal(Refused {
        host_nqn,
        host_address: session.host_address,
        subsystem_nqn,
        reason,
    });
    session.end_association(end);
    session.close(CloseReason::Protocol);
}

/// Moves what is left of the last receive to a buffer of full size.
fn enlarge(buffer: &mut Buffer, filled: &mut Range<usize>) {
    let mut larger = Buffer::new(RECEIVE_BYTES);
    let left = buffer.get(filled.clone()).unwrap_or_default();
    for (into, from) in larger.iter_mut().zip(left) {
        *into = *from;
    }
    *buffer = larger;
    *filled = 0..filled.len();
}

/// Moves what is left of the last receive to the front when the buffer is nearly used up.
fn make_room(buffer: &mut Buffer, filled: &mut Range<usize>) {
    if filled.start == filled.end {
        *filled = 0..0;
    } else if filled.end > buffer.len() / 2 {
        buffer.copy_within(filled.clone(), 0);
        *filled = 0..filled.len();
    }
}

/// Sends what the machine has to say, as much at once as there is.
async fn transmit<D: BlockDevice + 'static>(session: Rc<Session<D>>, stream: Stream) {
    let mut batch = SendBatch::new();
    loop {
        wait_for_answers(&session).await;
        fill(&session, &mut batch);
        if batch.is_empty() {
            if session.closing().is_some() {
                return;
            }
            session.transmit.notified().await;
            continue;
        }
        session.sending.set(batch.len_bytes());
        session.step(SEND_PRICE).await;
        let (back, result) = stream.send(batch).await;
        batch = back;
        batch.clear();
        session.sending.set(0);
        session.account();
        session.sent.notify_one();
        session.resume();
        if result.is_err() {
            return session.close(CloseReason::Network);
        }
    }
}

/// Waits while commands may soon add to what there is to send, for as long as settings allow.
async fn wait_for_answers<D: BlockDevice + 'static>(session: &Session<D>) {
    for _ in 0..session.core.settings.answers_wait_turns {
        let unsent = session.machine.borrow_mut().outbox().len_bytes();
        if unsent == 0 || unsent >= SEND_BYTES || !session.executes_io() {
            return;
        }
        reactor::yield_now().await;
    }
}

fn fill<D: BlockDevice + 'static>(session: &Session<D>, batch: &mut SendBatch) {
    let most = match session.is_trusted() {
        true => SEND_BYTES,
        false => SEND_BYTES_UNTRUSTED,
    };
    let mut machine = session.machine.borrow_mut();
    let outbox = machine.outbox();
    while !batch.is_full() && batch.len_bytes() < most {
        match outbox.pop() {
            Some(Part::Bytes(bytes)) => batch.push_bytes(bytes),
            Some(Part::Buffer(buffer, range)) => batch.push_buffer(buffer, range),
            None => return,
        }
    }
}
