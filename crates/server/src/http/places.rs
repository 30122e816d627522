//! [`Places`]: how many connections there may be, in all and from one address.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Connections in all: far more than people and programs of one installation need, and few enough
/// that their buffers do not matter.
const PLACES: usize = 512;

/// Connections of one address, so that one cannot take all places.
const PLACES_OF_ADDRESS: usize = 64;

/// The connections there are, by address.
#[derive(Clone, Default)]
pub struct Places {
    taken: Arc<Mutex<HashMap<IpAddr, usize>>>,
}

/// One connection's place; free again when dropped.
pub struct Place {
    places: Places,
    address: IpAddr,
}

impl Places {
    /// A place for a connection from `address`, if one is free.
    pub fn take(&self, address: IpAddr) -> Option<Place> {
        let mut taken = self.taken();
        let all: usize = taken.values().sum();
        let own = taken.get(&address).copied().unwrap_or(0);
        if all >= PLACES || own >= PLACES_OF_ADDRESS {
            return None;
        }
        taken.insert(address, own + 1);
        let places = self.clone();
        Some(Place { places, address })
    }

    fn taken(&self) -> MutexGuard<'_, HashMap<IpAddr, usize>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.taken();
        match taken.get_mut(&self.address) {
            Some(own) if *own > 1 => *own -= 1,
            _ => drop(taken.remove(&self.address)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_cannot_take_all_and_places_come_back() {
        let places = Places::default();
        let greedy: IpAddr = [192, 0, 2, 1].into();
        let mut held: Vec<Place> = Vec::new();
        held.extend(std::iter::from_fn(|| places.take(greedy)));
        assert_eq!(held.len(), PLACES_OF_ADDRESS);
        assert!(places.take([192, 0, 2, 2].into()).is_some());
        held.pop();
        assert!(places.take(greedy).is_some());
        drop(held);
        assert!(places.taken().is_empty());
    }

    #[test]
    fn there_is_an_end_to_places() {
        let places = Places::default();
        let held: Vec<Place> = (0..=u16::MAX)
            .map_while(|number| places.take(std::net::Ipv4Addr::from_bits(number.into()).into()))
            .collect();
        assert_eq!(held.len(), PLACES);
    }
}
