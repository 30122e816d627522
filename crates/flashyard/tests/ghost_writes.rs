//! A node whose host changes paths while a switch keeps back what the host sent by the old one: the
//! old write lands on the new one, unless the host has the lost controller ended first.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use block::{BlockDevice, Buffer, Durability, Lba};
use initiator::{ConnectOptions, Controller, Data, Namespace, Reconnect};
use nvme::command::{CrossControllerReset, cross_reset_result};
use reactor::{Reactor, ReactorConfig, sleep, spawn};
use support::{Node, free_address, name};

const HOST: &str = "nqn.2026-11.example.flashyard:test";
const BLOCK: Lba = Lba(5);

/// A way to a node on which what hosts send may be kept for a while.
#[derive(Clone)]
struct Switch {
    address: SocketAddr,
    /// Connections that keep it: those that came before so many.
    keeps: Arc<(Mutex<usize>, Condvar)>,
    accepted: Arc<AtomicUsize>,
}

impl Switch {
    fn before(node: SocketAddr) -> Switch {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let switch = Switch {
            address: listener.local_addr().unwrap(),
            keeps: Arc::default(),
            accepted: Arc::default(),
        };
        let own = switch.clone();
        drop(thread::spawn(move || {
            while let Ok((host, _)) = listener.accept() {
                let number = own.accepted.fetch_add(1, Ordering::SeqCst);
                let node = TcpStream::connect(node).unwrap();
                let ways = (host.try_clone().unwrap(), node.try_clone().unwrap());
                let of_hosts = own.clone();
                drop(thread::spawn(move || {
                    of_hosts.carry(host, node, Some(number))
                }));
                let of_nodes = own.clone();
                drop(thread::spawn(move || of_nodes.carry(ways.1, ways.0, None)));
            }
        }));
        switch
    }

    /// Carries bytes until either end is gone; those of a connection that keeps them, later.
    fn carry(&self, mut from: TcpStream, mut to: TcpStream, number: Option<usize>) {
        let mut buffer = vec![0; 64 << 10];
        while let Ok(count @ 1..) = from.read(&mut buffer) {
            let (keeps, changed) = &*self.keeps;
            let held = keeps.lock().unwrap();
            let keeps = |before: &mut usize| number.is_some_and(|number| number < *before);
            drop(changed.wait_while(held, keeps).unwrap());
            if to.write_all(&buffer[..count]).is_err() {
                return;
            }
        }
    }

    /// Connections that there are now keep what hosts send by them.
    fn keep(&self) {
        *self.keeps.0.lock().unwrap() = self.accepted.load(Ordering::SeqCst);
    }

    /// What was kept goes on to the node, if that still takes it.
    fn deliver(&self) {
        *self.keeps.0.lock().unwrap() = 0;
        self.keeps.1.notify_all();
    }
}

async fn write(to: &Namespace, byte: u8) {
    let data = Buffer::copy_of(&[byte; 4096]);
    let (_, result) = to.write(BLOCK, data, Durability::Cached).await;
    result.unwrap();
}

async fn read(from: &Namespace) -> u8 {
    let (found, result) = from.read(BLOCK, Buffer::new(4096)).await;
    result.unwrap();
    found[0]
}

fn on_a_core<F: Future<Output = ()>>(scenario: F) {
    let reactor = Reactor::io_uring(ReactorConfig::default()).unwrap();
    reactor.run(scenario);
}

/// A node with two ports, and the switch before the first.
fn start() -> (Node, Switch, SocketAddr, String) {
    let other = free_address();
    let node = Node::develop(&["--listen", &other.to_string()]);
    let nqn = node.client().volume(&name("demo")).unwrap().nqn;
    let addresses = node.endpoints().nvme.clone();
    assert_eq!(addresses.len(), 2);
    let first = addresses.iter().find(|one| **one != other).unwrap();
    let switch = Switch::before(*first);
    (node, switch, other, nqn)
}

