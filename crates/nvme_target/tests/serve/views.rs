//! A subsystem of many volumes, of which each host sees those that it may.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use access::AllowedHosts;
use block::{BlockDevice, Buffer, Durability, IoError, Lba};
use initiator::{ConnectOptions, Controller, Data, QueuePair, discover};
use nvme::command::{DATASET_DEALLOCATE, ReadWrite};
use nvme::event::AsyncEvent;
use nvme::feature::Feature;
use nvme::identify::{Cns, ControllerData};
use nvme::log::{AnaGroup, AnaHeader, ErrorEntry, LogPage, SmartHealth};
use nvme::{AdminOpcode, Direction, IoOpcode, SglDescriptor, Status, SubmissionEntry};
use nvme_target::{NAMESPACE_ID_MAX, Target, TargetError, TargetSettings};
use qos::{Limiter, Rate, Rates, Terms};
use zerocopy::FromBytes;
use zerocopy::little_endian::U32;

use crate::device::Memory;
use crate::io::geometry;
use crate::{Fixture, HOST, SUBSYSTEM, namespace, nqn, options, simulate};

const OTHER: &str = "nqn.2024-01.io.example:other";

/// A subsystem that nobody may see all of, with one namespace, which nobody sees yet.
fn start() -> Fixture {
    let fixture = Fixture::start(TargetSettings::default(), geometry(4096, 64));
    let nobody = AllowedHosts::list([]);
    fixture
        .target
        .set_allowed_hosts(&nqn(SUBSYSTEM), nobody)
        .unwrap();
    fixture
}

fn show(target: &Target<Memory>, nsid: u32, hosts: &[&str]) {
    let hosts = AllowedHosts::list(hosts.iter().map(|host| nqn(host)));
    target
        .set_namespace_hosts(&nqn(SUBSYSTEM), nsid, hosts)
        .unwrap();
}

/// One more namespace, which these hosts may see.
fn add(target: &Target<Memory>, nsid: u32, hosts: &[&str]) -> Rc<Memory> {
    let device = Rc::new(Memory::new(geometry(4096, 64)));
    let mut identity = namespace(1);
    identity.nsid = nsid;
    target
        .add_namespace(&nqn(SUBSYSTEM), identity, Rc::clone(&device))
        .unwrap();
    show(target, nsid, hosts);
    device
}

async fn other(fixture: &Fixture) -> Controller {
    fixture.connect(ConnectOptions::new(OTHER)).await
}

async fn ana_namespaces(controller: &Controller) -> Vec<u32> {
    let bytes = size_of::<AnaHeader>() + size_of::<AnaGroup>();
    let most = bytes + 4 * NAMESPACE_ID_MAX as usize;
    let log = controller.log_page(LogPage::ANA, 0, 0, most).await.unwrap();
    let (_, rest) = AnaHeader::read_from_prefix(&log).unwrap();
    let (group, rest) = AnaGroup::read_from_prefix(rest).unwrap();
    let count = group.namespaces.get() as usize;
    let (list, _) = <[U32]>::ref_from_prefix_with_elems(rest, count).unwrap();
    list.iter().map(|nsid| nsid.get()).collect()
}

/// Namespaces that the changed namespace list names.
pub(crate) async fn changed(controller: &Controller) -> Vec<u32> {
    assert_eq!(
        controller.next_event().await,
        Some(AsyncEvent::NAMESPACE_CHANGED)
    );
    let log = controller
        .log_page(LogPage::CHANGED_NAMESPACES, u32::MAX, 0, 4096)
        .await
        .unwrap();
    let (list, _) = <[U32]>::ref_from_prefix_with_elems(&log, 1024).unwrap();
    let list = list.iter().map(|nsid| nsid.get());
    list.take_while(|nsid| *nsid > 0).collect()
}

async fn flush(controller: &Controller, nsid: u32) -> Status {
    let entry = SubmissionEntry::new(IoOpcode::FLUSH.0, nsid, SglDescriptor::transport(0));
    let queue = controller.queue(0).unwrap();
    let (_, completion) = queue.submit(entry, Data::None).await;
    completion.unwrap().status()
}

