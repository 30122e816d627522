//! Cross-Controller Reset: a host that has lost a controller has it ended by another one, and no
//! write of the lost one lands after that.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use access::AllowedHosts;
use block::{BlockDevice, Buffer, Durability, Lba};
use initiator::{ConnectOptions, Controller, Data};
use nvme::command::{CrossControllerReset, IoOpcode, ReadWrite, cross_reset_result as result, sgl};
use nvme::event::AsyncEvent;
use nvme::fabrics::{Configuration, Connect, DISCOVERY_NQN};
use nvme::identify::{Cns, ControllerData};
use nvme::log::{
    CrossResetEntry, CrossResetHeader, CrossResetState, GetLogPage, LogPage, REMOVE_COMPLETED,
    cross_reset_flags,
};
use nvme::{SglDescriptor, Status, SubmissionEntry};
use nvme_target::TargetSettings;
use reactor::{now, sleep, spawn};
use zerocopy::FromBytes;

use crate::io::geometry;
use crate::raw::{Raw, capsule, connect_data};
use crate::{Fixture, SUBSYSTEM, cores, nqn, options, simulate, subsystem};

const DONE: u32 = result::IMMEDIATE | result::VALIDATED | result::INITIATED;

fn start() -> Fixture {
    Fixture::start(TargetSettings::default(), geometry(4096, 64))
}

async fn identified(controller: &Controller) -> ControllerData {
    let bytes = controller.identify_structure(Cns::CONTROLLER, 0).await;
    ControllerData::read_from_bytes(&bytes.unwrap()).unwrap()
}

/// The command that ends the controller which says this of itself.
fn reset_of(lost: &ControllerData) -> SubmissionEntry {
    let id = lost.controller_id.get();
    let random = lost.instance_random.get();
    *CrossControllerReset::new(id, lost.instance_uniquifier, random).entry()
}

/// Dword 0 of the answer, or its status.
async fn reset(by: &Controller, lost: &ControllerData) -> Result<u32, Status> {
    let (_, answer) = by.admin(reset_of(lost), Data::None).await;
    let answer = answer.unwrap();
    match answer.status().is_success() {
        true => Ok(answer.result.get() as u32),
        false => Err(answer.status().code()),
    }
}

/// The log; entries that are complete go by it if that is `removing`.
async fn log(of: &Controller, removing: bool) -> Vec<CrossResetEntry> {
    let mut command = GetLogPage::new(LogPage::CROSS_RESETS, u32::MAX, 0, 4096);
    command.specific = if removing { REMOVE_COMPLETED } else { 0 };
    let data = Data::In(Buffer::zeroed(4096));
    let (data, answer) = of.admin(*command.entry(), data).await;
    assert!(answer.unwrap().status().is_success());
    let page = data.into_buffer().unwrap();
    let (header, entries) = CrossResetHeader::read_from_prefix(&page).unwrap();
    let count = usize::from(header.entries.get());
    let (entries, _) = <[CrossResetEntry]>::ref_from_prefix_with_elems(entries, count).unwrap();
    entries.to_vec()
}

/// Waits until the reset by `by` that was not done at once is complete.
async fn completed(by: &Controller) {
    while log(by, true).await[0].state == CrossResetState::IN_PROGRESS {
        sleep(Duration::from_millis(100)).await;
    }
}

