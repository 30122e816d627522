//! [`Portions`]: room for data on one connection, as the namespaces behind it share it.
//!
//! As long as there is room, who comes first has it. Once it is used up, a namespace still gets
//! what would be its part if all had the same. So commands of one that is limited, or whose device
//! is slow, hold up none but those of the same namespace.

use std::collections::{BTreeMap, VecDeque};

/// How often all of the room may be given out, parts included. It takes some thirty namespaces that
/// have all they may.
const TIMES_MAX: usize = 4;

/// How much room there is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    pub bytes: usize,
    /// What other things take of it.
    pub used: usize,
    /// Nobody gets anything beyond it.
    pub is_scarce: bool,
}

/// What namespaces have of the room, and what waits for more of it.
#[derive(Debug)]
pub(crate) struct Portions<T> {
    /// Those that have any: few, and mostly one.
    held: Vec<(u32, usize)>,
    all: usize,
    /// In order of arrival, for each namespace.
    waiting: BTreeMap<u32, VecDeque<(usize, T)>>,
    /// The namespace that had something given to it last.
    last: u32,
}

impl<T> Default for Portions<T> {
    fn default() -> Portions<T> {
        Portions {
            held: Vec::new(),
            all: 0,
            waiting: BTreeMap::new(),
            last: 0,
        }
    }
}

impl<T> Portions<T> {
    /// What all namespaces have together.
    pub fn bytes(&self) -> usize {
        self.all
    }

