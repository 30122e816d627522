//! Reservations as hosts on several cores see them.

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use access::AllowedHosts;
use block::Buffer;
use initiator::{ConnectOptions, Controller, Data, Error};
use nvme::command::{IoOpcode, ReadWrite};
use nvme::event::AsyncEvent;
use nvme::feature::Feature;
use nvme::log::{GetLogPage, LogPage};
use nvme::reservation::{
    Keys, Notification, NotificationType, Registrant, ReportHeader, Reservation, ReservationType,
    action,
};
use nvme::{SglDescriptor, Status, SubmissionEntry};
use nvme_target::reservation::{Held, Reservations};
use nvme_target::rules::{Rules, RulesKeeper, Unkept};
use nvme_target::{Links, PortSettings, Target, TargetSettings};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, FromZeros, IntoBytes};

use crate::device::Memory;
use crate::io::geometry;
use crate::{SUBSYSTEM, namespace, nqn, simulate, subsystem};

/// Every one that was to be kept, in order.
pub type Kept = Arc<Mutex<Vec<Option<Arc<Rules>>>>>;

pub struct Cores {
    pub targets: Vec<Target<Memory>>,
    pub addresses: Vec<SocketAddr>,
    pub device: Rc<Memory>,
    pub kept: Kept,
}

pub fn start() -> Cores {
    start_at(4420)
}

/// Two cores that serve one namespace, with a port each from this one on.
pub fn start_at(port: u16) -> Cores {
    let device = Rc::new(Memory::new(geometry(4096, 64)));
    let mut cores = Cores {
        targets: Vec::new(),
        addresses: Vec::new(),
        device,
        kept: Kept::default(),
    };
    for (index, links) in Links::connect(2).into_iter().enumerate() {
        let target = Target::start(TargetSettings::default(), links);
        let listen = SocketAddr::from(([127, 0, 0, 1], port + index as u16));
        let settings = PortSettings {
            id: 1,
            listen,
            advertise: None,
            reuse_port: true,
            tls: false,
            transport: nvme_target::Transport::Tcp,
        };
        cores.addresses.push(target.add_port(settings).unwrap());
        let kept = Arc::clone(&cores.kept);
        target.keep_rules(Arc::new(move |_, nsid, rules| {
            assert_eq!(nsid, 1);
            kept.lock().unwrap().push(rules);
            Box::pin(async { Ok(()) })
        }));
        target
            .add_subsystem(subsystem(SUBSYSTEM, AllowedHosts::Any))
            .unwrap();
        let device = Rc::clone(&cores.device);
        target
            .add_namespace(&nqn(SUBSYSTEM), namespace(1), device)
            .unwrap();
        cores.targets.push(target);
    }
    cores
}

pub async fn host(address: SocketAddr, name: &str) -> Controller {
    let options = ConnectOptions::new(format!("nqn.2014-08.org.example:{name}"));
    Controller::connect(address, SUBSYSTEM, options)
        .await
        .unwrap()
}

/// A host that gives no identifier, as embedded ones do.
async fn anonymous(address: SocketAddr, name: &str) -> Controller {
    let mut options = ConnectOptions::new(format!("nqn.2014-08.org.example:{name}"));
    options.host_id = [0; 16];
    Controller::connect(address, SUBSYSTEM, options)
        .await
        .unwrap()
}

pub async fn submit(host: &Controller, entry: SubmissionEntry, data: Data) -> (Data, Status) {
    let (data, completion) = host.queue(0).unwrap().submit(entry, data).await;
    (data, completion.unwrap().status().code())
}

async fn ask(host: &Controller, opcode: IoOpcode, act: u8, kind: u8, keys: [u64; 2]) -> Status {
    let mut command = *Reservation::of(&SubmissionEntry::new(
        opcode.0,
        1,
        SglDescriptor::transport(16),
    ));
    command.action = act & 0x0f;
    command.persistence = act & 0xc0;
    command.kind = kind;
    let keys = Keys {
        current: U64::new(keys[0]),
        other: U64::new(keys[1]),
    };
    let data = Data::Out(Buffer::copy_of(keys.as_bytes()));
    submit(host, *command.entry(), data).await.1
}

