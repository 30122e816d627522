//! [`World`]: the drives, the model, and a life of the pool between two power failures.

mod changes;
mod clients;
mod comparing;
mod drives;
mod extents;
mod labels;
mod leaving;
mod misfortunes;
mod outages;
mod refusals;
mod rivals;
mod served;
mod settings;
mod witnesses;

use crate::drive::{Power, SimDrive};
use crate::model::Image;
use crate::random::Random;
use crate::run::{Options, Report};
use changes::Pending;
use outages::Outages;
use pool::{
    CreateOptions, DriveId, Entropy, HostId, Level, OpenOptions, PoolError, Settings, VolumeOptions,
};
use reactor::Reactor;
use rivals::Rest;
pub use served::{Device, Served};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;
use witnesses::Forgetful;

const BLOCK: usize = 4096;
/// Of a zone, which is a column of a segment.
const ZONE_BLOCKS: u64 = 32;
/// Virtual time after which clients that still work are stuck.
const PATIENCE: Duration = Duration::from_secs(60);
/// What one step of a pool may [count](reactor::count_work) at most. Pools of worlds are small, so
/// their steps count far less.
pub const STEP_MOST: u64 = 1 << 20;
/// A life that is to end by itself has this many drive operations to do so.
const OPERATIONS_MAX: u64 = 3_000_000;

/// What the pool should hold.
#[derive(Default)]
pub(crate) struct Model {
    pub volumes: BTreeMap<u32, Image>,
    pub snapshots: BTreeMap<u32, Image>,
    pub pending: Vec<Pending>,
    /// Volumes that a change needs for itself.
    pub reserved: BTreeSet<u32>,
    /// Volumes that may never be refused a write.
    pub reserving: BTreeSet<u32>,
    /// What volumes were called last that were renamed.
    pub names: BTreeMap<u32, String>,
}

/// What decides, each for itself, so that whoever asks one of them more often leaves the others as
/// they were: a seed goes on to mean mostly the same world.
pub(crate) struct Chance {
    pub random: Random,
    /// Decides what was added to worlds later.
    pub extra: Random,
    /// What was added later still.
    pub later: Random,
    /// Decides how hosts end.
    pub ends: Random,
    /// Decides which drives become bad while the pool has not got over others.
    pub more: Random,
    /// Decides which reads there are beside those of volumes.
    pub reads: Random,
    /// Decides who gives up waiting.
    pub patience: Random,
    /// Decides which drives answer nothing.
    pub silences: Random,
    /// Decides which requests outlast their process, and how long.
    pub lates: Random,
    /// Decides which bits of labels are wrong.
    pub bits: Random,
    /// Decides what bad drives lie about.
    pub lies: Random,
    /// Decides when drives are not ready.
    pub outages: Random,
    /// Decides who gives up waiting for what was always waited for once.
    pub leaving: Random,
    /// Decides when drives forget the newest label.
    pub witnesses: Random,
}

pub(crate) struct World {
    pub options: Options,
    pub level: Level,
    /// Every drive there has ever been; the pool's members are among them.
    drives: RefCell<Vec<SimDrive>>,
    /// By the place in `drives`: as what the pool knows it, if it does.
    ids: RefCell<Vec<Option<DriveId>>>,
    lost_max: usize,
    pub power: Rc<Power>,
    pub random: Random,
    /// See [`Chance`].
    extra: Random,
    later: Random,
    ends: Random,
    more: Random,
    reads: Random,
    patience: Random,
    silences: Random,
    lates: Random,
    bits: Random,
    lies: Random,
    outage_chance: Random,
    leaving: Random,
    /// Requests of every kind are given up.
    leaves: bool,
    witness_chance: Random,
    /// Drives without the label that this life wrote last.
    forgetful: RefCell<Option<Forgetful>>,
    outages: Outages,
    /// Since a bit of a label was wrong the pool has been open.
    labels_whole: Cell<bool>,
    /// Since a label of a dead process reached a drive the pool has not been opened.
    late_label: Cell<bool>,
    /// Drives that may be about to join, or not.
    undecided: RefCell<BTreeSet<usize>>,
    /// Columns of its segments.
    width: usize,
    bad: RefCell<Vec<usize>>,
    pub model: RefCell<Model>,
    pub report: Cell<Report>,
    /// Volumes outgrow the pool, and clients write much.
    pub crowded: bool,
    /// Blocks that nobody reads any more and that may still take space, at most: what is deleted
    /// may be an ancestor of what is not, and what is cut off a volume its ancestor may have.
    unnamed: Cell<u64>,
    /// How full the pool was, and when, each time before that became less.
    fuller: RefCell<Vec<(u64, refusals::Fill)>>,
    dealt: refusals::Dealt,
    /// A clock for the model: each event has its own time.
    now: Cell<u64>,
    names: Cell<u64>,
    /// The last byte of the host that has the pool.
    host: Cell<u8>,
    /// The pool as the host that runs now has it open.
    serving: RefCell<Option<Served>>,
    /// The host that runs now has lost the pool to another, and how it comes to run.
    deposed: Cell<Option<Rest>>,
    /// What such a host did that it may not.
    violation: RefCell<Option<String>>,
    /// What a client found that must not be. Others may wait for that client for ever.
    fault: RefCell<Option<String>>,
}