/// A write that its device holds back for longer than the host waits for the path: sent again by
/// another one, and followed by another write, it lands after that. A reset waits for it.
#[test]
fn an_old_write_lands_after_a_new_one_unless_its_controller_is_reset() {
    for (seed, resets) in [(300, false), (301, true), (302, false), (303, true)] {
        simulate(seed, async move {
            let fixture = start();
            let lost = fixture.connect(options()).await;
            let other = fixture.connect(options()).await;
            let identity = identified(&lost).await;
            let [old, new] = [1, 2].map(|byte| Buffer::copy_of(&[byte; 4096]));
            fixture.device.delay.set(Duration::from_secs(5));
            let on_its_way = lost.namespace(1).await.unwrap();
            let writing = spawn(async move {
                let written = on_its_way.write(Lba(7), old, Durability::Cached);
                written.await.1
            });
            sleep(Duration::from_millis(10)).await;
            fixture.device.delay.set(Duration::ZERO);
            lost.disconnect().await;
            drop(lost);
            assert!(writing.await.is_err());

            if resets {
                let answer = reset(&other, &identity).await.unwrap();
                assert_eq!(answer & result::IMMEDIATE, 0, "the device has a write");
                completed(&other).await;
            }
            let namespace = other.namespace(1).await.unwrap();
            let written = namespace.write(Lba(7), new, Durability::Cached);
            written.await.1.unwrap();
            sleep(Duration::from_secs(10)).await;
            let (found, read) = namespace.read(Lba(7), Buffer::new(4096)).await;
            read.unwrap();
            let expected = if resets { 2 } else { 1 };
            assert!(found.iter().all(|byte| *byte == expected), "{}", found[0]);
        });
    }
}

/// What arrives by a connection of the lost controller after the reset has no effect: a switch may
/// have kept it for a while.
#[test]
fn a_write_that_arrives_after_the_reset_does_not_land() {
    simulate(304, async {
        let fixture = start();
        let (lost, id) = Raw::enabled(fixture.address, 0).await;
        let queue = Raw::initialized(fixture.address).await;
        let connect = Connect::new(1, 31, 0);
        let connected = queue.connect(&connect, &connect_data(id)).await;
        assert!(connected.status().is_success());
        let other = fixture.connect(options()).await;

        let identify = nvme::identify::Identify::new(Cns::CONTROLLER, 0);
        lost.send(&capsule(identify.entry(), &[])).await;
        let data = lost.receive(24 + 4096).await.unwrap();
        let identity = ControllerData::read_from_bytes(&data[24..]).unwrap();
        assert_eq!(reset(&other, &identity).await, Ok(DONE));
        let data = SglDescriptor::in_capsule(4096);
        assert_eq!(data.kind, sgl::DATA_BLOCK_OFFSET);
        let write = ReadWrite::new(IoOpcode::WRITE, 1, 3, 1, data);
        queue.send(&capsule(write.entry(), &[1; 4096])).await;
        for connection in [&lost, &queue] {
            assert!(connection.closes_within(Duration::from_secs(3)).await);
        }
        let namespace = other.namespace(1).await.unwrap();
        let (found, read) = namespace.read(Lba(3), Buffer::new(4096)).await;
        assert!(read.is_ok() && found.iter().all(|byte| *byte == 0));
    });
}