pub async fn register(host: &Controller, key: u64) -> Status {
    ask(
        host,
        IoOpcode::RESERVATION_REGISTER,
        action::REGISTER,
        0,
        [0, key],
    )
    .await
}

pub async fn acquire(host: &Controller, act: u8, kind: ReservationType, keys: [u64; 2]) -> Status {
    ask(
        host,
        IoOpcode::RESERVATION_ACQUIRE,
        act,
        kind.number(),
        keys,
    )
    .await
}

pub async fn access(host: &Controller, opcode: IoOpcode) -> Status {
    let entry = *ReadWrite::new(opcode, 1, 0, 1, SglDescriptor::transport(4096)).entry();
    let data = match opcode {
        IoOpcode::READ => Data::In(Buffer::zeroed(4096)),
        IoOpcode::WRITE | IoOpcode::COMPARE => Data::Out(Buffer::zeroed(4096)),
        _ => Data::None,
    };
    submit(host, entry, data).await.1
}

async fn report(host: &Controller) -> (ReportHeader, Vec<Registrant>) {
    let mut command = *Reservation::of(&SubmissionEntry::new(
        IoOpcode::RESERVATION_REPORT.0,
        1,
        SglDescriptor::transport(1024),
    ));
    command.action = 255;
    let refused = submit(host, *command.entry(), Data::In(Buffer::zeroed(1024))).await;
    assert_eq!(refused.1, Status::HOST_IDENTIFIER_INCONSISTENT);
    command.report = U32::new(1);
    let (data, status) = submit(host, *command.entry(), Data::In(Buffer::zeroed(1024))).await;
    assert!(status.is_success());
    let bytes = data.into_buffer().unwrap();
    let (header, rest) = ReportHeader::read_from_prefix(&bytes).unwrap();
    let count = usize::from(header.registrants.get());
    let (registrants, _) = <[Registrant]>::ref_from_prefix_with_elems(rest, count).unwrap();
    (header, registrants.to_vec())
}

/// Hosts that give no identifier are not one host: none of them can register, each is kept out by
/// what another host acquires, and by what one of them acquired under an earlier version.
#[test]
fn hosts_without_an_identifier_are_not_one_host() {
    simulate(79, async {
        let cores = start();
        let (a, b) = (
            anonymous(cores.addresses[0], "a").await,
            anonymous(cores.addresses[1], "b").await,
        );
        let attributes = a.identify().unwrap().attributes.get();
        assert_ne!(attributes & 1 << 18, 0, "RHII");
        let refused = Status::HOST_IDENTIFIER_NOT_INITIALIZED;
        assert_eq!(register(&a, 1).await, refused);
        let exclusive = ReservationType::ExclusiveAccess;
        let acquired = acquire(&a, action::ACQUIRE, exclusive, [1, 0]).await;
        assert_eq!(acquired, refused);
        for host in [&a, &b] {
            assert!(access(host, IoOpcode::WRITE).await.is_success());
        }
        let named = host(cores.addresses[0], "named").await;
        assert!(register(&named, 7).await.is_success());
        let acquired = acquire(&named, action::ACQUIRE, exclusive, [7, 0]).await;
        assert!(acquired.is_success());
        assert!(access(&named, IoOpcode::WRITE).await.is_success());
        for host in [&a, &b] {
            for opcode in [IoOpcode::READ, IoOpcode::WRITE] {
                assert_eq!(access(host, opcode).await, Status::RESERVATION_CONFLICT);
            }
        }
        let held = Held {
            kind: exclusive,
            host: [0; 16],
        };
        let earlier = Rules {
            reservations: Reservations {
                registrants: [([0; 16], 1)].into(),
                held: Some(held),
                ..Reservations::default()
            },
            ..Rules::default()
        };
        let (name, earlier) = (nqn(SUBSYSTEM), Arc::new(earlier));
        for target in &cores.targets {
            target.restore_rules(&name, 1, Some(&earlier)).unwrap();
        }
        for host in [&a, &b, &named] {
            let written = access(host, IoOpcode::WRITE).await;
            assert_eq!(written, Status::RESERVATION_CONFLICT);
        }
    });
}

