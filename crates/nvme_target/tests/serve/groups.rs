//! An ANA group for each pool: what hosts learn of each of theirs on a port, and get of it.

use std::rc::Rc;
use std::time::Duration;

use access::AllowedHosts;
use block::Buffer;
use initiator::{ConnectOptions, Controller, Data};
use nvme::event::AsyncEvent;
use nvme::feature::Feature;
use nvme::identify::{Cns, ControllerData, IndependentNamespaceData, NamespaceData, anacap};
use nvme::log::{ANA_GROUPS_ONLY, AnaGroup, AnaHeader, AnaState, GetLogPage, LogPage};
use nvme::{AdminOpcode, IoOpcode, SglDescriptor, Status, SubmissionEntry};
use nvme_target::{
    AnaGroupId, GROUPS_MAX, NamespaceSettings, PathState, Target, TargetError, TargetSettings,
};
use zerocopy::FromBytes;
use zerocopy::little_endian::U32;

use crate::admin::{features, status};
use crate::device::Memory;
use crate::io::geometry;
use crate::{Fixture, HOST, SUBSYSTEM, namespace, nqn, options, simulate};

const OTHER: &str = "nqn.2024-01.io.example:other";
const PORT: u16 = 1;

fn pool(first: u8) -> AnaGroupId {
    AnaGroupId::of_pool([first; 16])
}

/// A group of a log page: its number, its state and its namespaces.
type Group = (u32, AnaState, Vec<u32>);

/// The ANA log: its change count, each group, and the change count of each.
#[derive(Debug, PartialEq)]
struct Log {
    change_count: u64,
    groups: Vec<Group>,
    counts: Vec<u64>,
}

async fn log(controller: &Controller) -> Log {
    read_log(controller, 0).await
}

async fn read_log(controller: &Controller, specific: u8) -> Log {
    let mut command = GetLogPage::new(LogPage::ANA, 0, 0, 8192);
    command.specific |= specific;
    let data = Data::In(Buffer::zeroed(8192));
    let (data, completion) = controller.admin(*command.entry(), data).await;
    assert_eq!(completion.unwrap().status(), Status::SUCCESS);
    let page = data.into_buffer().unwrap();
    let (header, mut rest) = AnaHeader::ref_from_prefix(&page).unwrap();
    let (mut groups, mut counts) = (Vec::new(), Vec::new());
    for _ in 0..header.groups.get() {
        let (group, after) = AnaGroup::ref_from_prefix(rest).unwrap();
        let count = group.namespaces.get() as usize;
        let (list, after) = <[U32]>::ref_from_prefix_with_elems(after, count).unwrap();
        let list = list.iter().map(|nsid| nsid.get()).collect();
        groups.push((group.group.get(), group.state, list));
        counts.push(group.change_count.get());
        rest = after;
    }
    assert!(rest.iter().all(|byte| *byte == 0));
    Log {
        change_count: header.change_count.get(),
        groups,
        counts,
    }
}

/// Adds a namespace of a pool that these hosts may see.
fn add(target: &Target<Memory>, nsid: u32, group: AnaGroupId, hosts: &[&str]) {
    let settings = NamespaceSettings {
        group,
        ..namespace(nsid)
    };
    let device = Rc::new(Memory::new(geometry(4096, 64)));
    let subsystem = nqn(SUBSYSTEM);
    target.add_namespace(&subsystem, settings, device).unwrap();
    let hosts = AllowedHosts::list(hosts.iter().map(|host| nqn(host)));
    target.set_namespace_hosts(&subsystem, nsid, hosts).unwrap();
}

