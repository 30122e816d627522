//! [`Window`]: how much of one place a core has under way, and who is next.

use crate::share::Share;

/// How much of one place a core has under way, and who is next when that is all it may have.
///
/// Up to `room` whoever comes starts at once, and costs only counting. Beyond that, those in line
/// start by start tags: each gets what its weight is of the weights of those that wait. `T` is what
/// the caller wakes one of them by. The first of a line of commands is enough to be here.
#[derive(Debug)]
pub struct Window<T> {
    room: u32,
    under_way: u32,
    /// Virtual time: the start tag of what started last.
    clock: u64,
    line: Vec<(Ticket, T)>,
    tickets: u64,
}

/// A place in line: who has the lowest is next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket {
    tag: u64,
    number: u64,
}

impl<T> Window<T> {
    /// An empty one, with room for commands of this cost together.
    pub fn new(room: u32) -> Window<T> {
        Window {
            room: room.max(1),
            under_way: 0,
            clock: 0,
            line: Vec::new(),
            tickets: 0,
        }
    }

    /// Has this much room from now on.
    pub fn set_room(&mut self, room: u32) {
        self.room = room.max(1);
    }

    /// Counts in a command that waits for nobody.
    pub fn start_promised(&mut self, cost: u32) {
        self.under_way += cost;
    }

    /// A place in line for a command of this cost.
    pub fn join(&mut self, share: &Share, cost: u32, by: T) -> Ticket {
        self.tickets += 1;
        let ticket = Ticket {
            tag: share.tag(cost, self.clock),
            number: self.tickets,
        };
        self.line.push((ticket, by));
        ticket
    }

    /// Counts the command in if it is next and there is room for anything: it then leaves the line.
    pub fn start(&mut self, ticket: Ticket, cost: u32) -> bool {
        let is_next = self.line.iter().all(|(other, _)| ticket <= *other);
        if !is_next || self.under_way >= self.room {
            return false;
        }
        self.leave(ticket);
        self.under_way += cost;
        self.clock = self.clock.max(ticket.tag);
        true
    }

    /// Takes a command out of the line.
    pub fn leave(&mut self, ticket: Ticket) {
        self.line.retain(|(other, _)| *other != ticket);
    }

    /// Counts a command out that has ended.
    pub fn end(&mut self, cost: u32) {
        self.under_way -= cost;
    }

    /// Whom to wake: who is next, if there is room.
    pub fn next(&self) -> Option<&T> {
        if self.under_way >= self.room {
            return None;
        }
        let next = self.line.iter().min_by_key(|(ticket, _)| *ticket);
        next.map(|(_, by)| by)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    /// Volumes that always want more, each with one command in line, on a place that ends commands
    /// in the order in which they started: how much of it each got.
    fn shared(shares: &[(Share, u32)], room: u32, steps: usize) -> Vec<u64> {
        let mut window = Window::new(room);
        let mut line: Vec<Ticket> = shares
            .iter()
            .enumerate()
            .map(|(index, (share, cost))| window.join(share, *cost, index))
            .collect();
        let mut got = vec![0; shares.len()];
        let mut place = VecDeque::new();
        for _ in 0..steps {
            while let Some(&next) = window.next() {
                let (share, cost) = &shares[next];
                assert!(window.start(line[next], *cost));
                got[next] += u64::from(*cost);
                place.push_back(*cost);
                line[next] = window.join(share, *cost, next);
            }
            if let Some(cost) = place.pop_front() {
                window.end(cost);
            }
        }
        got
    }

    #[test]
    fn who_comes_while_there_is_room_starts_at_once() {
        let (idle, busy) = (Share::new(None), Share::new(Some(100_000)));
        let mut window = Window::new(4);
        for _ in 0..2 {
            let ticket = window.join(&busy, 1, ());
            assert!(window.start(ticket, 1));
            let ticket = window.join(&idle, 1, ());
            assert!(window.start(ticket, 1));
        }
        let ticket = window.join(&idle, 1, ());
        assert!(!window.start(ticket, 1));
        window.start_promised(1);
        window.end(1);
        assert!(window.next().is_none(), "a promised command takes room too");
        window.end(1);
        assert!(window.next().is_some() && window.start(ticket, 1));
    }

    #[test]
    fn who_has_left_the_line_holds_up_nobody() {
        let share = Share::new(None);
        let mut window = Window::new(1);
        let (first, second) = (window.join(&share, 1, 1), window.join(&share, 1, 2));
        assert!(!window.start(second, 1));
        window.leave(first);
        assert_eq!(window.next(), Some(&2));
        assert!(window.start(second, 1));
    }

    /// What came late is not paid back for the time before, and takes nobody's.
    #[test]
    fn nothing_is_saved_up_while_away() {
        let (early, late) = (Share::new(Some(500)), Share::new(Some(500)));
        let mut window = Window::new(1);
        for _ in 0..1000 {
            let ticket = window.join(&early, 1, 0);
            assert!(window.start(ticket, 1));
            window.end(1);
        }
        let mut line = [window.join(&early, 1, 0), window.join(&late, 1, 1)];
        let mut got = [0, 0];
        for _ in 0..100 {
            let next = *window.next().unwrap();
            assert!(window.start(line[next], 1));
            got[next] += 1;
            line[next] = window.join([&early, &late][next], 1, next);
            window.end(1);
        }
        assert!(got[0] >= 49 && got[1] >= 49, "{got:?}");
    }

    proptest! {
        /// Each gets what its weight is of all weights, whatever its commands' sizes and the room;
        /// what is missing to that is a few commands.
        #[test]
        fn shares_follow_weights(
            parts in prop::collection::vec((100u64..100_000, 1u32..32), 2..6),
            room in 1u32..128,
        ) {
            let all: u64 = parts.iter().map(|(minimum, _)| minimum).sum();
            let shares: Vec<(Share, u32)> = parts
                .iter()
                .map(|(minimum, cost)| (Share::new(Some(*minimum)), *cost))
                .collect();
            let got = shared(&shares, room, 20_000);
            let total: u64 = got.iter().sum();
            for ((minimum, cost), got) in parts.iter().zip(&got) {
                let fair = total as f64 * *minimum as f64 / all as f64;
                let slack = f64::from(*cost) * 2.0 + 32.0 + fair / 100.0;
                prop_assert!((*got as f64 - fair).abs() <= slack, "{got}, fair: {fair}");
            }
        }
    }
}
