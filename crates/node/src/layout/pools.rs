//! Pools in the layout: which cores have their shards, and which drives they take.

use std::collections::BTreeSet;
use std::rc::Rc;

use pool::{Pool, PoolError, ScrubReport, Wiring};
use reactor::Scope;

use super::{Layout, Places};
use crate::core::Core;
use crate::core::open_pools::{Given, PoolOpening, PoolSpec};
use crate::counts::DriveCounts;
use crate::error::NodeError;
use crate::spec::{DriveLabel, PoolFacts};
use crate::taking::Taking;
use crate::volume::member::{Member, Seat};

/// A pool, and the drives that it was given.
pub(super) struct PoolPlace {
    /// A shard is on each; the first opened it.
    pub cores: Vec<usize>,
    pub seats: Vec<Seat>,
    /// It is being made, opened or closed: its drives are its own, and nothing else is known.
    pub unsettled: bool,
}

/// Where a pool comes from.
enum Origin {
    New(PoolSpec),
    Drives(PoolOpening),
}

impl Layout {
    /// Makes a pool.
    pub async fn create_pool(&self, name: String, spec: PoolSpec) -> Result<PoolFacts, NodeError> {
        let drives = spec.drives.clone();
        self.start_pool(name, &drives, Origin::New(spec)).await
    }

    /// Opens the pool that `drives` carry; those of them that are no current members stay free.
    pub async fn open_pool(
        &self,
        name: String,
        drives: Vec<String>,
        how: PoolOpening,
    ) -> Result<PoolFacts, NodeError> {
        self.start_pool(name, &drives, Origin::Drives(how)).await
    }

    /// Opens a pool with a shard on every core; the first is where the fewest are.
    async fn start_pool(
        &self,
        name: String,
        drives: &[String],
        origin: Origin,
    ) -> Result<PoolFacts, NodeError> {
        let _turn = self.turn.lock().await;
        let (cores, seats) = self.take_drives(&name, drives).await?;
        let mut wirings = pool::wire(cores.len()).into_iter();
        let wiring = wirings.next().ok_or(NodeError::Stopped)?;
        let scope = Scope::new().share();
        let join = |(core, wiring): (&usize, Wiring)| {
            let (key, seats, scope) = (name.clone(), seats.clone(), scope.clone());
            self.on(*core, move |core| async move {
                let given = Given {
                    wiring,
                    seated: core.members(&seats).await?,
                    scope: scope.here(),
                };
                core.pools().join(&key, given).await
            })
        };
        let joining: Vec<_> = cores[1..].iter().zip(wirings).map(join).collect();
        let (host, key) = (self.host, name.clone());
        let opened = self.on(cores[0], move |core| async move {
            let given = Given {
                wiring,
                seated: core.members(&seats).await?,
                scope: scope.here(),
            };
            let pools = core.pools();
            match origin {
                Origin::New(spec) => pools.create(&key, &spec, host, given).await,
                Origin::Drives(how) => pools.open(&key, how, host, given).await,
            }
        });
        let opened = opened.await;
        for joined in joining {
            // A pool opens only with all its shards, so it knows why one did not join.
            let _ = joined.await;
        }
        self.settle(name, opened).await
    }

    /// Has drives be those of a pool that is about to be there.
    async fn take_drives(
        &self,
        name: &str,
        drives: &[String],
    ) -> Result<(Vec<usize>, Vec<Seat>), NodeError> {
        let mut places = self.places.lock().await;
        self.check_new(&mut places, name, drives).await?;
        let cores = places.cores_for_pool(self.cores.len());
        let seats = self.seat_all(&mut places, drives).await?;
        let place = PoolPlace {
            cores: cores.clone(),
            seats: seats.clone(),
            unsettled: true,
        };
        places.pools.insert(name.to_owned(), place);
        Ok((cores, seats))
    }

