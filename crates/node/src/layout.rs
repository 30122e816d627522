//! [`Layout`]: which drive and which volume is on which core; kept on the first core, where
//! control operations run one at a time.

mod administration;
mod administrator;
mod backing;
mod hosts;
mod measure;
mod pools;
mod rules;
mod settled;

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use access::{AllowedHosts, Nqn};
use block::Geometry;
use nvme_target::rules::Rules;
use nvme_target::{AnaGroupId, PathState};
use pool::HostId;
use qos::Terms;
use reactor::cores::CoreHandle;
use reactor::sync::Mutex;
use uuid::Uuid;

use self::administration::Administered;
use crate::core::Core;
use crate::error::NodeError;
use crate::spec::{
    Backing, DriveFacts, DriveSpec, ManagedFacts, NamespacesFacts, SessionFacts, VolumeSpec,
};
use crate::taking::Taking;
use crate::volume::remote::VolumeId;

use self::backing::Stand;
pub use self::pools::PoolEnd;
use self::pools::PoolPlace;
pub use self::rules::RulesKeeper;

thread_local! {
    static LAYOUTS: RefCell<HashMap<u64, Rc<Layout>>> = RefCell::default();
}

/// Longer than drives take for commands in flight; a client waits longer still.
const FENCED_WITHIN: Duration = Duration::from_secs(20);

/// What is where in a node.
pub struct Layout {
    node: u64,
    cores: Vec<CoreHandle>,
    /// Who holds the node's pools.
    host: HostId,
    places: Mutex<Places>,
    /// On which core each open drive is: what reads a drive waits for no change.
    drives: Rc<RefCell<BTreeMap<String, usize>>>,
    /// On which core each open pool is that it was opened on: what is done with a pool waits for
    /// nobody who makes, opens or closes another, or this one.
    homes: RefCell<BTreeMap<String, usize>>,
    /// What holds each volume's data, by subsystem and namespace: its rules are kept there.
    backings: RefCell<BTreeMap<(Nqn, u32), Backing>>,
    /// Held while a pool is made, opened or closed, which may take long.
    turn: Mutex<()>,
    /// Held while rules are kept outside pools.
    keeping: Mutex<()>,
}

#[derive(Default)]
struct Places {
    drives: Rc<RefCell<BTreeMap<String, usize>>>,
    volumes: BTreeMap<String, VolumePlace>,
    pools: BTreeMap<String, PoolPlace>,
    administered: BTreeMap<String, Administered>,
    next_volume: VolumeId,
    stopped: bool,
}

struct VolumePlace {
    id: VolumeId,
    stand: Stand,
    spec: VolumeSpec,
}

impl Layout {
    /// Starts the layout of `node`, on its first core.
    pub fn start(node: u64, cores: Vec<CoreHandle>, uuid: Uuid) {
        let places = Places::default();
        let layout = Layout {
            node,
            cores,
            host: HostId(*uuid.as_bytes()),
            drives: Rc::clone(&places.drives),
            places: Mutex::new(places),
            homes: RefCell::default(),
            backings: RefCell::default(),
            turn: Mutex::new(()),
            keeping: Mutex::new(()),
        };
        LAYOUTS.with_borrow_mut(|layouts| layouts.insert(node, Rc::new(layout)));
    }

    /// The layout of `node`, whose first core must be one of this thread's.
    pub fn of(node: u64) -> Result<Rc<Layout>, NodeError> {
        LAYOUTS
            .with_borrow(|layouts| layouts.get(&node).cloned())
            .ok_or(NodeError::Stopped)
    }

    /// Opens a drive on the core with the fewest.
    pub async fn open_drive(&self, name: String, spec: DriveSpec) -> Result<DriveFacts, NodeError> {
        let places = self.places.lock().await;
        places.running()?;
        if places.drives.borrow().contains_key(&name) {
            return Err(NodeError::DriveExists(name));
        }
        let home = places.least_used(self.cores.len());
        let key = name.clone();
        let opened = self.on(
            home,
            |core| async move { core.open_drive(&name, &spec).await },
        );
        let facts = opened.await?;
        places.drives.borrow_mut().insert(key, home);
        Ok(facts)
    }