/// What is acquired on one core holds on the other from the moment it is answered, for every
/// command, until it is released.
#[test]
fn a_reservation_holds_on_every_core() {
    simulate(70, async {
        let cores = start();
        let (a, b) = (
            host(cores.addresses[1], "a").await,
            host(cores.addresses[0], "b").await,
        );
        let data = a.identify().unwrap();
        assert_ne!(data.io_commands.get() & 1 << 5, 0);
        assert!(register(&a, 1).await.is_success());
        assert_eq!(register(&a, 2).await, Status::RESERVATION_CONFLICT);
        let kind = ReservationType::WriteExclusive;
        assert!(
            acquire(&a, action::ACQUIRE, kind, [1, 0])
                .await
                .is_success()
        );
        for opcode in [IoOpcode::WRITE, IoOpcode::FLUSH, IoOpcode::WRITE_ZEROES] {
            assert_eq!(access(&b, opcode).await, Status::RESERVATION_CONFLICT);
            assert!(access(&a, opcode).await.is_success());
        }
        for opcode in [IoOpcode::READ, IoOpcode::COMPARE, IoOpcode::VERIFY] {
            assert!(access(&b, opcode).await.is_success());
        }
        let conflict = acquire(&b, action::ACQUIRE, kind, [2, 0]).await;
        assert_eq!(conflict, Status::RESERVATION_CONFLICT);
        let (header, registrants) = report(&b).await;
        assert_eq!(
            (header.generation.get(), header.kind, header.persistent),
            (1, 1, 0)
        );
        assert_eq!((registrants.len(), registrants[0].status), (1, 1));
        assert_eq!(registrants[0].key.get(), 1);
        assert_eq!(registrants[0].controller_id.get(), 0xffff);
        // It outlives its holder's connection.
        a.disconnect().await;
        reactor::sleep(Duration::from_secs(3)).await;
        assert_eq!(
            access(&b, IoOpcode::WRITE).await,
            Status::RESERVATION_CONFLICT
        );
        let a = host(cores.addresses[0], "a").await;
        let released = ask(
            &a,
            IoOpcode::RESERVATION_RELEASE,
            action::RELEASE,
            1,
            [1, 0],
        )
        .await;
        assert!(released.is_success());
        assert!(access(&b, IoOpcode::WRITE).await.is_success());
        assert!(
            cores.kept.lock().unwrap().is_empty(),
            "nothing was to be kept"
        );
    });
}

