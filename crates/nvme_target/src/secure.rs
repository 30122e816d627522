//! Connections under TLS: which key of which host, and who may come without.

use std::rc::Rc;

use access::{Nqn, TlsPsk};
use block::BlockDevice;
use nvme::Status;
use nvme::fabrics::connect_offset;
use reactor::net::TcpStream;
use tls::{Stream, TlsError};

use crate::home::Refusal;
use crate::per_core::Core;
use crate::refusals::Refused;
use crate::report::{CloseReason, RefusalReason};
use crate::session::Session;

/// Of `NVMe1R01 `, and of every identity's beginning.
const IDENTITY_PREFIX_BYTES: usize = 9;
/// Identities that are looked at; hosts offer one.
const IDENTITIES_MAX: usize = 8;

/// Between which host and which subsystem a connection is secured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Secured {
    pub host_nqn: Nqn,
    pub subsystem_nqn: Nqn,
}

/// Secures a new connection where its port wants that; `None` when the connection is to end, which
/// the session then knows.
pub(crate) async fn secure<D: BlockDevice + 'static>(
    session: &Rc<Session<D>>,
    tcp: TcpStream,
) -> Option<Stream> {
    if !session.origin.tls {
        return Some(Stream::plain(tcp));
    }
    let shaking = shake_hands(Rc::clone(session), tcp.clone());
    let mut shaking = reactor::spawn(shaking);
    let limit = session.core.settings.connect_timeout;
    let closing = reactor::spawn(end_early(Rc::clone(session), tcp.clone()));
    let shaken = reactor::timeout(limit, &mut shaking).await;
    drop(closing.cancel_on_drop());
    let Ok(shaken) = shaken else {
        session.close(CloseReason::Silence);
        tcp.shutdown();
        drop(shaking.await);
        return None;
    };
    match shaken {
        Ok(stream) => Some(stream),
        Err(error) => {
            tracing::debug!(host = %session.host_address, %error, "no secure channel");
            session.close(CloseReason::Authentication);
            tcp.shutdown();
            None
        }
    }
}

/// Ends a handshake whose session is closed meanwhile.
async fn end_early<D: BlockDevice + 'static>(session: Rc<Session<D>>, tcp: TcpStream) {
    session.wait_for_close().await;
    tcp.shutdown();
}

async fn shake_hands<D: BlockDevice + 'static>(
    session: Rc<Session<D>>,
    tcp: TcpStream,
) -> Result<Stream, TlsError> {
    let core = &session.core;
    let mut claimed = None;
    let accepted = Stream::accept(tcp, |identities| {
        let (secured, psk) = choose(core, identities)?;
        claimed = Some(secured);
        Some(psk)
    })
    .await;
    if accepted.is_err() && session.closing().is_none() {
        let reason = match claimed {
            Some(_) => RefusalReason::TlsFailed,
            None => RefusalReason::NoSecureChannel,
        };
        let (host_nqn, subsystem_nqn) = claimed
            .map(|claimed| (claimed.host_nqn, claimed.subsystem_nqn))
            .unzip();
        core.report_refusal(Refused {
            host_nqn,
            host_address: session.host_address,
            subsystem_nqn,
            reason,
        });
    } else if let Some(claimed) = claimed {
        // A session is secured once.
        let _ = session.secured.set(claimed);
    }
    accepted
}

/// The first of the offered identities that a key of ours has, with the key.
fn choose<D: BlockDevice + 'static>(
    core: &Core<D>,
    identities: &[String],
) -> Option<(Secured, TlsPsk)> {
    let hosts = core.credentials.tls_keys();
    for identity in identities.iter().take(IDENTITIES_MAX) {
        let Some(names) = identity.get(IDENTITY_PREFIX_BYTES..) else {
            continue;
        };
        for (host_nqn, key) in &hosts {
            let rest = names.strip_prefix(host_nqn.as_str());
            let Some(rest) = rest.and_then(|rest| rest.strip_prefix(' ')) else {
                continue;
            };
            // Version 1 has a digest behind the subsystem's name.
            let without_digest = rest.rsplit_once(' ').map(|(name, _)| name);
            let names = [Some(rest), without_digest].into_iter().flatten();
            let names = names.filter_map(|name| name.parse::<Nqn>().ok());
            for subsystem_nqn in names.filter(|name| core.keys_count(host_nqn, name)) {
                let mut psks = key.psks(host_nqn, &subsystem_nqn).into_iter();
                if let Some(psk) = psks.find(|psk| psk.identity == *identity) {
                    let host_nqn = host_nqn.clone();
                    let secured = Secured {
                        host_nqn,
                        subsystem_nqn,
                    };
                    return Some((secured, psk));
                }
            }
        }
    }
    None
}

/// Whether what Connect says fits how the connection is secured. A host with a key comes under TLS;
/// only for discovery it need not, for that is where it learns of it.
pub(crate) fn check<D: BlockDevice + 'static>(
    session: &Session<D>,
    host_nqn: &Nqn,
    subsystem_nqn: &Nqn,
) -> Result<(), Refusal> {
    if let Some(secured) = session.secured.get() {
        let other = |offset| Refusal::in_data(offset, RefusalReason::TlsFailed);
        if secured.host_nqn != *host_nqn {
            return Err(other(connect_offset::HOST_NQN));
        }
        if secured.subsystem_nqn != *subsystem_nqn {
            return Err(other(connect_offset::SUBSYSTEM_NQN));
        }
        return Ok(());
    }
    let core = &session.core;
    if core.is_discovery(subsystem_nqn) || !core.is_under_tls(host_nqn, subsystem_nqn) {
        return Ok(());
    }
    let status = Status::CONNECT_INVALID_HOST;
    Err(Refusal::lasting(status, RefusalReason::TlsRequired))
}
