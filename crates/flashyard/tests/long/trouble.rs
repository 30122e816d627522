//! Trouble that befalls a node under load: kills, failing drives, scrubs. Seeded.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use api::PoolState;
use fickle::{FickleDrive, Mood};
use sim::Random;

use super::support::{Node, name};

/// Longer than gigabytes are moved on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30 * 60);

/// Which it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    None,
    /// The node is killed every few seconds, and started again after a while.
    Kills,
    /// A drive fails, in every other round for writes alone; then it joins again.
    FailingDrive,
    /// The pool is scrubbed again and again.
    Scrub,
}

impl Trouble {
    /// Does `work` while it befalls the node; gives how often it came as well.
    pub fn beside<T>(
        self,
        node: &mut Node,
        drive: Option<&FickleDrive>,
        random: Random,
        work: impl FnOnce() -> T,
    ) -> (T, u32) {
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let rounds = scope.spawn(|| self.befall(node, drive, random, &stop));
            let ended = Ended(&stop);
            let done = work();
            drop(ended);
            (done, rounds.join().unwrap())
        })
    }

    fn befall(
        self,
        node: &mut Node,
        drive: Option<&FickleDrive>,
        random: Random,
        stop: &AtomicBool,
    ) -> u32 {
        let mut rounds = 0;
        loop {
            let pause = Duration::from_millis(5000 + random.below(15_000));
            if !goes_on_for(pause, stop) {
                return rounds;
            }
            match self {
                Trouble::None => continue,
                Trouble::Kills => {
                    node.kill();
                    std::thread::sleep(Duration::from_millis(random.below(4000)));
                    node.start();
                }
                Trouble::FailingDrive => {
                    let mood = [Mood::FailsWrites, Mood::Fails][rounds as usize % 2];
                    if !fail(node, drive.unwrap(), mood, stop) {
                        return rounds;
                    }
                }
                Trouble::Scrub => {
                    node.answer(&["pool", "scrub", "pool", "--wait"]);
                }
            }
            rounds += 1;
        }
    }
}

/// Ends the trouble when dropped, also when the work beside it fails.
struct Ended<'a>(&'a AtomicBool);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Sleeps; gives whether it still goes on then.
fn goes_on_for(pause: Duration, stop: &AtomicBool) -> bool {
    let started = Instant::now();
    while started.elapsed() < pause {
        if stop.load(Ordering::Relaxed) {
            return false;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    true
}

/// The drive fails, the pool makes itself whole without it, and takes it again. False where the
/// work ended before anything was written that would have shown it.
fn fail(node: &Node, drive: &FickleDrive, mood: Mood, stop: &AtomicBool) -> bool {
    let (client, pool) = (node.client(), name("pool"));
    let members = || client.pool(&pool).unwrap().members;
    let before = members().len();
    drive.set(mood);
    let mut unseen = false;
    wait_long("the pool is whole without the drive", || {
        let ended = stop.load(Ordering::Relaxed);
        if ended {
            drive.set(Mood::Works);
        }
        let pool = client.pool(&pool).unwrap();
        let is_online = pool.state == PoolState::Online;
        unseen = ended && is_online && pool.members.len() == before;
        unseen || is_online && pool.members.len() < before
    });
    if unseen {
        return false;
    }
    drive.set(Mood::Works);
    node.answer(&["pool", "add-drive", "pool", "fickle"]);
    wait_long("the pool has the drive again", || members().len() == before);
    true
}

fn wait_long(what: &str, mut holds: impl FnMut() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < PATIENCE, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(500));
    }
}
