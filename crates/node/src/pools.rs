//! [`Pools`]: the pools of one core, which it opened or has another shard of. The one place that
//! owns their handles, and the one that makes a device out of a volume of a pool.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use pool::{
    CreateOptions, DriveId, HostId, Level, MayLack, OpenOptions, Pool, PoolError, PoolEvent,
    PoolVolume, ScrubReport, Settings, Shard, VolumeId, Wiring,
};

use crate::NodeError;
use crate::member::Member;
use crate::spec::{EventSink, NodeEvent, PoolFacts};
use crate::taking::{self, Taking};

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
    joined: RefCell<BTreeMap<String, Shard<Member>>>,
}

/// A pool, and what its members are called in this node.
pub struct OpenPool {
    pool: Pool<Member>,
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
        (wiring, seated): (Wiring, Vec<Seated>),
    ) -> Result<PoolFacts, NodeError> {
        let options = CreateOptions {
            width: spec.width,
            settings: self.settings,
            ..CreateOptions::new(name, spec.level, host)
        };
        let refused = |error| NodeError::pool(name, error, &named(&seated));
        let checked = Pool::check_new(&devices(&seated), &options).await;
        checked.map_err(refused)?;
        for (drive, member) in &seated {
            taking::check(drive, member, spec.taking).await?;
        }
        if spec.taking == Taking::Wiped {
            for (drive, member) in &seated {
                taking::wipe(drive, member).await?;
            }
        }
        let made = Box::pin(Pool::create_on(wiring, devices(&seated), options)).await;
        let pool = made.map_err(|error| match spec.taking {
            Taking::Wiped => refused(error).after_wiping(),
            Taking::Blank | Taking::AsItIs => refused(error),
        })?;
        Ok(self.insert(name, pool, &seated).await)
    }

    /// Opens the pool that drives carry, of which this core has the first shard from now on.
    pub async fn open(
        &self,
        name: &str,
        how: PoolOpening,
        host: HostId,
        (wiring, seated): (Wiring, Vec<Seated>),
    ) -> Result<PoolFacts, NodeError> {
        let options = OpenOptions {
            force: how.force,
            accept_loss: how.accept_loss,
            may_lack: how.may_lack,
            settings: self.settings,
            ..OpenOptions::new(host)
        };
        let opened = Box::pin(Pool::open_on(wiring, devices(&seated), options)).await;
        let pool = opened.map_err(|error| NodeError::pool(name, error, &named(&seated)))?;
        Ok(self.insert(name, pool, &seated).await)
    }

    /// Facts are as of the opening: a pool may lose no time to forget a member that is missing.
    async fn insert(&self, name: &str, pool: Pool<Member>, seated: &[Seated]) -> PoolFacts {
        let status = pool.status();
        let mut names = BTreeMap::new();
        for (drive, member) in seated {
            // A drive that cannot be read is no member that works.
            if let Ok(Some(label)) = pool::probe(member).await {
                names.insert(label.drive, drive.clone());
            }
        }
        let open = Rc::new(OpenPool {
            pool,
            names: RefCell::new(names),
            busy: Cell::new(None),
        });
        let facts = PoolFacts {
            status,
            ..open.facts()
        };
        let telling = Rc::clone(&open).tell(name.to_owned(), Arc::clone(&self.events));
        drop(reactor::spawn(telling));
        self.open.borrow_mut().insert(name.to_owned(), open);
        facts
    }

    /// Takes part, with another shard, in a pool that another core makes or opens.
    pub async fn join(
        &self,
        name: &str,
        wiring: Wiring,
        seated: Vec<Seated>,
    ) -> Result<(), NodeError> {
        let joined = Shard::join(wiring, devices(&seated)).await;
        let shard = joined.map_err(|error| NodeError::pool(name, error, &named(&seated)))?;
        self.joined.borrow_mut().insert(name.to_owned(), shard);
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
        if let Some(shard) = self.joined.borrow().get(pool) {
            shard.offer_drive(member);
        }
    }

    /// Takes back the handles of drives that the pool did not take.
    pub fn withdraw_drives(&self, pool: &str) {
        if let Some(shard) = self.joined.borrow().get(pool) {
            shard.withdraw_drives();
        }
    }

    /// The pool `name`, which this core opened.
    pub fn get(&self, name: &str) -> Result<Rc<OpenPool>, NodeError> {
        let found = self.open.borrow().get(name).cloned();
        found.ok_or_else(|| NodeError::UnknownPool(name.to_owned()))
    }

    /// What this core's shard of a pool has of a volume.
    pub fn part(&self, pool: &str, id: VolumeId) -> Result<PoolVolume<Member>, NodeError> {
        let joined = self.joined.borrow().get(pool).map(|shard| shard.volume(id));
        let found = match joined {
            Some(found) => found,
            None => self.get(pool)?.pool.volume(id),
        };
        found.map_err(|error| NodeError::pool(pool, error, &[]))
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
            let closed = open.pool.close().await;
            let closed = closed.map_err(|error| NodeError::pool(&name, error, &[]));
            first_failure = first_failure.and(closed);
        }
        first_failure
    }
}

