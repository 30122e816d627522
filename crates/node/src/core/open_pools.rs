//! [`Pools`]: the pools of one core, which it opened or has another shard of. The one place that
//! owns their handles, and the one that makes a device out of a volume of a pool.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use pool::{
    Counters, CreateOptions, DriveId, HostId, Level, MayLack, OfflineReason, OpenOptions, Pool,
    PoolError, PoolEvent, PoolState, PoolStatus, PoolVolume, ScrubReport, Settings, Shard,
    VolumeId, Wiring,
};
use reactor::{CancelOnDrop, Failed, Scope};

use crate::error::NodeError;
use crate::spec::{EventSink, NodeEvent, PoolFacts};
use crate::taking::{self, Taking};
use crate::volume::member::Member;
use crate::volume::pool_device::PoolDevice;

/// A drive by its name, and the handle to it.
pub type Seated = (String, Member);

/// What a new pool is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolSpec {
    /// Its redundancy.
    pub level: Level,
    /// Columns of a segment; by the level and the drives unless said otherwise.
    pub width: Option<usize>,
    /// Names of open drives, in any order.
    pub drives: Vec<String>,
    /// The way that they are taken; a label of a pool is never overruled.
    pub taking: Taking,
}

/// How a pool is opened that drives carry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PoolOpening {
    /// Take it from a host that holds it.
    pub force: bool,
    /// Go on from what can be read, although drives that do not read may hold what was written
    /// last.
    pub accept_loss: bool,
    /// Which members may be absent that the pool has not gone on without before.
    pub may_lack: MayLack,
}

/// The open pools of a core, by name.
pub struct Pools {
    events: EventSink,
    settings: Settings,
    open: RefCell<BTreeMap<String, Rc<OpenPool>>>,
    /// Shards of pools that other cores opened.
    joined: RefCell<BTreeMap<String, JoinedPool>>,
}

/// What a core is given of a pool that is made or opened.
pub struct Given {
    /// Its end of the wires between the shards.
    pub wiring: Wiring,
    /// Its handles of the drives.
    pub seated: Vec<Seated>,
    /// What all of the pool runs in: a panic ends the pool, and no more.
    pub scope: Scope,
}

/// A shard of a pool that another core opened.
struct JoinedPool {
    shard: Shard<Member>,
    scope: Scope,
}

/// A pool, and what its members are called in this node.
pub struct OpenPool {
    pool: Pool<Member>,
    scope: Scope,
    /// What the pool said of itself last: one that has failed is not asked any more.
    seen: RefCell<(PoolStatus, Counters)>,
    /// Tells of its failure.
    _watch: CancelOnDrop<()>,
    names: RefCell<BTreeMap<DriveId, String>>,
    /// What takes long and is under way.
    busy: Cell<Option<&'static str>>,
}

/// Says that something long is under way while it lives.
struct Busy<'a>(&'a OpenPool);

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.busy.set(None);
    }
}

impl Pools {
    /// None yet; they will be opened with these settings, and what happens to them told to
    /// `events`.
    pub fn new(events: EventSink, settings: Settings) -> Pools {
        Pools {
            events,
            settings,
            open: RefCell::default(),
            joined: RefCell::default(),
        }
    }

    /// Makes a pool, of which this core has the first shard. Drives are changed only once nothing
    /// refuses them any more.
    pub async fn create(
        &self,
        name: &str,
        spec: &PoolSpec,
        host: HostId,
        given: Given,
    ) -> Result<PoolFacts, NodeError> {
        let Given {
            wiring,
            seated,
            scope,
        } = given;
        let options = CreateOptions {
            width: spec.width,
            settings: self.settings,
            ..CreateOptions::new(name, spec.level, host)
        };
        let refused = |error| NodeError::pool(name, error, &named(&seated));
        let members = devices(&seated);
        let checked = scope.run(Pool::check_new(&members, &options)).await;
        let checked = checked.map_err(|Failed| NodeError::panicked(name, &scope))?;
        checked.map_err(refused)?;
        for (drive, member) in &seated {
            taking::check(drive, member, spec.taking).await?;
        }
        if spec.taking == Taking::Wiped {
            for (drive, member) in &seated {
                taking::wipe(drive, member).await?;
            }
        }
        let made = scope.run(Box::pin(Pool::create_on(wiring, members, options)));
        let made = match made.await {
            Ok(made) => made.map_err(refused),
            Err(Failed) => Err(NodeError::panicked(name, &scope)),
        };
        let pool = made.map_err(|error| match spec.taking {
            Taking::Wiped => error.after_wiping(),
            Taking::Blank | Taking::AsItIs => error,
        })?;
        self.insert(name, pool, scope, &seated).await
    }

