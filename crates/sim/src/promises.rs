//! What a pool keeps where one of its drives does one thing wrong, with redundancy left and with
//! none: each [trial](run_cell) is a pool that lives four lives.
//!
//! In the first one drives do what they say, and as many are lost as the trial asks for. In the
//! second one the fault comes, at a moment that the seed chooses, and the life ends by a close, by
//! the death of the process, or by power loss. In the third one all is read and compared with all
//! that blocks ever were; in the fourth one it must be so still. A read may be right, fail, or
//! bring what a block was before, as far as the [table] says. It never brings anything else.
//!
//! [table]: TABLE

mod history;
mod steps;
mod table;

use crate::drive::{Lie, Power, SimDrive};
use crate::random::Random;
use crate::run::Report;
use crate::world::{STEP_MOST, race};
use history::History;
use pool::{
    CreateOptions, DriveId, Entropy, HostId, Level, OpenOptions, Pool, PoolError, PoolState,
    Settings, SnapshotId, VolumeId, VolumeOptions,
};
use reactor::Reactor;
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;
pub use table::{COLUMNS, Fault, Promise, Redundancy, TABLE};

const BLOCK: usize = 4096;
const HOST: HostId = HostId([0x11; 16]);
/// Virtual time within which a life comes to its end.
const PATIENCE: Duration = Duration::from_secs(3600);
const SNAPSHOTS_MAX: usize = 2;
/// A drive that is lost is made up for within so many times so long, where that can be.
const REBUILT_WITHIN: u32 = 30;
const REBUILD_LOOK: Duration = Duration::from_secs(2);

/// A pool in which one thing goes wrong.
struct Trial {
    random: Random,
    fault: Fault,
    redundancy: Redundancy,
    level: Level,
    power: Rc<Power>,
    drives: Vec<SimDrive>,
    /// Places of drives that are lost.
    gone: RefCell<BTreeSet<usize>>,
    /// The drive that does wrong.
    culprit: Cell<usize>,
    blocks: u64,
    volume: Cell<VolumeId>,
    now: RefCell<History>,
    /// With the operation that took each.
    snapshots: RefCell<Vec<(SnapshotId, u64, History)>>,
    operation: Cell<u64>,
    /// The last operation that was acknowledged.
    last: Cell<u64>,
    /// As of the last crash.
    crashed: Cell<Option<u64>>,
    worst: Cell<Promise>,
    requests: Cell<u64>,
    crashes: Cell<u64>,
}

/// Tries a fault of the table that the seed chooses.
///
/// # Errors
/// The pool kept less than it promises, with the seed.
pub fn run(seed: u64) -> Result<Report, String> {
    let random = Random::new(seed ^ 0x7ab1_e000_0000);
    let row = random.below(TABLE.len() as u64) as usize;
    let column = random.below(COLUMNS.len() as u64) as usize;
    run_cell(row, column, seed).map(|(_, report)| report)
}

/// Tries what one cell of the table says: the least that the pool kept, and what was done.
///
/// # Errors
/// The pool kept less than it promises, with the seed.
pub fn run_cell(row: usize, column: usize, seed: u64) -> Result<(Promise, Report), String> {
    let (fault, promises) = TABLE[row];
    let (kept, report) = run_one(fault, COLUMNS[column], seed)?;
    match kept <= promises[column] {
        true => Ok((kept, report)),
        false => Err(format!(
            "seed={seed} {fault:?} {:?}: {kept:?}, not {:?}",
            COLUMNS[column], promises[column]
        )),
    }
}

/// Tries one fault with one level: the least that the pool kept, and what was done.
///
/// # Errors
/// Something was read that never was, or was changed with no crash in between.
fn run_one(
    fault: Fault,
    column: (Level, Redundancy),
    seed: u64,
) -> Result<(Promise, Report), String> {
    let trial = Trial::new(fault, column, seed);
    let lived = trial.live_all();
    lived.map_err(|found| format!("seed={seed} {fault:?} {column:?}: {found}"))?;
    let report = Report {
        crashes: trial.crashes.get(),
        requests: trial.requests.get(),
        ..Report::default()
    };
    Ok((trial.worst.get(), report))
}

