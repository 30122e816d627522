//! [`Window`]: how much of one place a core has under way, and who is next.

use crate::share::Share;

/// For how long after a promised command others leave room for the next.
const GUARD_NS: u64 = 100_000_000;

/// How much of one place a core may have under way, in costs of commands, before those that are not
/// promised wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// What keeps the place busy.
    pub wide: u32,
    /// What leaves it quick, for volumes that keep within their minimums.
    pub tight: u32,
}

/// How much of one place a core has under way, and who is next when that is all it may have.
///
/// While there is room whoever comes starts at once, and costs only counting. Beyond that, those in
/// line start by start tags: each gets what its weight is of the weights of those that wait. `T` is
/// what the caller wakes one of them by. The first of a line of commands is enough to be here.
#[derive(Debug)]
pub struct Window<T> {
    room: Room,
    /// Until then the room is tight, unless who has a minimum wants more than that himself.
    guarded_until_ns: u64,
    under_way: u32,
    /// Virtual time: the start tag of what started last.
    clock: u64,
    line: Vec<Waiting<T>>,
    tickets: u64,
}

#[derive(Debug)]
struct Waiting<T> {
    ticket: Ticket,
    /// It has a minimum, and wants more.
    beyond_minimum: bool,
    by: T,
}

/// A place in line: who has the lowest is next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket {
    tag: u64,
    number: u64,
}

impl<T> Window<T> {
    /// An empty one, with room for commands of this cost together.
    pub fn new(room: Room) -> Window<T> {
        Window {
            room,
            guarded_until_ns: 0,
            under_way: 0,
            clock: 0,
            line: Vec::new(),
            tickets: 0,
        }
    }

    /// Has this much room from now on.
    pub fn set_room(&mut self, room: Room) {
        self.room = room;
    }

    fn is_full(&self, now_ns: u64) -> bool {
        let beyond = self.line.iter().any(|waiting| waiting.beyond_minimum);
        let room = match now_ns < self.guarded_until_ns && !beyond {
            true => self.room.tight,
            false => self.room.wide,
        };
        self.under_way >= room.max(1)
    }

    /// Counts in a command that waits for nobody.
    pub fn start_promised(&mut self, cost: u32, now_ns: u64) {
        self.under_way += cost;
        self.guarded_until_ns = now_ns.saturating_add(GUARD_NS);
    }

    /// A place in line for a command of this cost.
    pub fn join(&mut self, share: &Share, cost: u32, by: T) -> Ticket {
        self.tickets += 1;
        let ticket = Ticket {
            tag: share.tag(cost, self.clock),
            number: self.tickets,
        };
        self.line.push(Waiting {
            ticket,
            beyond_minimum: share.has_minimum(),
            by,
        });
        ticket
    }

    /// Counts the command in if it is next and there is room for anything: it then leaves the line.
    pub fn start(&mut self, ticket: Ticket, cost: u32, now_ns: u64) -> bool {
        let is_next = self.line.iter().all(|other| ticket <= other.ticket);
        if !is_next || self.is_full(now_ns) {
            return false;
        }
        self.leave(ticket);
        self.under_way += cost;
        self.clock = self.clock.max(ticket.tag);
        true
    }

    /// Takes a command out of the line.
    pub fn leave(&mut self, ticket: Ticket) {
        self.line.retain(|other| other.ticket != ticket);
    }

    /// Counts a command out that has ended.
    pub fn end(&mut self, cost: u32) {
        self.under_way -= cost;
    }

