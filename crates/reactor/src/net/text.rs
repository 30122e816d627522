//! Addresses as people write them, with the interfaces of link-local ones by name.

use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6, ToSocketAddrs};

use rustix::net::{AddressFamily, SocketFlags, SocketType, netdevice};

/// The address and port that `text` says: `192.0.2.1:4420`, `[2001:db8::1]:4420`, or with an
/// interface of this machine `[fe80::1%eth0]:4420`. An IPv6 address that stands for an IPv4 address
/// is that.
pub fn parse_address(text: &str) -> Option<SocketAddr> {
    if let Ok(address) = text.parse() {
        return Some(canonical(address));
    }
    let (ip, rest) = text.strip_prefix('[')?.split_once('%')?;
    let (interface, port) = rest.split_once("]:")?;
    let ip: Ipv6Addr = ip.parse().ok()?;
    let scope = index_of(interface).ok()?;
    let address = SocketAddrV6::new(ip, port.parse().ok()?, 0, scope);
    Some(canonical(address.into()))
}

/// The addresses of `text`, which is an address or `NAME:PORT`: the name as this machine resolves
/// it, each address once.
///
/// # Errors
/// The resolver's; [`io::ErrorKind::NotFound`] for a name without addresses.
pub fn resolve(text: &str) -> io::Result<Vec<SocketAddr>> {
    if let Some(address) = parse_address(text) {
        return Ok(vec![address]);
    }
    let mut found: Vec<SocketAddr> = Vec::new();
    for address in text.to_socket_addrs()?.map(canonical) {
        if !found.contains(&address) {
            found.push(address);
        }
    }
    match found.is_empty() {
        true => Err(io::ErrorKind::NotFound.into()),
        false => Ok(found),
    }
}

/// The address without a port, as `nvme connect` on this machine takes it.
pub fn display_ip(address: &SocketAddr) -> String {
    match address {
        SocketAddr::V6(v6) if v6.scope_id() != 0 => {
            let scope = v6.scope_id();
            let interface = name_of(scope).unwrap_or_else(|_| scope.to_string());
            format!("{}%{interface}", v6.ip())
        }
        other => other.ip().to_string(),
    }
}

/// The address as [`parse_address`] reads it on this machine.
pub fn display_address(address: &SocketAddr) -> String {
    match address {
        SocketAddr::V4(v4) => v4.to_string(),
        SocketAddr::V6(v6) => format!("[{}]:{}", display_ip(address), v6.port()),
    }
}

/// The address that is meant: an IPv6 address that stands for an IPv4 address is that.
pub fn canonical(address: SocketAddr) -> SocketAddr {
    match address.ip().to_canonical() {
        IpAddr::V4(ip) => SocketAddr::new(ip.into(), address.port()),
        IpAddr::V6(_) => address,
    }
}

/// The number of an interface, which may be written instead of its name.
fn index_of(interface: &str) -> io::Result<u32> {
    if let Ok(index) = interface.parse() {
        return Ok(index);
    }
    Ok(netdevice::name_to_index(any_socket()?, interface)?)
}

fn name_of(index: u32) -> io::Result<String> {
    Ok(netdevice::index_to_name(any_socket()?, index)?)
}

/// Interfaces are asked for through a socket, of whatever kind.
fn any_socket() -> io::Result<std::os::fd::OwnedFd> {
    let (family, kind) = (AddressFamily::INET6, SocketType::DGRAM);
    let socket = rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC, None);
    Ok(socket?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_read_back_with_their_interface() {
        for text in [
            "192.0.2.1:4420",
            "[2001:db8::1]:4420",
            "[fe80::1%lo]:4420",
            "[fe80::1%4000000000]:1",
        ] {
            let address = parse_address(text).unwrap();
            assert_eq!(display_address(&address), text);
        }
        let by_number = parse_address("[fe80::1%1]:4420").unwrap();
        assert_eq!(display_address(&by_number), "[fe80::1%lo]:4420");
        assert_eq!(display_ip(&by_number), "fe80::1%lo");
    }

    #[test]
    fn an_address_that_stands_for_another_is_that() {
        let mapped = parse_address("[::ffff:192.0.2.1]:4420").unwrap();
        assert_eq!(mapped, "192.0.2.1:4420".parse().unwrap());
    }

    #[test]
    fn what_is_no_address_is_none() {
        for text in [
            "192.0.2.1",
            "2001:db8::1:4420",
            "[fe80::1%none]:4420",
            "[fe80::1%lo]4420",
            "[192.0.2.1%lo]:4420",
            "host:4420",
        ] {
            assert_eq!(parse_address(text), None, "{text}");
        }
    }

    #[test]
    fn names_are_resolved_and_each_address_is_given_once() {
        let found = resolve("localhost:4420").unwrap();
        assert!(
            found.contains(&"127.0.0.1:4420".parse().unwrap()),
            "{found:?}"
        );
        let mut once = found.clone();
        once.dedup();
        assert_eq!(once, found);
        assert!(resolve("no-such-host.invalid:4420").is_err());
        assert!(resolve("localhost").is_err());
    }
}
