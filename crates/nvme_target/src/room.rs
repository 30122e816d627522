//! [`Room`]: what the connections of a core may take, all together: places, and memory for data.

use std::cell::{Cell, RefCell};
use std::net::IpAddr;

use access::Places;

use crate::settings::TargetSettings;

/// What the connections of a core have taken.
pub(crate) struct Room {
    places: RefCell<Places>,
    data_bytes_max: usize,
    data_bytes: Cell<usize>,
    /// Connections that found no place.
    pub refused: Cell<u64>,
    /// Connections that made room for others.
    pub displaced: Cell<u64>,
}

impl Room {
    pub fn new(settings: &TargetSettings) -> Room {
        Room {
            places: RefCell::new(Places::new(settings.shares())),
            data_bytes_max: settings.data_bytes_max,
            data_bytes: Cell::new(0),
            refused: Cell::new(0),
            displaced: Cell::new(0),
        }
    }

    /// A place for a new connection, if need be that of one that has proved nothing and is to end.
    pub fn take_place(&self, session: u64, address: IpAddr) -> Option<Option<u64>> {
        let taken = self.places.borrow_mut().take(session, address);
        let counter = match taken {
            None => &self.refused,
            Some(None) => return taken,
            Some(Some(_)) => &self.displaced,
        };
        counter.set(counter.get() + 1);
        taken
    }

    /// A connection keeps its place: a host of a subsystem has it.
    pub fn keep_place(&self, session: u64) {
        self.places.borrow_mut().prove(session);
    }

    /// Somebody who may lose its place has shown a sign of life.
    pub fn heard(&self, session: u64) {
        self.places.borrow_mut().heard(session);
    }

    pub fn free_place(&self, session: u64) {
        self.places.borrow_mut().free(session);
    }

    /// A connection holds this much data now, awaited, in execution or not sent yet, and held
    /// that much before.
    pub fn hold(&self, before: usize, now: usize) {
        self.data_bytes.set(self.data_bytes.get() - before + now);
    }

    /// True while connections hold as much data as they may together: each goes on with little.
    pub fn is_pressed(&self) -> bool {
        self.data_bytes.get() > self.data_bytes_max
    }
}