    /// Closes a pool whose volumes are not served any more: kept for this host, let go of so that
    /// any host may open it, or destroyed.
    pub async fn close_pool(&self, name: String, how: PoolEnd) -> Result<(), NodeError> {
        let _turn = self.turn.lock().await;
        let core = {
            let mut places = self.places.lock().await;
            places.running()?;
            if let Some(volume) = places.volume_on(&name) {
                return Err(NodeError::PoolInUse { pool: name, volume });
            }
            places.set_unsettled(&name, true)?
        };
        let key = name.clone();
        let closed = self.on(core, move |core| async move {
            let open = core.pools().remove(&key)?;
            let end = async move |pool: Pool<Member>| match how {
                PoolEnd::Export => pool.export().await,
                PoolEnd::Destroy => pool.destroy().await,
            };
            open.run(&key, end).await
        });
        let closed = closed.await;
        let mut places = self.places.lock().await;
        if matches!(closed, Err(NodeError::PoolBusy { .. })) {
            places.set_unsettled(&name, false)?;
            return closed;
        }
        self.homes.borrow_mut().remove(&name);
        if let Some(place) = places.pools.remove(&name) {
            for other in &place.cores[1..] {
                let key = name.clone();
                let left = self.on(*other, move |core| async move {
                    core.pools().leave(&key);
                    Ok(())
                });
                left.await?;
            }
            self.unseat(&place.seats).await?;
            if how == PoolEnd::Destroy && closed.is_ok() {
                for seat in &place.seats {
                    self.wipe_forgotten(&places, &seat.drive).await?;
                }
            }
        }
        closed
    }

    /// Wipes a drive that its pool has let go of: what is left of that must not look like anything.
    async fn wipe_forgotten(&self, places: &Places, drive: &str) -> Result<(), NodeError> {
        let (home, name) = (places.drive_core(drive)?, drive.to_owned());
        let work = move |core: Rc<Core>| async move { core.wipe_forgotten(&name).await };
        self.on(home, work).await
    }

    /// A pool as it stands.
    pub async fn pool_facts(&self, name: String) -> Result<PoolFacts, NodeError> {
        let mut places = self.places.lock().await;
        places.running()?;
        self.refresh(&mut places, &name).await
    }

    /// The same, for who must not wait for changes that are under way; what the pool has let go of
    /// by itself stays taken.
    pub async fn pool_seen(&self, name: String) -> Result<PoolFacts, NodeError> {
        let core = self.pool_core(&name)?;
        let work = move |core: Rc<Core>| async move { Ok(core.pools().get(&name)?.facts()) };
        self.on(core, work).await
    }

    /// What a drive carries. Neither this nor the two below hold up a change: the drive may take
    /// for ever.
    pub async fn drive_label(&self, drive: String) -> Result<DriveLabel, NodeError> {
        let home = self.drive_home(&drive)?;
        let work = move |core: Rc<Core>| async move { core.label(&drive).await };
        self.on(home, work).await
    }

    /// The contents of a drive beside labels of pools, in words.
    pub async fn drive_contents(&self, drive: String) -> Result<Option<String>, NodeError> {
        let home = self.drive_home(&drive)?;
        let work = move |core: Rc<Core>| async move { core.contents(&drive).await };
        self.on(home, work).await
    }

    /// The contents of a drive before the label of a pool, in words.
    pub async fn leftovers(&self, drive: String) -> Result<Option<String>, NodeError> {
        let home = self.drive_home(&drive)?;
        let work = move |core: Rc<Core>| async move { core.leftovers(&drive).await };
        self.on(home, work).await
    }

    /// Wipes a drive before the label of its pool, which may be open: pools do not go there.
    pub async fn wipe_leftovers(&self, drive: String) -> Result<(), NodeError> {
        let places = self.places.lock().await;
        places.running()?;
        let home = places.drive_core(&drive)?;
        let work = move |core: Rc<Core>| async move { core.wipe_leftovers(&drive).await };
        self.on(home, work).await
    }

