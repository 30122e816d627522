//! Two sessions, and what they make of one another: no socket anywhere.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use access::{Nqn, PskHash, TlsKey, TlsPsk};
use proptest::prelude::*;
use tls::{Session, TlsError, identities};

fn psks(key: &TlsKey) -> Vec<TlsPsk> {
    let name = |text: &str| text.parse::<Nqn>().unwrap();
    key.psks(
        &name("nqn.2026-11.org.example:host"),
        &name("nqn.2026-11.org.example:subsystem"),
    )
}

/// Carries everything that `from` has to say to `to`, `step` bytes at a time.
fn carry(from: &mut Session, to: &mut Session, step: usize) -> Result<bool, TlsError> {
    let mut done = false;
    for bytes in std::mem::take(from.outgoing()).chunks(step) {
        to.receive(bytes);
        done = to.handshake()?;
    }
    Ok(done)
}

/// Host and controller after their handshake.
fn agree(host: &TlsPsk, controller: &TlsPsk, step: usize) -> Result<(Session, Session), TlsError> {
    let (mut host, mut controller) = (Session::host(host)?, Session::controller(controller)?);
    assert!(!host.handshake()?);
    carry(&mut host, &mut controller, step)?;
    assert!(carry(&mut controller, &mut host, step)?);
    assert!(carry(&mut host, &mut controller, step)?);
    Ok((host, controller))
}

fn read_all(session: &mut Session) -> Vec<u8> {
    let (mut all, mut buffer) = (Vec::new(), [0; 1000]);
    while let Some(count) = session.read(&mut buffer).unwrap() {
        assert!(count > 0, "nobody said farewell");
        all.extend_from_slice(&buffer[..count]);
    }
    all
}

#[test]
fn both_hashes_and_all_identities_serve() {
    for hash in [PskHash::Sha256, PskHash::Sha384] {
        for psk in psks(&TlsKey::generate(hash)) {
            let (mut host, mut controller) = agree(&psk, &psk, usize::MAX).unwrap();
            host.write(b"a command").unwrap();
            let wire = host.outgoing().clone();
            assert!(!wire.windows(9).any(|window| window == b"a command"));
            carry(&mut host, &mut controller, 1).unwrap();
            assert_eq!(read_all(&mut controller), b"a command");
            controller.write(&[7; 100_000]).unwrap();
            carry(&mut controller, &mut host, 999).unwrap();
            assert_eq!(read_all(&mut host), [7; 100_000]);
        }
    }
}

#[test]
fn a_handshake_may_come_a_byte_at_a_time() {
    let psk = &psks(&TlsKey::generate(PskHash::Sha256))[0];
    agree(psk, psk, 1).unwrap();
}

#[test]
fn another_key_by_the_same_name_is_refused() {
    let [psk, other] = [(); 2].map(|()| psks(&TlsKey::generate(PskHash::Sha384)).remove(1));
    assert_eq!(psk.identity, other.identity);
    let refused = agree(&psk, &other, usize::MAX);
    assert!(matches!(refused, Err(TlsError::Failed(_))), "{refused:?}");
}

#[test]
fn another_name_for_the_same_key_is_refused() {
    let psk = psks(&TlsKey::generate(PskHash::Sha256)).remove(0);
    let renamed = TlsPsk {
        identity: psk.identity.replace("host", "other"),
        ..psk.clone()
    };
    assert!(agree(&psk, &renamed, usize::MAX).is_err());
}

#[test]
fn what_was_changed_on_the_way_is_refused() {
    let psk = &psks(&TlsKey::generate(PskHash::Sha256))[0];
    let (mut host, mut controller) = agree(psk, psk, usize::MAX).unwrap();
    host.write(b"a command").unwrap();
    let mut wire = std::mem::take(host.outgoing());
    *wire.last_mut().unwrap() ^= 1;
    controller.receive(&wire);
    assert!(controller.read(&mut [0; 100]).is_err());
    assert!(controller.write(b"an answer").is_err());
}

#[test]
fn a_controller_learns_what_is_offered_before_it_chooses() {
    let psk = &psks(&TlsKey::generate(PskHash::Sha256))[0];
    let mut host = Session::host(psk).unwrap();
    host.handshake().unwrap();
    let hello = std::mem::take(host.outgoing());
    for cut in 0..hello.len() {
        assert_eq!(identities(&hello[..cut]), Ok(None), "{cut}");
    }
    assert_eq!(identities(&hello), Ok(Some(vec![psk.identity.clone()])));
}

#[test]
fn what_is_no_hello_is_told_at_once() {
    // ICReq of NVMe/TCP; TLS that begins with something else; a hello without keys.
    let plain = [0x16, 3, 1, 0, 5, 1, 0, 0, 1, 0];
    for bytes in [&[0, 0, 128, 0][..], &[0x17], &[0x16, 3, 3, 0, 1, 2], &plain] {
        assert_eq!(identities(bytes), Err(TlsError::Hello), "{bytes:?}");
    }
}

proptest! {
    #[test]
    fn no_bytes_are_too_strange(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let framed = [&[0x16, 3, 3, 0, bytes.len() as u8, 1, 0, 0], &bytes[..]].concat();
        let _ = (identities(&bytes), identities(&framed));
        let psk = psks(&TlsKey::generate(PskHash::Sha256)).remove(0);
        let mut controller = Session::controller(&psk).unwrap();
        controller.receive(&framed);
        prop_assert_ne!(controller.handshake(), Ok(true));
    }

    #[test]
    fn a_changed_hello_gives_no_session(index in 0_usize..300, bit in 0_u8..8) {
        let psk = psks(&TlsKey::generate(PskHash::Sha256)).remove(0);
        let mut host = Session::host(&psk).unwrap();
        host.handshake().unwrap();
        let mut hello = std::mem::take(host.outgoing());
        // The record's own header is not authenticated; it says nothing that counts.
        let index = 5 + index % (hello.len() - 5);
        hello[index] ^= 1 << bit;
        let _ = identities(&hello);
        let mut controller = Session::controller(&psk).unwrap();
        controller.receive(&hello);
        if controller.handshake().is_ok() {
            host.receive(&std::mem::take(controller.outgoing()));
            prop_assert_ne!(host.handshake(), Ok(true));
        }
    }
}