/// Two paths by two ports: what the host wrote by the second is overwritten by what the switch kept
/// on the first, or the first one's controller has been ended by the second one's.
#[test]
fn a_write_that_a_switch_kept_lands_late_unless_its_controller_was_reset() {
    let (_node, switch, other, nqn) = start();
    on_a_core(async {
        for resets in [false, true] {
            let connect = |address| Controller::connect(address, &nqn, ConnectOptions::new(HOST));
            let lost = connect(switch.address).await.unwrap();
            let other = connect(other).await.unwrap();
            let identity = lost.identify().unwrap();
            let (one, two) = (lost.namespace(1).await.unwrap(), other.namespace(1).await);
            let two = two.unwrap();
            write(&one, 7).await;
            switch.keep();
            let kept = spawn(async move {
                let data = Buffer::copy_of(&[1; 4096]);
                one.write(BLOCK, data, Durability::Cached).await.1
            });
            sleep(Duration::from_millis(200)).await;
            if resets {
                let random = identity.instance_random.get();
                let id = identity.controller_id.get();
                let reset = CrossControllerReset::new(id, identity.instance_uniquifier, random);
                let (_, answer) = other.admin(*reset.entry(), Data::None).await;
                let answer = answer.unwrap();
                assert!(answer.status().is_success());
                let result = answer.result.get() as u32;
                assert_eq!(result & cross_reset_result::IMMEDIATE, 1);
            }
            write(&two, 2).await;
            assert_eq!(read(&two).await, 2);
            switch.deliver();
            assert_eq!(kept.await.is_ok(), !resets);
            sleep(Duration::from_millis(500)).await;
            let expected = if resets { 2 } else { 1 };
            assert_eq!(read(&two).await, expected);
        }
    });
}

/// How a host connects that notices a loss within a second, and comes again.
fn comes_again() -> ConnectOptions {
    let mut options = ConnectOptions::new(HOST);
    options.keep_alive = Some(Duration::from_secs(1));
    options.reconnect = Some(Reconnect {
        delay: Duration::from_millis(20),
        ..Reconnect::default()
    });
    options
}

/// Our own host over one path that falls silent: it comes again by a new connection, has the lost
/// controller ended, and sends its write again.
#[test]
fn our_own_host_leaves_no_write_behind_when_it_connects_again() {
    let (_node, switch, _, nqn) = start();
    on_a_core(async {
        let controller = Controller::connect(switch.address, &nqn, comes_again()).await;
        let controller = controller.unwrap();
        let namespace = controller.namespace(1).await.unwrap();
        for number in 0..3 {
            switch.keep();
            let lost = controller.controller_id().unwrap();
            write(&namespace, 2 * number).await;
            assert_ne!(
                controller.controller_id().unwrap(),
                lost,
                "it was sent again"
            );
            write(&namespace, 2 * number + 1).await;
            switch.deliver();
            sleep(Duration::from_millis(300)).await;
            assert_eq!(read(&namespace).await, 2 * number + 1);
        }
        controller.disconnect().await;
    });
}

/// Our own host over two paths, of which the first falls silent: it goes on by the other, has the
/// lost controller ended there, and sends its write again.
#[test]
fn our_own_host_leaves_no_write_behind_when_it_changes_paths() {
    let (_node, switch, other, nqn) = start();
    on_a_core(async {
        let paths = [switch.address.into(), other.into()];
        let controller = Controller::connect_by(&paths, &nqn, comes_again()).await;
        let controller = controller.unwrap();
        let namespace = controller.namespace(1).await.unwrap();
        write(&namespace, 7).await;
        switch.keep();
        write(&namespace, 1).await;
        write(&namespace, 2).await;
        let connections = switch.accepted.load(Ordering::SeqCst);
        switch.deliver();
        sleep(Duration::from_millis(500)).await;
        assert_eq!(read(&namespace).await, 2);
        let came = switch.accepted.load(Ordering::SeqCst) - connections;
        assert_eq!(came, 0, "it went on by the other path");
        controller.disconnect().await;
    });
}
