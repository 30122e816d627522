//! Write protection of a namespace, as hosts on two cores see it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use block::{Buffer, IoError, Lba};
use initiator::{Controller, Data};
use nvme::command::{ALL_NAMESPACES, DATASET_DEALLOCATE, DatasetManagement, DatasetRange};
use nvme::copy::{CopyFormat, SourceRange};
use nvme::feature::{Feature, ProtectionState, Select, capability};
use nvme::identify::{Cns, ControllerData, IndependentNamespaceData, NamespaceData, nsattr, nwpc};
use nvme::log::{LogPage, SmartHealth, SupportedPages, effects};
use nvme::reservation::{ReservationType, action};
use nvme::{AdminOpcode, IoOpcode, SglDescriptor, Status, SubmissionEntry};
use nvme_target::rules::{NotInForce, Protection, Rules, RulesKeeper, Unkept};
use nvme_target::{Target, TargetEvent, TargetSettings};
use zerocopy::FromBytes;
use zerocopy::IntoBytes;

use crate::admin::features;
use crate::copy::copy;
use crate::device::Memory;
use crate::io::geometry;
use crate::reservations::{Cores, access, acquire, host, register, start, start_at, submit};
use crate::views::changed;
use crate::{Fixture, SUBSYSTEM, nqn, options, simulate};

const ON: u32 = ProtectionState::WRITE_PROTECT.0;
const OFF: u32 = ProtectionState::NONE.0;
const FIXED: Status = Status::FEATURE_NOT_CHANGEABLE;
const REFUSED: Status = Status::NAMESPACE_WRITE_PROTECTED;

/// Set Features for a namespace, with SV or not.
async fn set_with(host: &Controller, nsid: u32, value: u32, save: u8) -> Status {
    let feature = Feature::WRITE_PROTECTION;
    let mut command = features(AdminOpcode::SET_FEATURES, feature, value, 0);
    command.namespace_id = nsid.into();
    command.save = save;
    let (_, completion) = host.admin(*command.entry(), Data::None).await;
    completion.unwrap().status().code()
}

async fn set(host: &Controller, value: u32) -> Status {
    set_with(host, 1, value, 0).await
}

async fn get(host: &Controller, nsid: u32, select: Select) -> Result<u32, Status> {
    let mut command = features(AdminOpcode::GET_FEATURES, Feature::WRITE_PROTECTION, 0, 0);
    command.namespace_id = nsid.into();
    command.select = select.0;
    let (_, completion) = host.admin(*command.entry(), Data::None).await;
    let completion = completion.unwrap();
    match completion.status().is_success() {
        true => Ok(completion.result.get() as u32),
        false => Err(completion.status().code()),
    }
}

/// NSATTR, in both pages that have it.
async fn attributes(host: &Controller) -> u8 {
    let page = host.identify_structure(Cns::NAMESPACE, 1).await.unwrap();
    let found = NamespaceData::ref_from_bytes(&page).unwrap().attributes;
    let page = host.identify_structure(Cns::INDEPENDENT_NAMESPACE, 1).await;
    let page = page.unwrap();
    let independent = IndependentNamespaceData::ref_from_bytes(&page).unwrap();
    assert_eq!(independent.attributes, found);
    found
}

async fn dataset_management(host: &Controller, attributes: u32) -> Status {
    let opcode = IoOpcode::DATASET_MANAGEMENT.0;
    let entry = SubmissionEntry::new(opcode, 1, SglDescriptor::transport(16));
    let mut command = *DatasetManagement::of(&entry);
    command.attributes = attributes.into();
    let range = DatasetRange {
        attributes: 0.into(),
        blocks: 1.into(),
        start: 0.into(),
    };
    let data = Data::Out(Buffer::copy_of(range.as_bytes()));
    submit(host, *command.entry(), data).await.1
}