    /// Makes a drive that nothing uses forget a pool that it carries, and nothing else.
    pub async fn clear_label(&self, drive: String) -> Result<(), NodeError> {
        let places = self.places.lock().await;
        let home = places.unused_drive(&drive)?;
        let work = move |core: Rc<Core>| async move { core.clear_label(&drive).await };
        self.on(home, work).await
    }

    /// Makes a drive that nothing uses hold nothing that anybody would recognise.
    pub async fn wipe_drive(&self, drive: String) -> Result<(), NodeError> {
        let mut places = self.places.lock().await;
        self.refresh_all(&mut places).await?;
        let home = places.unused_drive(&drive)?;
        self.check_usable(&places, &drive).await?;
        let work = move |core: Rc<Core>| async move { core.wipe(&drive).await };
        self.on(home, work).await
    }

    /// Adds a drive to a pool that nothing uses, be it one of its members that failed.
    pub async fn add_pool_drive(
        &self,
        name: String,
        drive: String,
        taking: Taking,
    ) -> Result<(), NodeError> {
        let mut places = self.places.lock().await;
        self.refresh_all(&mut places).await?;
        self.free_failed(&mut places, &name, &drive).await?;
        places.unused_drive(&drive)?;
        self.check_usable(&places, &drive).await?;
        let cores = places.pool(&name)?.cores.clone();
        let seat = self.seat(&mut places, &drive).await?;
        let added = self.join_drive(&name, &cores, &seat, taking).await;
        match places.pools.get_mut(&name) {
            Some(place) if added.is_ok() => place.seats.push(seat),
            _ => self.unseat(&[seat]).await?,
        }
        added
    }

    /// Lets go of a drive that a pool has and does not use because it failed.
    async fn free_failed(
        &self,
        places: &mut Places,
        pool: &str,
        drive: &str,
    ) -> Result<(), NodeError> {
        let facts = self.refresh(places, pool).await?;
        let called = |id| facts.names.get(id).is_some_and(|name| name == drive);
        let mut members = facts.status.drives.iter();
        if members.any(|member| member.active && called(&member.id)) {
            return Ok(());
        }
        let Some(place) = places.pools.get_mut(pool) else {
            return Ok(());
        };
        let of_drive = |seat: &mut Seat| seat.drive == drive;
        let failed: Vec<Seat> = place.seats.extract_if(.., of_drive).collect();
        self.unseat(&failed).await
    }

    /// Gives every shard of a pool its handle of a drive, and has the pool take it.
    async fn join_drive(
        &self,
        pool: &str,
        cores: &[usize],
        seat: &Seat,
        taking: Taking,
    ) -> Result<(), NodeError> {
        for other in &cores[1..] {
            let (key, seated) = (pool.to_owned(), seat.clone());
            let offered = self.on(*other, move |core| async move {
                let member = core.member(&seated).await?;
                core.pools().offer_drive(&key, member);
                Ok(())
            });
            offered.await?;
        }
        let (key, seated) = (pool.to_owned(), seat.clone());
        let added = self.on(cores[0], move |core| async move {
            let member = core.member(&seated).await?;
            let open = core.pools().get(&key)?;
            open.add_drive(&key, seated.drive, member, taking).await
        });
        let added = added.await;
        for other in &cores[1..] {
            let key = pool.to_owned();
            let withdrawn = self.on(*other, move |core| async move {
                core.pools().withdraw_drives(&key);
                Ok(())
            });
            withdrawn.await?;
        }
        added
    }

    /// Takes a drive of a pool out of use for good.
    pub async fn fail_pool_drive(&self, name: String, drive: String) -> Result<(), NodeError> {
        let core = self.pool_core(&name)?;
        let work = move |core: Rc<Core>| async move {
            core.pools().get(&name)?.fail_drive(&name, &drive).await
        };
        self.on(core, work).await
    }