#[test]
fn each_host_finds_its_own_namespaces_and_no_other() {
    simulate(170, async {
        let fixture = start();
        let target = &fixture.target;
        let refused = Controller::connect(fixture.address, SUBSYSTEM, options()).await;
        assert!(refused.is_err(), "nothing is there for anybody");
        show(target, 1, &[HOST]);
        add(target, 2, &[OTHER]);
        add(target, 3, &[HOST, OTHER]);
        let (one, two) = (fixture.connect(options()).await, other(&fixture).await);
        for (host, seen, unseen) in [(&one, [1, 3], 2), (&two, [2, 3], 1)] {
            assert_eq!(host.active_namespaces().await.unwrap(), seen);
            assert_eq!(ana_namespaces(host).await, seen);
            for nsid in seen {
                let found = host.namespace(nsid).await.unwrap();
                let written = found.write(Lba(0), Buffer::zeroed(4096), Durability::Cached);
                assert_eq!(written.await.1, Ok(()));
            }
            assert!(host.namespace(unseen).await.is_err());
        }
        let stranger = ConnectOptions::new("nqn.2024-01.io.example:stranger");
        let found = discover(fixture.address, &stranger).await.unwrap();
        assert!(found.iter().all(|record| record.subsystem_nqn != SUBSYSTEM));
        let refused = Controller::connect(fixture.address, SUBSYSTEM, stranger).await;
        assert!(refused.is_err());
        // A flush of all is one of what the host sees.
        let flushes = fixture.device.flushes.get();
        assert_eq!(flush(&two, u32::MAX).await, Status::SUCCESS);
        assert_eq!(fixture.device.flushes.get(), flushes);
        assert_eq!(flush(&one, u32::MAX).await, Status::SUCCESS);
        assert_eq!(fixture.device.flushes.get(), flushes + 1);
    });
}

fn data_of(opcode: u8) -> Data {
    match Direction::of(opcode) {
        Direction::ToHost => Data::In(Buffer::zeroed(4096)),
        Direction::ToController => Data::Out(Buffer::zeroed(4096)),
        _ => Data::None,
    }
}

/// All there is to an answer: status with Do Not Retry, result, data.
type Answer = (u16, u64, Option<Vec<u8>>);

async fn answer(queue: Option<&QueuePair>, host: &Controller, entry: SubmissionEntry) -> Answer {
    let data = data_of(entry.opcode);
    let is_read = matches!(data, Data::In(_));
    let (data, completion) = match queue {
        Some(queue) => {
            let (data, completion) = queue.submit(entry, data).await;
            (data, completion.unwrap())
        }
        None => {
            let (data, completion) = host.admin(entry, data).await;
            (data, completion.unwrap())
        }
    };
    let data = data.into_buffer().filter(|_| is_read);
    let data = data.map(|buffer| buffer.to_vec());
    (completion.status().wire(), completion.result.get(), data)
}

/// Every admin command, structure of Identify, log page and feature.
fn admin_commands(nsid: u32) -> Vec<(String, SubmissionEntry)> {
    let entry = |opcode: AdminOpcode, dword10: u32, dword14: u32| {
        let mut entry = SubmissionEntry::new(opcode.0, nsid, SglDescriptor::transport(4096));
        entry.dword10[0] = U32::new(dword10);
        entry.dword10[1] = U32::new(dword14);
        entry
    };
    let mut all = Vec::new();
    for number in 0..=255 {
        let opcode = AdminOpcode(number);
        // These two concern no namespace: one is answered when something happens.
        if opcode != AdminOpcode::ASYNC_EVENT_REQUEST && opcode != AdminOpcode::FABRICS {
            all.push((format!("{opcode:?}"), entry(opcode, 0, 0)));
        }
        let number = u32::from(number);
        for command_set in 0..2 {
            let identify = entry(AdminOpcode::IDENTIFY, number, command_set << 24);
            all.push((
                format!("{:?} of {command_set}", Cns(number as u8)),
                identify,
            ));
        }
        let log = entry(AdminOpcode::GET_LOG_PAGE, number | 1023 << 16, 0);
        all.push((format!("{:?}", LogPage(number as u8)), log));
        let feature = Feature(number as u8);
        // The time is another one each time.
        if feature != Feature::TIMESTAMP {
            for select in 0..4 {
                let get = entry(AdminOpcode::GET_FEATURES, number | select << 8, 0);
                all.push((format!("get {feature:?}, {select}"), get));
            }
            let set = entry(AdminOpcode::SET_FEATURES, number, 0);
            all.push((format!("set {feature:?}"), set));
        }
    }
    all
}

