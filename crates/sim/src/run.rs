//! One seed: a pool lives several lives, each ended by a crash, and nothing may be lost.
//!
//! The fault model:
//! - The power fails at any drive operation, also while the pool is being created or recovered.
//!   Every write that was not flushed, or was in flight, is then kept, lost, or torn by 512-byte
//!   sectors, each on its own, in any order. Flushed and forced writes stay.
//! - Or only the host's process dies: each request in flight arrives or does not, or arrives in the
//!   first four seconds of the next life; what was not flushed can be read, until the power fails
//!   later.
//! - Operations in flight finish in any order. Drives have blocks of 4096 or 512 bytes.
//! - Up to as many drives as the level allows are bad at a time: each may die at any operation, be
//!   absent for a life and return with what it had, have bits flipped, refuse to read some
//!   blocks, not be ready for a while, or answer nothing for a life. The others do nothing
//!   wrong but lose what was not flushed. Once the pool has rebuilt what bad drives held and
//!   has forgotten them, others may become bad.
//! - Where liars are asked for, bad drives do at times what they say nothing of: they lose writes,
//!   write to other places, ignore flushes, read wrong data once, bring old content back, and
//!   discard late, in part, for a while, or leave garbage.
//! - Where outages are asked for, any drives are not ready for reads for up to eight seconds, also
//!   while the pool is opened. Requests meanwhile may be told to try again, and the pool may go
//!   offline.
//! - Where one drive is left that is current, a bit of its newest label may be wrong.
//! - The pool is opened with another number of shards each time, where several are asked for.
//! - A drive may answer many times more slowly than the others, and single requests of any
//!   drive may take many times as long as others.
//! - Where rivals are asked for, a host stands still at any drive operation; what it had begun
//!   reaches the drives within four seconds; another takes the pool by force; then the first goes
//!   on in turns with it, its clock having gone on or not.
//! - Drives join, new ones and former members with old labels, and are asked to leave.
//! - Who asked for anything gives up waiting for it: for a change, a read, a write, an opening.
//!   What was written then may come at any time as long as the pool is open, but not behind
//!   what is written later.
//!
//! Pools have 1 to 32 drives, of one size or of several, segments of any width, volumes of which
//! some reserve space, and several clients at once. Between lives a pool may be exported.
//!
//! What is checked, after every crash and while clients work: an acknowledged write reads back; an
//! unacknowledged one reads as old or new, never mixed within a block; writes that promise it are
//! whole or absent; a read brings what was there at some instant while it was under way;
//! snapshots stay what they were, and several of one instant come
//! together or not at all; a change that was given up happens as a whole or not at all; what
//! was read once stays so; a volume that reserves space is never refused a write; a host that
//! has lost the pool harms nothing, and, if its clock went on, acknowledges nothing; the
//! accounts of space add up.

use crate::drive::{Power, SimDrive};
use crate::random::Random;
use crate::world::{Chance, World};
use pool::Level;
use std::rc::Rc;

/// Which world to simulate.
#[derive(Clone, Debug)]
pub struct Options {
    /// Decides everything.
    pub seed: u64,
    /// Crashes.
    pub lives: u64,
    /// Only this level.
    pub level: Option<Level>,
    /// Bad drives, as many as the level allows.
    pub bad_drives: bool,
    /// Some lives end with the process and not with the power.
    pub processes_die: bool,
    /// The pool is opened with up to so many shards, other numbers each time.
    pub shards_max: u64,
    /// Volumes outgrow the pool, or do not; as the seed says if nothing is said.
    pub crowded: Option<bool>,
    /// Segments over 8 to 32 drives, or over few; as the seed says if nothing is said.
    pub wide: Option<bool>,
    /// Other hosts take the pool by force from those that stand still.
    pub rivals: bool,
    /// What worlds did not have when seeds of some tests were found, which are to find them again:
    /// reads of snapshots, requests that are given up, drives that answer nothing,
    /// requests that outlast the process which began them, single requests that take long, wrong
    /// bits in labels.
    pub latecomers: bool,
    /// What came later still: in half of the worlds who asked for anything at all gives up waiting
    /// for it at times, for writes and openings too; names and promises of space change; and
    /// drives forget a label of which stripes tell.
    pub newcomers: bool,
    /// Bad drives lie as well.
    pub liars: bool,
    /// More drives than may be lost are not ready for reads for seconds, at times.
    pub outages: bool,
    /// What snapshots are said to differ by is compared with what they read as.
    pub extents: bool,
}

impl Options {
    /// Six lives of whatever the seed says.
    pub fn new(seed: u64) -> Options {
        Options {
            seed,
            lives: 6,
            level: None,
            bad_drives: true,
            processes_die: true,
            shards_max: 1,
            crowded: None,
            wide: None,
            rivals: false,
            latecomers: true,
            newcomers: true,
            liars: false,
            outages: false,
            extents: false,
        }
    }
}

