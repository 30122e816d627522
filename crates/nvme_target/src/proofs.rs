//! [`Proofs`]: turns for the arithmetic of authentication, which strangers can ask for at will.
//!
//! Few computations of a core are under way at once. Of those that wait, one of the address goes on
//! whose last turn was the longest ago: an honest host waits for one turn of each other address,
//! however many connections these have.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;

use access::{Nqn, origin};
use reactor::sync::oneshot;

/// Computations of a core that are under way at once.
const UNDER_WAY_MAX: usize = 3;
/// Those among them of one address, and in the name of one host.
const OF_ONE_MAX: usize = 2;
/// Those that wait for their turn.
const WAITING_MAX: usize = 1024;
/// Those among them of one address: a host connects its queues one after the other, and many may be
/// behind one address.
const WAITING_OF_ADDRESS_MAX: usize = 256;

/// Who computes and who waits.
#[derive(Default)]
pub(crate) struct Proofs(RefCell<Turns>);

#[derive(Default)]
struct Turns {
    under_way: Vec<Claimant>,
    waiting: VecDeque<(Claimant, oneshot::Sender<()>)>,
    /// When each address had its last turn, as long as it has others under way or waiting.
    last: BTreeMap<IpAddr, u64>,
    turns: u64,
}

/// Whose arithmetic it is, as far as anybody knows.
#[derive(Clone, PartialEq, Eq)]
struct Claimant {
    address: IpAddr,
    host_nqn: Nqn,
}

/// A computation's turn, until dropped.
pub(crate) struct Turn<'a> {
    proofs: &'a Proofs,
    claimant: Claimant,
}

impl Proofs {
    /// Waits for a turn; `None` when too many do.
    pub async fn turn(&self, address: IpAddr, host_nqn: &Nqn) -> Option<Turn<'_>> {
        let claimant = Claimant {
            address: origin(address),
            host_nqn: host_nqn.clone(),
        };
        let (sender, receiver) = oneshot::channel();
        {
            let mut turns = self.0.borrow_mut();
            if turns.waiting.len() >= WAITING_MAX
                || turns.waiting_of(claimant.address) >= WAITING_OF_ADDRESS_MAX
            {
                return None;
            }
            turns.waiting.push_back((claimant.clone(), sender));
            turns.give();
        }
        receiver.await.ok()?;
        Some(Turn {
            proofs: self,
            claimant,
        })
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut turns = self.proofs.0.borrow_mut();
        turns.end(&self.claimant);
        turns.give();
    }
}

impl Turns {
    fn waiting_of(&self, address: IpAddr) -> usize {
        let waiting = self.waiting.iter();
        waiting.filter(|(who, _)| who.address == address).count()
    }

    /// Gives turns as long as there are some to give.
    fn give(&mut self) {
        while let Some(index) = self.next() {
            let Some((claimant, start)) = self.waiting.remove(index) else {
                return;
            };
            // Who waited may be gone.
            if start.send(()).is_ok() {
                self.turns += 1;
                self.last.insert(claimant.address, self.turns);
                self.under_way.push(claimant);
            }
        }
    }

    /// The one in waiting that is next, if one may go on.
    fn next(&self) -> Option<usize> {
        if self.under_way.len() >= UNDER_WAY_MAX {
            return None;
        }
        let running = |same: &dyn Fn(&Claimant) -> bool| {
            let running = self.under_way.iter();
            running.filter(|who| same(who)).count() < OF_ONE_MAX
        };
        let may = |who: &Claimant| {
            running(&|other| other.address == who.address)
                && running(&|other| other.host_nqn == who.host_nqn)
        };
        let waiting = self.waiting.iter().enumerate();
        let may_go = waiting.filter(|(_, (who, _))| may(who));
        let next = may_go.min_by_key(|(index, (who, _))| {
            let last = self.last.get(&who.address).copied().unwrap_or(0);
            (last, *index)
        });
        next.map(|(index, _)| index)
    }

    fn end(&mut self, claimant: &Claimant) {
        if let Some(index) = self.under_way.iter().position(|who| who == claimant) {
            self.under_way.swap_remove(index);
        }
        let Turns {
            under_way,
            waiting,
            last,
            ..
        } = self;
        last.retain(|address, _| {
            let mut all = under_way.iter().chain(waiting.iter().map(|(who, _)| who));
            all.any(|who| who.address == *address)
        });
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;
    use std::time::Duration;

    use reactor::Reactor;

    use super::*;

    /// Asks for a turn and enters its name when it comes; it is over after a moment.
    fn ask(proofs: &Rc<Proofs>, log: &Rc<RefCell<Vec<u8>>>, address: u8, host: &str) {
        let (proofs, log) = (Rc::clone(proofs), Rc::clone(log));
        let host: Nqn = format!("nqn.2026-11.example:{host}").parse().unwrap();
        drop(reactor::spawn(async move {
            if let Some(turn) = proofs.turn([192, 0, 2, address].into(), &host).await {
                log.borrow_mut().push(address);
                reactor::sleep(Duration::from_millis(1)).await;
                drop(turn);
            }
        }));
    }

    #[test]
    fn a_flood_of_one_address_costs_others_a_turn_each() {
        Reactor::simulated(1).run(async {
            let (proofs, log) = (Rc::new(Proofs::default()), Rc::default());
            for number in 0..1000 {
                ask(&proofs, &log, 1, &format!("{number}"));
            }
            reactor::sleep(Duration::from_micros(10)).await;
            // As much waits as may wait; the rest was turned away, and others are not.
            assert_eq!(proofs.0.borrow().waiting.len(), WAITING_OF_ADDRESS_MAX);
            assert_eq!(proofs.0.borrow().under_way.len(), OF_ONE_MAX);
            ask(&proofs, &log, 2, "honest");
            ask(&proofs, &log, 3, "victim");
            reactor::sleep(Duration::from_secs(10)).await;
            let order = log.borrow();
            assert_eq!(order.len(), OF_ONE_MAX + WAITING_OF_ADDRESS_MAX + 2);
            let place = |address| order.iter().position(|found| *found == address).unwrap();
            assert!(place(2) <= 4 && place(3) <= 4, "{:?}", &order[..8]);
            assert!(proofs.0.borrow().last.is_empty());
        });
    }

    #[test]
    fn a_flood_in_a_hosts_name_leaves_it_its_turn() {
        Reactor::simulated(2).run(async {
            let (proofs, log) = (Rc::new(Proofs::default()), Rc::default());
            for _ in 0..200 {
                ask(&proofs, &log, 1, "victim");
            }
            reactor::sleep(Duration::from_micros(10)).await;
            ask(&proofs, &log, 2, "victim");
            reactor::sleep(Duration::from_secs(10)).await;
            let order = log.borrow();
            let place = order.iter().position(|found| *found == 2).unwrap();
            assert!(place <= 3, "{:?}", &order[..8]);
        });
    }
}