impl World {
    pub fn new(
        options: Options,
        (level, width): (Level, usize),
        drives: Vec<SimDrive>,
        power: Rc<Power>,
        chance: Chance,
        bad: Vec<usize>,
    ) -> World {
        let Chance {
            random,
            extra,
            later,
            ends,
            more,
            reads,
            patience,
            silences,
            lates,
            bits,
            lies,
            outages,
            leaving,
            witnesses,
        } = chance;
        World {
            crowded: options.crowded.unwrap_or(random.once_in(4)),
            leaves: options.newcomers && leaving.once_in(2),
            options,
            level,
            width,
            lost_max: level.drives_lost_max(width),
            ids: RefCell::new(vec![None; drives.len()]),
            drives: RefCell::new(drives),
            power,
            random,
            extra,
            later,
            ends,
            more,
            reads,
            patience,
            silences,
            lates,
            bits,
            lies,
            outage_chance: outages,
            leaving,
            witness_chance: witnesses,
            forgetful: RefCell::default(),
            outages: Outages::default(),
            labels_whole: Cell::new(true),
            late_label: Cell::new(false),
            undecided: RefCell::default(),
            bad: RefCell::new(bad),
            model: RefCell::default(),
            report: Cell::default(),
            unnamed: Cell::new(0),
            fuller: RefCell::default(),
            dealt: refusals::Dealt::default(),
            now: Cell::new(1),
            names: Cell::new(0),
            host: Cell::new(7),
            serving: RefCell::default(),
            deposed: Cell::new(None),
            violation: RefCell::default(),
            fault: RefCell::default(),
        }
    }

    pub fn report(&self) -> Report {
        self.report.get()
    }

    pub fn count(&self, change: impl FnOnce(&mut Report)) {
        let mut report = self.report.get();
        change(&mut report);
        self.report.set(report);
    }

    /// A loop for a host, no step of which may count more than it should.
    pub fn reactor(&self) -> Reactor {
        let reactor = Reactor::simulated(self.random.word());
        reactor.bound_steps(STEP_MOST);
        reactor
    }

    pub fn tick(&self) -> u64 {
        self.now.set(self.now.get() + 1);
        self.now.get()
    }

    pub fn fresh_name(&self) -> String {
        self.names.set(self.names.get() + 1);
        format!("name-{}", self.names.get())
    }

    fn settings(&self) -> Settings {
        Settings {
            map_cache_bytes: BLOCK * (16 + self.random.below(64) as usize),
            checkpoint_updates: 20 + self.random.below(400) as usize,
            // No random word, so that every world stays what it was: few rows, or all of a segment.
            cleaner_piece_blocks: [16, 64, 1024][self.options.seed as usize % 3],
            leaves_removed_at_once: [1, 9, 4096][self.options.seed as usize / 3 % 3],
            entries_in_a_row: [1024, 7, 1][self.options.seed as usize / 27 % 3],
            scrub_nodes_at_once: [1 << 20, 40, 1][self.options.seed as usize / 9 % 3],
            stripes_in_flight: 1 + self.random.below(6) as usize,
            ..Settings::default()
        }
    }