/// The queues of the lost controller are on any core, and so is the one that resets it. An event
/// tells of an end that the answer did not, and the log does until it was read.
#[test]
fn a_reset_waits_for_commands_on_every_core() {
    for seed in 305..310 {
        simulate(seed, async move {
            let nodes = cores::start(3);
            let (lost, id) = Raw::enabled(nodes[1].1, 0).await;
            let identify = nvme::identify::Identify::new(Cns::CONTROLLER, 0);
            lost.send(&capsule(identify.entry(), &[])).await;
            let data = lost.receive(24 + 4096).await.unwrap();
            let identity = ControllerData::read_from_bytes(&data[24..]).unwrap();
            let mut queues = Vec::new();
            for (queue_id, (_, address, _)) in (1..).zip(&nodes) {
                let queue = Raw::initialized(*address).await;
                let connect = Connect::new(queue_id, 31, 0);
                let connected = queue.connect(&connect, &connect_data(id)).await;
                assert!(connected.status().is_success());
                queues.push(queue);
            }
            let other = Controller::connect(nodes[2].1, SUBSYSTEM, options()).await;
            let other = other.unwrap();
            // Each holds its write longer than the one before.
            for (at, queue) in (1..).zip(&queues) {
                nodes[0].2.delay.set(Duration::from_secs(2 * at));
                let data = SglDescriptor::in_capsule(4096);
                let write = ReadWrite::new(IoOpcode::WRITE, 1, at, 1, data);
                queue.send(&capsule(write.entry(), &[9; 4096])).await;
                sleep(Duration::from_millis(50)).await;
            }
            nodes[0].2.delay.set(Duration::ZERO);
            let began = now();
            assert_eq!(reset(&other, &identity).await, Ok(0));
            let busy = Err(Status::CROSS_RESET_IN_PROGRESS);
            assert_eq!(reset(&other, &identity).await, busy);
            for connection in queues.iter().chain([&lost]) {
                assert!(connection.closes_within(Duration::from_secs(3)).await);
            }
            let [entry] = log(&other, true).await[..] else {
                panic!("one reset is under way");
            };
            assert_eq!((entry.controller_id.get(), entry.flags), (id, 0b11));
            assert_eq!(entry.state, CrossResetState::IN_PROGRESS);

            let event = other.next_event().await.unwrap();
            assert_eq!(event, AsyncEvent::CROSS_RESET_COMPLETED);
            let took = now() - began;
            assert!((5..7).contains(&took.as_secs()), "{took:?}");
            let states = async |removing| {
                let entries = log(&other, removing).await;
                entries.iter().map(|one| one.state).collect::<Vec<_>>()
            };
            assert_eq!(states(false).await, [CrossResetState::SUCCESS]);
            assert_eq!(states(true).await, [CrossResetState::SUCCESS]);
            assert_eq!(states(true).await, []);
            let namespace = other.namespace(1).await.unwrap();
            for at in 1..=3 {
                let (found, read) = namespace.read(Lba(at), Buffer::new(4096)).await;
                assert!(read.is_ok() && found[0] == 9, "block {at}");
            }
        });
    }
}

/// A controller that ended before is no more reset than it is; what it has under way is waited for.
#[test]
fn a_controller_that_is_gone_is_waited_for_all_the_same() {
    simulate(310, async {
        let fixture = start();
        let lost = fixture.connect(options()).await;
        let other = fixture.connect(options()).await;
        let identity = identified(&lost).await;
        let namespace = lost.namespace(1).await.unwrap();
        fixture.device.delay.set(Duration::from_secs(4));
        let writing = spawn(async move {
            let data = Buffer::zeroed(4096);
            namespace.write(Lba(0), data, Durability::Cached).await.1
        });
        sleep(Duration::from_millis(10)).await;
        fixture.device.delay.set(Duration::ZERO);
        lost.disconnect().await;
        drop(lost);
        writing.await.unwrap_err();
        sleep(Duration::from_secs(1)).await;
        assert_eq!(fixture.target.sessions().len(), 1);
        assert_eq!(reset(&other, &identity).await, Ok(0));
        let [entry] = log(&other, true).await[..] else {
            panic!("one reset is under way");
        };
        assert_eq!(entry.flags & cross_reset_flags::VALIDATED, 0);
        completed(&other).await;
        assert_eq!(reset(&other, &identity).await, Ok(result::IMMEDIATE));
    });
}

/// A controller is named by three numbers, which are others whenever it is enabled.
#[test]
fn a_controller_that_is_enabled_again_is_another_one() {
    simulate(311, async {
        let fixture = start();
        let other = fixture.connect(options()).await;
        let own = identified(&other).await;
        assert_eq!(
            (own.cross_resets_max, own.command_quiesce_ms.get()),
            (4, 63_000)
        );
        assert!(own.instance_uniquifier > 0);

        let (raw, _) = Raw::enabled(fixture.address, 0).await;
        let identify = nvme::identify::Identify::new(Cns::CONTROLLER, 0);
        let identity = async || {
            raw.send(&capsule(identify.entry(), &[])).await;
            let data = raw.receive(24 + 4096).await.unwrap();
            ControllerData::read_from_bytes(&data[24..]).unwrap()
        };
        let before = identity().await;
        raw.configure(Configuration(0)).await;
        raw.configure(Configuration::ENABLE).await;
        let after = identity().await;
        assert_eq!(before.controller_id, after.controller_id);
        assert_ne!(before.instance_uniquifier, after.instance_uniquifier);
        assert_ne!(before.instance_random, after.instance_random);
        assert_eq!(reset(&other, &before).await, Ok(result::IMMEDIATE));
        assert_eq!(fixture.target.sessions().len(), 2, "another one was named");
        assert_eq!(reset(&other, &after).await, Ok(DONE));
        assert_eq!(fixture.target.sessions().len(), 1);
    });
}

