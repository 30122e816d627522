//! Copies that take their time: what ends them, what waits for them, and what they cost.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use access::AllowedHosts;
use block::{BlockDevice, Buffer, Durability, Lba};
use initiator::{Controller, Data};
use nvme::command::{Abort, CrossControllerReset, IoOpcode, ReadWrite};
use nvme::copy::{CopyCommand, CopyFormat, SourceRange};
use nvme::fabrics::Connect;
use nvme::identify::{Cns, ControllerData, Identify};
use nvme::{AdminOpcode, SglDescriptor, Status, SubmissionEntry};
use nvme_target::{Target, TargetSettings};
use qos::{Limiter, Rate, Rates, Terms};
use reactor::{now, sleep, spawn};
use zerocopy::{FromBytes, IntoBytes};

use crate::copy::{SECOND, blocks_of, copy, fill, start, submit};
use crate::device::Memory;
use crate::io::geometry;
use crate::raw::{Raw, capsule, connect_data};
use crate::{Fixture, HOST, SUBSYSTEM, cores, nqn, options, simulate};

const OTHER: &str = "nqn.2024-01.io.example:other";

fn show(target: &Target<Memory>, nsid: u32, hosts: &[&str]) {
    let hosts = AllowedHosts::list(hosts.iter().map(|host| nqn(host)));
    target
        .set_namespace_hosts(&nqn(SUBSYSTEM), nsid, hosts)
        .unwrap();
}

/// A namespace that a host may not see is for its copies one that does not exist, and one that it
/// is denied meanwhile is read no more.
#[test]
fn a_copy_reads_nothing_that_its_host_may_not_see() {
    simulate(425, async {
        let (fixture, second) = start(1024);
        fill(&second, 100).await;
        let target = &fixture.target;
        target
            .set_allowed_hosts(&nqn(SUBSYSTEM), AllowedHosts::list([]))
            .unwrap();
        show(target, 1, &[HOST]);
        show(target, SECOND, &[OTHER]);
        let host = fixture.connect(options()).await;
        let queue = host.queue(0).unwrap();
        let across = |nsid| copy(0, CopyFormat::NAMED, &[SourceRange::new(nsid, 0, 640)]);
        let (unseen, missing) = (
            submit(&queue, across(SECOND)).await,
            submit(&queue, across(7)).await,
        );
        assert_eq!(unseen, missing);
        assert_eq!(unseen.0, Status::INVALID_FIELD.do_not_retry());
        show(target, SECOND, &[HOST]);
        second.delay.set(Duration::from_secs(2));
        let copying = spawn(async move { submit(&queue, across(SECOND)).await });
        sleep(Duration::from_secs(3)).await;
        show(target, SECOND, &[OTHER]);
        let name = nqn(SUBSYSTEM);
        let fenced = target.is_fenced(&name, SECOND, Duration::from_secs(60));
        assert!(fenced.await.unwrap());
        let (status, range) = copying.await;
        assert_eq!(status, Status::INVALID_NAMESPACE.do_not_retry());
        assert_eq!(range, 0);
        // Pieces have 64 blocks. The second was being read.
        let starts = [0, 64, 128].map(|start| blocks_of(&fixture.device, start, 1));
        let [first, second, third] = starts;
        assert_eq!((first.await, second.await), (vec![100], vec![164]));
        assert_eq!(third.await, [0], "nothing that was read after the denial");
    });
}

/// The fence of a denial waits for what a Copy has under way on the namespace that it writes, and
/// nothing more of it is written then.
#[test]
fn a_denied_namespace_is_fenced_from_copies() {
    simulate(426, async {
        let (fixture, second) = start(1024);
        fill(&second, 100).await;
        let target = &fixture.target;
        let host = fixture.connect(options()).await;
        let queue = host.queue(0).unwrap();
        fixture.device.delay.set(Duration::from_secs(9));
        let across = copy(0, CopyFormat::NAMED, &[SourceRange::new(SECOND, 0, 640)]);
        let copying = spawn(async move { submit(&queue, across).await });
        sleep(Duration::from_secs(1)).await;
        show(target, SECOND, &[HOST]);
        target
            .set_allowed_hosts(&nqn(SUBSYSTEM), AllowedHosts::list([]))
            .unwrap();
        let name = nqn(SUBSYSTEM);
        let soon = target.is_fenced(&name, 1, Duration::from_secs(5)).await;
        assert!(!soon.unwrap(), "a piece is being written");
        let fenced = target.is_fenced(&name, 1, Duration::from_secs(60)).await;
        assert!(fenced.unwrap());
        assert!(copying.await.0 == Status::INVALID_NAMESPACE.do_not_retry());
        fixture.device.delay.set(Duration::ZERO);
        assert_eq!(blocks_of(&fixture.device, 63, 2).await, [163, 0]);
    });
}