/// That every command that would change the namespace ends so, and every other one well.
async fn writes_end_with(host: &Controller, expected: Status) {
    for opcode in [IoOpcode::WRITE, IoOpcode::WRITE_ZEROES] {
        assert_eq!(access(host, opcode).await, expected, "{opcode:?}");
    }
    for opcode in [
        IoOpcode::READ,
        IoOpcode::COMPARE,
        IoOpcode::VERIFY,
        IoOpcode::FLUSH,
    ] {
        assert!(access(host, opcode).await.is_success(), "{opcode:?}");
    }
    let deallocated = dataset_management(host, DATASET_DEALLOCATE).await;
    assert_eq!(deallocated, expected);
    assert!(
        dataset_management(host, 0).await.is_success(),
        "hints alone"
    );
    let (entry, data) = copy(8, CopyFormat::OWN, &[SourceRange::new(0, 0, 8)]);
    assert_eq!(submit(host, entry, data).await.1, expected);
    let namespace = host.namespace(1).await.unwrap();
    let (zeroes, ones) = (Buffer::zeroed(4096), Buffer::zeroed(4096));
    let (.., swapped) = namespace.compare_and_write(Lba(0), zeroes, ones).await;
    assert_eq!(swapped, expected.to_io_result());
}

async fn on_both_cores(cores: &Cores) -> (Controller, Controller) {
    let [first, second] = [0, 1].map(|index| cores.addresses[index]);
    (host(second, "a").await, host(first, "b").await)
}

fn events(target: &Target<Memory>) -> Vec<(String, bool)> {
    let events = target.take_events().into_iter();
    events
        .filter_map(|event| match event {
            TargetEvent::ProtectionChanged {
                host_nqn,
                protected,
                nsid: 1,
                ..
            } => Some((host_nqn.to_string(), protected)),
            _ => None,
        })
        .collect()
}

/// What a host asks for on one core holds for every host on every core, and hosts are told.
#[test]
fn a_protected_namespace_refuses_what_would_change_it_on_every_core() {
    simulate(600, async {
        let cores = start();
        let (a, b) = on_both_cores(&cores).await;
        for host in [&a, &b] {
            let data = host.identify().unwrap();
            assert_eq!(data.write_protection, nwpc::WRITE_PROTECT);
            assert_eq!(get(host, 1, Select::CURRENT).await, Ok(OFF));
            assert_eq!(attributes(host).await, 0);
            writes_end_with(host, Status::SUCCESS).await;
        }
        assert!(set(&a, ON).await.is_success());
        for host in [&a, &b] {
            writes_end_with(host, REFUSED).await;
            assert_eq!(get(host, 1, Select::CURRENT).await, Ok(ON));
            assert_eq!(attributes(host).await, nsattr::WRITE_PROTECTED);
            assert_eq!(changed(host).await, [1]);
            // The medium is as good as ever (NVMe 2.0 §5.16.1.3, critical warning).
            let health = host.log_page(LogPage::SMART, 1, 0, 512).await.unwrap();
            let health = SmartHealth::ref_from_bytes(&health).unwrap();
            assert_eq!(health.critical_warning, 0);
        }
        // Hosts go on with reservations.
        assert!(register(&b, 7).await.is_success());
        // One host lifts what the other asked for.
        assert!(set(&b, OFF).await.is_success());
        for host in [&a, &b] {
            writes_end_with(host, Status::SUCCESS).await;
            assert_eq!(get(host, 1, Select::CURRENT).await, Ok(OFF));
            assert_eq!(attributes(host).await, 0);
            assert_eq!(changed(host).await, [1]);
        }
        let name = |host: &str| format!("nqn.2014-08.org.example:{host}");
        let told = [(name("a"), true), (name("b"), false)];
        assert_eq!(events(&cores.targets[0]), told);
        assert!(events(&cores.targets[1]).is_empty());
    });
}

/// Protection is answered once no write of any host is under way, and what was written is safe.
#[test]
fn protection_is_answered_once_no_write_is_under_way() {
    simulate(601, async {
        let cores = start();
        let (a, b) = on_both_cores(&cores).await;
        cores.device.delay.set(Duration::from_secs(5));
        let begun = [&a, &b].map(|host| {
            let host = host.clone();
            reactor::spawn(async move {
                let written = access(&host, IoOpcode::WRITE).await;
                (written, reactor::now())
            })
        });
        reactor::sleep(Duration::from_secs(1)).await;
        let flushes = cores.device.flushes.get();
        let protected = reactor::spawn({
            let a = a.clone();
            async move { (set(&a, ON).await, reactor::now()) }
        });
        reactor::sleep(Duration::from_secs(1)).await;
        // What comes meanwhile is refused; who asks once more waits as well.
        assert_eq!(access(&b, IoOpcode::WRITE).await, REFUSED);
        let again = (set(&b, ON).await, reactor::now());
        let (status, answered) = protected.await;
        assert!(status.is_success() && again.0.is_success());
        for written in begun {
            let (status, ended) = written.await;
            assert!(status.is_success() && ended <= answered && ended <= again.1);
        }
        assert!(cores.device.flushes.get() > flushes, "caches are safe");
        cores.device.delay.set(Duration::ZERO);
        assert_eq!(cores.kept.lock().unwrap().len(), 1, "it was kept once");
    });
}