/// A host that sees namespace 1 of no pool and 2 and 4 of the first, and another that sees 3 of
/// the second and 4.
async fn start() -> (Fixture, Controller, Controller) {
    let fixture = Fixture::start(TargetSettings::default(), geometry(4096, 64));
    let (target, subsystem) = (&fixture.target, nqn(SUBSYSTEM));
    let nobody = AllowedHosts::list([]);
    target.set_allowed_hosts(&subsystem, nobody).unwrap();
    let first = AllowedHosts::list([nqn(HOST)]);
    target.set_namespace_hosts(&subsystem, 1, first).unwrap();
    add(target, 2, pool(5), &[HOST]);
    add(target, 3, pool(6), &[OTHER]);
    add(target, 4, pool(5), &[HOST, OTHER]);
    let one = fixture.connect(options()).await;
    let other = fixture.connect(ConnectOptions::new(OTHER)).await;
    (fixture, one, other)
}

fn set(fixture: &Fixture, group: AnaGroupId, state: impl Into<Option<PathState>>) {
    let target = &fixture.target;
    target
        .set_group_path_state(PORT, group, state.into())
        .unwrap();
}

async fn flush(controller: &Controller, nsid: u32) -> Status {
    let entry = SubmissionEntry::new(IoOpcode::FLUSH.0, nsid, SglDescriptor::transport(0));
    let queue = controller.queue(0).unwrap();
    queue.submit(entry, Data::None).await.1.unwrap().status()
}

async fn event(controller: &Controller) -> Option<AsyncEvent> {
    let next = controller.next_event();
    let next = reactor::timeout(Duration::from_secs(1), next).await;
    next.ok().flatten()
}

async fn told(controller: &Controller, nsid: u32) -> NamespaceData {
    let data = controller.identify_structure(Cns::NAMESPACE, nsid).await;
    NamespaceData::read_from_bytes(&data.unwrap()).unwrap()
}

/// A host finds the groups of its own namespaces, with those of them that it sees.
#[test]
fn a_host_sees_the_groups_of_its_namespaces_and_no_other() {
    simulate(180, async {
        let (fixture, one, other) = start().await;
        let (five, six) = (pool(5).number(), pool(6).number());
        let best = AnaState::OPTIMIZED;
        let poolless = AnaGroupId::POOLLESS.number();
        let seen = [(poolless, best, vec![1]), (five, best, vec![2, 4])];
        assert_eq!(log(&one).await.groups, seen);
        let seen = [(five, best, vec![4]), (six, best, vec![3])];
        assert_eq!(log(&other).await.groups, seen);
        let alone = read_log(&other, ANA_GROUPS_ONLY).await.groups;
        assert_eq!(alone, [(five, best, vec![]), (six, best, vec![])]);
        for (nsid, group) in [(1, poolless), (2, five), (4, five)] {
            assert_eq!(told(&one, nsid).await.ana_group.get(), group);
            let data = one.identify_structure(Cns::INDEPENDENT_NAMESPACE, nsid);
            let data = data.await.unwrap();
            let (data, _) = IndependentNamespaceData::read_from_prefix(&data).unwrap();
            assert_eq!(data.ana_group.get(), group);
        }
        let data = one.identify_structure(Cns::CONTROLLER, 0).await.unwrap();
        let data = ControllerData::read_from_bytes(&data).unwrap();
        assert!(data.ana_group_max.get() >= five.max(six));
        assert_eq!(data.ana_groups.get() as usize, GROUPS_MAX);
        assert_eq!(data.ana_capabilities, 0b1_1111 | anacap::GROUP_FIXED);

        // A volume of another pool: the event of namespaces tells of its group too.
        add(&fixture.target, 7, pool(9), &[HOST]);
        assert_eq!(event(&one).await, Some(AsyncEvent::NAMESPACE_CHANGED));
        assert_eq!(event(&one).await, None);
        let nine = (pool(9).number(), best, vec![7]);
        assert!(log(&one).await.groups.contains(&nine));
        assert_eq!(event(&other).await, None);
        assert_eq!(log(&other).await.groups.len(), 2);
    });
}

