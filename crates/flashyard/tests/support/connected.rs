//! A host that works with one volume of a node.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::support::{Node, name, wait_until};
use initiator::{ConnectOptions, Controller, Namespace};
use reactor::{Reactor, ReactorConfig};

/// What it is called.
pub const HOST: &str = "nqn.2026-11.example.flashyard:test";

/// Runs `work` with the volume `volume` of the node, connected; by the end the node knows that
/// it is no more.
pub fn connected<F: Future<Output = ()>>(
    node: &Node,
    volume: &str,
    work: impl FnOnce(Namespace, Controller) -> F,
) {
    let address = node.endpoints().nvme[0];
    let nqn = node.client().volume(&name(volume)).unwrap().nqn;
    let reactor = Reactor::io_uring(ReactorConfig::default()).unwrap();
    reactor.run(async {
        let options = ConnectOptions::new(HOST);
        let controller = Controller::connect(address, &nqn, options).await.unwrap();
        let namespace = controller.namespace(1).await.unwrap();
        work(namespace, controller).await;
    });
    wait_until("the node has seen the host go", || {
        let sessions = node.client().sessions().unwrap().items;
        let mut left = sessions.iter();
        !left.any(|session| session.nqn == nqn && session.host_nqn == HOST)
    });
}
