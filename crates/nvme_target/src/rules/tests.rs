use access::Nqn;
use nvme::feature::ProtectionState;
use nvme::reservation::ReservationType;

use super::*;
use crate::reservation::Held;

const A: HostId = [1; 16];
const B: HostId = [2; 16];

fn name() -> NqnTag {
    let nqn: Nqn = "nqn.2026-11.example:host".parse().unwrap();
    nqn.tag()
}

fn protected(protection: Protection) -> Rules {
    Rules {
        protection,
        ..Rules::default()
    }
}

/// A holds a reservation that lets nobody else write.
fn reserved(protection: Protection) -> Rules {
    let reservations = Reservations {
        registrants: [(A, 1)].into(),
        held: Some(Held {
            kind: ReservationType::WriteExclusive,
            host: A,
        }),
        ..Reservations::default()
    };
    Rules {
        reservations,
        protection,
    }
}

/// NVMe 2.0 §8.12, the table of commands that a write protected namespace allows.
#[test]
fn a_protected_namespace_takes_all_that_changes_nothing() {
    let conflict = Err(Status::RESERVATION_CONFLICT.do_not_retry());
    let refused = Err(Status::NAMESPACE_WRITE_PROTECTED.do_not_retry());
    let check = |rules: &Rules, host, access| {
        rules.check(By {
            host,
            name: &name(),
            access,
        })
    };
    assert!(Rules::default().are_none());
    for protection in [Protection::ByHost, Protection::ByAdministrator] {
        let rules = protected(protection);
        assert!(!rules.are_none());
        for (access, expected) in [
            (Access::Read, Ok(())),
            (Access::Flush, Ok(())),
            (Access::Write, refused),
        ] {
            assert_eq!(check(&rules, A, access), expected, "{access:?}");
        }
        // What a reservation forbids is forbidden all the same.
        let rules = reserved(protection);
        assert_eq!(check(&rules, A, Access::Write), refused);
        assert_eq!(check(&rules, A, Access::Flush), Ok(()));
        assert_eq!(check(&rules, B, Access::Read), Ok(()));
        assert_eq!(check(&rules, B, Access::Flush), conflict);
    }
}

#[test]
fn hosts_lift_what_hosts_have_asked_for_and_nothing_else() {
    let none = Protection::None;
    let (host, administrator) = (Protection::ByHost, Protection::ByAdministrator);
    let fixed = Err(Status::FEATURE_NOT_CHANGEABLE.do_not_retry());
    for (before, on, after) in [
        (none, true, Ok(host)),
        (none, false, Ok(none)),
        (host, true, Ok(host)),
        (host, false, Ok(none)),
        (administrator, true, Ok(administrator)),
        (administrator, false, fixed),
    ] {
        let changed = protected(before).asked(B, name(), Asked::Protection(on));
        let found = changed.map(|changed| changed.rules.protection);
        assert_eq!(found, after, "{before:?} {on}");
    }
    assert_eq!(Protection::by_administrator(true), administrator);
    assert_eq!(Protection::by_administrator(false), none);
    assert_eq!(none.state(), ProtectionState::NONE);
    for protection in [host, administrator] {
        assert_eq!(protection.state(), ProtectionState::WRITE_PROTECT);
        assert_eq!(protection.is_changeable(), protection == host);
    }
}

/// Whoever asks is answered once earlier writes have ended, whoever asked first.
#[test]
fn protection_waits_for_writes_that_began_earlier() {
    for before in [Protection::None, Protection::ByHost] {
        let rules = protected(before);
        let changed = rules.asked(A, name(), Asked::Protection(true)).unwrap();
        assert!(changed.drain && changed.flush);
        let changed = rules.asked(A, name(), Asked::Protection(false)).unwrap();
        assert!(!changed.drain && !changed.flush);
    }
}

#[test]
fn who_may_not_write_protects_nothing() {
    let conflict = Status::RESERVATION_CONFLICT.do_not_retry();
    let rules = reserved(Protection::ByHost);
    for on in [false, true] {
        let refused = rules.asked(B, name(), Asked::Protection(on));
        assert_eq!(refused.unwrap_err(), conflict);
    }
    let lifted = rules.asked(A, name(), Asked::Protection(false)).unwrap();
    assert_eq!(lifted.rules, reserved(Protection::None));
}

#[test]
fn protection_lasts_whether_reservations_do_or_not() {
    assert_eq!(reserved(Protection::None).lasting(), None);
    for protection in [Protection::ByHost, Protection::ByAdministrator] {
        let fleeting = reserved(protection);
        assert_eq!(fleeting.lasting(), Some(protected(protection)));
        let mut lasting = reserved(protection);
        lasting.reservations.persistent = true;
        assert_eq!(lasting.lasting(), Some(lasting.clone()));
    }
    let mut only_reserved = reserved(Protection::None);
    only_reserved.reservations.persistent = true;
    assert_eq!(only_reserved.lasting(), Some(only_reserved.clone()));
}