/// Preempt and Abort is answered once what the preempted host had begun has ended; the host hears
/// of it, once, by event and log page.
#[test]
fn preempting_waits_and_tells() {
    simulate(71, async {
        let cores = start();
        let (a, b) = (
            host(cores.addresses[0], "a").await,
            host(cores.addresses[1], "b").await,
        );
        let kind = ReservationType::ExclusiveAccess;
        assert!(register(&a, 1).await.is_success() && register(&b, 2).await.is_success());
        assert!(
            acquire(&a, action::ACQUIRE, kind, [1, 0])
                .await
                .is_success()
        );
        assert_eq!(
            access(&b, IoOpcode::READ).await,
            Status::RESERVATION_CONFLICT
        );
        cores.device.delay.set(Duration::from_secs(5));
        let begun = a.clone();
        let begun = reactor::spawn(async move { access(&begun, IoOpcode::WRITE).await });
        reactor::sleep(Duration::from_secs(1)).await;
        let before = reactor::now();
        let act = action::PREEMPT_AND_ABORT;
        assert!(acquire(&b, act, kind, [2, 1]).await.is_success());
        assert!(
            reactor::now() - before > Duration::from_secs(3),
            "it has waited"
        );
        assert!(begun.await.is_success());
        cores.device.delay.set(Duration::ZERO);
        assert_eq!(
            access(&a, IoOpcode::READ).await,
            Status::RESERVATION_CONFLICT
        );
        assert!(access(&b, IoOpcode::READ).await.is_success());
        assert_eq!(a.next_event().await, Some(AsyncEvent::RESERVATION));
        for expected in [
            NotificationType::REGISTRATION_PREEMPTED,
            NotificationType::NONE,
        ] {
            assert_eq!(notification(&a).await.kind, expected);
        }
        // A masked notification is none.
        a.set_feature(Feature::RESERVATION_MASK, 0b1110)
            .await
            .unwrap_err();
        assert!(register(&a, 1).await.is_success());
        let cleared = ask(&b, IoOpcode::RESERVATION_RELEASE, action::CLEAR, 0, [2, 0]).await;
        assert!(cleared.is_success());
        assert_eq!(a.next_event().await, Some(AsyncEvent::RESERVATION));
        assert!(access(&a, IoOpcode::WRITE).await.is_success());
    });
}

async fn notification(host: &Controller) -> Notification {
    let page = host.log_page(LogPage::RESERVATION, 0, 0, 64).await.unwrap();
    Notification::read_from_bytes(&page).unwrap()
}

/// A page says how many come after it, and stays until it was read whole, and not to be kept.
#[test]
fn a_notification_stays_until_it_was_read() {
    simulate(74, async {
        let cores = start();
        let (a, b) = (
            host(cores.addresses[0], "a").await,
            host(cores.addresses[1], "b").await,
        );
        for key in [3, 4] {
            assert!(register(&a, key).await.is_success() && register(&b, 2).await.is_success());
            let cleared = ask(&b, IoOpcode::RESERVATION_RELEASE, action::CLEAR, 0, [2, 0]).await;
            assert!(cleared.is_success());
        }
        let read = async |offset: u64, bytes: u32, retain: bool| {
            let mut command = GetLogPage::new(LogPage::RESERVATION, 0, offset, bytes);
            command.specific = u8::from(retain) << 7;
            let data = Data::In(Buffer::zeroed(bytes as usize));
            let (data, completion) = a.admin(*command.entry(), data).await;
            (data, completion.unwrap().status().code())
        };
        let first = |page: &[u8]| {
            let page = Notification::read_from_bytes(page).unwrap();
            (page.count.get(), page.more, page.kind)
        };
        let oldest = (1, 1, NotificationType::PREEMPTED);
        for _ in 0..2 {
            let (data, status) = read(0, 64, true).await;
            assert!(status.is_success());
            assert_eq!(first(&data.into_buffer().unwrap()), oldest);
        }
        assert!(read(0, 16, false).await.1.is_success(), "part of it");
        assert_eq!(read(8192, 64, false).await.1, Status::INVALID_FIELD);
        for expected in [oldest, (2, 0, NotificationType::PREEMPTED)] {
            assert_eq!(first(notification(&a).await.as_bytes()), expected);
        }
        assert_eq!(notification(&a).await.kind, NotificationType::NONE);
    });
}

