//! Several paths to one subsystem: the host goes from one to the next, whether a port is gone, a
//! host is refused there or the namespace is not accessible by it.

use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use block::{BlockDevice, Buffer, Durability, IoError, Lba};
use initiator::{ConnectOptions, Controller, Endpoint, Error, Namespace, State};
use nvme_target::{PathState, PortSettings, Transport};
use reactor::{now, sim, sleep, spawn};

use crate::{SUBSYSTEM, Server, keeps_the_contract, persistent, simulate};

/// Numbers of the two ports, which are also that of their addresses less 4419.
const PORTS: [u16; 2] = [1, 2];

fn address(port: u16) -> SocketAddr {
    SocketAddr::new([127, 0, 0, 1].into(), 4419 + port)
}

fn port(id: u16) -> PortSettings {
    PortSettings {
        id,
        listen: address(id),
        advertise: None,
        reuse_port: false,
        tls: false,
        transport: Transport::Tcp,
    }
}

/// A server whose volume is behind both ports.
fn server() -> Server {
    let server = Server::memory(4096, 1024);
    server.target.add_port(port(2)).unwrap();
    server
}

async fn connect(ports: &[u16], options: ConnectOptions) -> Result<Namespace, Error> {
    let paths: Vec<Endpoint> = ports.iter().map(|port| address(*port).into()).collect();
    let controller = Controller::connect_by(&paths, SUBSYSTEM, options).await?;
    controller.namespace(1).await
}

async fn write(to: &Namespace) -> Result<(), IoError> {
    let block = Buffer::copy_of(&[7; 4096]);
    to.write(Lba(3), block, Durability::Cached).await.1
}

/// Verified I/O while each port in turn is gone for a while, and never both.
#[test]
fn a_port_that_goes_does_not_show_while_another_is_there() {
    for seed in 0..10 {
        simulate(seed, async move {
            let server = Rc::new(server());
            let namespace = connect(&PORTS, persistent(60)).await.unwrap();
            let nuisance = spawn({
                let server = Rc::clone(&server);
                async move {
                    loop {
                        for id in PORTS {
                            sleep(Duration::from_micros(500 + sim::random_below(20_000))).await;
                            server.target.remove_port(id).unwrap();
                            sim::reset_all();
                            sleep(Duration::from_millis(sim::random_below(100))).await;
                            server.target.add_port(port(id)).unwrap();
                        }
                    }
                }
            })
            .cancel_on_drop();
            keeps_the_contract(&namespace, seed).await;
            drop(nuisance);
        });
    }
}

/// The first connection is by the first path that takes one; the error is that of the first.
#[test]
fn the_first_path_that_takes_a_connection_is_used() {
    simulate(20, async {
        let server = server();
        server.target.remove_port(1).unwrap();
        connect(&[1], persistent(60)).await.err().unwrap();
        let namespace = connect(&PORTS, persistent(60)).await.unwrap();
        write(&namespace).await.unwrap();
        server.target.remove_port(2).unwrap();
        let none = connect(&PORTS, persistent(60)).await.err().unwrap();
        let named = matches!(&none, Error::Unreachable { address: of, .. } if *of == address(1));
        assert!(named, "{none}");
        let none = connect(&[], persistent(60)).await.err().unwrap();
        assert!(none.to_string().contains("at least one"), "{none}");
    });
}

/// A command goes by the path by which the namespace is accessible; where there is none it waits as
/// long as for a lost controller.
#[test]
fn a_namespace_is_reached_by_the_path_that_it_is_accessible_by() {
    for kept_from in [PathState::Inaccessible, PathState::PersistentLoss] {
        simulate(21, async move {
            let server = server();
            let namespace = connect(&PORTS, persistent(60)).await.unwrap();
            let set = |port, state| server.target.set_path_state(port, state).unwrap();
            for _ in 0..3 {
                for [lost, other] in [[1, 2], [2, 1]] {
                    set(lost, kept_from);
                    let before = now();
                    write(&namespace).await.unwrap();
                    assert!(now() - before < Duration::from_secs(1));
                    set(lost, PathState::Optimized);
                    set(other, PathState::Optimized);
                }
            }
            for port in PORTS {
                set(port, kept_from);
            }
            let before = now();
            write(&namespace).await.unwrap_err();
            let waited = now() - before;
            assert!((60..65).contains(&waited.as_secs()), "{waited:?}");
            // Each command that fails tries the other path.
            for port in PORTS {
                set(port, PathState::Optimized);
                let first = write(&namespace).await;
                first.or(write(&namespace).await).unwrap();
                assert_eq!(namespace.unready(), None);
                set(port, kept_from);
            }
        });
    }
}

/// One path is given up where the other is, and not before.
#[test]
fn a_controller_is_given_up_when_no_path_brings_it_back() {
    simulate(22, async {
        let server = server();
        let namespace = connect(&PORTS, persistent(30)).await.unwrap();
        server.target.remove_port(1).unwrap();
        sim::reset_all();
        sleep(Duration::from_secs(100)).await;
        assert_eq!(namespace.controller().state(), State::Live);
        write(&namespace).await.unwrap();
        server.target.remove_port(2).unwrap();
        sim::reset_all();
        sleep(Duration::from_secs(29)).await;
        assert_eq!(namespace.controller().state(), State::Connecting);
        sleep(Duration::from_secs(5)).await;
        assert!(matches!(namespace.controller().state(), State::Dead(_)));
    });
}
