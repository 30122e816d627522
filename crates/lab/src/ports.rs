//! Ports for servers that start later, some of them minutes later.

use std::net::{IpAddr, TcpListener};
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU64, Ordering};

/// Ports below belong to services with a name.
const FIRST: u16 = 10_000;

/// So far apart processes begin to look, by their identifiers: as many servers as most have.
const OF_A_PROCESS: u64 = 64;

/// A port that nobody listens on now at any of the addresses, and that the system gives to nobody
/// who asks for just any: such a one may be somebody else's by the time the last server starts.
/// This process finds another one each time, and so do others that look meanwhile.
///
/// # Errors
///
/// The system's range of ports cannot be read, or no port is free at all the addresses.
pub fn free_port(addresses: &[IpAddr]) -> std::io::Result<u16> {
    let given = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range")?;
    let given = range(&given).ok_or_else(|| {
        let found = given.trim();
        std::io::Error::other(format!(
            "a range of ports like \"32768 60999\", not \"{found}\""
        ))
    })?;
    let mut ports: Vec<u16> = (FIRST..=u16::MAX)
        .filter(|it| !given.contains(it))
        .collect();
    if !ports.is_empty() {
        let start = next_start() % ports.len() as u64;
        ports.rotate_left(start as usize);
    }
    let is_free = |port: &u16| {
        let mut listeners = addresses.iter().map(|at| TcpListener::bind((*at, *port)));
        listeners.all(|listener| listener.is_ok())
    };
    let found = ports.into_iter().find(is_free);
    found.ok_or_else(|| std::io::Error::other("no port is free"))
}

/// Where the next look begins. What a look found is nobody's until its server starts: a look that
/// began at random would find it again, now and then.
fn next_start() -> u64 {
    static LOOKS: AtomicU64 = AtomicU64::new(0);
    let first = u64::from(std::process::id()) * OF_A_PROCESS;
    first + LOOKS.fetch_add(1, Ordering::Relaxed)
}

/// The first and the last port that the system gives.
fn range(text: &str) -> Option<RangeInclusive<u16>> {
    let mut ends = text.split_whitespace().map(str::parse);
    let (first, last) = (ends.next()?.ok()?, ends.next()?.ok()?);
    Some(first..=last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_port_is_free_at_every_address_and_not_one_that_is_given_to_anybody() {
        let given = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let given = given.local_addr().unwrap().port();
        let told = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap();
        let told = range(&told).unwrap();
        assert!(told.contains(&given), "{given} of {told:?}");
        let addresses = ["127.0.0.1", "127.0.0.2", "::1"].map(|it| it.parse::<IpAddr>().unwrap());
        let mut found = BTreeSet::new();
        for _ in 0..20 {
            let port = free_port(&addresses).unwrap();
            assert!(found.insert(port), "{port} was found twice");
            assert!(port >= FIRST && !told.contains(&port), "{port} of {told:?}");
            for at in addresses {
                TcpListener::bind((at, port)).unwrap();
            }
        }
        assert_eq!(range("32768\t60999\n"), Some(32768..=60999));
        assert_eq!(range("32768"), None);
    }
}
