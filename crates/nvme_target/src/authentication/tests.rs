//! The machine against the library host's machine, and against hosts that cheat.

use std::sync::Arc;

use access::chap::{ChapHash, DhGroup};
use access::{HostKeys, Nqn, Secret};
use initiator::{Credentials, Prover, Refusal};
use nvme::authentication::{
    Failure, FailureMessage, MessageHeader, MessageId, MessageType, Negotiate,
};
use proptest::prelude::*;
use zerocopy::IntoBytes;

use super::{Authenticator, MESSAGE_BYTES_MAX, Verdict};

const ROOM: usize = MESSAGE_BYTES_MAX as usize;

fn names() -> (Nqn, Nqn) {
    let host = "nqn.2014-08.org.example:host".parse().unwrap();
    (host, "nqn.2014-08.org.example:sub".parse().unwrap())
}

fn keys(hash: ChapHash, group: DhGroup) -> HostKeys {
    HostKeys {
        host: Secret::generate(Some(ChapHash::Sha384)),
        controller: Some(Secret::generate(None)),
        hash,
        group,
    }
}

fn authenticator(keys: &HostKeys) -> Authenticator {
    let (host, subsystem) = names();
    Authenticator::new(Arc::new(keys.clone()), host, subsystem)
}

fn prover(credentials: Credentials) -> Prover {
    let (host, subsystem) = names();
    Prover::new(credentials, host, subsystem)
}

fn honest(keys: &HostKeys, mutual: bool) -> Prover {
    let controller = keys.controller.clone().filter(|_| mutual);
    let credentials = Credentials::new(keys.host.clone(), controller);
    prover(credentials.at_least(ChapHash::Sha256, DhGroup::Null))
}

/// The whole exchange, with `change` applied to the host's reply.
fn exchange(
    machine: &mut Authenticator,
    mut prover: Prover,
    change: impl FnOnce(&mut Vec<u8>),
) -> Result<(), Refusal> {
    machine.receive(&prover.offer());
    let mut reply = prover.reply(&machine.transmit(ROOM).unwrap())?;
    change(&mut reply);
    machine.receive(&reply);
    if let Some(last) = prover.conclude(&machine.transmit(ROOM).unwrap())? {
        assert_ne!(machine.verdict(), Verdict::Failed(Failure::FAILED));
        machine.receive(&last);
    }
    Ok(())
}

#[test]
fn every_hash_and_group_authenticates_both_ends() {
    for hash in ChapHash::ALL {
        for group in DhGroup::ALL {
            let keys = keys(hash, group);
            for mutual in [false, true] {
                let mut machine = authenticator(&keys);
                assert_eq!(machine.verdict(), Verdict::Open);
                exchange(&mut machine, honest(&keys, mutual), |_| ()).unwrap();
                assert_eq!(machine.verdict(), Verdict::Passed, "{hash} {group}");
                // And again, as often as the host likes, while the queue stays open.
                if group == DhGroup::Null {
                    for _ in 0..10 {
                        exchange(&mut machine, honest(&keys, mutual), |_| ()).unwrap();
                        assert_eq!(machine.verdict(), Verdict::Passed);
                    }
                }
            }
        }
    }
}

#[test]
fn who_does_not_know_the_secret_is_refused_and_told() {
    let keys = keys(ChapHash::Sha256, DhGroup::Null);
    let stranger = Credentials::new(Secret::generate(None), None);
    let stranger = stranger.at_least(ChapHash::Sha256, DhGroup::Null);
    let mut machine = authenticator(&keys);
    let refused = exchange(&mut machine, prover(stranger.clone()), |_| ());
    assert_eq!(refused, Err(Refusal::OfHost(Failure::FAILED)));
    assert_eq!(machine.verdict(), Verdict::Failed(Failure::FAILED));
    // Nothing helps after that, the right secret included.
    machine.receive(&honest(&keys, false).offer());
    assert!(machine.transmit(ROOM).is_none());
    // A host that has passed and then fails is out as well.
    let mut machine = authenticator(&keys);
    exchange(&mut machine, honest(&keys, false), |_| ()).unwrap();
    assert!(exchange(&mut machine, prover(stranger), |_| ()).is_err());
    assert_eq!(machine.verdict(), Verdict::Failed(Failure::FAILED));
}