impl Trial {
    fn new(fault: Fault, (level, redundancy): (Level, Redundancy), seed: u64) -> Trial {
        let random = Random::new(seed);
        // What is said of mirrors is said of both.
        let level = match level {
            Level::Raid1 if random.once_in(3) => Level::Raid10,
            level => level,
        };
        let least = level.drives_min() as u64;
        let count = least + random.below(2);
        let power = Power::new(random.word());
        power.switch_on(u64::MAX);
        let drives = (0..count).map(|_| SimDrive::new(1100, power.clone()));
        Trial {
            drives: drives.collect(),
            power,
            fault,
            redundancy,
            level,
            gone: RefCell::default(),
            culprit: Cell::new(0),
            blocks: 40 + random.below(100),
            volume: Cell::new(VolumeId(0)),
            now: RefCell::default(),
            snapshots: RefCell::default(),
            operation: Cell::new(0),
            last: Cell::new(0),
            crashed: Cell::new(None),
            worst: Cell::new(Promise::Right),
            requests: Cell::new(0),
            crashes: Cell::new(0),
            random,
        }
    }

    fn live_all(&self) -> Result<(), String> {
        self.live(self.begin())?;
        let left = self.left();
        let culprit = self.random.below(left.len() as u64) as usize;
        self.culprit.set(left.get(culprit).copied().unwrap_or(0));
        let is_late = self.may_be_late() && self.random.once_in(2);
        if self.fault == Fault::Lie(Lie::OldContent) {
            // What it brings back later it has to know.
            self.culprit().lie(Lie::OldContent, 1, 0);
        }
        self.live(self.suffer(!is_late))?;
        if is_late {
            self.inject();
        } else if self.fault != Fault::Lie(Lie::WrongRead) {
            self.culprit().tell_truth();
        }
        self.live(self.judge_all())?;
        self.culprit().tell_truth();
        self.live(self.judge_again())
    }

    /// One life, which ends as `work` says, or with the power.
    fn live(&self, work: impl Future<Output = Result<End, String>>) -> Result<(), String> {
        let reactor = Reactor::simulated(self.random.word());
        reactor.bound_steps(STEP_MOST);
        let limited = async {
            let ended = reactor::timeout(PATIENCE, work).await;
            ended.unwrap_or_else(|_| Err("a life comes to no end".to_owned()))
        };
        let ended = reactor.run(race(self.power.failed(), limited));
        drop(reactor);
        let end = ended.unwrap_or(Ok(End::PowerLoss))?;
        if end != End::Closed {
            self.crashed.set(Some(self.last.get()));
            self.crashes.set(self.crashes.get() + 1);
        }
        for drive in &self.drives {
            match end {
                End::Closed => {}
                End::Death => drive.lose_host(),
                End::PowerLoss => drive.lose_power(),
            }
        }
        self.power.switch_on(u64::MAX);
        Ok(())
    }

    fn culprit(&self) -> &SimDrive {
        &self.drives[self.culprit.get()]
    }

    /// Places of drives that are not lost.
    fn left(&self) -> Vec<usize> {
        let gone = self.gone.borrow();
        let all = 0..self.drives.len();
        all.filter(|place| !gone.contains(place)).collect()
    }

    fn kept(&self, promise: Promise) {
        self.worst.set(self.worst.get().max(promise));
    }

    fn settings(&self) -> Settings {
        Settings {
            map_cache_bytes: BLOCK * self.random.below(32) as usize,
            checkpoint_updates: 20 + self.random.below(200) as usize,
            ..Settings::default()
        }
    }

    async fn open(&self) -> Result<Pool<SimDrive>, PoolError> {
        let left = self.left().into_iter();
        let drives = left.map(|place| self.drives[place].clone()).collect();
        let options = OpenOptions {
            entropy: Entropy::seeded(self.random.word()),
            settings: self.settings(),
            ..OpenOptions::new(HOST)
        };
        Pool::open(drives, options).await
    }

    /// The first life: all goes well but that drives may be lost.
    async fn begin(&self) -> Result<End, String> {
        let options = CreateOptions {
            zone_bytes: Some(32 * BLOCK as u64),
            entropy: Entropy::seeded(self.random.word()),
            settings: self.settings(),
            ..CreateOptions::new("tank", self.level, HOST)
        };
        let said = |error: PoolError| format!("before the fault: {error}");
        let pool = Pool::create(self.drives.clone(), options).await;
        let pool = pool.map_err(said)?;
        let options = VolumeOptions {
            bytes: self.blocks * BLOCK as u64,
            ..VolumeOptions::default()
        };
        let volume = pool.create_volume("volume", options).await.map_err(said)?;
        self.volume.set(volume);
        for _ in 0..10 + self.random.below(40) {
            self.step(&pool).await?;
        }
        if self.redundancy == Redundancy::None {
            let ids: Vec<DriveId> = pool.status().drives.iter().map(|it| it.id).collect();
            self.lose_redundancy(&pool, &ids).await.map_err(said)?;
            for _ in 0..self.random.below(20) {
                self.step(&pool).await?;
            }
        }
        if self.worst.get() != Promise::Right {
            return Err("something failed before the fault".to_owned());
        }
        if self.random.once_in(4) {
            return Ok(End::PowerLoss);
        }
        pool.close().await.map_err(said)?;
        Ok(End::Closed)
    }

