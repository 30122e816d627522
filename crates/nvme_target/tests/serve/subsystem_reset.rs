//! NVM Subsystem Reset: the host that asks for it loses its sessions, and no other does.

use std::net::SocketAddr;
use std::time::Duration;

use access::AllowedHosts;
use block::{BlockDevice, Buffer, Lba};
use initiator::{ConnectOptions, Controller};
use nvme::Status;
use nvme::fabrics::{
    Configuration, Connect, ConnectData, DISCOVERY_NQN, Property, PropertyOffset, SUBSYSTEM_RESET,
    controller_status,
};
use reactor::sleep;

use crate::raw::{Raw, connect_data};
use crate::{HOST, SUBSYSTEM, cores, simulate, subsystem};

const ELSEWHERE: &str = "nqn.2024-01.io.flashyard:elsewhere";
const OCCURRED: u64 = controller_status::SUBSYSTEM_RESET_OCCURRED as u64;

/// Time enough for connections to be closed.
const SOON: Duration = Duration::from_secs(3);

/// The same for the admin connection by which the host has asked.
const LATER: Duration = Duration::from_secs(6);

async fn get(raw: &Raw, offset: PropertyOffset, wide: bool) -> u64 {
    let property = Property::get(offset, wide);
    let answer = raw.command(property.entry(), &[]).await;
    assert!(answer.status().is_success());
    answer.result.get()
}

async fn set(raw: &Raw, offset: PropertyOffset, value: u32) -> Status {
    let property = Property::set(offset, value);
    raw.command(property.entry(), &[]).await.status()
}

/// An admin queue of such a controller, enabled; gives its identifier too.
async fn enabled(address: SocketAddr, data: ConnectData) -> (Raw, u16) {
    let raw = Raw::initialized(address).await;
    let connected = raw.connect(&Connect::new(0, 31, 0), &data).await;
    assert!(connected.status().is_success());
    raw.configure(Configuration::ENABLE).await;
    (raw, connected.result.get() as u16)
}

fn of(subsystem_nqn: &str, host_nqn: &str, host_id: u8) -> ConnectData {
    ConnectData::new([host_id; 16], 0xffff, subsystem_nqn, host_nqn)
}

async fn reads(controller: &Controller) -> bool {
    let volume = controller.namespace(1).await.unwrap();
    volume.read(Lba(0), Buffer::new(4096)).await.1.is_ok()
}

/// All that a host has of the subsystem ends, on every core, once the answer is there. What another
/// host has goes on, and so does another name with the same identifier, the same name with another
/// one, and what the host has of another subsystem.
#[test]
fn a_subsystem_reset_ends_the_sessions_of_its_host_alone() {
    simulate(440, async {
        let nodes = cores::start(2);
        for (target, _, _) in &nodes {
            let other = subsystem(ELSEWHERE, AllowedHosts::Any);
            target.add_subsystem(other).unwrap();
        }
        let other = ConnectOptions::new("nqn.2024-01.io.example:other");
        let other = Controller::connect(nodes[0].1, SUBSYSTEM, other).await;
        let other = other.unwrap();
        let mut own = Vec::new();
        for (_, address, _) in &nodes {
            let (admin, id) = Raw::enabled(*address, 0).await;
            let queue = Raw::initialized(nodes[1].1).await;
            let connect = Connect::new(1, 31, 0);
            let connected = queue.connect(&connect, &connect_data(id)).await;
            assert!(connected.status().is_success());
            own.extend([admin, queue]);
        }
        let spared = [
            enabled(nodes[0].1, of(SUBSYSTEM, HOST, 9)).await.0,
            enabled(nodes[0].1, of(ELSEWHERE, HOST, 1)).await.0,
        ];
        let capabilities = get(&own[0], PropertyOffset::CAPABILITIES, true).await;
        assert_eq!(capabilities >> 36 & 1, 1, "NSSRS");
        let offset = PropertyOffset::SUBSYSTEM_RESET;
        for without_effect in [0, 1, SUBSYSTEM_RESET ^ 1] {
            assert!(set(&own[0], offset, without_effect).await.is_success());
        }
        sleep(SOON).await;
        assert_eq!(get(&own[0], offset, false).await, 0);
        assert!(set(&own[0], offset, SUBSYSTEM_RESET).await.is_success());
        for connection in &own[1..] {
            assert!(connection.closes_within(SOON).await);
        }
        // The controller that was asked can be disabled, as Linux does, and goes then.
        assert_eq!(get(&own[0], PropertyOffset::STATUS, false).await, OCCURRED);
        own[0].configure(Configuration(0)).await;
        assert!(own[0].closes_within(LATER).await);
        assert!(reads(&other).await);
        for admin in &spared {
            assert_eq!(get(admin, PropertyOffset::STATUS, false).await, 1);
        }
        let left: usize = nodes.iter().map(|node| node.0.sessions().len()).sum();
        assert_eq!(left, 3);
    });
}

/// NSSRO is set from the start in controllers that the host has connected since, on every core,
/// until it is written. Other hosts see nothing of it.
#[test]
fn a_host_is_told_of_its_subsystem_reset_until_it_says_that_it_knows() {
    simulate(441, async {
        let nodes = cores::start(2);
        let (admin, _) = Raw::enabled(nodes[0].1, 0).await;
        let status = PropertyOffset::STATUS;
        assert_eq!(get(&admin, status, false).await & OCCURRED, 0);
        let offset = PropertyOffset::SUBSYSTEM_RESET;
        assert!(set(&admin, offset, SUBSYSTEM_RESET).await.is_success());
        assert!(admin.closes_within(LATER).await);
        for (_, address, _) in &nodes {
            let (admin, _) = Raw::enabled(*address, 0).await;
            let ready = u64::from(controller_status::READY);
            assert_eq!(get(&admin, status, false).await, ready | OCCURRED);
            // What is not NSSRO is read only.
            assert!(set(&admin, status, !(OCCURRED as u32)).await.is_success());
            assert_eq!(get(&admin, status, false).await, ready | OCCURRED);
            assert!(set(&admin, status, OCCURRED as u32).await.is_success());
            assert_eq!(get(&admin, status, false).await, ready);
            admin.configure(Configuration(0)).await;
            admin.configure(Configuration::ENABLE).await;
            assert_eq!(get(&admin, status, false).await, ready);
            let other = of(SUBSYSTEM, "nqn.2024-01.io.example:other", 7);
            let (other, _) = enabled(*address, other).await;
            assert_eq!(get(&other, status, false).await, ready);
        }
    });
}

/// A discovery controller has no subsystem that could be reset, and says so.
#[test]
fn a_discovery_controller_takes_no_subsystem_reset() {
    simulate(442, async {
        let nodes = cores::start(1);
        let raw = Raw::initialized(nodes[0].1).await;
        let (connect, data) = (Connect::new(0, 31, 0), of(DISCOVERY_NQN, HOST, 1));
        let connected = raw.connect(&connect, &data).await;
        assert!(connected.status().is_success());
        let capabilities = get(&raw, PropertyOffset::CAPABILITIES, true).await;
        assert_eq!(capabilities >> 36 & 1, 0);
        let refused = Status::INVALID_FIELD.do_not_retry();
        for offset in [PropertyOffset::SUBSYSTEM_RESET, PropertyOffset::STATUS] {
            assert_eq!(set(&raw, offset, SUBSYSTEM_RESET).await, refused);
        }
    });
}
