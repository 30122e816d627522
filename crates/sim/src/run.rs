//! One seed: a pool lives several lives, each ended by a power failure, and nothing may be lost.
//!
//! The fault model:
//! - The power fails at any drive operation, also while the pool is being created or recovered.
//!   Every write that was not flushed, or was in flight, is then kept, lost, or torn by 512-byte
//!   sectors, each on its own, in any order. Flushed and forced writes stay.
//! - Operations in flight finish in any order.
//! - Up to as many drives as the level allows are bad at a time: each may die at any operation, be
//!   absent for a life and return with what it had, have bits flipped, or refuse to read some
//!   blocks. The others do nothing wrong but lose what was not flushed. Once the pool has rebuilt
//!   what bad drives held and has forgotten them, others may become bad.
//! - The pool is opened with another number of shards each time, where several are asked for.
//! - Drives join, new ones and former members with old labels, and are asked to leave.
//!
//! What is checked, after every crash and while clients work: an acknowledged write reads back; an
//! unacknowledged one reads as old or new, never mixed within a block; writes that promise it are
//! whole or absent; snapshots stay what they were; what was read once stays so.

use crate::drive::{Power, SimDrive};
use crate::random::Random;
use crate::world::World;
use pool::Level;
use std::rc::Rc;

/// Which world to simulate.
#[derive(Clone, Debug)]
pub struct Options {
    /// Decides everything.
    pub seed: u64,
    /// Power failures.
    pub lives: u64,
    /// Only this level.
    pub level: Option<Level>,
    /// Bad drives, as many as the level allows.
    pub bad_drives: bool,
    /// The pool is opened with up to so many shards, other numbers each time.
    pub shards_max: u64,
    /// The pool acknowledges before writes are durable; the simulation must notice.
    pub broken: bool,
}

impl Options {
    /// Six lives of whatever the seed says.
    pub fn new(seed: u64) -> Options {
        Options {
            seed,
            lives: 6,
            level: None,
            bad_drives: true,
            shards_max: 1,
            broken: false,
        }
    }
}

/// What a run did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Power failures.
    pub crashes: u64,
    /// Requests that clients had answered.
    pub requests: u64,
    /// Of them, refused for want of space.
    pub refused: u64,
    /// Snapshots, clones, rollbacks and deletions.
    pub changes: u64,
    /// Blocks that the cleaner moved.
    pub relocated: u64,
    /// Blocks rebuilt from their row.
    pub reconstructed: u64,
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
    let most = match level {
        Level::Raid0 => 3,
        _ => 7,
    };
    let drives = level.drives_min() as u64;
    let drives = drives + random.below(most - drives + 1);
    let power = Power::new(random.word());
    let blocks = 1150 + 40 * random.below(8);
    let drives: Vec<SimDrive> = (0..drives)
        .map(|_| SimDrive::new(blocks, power.clone()))
        .collect();
    let bad = if options.bad_drives {
        pick_bad(&random, level, drives.len())
    } else {
        Vec::new()
    };
    let world = Rc::new(World::new(
        options.clone(),
        level,
        drives,
        power,
        random,
        bad,
    ));
    let failed = |life: u64, found: String| {
        format!("seed={} level={level} life={life}: {found}", options.seed)
    };
    world.create();
    for life in 0..options.lives {
        world
            .live(life, false)
            .map_err(|found| failed(life, found))?;
    }
    world
        .live(options.lives, true)
        .map_err(|found| failed(options.lives, found))?;
    Ok(world.report())
}

fn pick_bad(random: &Random, level: Level, drives: usize) -> Vec<usize> {
    let most = level.drives_lost_max(level.default_width(drives)) as u64;
    let count = random.below(most + 1);
    let mut bad: Vec<usize> = Vec::new();
    while (bad.len() as u64) < count {
        let drive = random.below(drives as u64) as usize;
        if !bad.contains(&drive) {
            bad.push(drive);
        }
    }
    bad
}