    /// Opens the pool that drives carry, of which this core has the first shard from now on.
    pub async fn open(
        &self,
        name: &str,
        how: PoolOpening,
        host: HostId,
        given: Given,
    ) -> Result<PoolFacts, NodeError> {
        let Given {
            wiring,
            seated,
            scope,
        } = given;
        let options = OpenOptions {
            force: how.force,
            accept_loss: how.accept_loss,
            may_lack: how.may_lack,
            settings: self.settings,
            ..OpenOptions::new(host)
        };
        let opened = scope.run(Box::pin(Pool::open_on(wiring, devices(&seated), options)));
        let opened = opened.await;
        let opened = opened.map_err(|Failed| NodeError::panicked(name, &scope))?;
        let pool = opened.map_err(|error| NodeError::pool(name, error, &named(&seated)))?;
        self.insert(name, pool, scope, &seated).await
    }

    /// Facts are as of the opening: a pool may lose no time to forget a member that is missing.
    async fn insert(
        &self,
        name: &str,
        pool: Pool<Member>,
        scope: Scope,
        seated: &[Seated],
    ) -> Result<PoolFacts, NodeError> {
        let panicked = |Failed| NodeError::panicked(name, &scope);
        let seen = scope.call(|| (pool.status(), pool.counters()));
        let seen = seen.map_err(panicked)?;
        let mut names = BTreeMap::new();
        for (drive, member) in seated {
            // A drive that cannot be read is no member that works.
            let label = scope.run(pool::probe(member)).await.map_err(panicked)?;
            if let Ok(Some(label)) = label {
                names.insert(label.drive, drive.clone());
            }
        }
        let watch = watch(&scope, name.to_owned(), Arc::clone(&self.events));
        let open = Rc::new(OpenPool {
            pool,
            seen: RefCell::new(seen.clone()),
            _watch: reactor::spawn(watch).cancel_on_drop(),
            scope: scope.clone(),
            names: RefCell::new(names),
            busy: Cell::new(None),
        });
        let facts = PoolFacts {
            status: seen.0,
            ..open.facts()
        };
        let telling = Rc::clone(&open).tell(name.to_owned(), Arc::clone(&self.events));
        let told = scope.call(|| drop(reactor::spawn(telling)));
        told.map_err(panicked)?;
        self.open.borrow_mut().insert(name.to_owned(), open);
        Ok(facts)
    }

    /// Takes part, with another shard, in a pool that another core makes or opens.
    pub async fn join(&self, name: &str, given: Given) -> Result<(), NodeError> {
        let Given {
            wiring,
            seated,
            scope,
        } = given;
        let joined = Box::pin(Shard::join(wiring, devices(&seated)));
        let joined = scope.run(joined).await;
        let joined = joined.map_err(|Failed| NodeError::panicked(name, &scope))?;
        let shard = joined.map_err(|error| NodeError::pool(name, error, &named(&seated)))?;
        let joined = JoinedPool { shard, scope };
        self.joined.borrow_mut().insert(name.to_owned(), joined);
        Ok(())
    }

    /// Lets go of the shard of a pool that has been closed where it was opened.
    pub fn leave(&self, name: &str) {
        self.joined.borrow_mut().remove(name);
    }

    /// Lets go of every shard.
    pub fn leave_all(&self) {
        self.joined.borrow_mut().clear();
    }

