//! [`Namespace`]: a device under a namespace identifier, and who is using it right now.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use access::NqnTag;
use block::{BlockDevice, BlockRange, Geometry};
use nvme::Status;
use reactor::sync::Mutex;

use crate::in_flight::{Entered, InFlight};
use crate::pace::Pace;
use crate::reservation::{Access, HostId, Reservations};
use crate::settings::NamespaceSettings;
use crate::tally::Tally;
use crate::unready::Unready;

/// Tells how many blocks of a namespace are in use. It is asked for each Identify, waits for
/// nothing, and may tell what was counted a moment ago.
pub type UsedBlocks = Rc<dyn Fn() -> u64>;

/// A namespace on this core.
pub(crate) struct Namespace<D> {
    pub settings: NamespaceSettings,
    pub device: Rc<D>,
    pub counters: Tally,
    pub pace: Pace,
    pub unready: Unready,
    removed: Cell<bool>,
    /// Where it is thin.
    used_blocks: RefCell<Option<UsedBlocks>>,
    /// Commands on its blocks; shared with other hosts' namespaces that have the same ones.
    pub in_flight: Rc<InFlight>,
    /// Nothing while nobody knows them.
    reservations: RefCell<Option<Arc<Reservations>>>,
    /// There is a reservation, or may be.
    reserved: Cell<bool>,
    /// Held while its reservations are being changed, on the core that decides.
    pub changing: Mutex<()>,
}

/// Who does something, and what.
#[derive(Clone, Copy, Debug)]
pub(crate) struct By<'a> {
    pub host: HostId,
    pub name: &'a NqnTag,
    pub access: Access,
}

impl<D: BlockDevice> Namespace<D> {
    pub fn new(
        settings: NamespaceSettings,
        device: Rc<D>,
        in_flight: Rc<InFlight>,
    ) -> Namespace<D> {
        Namespace {
            settings,
            device,
            counters: Tally::default(),
            pace: Pace::default(),
            unready: Unready::default(),
            removed: Cell::new(false),
            used_blocks: RefCell::default(),
            in_flight,
            reservations: RefCell::new(Some(Arc::default())),
            reserved: Cell::new(false),
            changing: Mutex::new(()),
        }
    }

    pub fn geometry(&self) -> Geometry {
        self.device.geometry()
    }

    /// It is thin from now on, and tells what is in use.
    pub fn set_thin(&self, used_blocks: UsedBlocks) {
        self.used_blocks.replace(Some(used_blocks));
    }

    /// Blocks in use, if it is thin.
    pub fn used_blocks(&self) -> Option<u64> {
        let used = self.used_blocks.borrow().clone()?;
        Some(used().min(self.geometry().block_count))
    }

    /// Who is registered, and who holds it. `Err` while that is not known.
    pub fn reservations(&self) -> Result<Arc<Reservations>, Status> {
        let known = self.reservations.borrow().clone();
        known.ok_or(Status::NAMESPACE_NOT_READY)
    }

    /// Serves by this state from now on; without one nobody, until there is one.
    pub fn set_reservations(&self, state: Option<&Arc<Reservations>>) {
        let reserved = state.is_none_or(|state| state.held.is_some());
        self.reserved.set(reserved);
        self.reservations.replace(state.cloned());
    }

    /// Counts a command in, once nobody has `range` to himself. `Err` when the namespace is being
    /// removed or a reservation forbids it.
    pub async fn enter(&self, range: BlockRange, by: By<'_>) -> Result<Entered<'_>, Status> {
        self.in_flight.free(range).await;
        self.enter_locked(by)
    }

    /// As [`Namespace::enter`], for a command that has its blocks to itself.
    pub fn enter_locked(&self, by: By<'_>) -> Result<Entered<'_>, Status> {
        self.admit(by)?;
        Ok(self.in_flight.enter())
    }

    /// `Err` when the namespace is being removed, or a reservation forbids it or may do so.
    fn admit(&self, by: By<'_>) -> Result<(), Status> {
        if self.removed.get() {
            return Err(Status::INVALID_NAMESPACE.do_not_retry());
        }
        if self.reserved.get() {
            let known = self.reservations.borrow();
            let known = known.as_ref().ok_or(Status::NAMESPACE_NOT_READY)?;
            if !known.allows(&by.host, *by.name, by.access) {
                return Err(Status::RESERVATION_CONFLICT.do_not_retry());
            }
        }
        Ok(())
    }

    /// Refuses commands from now on and returns when none is in flight.
    pub async fn remove(&self) {
        self.removed.set(true);
        self.pace.end();
        self.in_flight.drain().await;
    }
}
