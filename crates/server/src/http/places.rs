//! [`Places`]: how many connections there may be, in all and from one address.
//!
//! All local users share one address, and so may many behind a router: a connection that has not
//! shown a good token yet has one of few places, and makes room for a new one when these are
//! taken, the oldest first. What has shown one keeps its place.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use access::Shares;
use tokio::sync::Notify;

/// Far more than people and programs of one installation need, and few enough that their buffers
/// do not matter; pages of several people may load at once from one address.
const SHARES: Shares = Shares {
    all: 512,
    of_address: 64,
    unproven: 256,
    unproven_of_address: 32,
};

/// The connections there are.
#[derive(Clone)]
pub struct Places {
    taken: Arc<Mutex<Taken>>,
}

struct Taken {
    next: u64,
    places: access::Places,
    /// Of each connection with a place: told when it has it no more.
    evicted: BTreeMap<u64, Arc<Notify>>,
}

/// Whether a connection has shown a good token.
#[derive(Clone)]
pub struct Proof {
    places: Places,
    number: u64,
    given: Arc<AtomicBool>,
}

impl Proof {
    /// The connection has shown a good token.
    pub fn give(&self) {
        if !self.given.swap(true, Ordering::Relaxed) {
            self.places.taken().places.prove(self.number);
        }
    }

    /// Whether it has.
    pub fn is_given(&self) -> bool {
        self.given.load(Ordering::Relaxed)
    }
}

/// One connection's place; free again when dropped.
pub struct Place {
    proof: Proof,
    evicted: Arc<Notify>,
}

impl Place {
    /// Where it is to be said that the connection has shown a good token.
    pub fn proof(&self) -> Proof {
        self.proof.clone()
    }

    /// Returns when the place is another connection's.
    pub async fn evicted(&self) {
        self.evicted.notified().await;
    }
}

impl Default for Places {
    fn default() -> Places {
        let taken = Taken {
            next: 0,
            places: access::Places::new(SHARES),
            evicted: BTreeMap::new(),
        };
        Places {
            taken: Arc::new(Mutex::new(taken)),
        }
    }
}

impl Places {
    /// A place for a connection from `address`, if one is free or can be made so.
    pub fn take(&self, address: IpAddr) -> Option<Place> {
        let mut taken = self.taken();
        let number = taken.next;
        let displaced = taken.places.take(number, address)?;
        taken.next += 1;
        let gone = displaced.and_then(|number| taken.evicted.remove(&number));
        if let Some(gone) = gone {
            gone.notify_one();
        }
        let evicted = Arc::new(Notify::new());
        taken.evicted.insert(number, Arc::clone(&evicted));
        let proof = Proof {
            places: self.clone(),
            number,
            given: Arc::default(),
        };
        Some(Place { proof, evicted })
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.proof.places.taken();
        taken.places.free(self.proof.number);
        taken.evicted.remove(&self.proof.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GREEDY: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));

    fn is_evicted(place: &Place) -> bool {
        let Proof { places, number, .. } = &place.proof;
        !places.taken().places.has(*number)
    }

    #[test]
    fn whoever_shows_no_token_makes_room_for_the_next() {
        let places = Places::default();
        let mut held: Vec<Place> = (0..SHARES.unproven_of_address)
            .map(|_| places.take(GREEDY).unwrap())
            .collect();
        assert!(!held.iter().any(is_evicted));
        let newcomer = places.take(GREEDY).unwrap();
        assert!(is_evicted(&held[0]) && !held.iter().skip(1).any(is_evicted));
        newcomer.proof().give();
        held.extend((0..SHARES.unproven_of_address).map(|_| places.take(GREEDY).unwrap()));
        assert!(!is_evicted(&newcomer));
        drop((held, newcomer));
        assert!(places.taken().evicted.is_empty());
    }

    #[test]
    fn connections_with_a_token_keep_their_places_and_cannot_take_all() {
        let places = Places::default();
        let held: Vec<Place> = std::iter::from_fn(|| {
            let place = places.take(GREEDY)?;
            place.proof().give();
            Some(place)
        })
        .collect();
        assert_eq!(held.len(), SHARES.of_address);
        assert!(!held.iter().any(is_evicted));
        assert!(places.take([192, 0, 2, 2].into()).is_some());
    }

    #[test]
    fn many_addresses_do_not_take_all_places_either() {
        let places = Places::default();
        let address = |number: u32| IpAddr::from(std::net::Ipv4Addr::from_bits(number));
        let held: Vec<Place> = (0..2 * SHARES.all as u32)
            .map(|number| places.take(address(number)).unwrap())
            .collect();
        let left = held.iter().filter(|place| !is_evicted(place)).count();
        assert_eq!(left, SHARES.unproven);
    }
}