/// A host is not told that something is kept that is not, and nothing has changed then.
#[test]
fn what_cannot_be_kept_is_refused() {
    simulate(75, async {
        let cores = start();
        let unkept = [Unkept::Failed("offline".to_owned()), Unkept::NoRoom];
        let unkept = Mutex::new(unkept.into_iter());
        let keeper: RulesKeeper = Arc::new(move |_, _, _| {
            let outcome = unkept.lock().unwrap().next().map_or(Ok(()), Err);
            Box::pin(async { outcome })
        });
        cores.targets[0].keep_rules(keeper);
        let a = host(cores.addresses[1], "a").await;
        let act = 0b11 << 6;
        for _ in 0..2 {
            let refused = ask(&a, IoOpcode::RESERVATION_REGISTER, act, 0, [0, 1]).await;
            assert_eq!(refused, Status::INTERNAL_ERROR);
            assert_eq!(report(&a).await.0, ReportHeader::new_zeroed());
        }
        assert!(
            ask(&a, IoOpcode::RESERVATION_REGISTER, act, 0, [0, 1])
                .await
                .is_success()
        );
        assert_eq!(report(&a).await.0.registrants.get(), 1);
    });
}

/// Until somebody knows who holds a namespace nobody uses it, and nobody changes that.
#[test]
fn a_namespace_whose_reservations_are_unknown_is_not_ready() {
    simulate(76, async {
        let cores = start();
        let restore = |known: Option<&Arc<Rules>>| {
            for target in &cores.targets {
                let restored = target.restore_rules(&nqn(SUBSYSTEM), 1, known);
                restored.unwrap();
            }
        };
        restore(None);
        let a = host(cores.addresses[1], "a").await;
        let not_ready = Status::NAMESPACE_NOT_READY;
        for opcode in [IoOpcode::WRITE, IoOpcode::READ, IoOpcode::FLUSH] {
            assert_eq!(access(&a, opcode).await, not_ready);
        }
        assert_eq!(register(&a, 1).await, not_ready);
        let mut command = *Reservation::of(&SubmissionEntry::new(
            IoOpcode::RESERVATION_REPORT.0,
            1,
            SglDescriptor::transport(64),
        ));
        command.action = 15;
        command.report = U32::new(1);
        let asked = submit(&a, *command.entry(), Data::In(Buffer::zeroed(64))).await;
        assert_eq!(asked.1, not_ready);
        restore(Some(&Arc::default()));
        assert!(access(&a, IoOpcode::WRITE).await.is_success());
        assert!(register(&a, 1).await.is_success());
    });
}

/// 0 stands for all where a key is preempted: no host has it.
#[test]
fn a_key_of_zero_is_refused() {
    simulate(77, async {
        let cores = start();
        let a = host(cores.addresses[0], "a").await;
        assert_eq!(register(&a, 0).await, Status::INVALID_FIELD);
        assert!(register(&a, 1).await.is_success());
        for act in [action::REPLACE, action::REPLACE | action::IGNORE_KEY] {
            let refused = ask(&a, IoOpcode::RESERVATION_REGISTER, act, 0, [1, 0]).await;
            assert_eq!(refused, Status::INVALID_FIELD);
        }
        assert_eq!(report(&a).await.1[0].key.get(), 1);
    });
}

/// With PTPL every change is written before it is answered, and comes back; without, it goes.
#[test]
fn what_is_to_persist_is_written_and_restored() {
    const PERSIST: u8 = 0b11 << 6;
    const FORGET: u8 = 0b10 << 6;
    simulate(72, async {
        let cores = start();
        let a = host(cores.addresses[1], "a").await;
        let register = |act: u8, key| {
            let a = a.clone();
            async move { ask(&a, IoOpcode::RESERVATION_REGISTER, act, 0, [key, key]).await }
        };
        assert!(register(PERSIST, 1).await.is_success());
        let kind = ReservationType::WriteExclusive;
        assert!(
            acquire(&a, action::ACQUIRE, kind, [1, 0])
                .await
                .is_success()
        );
        let kept = cores.kept.lock().unwrap().clone();
        assert_eq!(kept.len(), 2);
        let last = kept[1].clone().unwrap();
        assert!(last.reservations.persistent && last.reservations.held.is_some());
        assert_eq!(report(&a).await.0.persistent, 1);

        let after = start_at(5000);
        for target in &after.targets {
            target
                .restore_rules(&nqn(SUBSYSTEM), 1, Some(&last))
                .unwrap();
        }
        let (a, b) = (
            host(after.addresses[0], "a").await,
            host(after.addresses[1], "b").await,
        );
        assert_eq!(
            access(&b, IoOpcode::WRITE).await,
            Status::RESERVATION_CONFLICT
        );
        assert!(access(&a, IoOpcode::WRITE).await.is_success());
        let unregister = action::UNREGISTER | FORGET;
        let gone = ask(&a, IoOpcode::RESERVATION_REGISTER, unregister, 0, [1, 0]).await;
        assert!(gone.is_success());
        assert_eq!(*after.kept.lock().unwrap(), [None]);
    });
}