    /// Moves everything off a drive of a pool and lets go of it: takes as long as that takes.
    pub async fn remove_pool_drive(&self, name: String, drive: String) -> Result<(), NodeError> {
        let core = self.pool_core(&name)?;
        let (key, removed) = (name.clone(), drive.clone());
        let work = move |core: Rc<Core>| async move {
            core.pools().get(&key)?.remove_drive(&key, &removed).await
        };
        self.on(core, work).await?;
        let mut places = self.places.lock().await;
        self.refresh(&mut places, &name).await?;
        self.wipe_forgotten(&places, &drive).await
    }

    /// Checks everything that lives in a pool: takes as long as that takes.
    pub async fn scrub_pool(&self, name: String) -> Result<ScrubReport, NodeError> {
        let core = self.pool_core(&name)?;
        let work = move |core: Rc<Core>| async move { core.pools().get(&name)?.scrub(&name).await };
        self.on(core, work).await
    }

    /// Ends a scrub that is under way.
    pub async fn stop_scrub(&self, name: String) -> Result<(), NodeError> {
        let core = self.pool_core(&name)?;
        let work = move |core: Rc<Core>| async move {
            core.pools().get(&name)?.stop_scrub();
            Ok(())
        };
        self.on(core, work).await
    }

    /// Runs `work` with a pool on its core.
    pub async fn with_pool<T, W, F>(&self, name: String, work: W) -> Result<T, NodeError>
    where
        T: Send + 'static,
        W: FnOnce(Pool<Member>) -> F + Send + 'static,
        F: Future<Output = Result<T, PoolError>> + 'static,
    {
        let core = self.pool_core(&name)?;
        let work =
            move |core: Rc<Core>| async move { core.pools().get(&name)?.run(&name, work).await };
        self.on(core, work).await
    }

    /// Tells hosts that a volume has another size.
    pub async fn volume_resized(&self, name: String) -> Result<u64, NodeError> {
        let places = self.places.lock().await;
        places.running()?;
        let place = places.volumes.get(&name);
        let place = place.ok_or_else(|| NodeError::UnknownVolume(name.clone()))?;
        Ok(self.refresh_size(&places, place).await?.capacity_bytes())
    }

    /// Forgets drives that pools have let go of by themselves.
    pub(super) async fn refresh_all(&self, places: &mut Places) -> Result<(), NodeError> {
        places.running()?;
        let settled = places.pools.iter().filter(|(_, place)| !place.unsettled);
        let names: Vec<String> = settled.map(|(name, _)| name.clone()).collect();
        for name in names {
            self.refresh(places, &name).await?;
        }
        Ok(())
    }

    async fn refresh(&self, places: &mut Places, name: &str) -> Result<PoolFacts, NodeError> {
        let core = places.pool(name)?.cores[0];
        let key = name.to_owned();
        let asked = self.on(core, move |core| async move {
            Ok(core.pools().get(&key)?.facts())
        });
        let facts = asked.await?;
        if let Some(place) = places.pools.get_mut(name) {
            let let_go = release(place, &facts);
            self.unseat(&let_go).await?;
        }
        Ok(facts)
    }

    fn pool_core(&self, name: &str) -> Result<usize, NodeError> {
        let home = self.homes.borrow().get(name).copied();
        home.ok_or_else(|| NodeError::UnknownPool(name.to_owned()))
    }

    fn drive_home(&self, drive: &str) -> Result<usize, NodeError> {
        let home = self.drives.borrow().get(drive).copied();
        home.ok_or_else(|| NodeError::UnknownDrive(drive.to_owned()))
    }

    async fn check_new(
        &self,
        places: &mut Places,
        name: &str,
        drives: &[String],
    ) -> Result<(), NodeError> {
        self.refresh_all(places).await?;
        if places.pools.contains_key(name) {
            return Err(NodeError::PoolExists(name.to_owned()));
        }
        let mut seen = BTreeSet::new();
        for drive in drives {
            places.unused_drive(drive)?;
            self.check_usable(places, drive).await?;
            if !seen.insert(drive) {
                return Err(NodeError::DriveTwice(drive.clone()));
            }
        }
        Ok(())
    }

