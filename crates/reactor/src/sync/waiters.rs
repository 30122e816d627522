//! The line of tasks that wait for something, first come first served.

use std::collections::VecDeque;
use std::task::Waker;

/// Names a place in the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Ticket(u64);

/// Tasks in line, each with what it asks for.
pub(super) struct Waiters<T> {
    line: VecDeque<(Ticket, Waker, T)>,
    next: u64,
}

impl<T> Default for Waiters<T> {
    fn default() -> Waiters<T> {
        Waiters {
            line: VecDeque::new(),
            next: 0,
        }
    }
}

impl<T> Waiters<T> {
    /// Joins the end of the line.
    pub(super) fn join(&mut self, waker: &Waker, wants: T) -> Ticket {
        let ticket = Ticket(self.next);
        self.next += 1;
        self.line.push_back((ticket, waker.clone(), wants));
        ticket
    }

    fn position(&self, ticket: Ticket) -> Option<usize> {
        self.line
            .binary_search_by_key(&ticket, |waiting| waiting.0)
            .ok()
    }

    /// Replaces the waker of a task in line; false if it has been served.
    pub(super) fn still_waiting(&mut self, ticket: Ticket, waker: &Waker) -> bool {
        match self.position(ticket) {
            Some(position) => {
                self.line[position].1.clone_from(waker);
                true
            }
            None => false,
        }
    }

    /// Leaves the line; false if the task had been served.
    pub(super) fn leave(&mut self, ticket: Ticket) -> bool {
        let position = self.position(ticket);
        position
            .and_then(|position| self.line.remove(position))
            .is_some()
    }

    /// What the first in line asks for.
    pub(super) fn first(&self) -> Option<&T> {
        self.line.front().map(|waiting| &waiting.2)
    }

    /// Serves the first in line.
    pub(super) fn pop(&mut self) -> Option<Waker> {
        self.line.pop_front().map(|waiting| waiting.1)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.line.is_empty()
    }
}