/// Every I/O command, each with data as long as it needs.
fn io_commands(nsid: u32) -> Vec<(String, SubmissionEntry)> {
    let sgl = SglDescriptor::transport(4096);
    let plain = (0..=255).filter(|opcode| *opcode != AdminOpcode::FABRICS.0);
    let plain = plain.map(|opcode| SubmissionEntry::new(opcode, nsid, sgl));
    let mut all: Vec<SubmissionEntry> = plain.collect();
    for opcode in [IoOpcode::READ, IoOpcode::WRITE, IoOpcode::WRITE_ZEROES] {
        all.push(*ReadWrite::new(opcode, nsid, 0, 1, sgl).entry());
        // Behind its end, if it had one.
        all.push(*ReadWrite::new(opcode, nsid, u64::MAX, 1, sgl).entry());
    }
    let mut deallocate = SubmissionEntry::new(IoOpcode::DATASET_MANAGEMENT.0, nsid, sgl);
    deallocate.dword10[1] = U32::new(DATASET_DEALLOCATE);
    all.push(deallocate);
    let mut report = SubmissionEntry::new(IoOpcode::RESERVATION_REPORT.0, nsid, sgl);
    report.dword10[0] = U32::new(1023);
    report.dword10[1] = U32::new(1);
    all.push(report);
    let all = all.into_iter();
    all.map(|entry| (format!("{:?}", IoOpcode(entry.opcode)), entry))
        .collect()
}

/// Asks all of this, and wants the same answers; gives their statuses.
async fn same(
    queue: Option<&QueuePair>,
    host: &Controller,
    commands: impl Fn(u32) -> Vec<(String, SubmissionEntry)>,
) -> Vec<Status> {
    let pairs = commands(UNSEEN).into_iter().zip(commands(MISSING));
    let mut statuses = Vec::new();
    for ((what, unseen), (_, missing)) in pairs {
        let unseen = answer(queue, host, unseen).await;
        let missing = answer(queue, host, missing).await;
        let (one, other) = (unseen.0, missing.0);
        assert!(unseen == missing, "{what}: {one:x} and {other:x}");
        statuses.push(Status::from_wire(one));
    }
    statuses
}

async fn log<T: FromBytes>(host: &Controller, page: LogPage) -> T {
    let bytes = host.log_page(page, u32::MAX, 0, size_of::<T>()).await;
    T::read_from_bytes(&bytes.unwrap()).unwrap()
}

const UNSEEN: u32 = 2;
const MISSING: u32 = 3;

/// Whatever a host asks about a namespace that it may not see, and that has reservations, errors
/// and traffic, the answer is that of one that does not exist, to the last byte.
#[test]
fn what_a_host_may_not_see_is_answered_as_what_does_not_exist() {
    simulate(171, async {
        let fixture = start();
        let target = &fixture.target;
        show(target, 1, &[HOST, OTHER]);
        let device = add(target, UNSEEN, &[OTHER]);
        let two = other(&fixture).await;
        let register = IoOpcode::RESERVATION_REGISTER;
        assert_eq!(reserve(&two, register, 0, [0, 7]).await, Status::SUCCESS);
        device.failing.set(Some(IoError::UnrecoveredRead));
        let unseen = two.namespace(UNSEEN).await.unwrap();
        assert!(unseen.read(Lba(3), Buffer::new(4096)).await.1.is_err());
        device.failing.set(None);

        let mut options = options();
        options.async_events = false;
        let one = fixture.connect(options).await;
        same(None, &one, admin_commands).await;
        let queue = one.queue(0).unwrap();
        let statuses = same(Some(&queue), &one, io_commands).await;
        assert!(statuses.iter().all(|status| !status.is_success()));
        let fused = async |nsid| {
            let sgl = SglDescriptor::transport(4096);
            let half = |opcode| *ReadWrite::new(opcode, nsid, 0, 1, sgl).entry();
            let data = || Data::Out(Buffer::zeroed(4096));
            let (first, second) = (half(IoOpcode::COMPARE), half(IoOpcode::WRITE));
            let both = queue.submit_fused((first, data()), (second, data())).await;
            both.map(|(_, completion)| completion.unwrap().status().wire())
        };
        assert_eq!(fused(UNSEEN).await, fused(MISSING).await);
        // What is asked for all namespaces is about the visible one alone.
        let smart: SmartHealth = log(&one, LogPage::SMART).await;
        let counts = (smart.media_errors.get(), smart.error_entries.get());
        assert_eq!(counts, (0, 0));
        let error: ErrorEntry = log(&one, LogPage::ERROR).await;
        assert_eq!(error.error_count.get(), 0);
        let error: ErrorEntry = log(&two, LogPage::ERROR).await;
        assert_eq!((error.namespace_id.get(), error.lba.get()), (UNSEEN, 3));
    });
}