    fn host(&self) -> HostId {
        HostId([self.host.get(); 16])
    }

    /// Fails for the tasks of a host that has lost the pool, or the drives of it for too long.
    fn still_holds(&self) -> Result<(), String> {
        match self.deposed.get() {
            None if self.outage_ended_it() => Err("drives were away for too long".to_owned()),
            None => Ok(()),
            Some(_) => Err("this host has lost the pool".to_owned()),
        }
    }

    /// How many shards the pool is opened with this time, and how large slices are.
    fn shards(&self) -> (usize, u32) {
        match self.options.shards_max {
            0 | 1 => (1, Settings::default().slice_blocks),
            most => {
                let shards = 1 + self.random.below(most);
                (shards as usize, 16 << self.random.below(4))
            }
        }
    }

    /// Makes the pool; a power failure on the way makes it start over.
    pub fn create(&self) {
        for attempt in 0.. {
            let fuse = if attempt == 0 {
                1 + self.random.below(400)
            } else {
                OPERATIONS_MAX
            };
            self.power.switch_on(fuse);
            let reactor = self.reactor();
            let made = reactor.run(race(self.power.failed(), self.create_pool()));
            drop(reactor);
            self.lose_power();
            if made.is_some() {
                return;
            }
            assert!(
                attempt == 0,
                "seed={}: a pool cannot be made",
                self.options.seed
            );
        }
    }

    async fn create_pool(&self) {
        *self.model.borrow_mut() = Model::default();
        self.unnamed.set(0);
        let (shards, slice_blocks) = self.shards();
        let options = CreateOptions {
            zone_bytes: Some(ZONE_BLOCKS * BLOCK as u64),
            settings: Settings {
                slice_blocks,
                ..self.settings()
            },
            entropy: Entropy::seeded(self.random.word()),
            width: Some(self.width),
            ..CreateOptions::new("tank", self.level, self.host())
        };
        let drives = self.drives.borrow().clone();
        for drive in &drives {
            pool::wipe(drive).await.expect("a new drive can be wiped");
        }
        let pool = Served::create(shards, drives, options)
            .await
            .expect("a pool can be made");
        self.was_made(&pool);
        // One that is not ready when it is first asked is a member all the same.
        let members = pool.status().drives;
        *self.ids.borrow_mut() = members.iter().map(|member| Some(member.id)).collect();
        let volumes = 1 + self.random.below(3);
        for _ in 0..volumes {
            let blocks = 40 + self.random.below(if self.crowded { 3000 } else { 360 });
            let options = VolumeOptions {
                bytes: blocks * BLOCK as u64,
                ..VolumeOptions::default()
            };
            let id = pool
                .create_volume(&self.fresh_name(), options)
                .await
                .expect("a volume");
            self.model
                .borrow_mut()
                .volumes
                .insert(id.0, Image::zeroes(blocks));
        }
        pool.close().await.expect("a new pool can be closed");
    }

    /// One life: open, compare, work, and lose power on the way, or close in the end.
    pub fn live(self: &Rc<Self>, _life: u64, last: bool) -> Result<(), String> {
        let absent = self.misfortune(last);
        self.silence();
        self.deceive();
        self.spoil_last_label();
        let fuse = match last {
            true => OPERATIONS_MAX,
            false => self.random.below(16 << self.random.below(10)),
        };
        self.power.switch_on(fuse);
        let reactor = self.reactor();
        let outcome = reactor.run(race(
            self.power.failed(),
            self.clone().work(absent, last, false),
        ));
        drop(reactor);
        let ended = self.outage_ended_it();
        self.note_members();
        self.serving.take();
        self.check_witnesses()?;
        self.end_outage();
        self.end_host();
        self.count(|report| report.crashes += u64::from(outcome.is_none()));
        if let Some(found) = self.fault.take() {
            return Err(found);
        }
        match outcome {
            Some(Err(_)) if ended => Ok(()),
            Some(result) => result,
            None if last => Err("does not come to rest".to_owned()),
            None => Ok(()),
        }
    }