/// The controller has another secret than the host thinks, or none to prove.
#[test]
fn a_host_that_distrusts_the_controller_is_let_go() {
    let mut keys = keys(ChapHash::Sha512, DhGroup::Ffdhe2048);
    let distrustful = Credentials::new(keys.host.clone(), Some(Secret::generate(None)));
    let mut machine = authenticator(&keys);
    let mut host = prover(distrustful.clone());
    machine.receive(&host.offer());
    let reply = host.reply(&machine.transmit(ROOM).unwrap()).unwrap();
    machine.receive(&reply);
    let refused = host.conclude(&machine.transmit(ROOM).unwrap());
    assert_eq!(refused, Err(Refusal::OfController(Failure::FAILED)));
    assert_eq!(machine.verdict(), Verdict::Open);
    machine.receive(&host.give_up(Failure::FAILED));
    assert_eq!(machine.verdict(), Verdict::Failed(Failure::FAILED));

    keys.controller = None;
    let mut machine = authenticator(&keys);
    let refused = exchange(&mut machine, prover(distrustful), |_| ());
    assert_eq!(refused, Err(Refusal::OfHost(Failure::FAILED)));
}

/// A host says how weak a group may be that a controller demands: a rogue one would choose none.
#[test]
fn a_host_takes_no_weaker_group_than_it_says() {
    let weak = keys(ChapHash::Sha256, DhGroup::Null);
    let usual = Credentials::new(weak.host.clone(), None);
    let mut machine = authenticator(&weak);
    machine.receive(&prover(usual.clone()).offer());
    let refused = machine.transmit(ROOM).unwrap();
    assert_eq!(
        prover(usual).reply(&refused),
        Err(Refusal::OfHost(Failure::GROUP_UNUSABLE))
    );
    // Nor does it follow a controller that chooses what was not on offer.
    let strong = honest(&weak, false);
    let mut machine = authenticator(&weak);
    machine.receive(&strong.offer());
    let challenge = machine.transmit(ROOM).unwrap();
    let strict = Credentials::new(weak.host.clone(), None);
    for (hash, group) in [
        (ChapHash::Sha256, DhGroup::Ffdhe2048),
        (ChapHash::Sha384, DhGroup::Null),
    ] {
        let mut host = prover(strict.clone().at_least(hash, group));
        let mut mine = challenge.clone();
        mine[4..6].copy_from_slice(&host.offer()[4..6]);
        assert!(matches!(host.reply(&mine), Err(Refusal::OfController(_))));
    }
}

#[test]
fn offers_without_what_is_demanded_are_refused_by_name() {
    let keys = keys(ChapHash::Sha384, DhGroup::Ffdhe3072);
    let offer = |hashes: &[u8], groups: &[u8]| Negotiate::new(1, hashes, groups);
    let mut secured = offer(&[2], &[2]);
    secured.secure_channel = 1;
    let mut other = offer(&[2], &[2]);
    other.protocol = 2;
    let mut none = offer(&[2], &[2]);
    none.protocols = 0;
    let mut long = offer(&[2], &[2]);
    long.hash_count = 31;
    for (offer, failure) in [
        (offer(&[1, 3], &[2]), Failure::HASH_UNUSABLE),
        (offer(&[], &[2]), Failure::HASH_UNUSABLE),
        (offer(&[2], &[0, 1, 3]), Failure::GROUP_UNUSABLE),
        (secured, Failure::SECURE_CHANNEL_MISMATCH),
        (other, Failure::PROTOCOL_UNUSABLE),
        (none, Failure::PROTOCOL_UNUSABLE),
        (long, Failure::INCORRECT_PAYLOAD),
    ] {
        let mut machine = authenticator(&keys);
        machine.receive(offer.as_bytes());
        let said = FailureMessage::new(MessageId::FAILURE1, 1, failure);
        assert_eq!(machine.transmit(ROOM).unwrap(), said.as_bytes());
        assert_eq!(machine.verdict(), Verdict::Failed(failure));
    }
}

