//! [`Strangers`]: what a core does for peers that have proved nothing, or are there for discovery,
//! while hosts have work for it: a small share of its time, whatever is asked.
//!
//! Each step for such a peer has a price in time. While hosts are quiet all steps are taken at
//! once. Otherwise they are taken one after the other, in the order in which they were asked for.
//! Their prices come to one part in [`SHARE`] of the time, of which each lane with work has as much
//! as the others. A connection asks for one step at a time, so what waits is bounded by the places
//! of such connections.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use reactor::Instant;
use reactor::sync::oneshot;

/// One part in so many of the time is for all lanes together while hosts have work. What no price
/// pays for comes to about as much: accepting and closing connections, and refusals of the REST
/// API. Hosts may lose a tenth of their rate to all of it (`make attacks-long`).
const SHARE: u32 = 25;

/// What may have been saved up, as time: hosts that connect now and then wait for nothing.
const SAVED: Duration = Duration::from_millis(200);

/// How often it is looked at whether hosts have work.
const LOOK_PERIOD: Duration = Duration::from_millis(10);

/// Hosts have work while they ask at least so often in [`LOOK_PERIOD`].
const BUSY_ASKS: u64 = 8;

/// Steps that wait for each other, apart from those of the other lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    /// Of peers that have proved nothing.
    Unproven,
    /// Of peers that discover.
    Guests,
    /// The arithmetic of authentication.
    Proofs,
}

const LANES: usize = 3;

/// Who waits for steps.
pub(crate) struct Strangers {
    lanes: [RefCell<Steps>; LANES],
    /// How often hosts have asked for something.
    asked: Cell<u64>,
    looked: Cell<Option<(Instant, u64)>>,
    busy: Cell<bool>,
}

#[derive(Default)]
struct Steps {
    waiting: VecDeque<Waiting>,
    /// The share is used up until then.
    paid_until: Option<Instant>,
    /// Somebody lets those go on who wait.
    attended: bool,
}

struct Waiting {
    session: u64,
    price: Duration,
    go: oneshot::Sender<()>,
}

impl Strangers {
    pub fn new() -> Rc<Strangers> {
        Rc::new(Strangers {
            lanes: Default::default(),
            asked: Cell::new(0),
            looked: Cell::new(None),
            busy: Cell::new(false),
        })
    }

    /// A host has asked for something.
    pub fn note_host(&self) {
        self.asked.set(self.asked.get() + 1);
    }

    /// Waits for a step of `session` at this price; not when the session [leaves](Self::leave).
    pub async fn step(self: &Rc<Self>, lane: Lane, session: u64, price: Duration) {
        let receiver = {
            let pace = self.pace(lane);
            let mut steps = self.lanes[lane as usize].borrow_mut();
            if steps.waiting.is_empty() && (!self.is_busy() || steps.pay(price * pace)) {
                return;
            }
            let (go, receiver) = oneshot::channel();
            steps.waiting.push_back(Waiting { session, price, go });
            if !std::mem::replace(&mut steps.attended, true) {
                drop(reactor::spawn(Rc::clone(self).attend(lane)));
            }
            receiver
        };
        // It goes on as well when it is left out.
        let _ = receiver.await;
    }

    /// The session has ended: it waits for nothing any more.
    pub fn leave(&self, session: u64) {
        for steps in &self.lanes {
            let mut steps = steps.borrow_mut();
            steps.waiting.retain(|waiting| waiting.session != session);
        }
    }

    /// Lets those go on who wait, until nobody does.
    async fn attend(self: Rc<Self>, lane: Lane) {
        let steps = &self.lanes[lane as usize];
        loop {
            let (busy, pace) = (self.is_busy(), self.pace(lane));
            let until = {
                let mut steps = steps.borrow_mut();
                let Some(next) = steps.waiting.front() else {
                    steps.attended = false;
                    return;
                };
                let price = next.price;
                if !busy || steps.pay(price * pace) {
                    if let Some(next) = steps.waiting.pop_front() {
                        // Whoever waited may be gone.
                        let _ = next.go.send(());
                    }
                    None
                } else {
                    steps.paid_until
                }
            };
            match until {
                None => reactor::yield_now().await,
                Some(until) => {
                    let rest = until.saturating_since(reactor::now());
                    reactor::sleep(rest.min(LOOK_PERIOD)).await;
                }
            }
        }
    }

    /// How many times its price a step of `lane` takes, so that this lane and those in which
    /// somebody waits have equal parts of the share.
    fn pace(&self, lane: Lane) -> u32 {
        let lanes = self.lanes.iter().enumerate();
        let others =
            lanes.filter(|(other, steps)| *other != lane as usize && steps.borrow().attended);
        SHARE * (1 + others.count() as u32)
    }

