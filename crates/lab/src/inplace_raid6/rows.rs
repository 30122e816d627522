//! [`RowLocks`]: keeps apart those who change the same rows of a stripe.

use std::cell::{Cell, RefCell};
use std::ops::Range;

use reactor::sync::Notify;

struct Claim {
    ticket: u64,
    stripe: u64,
    rows: Range<u64>,
}

/// Claims in the order in which they came: each waits for every earlier one that overlaps it.
#[derive(Default)]
pub(super) struct RowLocks {
    claims: RefCell<Vec<Claim>>,
    next: Cell<u64>,
    released: Notify,
}

/// A claim, until it is dropped.
pub(super) struct RowGuard<'a> {
    locks: &'a RowLocks,
    ticket: u64,
}

impl RowLocks {
    /// Waits until nobody else has any of `rows` of `stripe`.
    pub async fn hold(&self, stripe: u64, rows: Range<u64>) -> RowGuard<'_> {
        let ticket = self.next.get();
        self.next.set(ticket + 1);
        self.claims.borrow_mut().push(Claim {
            ticket,
            stripe,
            rows: rows.clone(),
        });
        let guard = RowGuard {
            locks: self,
            ticket,
        };
        while self.is_behind_another(ticket, stripe, &rows) {
            self.released.notified().await;
        }
        guard
    }

    fn is_behind_another(&self, ticket: u64, stripe: u64, rows: &Range<u64>) -> bool {
        let claims = self.claims.borrow();
        claims
            .iter()
            .take_while(|claim| claim.ticket < ticket)
            .any(|claim| {
                claim.stripe == stripe && claim.rows.start < rows.end && rows.start < claim.rows.end
            })
    }
}

impl Drop for RowGuard<'_> {
    fn drop(&mut self) {
        self.locks
            .claims
            .borrow_mut()
            .retain(|claim| claim.ticket != self.ticket);
        self.locks.released.notify_all();
    }
}
