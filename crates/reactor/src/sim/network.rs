//! The simulated network: endpoints joined in pairs, listeners, and what travels between them.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::ops::Range;
use std::rc::{Rc, Weak};
use std::task::{Poll, Waker};

use block::Buffer;

use super::NetworkModel;
use super::world::World;
use crate::clock::Instant;
use crate::context::Context;
use crate::sync::Notify;
use crate::time::sleep;

/// The first port handed out for port 0 and for outgoing connections.
const FIRST_FREE_PORT: u16 = 40_000;

/// What travels to an endpoint.
pub(crate) enum Piece {
    Data(Vec<u8>),
    End,
    Reset,
}

/// All listeners and connections of a simulation.
pub(crate) struct Network {
    model: NetworkModel,
    listeners: BTreeMap<SocketAddr, Vec<Weak<SimulatedListener>>>,
    endpoints: Vec<Weak<Endpoint>>,
    next_port: u16,
}

impl Default for Network {
    fn default() -> Network {
        Network {
            model: NetworkModel::default(),
            listeners: BTreeMap::new(),
            endpoints: Vec::new(),
            next_port: FIRST_FREE_PORT,
        }
    }
}

impl Network {
    pub(crate) fn set_model(&mut self, model: NetworkModel) {
        self.model = model;
    }

    pub(crate) fn open_endpoints(&self) -> Vec<Rc<Endpoint>> {
        self.endpoints.iter().filter_map(Weak::upgrade).collect()
    }

    fn free_port(&mut self) -> u16 {
        let port = self.next_port;
        self.next_port = self.next_port.checked_add(1).unwrap_or(FIRST_FREE_PORT);
        port
    }

    /// Listeners that would accept a connection to `address`.
    fn listening_at(&mut self, address: SocketAddr) -> Vec<Rc<SimulatedListener>> {
        let mut wildcard = address;
        wildcard.set_ip(match address {
            SocketAddr::V4(_) => std::net::Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => std::net::Ipv6Addr::UNSPECIFIED.into(),
        });
        for place in [address, wildcard] {
            let found = self.listeners.entry(place).or_default();
            found.retain(|listener| listener.strong_count() > 0);
            if !found.is_empty() {
                let there = found.iter().filter_map(Weak::upgrade);
                return there.filter(|there| there.listens.get()).collect();
            }
        }
        Vec::new()
    }

    fn join(&mut self, client: SocketAddr, server: SocketAddr) -> [Rc<Endpoint>; 2] {
        let client_end = Endpoint::new(client, server);
        let server_end = Endpoint::new(server, client);
        client_end.state.borrow_mut().other = Rc::downgrade(&server_end);
        server_end.state.borrow_mut().other = Rc::downgrade(&client_end);
        self.endpoints
            .retain(|endpoint| endpoint.strong_count() > 0);
        self.endpoints.push(Rc::downgrade(&client_end));
        self.endpoints.push(Rc::downgrade(&server_end));
        [client_end, server_end]
    }
}

/// An address that is taken, and listened at once somebody says so.
pub(crate) struct SimulatedListener {
    address: SocketAddr,
    listens: Cell<bool>,
    reuse_port: bool,
    waiting: RefCell<VecDeque<Rc<Endpoint>>>,
    arrived: Notify,
}