    /// Has this core's handle of a drive ready that is about to be added to a pool.
    pub fn offer_drive(&self, pool: &str, member: Member) {
        if let Some(JoinedPool { shard, scope }) = self.joined.borrow().get(pool) {
            // One that has failed takes no drives.
            let _ = scope.call(|| shard.offer_drive(member));
        }
    }

    /// Takes back the handles of drives that the pool did not take.
    pub fn withdraw_drives(&self, pool: &str) {
        if let Some(JoinedPool { shard, scope }) = self.joined.borrow().get(pool) {
            let _ = scope.call(|| shard.withdraw_drives());
        }
    }

    /// The pool `name`, which this core opened.
    pub fn get(&self, name: &str) -> Result<Rc<OpenPool>, NodeError> {
        let found = self.open.borrow().get(name).cloned();
        found.ok_or_else(|| NodeError::UnknownPool(name.to_owned()))
    }

    /// What this core's shard of a pool has of a volume.
    pub fn part(
        &self,
        pool: &str,
        id: VolumeId,
    ) -> Result<PoolDevice<PoolVolume<Member>>, NodeError> {
        let joined = self.joined.borrow();
        let (found, scope) = match joined.get(pool) {
            Some(JoinedPool { shard, scope }) => (scope.call(|| shard.volume(id)), scope.clone()),
            None => {
                let open = self.get(pool)?;
                (open.scope.call(|| open.pool.volume(id)), open.scope.clone())
            }
        };
        let panicked = |Failed| NodeError::panicked(pool, &scope);
        let volume = found.map_err(panicked)?;
        let volume = volume.map_err(|error| NodeError::pool(pool, error, &[]))?;
        PoolDevice::new(volume, scope.clone()).map_err(panicked)
    }

    /// Takes a pool out, so that it can be closed.
    pub fn remove(&self, name: &str) -> Result<Rc<OpenPool>, NodeError> {
        let open = self.get(name)?;
        open.idle(name)?;
        self.open.borrow_mut().remove(name);
        Ok(open)
    }

    /// Closes every pool: they open quickly the next time.
    pub async fn close_all(&self) -> Result<(), NodeError> {
        let pools = std::mem::take(&mut *self.open.borrow_mut());
        let mut first_failure = Ok(());
        for (name, open) in pools {
            let closed = open.run(&name, async |pool| pool.close().await).await;
            first_failure = first_failure.and(closed);
        }
        first_failure
    }
}

impl OpenPool {
    /// Does something with the pool, if it has not failed, until it does.
    pub async fn run<T, F>(
        &self,
        name: &str,
        work: impl FnOnce(Pool<Member>) -> F,
    ) -> Result<T, NodeError>
    where
        F: Future<Output = Result<T, PoolError>>,
    {
        let pool = self.pool.clone();
        // In a box, as compilers give up on types of futures that are nested this deep.
        let work = Box::pin(async move { work(pool).await });
        let done = self.scope.run(work).await;
        let done = done.map_err(|Failed| NodeError::panicked(name, &self.scope))?;
        done.map_err(|error| NodeError::pool(name, error, &[]))
    }

    /// What the pool says of itself; if it has failed, what it said last.
    fn look(&self) -> (PoolStatus, Counters) {
        let look = || (self.pool.status(), self.pool.counters());
        match self.scope.call(look) {
            Ok(now) => {
                self.seen.replace(now.clone());
                now
            }
            Err(Failed) => {
                let (mut status, counters) = self.seen.borrow().clone();
                status.state = PoolState::Offline;
                status.reason = Some(OfflineReason::InternalError);
                (status, counters)
            }
        }
    }

    /// The pool as it stands, its members by the names that drives have here.
    pub fn facts(&self) -> PoolFacts {
        let (status, counters) = self.look();
        let member = |id: &DriveId| status.drives.iter().any(|drive| drive.id == *id);
        self.names.borrow_mut().retain(|id, _| member(id));
        PoolFacts {
            counters,
            names: self.names.borrow().clone(),
            busy: self.busy.get(),
            fault: self.scope.failure().map(ToString::to_string),
            status,
        }
    }