    /// Closes a drive that no volume uses.
    pub async fn close_drive(&self, name: String) -> Result<(), NodeError> {
        let mut places = self.places.lock().await;
        self.refresh_all(&mut places).await?;
        if let Some(user) = places.user(&name) {
            return Err(NodeError::DriveInUse { drive: name, user });
        }
        if places.administered.contains_key(&name) {
            return Err(NodeError::Administered(name));
        }
        let home = places.drives.borrow_mut().remove(&name);
        let Some(home) = home else {
            return Err(NodeError::UnknownDrive(name));
        };
        self.on(home, |core| async move { core.close_drive(&name).await })
            .await
    }

    /// The namespaces of a drive, and its health.
    pub async fn managed_facts(&self, drive: String) -> Result<ManagedFacts, NodeError> {
        let places = self.places.lock().await;
        places.running()?;
        let home = places.drive_core(&drive)?;
        let work = move |core: Rc<Core>| async move { core.managed_facts(&drive) };
        self.on(home, work).await
    }

    /// The namespaces of a drive.
    pub async fn namespaces_of(&self, drive: String) -> Result<NamespacesFacts, NodeError> {
        let places = self.places.lock().await;
        places.running()?;
        let home = places.drive_core(&drive)?;
        let work = move |core: Rc<Core>| async move { core.namespaces(&drive).await };
        self.on(home, work).await
    }

    /// Attaches a namespace of an NVMe drive that no volume uses to this machine, or detaches it.
    pub async fn set_namespace_attached(
        &self,
        drive: String,
        nsid: u32,
        attached: bool,
    ) -> Result<DriveFacts, NodeError> {
        let mut places = self.places.lock().await;
        self.refresh_all(&mut places).await?;
        let home = places.unused_drive(&drive)?;
        let work =
            move |core: Rc<Core>| async move { core.set_attached(&drive, nsid, attached).await };
        self.on(home, work).await
    }

    /// Creates a namespace on a drive that no volume uses.
    pub async fn create_namespace(
        &self,
        drive: String,
        request: ssd::NamespaceRequest,
    ) -> Result<(u32, DriveFacts), NodeError> {
        let mut places = self.places.lock().await;
        self.refresh_all(&mut places).await?;
        let home = places.unused_drive(&drive)?;
        let work =
            move |core: Rc<Core>| async move { core.create_namespace(&drive, request).await };
        self.on(home, work).await
    }

    /// Deletes a namespace of a drive that no volume uses.
    pub async fn delete_namespace(
        &self,
        drive: String,
        nsid: u32,
    ) -> Result<DriveFacts, NodeError> {
        let mut places = self.places.lock().await;
        self.refresh_all(&mut places).await?;
        let home = places.unused_drive(&drive)?;
        places.unattached(&drive, nsid)?;
        let work = move |core: Rc<Core>| async move { core.delete_namespace(&drive, nsid).await };
        self.on(home, work).await
    }