#[test]
fn a_reset_is_for_another_controller_of_the_same_host_and_subsystem() {
    simulate(312, async {
        let fixture = start();
        let other = fixture.connect(options()).await;
        let own = identified(&other).await;
        let refused = Err(Status::INVALID_FIELD);
        assert_eq!(reset(&other, &own).await, refused, "itself");

        let stranger = ConnectOptions::new("nqn.2014-08.org.example:stranger");
        let stranger = fixture.connect(stranger).await;
        let of_stranger = identified(&stranger).await;
        assert_eq!(reset(&other, &of_stranger).await, refused, "another host's");

        let second = "nqn.2024-01.io.flashyard:second";
        let settings = subsystem(second, AllowedHosts::list([nqn(crate::HOST)]));
        fixture.target.add_subsystem(settings).unwrap();
        let elsewhere = Controller::connect(fixture.address, second, options()).await;
        let elsewhere = elsewhere.unwrap();
        let of_elsewhere = identified(&elsewhere).await;
        assert_eq!(reset(&other, &of_elsewhere).await, refused, "elsewhere");

        let mut unknown = identified(&stranger).await;
        unknown.controller_id = 0xffff.into();
        assert_eq!(reset(&other, &unknown).await, refused, "no identifier");
        let discovery = Controller::connect(fixture.address, DISCOVERY_NQN, options()).await;
        let unsupported = Err(Status::INVALID_OPCODE);
        assert_eq!(reset(&discovery.unwrap(), &own).await, unsupported);
        for untouched in [&other, &stranger, &elsewhere] {
            assert!(identified(untouched).await.controller_id.get() > 0);
        }
    });
}

/// CCRL: as many as are said run at a time, and no more.
#[test]
fn resets_in_progress_are_as_many_as_are_said() {
    simulate(313, async {
        let fixture = start();
        let other = fixture.connect(options()).await;
        let most = identified(&other).await.cross_resets_max;
        fixture.device.delay.set(Duration::from_secs(8));
        let mut lost = Vec::new();
        let failed = Rc::new(Cell::new(0));
        for at in 0..u64::from(most) + 1 {
            let controller = fixture.connect(options()).await;
            lost.push(identified(&controller).await);
            let namespace = controller.namespace(1).await.unwrap();
            let failed = Rc::clone(&failed);
            drop(spawn(async move {
                let data = Buffer::zeroed(4096);
                let write = namespace.write(Lba(at), data, Durability::Cached);
                let fails = usize::from(write.await.1.is_err());
                failed.set(failed.get() + fails);
            }));
        }
        sleep(Duration::from_millis(50)).await;
        let (last, first) = lost.split_last().unwrap();
        for identity in first {
            assert_eq!(reset(&other, identity).await, Ok(0));
        }
        let exceeded = Err(Status::CROSS_RESET_LIMIT_EXCEEDED);
        assert_eq!(reset(&other, last).await, exceeded);
        sleep(Duration::from_secs(8)).await;
        assert_eq!(
            (log(&other, true).await.len(), failed.get()),
            (first.len(), first.len())
        );
        // Its write has ended, and its host has left.
        assert_eq!(reset(&other, last).await, Ok(result::IMMEDIATE));
    });
}
