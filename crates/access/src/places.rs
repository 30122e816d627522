//! [`Places`]: how many connections there may be, in all and from one address.
//!
//! Many may share an address: all users of a machine, or whoever is behind a router. So what has
//! proved nothing yet has one of few places, and makes room for a new one when these are taken,
//! the one that has been idle for longest first. What has proved something keeps its place.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};

/// How many places there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shares {
    /// In all.
    pub all: usize,
    /// Of one address, so that it cannot take all.
    pub of_address: usize,
    /// Of all that have proved nothing.
    pub unproven: usize,
    /// Of those of one address.
    pub unproven_of_address: usize,
}

/// Who has a place. Callers name connections by numbers of theirs.
#[derive(Debug)]
pub struct Places {
    shares: Shares,
    /// Signs of life so far, which put connections in order.
    signs: u64,
    held: BTreeMap<u64, Held>,
}

#[derive(Debug)]
struct Held {
    address: IpAddr,
    proven: bool,
    heard: u64,
}

impl Places {
    /// Nobody has a place.
    pub fn new(shares: Shares) -> Places {
        Places {
            shares,
            signs: 0,
            held: BTreeMap::new(),
        }
    }

    /// Gives connection `number` from `address` a place; `None` when there is none for it. Another
    /// connection may have to end for it, which has no place any more.
    pub fn take(&mut self, number: u64, address: IpAddr) -> Option<Option<u64>> {
        let address = origin(address);
        let own = |held: &Held| held.address == address;
        let unproven = |held: &Held| !held.proven;
        let mut displaced = None;
        if self.count(own) >= self.shares.of_address
            || self.count(|held| own(held) && unproven(held)) >= self.shares.unproven_of_address
        {
            displaced = Some(self.displace(|held| own(held) && unproven(held))?);
        } else if self.held.len() >= self.shares.all || self.count(unproven) >= self.shares.unproven
        {
            displaced = Some(self.displace(unproven)?);
        }
        self.signs += 1;
        let held = Held {
            address,
            proven: false,
            heard: self.signs,
        };
        self.held.insert(number, held);
        Some(displaced)
    }

    /// Whether connection `number` has a place.
    pub fn has(&self, number: u64) -> bool {
        self.held.contains_key(&number)
    }

    /// Connection `number` has shown a sign of life.
    pub fn heard(&mut self, number: u64) {
        self.signs += 1;
        if let Some(held) = self.held.get_mut(&number) {
            held.heard = self.signs;
        }
    }

    /// Connection `number` has proved that it may be here: it keeps its place.
    pub fn prove(&mut self, number: u64) {
        if let Some(held) = self.held.get_mut(&number) {
            held.proven = true;
        }
    }

    /// Connection `number` is gone.
    pub fn free(&mut self, number: u64) {
        self.held.remove(&number);
    }

    fn count(&self, which: impl Fn(&Held) -> bool) -> usize {
        self.held.values().filter(|held| which(held)).count()
    }

    /// Takes the place of the connection that has been idle for longest of those.
    fn displace(&mut self, which: impl Fn(&Held) -> bool) -> Option<u64> {
        let those = self.held.iter().filter(|(_, held)| which(held));
        let (number, _) = those.min_by_key(|(_, held)| held.heard)?;
        let number = *number;
        self.held.remove(&number);
        Some(number)
    }
}

/// What counts as one address: with IPv6 the network, for each host has all addresses of one.
pub fn origin(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() >> 64 << 64)),
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHARES: Shares = Shares {
        all: 64,
        of_address: 48,
        unproven: 16,
        unproven_of_address: 4,
    };
    const GREEDY: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));

    fn address(number: u32) -> IpAddr {
        IpAddr::from(std::net::Ipv4Addr::from_bits(number))
    }

    #[test]
    fn whoever_proves_nothing_makes_room_the_idlest_first() {
        let mut places = Places::new(SHARES);
        for number in 0..4 {
            assert_eq!(places.take(number, GREEDY), Some(None));
        }
        places.heard(0);
        places.prove(2);
        assert_eq!(places.take(4, GREEDY), Some(None));
        assert_eq!(places.take(5, GREEDY), Some(Some(1)));
        assert_eq!(places.take(6, GREEDY), Some(Some(3)));
        assert_eq!(places.take(7, GREEDY), Some(Some(0)));
        assert!(places.has(2) && !places.has(1));
    }

    #[test]
    fn what_is_proven_keeps_its_place_and_one_address_cannot_take_all() {
        let mut places = Places::new(SHARES);
        let mut number = 0;
        while places.take(number, GREEDY).is_some() {
            places.prove(number);
            number += 1;
        }
        assert_eq!(number, 48);
        assert_eq!(places.take(100, address(7)), Some(None));
        places.free(0);
        assert_eq!(places.take(101, GREEDY), Some(None));
    }

    #[test]
    fn many_addresses_without_a_proof_leave_places_for_hosts() {
        let mut places = Places::new(SHARES);
        for number in 0..200 {
            assert!(places.take(number, address(number as u32)).is_some());
        }
        assert_eq!(places.count(|_| true), 16);
        for number in 200..248 {
            assert!(places.take(number, GREEDY).is_some());
            places.prove(number);
        }
        assert!((200..248).all(|number| places.has(number)));
    }

    #[test]
    fn a_network_of_ipv6_is_one_address() {
        let [first, second, other] = ["2001:db8::1", "2001:db8::ffff:2", "2001:db8:0:1::1"];
        let of = |text: &str| origin(text.parse().unwrap());
        assert_eq!(of(first), of(second));
        assert_ne!(of(first), of(other));
        assert_eq!(of("::ffff:192.0.2.1"), GREEDY);
    }
}