/// What a run did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Power failures, and deaths of the process alone.
    pub crashes: u64,
    /// Requests that clients had answered.
    pub requests: u64,
    /// Of them, refused for want of space.
    pub refused: u64,
    /// Snapshots, clones, rollbacks and deletions.
    pub changes: u64,
    /// Blocks that the cleaner moved.
    pub relocated: u64,
    /// Blocks that were copied to drives with more free space.
    pub rebalanced: u64,
    /// Blocks rebuilt from their row.
    pub reconstructed: u64,
    /// The pool was taken by force.
    pub takeovers: u64,
    /// Drives were not ready for reads for a while.
    pub outages: u64,
}

impl Report {
    /// Adds what another run did.
    pub fn add(&mut self, other: &Report) {
        self.crashes += other.crashes;
        self.requests += other.requests;
        self.refused += other.refused;
        self.changes += other.changes;
        self.relocated += other.relocated;
        self.rebalanced += other.rebalanced;
        self.reconstructed += other.reconstructed;
        self.takeovers += other.takeovers;
        self.outages += other.outages;
    }
}

/// Runs one seed.
///
/// # Errors
/// What was lost, with the seed.
pub fn run(options: &Options) -> Result<Report, String> {
    let random = Random::new(options.seed);
    let level = options
        .level
        .unwrap_or(Level::ALL[random.below(5) as usize]);
    // A generator of its own: the other worlds stay what they were.
    let extra = Random::new(options.seed ^ 0x5eed_0000_0000);
    let wide = options.wide.unwrap_or(extra.once_in(16));
    let (least, most) = match level {
        _ if wide => (8, 32),
        Level::Raid0 => (1, 3),
        _ => (level.drives_min() as u64, 7),
    };
    let drives = least + random.below(most - least + 1);
    // And another one, for the same reason.
    let later = Random::new(options.seed ^ 0x1a7e_0000_0000);
    let power = Power::new(random.word());
    let blocks = 1150 + 40 * random.below(8);
    let unequal = later.once_in(3);
    let drives: Vec<SimDrive> = (0..drives)
        .map(|_| match unequal {
            true => 1150 + 40 * later.below(16),
            false => blocks,
        })
        .map(|blocks| SimDrive::new(blocks, power.clone()))
        .collect();
    let width = match later.once_in(3) {
        true => pick_width(&later, level, drives.len()),
        false => level.default_width(drives.len()),
    };
    let drives: Vec<SimDrive> = match extra.once_in(4) {
        true => drives.into_iter().map(SimDrive::with_sectors).collect(),
        false => drives,
    };
    if extra.once_in(4) {
        let slow = extra.below(drives.len() as u64) as usize;
        drives[slow].slow_down(2 + extra.below(40) as u32);
    }
    let tails = Random::new(options.seed ^ 0x7a11_0000_0000);
    if options.latecomers && tails.once_in(2) {
        power.have_tails(tails.word());
    }
    let bad = if options.bad_drives {
        pick_bad(&random, level.drives_lost_max(width), drives.len())
    } else {
        Vec::new()
    };
    let chance = chance_of(options.seed, [random, extra, later]);
    let shape = (level, width);
    let world = World::new(options.clone(), shape, drives, power, chance, bad);
    let world = Rc::new(world);
    let failed = |life: u64, found: String| {
        format!("seed={} level={level} life={life}: {found}", options.seed)
    };
    world.create();
    for life in 0..options.lives {
        let lived = match options.rivals {
            true => world.live_with_rival(),
            false => world.live(life, false),
        };
        lived.map_err(|found| failed(life, found))?;
    }
    world
        .live(options.lives, true)
        .map_err(|found| failed(options.lives, found))?;
    Ok(world.report())
}

/// What decides in the world of a seed; the first of them have been asked already.
fn chance_of(seed: u64, [random, extra, later]: [Random; 3]) -> Chance {
    let of = |word: u64| Random::new(seed ^ word);
    Chance {
        random,
        extra,
        later,
        ends: of(0xe4d0_0000_0000),
        more: of(0x302e_0000_0000),
        reads: of(0x2ead_0000_0000),
        patience: of(0x9a71_0000_0000),
        silences: of(0x511e_0000_0000),
        lates: of(0x1a7e_5000_0000),
        bits: of(0xb175_0000_0000),
        lies: of(0x11e5_0000_0000),
        outages: of(0x0a7a_9e00_0000),
        leaving: of(0x1eaf_0000_0000),
        witnesses: of(0x717_0000_0000),
    }
}

/// Any width that segments of that level can have on so many drives.
fn pick_width(random: &Random, level: Level, drives: usize) -> usize {
    let least = match level {
        Level::Raid0 => 1,
        Level::Raid1 | Level::Raid5 | Level::Raid10 => 2,
        Level::Raid6 => 3,
    };
    let most = level.default_width(drives);
    let width = least + random.below((most - least) as u64 + 1) as usize;
    match level {
        Level::Raid10 => width & !1,
        _ => width,
    }
}

fn pick_bad(random: &Random, most: usize, drives: usize) -> Vec<usize> {
    let count = random.below(most as u64 + 1);
    let mut bad: Vec<usize> = Vec::new();
    while (bad.len() as u64) < count {
        let drive = random.below(drives as u64) as usize;
        if !bad.contains(&drive) {
            bad.push(drive);
        }
    }
    bad
}