/// Each state is told to the hosts concerned and to no other, and refuses what it has to.
#[test]
fn a_group_has_a_state_of_its_own_and_the_others_are_served() {
    simulate(181, async {
        let (fixture, one, other) = start().await;
        let states = [
            (PathState::NonOptimized, AnaState::NON_OPTIMIZED, None),
            (
                PathState::Change,
                AnaState::CHANGE,
                Some(Status::ANA_TRANSITION),
            ),
            (
                PathState::Inaccessible,
                AnaState::INACCESSIBLE,
                Some(Status::ANA_INACCESSIBLE),
            ),
            (
                PathState::PersistentLoss,
                AnaState::PERSISTENT_LOSS,
                Some(Status::ANA_PERSISTENT_LOSS),
            ),
        ];
        let before = log(&other).await;
        assert!(before.change_count > 0 && before.counts.iter().all(|count| *count > 0));
        for (changes, (set_to, told_as, refusal)) in (1..).zip(states) {
            set(&fixture, pool(6), set_to);
            set(&fixture, pool(6), set_to);
            assert_eq!(event(&other).await, Some(AsyncEvent::ANA_CHANGED));
            let now = log(&other).await;
            let second = (pool(6).number(), told_as, vec![3]);
            assert_eq!(now.groups, [before.groups[0].clone(), second]);
            assert_eq!(now.change_count, before.change_count + changes);
            let counts = [before.counts[0], before.counts[1] + changes];
            assert_eq!(now.counts, counts);
            let refused = refusal.unwrap_or(Status::SUCCESS);
            assert_eq!(flush(&other, 3).await, refused, "{set_to:?}");
            assert_eq!(flush(&other, u32::MAX).await, refused, "{set_to:?}");
            assert_eq!(flush(&other, 4).await, Status::SUCCESS);
            assert_eq!(flush(&one, 4).await, Status::SUCCESS);
            let missing = Status::INVALID_NAMESPACE;
            assert_eq!(flush(&other, 2).await.code(), missing, "it is not there");
            let hidden = matches!(set_to, PathState::Inaccessible | PathState::PersistentLoss);
            let data = told(&other, 3).await;
            let capacity = (data.used_blocks.get(), data.capacity_bytes.get());
            assert_eq!(capacity == (0, 0), hidden, "{set_to:?}");
            assert_eq!(data.size_blocks.get(), 64);
            assert_ne!(told(&other, 4).await.capacity_bytes.get(), 0);
        }
        assert_eq!(event(&one).await, None, "it sees nothing of that group");
    });
}

/// The port's state is that of groups without their own, before and after they had one.
#[test]
fn a_group_follows_its_port_unless_it_has_its_own_state() {
    simulate(182, async {
        let (fixture, one, other) = start().await;
        set(&fixture, pool(5), PathState::Optimized);
        let target = &fixture.target;
        target
            .set_path_state(PORT, PathState::Inaccessible)
            .unwrap();
        for (host, served, refused) in [(&one, 2, 1), (&other, 4, 3)] {
            assert_eq!(event(host).await, Some(AsyncEvent::ANA_CHANGED));
            assert_eq!(flush(host, served).await, Status::SUCCESS);
            assert_eq!(flush(host, refused).await, Status::ANA_INACCESSIBLE);
            let states = log(host).await.groups;
            let own = states.iter().find(|group| group.0 == pool(5).number());
            assert_eq!(own.unwrap().1, AnaState::OPTIMIZED);
        }
        set(&fixture, pool(5), None);
        for host in [&one, &other] {
            assert_eq!(event(host).await, Some(AsyncEvent::ANA_CHANGED));
            let states = log(host).await.groups;
            let common = |group: &Group| group.1 == AnaState::INACCESSIBLE;
            assert!(states.iter().all(common), "{states:?}");
            assert_eq!(flush(host, 4).await, Status::ANA_INACCESSIBLE);
        }
        let unknown = target.set_group_path_state(9, pool(5), None);
        assert!(matches!(unknown, Err(TargetError::UnknownPort(9))));
    });
}

