//! Socket addresses as the kernel writes them.
#![allow(
    unsafe_code,
    reason = "casts between socket address types; see the SAFETY lines"
)]

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

/// A `sockaddr_storage` and how much of it is used.
pub(crate) struct RawAddress {
    storage: libc::sockaddr_storage,
    length: libc::socklen_t,
}

impl RawAddress {
    /// Room for an address that the kernel will fill in.
    pub(crate) fn empty() -> RawAddress {
        // SAFETY: all-zero bytes are a valid sockaddr_storage.
        let storage = unsafe { std::mem::zeroed() };
        RawAddress {
            storage,
            length: size_of::<libc::sockaddr_storage>() as libc::socklen_t,
        }
    }

    pub(crate) fn new(address: SocketAddr) -> RawAddress {
        let mut raw = RawAddress::empty();
        raw.length = match address {
            SocketAddr::V4(v4) => {
                let place = (&raw mut raw.storage).cast::<libc::sockaddr_in>();
                // SAFETY: sockaddr_storage is large and aligned enough for any address.
                unsafe {
                    place.write(libc::sockaddr_in {
                        sin_family: libc::AF_INET as libc::sa_family_t,
                        sin_port: v4.port().to_be(),
                        sin_addr: libc::in_addr {
                            s_addr: u32::from_ne_bytes(v4.ip().octets()),
                        },
                        sin_zero: [0; 8],
                    });
                }
                size_of::<libc::sockaddr_in>() as libc::socklen_t
            }
            SocketAddr::V6(v6) => {
                let place = (&raw mut raw.storage).cast::<libc::sockaddr_in6>();
                // SAFETY: as above.
                unsafe {
                    place.write(libc::sockaddr_in6 {
                        sin6_family: libc::AF_INET6 as libc::sa_family_t,
                        sin6_port: v6.port().to_be(),
                        sin6_flowinfo: v6.flowinfo(),
                        sin6_addr: libc::in6_addr {
                            s6_addr: v6.ip().octets(),
                        },
                        sin6_scope_id: v6.scope_id(),
                    });
                }
                size_of::<libc::sockaddr_in6>() as libc::socklen_t
            }
        };
        raw
    }

    pub(crate) fn as_ptr(&mut self) -> *mut libc::sockaddr {
        (&raw mut self.storage).cast()
    }

    pub(crate) fn length(&self) -> libc::socklen_t {
        self.length
    }

    pub(crate) fn length_ptr(&mut self) -> *mut libc::socklen_t {
        &raw mut self.length
    }

    /// The address, if it is one of the internet's.
    pub(crate) fn get(&self) -> Option<SocketAddr> {
        match i32::from(self.storage.ss_family) {
            libc::AF_INET => {
                // SAFETY: the family says which address the storage holds; it was zeroed or
                // written as a whole, so every byte is initialised.
                let v4 = unsafe { &*(&raw const self.storage).cast::<libc::sockaddr_in>() };
                let ip = Ipv4Addr::from(v4.sin_addr.s_addr.to_ne_bytes());
                Some(SocketAddrV4::new(ip, u16::from_be(v4.sin_port)).into())
            }
            libc::AF_INET6 => {
                // SAFETY: as above.
                let v6 = unsafe { &*(&raw const self.storage).cast::<libc::sockaddr_in6>() };
                let ip = Ipv6Addr::from(v6.sin6_addr.s6_addr);
                let port = u16::from_be(v6.sin6_port);
                Some(SocketAddrV6::new(ip, port, v6.sin6_flowinfo, v6.sin6_scope_id).into())
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_survive_the_way_through_the_kernels_form() {
        for text in [
            "127.0.0.1:4420",
            "[::1]:8009",
            "[fe80::1%3]:1",
            "255.1.2.3:65535",
        ] {
            let address: SocketAddr = text.parse().unwrap();
            assert_eq!(RawAddress::new(address).get(), Some(address));
        }
        assert_eq!(RawAddress::empty().get(), None);
    }
}