    /// `force`: another host has the pool, and stands still.
    async fn work(
        self: Rc<Self>,
        absent: BTreeSet<usize>,
        last: bool,
        force: bool,
    ) -> Result<(), String> {
        self.undecided.borrow_mut().clear();
        self.land_late_requests();
        self.may_begin_outage();
        let all = self.drives.borrow().clone();
        self.identify(&all).await;
        let present = all
            .into_iter()
            .enumerate()
            .filter(|(index, _)| !absent.contains(index));
        let mut drives: Vec<SimDrive> = present.map(|(_, drive)| drive).collect();
        for index in (1..drives.len()).rev() {
            drives.swap(index, self.random.below(index as u64 + 1) as usize);
        }
        let pool = self.open_in_time(drives, force).await?;
        self.serving.replace(Some(pool.clone()));
        self.labels_whole.set(true);
        self.late_label.set(false);
        self.fuller.borrow_mut().clear();
        self.reconcile(&pool)?;
        self.end_what_was_left();
        self.outage_is_over().await;
        self.compare(&pool).await?;
        if !last {
            self.may_begin_outage();
            let working = reactor::timeout(PATIENCE, self.let_clients_work(&pool)).await;
            working.map_err(|_| format!("requests are never answered: {}", pool.describe()))??;
            self.outage_is_over().await;
            self.still_holds()?;
            self.compare(&pool).await?;
        }
        self.still_holds()?;
        if !last {
            self.spoil_others(&pool);
            self.may_leave_witnesses(&pool).await?;
        }
        let counters = pool.counters();
        if counters.miscounted_segments > 0 {
            return Err("the maps gave up more of a segment than was counted".to_owned());
        }
        self.count(|report| {
            report.relocated += counters.relocated_blocks;
            report.rebalanced += counters.rebalanced_blocks;
            report.reconstructed += counters.reconstructed_reads;
        });
        let exports = self.later.once_in(4);
        let close = async {
            match exports {
                true => pool.export().await,
                false => pool.close().await,
            }
        };
        let closed = match last {
            true => close.await,
            // The process ends while it is being closed.
            false => self.or_leave(close).await.unwrap_or(Ok(())),
        };
        closed.map_err(|error| format!("the pool does not close: {error}"))
    }

    async fn open(&self, drives: Vec<SimDrive>, force: bool) -> Result<Served, String> {
        let (shards, slice_blocks) = self.shards();
        let options = OpenOptions {
            settings: Settings {
                slice_blocks,
                ..self.settings()
            },
            entropy: Entropy::seeded(self.random.word()),
            force,
            ..OpenOptions::new(self.host())
        };
        self.still_holds()?;
        let opened = self.may_leave_an_opening(shards, &drives, &options).await;
        self.still_holds()?;
        let mut opened = match opened {
            Some(opened) => opened,
            None => Served::open(shards, drives.clone(), options.clone()).await,
        };
        self.still_holds()?;
        while let Err(PoolError::Held { holder }) = &opened {
            // The one that was to have it died before it could say so.
            if !self.options.rivals {
                break;
            }
            let holder = holder.get(..2).unwrap_or_default();
            let holder = u8::from_str_radix(holder, 16).map_err(|error| error.to_string())?;
            self.host.set(holder);
            let host = self.host();
            let options = OpenOptions {
                host,
                ..options.clone()
            };
            opened = Served::open(shards, drives.clone(), options).await;
            self.still_holds()?;
        }
        let opened = opened.map_err(|error| format!("the pool does not open: {error}"))?;
        self.was_opened(&opened);
        Ok(opened)
    }
}

/// Runs both until one ends; `None` if it was the first.
pub(crate) async fn race<T>(
    stop: impl Future<Output = ()>,
    work: impl Future<Output = T>,
) -> Option<T> {
    let mut stop = pin!(stop);
    let mut work = pin!(work);
    poll_fn(|context| {
        if stop.as_mut().poll(context).is_ready() {
            return Poll::Ready(None);
        }
        work.as_mut().poll(context).map(Some)
    })
    .await
}
