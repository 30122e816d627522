//! Reservations that are to survive a power loss, over a disk that does not answer.

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use crate::scene::loopback;
use block::Buffer;
use initiator::{ConnectOptions, Controller, Data};
use node::{
    AllowedHosts, Backing, ControllerIds, DriveSpec, Node, NodeSpec, RulesKeeper, VolumeSpec,
};
use nvme::reservation::{Keys, Reservation};
use nvme::{IoOpcode, SglDescriptor, Status, SubmissionEntry};
use reactor::{Reactor, ReactorConfig};
use uuid::Uuid;
use zerocopy::IntoBytes;

/// More than there are helper threads.
const VOLUMES: u32 = 6;

/// Longer than opening a drive takes on the slowest machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// CPTPL: what is registered survives a power loss.
const PERSIST: u8 = 0b11 << 6;

fn subsystem(number: u32) -> String {
    format!("nqn.2026-11.example.flashyard:n:v{number}")
}

async fn start() -> Node {
    let spec = NodeSpec {
        uuid: Uuid::from_u128(1),
        cores: vec![None],
        ports: vec![loopback()],
        map_cache_bytes: node::MAP_CACHE_BYTES,
        controller_ids: ControllerIds::ALL,
    };
    Node::start(spec, Arc::new(|_| {})).await.unwrap()
}

/// A volume that takes a drive whole.
async fn serve(node: &Node, number: u32) {
    let drive = format!("d{number}");
    let opened = node.open_drive(&drive, DriveSpec::Memory { bytes: 1 << 20 });
    opened.await.unwrap();
    let spec = VolumeSpec {
        name: format!("v{number}"),
        backing: Backing::Drive(drive),
        block_bytes: 4096,
        subsystem: subsystem(number).parse().unwrap(),
        nsid: 1,
        uuid: Uuid::from_u128(u128::from(number) + 1),
        group: node::AnaGroupId::POOLLESS,
        allowed: AllowedHosts::Any,
        tenant: None,
        rules: Some(Default::default()),
    };
    node.create_volume(spec).await.unwrap();
}

async fn register(host: Controller) -> Status {
    let entry = IoOpcode::RESERVATION_REGISTER.0;
    let entry = SubmissionEntry::new(entry, 1, SglDescriptor::transport(16));
    let mut command = *Reservation::of(&entry);
    command.persistence = PERSIST;
    let keys = Keys {
        current: 0.into(),
        other: 7.into(),
    };
    let data = Data::Out(Buffer::copy_of(keys.as_bytes()));
    let done = host.queue(0).unwrap().submit(*command.entry(), data).await;
    done.1.unwrap().status().code()
}

async fn open(node: &Node, path: &Path) {
    let spec = DriveSpec::Path {
        path: path.to_owned(),
        create_bytes: Some(1 << 20),
    };
    let opened = reactor::timeout(PATIENCE, node.open_drive("late", spec)).await;
    opened.expect("it waits for reservations").unwrap();
}

/// Whatever waits for a disk of the node's own, drives are opened: by the helper threads that it
/// leaves them.
#[test]
fn drives_are_opened_while_reservations_wait_for_their_disk() {
    let directory = tempfile::tempdir().unwrap();
    let (go, gate) = mpsc::channel::<()>();
    let gate = Arc::new(Mutex::new(gate));
    let asked = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&asked);
    let keeper = RulesKeeper {
        answers: Arc::new(move || {
            counted.fetch_add(1, Ordering::Relaxed);
            Ok(())
        }),
        // Until the other end of the gate goes.
        on_node: Arc::new(move |_, _, _| {
            let _ = gate.lock().unwrap().recv();
            Ok(())
        }),
        in_pool: |kept, _| Ok(kept.to_vec()),
    };
    let reactor = Reactor::io_uring(ReactorConfig::default()).unwrap();
    reactor.run(async {
        let node = start().await;
        node.keep_rules(keeper).await.unwrap();
        let mut registering = Vec::new();
        for number in 0..VOLUMES {
            serve(&node, number).await;
        }
        node.listen().await.unwrap();
        for number in 0..VOLUMES {
            let options = ConnectOptions::new("nqn.2026-11.example.flashyard:test");
            let nqn = subsystem(number);
            let host = Controller::connect(node.addresses()[0], &nqn, options);
            registering.push(reactor::spawn(register(host.await.unwrap())));
        }
        while asked.load(Ordering::Relaxed) < VOLUMES {
            reactor::sleep(Duration::from_millis(1)).await;
        }
        open(&node, &directory.path().join("late")).await;
        drop(go);
        for task in registering {
            assert_eq!(task.await, Status::SUCCESS);
        }
        node.shutdown(Duration::from_secs(1)).await.unwrap();
    });
}