/// A target that cannot keep anything says so, and refuses to promise it.
#[test]
fn nothing_is_promised_that_cannot_be_kept() {
    simulate(73, async {
        let fixture = crate::Fixture::start(TargetSettings::default(), geometry(4096, 64));
        let controller = fixture.connect(crate::options()).await;
        let act = 0b11 << 6;
        let refused = ask(&controller, IoOpcode::RESERVATION_REGISTER, act, 0, [0, 1]).await;
        assert_eq!(refused, Status::INVALID_FIELD);
        assert_eq!(report(&controller).await.0.registrants.get(), 0);
        for (opcode, act, kind) in [
            (IoOpcode::RESERVATION_REGISTER, 3, 0),
            (IoOpcode::RESERVATION_ACQUIRE, action::ACQUIRE, 0),
            (IoOpcode::RESERVATION_ACQUIRE, action::ACQUIRE, 7),
            (IoOpcode::RESERVATION_ACQUIRE, action::IGNORE_KEY, 1),
            (IoOpcode::RESERVATION_RELEASE, 2, 1),
        ] {
            let refused = ask(&controller, opcode, act, kind, [1, 1]).await;
            assert_eq!(refused, Status::INVALID_FIELD);
        }
    });
}

/// Whoever comes under another name with the identifier of a registrant is not that host. While the
/// host is connected the other is refused; afterwards neither what the host reserved lets the other
/// in, nor can the other give it up.
#[test]
fn nobody_passes_for_a_registrant_by_its_identifier() {
    simulate(80, async {
        let cores = start();
        let honest = host(cores.addresses[0], "honest").await;
        let exclusive = ReservationType::ExclusiveAccess;
        assert!(register(&honest, 7).await.is_success());
        let acquired = acquire(&honest, action::ACQUIRE, exclusive, [7, 0]).await;
        assert!(acquired.is_success());
        let impostor = async |address| {
            let mut options = ConnectOptions::new("nqn.2014-08.org.example:impostor");
            options.host_id = ConnectOptions::new("nqn.2014-08.org.example:honest").host_id;
            Controller::connect(address, SUBSYSTEM, options).await
        };
        for address in &cores.addresses {
            let refused = impostor(*address).await.err().unwrap();
            assert!(
                matches!(refused, Error::Refused { queue_id: 0, .. }),
                "{refused:?}"
            );
        }
        assert!(access(&honest, IoOpcode::WRITE).await.is_success());
        honest.disconnect().await;
        reactor::sleep(Duration::from_secs(3)).await;
        for address in &cores.addresses {
            let impostor = impostor(*address).await.unwrap();
            let conflict = Status::RESERVATION_CONFLICT;
            assert_eq!(access(&impostor, IoOpcode::READ).await, conflict);
            assert_eq!(access(&impostor, IoOpcode::WRITE).await, conflict);
            assert_eq!(register(&impostor, 7).await, conflict);
            let opcode = IoOpcode::RESERVATION_RELEASE;
            let cleared = ask(&impostor, opcode, action::CLEAR, 0, [7, 0]).await;
            assert_eq!(cleared, conflict);
            impostor.disconnect().await;
            reactor::sleep(Duration::from_secs(3)).await;
        }
    });
}