    /// Whether hosts have work for the core, as of a moment ago.
    fn is_busy(&self) -> bool {
        let (now, asked) = (reactor::now(), self.asked.get());
        let Some((looked, before)) = self.looked.get() else {
            self.looked.set(Some((now, asked)));
            return false;
        };
        let elapsed = now - looked;
        if elapsed >= LOOK_PERIOD {
            let periods = elapsed.as_micros() / LOOK_PERIOD.as_micros();
            self.busy
                .set(u128::from(asked - before) >= periods * u128::from(BUSY_ASKS));
            self.looked.set(Some((now, asked)));
        }
        self.busy.get()
    }
}

impl Steps {
    /// Takes this much time out of what has been saved up; false while there is nothing left.
    fn pay(&mut self, time: Duration) -> bool {
        let now = reactor::now();
        let paid_until = self.paid_until.unwrap_or(now).max(now);
        if paid_until > now + SAVED {
            return false;
        }
        self.paid_until = Some(paid_until + time);
        true
    }
}

#[cfg(test)]
mod tests {
    use reactor::Reactor;

    use super::*;

    const PRICE: Duration = Duration::from_micros(20);

    /// Hosts that ask a thousand times in a second and more.
    async fn hosts_at_work(strangers: &Rc<Strangers>) {
        let asking = Rc::clone(strangers);
        drop(reactor::spawn(async move {
            loop {
                asking.note_host();
                reactor::sleep(Duration::from_micros(500)).await;
            }
        }));
        reactor::sleep(LOOK_PERIOD * 2).await;
        strangers.is_busy();
        reactor::sleep(LOOK_PERIOD * 2).await;
        assert!(strangers.is_busy());
    }

    /// What the steps in a second cost, of so many connections in one lane.
    async fn steps_in_a_second(
        strangers: &Rc<Strangers>,
        lane: Lane,
        connections: u64,
    ) -> Duration {
        let price = Rc::new(Cell::new(Duration::ZERO));
        let end = reactor::now() + Duration::from_secs(1);
        let asking = (0..connections).map(|session| {
            let (strangers, price) = (Rc::clone(strangers), Rc::clone(&price));
            reactor::spawn(async move {
                while reactor::now() < end {
                    strangers.step(lane, session, PRICE).await;
                    price.set(price.get() + PRICE);
                    reactor::sleep(Duration::from_micros(10)).await;
                }
            })
        });
        let asking: Vec<_> = asking.collect();
        for task in asking {
            task.await;
        }
        price.get()
    }

    #[test]
    fn strangers_have_a_small_share_while_hosts_have_work() {
        Reactor::simulated(1).run(async {
            let strangers = Strangers::new();
            let quiet = steps_in_a_second(&strangers, Lane::Guests, 1).await;
            assert!(quiet > Duration::from_millis(500), "{quiet:?}");
            hosts_at_work(&strangers).await;
            let share = (Duration::from_secs(1) + SAVED * 2) / SHARE;
            for connections in [1, 300] {
                let taken = steps_in_a_second(&strangers, Lane::Guests, connections).await;
                let most = share + PRICE * connections as u32;
                assert!(taken <= most, "{taken:?} of {most:?}");
                assert!(taken > share / 2, "{taken:?} of {share:?}");
            }
        });
    }

    #[test]
    fn lanes_with_work_have_equal_parts_of_one_share() {
        Reactor::simulated(3).run(async {
            let strangers = Strangers::new();
            hosts_at_work(&strangers).await;
            let asking = [Lane::Unproven, Lane::Guests, Lane::Proofs].map(|lane| {
                let strangers = Rc::clone(&strangers);
                reactor::spawn(async move {
                    // What was saved up before is used first.
                    steps_in_a_second(&strangers, lane, 100).await;
                    steps_in_a_second(&strangers, lane, 100).await
                })
            });
            let part = Duration::from_secs(1) / (SHARE * LANES as u32);
            for lane in asking {
                let taken = lane.await;
                let most = part + PRICE * 100;
                assert!(taken <= most, "{taken:?} of {most:?}");
                assert!(taken > part / 2, "{taken:?} of {part:?}");
            }
        });
    }

    /// Who has ended does not keep its turn, and another lane does not wait for this one.
    #[test]
    fn whoever_leaves_is_not_waited_for() {
        Reactor::simulated(2).run(async {
            let strangers = Strangers::new();
            hosts_at_work(&strangers).await;
            let waiting = (0..1000).map(|session| {
                let strangers = Rc::clone(&strangers);
                let price = Duration::from_secs(1);
                reactor::spawn(async move { strangers.step(Lane::Guests, session, price).await })
            });
            let waiting: Vec<_> = waiting.collect();
            reactor::sleep(Duration::from_millis(1)).await;
            let began = reactor::now();
            strangers.step(Lane::Unproven, 1000, PRICE).await;
            assert!(reactor::now() - began < LOOK_PERIOD);
            for session in 0..1000 {
                strangers.leave(session);
            }
            for task in waiting {
                task.await;
            }
            assert!(reactor::now() - began < LOOK_PERIOD);
        });
    }
}