fn limited(rate: Rate) -> Arc<Terms> {
    let rates = Rates {
        total: rate,
        burst_ms: 10,
        ..Rates::default()
    };
    Arc::new(Terms {
        limiters: vec![Arc::new(Limiter::new(&rates))],
        part: None,
    })
}

/// What is copied counts for the limits of the volume that is read, and of the one that is written.
#[test]
fn copies_count_for_the_limits_of_both_volumes() {
    simulate(427, async {
        let (fixture, _) = start(8192);
        let host = fixture.connect(options()).await;
        let queue = host.queue(0).unwrap();
        let bandwidth = Rate {
            bytes_per_second: Some(1 << 20),
            ..Rate::default()
        };
        let commands = Rate {
            iops: Some(10),
            ..Rate::default()
        };
        let free = Arc::new(Terms::default());
        // 8 MiB, in 32 pieces.
        for (nsid, rate, seconds) in [
            (1, bandwidth, 8),
            (SECOND, bandwidth, 8),
            (1, commands, 3),
            (SECOND, commands, 3),
        ] {
            let name = nqn(SUBSYSTEM);
            fixture
                .target
                .set_terms(&name, nsid, &limited(rate))
                .unwrap();
            let began = now();
            let across = copy(0, CopyFormat::NAMED, &[SourceRange::new(SECOND, 0, 2048)]);
            assert!(submit(&queue, across).await.0.is_success());
            let took = (now() - began).as_secs();
            assert!((seconds - 1..=seconds).contains(&took), "{nsid}: {took} s");
            fixture.target.set_terms(&name, nsid, &free).unwrap();
        }
        let counted = &fixture.target.counters().namespaces;
        assert_eq!(counted[0].write_bytes, 4 * (8 << 20));
        assert_eq!(counted[1].read_bytes, 4 * (8 << 20));
    });
}

fn abort_of(queue_id: u16, command_id: u16) -> SubmissionEntry {
    let entry = SubmissionEntry::new(AdminOpcode::ABORT.0, 0, SglDescriptor::transport(0));
    let mut command = *Abort::of(&entry);
    command.submission_queue = queue_id.into();
    command.command_id = command_id.into();
    *command.entry()
}

/// 0 where the command was aborted.
async fn abort(host: &Controller, queue_id: u16, command_id: u16) -> u64 {
    let (_, answer) = host.admin(abort_of(queue_id, command_id), Data::None).await;
    answer.unwrap().result.get()
}

async fn connect_to(address: SocketAddr) -> Controller {
    let mut options = options();
    options.io_queues = 1;
    Controller::connect(address, SUBSYSTEM, options)
        .await
        .unwrap()
}

/// Abort ends a Copy between two steps, be it while it waits for a limit, on whichever core its
/// queue is, and says so; it ends none that is over.
#[test]
fn an_abort_reaches_a_copy_under_way() {
    for (seed, limits) in [(430, false), (431, true)] {
        simulate(seed, async move {
            let (fixture, second) = start(8192);
            fill(&second, 100).await;
            let host = connect_to(fixture.address).await;
            let queue = host.queue(0).unwrap();
            fixture.device.delay.set(Duration::from_millis(500));
            if limits {
                let rate = Rate {
                    iops: Some(1),
                    ..Rate::default()
                };
                let terms = limited(rate);
                let name = nqn(SUBSYSTEM);
                fixture.target.set_terms(&name, 1, &terms).unwrap();
            }
            assert_eq!(abort(&host, 1, 0).await, 1, "there is none");
            let across = copy(0, CopyFormat::NAMED, &[SourceRange::new(SECOND, 0, 2048)]);
            let copying = spawn(async move { submit(&queue, across).await });
            sleep(Duration::from_millis(1750)).await;
            let mut aborted = 0;
            for id in 0..4 {
                aborted += u32::from(abort(&host, 1, id).await == 0);
            }
            assert_eq!(aborted, 1);
            let (status, range) = copying.await;
            assert_eq!((status, range), (Status::ABORT_REQUESTED, 0));
            fixture.device.delay.set(Duration::ZERO);
            sleep(Duration::from_secs(30)).await;
            assert_eq!(blocks_of(&fixture.device, 0, 1).await, [100]);
            assert_eq!(blocks_of(&fixture.device, 1984, 1).await, [0]);
        });
    }
}

/// The same where the queue is on another core than its controller.
#[test]
fn an_abort_reaches_a_copy_on_another_core() {
    simulate(432, async {
        let nodes = cores::start(2);
        let (admin, id) = Raw::enabled(nodes[0].1, 0).await;
        let queue = Raw::initialized(nodes[1].1).await;
        let connect = Connect::new(1, 31, 0);
        let connected = queue.connect(&connect, &connect_data(id)).await;
        assert!(connected.status().is_success());
        nodes[0].2.delay.set(Duration::from_millis(200));
        let source = SourceRange::new(0, 0, 16);
        let mut command = CopyCommand::new(1, 32, CopyFormat::OWN, 1);
        command.data = SglDescriptor::in_capsule(32);
        command.command_id = 9.into();
        queue
            .send(&capsule(command.entry(), source.as_bytes()))
            .await;
        sleep(Duration::from_millis(100)).await;
        let aborted = admin.command(&abort_of(1, 9), &[]).await;
        assert_eq!(aborted.result.get(), 0);
        let response = queue.receive(24).await.unwrap();
        let status = u16::from_le_bytes([response[22], response[23]]);
        assert_eq!(Status::from_wire(status), Status::ABORT_REQUESTED);
        let again = admin.command(&abort_of(1, 9), &[]).await;
        assert_eq!(again.result.get(), 1, "it is over");
    });
}

