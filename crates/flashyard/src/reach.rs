//! Where a volume is found, and which of several addresses to use.

use std::net::TcpStream;
use std::time::Duration;

use api::{PortTransport, Status, Volume};
use initiator::{AddressError, TargetAddress, Transport};

/// How long an address may take to answer before the next is tried.
const ANSWERS_WITHIN: Duration = Duration::from_secs(3);

/// The addresses of the node at which a volume is served over `transport`; of TCP, those under TLS
/// or those in the clear.
///
/// # Errors
/// The node tells one that is none.
pub fn addresses_of(
    status: &Status,
    volume: &Volume,
    transport: PortTransport,
    tls: bool,
) -> Result<Vec<TargetAddress>, AddressError> {
    let (scheme, nqn, nsid) = (transport.word(), &volume.nqn, volume.nsid);
    let target = |address: &String| format!("{scheme}://{address}/{nqn}?nsid={nsid}").parse();
    match transport {
        PortTransport::Tcp => {
            let served = status.nvme_addresses.iter();
            let served = served.filter(|one| status.nvme_tls_addresses.contains(one) == tls);
            served.map(target).collect()
        }
        PortTransport::Rdma => status.nvme_rdma_addresses.iter().map(target).collect(),
    }
}

/// Over RDMA nobody but who connects can tell.
fn answers(target: &TargetAddress) -> bool {
    target.transport == Transport::Rdma
        || TcpStream::connect_timeout(&target.address, ANSWERS_WITHIN).is_ok()
}

/// The first address that takes a connection, or the first of all if none does: connecting to it
/// tells why. A single one is not tried.
pub fn first_that_answers(addresses: Vec<TargetAddress>) -> Option<TargetAddress> {
    let chosen = match addresses.len() {
        0 | 1 => 0,
        _ => addresses.iter().position(answers).unwrap_or(0),
    };
    addresses.into_iter().nth(chosen)
}

/// The same addresses, beginning with those that take a connection.
pub fn those_that_answer_first(mut addresses: Vec<TargetAddress>) -> Vec<TargetAddress> {
    if addresses.len() > 1 {
        addresses.sort_by_cached_key(|one| !answers(one));
    }
    addresses
}

/// The addresses that take a connection, or all of them if none does.
pub fn those_that_answer(addresses: Vec<TargetAddress>) -> Vec<TargetAddress> {
    if addresses.len() < 2 {
        return addresses;
    }
    let answering: Vec<_> = addresses
        .iter()
        .filter(|one| answers(one))
        .cloned()
        .collect();
    match answering.is_empty() {
        true => addresses,
        false => answering,
    }
}