impl SimulatedListener {
    pub(crate) fn bind(
        world: &World,
        mut address: SocketAddr,
        reuse_port: bool,
    ) -> io::Result<Rc<SimulatedListener>> {
        let mut network = world.network();
        if address.port() == 0 {
            address.set_port(network.free_port());
        }
        let there = network.listeners.entry(address).or_default();
        there.retain(|listener| listener.strong_count() > 0);
        let shares = |listener: &Weak<SimulatedListener>| {
            listener
                .upgrade()
                .is_some_and(|listener| listener.reuse_port)
        };
        let shared = reuse_port && there.iter().all(shares);
        if !there.is_empty() && !shared {
            return Err(ErrorKind::AddrInUse.into());
        }
        let listener = Rc::new(SimulatedListener {
            address,
            listens: Cell::new(false),
            reuse_port,
            waiting: RefCell::default(),
            arrived: Notify::new(),
        });
        there.push(Rc::downgrade(&listener));
        Ok(listener)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn listen(&self) {
        self.listens.set(true);
    }

    /// Nobody will accept any more: whoever still waits is turned away.
    pub(crate) fn close(&self, world: &World) {
        for endpoint in self.waiting.take() {
            reset(world, &endpoint);
        }
    }

    pub(crate) async fn accept(&self) -> Rc<Endpoint> {
        loop {
            let first = self.waiting.borrow_mut().pop_front();
            match first {
                Some(endpoint) => return endpoint,
                None => self.arrived.notified().await,
            }
        }
    }
}

/// Connects to whoever listens at `address` when the request arrives there.
pub(crate) async fn connect(context: &Context, address: SocketAddr) -> io::Result<Rc<Endpoint>> {
    let world = context.world().expect("a simulated reactor");
    let latency = world.network().model.latency.clone();
    sleep(world.random_duration(&latency)).await;
    let listeners = world.network().listening_at(address);
    if listeners.is_empty() {
        return Err(ErrorKind::ConnectionRefused.into());
    }
    let listener = &listeners[world.random_below(listeners.len() as u64) as usize];
    let mut client = address;
    let [client_end, server_end] = {
        let mut network = world.network();
        client.set_port(network.free_port());
        network.join(client, address)
    };
    listener.waiting.borrow_mut().push_back(server_end);
    listener.arrived.notify_one();
    sleep(world.random_duration(&latency)).await;
    Ok(client_end)
}

/// One end of a connection.
pub(crate) struct Endpoint {
    pub(crate) local: SocketAddr,
    pub(crate) peer: SocketAddr,
    state: RefCell<EndState>,
}

#[derive(Default)]
struct EndState {
    other: Weak<Endpoint>,
    arrived: VecDeque<u8>,
    /// Bytes sent from here that the other end has not read.
    outstanding: usize,
    /// When the last piece sent from here arrives: later ones must not overtake it.
    last_arrival: Instant,
    ended: bool,
    shut_down: bool,
    reset: bool,
    closed: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

impl Endpoint {
    fn new(local: SocketAddr, peer: SocketAddr) -> Rc<Endpoint> {
        Rc::new(Endpoint {
            local,
            peer,
            state: RefCell::default(),
        })
    }

    fn wake_all(&self) {
        let wakers = {
            let mut state = self.state.borrow_mut();
            [state.reader.take(), state.writer.take()]
        };
        wakers.into_iter().flatten().for_each(Waker::wake);
    }

    /// Something arrives.
    pub(crate) fn receive(self: &Rc<Self>, world: &World, piece: Piece) {
        let answer_with_reset = {
            let mut state = self.state.borrow_mut();
            match piece {
                Piece::Data(bytes) if !state.closed && !state.reset => {
                    state.arrived.extend(bytes);
                    false
                }
                Piece::Data(_) => state.closed,
                Piece::End => {
                    state.ended = true;
                    false
                }
                Piece::Reset => {
                    state.reset = true;
                    state.arrived.clear();
                    false
                }
            }
        };
        self.wake_all();
        if answer_with_reset {
            self.send_piece(world, Piece::Reset);
        }
    }

    /// Sends a piece after everything sent before it. Data for an end that is gone comes back as
    /// a reset.
    fn send_piece(self: &Rc<Self>, world: &World, piece: Piece) {
        let latency = world.random_duration(&world.network().model.latency.clone());
        let (other, at) = {
            let mut state = self.state.borrow_mut();
            let at = state.last_arrival.max(world.now() + latency);
            state.last_arrival = at;
            (state.other.upgrade(), at)
        };
        match (other, piece) {
            (Some(other), piece) => world.post(at, &other, piece),
            (None, Piece::Data(_)) => world.post(at, self, Piece::Reset),
            (None, Piece::End | Piece::Reset) => {}
        }
    }