#[test]
fn the_feature_is_set_and_read_by_the_book() {
    simulate(602, async {
        let cores = start();
        let (a, b) = on_both_cores(&cores).await;
        let of_namespace = capability::NAMESPACE_SPECIFIC;
        let changeable = Ok(of_namespace | capability::CHANGEABLE);
        assert_eq!(get(&a, 1, Select::CAPABILITIES).await, changeable);
        let field = Err(Status::INVALID_FIELD);
        assert_eq!(get(&a, 1, Select(5)).await, field);
        for nsid in [0, 2, ALL_NAMESPACES] {
            let missing = Err(Status::INVALID_NAMESPACE);
            assert_eq!(get(&a, nsid, Select::CURRENT).await, missing, "{nsid}");
        }
        for nsid in [0, 2] {
            let refused = set_with(&a, nsid, ON, 0).await;
            assert_eq!(refused, Status::INVALID_NAMESPACE, "{nsid}");
        }
        // Only what NWPC has, and nothing is saved: every state lasts by itself.
        for state in 2..8 {
            assert_eq!(set(&a, state).await, Status::INVALID_FIELD, "{state}");
        }
        let saved = set_with(&a, 1, ON, 0x80).await;
        assert_eq!(saved, Status::FEATURE_NOT_SAVEABLE);
        writes_end_with(&b, Status::SUCCESS).await;
        assert!(set_with(&a, ALL_NAMESPACES, ON, 0).await.is_success());
        writes_end_with(&b, REFUSED).await;
        for (select, value) in [
            (Select::CURRENT, ON),
            (Select::DEFAULT, OFF),
            (Select::SAVED, OFF),
        ] {
            assert_eq!(get(&b, 1, select).await, Ok(value));
        }
        let page = b.log_page(LogPage::FEATURE_EFFECTS, 0, 0, 1024).await;
        let page = SupportedPages::read_from_bytes(&page.unwrap()).unwrap();
        let said = page.pages[usize::from(Feature::WRITE_PROTECTION.0)].get();
        assert_eq!(said, effects::SUPPORTED | effects::OF_NAMESPACE);
    });
}

/// What the administrator has protected no host lifts. The administrator lifts what hosts have.
#[test]
fn no_host_lifts_what_the_administrator_has_protected() {
    simulate(603, async {
        let cores = start();
        let (a, b) = on_both_cores(&cores).await;
        let (target, name) = (&cores.targets[0], nqn(SUBSYSTEM));
        let protect = async |on: bool| {
            let protection = Protection::by_administrator(on);
            target.protect(&name, 1, protection).await.unwrap();
            assert_eq!(target.protection(&name, 1), protection);
        };
        protect(true).await;
        for host in [&a, &b] {
            assert_eq!(changed(host).await, [1]);
            assert_eq!(set(host, OFF).await, FIXED);
            assert!(set(host, ON).await.is_success(), "it is so");
            let fixed = Ok(capability::NAMESPACE_SPECIFIC);
            assert_eq!(get(host, 1, Select::CAPABILITIES).await, fixed);
            writes_end_with(host, REFUSED).await;
        }
        protect(false).await;
        writes_end_with(&a, Status::SUCCESS).await;
        assert!(set(&b, ON).await.is_success());
        writes_end_with(&a, REFUSED).await;
        protect(false).await;
        writes_end_with(&b, Status::SUCCESS).await;
        // What the administrator does is no event of a host.
        assert_eq!(events(target).len(), 1);
        let unserved = target.protect(&name, 2, Protection::ByAdministrator).await;
        assert_eq!(unserved, Err(NotInForce::Unserved));
    });
}

