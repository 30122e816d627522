//! The addresses of this machine's interfaces, as the kernel tells them (rtnetlink(7)): what is
//! said of a port that listens everywhere to whoever did not come by one of them.

use std::collections::BTreeSet;
use std::io;
use std::net::IpAddr;

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

/// Requests for everything of a kind, and the messages that answer them.
const GET_LINKS: u16 = 18;
const GET_ADDRESSES: u16 = 22;
const NEW_LINK: u16 = 16;
const NEW_ADDRESS: u16 = 20;
const ERROR: u16 = 2;
const DONE: u16 = 3;

/// `NLM_F_REQUEST | NLM_F_DUMP`.
const REQUEST_ALL: u16 = 0x301;

/// `struct nlmsghdr`, `struct ifinfomsg`, `struct ifaddrmsg`, `struct rtattr`.
const HEADER_BYTES: usize = 16;
const LINK_BYTES: usize = 16;
const ADDRESS_BYTES: usize = 8;
const ATTRIBUTE_BYTES: usize = 4;

/// Attributes of an address: the address (of the other end, point to point), its own end, flags.
const ADDRESS: u16 = 1;
const LOCAL: u16 = 2;
const FLAGS: u16 = 8;

/// `IFF_UP | IFF_RUNNING`: switched on, and with a link.
const UP_AND_RUNNING: u32 = 0x1 | 0x40;

/// `IFA_F_TEMPORARY` of IPv6, and of both `IFA_F_DADFAILED | IFA_F_DEPRECATED | IFA_F_TENTATIVE`.
const TEMPORARY: u32 = 0x01;
const NOT_TO_BE_USED: u32 = 0x08 | 0x20 | 0x40;

/// `RT_SCOPE_UNIVERSE`: neither of a link nor of this machine alone.
const EVERYWHERE: u8 = 0;

/// More than the kernel puts into one datagram.
const ANSWER_BYTES: usize = 64 << 10;

/// The addresses that other machines may reach this one at, in the kernel's order: of interfaces
/// that are up, and that will stay.
///
/// # Errors
/// The kernel's, where it has no rtnetlink or keeps it from this process.
fn global_addresses() -> io::Result<Vec<IpAddr>> {
    let mut up = BTreeSet::new();
    ask(GET_LINKS, |kind, message| {
        if kind == NEW_LINK
            && let (Some(index), Some(flags)) = (u32_at(message, 4), u32_at(message, 8))
            && flags & UP_AND_RUNNING == UP_AND_RUNNING
            && message.len() >= LINK_BYTES
        {
            up.insert(index);
        }
    })?;
    let mut found = Vec::new();
    ask(GET_ADDRESSES, |kind, message| {
        if kind == NEW_ADDRESS
            && let Some((index, address)) = global_address(message)
            && up.contains(&index)
        {
            found.push(address);
        }
    })?;
    Ok(found)
}

/// As [`global_addresses`]; none, and a line in the log, where the kernel does not tell.
pub fn global_addresses_or_none() -> Vec<IpAddr> {
    global_addresses().unwrap_or_else(|error| {
        tracing::warn!("this machine's addresses cannot be listed: {error}");
        Vec::new()
    })
}

/// Asks for everything of a kind; each answer goes to `take`, with its type.
fn ask(kind: u16, mut take: impl FnMut(u16, &[u8])) -> io::Result<()> {
    // `NETLINK_ROUTE` is the family's protocol 0.
    let (family, raw) = (AddressFamily::NETLINK, SocketType::RAW);
    let socket = rustix::net::socket_with(family, raw, SocketFlags::CLOEXEC, None)?;
    let mut request = Vec::with_capacity(HEADER_BYTES + LINK_BYTES);
    request.extend(((HEADER_BYTES + LINK_BYTES) as u32).to_ne_bytes());
    request.extend(kind.to_ne_bytes());
    request.extend(REQUEST_ALL.to_ne_bytes());
    // Number and sender are ours to choose, and the family is every one.
    request.resize(HEADER_BYTES + LINK_BYTES, 0);
    rustix::net::send(&socket, &request, SendFlags::empty())?;
    let mut answer = vec![0_u8; ANSWER_BYTES];
    loop {
        let (_, length) = rustix::net::recv(&socket, &mut answer[..], RecvFlags::empty())?;
        let mut rest = answer.get(..length).unwrap_or_default();
        if rest.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        while let Some((kind, message, behind)) = first_message(rest) {
            match kind {
                DONE => return Ok(()),
                ERROR => return Err(refusal(message)),
                kind => take(kind, message),
            }
            rest = behind;
        }
    }
}

/// The type and the content of the first message, and what is behind it.
fn first_message(bytes: &[u8]) -> Option<(u16, &[u8], &[u8])> {
    let length = u32_at(bytes, 0)? as usize;
    let content = bytes.get(HEADER_BYTES..length)?;
    let behind = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    Some((u16_at(bytes, 4)?, content, behind))
}

