//! [`Namespace`]: a device under a namespace identifier, and who is using it right now.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use block::{BlockDevice, BlockRange, Geometry};
use nvme::Status;
use reactor::sync::{Mutex, Notify};

use crate::pace::Pace;
use crate::reservation::{Access, HostId, Reservations};
use crate::settings::NamespaceSettings;
use crate::tally::Tally;

/// A namespace on this core.
pub(crate) struct Namespace<D> {
    pub settings: NamespaceSettings,
    pub device: Rc<D>,
    pub counters: Tally,
    pub pace: Pace,
    removed: Cell<bool>,
    /// Commands in flight, by the phase they entered in: see [`Namespace::lock`].
    in_flight: [Cell<u32>; 2],
    phase: Cell<usize>,
    left: Notify,
    /// Blocks that a Compare and Write has to itself.
    locked: Cell<Option<BlockRange>>,
    unlocked: Notify,
    exclusive: Mutex<()>,
    reservations: RefCell<Arc<Reservations>>,
    /// There is a reservation.
    reserved: Cell<bool>,
    /// Held while its reservations are being changed, on the core that decides.
    pub changing: Mutex<()>,
}

/// Who does something, and what.
#[derive(Clone, Copy, Debug)]
pub(crate) struct By {
    pub host: HostId,
    pub access: Access,
}

impl<D: BlockDevice> Namespace<D> {
    pub fn new(settings: NamespaceSettings, device: Rc<D>) -> Namespace<D> {
        Namespace {
            settings,
            device,
            counters: Tally::default(),
            pace: Pace::default(),
            removed: Cell::new(false),
            in_flight: [Cell::new(0), Cell::new(0)],
            phase: Cell::new(0),
            left: Notify::new(),
            locked: Cell::new(None),
            unlocked: Notify::new(),
            exclusive: Mutex::new(()),
            reservations: RefCell::default(),
            reserved: Cell::new(false),
            changing: Mutex::new(()),
        }
    }

    pub fn geometry(&self) -> Geometry {
        self.device.geometry()
    }

    /// Who is registered, and who holds it.
    pub fn reservations(&self) -> Arc<Reservations> {
        Arc::clone(&self.reservations.borrow())
    }

    /// Serves by this state from now on.
    pub fn set_reservations(&self, state: &Arc<Reservations>) {
        self.reserved.set(state.held.is_some());
        self.reservations.replace(Arc::clone(state));
    }

    /// Counts a command in, once nobody has `range` to himself. `Err` when the namespace is being
    /// removed or a reservation forbids it.
    pub async fn enter(&self, range: BlockRange, by: By) -> Result<Entered<'_, D>, Status> {
        while self
            .locked
            .get()
            .is_some_and(|locked| overlap(locked, range))
        {
            self.unlocked.notified().await;
        }
        self.admit(by)?;
        Ok(self.count_in())
    }

    /// `Err` when the namespace is being removed or a reservation forbids it.
    fn admit(&self, by: By) -> Result<(), Status> {
        if self.removed.get() {
            return Err(Status::INVALID_NAMESPACE.do_not_retry());
        }
        if self.reserved.get() && !self.reservations.borrow().allows(&by.host, by.access) {
            return Err(Status::RESERVATION_CONFLICT.do_not_retry());
        }
        Ok(())
    }

    fn count_in(&self) -> Entered<'_, D> {
        let phase = self.phase.get();
        let counter = &self.in_flight[phase & 1];
        counter.set(counter.get() + 1);
        Entered {
            namespace: self,
            phase,
        }
    }

    /// Gives the caller `range` to itself: commands that overlap it and come later wait, those
    /// that came earlier are waited for. Costs other commands one look at `locked`.
    pub async fn lock(&self, range: BlockRange, by: By) -> Result<Locked<'_, D>, Status> {
        let turn = self.exclusive.lock().await;
        self.admit(by)?;
        self.locked.set(Some(range));
        let earlier = self.phase.get();
        self.phase.set(earlier ^ 1);
        let locked = Locked {
            namespace: self,
            _turn: turn,
            _entered: self.count_in(),
        };
        self.wait_for(earlier).await;
        Ok(locked)
    }

    /// Returns when the commands that are in flight now have ended.
    pub async fn drain(&self) {
        let _turn = self.exclusive.lock().await;
        let earlier = self.phase.get();
        self.phase.set(earlier ^ 1);
        self.wait_for(earlier).await;
    }

    async fn wait_for(&self, phase: usize) {
        while self.in_flight[phase & 1].get() > 0 {
            self.left.notified().await;
        }
    }

    /// Refuses commands from now on and returns when none is in flight.
    pub async fn remove(&self) {
        self.removed.set(true);
        self.pace.end();
        while self.in_flight.iter().any(|counter| counter.get() > 0) {
            self.left.notified().await;
        }
    }
}

/// A command in flight on a namespace.
pub(crate) struct Entered<'a, D> {
    namespace: &'a Namespace<D>,
    phase: usize,
}

impl<D> Drop for Entered<'_, D> {
    fn drop(&mut self) {
        let counter = &self.namespace.in_flight[self.phase & 1];
        counter.set(counter.get() - 1);
        if counter.get() == 0 {
            self.namespace.left.notify_all();
        }
    }
}

/// A range that one command has to itself.
pub(crate) struct Locked<'a, D> {
    namespace: &'a Namespace<D>,
    _entered: Entered<'a, D>,
    _turn: reactor::sync::MutexGuard<'a, ()>,
}

impl<D> Drop for Locked<'_, D> {
    fn drop(&mut self) {
        self.namespace.locked.set(None);
        self.namespace.unlocked.notify_all();
    }
}

fn overlap(one: BlockRange, other: BlockRange) -> bool {
    let end = |range: BlockRange| range.start.0.saturating_add(range.blocks);
    one.start.0 < end(other) && other.start.0 < end(one)
}
