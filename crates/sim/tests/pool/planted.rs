//! Faults that worlds do not show within reach: each has trials of its own, one for every operation
//! that the power may fail after. The pool passes them all, and does not with the fault.

use crate::support::{
    BLOCK, assert_runs, create, open, read, until_cut, volume, write, write_runs,
};
use pool::{Level, Pool, VolumeId};
use reactor::Reactor;
use sim::{Power, SimDrive};
use std::cell::Cell;
use std::rc::Rc;

/// Bytes that a volume has once it was written in the last life.
const LAST: u8 = 77;

fn drives(count: usize, seed: u64) -> (Rc<Power>, Vec<SimDrive>) {
    let power = Power::new(seed);
    power.switch_on(u64::MAX);
    let drives = (0..count).map(|_| SimDrive::new(1300, power.clone()));
    let drives = drives.collect();
    (power, drives)
}

async fn snapshot(pool: &Pool<SimDrive>, id: VolumeId, name: String) {
    pool.snapshot(&[(id, name)]).await.expect("a snapshot");
}

/// A process dies while it writes a label. What it was writing lands once the next life has
/// written over the place, and then the power fails. The last label is in either slot by turns.
fn a_label_lands_late(turn: u64) -> usize {
    let (fuse, more) = (turn / 2, turn % 2);
    let (power, drives) = drives(1, fuse);
    let id = Reactor::simulated(1).run(async {
        let pool = create(&drives, Level::Raid0).await;
        let id = volume(&pool, "a", 64).await;
        pool.close().await.expect("closed");
        id
    });
    power.switch_on(fuse);
    let own = drives.clone();
    until_cut(&power, 2, async move {
        let pool = open(&own).await;
        for turn in 0.. {
            snapshot(&pool, id, format!("before {turn}")).await;
        }
    });
    drives[0].lose_host_but(|| true);
    let late = drives[0].late();
    power.switch_on(u64::MAX);
    Reactor::simulated(3).run(async {
        let pool = open(&drives).await;
        for one in 0..=more {
            snapshot(&pool, id, format!("kept {one}")).await;
        }
        write(&pool, id, 0, 1, LAST).await;
        late.iter().for_each(|flight| drives[0].land_late(*flight));
    });
    drives[0].lose_power();
    Reactor::simulated(4).run(async {
        let pool = open(&drives).await;
        let snapshots = pool.snapshots();
        let last = format!("kept {more}");
        let kept = snapshots.iter().any(|snapshot| snapshot.name == last);
        assert!(kept, "{fuse}: the snapshot is gone");
        assert_eq!(read(&pool, id, 0, 1).await, vec![LAST; BLOCK], "{fuse}");
    });
    late.len()
}

/// The power fails while data moves to a drive that has joined and hosts write meanwhile.
fn a_zone_is_vacated(fuse: u64) -> usize {
    let (power, drives) = drives(3, fuse);
    let (id, runs, other) = Reactor::simulated(1).run(async {
        let pool = create(&drives[..2], Level::Raid0).await;
        let status = pool.status();
        let room = (status.usable_bytes - status.used_bytes) / BLOCK as u64;
        let runs = room * 9 / 10 / 16;
        let id = volume(&pool, "a", 16 * runs).await;
        write_runs(&pool, id, runs).await;
        let other = volume(&pool, "b", 2 * room).await;
        pool.add_drive(drives[2].clone()).await.expect("it joins");
        pool.close().await.expect("closed");
        (id, runs, other)
    });
    power.switch_on(fuse);
    let moved = Rc::new(Cell::new(0));
    let (own, count) = (drives.clone(), moved.clone());
    until_cut(&power, 2, async move {
        let pool = open(&own).await;
        for block in (0..512).cycle() {
            write(&pool, other, block, 1, 3).await;
            count.set(pool.counters().rebalanced_blocks as usize);
        }
    });
    drives.iter().for_each(SimDrive::lose_power);
    power.switch_on(u64::MAX);
    Reactor::simulated(3).run(async {
        let pool = open(&drives).await;
        assert_runs(&pool, id, runs).await;
    });
    moved.get()
}

/// Fuses of a trial, and how much it has to come to in all so that it tries something.
type Trials = (fn(u64) -> usize, std::ops::Range<u64>, usize, usize);

const LABELS: Trials = (a_label_lands_late, 2..320, 1, 20);
const ZONES: Trials = (a_zone_is_vacated, 100..3000, 50, 1000);

fn pass(trials: Trials) {
    let (trial, fuses, step, at_least) = trials;
    let tried: usize = fuses.step_by(step).map(trial).sum();
    assert!(tried >= at_least, "{tried} of {at_least}");
}

#[test]
fn a_label_that_lands_late_takes_nothing_back() {
    pass(LABELS);
}

#[test]
fn a_zone_that_a_column_has_left_keeps_it_until_the_tables_say_so() {
    pass(ZONES);
}

/// A build without debug assertions has no faults to plant.
#[cfg(debug_assertions)]
mod found {
    use super::{LABELS, Trials, ZONES};
    use pool::{Mutation, plant};
    use std::panic::{AssertUnwindSafe, catch_unwind};

    fn assert_found(mutation: Mutation, trials: Trials) {
        let _planted = plant(mutation);
        let (trial, mut fuses, step, _) = trials;
        let fails = |fuse: u64| catch_unwind(AssertUnwindSafe(|| trial(fuse))).is_err();
        let found = fuses.clone().step_by(step).find(|fuse| fails(*fuse));
        assert!(found.is_some(), "{mutation:?} passed {:?}", fuses.next());
        println!("{mutation:?}: after {found:?} operations");
    }

    #[test]
    fn a_label_in_one_slot() {
        assert_found(Mutation::FillsOneSlot, LABELS);
    }

    #[test]
    fn a_zone_that_is_free_at_once() {
        assert_found(Mutation::FreesMovedZones, ZONES);
    }
}