/// A change of one volume's hosts is told to the host concerned, and to no other. Its connection
/// and its other volumes go on; the last one that it sees takes the connection along.
#[test]
fn a_volume_is_shown_and_hidden_under_a_connection() {
    simulate(172, async {
        let fixture = start();
        let target = &fixture.target;
        show(target, 1, &[HOST, OTHER]);
        let device = add(target, 2, &[]);
        let (one, two) = (fixture.connect(options()).await, other(&fixture).await);
        show(target, 2, &[HOST]);
        assert_eq!(changed(&one).await, [2]);
        assert_eq!(one.active_namespaces().await.unwrap(), [1, 2]);
        assert_eq!(two.active_namespaces().await.unwrap(), [1]);
        let shown = one.namespace(2).await.unwrap();
        assert_eq!(shown.read(Lba(0), Buffer::new(4096)).await.1, Ok(()));
        assert_eq!(
            target
                .remove_namespace(&nqn(SUBSYSTEM), 9)
                .await
                .err()
                .map(|error| error.to_string()),
            Some(TargetError::UnknownNamespace(9).to_string())
        );

        show(target, 2, &[]);
        assert_eq!(changed(&one).await, [2]);
        assert_eq!(one.active_namespaces().await.unwrap(), [1]);
        assert_eq!(
            flush(&one, 2).await,
            Status::INVALID_NAMESPACE.do_not_retry()
        );
        assert_eq!(flush(&one, 1).await, Status::SUCCESS);
        assert_eq!(target.sessions().len(), 2);
        assert_eq!(device.flushes.get(), 0);

        show(target, 1, &[OTHER]);
        reactor::sleep(Duration::from_secs(3)).await;
        let left = target.sessions();
        assert_eq!(left.len(), 1);
        assert_eq!(left[0].host_nqn, nqn(OTHER));
        // All of this was news for one host.
        let told = reactor::timeout(Duration::from_secs(9), two.next_event()).await;
        assert!(told.is_err(), "{told:?}");
    });
}

/// A host that was denied one of its volumes is fenced there once its last command has ended on the
/// device. Commands that wait for their turn are refused when that comes, and write nothing.
#[test]
fn a_denied_volume_is_fenced_while_its_host_stays_connected() {
    simulate(173, async {
        let fixture = start();
        let (target, name) = (&fixture.target, nqn(SUBSYSTEM));
        show(target, 1, &[HOST]);
        let device = add(target, 2, &[HOST]);
        let host = fixture.connect(options()).await;
        let limiter = Limiter::new(&Rates {
            total: Rate {
                iops: Some(1),
                ..Rate::default()
            },
            burst_ms: 10,
            ..Rates::default()
        });
        let terms = Terms {
            limiters: vec![Arc::new(limiter)],
            part: None,
        };
        target.set_terms(&name, 2, &Arc::new(terms)).unwrap();
        device.delay.set(Duration::from_secs(9));
        let volume = host.namespace(2).await.unwrap();
        let write = |number: u8| {
            let volume = volume.clone();
            let mut block = Buffer::zeroed(4096);
            block.fill(number);
            reactor::spawn(async move {
                volume
                    .write(Lba(number.into()), block, Durability::Cached)
                    .await
                    .1
            })
        };
        let first = write(1);
        reactor::sleep(Duration::from_millis(100)).await;
        let waiting = write(2);
        reactor::sleep(Duration::from_millis(100)).await;
        show(target, 2, &[]);
        let asked = reactor::now();
        assert!(
            !target
                .is_fenced(&name, 2, Duration::from_secs(5))
                .await
                .unwrap()
        );
        assert!(
            target
                .is_fenced(&name, 2, Duration::from_secs(60))
                .await
                .unwrap()
        );
        let waited = reactor::now() - asked;
        assert!(waited >= Duration::from_secs(8), "fenced after {waited:?}");
        assert_eq!(first.await, Ok(()));
        assert!(waiting.await.is_err());
        let (found, _) = device.read(Lba(2), Buffer::new(4096)).await;
        assert!(found.iter().all(|byte| *byte == 0));
        assert_eq!(flush(&host, 1).await, Status::SUCCESS);
    });
}