    /// True when something waits.
    pub fn is_waited_for(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Takes room for a command. Gives it back where it has to wait for [`Portions::next`].
    pub fn take(&mut self, nsid: u32, bytes: usize, room: Room, command: T) -> Option<T> {
        if !self.waiting.contains_key(&nsid) && self.fits(nsid, bytes, room) {
            self.hold(nsid, bytes);
            return Some(command);
        }
        let line = self.waiting.entry(nsid).or_default();
        line.push_back((bytes, command));
        None
    }

    /// The next command that waited and has room now; namespaces take turns.
    pub fn next(&mut self, room: Room) -> Option<T> {
        let after = self.waiting.range(self.last.saturating_add(1)..);
        let fits = |(nsid, line): (&u32, &VecDeque<(usize, T)>)| {
            let (bytes, _) = line.front()?;
            self.fits(*nsid, *bytes, room).then_some(*nsid)
        };
        let mut in_turn = after.chain(self.waiting.range(..=self.last));
        let nsid = in_turn.find_map(fits)?;
        let line = self.waiting.get_mut(&nsid)?;
        let (bytes, command) = line.pop_front()?;
        if line.is_empty() {
            self.waiting.remove(&nsid);
        }
        self.last = nsid;
        self.hold(nsid, bytes);
        Some(command)
    }

    /// Takes the first command that waits and `is_wanted` out of its line.
    pub fn take_out(&mut self, is_wanted: impl Fn(&T) -> bool) -> Option<T> {
        let found = self.waiting.iter().find_map(|(nsid, line)| {
            let index = line.iter().position(|(_, command)| is_wanted(command))?;
            Some((*nsid, index))
        });
        let (nsid, index) = found?;
        let line = self.waiting.get_mut(&nsid)?;
        let (_, command) = line.remove(index)?;
        if line.is_empty() {
            self.waiting.remove(&nsid);
        }
        Some(command)
    }

    /// A command of a namespace has ended.
    pub fn give_back(&mut self, nsid: u32, bytes: usize) {
        let Some(index) = self.held.iter().position(|(other, _)| *other == nsid) else {
            return;
        };
        if let Some((_, held)) = self.held.get_mut(index) {
            *held -= bytes;
            if *held == 0 {
                self.held.swap_remove(index);
            }
        }
        self.all -= bytes;
    }

    fn hold(&mut self, nsid: u32, bytes: usize) {
        if bytes == 0 {
            return;
        }
        self.all += bytes;
        match self.held.iter_mut().find(|(other, _)| *other == nsid) {
            Some((_, held)) => *held += bytes,
            None => self.held.push((nsid, bytes)),
        }
    }

    fn fits(&self, nsid: u32, bytes: usize, room: Room) -> bool {
        let used = self.all + room.used;
        if bytes == 0 || self.all == 0 || used + bytes <= room.bytes {
            return true;
        }
        if room.is_scarce || used >= TIMES_MAX * room.bytes {
            return false;
        }
        let mut own = 0;
        let mut others = 0;
        for (other, held) in &self.held {
            match *other == nsid {
                true => own = *held,
                false => others += 1,
            }
        }
        others > 0 && (own == 0 || own + bytes <= room.bytes / (others + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOM: Room = Room {
        bytes: 1000,
        used: 0,
        is_scarce: false,
    };

    #[test]
    fn one_namespace_has_all_the_room_and_a_second_its_half_even_so() {
        let mut portions = Portions::default();
        for number in 0..11 {
            let taken = portions.take(1, 100, ROOM, number);
            assert_eq!(taken, (number < 10).then_some(number));
        }
        for number in 20..26 {
            let taken = portions.take(2, 100, ROOM, number);
            assert_eq!(taken, (number < 25).then_some(number), "half of it");
        }
        assert_eq!(portions.bytes(), 1500);
        // Who ends makes room for its own, not for who has more than its part.
        portions.give_back(1, 100);
        assert_eq!(portions.next(ROOM), None);
        portions.give_back(2, 100);
        assert_eq!(portions.next(ROOM), Some(25));
        for _ in 0..5 {
            portions.give_back(1, 100);
        }
        assert_eq!(portions.next(ROOM), Some(10));
        assert!(!portions.is_waited_for());
    }

    #[test]
    fn what_is_given_out_beyond_the_room_has_an_end() {
        let mut portions = Portions::default();
        let taken = (0..10_000).filter(|n| portions.take(*n, 100, ROOM, ()).is_some());
        assert_eq!(taken.count(), 40);
        for nsid in 0..40 {
            portions.give_back(nsid, 100);
        }
        assert_eq!((portions.bytes(), portions.held.len()), (0, 0));
        let mut waited = 0;
        while portions.next(ROOM).is_some() {
            waited += 1;
        }
        assert_eq!(waited, 40);
    }

    #[test]
    fn who_is_taken_out_of_the_line_is_not_waited_for() {
        let mut portions = Portions::default();
        assert_eq!(portions.take(1, 1000, ROOM, 0), Some(0));
        for number in 1..4 {
            assert_eq!(portions.take(1, 1000, ROOM, number), None);
        }
        assert_eq!(portions.take_out(|number| *number == 2), Some(2));
        assert_eq!(portions.take_out(|number| *number == 2), None);
        assert_eq!(
            portions.take_out(|number| *number == 0),
            None,
            "it has begun"
        );
        for number in [1, 3] {
            portions.give_back(1, 1000);
            assert_eq!(portions.next(ROOM), Some(number));
        }
        assert!(!portions.is_waited_for());
        portions.take(1, 1000, ROOM, 4);
        assert_eq!(portions.take_out(|number| *number == 4), Some(4));
        assert!(!portions.is_waited_for());
    }

    #[test]
    fn scarce_room_is_given_to_one_after_the_other() {
        let scarce = Room {
            is_scarce: true,
            ..ROOM
        };
        let mut portions = Portions::default();
        assert_eq!(
            portions.take(1, 5000, scarce, 1),
            Some(1),
            "any size makes progress"
        );
        assert_eq!(portions.take(2, 1, scarce, 2), None);
        assert_eq!(
            portions.take(3, 0, scarce, 3),
            Some(3),
            "what needs none goes on"
        );
        portions.give_back(1, 5000);
        assert_eq!(portions.next(scarce), Some(2));
    }
}
