//! Authentication: both ends of DH-HMAC-CHAP under messages that are late, changed or made up.

use std::sync::Arc;

use access::chap::{ChapHash, DhGroup};
use access::{HostKeys, Nqn, Secret};
use initiator::{Credentials, Prover};
use nvme_target::authentication::{Authenticator, MESSAGE_BYTES_MAX, Verdict};

use crate::Input;

const HOST_SECRET: &str = "DHHC-1:01:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaR:";
const OTHER_SECRET: &str = "DHHC-1:00:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaR:";

fn secret(text: &str) -> Secret {
    text.parse().expect("a secret that nvme-cli made")
}

fn nqn(text: &str) -> Nqn {
    text.parse().expect("a name by the rules")
}

/// Drives a host that does not know the secret, and its controller, by `bytes`: nobody panics, and
/// the host never passes. The null group only, for fuzzers are many and Diffie-Hellman is slow.
pub fn authentication(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let keys = HostKeys {
        host: secret(HOST_SECRET),
        controller: Some(secret(OTHER_SECRET)),
        hash: input.choice(&ChapHash::ALL),
        group: DhGroup::Null,
    };
    let (host, subsystem) = (
        nqn("nqn.2014-08.org.example:h"),
        nqn("nqn.2014-08.org.example:s"),
    );
    let mut controller = Authenticator::new(Arc::new(keys), host.clone(), subsystem.clone());
    let credentials = Credentials::new(secret(OTHER_SECRET), Some(secret(HOST_SECRET)));
    let mut prover = Prover::new(credentials, host, subsystem);
    let mut last = Vec::new();
    while !input.is_empty() {
        match input.byte() % 6 {
            0 => controller.receive(&changed(prover.offer(), &mut input)),
            1 => {
                last = controller
                    .transmit(usize::from(input.short()))
                    .unwrap_or(last)
            }
            2 => {
                let message = changed(last.clone(), &mut input);
                if let Ok(reply) = prover.reply(&message) {
                    controller.receive(&changed(reply, &mut input));
                }
            }
            3 => {
                // The controller's proof is made with the other secret: see `credentials`.
                assert!(!matches!(prover.conclude(&last), Ok(Some(_))));
            }
            4 => {
                let count = usize::from(input.byte());
                controller.receive(input.take(count));
            }
            _ => drop(controller.transmit(MESSAGE_BYTES_MAX as usize)),
        }
        assert_ne!(controller.verdict(), Verdict::Passed);
    }
}

/// The message as it is, or with one byte changed, or cut short.
fn changed(mut message: Vec<u8>, input: &mut Input<'_>) -> Vec<u8> {
    let (how, at) = (input.byte(), usize::from(input.byte()));
    if how & 1 != 0
        && let Some(byte) = message.get_mut(at)
    {
        *byte ^= how;
    } else if how & 2 != 0 {
        message.truncate(at);
    }
    message
}