impl OpenPool {
    /// The handle itself.
    pub fn pool(&self) -> &Pool<Member> {
        &self.pool
    }

    /// The pool as it stands, its members by the names that drives have here.
    pub fn facts(&self) -> PoolFacts {
        let status = self.pool.status();
        let member = |id: &DriveId| status.drives.iter().any(|drive| drive.id == *id);
        self.names.borrow_mut().retain(|id, _| member(id));
        PoolFacts {
            counters: self.pool.counters(),
            names: self.names.borrow().clone(),
            busy: self.busy.get(),
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
        let known = self.pool.check_joining(&member).await.map_err(refused)?;
        let wiped = !known && taking == Taking::Wiped;
        if !known {
            taking::check(&drive, &member, taking).await?;
        }
        if wiped {
            taking::wipe(&drive, &member).await?;
        }
        let added = self.pool.add_drive(member).await;
        let id = added.map_err(|error| match wiped {
            true => refused(error).after_wiping(),
            false => refused(error),
        })?;
        let mut names = self.names.borrow_mut();
        // It may have been a member that failed, and is another one now.
        names.retain(|_, name| *name != drive);
        names.insert(id, drive);
        Ok(())
    }

    /// Takes a drive out of use for good.
    pub async fn fail_drive(&self, drive: &str) -> Result<(), PoolError> {
        self.pool.fail_drive(self.id_of(drive)?).await
    }

    /// Moves everything off a drive and lets go of it.
    pub async fn remove_drive(&self, pool: &str, drive: &str) -> Result<(), NodeError> {
        let _busy = self.start(pool, "the removal of a drive")?;
        let named = |error| NodeError::pool(pool, error, &[]);
        let id = self.id_of(drive).map_err(named)?;
        self.pool.remove_drive(id).await.map_err(named)
    }

    /// Checks everything that lives, and repairs what can be.
    pub async fn scrub(&self, pool: &str) -> Result<ScrubReport, NodeError> {
        let _busy = self.start(pool, "a scrub")?;
        let scrubbed = self.pool.scrub().await;
        scrubbed.map_err(|error| NodeError::pool(pool, error, &[]))
    }

    /// Ends a scrub that is under way.
    pub fn stop_scrub(&self) {
        self.pool.stop_scrub();
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

    fn id_of(&self, drive: &str) -> Result<DriveId, PoolError> {
        let names = self.names.borrow();
        let found = names.iter().find(|(_, name)| *name == drive);
        found
            .map(|(id, _)| *id)
            .ok_or(PoolError::NotFound("drive in the pool"))
    }
}

fn devices(seated: &[Seated]) -> Vec<Member> {
    seated.iter().map(|(_, member)| member.clone()).collect()
}

fn named(seated: &[Seated]) -> Vec<String> {
    seated.iter().map(|(drive, _)| drive.clone()).collect()
}