    /// Serves a volume from every core; gives its capacity in bytes. A drive that it takes whole is
    /// changed only once nothing refuses it any more.
    pub async fn create_volume(&self, spec: VolumeSpec, taking: Taking) -> Result<u64, NodeError> {
        let mut places = self.places.lock().await;
        self.refresh_all(&mut places).await?;
        if places.volumes.contains_key(&spec.name) {
            return Err(NodeError::VolumeExists(spec.name));
        }
        if let Backing::Drive(drive) = &spec.backing {
            places.unused_drive(drive)?;
            self.check_usable(&places, drive).await?;
            let (home, name) = (places.drive_core(drive)?, drive.clone());
            let check = move |core: Rc<Core>| async move { core.check_taking(&name, taking).await };
            self.on(home, check).await?;
        }
        let id = places.take_id();
        let stand = self.stand(&mut places, (id, 0), &spec.backing, spec.block_bytes);
        let stand = stand.await?;
        if let Backing::Drive(drive) = &spec.backing {
            let (home, name) = (stand.home, drive.clone());
            let clear = move |core: Rc<Core>| async move { core.clear(&name, taking).await };
            if let Err(error) = self.on(home, clear).await {
                self.undo_publish(&VolumePlace { id, stand, spec }, 0).await;
                return Err(error);
            }
        }
        let capacity_bytes = stand.geometry.capacity_bytes();
        let key = (spec.subsystem.clone(), spec.nsid);
        let backing = spec.backing.clone();
        let before = self.backings.borrow_mut().insert(key.clone(), backing);
        // The first core last: what it decides on rules, all others are to know.
        for index in (0..self.cores.len()).rev() {
            let published = spec.clone();
            let done = self.on(index, move |core| async move {
                core.publish(id, &published).await
            });
            if let Err(error) = done.await {
                self.undo_publish(&VolumePlace { id, stand, spec }, index)
                    .await;
                let mut backings = self.backings.borrow_mut();
                match before {
                    Some(before) => backings.insert(key, before),
                    None => backings.remove(&key),
                };
                return Err(error);
            }
        }
        let name = spec.name.clone();
        places.volumes.insert(name, VolumePlace { id, stand, spec });
        Ok(capacity_bytes)
    }

    /// Stops serving a volume on every core, after its I/O in flight.
    pub async fn delete_volume(&self, name: String) -> Result<(), NodeError> {
        let mut places = self.places.lock().await;
        places.running()?;
        let Some(place) = places.volumes.remove(&name) else {
            return Err(NodeError::UnknownVolume(name));
        };
        for index in 0..self.cores.len() {
            let spec = place.spec.clone();
            self.on(index, move |core| async move { core.withdraw(&spec).await })
                .await?;
        }
        let key = (place.spec.subsystem.clone(), place.spec.nsid);
        self.backings.borrow_mut().remove(&key);
        self.drop_all(&place).await
    }

    /// Calls a volume otherwise.
    pub async fn rename_volume(&self, from: String, to: String) -> Result<(), NodeError> {
        let mut places = self.places.lock().await;
        places.running()?;
        if places.volumes.contains_key(&to) {
            return Err(NodeError::VolumeExists(to));
        }
        let Some(mut place) = places.volumes.remove(&from) else {
            return Err(NodeError::UnknownVolume(from));
        };
        place.spec.name.clone_from(&to);
        places.volumes.insert(to, place);
        Ok(())
    }

    /// Puts a volume on another backing; gives its capacity in bytes. Its rules are known before
    /// anything reaches that.
    pub async fn set_backing(
        &self,
        name: String,
        backing: Backing,
        rules: Option<Arc<Rules>>,
    ) -> Result<u64, NodeError> {
        let mut places = self.places.lock().await;
        places.running()?;
        if let Backing::Drive(drive) = &backing {
            self.check_unattached(&places, drive).await?;
            if places.user(drive).is_none() {
                self.check_settled(&places, drive).await?;
            }
        }
        let Some(place) = places.volumes.get(&name) else {
            return Err(NodeError::UnknownVolume(name));
        };
        if let Some(known) = &rules {
            self.tell_rules(place, known).await?;
        }
        let (id, before, block_bytes) = (place.id, &place.stand, place.spec.block_bytes);
        let (home, part) = (before.home, before.part);
        let stood = self.stand(&mut places, (id, home), &backing, block_bytes);
        let stand = stood.await?;
        let capacity_bytes = stand.geometry.capacity_bytes();
        if let Some(part) = part {
            self.drop_volume(part).await?;
        }
        if let Some(place) = places.volumes.get_mut(&name) {
            place.stand = stand;
            let key = (place.spec.subsystem.clone(), place.spec.nsid);
            self.backings.borrow_mut().insert(key, backing.clone());
            place.spec.backing = backing;
            self.announce(place).await?;
        }
        Ok(capacity_bytes)
    }

    /// Changes who may see a volume.
    pub async fn set_allowed_hosts(
        &self,
        nqn: Nqn,
        nsid: u32,
        to: AllowedHosts,
    ) -> Result<(), NodeError> {
        let work = move |core: Rc<Core>| {
            let (nqn, to) = (nqn.clone(), to.clone());
            async move { core.set_allowed_hosts(&nqn, nsid, to) }
        };
        self.everywhere(work).await
    }

