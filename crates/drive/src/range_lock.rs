//! [`RangeLock`]: keeps operations on the same blocks apart, in the order in which they came.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use block::BlockRange;

/// How an operation uses its range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Together with other shared ones.
    Shared,
    /// Alone.
    Exclusive,
}

struct Claim {
    ticket: u64,
    range: BlockRange,
    access: Access,
    /// Present while the claim waits; absent once it is granted.
    waiting: Option<Waker>,
}

impl Claim {
    fn conflicts(&self, other: &Claim) -> bool {
        let both_shared = self.access == Access::Shared && other.access == Access::Shared;
        self.range.overlaps(other.range) && !both_shared
    }
}

/// Claims on ranges of blocks. A claim waits for every earlier one that it conflicts with,
/// granted or not, so nobody is overtaken and nobody starves. The list is as long as operations
/// are in flight, and searched linearly.
#[derive(Default)]
pub(crate) struct RangeLock {
    claims: RefCell<VecDeque<Claim>>,
    next: Cell<u64>,
}

impl RangeLock {
    /// Waits until `range` may be used as `access` says; until the result is dropped.
    pub(crate) fn lock(&self, range: BlockRange, access: Access) -> Locking<'_> {
        Locking {
            lock: self,
            range,
            access,
            ticket: None,
        }
    }

    /// Joins the line; true if the claim is granted at once.
    fn join(&self, ticket: u64, range: BlockRange, access: Access, waker: &Waker) -> bool {
        let mut claims = self.claims.borrow_mut();
        let mut claim = Claim {
            ticket,
            range,
            access,
            waiting: None,
        };
        let granted = !claims.iter().any(|earlier| earlier.conflicts(&claim));
        if !granted {
            claim.waiting = Some(waker.clone());
        }
        claims.push_back(claim);
        granted
    }

    fn position(claims: &VecDeque<Claim>, ticket: u64) -> Option<usize> {
        claims
            .binary_search_by_key(&ticket, |claim| claim.ticket)
            .ok()
    }

    /// True once the claim is granted; else remembers the waker.
    fn is_granted(&self, ticket: u64, waker: &Waker) -> bool {
        let mut claims = self.claims.borrow_mut();
        let claim = Self::position(&claims, ticket).and_then(|at| claims.get_mut(at));
        match claim {
            Some(Claim {
                waiting: Some(current),
                ..
            }) => {
                current.clone_from(waker);
                false
            }
            _ => true,
        }
    }

    /// Ends a claim and grants those that waited for it alone.
    fn leave(&self, ticket: u64) {
        let mut claims = self.claims.borrow_mut();
        let Some(position) = Self::position(&claims, ticket) else {
            return;
        };
        claims.remove(position);
        let mut next = position;
        loop {
            let waiting = (next..claims.len()).find(|at| claims[*at].waiting.is_some());
            let Some(at) = waiting else {
                return;
            };
            let blocked = claims
                .range(..at)
                .any(|earlier| earlier.conflicts(&claims[at]));
            let waker = if blocked {
                None
            } else {
                claims[at].waiting.take()
            };
            if let Some(waker) = waker {
                waker.wake();
            }
            next = at + 1;
        }
    }
}

/// The future of [`RangeLock::lock`].
pub(crate) struct Locking<'a> {
    lock: &'a RangeLock,
    range: BlockRange,
    access: Access,
    ticket: Option<u64>,
}

impl<'a> Future for Locking<'a> {
    type Output = RangeGuard<'a>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<RangeGuard<'a>> {
        let lock = self.lock;
        let (ticket, granted) = match self.ticket {
            Some(ticket) => (ticket, lock.is_granted(ticket, context.waker())),
            None => {
                let ticket = lock.next.get();
                lock.next.set(ticket + 1);
                (
                    ticket,
                    lock.join(ticket, self.range, self.access, context.waker()),
                )
            }
        };
        if granted {
            self.ticket = None;
            return Poll::Ready(RangeGuard { lock, ticket });
        }
        self.ticket = Some(ticket);
        Poll::Pending
    }
}

impl Drop for Locking<'_> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            self.lock.leave(ticket);
        }
    }
}

/// A range in use.
pub(crate) struct RangeGuard<'a> {
    lock: &'a RangeLock,
    ticket: u64,
}

impl Drop for RangeGuard<'_> {
    fn drop(&mut self) {
        self.lock.leave(self.ticket);
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;
    use std::time::Duration;

    use super::*;
    use block::Lba;
    use reactor::{Reactor, sim, sleep, spawn, timeout};

    /// Tasks with random ranges, some of which give up: conflicting ones never overlap in time,
    /// and all of them have their turn.
    #[test]
    fn conflicting_claims_never_hold_together() {
        for seed in 0..100 {
            Reactor::simulated(seed).run(async {
                let lock = Rc::new(RangeLock::default());
                // Readers in the low half, writers in units of 1000.
                let users = Rc::new([const { Cell::new(0_u32) }; 8]);
                let tasks: Vec<_> = (0..60)
                    .map(|_| {
                        let (lock, users) = (Rc::clone(&lock), Rc::clone(&users));
                        spawn(use_range(lock, users))
                    })
                    .collect();
                for task in tasks {
                    task.await;
                }
                assert!(lock.claims.borrow().is_empty(), "seed={seed}");
            });
        }
    }

    async fn use_range(lock: Rc<RangeLock>, users: Rc<[Cell<u32>; 8]>) {
        sleep(Duration::from_micros(sim::random_below(20))).await;
        let start = sim::random_below(8);
        let end = start + 1 + sim::random_below(8 - start);
        let exclusive = sim::random_below(2) == 0;
        let (access, unit) = if exclusive {
            (Access::Exclusive, 1000)
        } else {
            (Access::Shared, 1)
        };
        let patience = Duration::from_micros(sim::random_below(40));
        let range = BlockRange::new(Lba(start), end - start);
        let Ok(guard) = timeout(patience, lock.lock(range, access)).await else {
            return;
        };
        for block in &users[start as usize..end as usize] {
            block.set(block.get() + unit);
            assert!(
                block.get() < 1000 || block.get() == 1000,
                "a writer is not alone"
            );
        }
        sleep(Duration::from_micros(sim::random_below(5))).await;
        for block in &users[start as usize..end as usize] {
            block.set(block.get() - unit);
        }
        drop(guard);
    }
}