/// The error that the kernel answers with, as a negative number.
fn refusal(message: &[u8]) -> io::Error {
    let number = u32_at(message, 0).map_or(0, u32::cast_signed);
    io::Error::from_raw_os_error(number.saturating_neg())
}

/// The interface and the address of an address's message, if others may use it.
fn global_address(message: &[u8]) -> Option<(u32, IpAddr)> {
    let [family, _, flags, scope] = *message.first_chunk()?;
    let (mut flags, index) = (u32::from(flags), u32_at(message, 4)?);
    let (mut address, mut local) = (None, None);
    let mut rest = message.get(ADDRESS_BYTES..)?;
    while let (Some(length), Some(kind)) = (u16_at(rest, 0), u16_at(rest, 2)) {
        let length = usize::from(length);
        let value = rest.get(ATTRIBUTE_BYTES..length)?;
        match kind {
            ADDRESS => address = ip_of(value),
            LOCAL => local = ip_of(value),
            FLAGS => flags = u32_at(value, 0)?,
            _ => {}
        }
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    let address = local.or(address)?;
    let temporary = address.is_ipv6() && flags & TEMPORARY != 0;
    let usable = scope == EVERYWHERE && !temporary && flags & NOT_TO_BE_USED == 0;
    let known = family == if address.is_ipv4() { 2 } else { 10 };
    (usable && known).then_some((index, address))
}

fn ip_of(value: &[u8]) -> Option<IpAddr> {
    match value.len() {
        4 => <[u8; 4]>::try_from(value).ok().map(IpAddr::from),
        _ => <[u8; 16]>::try_from(value).ok().map(IpAddr::from),
    }
}

fn u16_at(bytes: &[u8], offset: usize) -> Option<u16> {
    let found = bytes.get(offset..)?.first_chunk()?;
    Some(u16::from_ne_bytes(*found))
}

fn u32_at(bytes: &[u8], offset: usize) -> Option<u32> {
    let found = bytes.get(offset..)?.first_chunk()?;
    Some(u32::from_ne_bytes(*found))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An address of interface 3, with the attributes that are given.
    fn message(family: u8, flags: u8, scope: u8, attributes: &[(u16, &[u8])]) -> Vec<u8> {
        let mut message = vec![family, 24, flags, scope];
        message.extend(3_u32.to_ne_bytes());
        for (kind, value) in attributes {
            message.extend(((ATTRIBUTE_BYTES + value.len()) as u16).to_ne_bytes());
            message.extend(kind.to_ne_bytes());
            message.extend(*value);
            message.resize(message.len().next_multiple_of(4), 0);
        }
        message
    }

    #[test]
    fn addresses_that_others_may_use_are_told_from_the_rest() {
        let (v4, peer) = ([192, 0, 2, 1], [192, 0, 2, 2]);
        let v6: IpAddr = "2001:db8::1".parse().unwrap();
        let IpAddr::V6(octets) = v6 else {
            unreachable!("an IPv6 address")
        };
        let octets = octets.octets();
        let name: (u16, &[u8]) = (3, b"eth0\0");
        let found = |message: &[u8]| global_address(message).map(|(_, address)| address);
        let plain = message(2, 0, 0, &[(ADDRESS, &v4), (LOCAL, &v4), name]);
        assert_eq!(global_address(&plain), Some((3, IpAddr::from(v4))));
        // Of two ends, its own.
        let two_ends = message(2, 0, 0, &[(ADDRESS, &peer), (LOCAL, &v4)]);
        assert_eq!(found(&two_ends), Some(IpAddr::from(v4)));
        assert_eq!(found(&message(10, 0, 0, &[(ADDRESS, &octets)])), Some(v6));
        // A second address of a subnet is as good; a temporary one of IPv6 is not.
        assert!(found(&message(2, 1, 0, &[(LOCAL, &v4)])).is_some());
        assert_eq!(found(&message(10, 1, 0, &[(ADDRESS, &octets)])), None);
        // Of a link, of the machine, not yet or no longer to be used.
        for scope in [253, 254] {
            assert_eq!(found(&message(10, 0, scope, &[(ADDRESS, &octets)])), None);
        }
        let tentative = 0x40_u32.to_ne_bytes();
        let flagged = message(10, 0, 0, &[(ADDRESS, &octets), (FLAGS, &tentative)]);
        assert_eq!(found(&flagged), None);
        // Cut short anywhere, it is none or the same, and never a panic.
        for length in 0..plain.len() {
            assert!(found(&plain[..length]).is_none_or(|found| found == IpAddr::from(v4)));
        }
    }

    #[test]
    fn the_kernel_answers() {
        let found = global_addresses().unwrap();
        assert!(
            found
                .iter()
                .all(|ip| !ip.is_unspecified() && !ip.is_loopback())
        );
    }
}