    /// Returns when hosts that may not see a volume have nothing under way on it on any core.
    /// Changes of other things do not wait for it.
    pub async fn await_fence(&self, nqn: Nqn, nsid: u32) -> Result<(), NodeError> {
        // All at once: a command that takes long on one core takes none of the others' time.
        let asked = (0..self.cores.len()).map(|index| {
            let nqn = nqn.clone();
            self.on(index, move |core: Rc<Core>| async move {
                let fenced = core.is_fenced(&nqn, nsid, FENCED_WITHIN).await;
                fenced.then_some(()).ok_or(NodeError::Unfenced(nqn))
            })
        });
        for asked in asked.collect::<Vec<_>>() {
            asked.await?;
        }
        Ok(())
    }

    /// These terms hold for a volume, on all cores together.
    pub async fn set_terms(&self, nqn: Nqn, nsid: u32, terms: Arc<Terms>) -> Result<(), NodeError> {
        let work = move |core: Rc<Core>| {
            let (nqn, terms) = (nqn.clone(), Arc::clone(&terms));
            async move { core.set_terms(&nqn, nsid, &terms) }
        };
        self.everywhere(work).await
    }

    /// Does the same on every core, one after the other.
    pub(crate) async fn everywhere<W, F>(&self, work: W) -> Result<(), NodeError>
    where
        W: Fn(Rc<Core>) -> F + Clone + Send + 'static,
        F: Future<Output = Result<(), NodeError>> + 'static,
    {
        let places = self.places.lock().await;
        places.running()?;
        for index in 0..self.cores.len() {
            self.on(index, work.clone()).await?;
        }
        Ok(())
    }

    /// Listens at the ports on every core.
    pub async fn open_ports(&self) -> Result<(), NodeError> {
        self.everywhere(|core| async move { core.open_ports() })
            .await
    }

    /// Makes a port a better or a worse path on every core.
    pub async fn set_path_state(&self, index: usize, state: PathState) -> Result<(), NodeError> {
        self.everywhere(move |core| async move { core.set_path_state(index, state) })
            .await
    }

    /// Gives an ANA group a state of its own at a port, or the port's again, on every core.
    pub async fn set_group_path_state(
        &self,
        index: usize,
        group: AnaGroupId,
        state: Option<PathState>,
    ) -> Result<(), NodeError> {
        self.everywhere(move |core| async move { core.set_group_path_state(index, group, state) })
            .await
    }

    /// Who is connected.
    pub async fn sessions(&self) -> Result<Vec<SessionFacts>, NodeError> {
        let mut sessions = Vec::new();
        for index in 0..self.cores.len() {
            sessions.extend(
                self.on(index, |core| async move { Ok(core.sessions()) })
                    .await?,
            );
        }
        Ok(sessions)
    }

    /// Stops serving on all cores at once, then makes everything acknowledged durable.
    pub async fn shutdown(&self, grace: Duration) -> Result<(), NodeError> {
        let _turn = self.turn.lock().await;
        let mut places = self.places.lock().await;
        places.running()?;
        places.stopped = true;
        let stop = |index| {
            self.on(index, move |core| async move {
                core.stop_serving(grace).await;
                Ok(())
            })
        };
        let stopping: Vec<_> = (0..self.cores.len()).map(stop).collect();
        for stopped in stopping {
            stopped.await?;
        }
        let mut first_failure = Ok(());
        for index in 0..self.cores.len() {
            let closed = self.on(index, |core| async move { core.pools().close_all().await });
            first_failure = first_failure.and(closed.await);
        }
        for index in (0..self.cores.len()).rev() {
            let key = (self.node, index);
            let done = self.on(index, move |core| async move { core.finish(key).await });
            first_failure = first_failure.and(done.await);
        }
        LAYOUTS.with_borrow_mut(|layouts| layouts.remove(&self.node));
        first_failure
    }