/// However many copies come at once, what they hold together is bounded, and so is what waits for
/// room: it holds nothing. An abort takes it out of the line, be it a Read.
#[test]
fn copies_at_once_hold_bounded_memory() {
    simulate(433, async {
        const ROOM: usize = 1 << 20;
        let settings = TargetSettings {
            read_bytes_max: ROOM,
            ..TargetSettings::default()
        };
        let fixture = Fixture::start(settings, geometry(4096, 8192));
        let host = connect_to(fixture.address).await;
        let queue = host.queue(0).unwrap();
        fixture.device.delay.set(Duration::from_millis(10));
        let copies: Vec<_> = (0..25)
            .map(|_| {
                let (queue, source) = (queue.clone(), SourceRange::new(0, 0, 256));
                spawn(async move { submit(&queue, copy(4096, CopyFormat::OWN, &[source])).await })
            })
            .collect();
        let read = *ReadWrite::new(IoOpcode::READ, 1, 0, 1, SglDescriptor::transport(4096)).entry();
        let reader = queue.clone();
        let waiting = spawn(async move { reader.submit(read, Data::In(Buffer::new(4096))).await });
        sleep(Duration::from_millis(5)).await;
        assert_eq!(fixture.device.held.get(), ROOM, "as many as have room");
        let mut aborted = 0;
        for id in 0..=25 {
            // The device has what has begun: it ends when that has.
            aborted += u32::from(id >= 20 && abort(&host, 1, id).await == 0);
        }
        assert_eq!(aborted, 6);
        let read = waiting.await.1.unwrap().status();
        assert_eq!(read, Status::ABORT_REQUESTED, "the last one to come");
        let mut ended = Vec::new();
        for copy in copies {
            ended.push(copy.await.0);
        }
        let well = ended.iter().filter(|status| status.is_success());
        assert_eq!(well.count(), 20);
        assert_eq!(fixture.device.held_max.get(), ROOM);
    });
}

/// A Copy of a controller that was lost writes no piece once that controller is reset: the reset
/// waits for the piece that its device has.
#[test]
fn a_copy_of_a_lost_controller_ends_with_it() {
    simulate(434, async {
        let (fixture, second) = start(8192);
        fill(&second, 100).await;
        let (lost, id) = Raw::enabled(fixture.address, 0).await;
        let queue = Raw::initialized(fixture.address).await;
        let connected = queue
            .connect(&Connect::new(1, 31, 0), &connect_data(id))
            .await;
        assert!(connected.status().is_success());
        let identify = Identify::new(Cns::CONTROLLER, 0);
        lost.send(&capsule(identify.entry(), &[])).await;
        let data = lost.receive(24 + 4096).await.unwrap();
        let identity = ControllerData::read_from_bytes(&data[24..]).unwrap();
        let other = fixture.connect(options()).await;

        let source = SourceRange::new(0, 0, 2048);
        let mut command = CopyCommand::new(1, 4096, CopyFormat::OWN, 1);
        command.data = SglDescriptor::in_capsule(32);
        fill(&fixture.device, 100).await;
        fixture.device.delay.set(Duration::from_secs(9));
        queue
            .send(&capsule(command.entry(), source.as_bytes()))
            .await;
        // The first piece is read, and is being written.
        sleep(Duration::from_secs(10)).await;
        let random = identity.instance_random.get();
        let reset = CrossControllerReset::new(id, identity.instance_uniquifier, random);
        let began = now();
        let (_, answer) = other.admin(*reset.entry(), Data::None).await;
        assert_eq!(answer.unwrap().result.get() & 1, 0, "a piece is under way");
        other.next_event().await;
        let took = (now() - began).as_secs();
        assert!((7..10).contains(&took), "{took} s");
        fixture.device.delay.set(Duration::ZERO);
        let volume = other.namespace(1).await.unwrap();
        let data = Buffer::copy_of(&[1; 4096]);
        let written = volume.write(Lba(4096), data, Durability::Cached).await.1;
        written.unwrap();
        sleep(Duration::from_secs(60)).await;
        assert_eq!(blocks_of(&fixture.device, 4096, 2).await, [1, 101]);
        assert_eq!(blocks_of(&fixture.device, 4096 + 64, 1).await, [0]);
    });
}
