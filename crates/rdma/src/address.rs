//! Addresses as the libraries have them.
#![allow(unsafe_code, reason = "reads unions of C; see the SAFETY lines")]

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

/// Has `call` look at an address, which is there for as long as the call lasts.
pub fn with_raw<T>(address: SocketAddr, call: impl FnOnce(*const libc::sockaddr) -> T) -> T {
    match address {
        SocketAddr::V4(v4) => {
            let raw = libc::sockaddr_in {
                sin_family: libc::AF_INET as libc::sa_family_t,
                sin_port: v4.port().to_be(),
                sin_addr: libc::in_addr {
                    s_addr: u32::from(*v4.ip()).to_be(),
                },
                sin_zero: [0; 8],
            };
            call(std::ptr::from_ref(&raw).cast())
        }
        SocketAddr::V6(v6) => {
            let raw = libc::sockaddr_in6 {
                sin6_family: libc::AF_INET6 as libc::sa_family_t,
                sin6_port: v6.port().to_be(),
                sin6_flowinfo: 0,
                sin6_addr: libc::in6_addr {
                    s6_addr: v6.ip().octets(),
                },
                sin6_scope_id: v6.scope_id(),
            };
            call(std::ptr::from_ref(&raw).cast())
        }
    }
}

/// The address in a storage, if it is one of the internet's.
pub fn read(storage: &libc::sockaddr_storage) -> Option<SocketAddr> {
    match i32::from(storage.ss_family) {
        libc::AF_INET => {
            // SAFETY: the family says which struct it is, and the storage has room for each.
            let v4 = unsafe { &*std::ptr::from_ref(storage).cast::<libc::sockaddr_in>() };
            let ip = Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr));
            Some(SocketAddr::new(ip.into(), u16::from_be(v4.sin_port)))
        }
        libc::AF_INET6 => {
            // SAFETY: as above.
            let v6 = unsafe { &*std::ptr::from_ref(storage).cast::<libc::sockaddr_in6>() };
            let ip = Ipv6Addr::from(v6.sin6_addr.s6_addr);
            let port = u16::from_be(v6.sin6_port);
            Some(SocketAddrV6::new(ip, port, 0, v6.sin6_scope_id).into())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_both_families_are_read_as_they_were_written() {
        for text in ["192.0.2.1:4420", "[2001:db8::1]:4420", "[fe80::1%7]:1"] {
            let address: SocketAddr = text.parse().unwrap();
            let found = with_raw(address, |raw| {
                // SAFETY: zeroes are a storage, and each of the two structs has room in it.
                let mut storage: libc::sockaddr_storage = unsafe { std::mem::zeroed() };
                let bytes = match address {
                    SocketAddr::V4(_) => size_of::<libc::sockaddr_in>(),
                    SocketAddr::V6(_) => size_of::<libc::sockaddr_in6>(),
                };
                // SAFETY: as above; they do not overlap.
                unsafe {
                    let into = std::ptr::from_mut(&mut storage).cast::<u8>();
                    std::ptr::copy_nonoverlapping(raw.cast::<u8>(), into, bytes);
                }
                read(&storage)
            });
            assert_eq!(found, Some(address));
        }
    }
}
