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
use crate::reservation::{Access, HostId};
use crate::rules::{Protection, Rules};
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
    rules: RefCell<Option<Arc<Rules>>>,
    /// There are some by which a command may be refused, or may be.
    ruled: Cell<bool>,
    /// Held while its rules are being changed, on the core that decides.
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
            rules: RefCell::new(Some(Arc::default())),
            ruled: Cell::new(false),
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

    /// What commands go by. `Err` while that is not known.
    pub fn rules(&self) -> Result<Arc<Rules>, Status> {
        let known = self.rules.borrow().clone();
        known.ok_or(Status::NAMESPACE_NOT_READY)
    }

    /// Goes by these from now on; without any it serves nobody, until there are some.
    pub fn set_rules(&self, rules: Option<&Arc<Rules>>) {
        self.ruled.set(rules.is_none_or(|rules| !rules.are_none()));
        self.rules.replace(rules.cloned());
    }

    /// Its write protection, as far as that is known.
    pub fn protection(&self) -> Protection {
        let known = self.rules.borrow();
        known
            .as_ref()
            .map(|rules| rules.protection)
            .unwrap_or_default()
    }

    /// Whether it is known to be write protected.
    pub fn is_protected(&self) -> bool {
        self.protection() != Protection::None
    }

    /// Counts a command in, once nobody has `range` to himself. `Err` when the namespace is being
    /// removed or its rules forbid it.
    pub async fn enter(&self, range: BlockRange, by: By<'_>) -> Result<Entered<'_>, Status> {
        self.in_flight.free(range).await;
        self.enter_locked(by)
    }

    /// As [`Namespace::enter`], for a command that has its blocks to itself.
    pub fn enter_locked(&self, by: By<'_>) -> Result<Entered<'_>, Status> {
        self.admit(by)?;
        Ok(self.in_flight.enter())
    }

    /// `Err` when the namespace is being removed, or its rules forbid it or may do so.
    fn admit(&self, by: By<'_>) -> Result<(), Status> {
        if self.removed.get() {
            return Err(Status::INVALID_NAMESPACE.do_not_retry());
        }
        if self.ruled.get() {
            let known = self.rules.borrow();
            return known.as_ref().ok_or(Status::NAMESPACE_NOT_READY)?.check(by);
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