#[test]
fn messages_out_of_turn_are_refused() {
    let keys = keys(ChapHash::Sha256, DhGroup::Null);
    let message = |kind, id, transaction| {
        let header = MessageHeader::new(kind, id, transaction);
        [header.as_bytes(), &[0; 200]].concat()
    };
    for id in [MessageId::REPLY, MessageId::SUCCESS2, MessageId(0x77)] {
        let mut machine = authenticator(&keys);
        assert!(
            machine.transmit(ROOM).is_none(),
            "there is nothing to fetch"
        );
        machine.receive(&message(MessageType::DH_HMAC_CHAP, id, 0));
        machine.transmit(ROOM);
        assert_eq!(
            machine.verdict(),
            Verdict::Failed(Failure::INCORRECT_MESSAGE)
        );
    }
    // Another transaction's reply.
    let mut machine = authenticator(&keys);
    let host = honest(&keys, true);
    machine.receive(&host.offer());
    assert!(machine.transmit(16).is_none(), "no room for the challenge");
    let transaction = MessageHeader::of(&machine.transmit(ROOM).unwrap()).unwrap();
    let other = !transaction.transaction.get();
    machine.receive(&message(MessageType::DH_HMAC_CHAP, MessageId::REPLY, other));
    machine.transmit(ROOM);
    assert_eq!(
        machine.verdict(),
        Verdict::Failed(Failure::INCORRECT_PAYLOAD)
    );
    // Beginning over and over.
    let mut machine = authenticator(&keys);
    for _ in 0..4 {
        machine.receive(&host.offer());
        assert!(machine.transmit(ROOM).is_some());
    }
    machine.receive(&host.offer());
    machine.transmit(ROOM);
    assert_eq!(machine.verdict(), Verdict::Failed(Failure::FAILED));
}

proptest! {
    /// A reply of which any bit that counts is changed, or that is cut short, proves nothing.
    #[test]
    fn a_changed_reply_never_passes(at in 4_usize..200, bit in 0_u8..8, cut in any::<bool>()) {
        let keys = keys(ChapHash::Sha256, DhGroup::Null);
        let mut machine = authenticator(&keys);
        let mut same = false;
        let outcome = exchange(&mut machine, honest(&keys, false), |reply| {
            let before = reply.clone();
            if cut {
                reply.truncate(at.min(reply.len() - 1));
            } else {
                let at = at % reply.len();
                reply[at] ^= 1 << bit;
                // Reserved bytes, and the challenge of a host that asks for nothing.
                same = matches!(at, 2 | 3 | 7 | 9 | 12..16 | 48..)
                    || at == 8 && bit != 0
                    || before == *reply;
            }
        });
        prop_assert_eq!(outcome.is_ok(), same || at % 80 == 8 && !cut);
        prop_assert_eq!(machine.verdict() == Verdict::Passed, outcome.is_ok());
    }

    /// Whatever a host sends that does not know the secret, the queue stays shut.
    #[test]
    fn noise_never_passes(messages in prop::collection::vec(prop::collection::vec(
        any::<u8>(), 0..160), 1..8), header in any::<[u8; 2]>()) {
        let keys = keys(ChapHash::Sha256, DhGroup::Null);
        let mut machine = authenticator(&keys);
        for mut message in messages {
            message.iter_mut().zip(header).for_each(|(to, from)| *to = from % 6);
            machine.receive(&message);
            if let Some(answer) = machine.transmit(ROOM) {
                prop_assert!(answer.len() <= ROOM);
            }
            prop_assert_ne!(machine.verdict(), Verdict::Passed);
        }
    }
}