    /// Passes on what happens to the pool, until it is closed.
    async fn tell(self: Rc<Self>, pool: String, sink: EventSink) {
        while let Some(event) = self.pool.next_event().await {
            let about = match &event {
                PoolEvent::Drive { id, .. } => self.names.borrow().get(id).cloned(),
                _ => None,
            };
            sink(NodeEvent::Pool {
                pool: pool.clone(),
                drive: about,
                event,
            });
        }
    }

    /// Adds a drive. One that carries a label of this pool is known, and taken as it is.
    pub async fn add_drive(
        &self,
        pool: &str,
        drive: String,
        member: Member,
        taking: Taking,
    ) -> Result<(), NodeError> {
        let named = [drive.clone()];
        let refused = |error| NodeError::pool(pool, error, &named);
        let panicked = |Failed| NodeError::panicked(pool, &self.scope);
        let known = Box::pin(self.pool.check_joining(&member));
        let known = self.scope.run(known).await;
        let known = known.map_err(panicked)?.map_err(refused)?;
        let wiped = !known && taking == Taking::Wiped;
        if !known {
            taking::check(&drive, &member, taking).await?;
        }
        if wiped {
            taking::wipe(&drive, &member).await?;
        }
        let added = self.scope.run(Box::pin(self.pool.add_drive(member))).await;
        let added = added
            .map_err(panicked)
            .and_then(|added| added.map_err(refused));
        let id = added.map_err(|error| match wiped {
            true => error.after_wiping(),
            false => error,
        })?;
        let mut names = self.names.borrow_mut();
        // It may have been a member that failed, and is another one now.
        names.retain(|_, name| *name != drive);
        names.insert(id, drive);
        Ok(())
    }

    /// Takes a drive out of use for good.
    pub async fn fail_drive(&self, pool: &str, drive: &str) -> Result<(), NodeError> {
        let id = self.id_of(pool, drive)?;
        self.run(pool, async move |pool| pool.fail_drive(id).await)
            .await
    }

    /// Moves everything off a drive and lets go of it.
    pub async fn remove_drive(&self, pool: &str, drive: &str) -> Result<(), NodeError> {
        let _busy = self.start(pool, "the removal of a drive")?;
        let id = self.id_of(pool, drive)?;
        self.run(pool, async move |pool| pool.remove_drive(id).await)
            .await
    }

    /// Checks everything that lives, and repairs what can be.
    pub async fn scrub(&self, pool: &str) -> Result<ScrubReport, NodeError> {
        let _busy = self.start(pool, "a scrub")?;
        self.run(pool, async |pool| pool.scrub().await).await
    }

    /// Ends a scrub that is under way.
    pub fn stop_scrub(&self) {
        // One that has failed does not scrub.
        let _ = self.scope.call(|| self.pool.stop_scrub());
    }

    fn start(&self, pool: &str, what: &'static str) -> Result<Busy<'_>, NodeError> {
        self.idle(pool)?;
        self.busy.set(Some(what));
        Ok(Busy(self))
    }

    fn idle(&self, pool: &str) -> Result<(), NodeError> {
        match self.busy.get() {
            None => Ok(()),
            Some(with) => Err(NodeError::PoolBusy {
                pool: pool.to_owned(),
                with,
            }),
        }
    }

    fn id_of(&self, pool: &str, drive: &str) -> Result<DriveId, NodeError> {
        let names = self.names.borrow();
        let found = names.iter().find(|(_, name)| *name == drive);
        found.map(|(id, _)| *id).ok_or_else(|| {
            let unknown = PoolError::NotFound("drive in the pool");
            NodeError::pool(pool, unknown, &[])
        })
    }
}

/// Tells once that a panic has ended a pool.
fn watch(scope: &Scope, pool: String, sink: EventSink) -> impl Future<Output = ()> + use<> {
    let failed = scope.failed();
    async move {
        let fault = failed.await.to_string();
        sink(NodeEvent::PoolFailed { pool, fault });
    }
}

fn devices(seated: &[Seated]) -> Vec<Member> {
    seated.iter().map(|(_, member)| member.clone()).collect()
}

fn named(seated: &[Seated]) -> Vec<String> {
    seated.iter().map(|(drive, _)| drive.clone()).collect()
}
