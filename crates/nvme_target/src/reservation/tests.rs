//! The machine against the specification's rules, one by one and by random requests.

use std::collections::BTreeMap;

use access::{Nqn, NqnTag};
use nvme::Status;
use nvme::reservation::{NotificationType, ReservationType};
use proptest::prelude::*;

use super::{Access, Change, Held, HostId, REGISTRANTS_MAX, Request, Reservations};

const A: HostId = [1; 16];
const B: HostId = [2; 16];
const C: HostId = [3; 16];
const HOSTS: [HostId; 3] = [A, B, C];

/// Three hosts with the keys 1, 2 and 3, of which A holds a reservation of this type.
fn held(kind: ReservationType) -> Reservations {
    let registrants = BTreeMap::from([(A, 1), (B, 2), (C, 3)]);
    Reservations {
        generation: 3,
        persistent: false,
        registrants,
        names: HOSTS.map(|host| (host, name())).into(),
        held: Some(Held { kind, host: A }),
    }
}

fn tag(name: &str) -> NqnTag {
    name.parse::<Nqn>().unwrap().tag()
}

/// Of all hosts of these tests, unless they say otherwise.
fn name() -> NqnTag {
    tag("nqn.2026-11.example:host")
}

fn done(state: &Reservations, host: HostId, request: Request) -> Change {
    state.execute(host, name(), request).unwrap()
}

fn refused(state: &Reservations, host: HostId, request: Request) -> Status {
    state.execute(host, name(), request).unwrap_err().code()
}

#[test]
fn registering_takes_one_key_a_host() {
    let empty = Reservations::default();
    let one = done(&empty, A, Request::Register(7, Some(true))).state;
    assert_eq!((one.generation, one.persistent), (1, true));
    let again = done(&one, A, Request::Register(7, None)).state;
    assert_eq!(
        (again.generation, &again.registrants),
        (2, &one.registrants)
    );
    let conflict = Status::RESERVATION_CONFLICT;
    assert_eq!(refused(&one, A, Request::Register(8, None)), conflict);
    assert_eq!(
        refused(&one, A, Request::Unregister(Some(8), None)),
        conflict
    );
    assert_eq!(refused(&one, B, Request::Unregister(None, None)), conflict);
    assert_eq!(
        refused(&one, A, Request::Replace(Some(8), 9, None)),
        conflict
    );
    assert_eq!(
        refused(&one, B, Request::Replace(Some(7), 9, None)),
        conflict
    );
    // Whoever does not say which key he had need not have had one.
    let joined = done(&one, B, Request::Replace(None, 9, None)).state;
    let both = BTreeMap::from([(A, 7), (B, 9)]);
    assert_eq!((joined.generation, &joined.registrants), (2, &both));
    let replaced = done(&one, A, Request::Replace(Some(7), 9, None)).state;
    assert_eq!((replaced.registrants[&A], replaced.generation), (9, 2));
    let ignored = done(&replaced, A, Request::Replace(None, 5, Some(false))).state;
    assert_eq!((ignored.registrants[&A], ignored.persistent), (5, false));
    let gone = done(&ignored, A, Request::Unregister(Some(5), None)).state;
    assert!(gone.registrants.is_empty() && gone.generation == 4);
}

#[test]
fn a_namespace_has_so_many_registrants_and_no_more() {
    let mut state = Reservations::default();
    let host = |number: usize| (number as u128).to_le_bytes();
    for number in 0..REGISTRANTS_MAX {
        state = done(&state, host(number), Request::Register(1, None)).state;
    }
    let one_more = host(REGISTRANTS_MAX);
    for request in [Request::Register(1, None), Request::Replace(None, 1, None)] {
        assert_eq!(refused(&state, one_more, request), Status::INTERNAL_ERROR);
        assert!(done(&state, host(3), request).state.registrants.len() == REGISTRANTS_MAX);
    }
    let state = done(&state, host(0), Request::Unregister(Some(1), None)).state;
    let state = done(&state, one_more, Request::Register(1, None)).state;
    assert_eq!(state.registrants.len(), REGISTRANTS_MAX);
}

/// NVMe 2.0, the table of command behaviour in the presence of a reservation.
#[test]
fn access_is_by_type_and_role() {
    for kind in ReservationType::ALL {
        let mut state = held(kind);
        state.registrants.remove(&C);
        for access in [Access::Read, Access::Write] {
            let reads = access == Access::Read && !kind.forbids_reads();
            assert!(state.allows(&A, name(), access));
            assert_eq!(
                state.allows(&B, name(), access),
                reads || kind.admits_registrants()
            );
            assert_eq!(state.allows(&C, name(), access), reads);
        }
        state.held = None;
        assert!(
            HOSTS
                .iter()
                .all(|host| state.allows(host, name(), Access::Write))
        );
    }
}