    /// Remembers where an opened pool is, or takes back what was done for it.
    async fn settle(
        &self,
        name: String,
        opened: Result<PoolFacts, NodeError>,
    ) -> Result<PoolFacts, NodeError> {
        let mut places = self.places.lock().await;
        let Some(place) = places.pools.get_mut(&name) else {
            return opened;
        };
        let unused = match &opened {
            Ok(facts) => {
                place.unsettled = false;
                let home = place.cores[0];
                self.homes.borrow_mut().insert(name.clone(), home);
                release(place, facts)
            }
            Err(_) => std::mem::take(&mut place.seats),
        };
        if opened.is_err() {
            places.pools.remove(&name);
        }
        self.unseat(&unused).await?;
        opened
    }

    async fn seat_all(
        &self,
        places: &mut Places,
        drives: &[String],
    ) -> Result<Vec<Seat>, NodeError> {
        let mut seats = Vec::with_capacity(drives.len());
        for drive in drives {
            seats.push(self.seat(places, drive).await?);
        }
        Ok(seats)
    }

    /// Makes a drive reachable from every core.
    async fn seat(&self, places: &mut Places, drive: &str) -> Result<Seat, NodeError> {
        let home = places.drive_core(drive)?;
        let (id, name) = (places.take_id(), drive.to_owned());
        let lent = self.on(home, move |core| async move { core.lend(&name, id) });
        Ok(Seat {
            drive: drive.to_owned(),
            home,
            lent: lent.await?,
        })
    }

    /// Takes back what [`seat`](Layout::seat) did.
    async fn unseat(&self, seats: &[Seat]) -> Result<(), NodeError> {
        for seat in seats {
            let mut counted = DriveCounts::default();
            for other in self.others(seat.home) {
                let drive = seat.drive.clone();
                let work = move |core: Rc<Core>| async move { Ok(core.dismiss(&drive)) };
                counted.add(self.on(other, work).await?);
            }
            let (drive, id) = (seat.drive.clone(), seat.lent.id);
            let taken = self.on(seat.home, move |core| async move {
                core.take_back(&drive, id, counted);
                Ok(())
            });
            taken.await?;
        }
        Ok(())
    }
}

/// How a pool is closed for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolEnd {
    /// Any host may open it.
    Export,
    /// Its drives forget it.
    Destroy,
}

/// Takes out the drives that the pool does not have among its members.
fn release(place: &mut PoolPlace, facts: &PoolFacts) -> Vec<Seat> {
    let member = |seat: &Seat| facts.names.values().any(|name| *name == seat.drive);
    let (kept, let_go) = std::mem::take(&mut place.seats)
        .into_iter()
        .partition(member);
    place.seats = kept;
    let_go
}

impl Places {
    pub(super) fn pool(&self, name: &str) -> Result<&PoolPlace, NodeError> {
        let found = self.pools.get(name);
        found.ok_or_else(|| NodeError::UnknownPool(name.to_owned()))
    }

    /// The core that opened the pool.
    fn set_unsettled(&mut self, name: &str, unsettled: bool) -> Result<usize, NodeError> {
        let found = self.pools.get_mut(name);
        let place = found.ok_or_else(|| NodeError::UnknownPool(name.to_owned()))?;
        place.unsettled = unsettled;
        Ok(place.cores[0])
    }

    /// All cores, the one first that opened the fewest pools.
    fn cores_for_pool(&self, cores: usize) -> Vec<usize> {
        let pools = self.pools.values();
        let opened = |core: usize| pools.clone().filter(|pool| pool.cores[0] == core).count();
        let first = (0..cores).min_by_key(|core| opened(*core)).unwrap_or(0);
        (0..cores).map(|turn| (first + turn) % cores).collect()
    }
}