/// Features that belong to a namespace are as inaccessible as it is, and nothing is set for all
/// namespaces while one of them is.
#[test]
fn features_of_a_namespace_follow_the_state_of_its_group() {
    simulate(183, async {
        let (fixture, _, other) = start().await;
        let (get, set_to) = (AdminOpcode::GET_FEATURES, AdminOpcode::SET_FEATURES);
        let ask = async |opcode, feature, nsid| {
            let mut command = features(opcode, feature, 0, 0);
            command.namespace_id = U32::new(nsid);
            status(&other, command.entry(), Data::None).await
        };
        let own = [
            Feature::ERROR_RECOVERY,
            Feature::RESERVATION_MASK,
            Feature::RESERVATION_PERSISTENCE,
        ];
        let common = Feature::ARBITRATION;
        for (state, refused) in [
            (PathState::Optimized, Status::SUCCESS),
            (PathState::Change, Status::ANA_TRANSITION),
            (PathState::Inaccessible, Status::ANA_INACCESSIBLE),
            (PathState::PersistentLoss, Status::ANA_PERSISTENT_LOSS),
        ] {
            set(&fixture, pool(6), state);
            for feature in own {
                assert_eq!(ask(get, feature, 3).await, refused, "{feature:?} {state:?}");
                assert_eq!(ask(get, feature, 4).await, Status::SUCCESS);
                let set_one = ask(set_to, feature, 3).await;
                assert_eq!(set_one, refused, "{feature:?} {state:?}");
                assert_eq!(ask(set_to, feature, 4).await, Status::SUCCESS);
                assert_eq!(ask(set_to, feature, u32::MAX).await, refused);
            }
            assert_eq!(ask(set_to, common, u32::MAX).await, refused, "{state:?}");
            assert_eq!(ask(set_to, common, 0).await, Status::SUCCESS);
            assert_eq!(ask(get, common, 0).await, Status::SUCCESS);
            let of_one = match state {
                PathState::PersistentLoss => Status::ANA_PERSISTENT_LOSS,
                _ => Status::FEATURE_NOT_NAMESPACE_SPECIFIC,
            };
            assert_eq!(ask(set_to, common, 3).await, of_one);
        }
    });
}

/// A controller leaves no persistent loss: it ends, and the host finds the new state with another.
#[test]
fn a_persistent_loss_ends_with_the_controllers_that_reported_it() {
    simulate(184, async {
        let (fixture, one, other) = start().await;
        set(&fixture, pool(6), PathState::PersistentLoss);
        assert_eq!(event(&other).await, Some(AsyncEvent::ANA_CHANGED));
        set(&fixture, pool(6), PathState::Optimized);
        assert_eq!(other.next_event().await, None, "the controller is gone");
        assert_eq!(flush(&one, 2).await, Status::SUCCESS);
        let again = fixture.connect(ConnectOptions::new(OTHER)).await;
        assert_eq!(log(&again).await.groups[1].1, AnaState::OPTIMIZED);
        assert_eq!(flush(&again, 3).await, Status::SUCCESS);
    });
}

/// Hosts make room for as many groups as the controller says, and there are no more.
#[test]
fn a_subsystem_has_no_more_groups_than_it_says() {
    simulate(185, async {
        let fixture = Fixture::start(TargetSettings::default(), geometry(4096, 64));
        let target = &fixture.target;
        let most = GROUPS_MAX as u32;
        (2..=most).for_each(|nsid| add(target, nsid, pool(nsid as u8), &[]));
        let host = fixture.connect(options()).await;
        let found = read_log(&host, ANA_GROUPS_ONLY).await.groups;
        assert_eq!(found.len(), GROUPS_MAX);
        let settings = NamespaceSettings {
            group: pool(255),
            ..namespace(most + 1)
        };
        let device = Rc::clone(&fixture.device);
        let one_more = target.add_namespace(&nqn(SUBSYSTEM), settings, device);
        assert!(matches!(one_more, Err(TargetError::TooManyGroups(_))));
        add(target, most + 1, pool(2), &[]);
        assert_eq!(read_log(&host, ANA_GROUPS_ONLY).await.groups, found);
    });
}