    /// Runs `work` on the core `index`; starts it now.
    pub(crate) fn on<T, W, F>(
        &self,
        index: usize,
        work: W,
    ) -> impl Future<Output = Result<T, NodeError>>
    where
        T: Send + 'static,
        W: FnOnce(Rc<Core>) -> F + Send + 'static,
        F: Future<Output = Result<T, NodeError>> + 'static,
    {
        let key = (self.node, index);
        let submitted = self
            .cores
            .get(index)
            .map(|core| core.submit(move || async move { work(Core::of(key)?).await }));
        async move { submitted.ok_or(NodeError::Stopped)?.await? }
    }

    pub(crate) fn core_count(&self) -> usize {
        self.cores.len()
    }

    fn others(&self, home: usize) -> impl Iterator<Item = usize> {
        (0..self.cores.len()).filter(move |index| *index != home)
    }

    async fn make_proxy(
        &self,
        core: usize,
        id: VolumeId,
        home: usize,
        geometry: Geometry,
    ) -> Result<(), NodeError> {
        let made = self.on(core, move |core| async move {
            core.make_proxy(id, home, geometry);
            Ok(())
        });
        made.await
    }

    /// Takes back what a failed create did on cores behind `failed`.
    async fn undo_publish(&self, place: &VolumePlace, failed: usize) {
        for index in failed + 1..self.cores.len() {
            let spec = place.spec.clone();
            // Already failing with the first error, which is the one to report.
            let _ = self
                .on(index, move |core| async move { core.withdraw(&spec).await })
                .await;
        }
        let _ = self.drop_all(place).await;
    }

    async fn drop_all(&self, place: &VolumePlace) -> Result<(), NodeError> {
        self.drop_volume(place.id).await?;
        match place.stand.part {
            Some(part) => self.drop_volume(part).await,
            None => Ok(()),
        }
    }

    async fn drop_volume(&self, id: VolumeId) -> Result<(), NodeError> {
        for index in 0..self.cores.len() {
            let dropped = self.on(index, move |core| async move {
                core.drop_volume(id);
                Ok(())
            });
            dropped.await?;
        }
        Ok(())
    }
}

impl Places {
    fn running(&self) -> Result<(), NodeError> {
        if self.stopped {
            Err(NodeError::Stopped)
        } else {
            Ok(())
        }
    }

    fn least_used(&self, cores: usize) -> usize {
        let drives = self.drives.borrow();
        let used = |core: usize| drives.values().filter(|home| **home == core).count();
        (0..cores).min_by_key(|core| used(*core)).unwrap_or(0)
    }

    fn drive_core(&self, drive: &str) -> Result<usize, NodeError> {
        let core = self.drives.borrow().get(drive).copied();
        core.ok_or_else(|| NodeError::UnknownDrive(drive.to_owned()))
    }

    fn take_id(&mut self) -> VolumeId {
        let id = self.next_volume;
        self.next_volume += 1;
        id
    }

    /// The core of a drive that nothing uses.
    fn unused_drive(&self, drive: &str) -> Result<usize, NodeError> {
        self.running()?;
        match self.user(drive) {
            Some(user) => Err(NodeError::DriveInUse {
                drive: drive.to_owned(),
                user,
            }),
            None => self.drive_core(drive),
        }
    }

    fn user(&self, drive: &str) -> Option<String> {
        let on = |place: &VolumePlace| place.spec.backing == Backing::Drive(drive.to_owned());
        let volume = self.volumes.iter().find(|(_, place)| on(place));
        let seated = |place: &PoolPlace| place.seats.iter().any(|seat| seat.drive == drive);
        let pool = self.pools.iter().find(|(_, place)| seated(place));
        volume
            .map(|(name, _)| format!("volume {name}"))
            .or_else(|| pool.map(|(name, _)| format!("pool {name}")))
    }

    /// A volume that is served from a pool.
    fn volume_on(&self, name: &str) -> Option<String> {
        let on = |backing: &Backing| match backing {
            Backing::Pool { pool, .. } => pool == name,
            _ => false,
        };
        let mut volumes = self.volumes.iter();
        let found = volumes.find(|(_, place)| on(&place.spec.backing));
        found.map(|(name, _)| name.clone())
    }
}