    /// As many drives are lost as may be, once or as often as the pool makes up for them.
    async fn lose_redundancy(
        &self,
        pool: &Pool<SimDrive>,
        ids: &[DriveId],
    ) -> Result<(), PoolError> {
        let again = self.random.once_in(2);
        loop {
            let left = self.left();
            if pool.status().drives_to_spare == 0 || left.len() == 1 {
                return Ok(());
            }
            let place = left[self.random.below(left.len() as u64) as usize];
            pool.fail_drive(ids[place]).await?;
            self.gone.borrow_mut().insert(place);
            for _ in 0..REBUILT_WITHIN {
                if !again || pool.status().drives_to_spare > 0 {
                    break;
                }
                reactor::sleep(REBUILD_LOOK).await;
            }
        }
    }

    /// The second life: the fault comes, if it does not come after it.
    async fn suffer(&self, comes: bool) -> Result<End, String> {
        let pool = match self.open().await {
            Ok(pool) => pool,
            Err(error) => return Err(format!("before the fault: {error}")),
        };
        let steps = match self.fault {
            Fault::Lie(Lie::LateDiscard) => 80 + self.random.below(120),
            _ => 5 + self.random.below(30),
        };
        // As often as not it comes at the end of the log.
        let comes_at = match self.random.once_in(2) {
            true => steps - 1,
            false => self.random.below(steps),
        };
        let late = self.fault == Fault::Lie(Lie::LateDiscard);
        for step in 0..steps {
            if comes && step == if late { 0 } else { comes_at } {
                self.inject();
            }
            let culprit = self.culprit();
            let has_come = late && culprit.has_lied() && !culprit.puts_off_a_discard();
            if has_come && self.random.once_in(2) {
                break;
            }
            self.step(&pool).await?;
            if pool.status().state == PoolState::Offline {
                self.kept(Promise::Fails);
                break;
            }
        }
        let end = match self.random.below(4) {
            _ if self.fault == Fault::PowerLoss => End::PowerLoss,
            0 => End::Closed,
            1 => End::Death,
            _ => End::PowerLoss,
        };
        if end == End::Closed && pool.close().await.is_err() {
            self.kept(Promise::Fails);
            return Ok(End::Death);
        }
        Ok(end)
    }

    /// Whether the fault may come between two lives.
    fn may_be_late(&self) -> bool {
        use Fault::{Decay, LostDrive, MediumError};
        let later = [Lie::WrongRead, Lie::OldContent].map(Fault::Lie);
        [LostDrive, MediumError, Decay].contains(&self.fault) || later.contains(&self.fault)
    }

    /// The fault comes, now or at one of the next operations.
    fn inject(&self) {
        let (drive, random) = (self.culprit(), &self.random);
        match self.fault {
            Fault::PowerLoss => self.power.switch_on(random.below(60)),
            Fault::LostDrive => {
                drive.die_after(random.below(20));
                if self.redundancy == Redundancy::Whole && random.once_in(2) {
                    self.gone.borrow_mut().insert(self.culprit.get());
                }
            }
            Fault::MediumError => drive.make_unreadable(self.some_block()),
            Fault::Decay => {
                let block = self.some_block();
                let mut content = drive.content(block);
                content[random.below(BLOCK as u64) as usize] ^= 1 << random.below(8);
                drive.put(block, content);
            }
            Fault::Lie(lie @ Lie::IgnoredFlush) => drive.lie(lie, 1 + random.below(2), u64::MAX),
            Fault::Lie(lie @ (Lie::LateDiscard | Lie::BadDiscard)) => {
                drive.lie(lie, 1 + random.below(2), 1);
            }
            Fault::Lie(lie @ Lie::WrongRead) => drive.lie(lie, 1 + random.below(12), 1),
            Fault::Lie(lie) => drive.lie(lie, 1 + random.below(3), 1),
        }
    }

    /// A block of the culprit that was written, as often as not one of the last.
    fn some_block(&self) -> u64 {
        let recent = self.culprit().recently_written();
        let blocks: Vec<u64> = match recent.is_empty() || self.random.once_in(2) {
            true => {
                let written = self.culprit().blocks_written().into_iter();
                written.map(|(block, _)| block).collect()
            }
            false => recent.into_iter().rev().take(12).collect(),
        };
        let place = self.random.below(blocks.len() as u64) as usize;
        blocks.get(place).copied().unwrap_or(1)
    }
}

/// How a life ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Closed,
    Death,
    PowerLoss,
}