#[test]
fn acquiring_and_releasing_keep_the_rules_of_the_holder() {
    let conflict = Status::RESERVATION_CONFLICT;
    for kind in ReservationType::ALL {
        let free = Reservations {
            held: None,
            ..held(kind)
        };
        assert_eq!(refused(&free, A, Request::Acquire(9, kind)), conflict);
        let state = done(&free, A, Request::Acquire(1, kind)).state;
        assert_eq!(state, held(kind), "acquiring does not count");
        assert_eq!(done(&state, A, Request::Acquire(1, kind)).state, state);
        let all = kind.is_held_by_all();
        let again = state.execute(B, name(), Request::Acquire(2, kind));
        assert_eq!(again.is_ok(), all);
        let other = ReservationType::ALL[(usize::from(kind.number()) + 1) % 6];
        assert_eq!(refused(&state, A, Request::Acquire(1, other)), conflict);
        let wrong = refused(&state, A, Request::Release(1, other));
        assert_eq!(wrong, Status::INVALID_FIELD);
        assert_eq!(refused(&state, A, Request::Release(9, kind)), conflict);
        let unheld = done(&state, B, Request::Release(2, kind));
        assert_eq!(unheld.state.held.is_none(), all);
        let released = done(&state, A, Request::Release(1, kind));
        assert_eq!(released.state, free);
        let told = [B, C].map(|host| (host, NotificationType::RELEASED));
        let told: &[_] = if kind.admits_registrants() {
            &told
        } else {
            &[]
        };
        assert_eq!(released.notices, told);
    }
}

#[test]
fn a_reservation_goes_with_its_holder_or_with_the_last() {
    for kind in ReservationType::ALL {
        let state = done(&held(kind), A, Request::Unregister(Some(1), None)).state;
        assert_eq!(state.held.is_some(), kind.is_held_by_all());
        assert_eq!(state.is_holder(&B), kind.is_held_by_all());
        let state = done(&state, B, Request::Unregister(Some(2), None)).state;
        let state = done(&state, C, Request::Unregister(Some(3), None)).state;
        assert_eq!(state.held, None);
    }
}

#[test]
fn preempting_takes_registrations_and_the_reservation() {
    let conflict = Status::RESERVATION_CONFLICT;
    let preempted = NotificationType::REGISTRATION_PREEMPTED;
    let (new, exclusive) = (
        ReservationType::ExclusiveAccess,
        ReservationType::WriteExclusive,
    );
    // The holder's key: its registration goes, and the reservation is the host's.
    let change = done(&held(exclusive), B, Request::Preempt(2, 1, new));
    assert_eq!(change.state.held, Some(Held { kind: new, host: B }));
    assert!(!change.state.registrants.contains_key(&A));
    let told = [(A, preempted), (C, NotificationType::RELEASED)];
    assert_eq!(
        (change.state.generation, &change.notices[..]),
        (4, &told[..])
    );
    // Another registrant's key: the reservation stays.
    let change = done(&held(exclusive), B, Request::PreemptAndAbort(2, 3, new));
    assert_eq!(change.state.held, held(exclusive).held);
    assert_eq!(change.notices, [(C, preempted)]);
    // The holder's own key changes the type and nothing else.
    let change = done(&held(exclusive), A, Request::Preempt(1, 1, new));
    assert_eq!(change.state.held, Some(Held { kind: new, host: A }));
    assert_eq!(change.state.registrants.len(), 3);
    // Nobody's key, no key, and a wrong key of one's own.
    let state = held(exclusive);
    assert_eq!(refused(&state, B, Request::Preempt(2, 9, new)), conflict);
    assert_eq!(
        refused(&state, B, Request::Preempt(2, 0, new)),
        Status::INVALID_FIELD
    );
    assert_eq!(refused(&state, B, Request::Preempt(9, 1, new)), conflict);
    // Where all hold it, zero names all others, and a key those who have it.
    let all = held(ReservationType::WriteExclusiveAllRegistrants);
    let change = done(&all, B, Request::Preempt(2, 0, new));
    assert_eq!(change.state.held, Some(Held { kind: new, host: B }));
    assert_eq!(change.notices, [(A, preempted), (C, preempted)]);
    let change = done(&all, B, Request::Preempt(2, 1, new));
    assert_eq!(
        change.state.held.map(|held| held.kind),
        all.held.map(|held| held.kind)
    );
    assert!(change.state.is_holder(&B) && change.state.is_holder(&C));
    // Without a reservation registrations go all the same, one's own among them.
    let free = Reservations { held: None, ..all };
    let change = done(&free, B, Request::Preempt(2, 3, new));
    assert_eq!(
        (change.state.held, &change.notices[..]),
        (None, &[(C, preempted)][..])
    );
    let change = done(&free, B, Request::Preempt(2, 2, new));
    assert!(!change.state.registrants.contains_key(&B) && change.notices.is_empty());
}

