//! [`Places`]: how many connections there may be, in all and from one address.
//!
//! All local users share one address, and so may many behind a router: a connection that has not
//! shown a good token yet has one of few places, and makes room for a new one when these are
//! taken, the oldest first. What has shown one keeps its place.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// Connections in all: far more than people and programs of one installation need, and few enough
/// that their buffers do not matter.
const PLACES: usize = 512;

/// Connections of one address, so that one cannot take all places.
const PLACES_OF_ADDRESS: usize = 64;

/// Those among all that have shown no good token.
const UNPROVEN: usize = 256;

/// Those among one address': pages of several people may load at once.
const UNPROVEN_OF_ADDRESS: usize = 32;

/// The connections there are.
#[derive(Clone, Default)]
pub struct Places {
    taken: Arc<Mutex<Taken>>,
}

#[derive(Default)]
struct Taken {
    next: u64,
    /// By age, the oldest first.
    held: BTreeMap<u64, Held>,
}

struct Held {
    address: IpAddr,
    proof: Proof,
    evicted: Arc<Notify>,
}

/// Whether a connection has shown a good token.
#[derive(Clone, Default)]
pub struct Proof(Arc<AtomicBool>);

impl Proof {
    /// The connection has shown a good token.
    pub fn give(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether it has.
    pub fn is_given(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// One connection's place; free again when dropped.
pub struct Place {
    places: Places,
    number: u64,
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

impl Places {
    /// A place for a connection from `address`, if one is free or can be made so.
    pub fn take(&self, address: IpAddr) -> Option<Place> {
        let mut taken = self.taken();
        let own = |held: &Held| held.address == address;
        let unproven = |held: &Held| !held.proof.is_given();
        if taken.count(own) >= PLACES_OF_ADDRESS
            || taken.count(|held| own(held) && unproven(held)) >= UNPROVEN_OF_ADDRESS
        {
            taken.evict(|held| own(held) && unproven(held))?;
        } else if taken.held.len() >= PLACES || taken.count(unproven) >= UNPROVEN {
            taken.evict(unproven)?;
        }
        let number = taken.next;
        taken.next += 1;
        let (proof, evicted) = (Proof::default(), Arc::new(Notify::new()));
        let held = Held {
            address,
            proof: proof.clone(),
            evicted: Arc::clone(&evicted),
        };
        taken.held.insert(number, held);
        Some(Place {
            places: self.clone(),
            number,
            proof,
            evicted,
        })
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Taken {
    fn count(&self, which: impl Fn(&Held) -> bool) -> usize {
        self.held.values().filter(|held| which(held)).count()
    }

    /// Ends the oldest connection of those, if there is one.
    fn evict(&mut self, which: impl Fn(&Held) -> bool) -> Option<()> {
        let oldest = self.held.iter().find(|(_, held)| which(held));
        let number = oldest.map(|(number, _)| *number)?;
        let held = self.held.remove(&number)?;
        held.evicted.notify_one();
        Some(())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.taken().held.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GREEDY: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));

    fn is_evicted(place: &Place) -> bool {
        let number = place.number;
        !place.places.taken().held.contains_key(&number)
    }

    #[test]
    fn whoever_shows_no_token_makes_room_for_the_next() {
        let places = Places::default();
        let mut held: Vec<Place> = (0..UNPROVEN_OF_ADDRESS)
            .map(|_| places.take(GREEDY).unwrap())
            .collect();
        assert!(!held.iter().any(is_evicted));
        let newcomer = places.take(GREEDY).unwrap();
        assert!(is_evicted(&held[0]) && !held.iter().skip(1).any(is_evicted));
        newcomer.proof().give();
        held.extend((0..UNPROVEN_OF_ADDRESS).map(|_| places.take(GREEDY).unwrap()));
        assert!(!is_evicted(&newcomer));
        drop((held, newcomer));
        assert!(places.taken().held.is_empty());
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
        assert_eq!(held.len(), PLACES_OF_ADDRESS);
        assert!(!held.iter().any(is_evicted));
        assert!(places.take([192, 0, 2, 2].into()).is_some());
    }

    #[test]
    fn many_addresses_do_not_take_all_places_either() {
        let places = Places::default();
        let address = |number: u32| IpAddr::from(std::net::Ipv4Addr::from_bits(number));
        let held: Vec<Place> = (0..2 * PLACES as u32)
            .map(|number| places.take(address(number)).unwrap())
            .collect();
        let left = held.iter().filter(|place| !is_evicted(place)).count();
        assert_eq!(left, UNPROVEN);
    }
}