    /// As `recv(2)`: some bytes, or none at the end of the stream.
    pub(crate) async fn recv(
        &self,
        mut buffer: Buffer,
        range: Range<usize>,
    ) -> (Buffer, io::Result<usize>) {
        let result = poll_fn(|context| {
            let mut state = self.state.borrow_mut();
            if state.reset {
                return Poll::Ready(Err(ErrorKind::ConnectionReset.into()));
            }
            if !state.arrived.is_empty() {
                let count = state.arrived.len().min(range.len());
                for (to, from) in buffer[range.clone()]
                    .iter_mut()
                    .zip(state.arrived.drain(..count))
                {
                    *to = from;
                }
                let other = state.other.upgrade();
                drop(state);
                if let Some(other) = other {
                    other.acknowledge(count);
                }
                return Poll::Ready(Ok(count));
            }
            if state.ended || state.shut_down {
                return Poll::Ready(Ok(0));
            }
            state.reader = Some(context.waker().clone());
            Poll::Pending
        })
        .await;
        (buffer, result)
    }

    fn acknowledge(&self, count: usize) {
        let writer = {
            let mut state = self.state.borrow_mut();
            state.outstanding = state.outstanding.saturating_sub(count);
            state.writer.take()
        };
        if let Some(waker) = writer {
            waker.wake();
        }
    }

    /// Sends all of `bytes`, waiting for room in the window, cut into random pieces.
    pub(crate) async fn send(self: &Rc<Self>, context: &Context, bytes: &[u8]) -> io::Result<()> {
        let world = context.world().expect("a simulated reactor");
        let (window, piece_max) = {
            let network = world.network();
            (
                network.model.window_bytes.max(1),
                network.model.fragment_bytes_max.max(1),
            )
        };
        let mut rest = bytes;
        while !rest.is_empty() {
            let room = self.room(window).await?;
            let longest = room.min(piece_max).min(rest.len());
            let length = 1 + world.random_below(longest as u64) as usize;
            let (piece, after) = rest.split_at(length);
            self.state.borrow_mut().outstanding += length;
            self.send_piece(world, Piece::Data(piece.to_vec()));
            rest = after;
        }
        Ok(())
    }

    async fn room(&self, window: usize) -> io::Result<usize> {
        poll_fn(|context| {
            let mut state = self.state.borrow_mut();
            if state.reset {
                return Poll::Ready(Err(ErrorKind::ConnectionReset.into()));
            }
            if state.shut_down || state.closed {
                return Poll::Ready(Err(ErrorKind::BrokenPipe.into()));
            }
            if state.outstanding < window {
                return Poll::Ready(Ok(window - state.outstanding));
            }
            state.writer = Some(context.waker().clone());
            Poll::Pending
        })
        .await
    }

    /// As `shutdown(2)` of both directions.
    pub(crate) fn shut_down(self: &Rc<Self>, world: &World) {
        let first = !std::mem::replace(&mut self.state.borrow_mut().shut_down, true);
        if first {
            self.send_piece(world, Piece::End);
        }
        self.wake_all();
    }

    /// The last handle is gone: as `close(2)`, a reset if something was left unread.
    pub(crate) fn close(self: &Rc<Self>, world: &World) {
        let (unread, ended) = {
            let mut state = self.state.borrow_mut();
            state.closed = true;
            (!state.arrived.is_empty(), state.shut_down || state.reset)
        };
        if unread {
            self.send_piece(world, Piece::Reset);
        } else if !ended {
            self.send_piece(world, Piece::End);
        }
    }
}

/// Breaks a connection at both ends at once.
pub(super) fn reset(world: &World, endpoint: &Rc<Endpoint>) {
    let other = endpoint.state.borrow().other.upgrade();
    for end in [Some(Rc::clone(endpoint)), other].into_iter().flatten() {
        end.receive(world, Piece::Reset);
    }
}
