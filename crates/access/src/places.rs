//! [`Places`]: how many connections there may be, in all and from one address.
//!
//! Many may share an address: all users of a machine, or whoever is behind a router. So what has
//! proved nothing yet has one of few places, and makes room for a new one when these are taken,
//! the one that has been idle for longest first. What has proved something keeps its place.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
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
    /// How many connections there are of each address.
    addresses: BTreeMap<IpAddr, usize>,
    /// Those that have proved nothing, the one that was idle for longest first.
    unproven: BTreeMap<u64, u64>,
    /// The same of each address.
    unproven_of: BTreeMap<IpAddr, BTreeMap<u64, u64>>,
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
            addresses: BTreeMap::new(),
            unproven: BTreeMap::new(),
            unproven_of: BTreeMap::new(),
        }
    }

    /// Gives connection `number` from `address` a place; `None` when there is none for it. Another
    /// connection may have to end for it, which has no place any more.
    pub fn take(&mut self, number: u64, address: IpAddr) -> Option<Option<u64>> {
        let address = origin(address);
        let unproven_of = self.unproven_of.get(&address);
        let mut displaced = None;
        if self.addresses.get(&address).copied().unwrap_or(0) >= self.shares.of_address
            || unproven_of.map_or(0, BTreeMap::len) >= self.shares.unproven_of_address
        {
            displaced = Some(*unproven_of?.first_key_value()?.1);
        } else if self.held.len() >= self.shares.all || self.unproven.len() >= self.shares.unproven
        {
            displaced = Some(*self.unproven.first_key_value()?.1);
        }
        if let Some(displaced) = displaced {
            self.free(displaced);
        }
        self.signs += 1;
        let held = Held {
            address,
            proven: false,
            heard: self.signs,
        };
        self.enter(number, &held);
        *self.addresses.entry(address).or_default() += 1;
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
        if let Some(mut held) = self.held.remove(&number) {
            if !held.proven {
                self.strike(&held);
                held.heard = self.signs;
                self.enter(number, &held);
            }
            self.held.insert(number, held);
        }
    }

    /// Connection `number` has proved that it may be here: it keeps its place.
    pub fn prove(&mut self, number: u64) {
        if let Some(mut held) = self.held.remove(&number) {
            if !held.proven {
                self.strike(&held);
                held.proven = true;
            }
            self.held.insert(number, held);
        }
    }

    /// Connection `number` is gone.
    pub fn free(&mut self, number: u64) {
        let Some(held) = self.held.remove(&number) else {
            return;
        };
        if !held.proven {
            self.strike(&held);
        }
        if let Entry::Occupied(mut count) = self.addresses.entry(held.address) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }

    /// Enters a connection that has proved nothing among those.
    fn enter(&mut self, number: u64, held: &Held) {
        self.unproven.insert(held.heard, number);
        let own = self.unproven_of.entry(held.address).or_default();
        own.insert(held.heard, number);
    }

    /// Strikes it out there.
    fn strike(&mut self, held: &Held) {
        self.unproven.remove(&held.heard);
        if let Entry::Occupied(mut own) = self.unproven_of.entry(held.address) {
            own.get_mut().remove(&held.heard);
            if own.get().is_empty() {
                own.remove();
            }
        }
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
        assert_eq!(places.held.len(), 16);
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