#[test]
fn clearing_leaves_nothing_and_tells_everybody() {
    let change = done(
        &held(ReservationType::ExclusiveAccess),
        B,
        Request::Clear(2),
    );
    assert!(change.state.registrants.is_empty() && change.state.held.is_none());
    let told = [A, C].map(|host| (host, NotificationType::PREEMPTED));
    assert_eq!(
        (change.state.generation, &change.notices[..]),
        (4, &told[..])
    );
}

fn request() -> impl Strategy<Value = Request> {
    let key = || 0_u64..4;
    let compared = || prop::option::of(0_u64..4);
    let kind = || prop::sample::select(ReservationType::ALL.to_vec());
    prop_oneof![
        (key(), any::<Option<bool>>()).prop_map(|(key, on)| Request::Register(key, on)),
        (compared(), any::<Option<bool>>()).prop_map(|(key, on)| Request::Unregister(key, on)),
        (compared(), key()).prop_map(|(key, new)| Request::Replace(key, new, None)),
        (key(), kind()).prop_map(|(key, kind)| Request::Acquire(key, kind)),
        (key(), key(), kind()).prop_map(|(key, other, kind)| Request::Preempt(key, other, kind)),
        (key(), key(), kind())
            .prop_map(|(key, other, kind)| Request::PreemptAndAbort(key, other, kind)),
        (key(), kind()).prop_map(|(key, kind)| Request::Release(key, kind)),
        key().prop_map(Request::Clear),
        any::<bool>().prop_map(Request::Persist),
    ]
}

proptest! {
    /// Whatever is asked in whatever order: a holder is registered, exclusivity excludes, refusals
    /// change nothing, nobody is told of what he did himself, and generations never go back.
    #[test]
    fn invariants_hold(requests in prop::collection::vec((0_usize..3, request()), 1..40)) {
        let mut state = Reservations::default();
        for (host, request) in requests {
            let host = HOSTS[host];
            let Ok(change) = state.execute(host, name(), request) else {
                continue;
            };
            let new = change.state;
            prop_assert!(new.generation >= state.generation);
            prop_assert!(change.notices.iter().all(|(told, _)| *told != host));
            let mut told: Vec<_> = change.notices.iter().map(|(told, _)| *told).collect();
            told.sort_unstable();
            told.dedup();
            prop_assert_eq!(told.len(), change.notices.len(), "one notification a host");
            if let Some(held) = new.held {
                prop_assert!(new.registrants.contains_key(&held.host));
                let writes = |host: &&HostId| new.allows(host, name(), Access::Write);
                let writers = HOSTS.iter().filter(writes).count();
                let all = held.kind.admits_registrants();
                let admitted = if all { new.registrants.len() } else { 1 };
                prop_assert_eq!(writers, admitted);
            }
            let left = |old: &&HostId| !new.registrants.contains_key(*old);
            for gone in state.registrants.keys().filter(left) {
                prop_assert!(*gone == host || told.contains(gone), "gone without a word");
            }
            state = new;
        }
    }
}

/// While an identifier is registered it is good under the name under which it came: nobody else
/// passes for that host, whatever it says of itself.
#[test]
fn a_registered_identifier_is_good_under_one_name() {
    let other = tag("nqn.2026-11.example:other");
    let kind = ReservationType::WriteExclusive;
    let registered = done(&Reservations::default(), A, Request::Register(7, None)).state;
    let state = done(&registered, A, Request::Acquire(7, kind)).state;
    assert!(state.allows(&A, name(), Access::Write));
    assert!(!state.allows(&A, other, Access::Write));
    for request in [
        Request::Register(7, None),
        Request::Unregister(None, None),
        Request::Replace(None, 8, None),
        Request::Release(7, kind),
        Request::Clear(7),
        Request::Persist(true),
    ] {
        let refused = state.execute(A, other, request).unwrap_err();
        assert_eq!(refused.code(), Status::RESERVATION_CONFLICT, "{request:?}");
    }
    // Once it is registered no more, anybody may come under it.
    let left = done(&state, A, Request::Unregister(Some(7), None)).state;
    assert!(left.names.is_empty());
    let taken = left.execute(A, other, Request::Register(9, None));
    assert_eq!(taken.unwrap().state.names, [(A, other)].into());
    // What an earlier version kept through a power loss is the one's who asks for something first.
    let kept = Reservations {
        names: BTreeMap::new(),
        ..state
    };
    let again = done(&kept, A, Request::Register(7, None)).state;
    assert_eq!(again.names, [(A, name())].into());
}