/// Whom a reservation keeps from writing does not decide whether the others may.
#[test]
fn a_host_that_a_reservation_keeps_out_protects_nothing() {
    simulate(604, async {
        let cores = start();
        let (a, b) = on_both_cores(&cores).await;
        assert!(register(&a, 1).await.is_success());
        let kind = ReservationType::WriteExclusive;
        let acquired = acquire(&a, action::ACQUIRE, kind, [1, 0]).await;
        assert!(acquired.is_success());
        assert_eq!(set(&b, ON).await, Status::RESERVATION_CONFLICT);
        writes_end_with(&a, Status::SUCCESS).await;
        assert!(set(&a, ON).await.is_success());
        assert_eq!(set(&b, OFF).await, Status::RESERVATION_CONFLICT);
        writes_end_with(&a, REFUSED).await;
    });
}

/// Protection outlives a power loss, with reservations that do and without those that do not.
#[test]
fn protection_is_written_before_it_is_answered_and_restored() {
    simulate(605, async {
        let cores = start();
        let (a, _) = on_both_cores(&cores).await;
        assert!(register(&a, 1).await.is_success(), "which does not last");
        assert!(set(&a, ON).await.is_success());
        let kept = cores.kept.lock().unwrap().clone();
        let by_host = Rules {
            protection: Protection::ByHost,
            ..Rules::default()
        };
        assert_eq!(kept, [Some(Arc::new(by_host))]);

        let after = start_at(5000);
        let (a, b) = on_both_cores(&after).await;
        for target in &after.targets {
            let restored = target.restore_rules(&nqn(SUBSYSTEM), 1, kept[0].as_ref());
            restored.unwrap();
        }
        writes_end_with(&a, REFUSED).await;
        assert!(set(&b, OFF).await.is_success());
        writes_end_with(&a, Status::SUCCESS).await;
        assert_eq!(
            *after.kept.lock().unwrap(),
            [None],
            "nothing is left to keep"
        );
    });
}

/// Where it cannot be kept nothing has changed; where it cannot be kept at all, it is not offered.
#[test]
fn protection_that_does_not_last_is_not_promised() {
    simulate(606, async {
        let cores = start_at(5000);
        let outcome = Arc::new(Mutex::new(Err(Unkept::Failed("offline".to_owned()))));
        let keeper: RulesKeeper = Arc::new({
            let outcome = Arc::clone(&outcome);
            move |_, _, _| {
                let outcome = outcome.lock().unwrap().clone();
                Box::pin(async { outcome })
            }
        });
        cores.targets[0].keep_rules(keeper);
        let (a, b) = on_both_cores(&cores).await;
        assert_eq!(set(&a, ON).await, Status::INTERNAL_ERROR);
        let name = nqn(SUBSYSTEM);
        let refused = cores.targets[0].protect(&name, 1, Protection::ByAdministrator);
        let unkept = Err(NotInForce::Unkept(Unkept::Failed("offline".to_owned())));
        assert_eq!(refused.await, unkept);
        writes_end_with(&b, Status::SUCCESS).await;
        assert_eq!(get(&b, 1, Select::CURRENT).await, Ok(OFF));
        assert!(events(&cores.targets[0]).is_empty());
        *outcome.lock().unwrap() = Ok(());
        // It holds, though a cache could not be made safe, and who asked is told.
        cores.device.failing.set(Some(IoError::WriteFault));
        assert_eq!(set(&a, ON).await, Status::WRITE_FAULT);
        cores.device.failing.set(None);
        writes_end_with(&b, REFUSED).await;
        assert!(set(&a, ON).await.is_success());

        let fixture = Fixture::start(TargetSettings::default(), geometry(4096, 64));
        let host = fixture.connect(options()).await;
        let page = host.identify_structure(Cns::CONTROLLER, 0).await.unwrap();
        let data = ControllerData::ref_from_bytes(&page).unwrap();
        assert_eq!(data.write_protection, 0);
        assert_eq!(set(&host, ON).await, Status::INVALID_FIELD);
        assert_eq!(
            get(&host, 1, Select::CURRENT).await,
            Err(Status::INVALID_FIELD)
        );
        let page = host.log_page(LogPage::FEATURE_EFFECTS, 0, 0, 1024).await;
        let page = SupportedPages::read_from_bytes(&page.unwrap()).unwrap();
        assert_eq!(
            page.pages[usize::from(Feature::WRITE_PROTECTION.0)].get(),
            0
        );
    });
}