    /// Whom to wake: who is next, if there is room.
    pub fn next(&self, now_ns: u64) -> Option<&T> {
        if self.is_full(now_ns) {
            return None;
        }
        let next = self.line.iter().min_by_key(|waiting| waiting.ticket);
        next.map(|waiting| &waiting.by)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    /// As much at any time.
    fn wide(room: u32) -> Room {
        Room {
            wide: room,
            tight: room,
        }
    }

    /// Volumes that always want more, each with one command in line, on a place that ends commands
    /// in the order in which they started: how much of it each got.
    fn shared(shares: &[(Share, u32)], room: u32, steps: usize) -> Vec<u64> {
        let mut window = Window::new(wide(room));
        let mut line: Vec<Ticket> = shares
            .iter()
            .enumerate()
            .map(|(index, (share, cost))| window.join(share, *cost, index))
            .collect();
        let mut got = vec![0; shares.len()];
        let mut place = VecDeque::new();
        for _ in 0..steps {
            while let Some(&next) = window.next(0) {
                let (share, cost) = &shares[next];
                assert!(window.start(line[next], *cost, 0));
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
        let mut window = Window::new(wide(4));
        for _ in 0..2 {
            let ticket = window.join(&busy, 1, ());
            assert!(window.start(ticket, 1, 0));
            let ticket = window.join(&idle, 1, ());
            assert!(window.start(ticket, 1, 0));
        }
        let ticket = window.join(&idle, 1, ());
        assert!(!window.start(ticket, 1, 0));
        window.start_promised(1, 0);
        window.end(1);
        assert!(
            window.next(0).is_none(),
            "a promised command takes room too"
        );
        window.end(1);
        assert!(window.next(0).is_some() && window.start(ticket, 1, 0));
    }

    #[test]
    fn who_has_left_the_line_holds_up_nobody() {
        let share = Share::new(None);
        let mut window = Window::new(wide(1));
        let (first, second) = (window.join(&share, 1, 1), window.join(&share, 1, 2));
        assert!(!window.start(second, 1, 0));
        window.leave(first);
        assert_eq!(window.next(0), Some(&2));
        assert!(window.start(second, 1, 0));
    }

    /// Beside a volume that keeps within its minimum others leave room for it; one that wants more
    /// than that gets all the room there is, like everybody.
    #[test]
    fn room_is_tight_beside_who_keeps_within_a_minimum() {
        let (quiet, noisy) = (Share::new(Some(1000)), Share::new(None));
        let mut window = Window::new(Room { wide: 8, tight: 2 });
        let fill = |window: &mut Window<()>, now_ns: u64| {
            (0..10)
                .take_while(|_| {
                    let ticket = window.join(&noisy, 1, ());
                    let started = window.start(ticket, 1, now_ns);
                    window.leave(ticket);
                    started
                })
                .count()
        };
        window.start_promised(1, 0);
        window.end(1);
        assert_eq!(fill(&mut window, 1), 2);
        let greedy = window.join(&quiet, 1, ());
        assert_eq!(fill(&mut window, 1), 0, "who came first is next");
        assert!(window.start(greedy, 1, 1), "and has the room");
        assert_eq!(fill(&mut window, GUARD_NS), 5, "long since the last one");
    }

    /// What came late is not paid back for the time before, and takes nobody's.
    #[test]
    fn nothing_is_saved_up_while_away() {
        let (early, late) = (Share::new(Some(500)), Share::new(Some(500)));
        let mut window = Window::new(wide(1));
        for _ in 0..1000 {
            let ticket = window.join(&early, 1, 0);
            assert!(window.start(ticket, 1, 0));
            window.end(1);
        }
        let mut line = [window.join(&early, 1, 0), window.join(&late, 1, 1)];
        let mut got = [0, 0];
        for _ in 0..100 {
            let next = *window.next(0).unwrap();
            assert!(window.start(line[next], 1, 0));
            got[next] += 1;
            line[next] = window.join([&early, &late][next], 1, next);
            window.end(1);
        }
        assert!(got[0] >= 49 && got[1] >= 49, "{got:?}");
    }

    /// Lines of one share, as a tenant's volumes have, get together what one line of it would.
    #[test]
    fn several_lines_of_one_share_get_its_part_together() {
        let (tenant, other) = (Share::new(Some(600)), Share::new(Some(300)));
        let shares = [&tenant, &tenant, &tenant, &other];
        let mut window = Window::new(wide(2));
        let mut line: Vec<Ticket> = (0..4).map(|at| window.join(shares[at], 1, at)).collect();
        let mut got = [0; 4];
        for _ in 0..9000 {
            let next = *window.next(0).unwrap();
            assert!(window.start(line[next], 1, 0));
            got[next] += 1;
            line[next] = window.join(shares[next], 1, next);
            window.end(1);
        }
        assert!((2990..=3010).contains(&got[3]), "{got:?}");
        assert!(
            got[..3].iter().all(|part| (1990..=2010).contains(part)),
            "{got:?}"
        );
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
