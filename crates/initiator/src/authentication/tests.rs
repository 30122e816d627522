//! Controllers that are not what they say: refused with the reason.

use access::chap::{ChapHash, DhGroup};
use access::{Nqn, Secret};
use nvme::authentication::{
    Challenge, Failure, FailureMessage, MessageHeader, MessageId, MessageType, Success1, message,
};
use zerocopy::IntoBytes;
use zerocopy::little_endian::{U16, U32};

use super::{Credentials, Prover, Refusal};

fn nqn(text: &str) -> Nqn {
    text.parse().unwrap()
}

fn prover(controller: Option<Secret>) -> Prover {
    let mut credentials = Credentials::new(Secret::generate(None), controller);
    credentials.hashes = vec![ChapHash::Sha256];
    credentials.groups = vec![DhGroup::Null];
    let (host, subsystem) = (
        "nqn.2014-08.org.example:host",
        "nqn.2014-08.org.example:sub",
    );
    Prover::new(credentials, nqn(host), nqn(subsystem))
}

/// A challenge for the transaction of this offer.
fn challenge(offer: &[u8], change: impl FnOnce(&mut Challenge)) -> Vec<u8> {
    let transaction = MessageHeader::of(offer).unwrap().transaction.get();
    let mut fixed = Challenge {
        header: MessageHeader::new(MessageType::DH_HMAC_CHAP, MessageId::CHALLENGE, transaction),
        hash_bytes: 32,
        reserved: 0,
        hash: ChapHash::Sha256.id(),
        group: DhGroup::Null.id(),
        value_bytes: U16::ZERO,
        sequence: U32::new(1),
    };
    change(&mut fixed);
    message(&fixed, &[&[7; 32]])
}

#[test]
fn challenges_that_were_not_asked_for_are_refused() {
    let mut prover = prover(None);
    let offer = prover.offer();
    assert!(prover.reply(&challenge(&offer, |_| ())).is_ok());
    type Change = fn(&mut Challenge);
    let cases: [(Change, Failure); 6] = [
        (|fixed| fixed.hash = 2, Failure::HASH_UNUSABLE),
        (|fixed| fixed.hash_bytes = 31, Failure::HASH_UNUSABLE),
        (|fixed| fixed.group = 1, Failure::GROUP_UNUSABLE),
        (
            |fixed| fixed.value_bytes = U16::new(1),
            Failure::INCORRECT_PAYLOAD,
        ),
        (
            |fixed| fixed.header.id = MessageId::SUCCESS1,
            Failure::INCORRECT_MESSAGE,
        ),
        (
            |fixed| fixed.header.transaction = U16::new(!fixed.header.transaction.get()),
            Failure::INCORRECT_MESSAGE,
        ),
    ];
    for (change, failure) in cases {
        let refused = prover.reply(&challenge(&offer, change));
        assert_eq!(refused, Err(Refusal::OfController(failure)));
    }
    let short = &challenge(&offer, |_| ())[..20];
    let refused = prover.reply(short);
    let payload = Refusal::OfController(Failure::INCORRECT_PAYLOAD);
    assert_eq!(refused, Err(payload));
    assert_eq!(prover.reply(&[]), Err(payload));
    let failure = FailureMessage::new(MessageId::FAILURE1, 0, Failure::GROUP_UNUSABLE);
    let refused = prover.reply(failure.as_bytes());
    assert_eq!(refused, Err(Refusal::OfHost(Failure::GROUP_UNUSABLE)));
}

/// A controller that knows no secret may claim success, leave its proof out, or guess it.
#[test]
fn a_controller_has_to_prove_itself_when_asked() {
    let mut prover = prover(Some(Secret::generate(None)));
    let offer = prover.offer();
    let reply = prover.reply(&challenge(&offer, |_| ())).unwrap();
    let transaction = MessageHeader::of(&reply).unwrap().transaction.get();
    for (valid, proof) in [(0, 0), (0, 32), (1, 32)] {
        let fixed = Success1 {
            header: MessageHeader::new(MessageType::DH_HMAC_CHAP, MessageId::SUCCESS1, transaction),
            hash_bytes: 32,
            reserved: 0,
            response_valid: valid,
            reserved9: [0; 7],
        };
        let success = message(&fixed, &[&vec![0; proof]]);
        assert!(matches!(
            prover.conclude(&success),
            Err(Refusal::OfController(_))
        ));
    }
}