/// The largest subsystem: lists over several pages, the whole ANA log, a list of changes that is
/// full and then says so, and a change of each namespace under many connected hosts.
#[test]
fn a_subsystem_has_as_many_namespaces_as_it_says() {
    simulate(174, async {
        let fixture = start();
        let target = &fixture.target;
        show(target, 1, &[HOST]);
        let host = fixture.connect(options()).await;
        let data = host.identify_structure(Cns::CONTROLLER, 0).await.unwrap();
        let data = ControllerData::read_from_bytes(&data).unwrap();
        let most = (data.namespace_max.get(), data.namespaces_allowed.get());
        assert_eq!(most, (NAMESPACE_ID_MAX, NAMESPACE_ID_MAX));
        const { assert!(NAMESPACE_ID_MAX >= 8192) };
        let device = Rc::new(Memory::new(geometry(4096, 1)));
        let mut add = |nsid| {
            let mut identity = namespace(1);
            identity.nsid = nsid;
            let device = Rc::clone(&device);
            target
                .add_namespace(&nqn(SUBSYSTEM), identity, device)
                .unwrap();
            show(target, nsid, &[HOST, OTHER]);
        };
        (2..=1025).for_each(&mut add);
        assert_eq!(changed(&host).await, (2..=1025).collect::<Vec<_>>());
        (1026..=NAMESPACE_ID_MAX).for_each(&mut add);
        assert_eq!(changed(&host).await, [u32::MAX]);
        let all: Vec<u32> = (1..=NAMESPACE_ID_MAX).collect();
        assert_eq!(host.active_namespaces().await.unwrap(), all);
        assert_eq!(ana_namespaces(&host).await, all);
        let two = other(&fixture).await;
        assert_eq!(two.active_namespaces().await.unwrap(), all[1..]);
        assert!(two.namespace(NAMESPACE_ID_MAX).await.is_ok());
        let over = target.add_namespace(&nqn(SUBSYSTEM), namespace(NAMESPACE_ID_MAX + 1), device);
        assert!(matches!(over, Err(TargetError::NamespaceId(_))));
        for nsid in (1..=NAMESPACE_ID_MAX).rev() {
            show(target, nsid, &[OTHER]);
        }
        assert_eq!(two.active_namespaces().await.unwrap(), all);
    });
}

/// A host that was denied a namespace hears nothing more of its reservations, also of what it had
/// not read yet, and changes none.
#[test]
fn a_denied_host_has_no_part_in_reservations() {
    simulate(175, async {
        let fixture = start();
        let target = &fixture.target;
        show(target, 1, &[HOST, OTHER]);
        add(target, 2, &[HOST, OTHER]);
        let (one, two) = (fixture.connect(options()).await, other(&fixture).await);
        for (host, key) in [(&one, 1), (&two, 2)] {
            assert_eq!(
                reserve(host, IoOpcode::RESERVATION_REGISTER, 0, [0, key]).await,
                Status::SUCCESS
            );
        }
        let acquire = IoOpcode::RESERVATION_ACQUIRE;
        let (exclusive, registrants_only) = (1 << 8, 4 << 8);
        assert_eq!(
            reserve(&one, acquire, exclusive, [1, 0]).await,
            Status::SUCCESS
        );
        assert_eq!(
            reserve(&two, acquire, registrants_only | 1, [2, 1]).await,
            Status::SUCCESS
        );
        assert_eq!(one.next_event().await, Some(AsyncEvent::RESERVATION));
        show(target, 2, &[OTHER]);
        let unread = one
            .log_page(LogPage::RESERVATION, u32::MAX, 0, 64)
            .await
            .unwrap();
        assert!(unread.iter().all(|byte| *byte == 0), "{:?}", &unread[..16]);

        // It comes back and registers, and is denied again: what happens then is not told to it.
        show(target, 2, &[HOST, OTHER]);
        assert_eq!(
            reserve(&one, IoOpcode::RESERVATION_REGISTER, 0, [0, 1]).await,
            Status::SUCCESS
        );
        show(target, 2, &[OTHER]);
        let refused = Status::INVALID_NAMESPACE.do_not_retry();
        assert_eq!(reserve(&one, acquire, exclusive, [1, 0]).await, refused);
        let clear = IoOpcode::RESERVATION_RELEASE;
        assert_eq!(
            reserve(&two, clear, registrants_only | 1, [2, 0]).await,
            Status::SUCCESS
        );
        let mut told = Vec::new();
        while let Ok(event) = reactor::timeout(Duration::from_secs(9), one.next_event()).await {
            told.push(event);
        }
        assert_eq!(told, [Some(AsyncEvent::NAMESPACE_CHANGED)]);
    });
}

/// A reservation command for namespace 2, with two keys.
async fn reserve(host: &Controller, opcode: IoOpcode, action: u32, keys: [u64; 2]) -> Status {
    let mut entry = SubmissionEntry::new(opcode.0, 2, SglDescriptor::transport(16));
    entry.dword10[0] = U32::new(action);
    let keys = Data::Out(Buffer::copy_of(&keys.map(u64::to_le_bytes).concat()));
    let (_, completion) = host.queue(0).unwrap().submit(entry, keys).await;
    completion.unwrap().status()
}
