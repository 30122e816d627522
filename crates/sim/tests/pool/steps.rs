//! No step of a large pool keeps its core for long. What a step looks at, copies, reads and writes
//! of the tables is counted, which is the same on every machine.

use crate::support::{BLOCK, HOST, volume, write};
use pool::{CreateOptions, Entropy, Level, OpenOptions, Pool, Settings};
use reactor::Reactor;
use sim::{Power, STEP_MOST, SimDrive};

/// Volumes, and how many snapshots each has.
const VOLUMES: u64 = 200;
const SNAPSHOTS: usize = 250;
/// Blocks of the drive: nobody writes most of them, and the tables have room for all.
const BLOCKS: u64 = 24_000_000;

fn settings() -> Settings {
    Settings {
        map_cache_bytes: 1 << 20,
        ..Settings::default()
    }
}

/// Tells of the longest step so far.
fn tell(what: &str, reactor: &Reactor) {
    let step = reactor.longest_step();
    println!("{what}: {} units in a step, {:?}", step.units, step.time);
}

async fn take_snapshots(drives: Vec<SimDrive>) {
    let options = CreateOptions {
        zone_bytes: Some(1024 * BLOCK as u64),
        settings: settings(),
        entropy: Entropy::seeded(3),
        ..CreateOptions::new("tank", Level::Raid0, HOST)
    };
    let pool = Pool::create(drives, options).await.expect("a pool");
    let mut volumes = Vec::new();
    for at in 0..VOLUMES {
        volumes.push(volume(&pool, &format!("v{at}"), 64).await);
    }
    for turn in 0..SNAPSHOTS {
        if turn % 50 == 0 {
            write(&pool, volumes[turn / 50], 0, 8, turn as u8).await;
        }
        let named = volumes.iter().map(|id| (*id, format!("s{}-{turn}", id.0)));
        let named: Vec<_> = named.collect();
        pool.snapshot(&named).await.expect("snapshots");
    }
    pool.checkpoint().await.expect("a checkpoint");
    pool.close().await.expect("closed");
}

/// 50,000 snapshots are taken, some go, and the pool is merged and looked at. An opening is one
/// long step: nobody is served yet.
#[test]
fn steps_of_a_pool_with_fifty_thousand_snapshots_are_short() {
    let power = Power::new(1);
    power.switch_on(u64::MAX);
    let drives = vec![SimDrive::new(BLOCKS, power)];
    let reactor = Reactor::simulated(1);
    reactor.bound_steps(STEP_MOST);
    reactor.run(take_snapshots(drives.clone()));
    tell("taken", &reactor);
    let reactor = Reactor::simulated(2);
    let options = OpenOptions {
        settings: settings(),
        entropy: Entropy::seeded(4),
        ..OpenOptions::new(HOST)
    };
    let pool = reactor.run(Pool::open(drives, options)).expect("opens");
    tell("opened", &reactor);
    reactor.bound_steps(STEP_MOST);
    reactor.run(async {
        let snapshots = pool.snapshots();
        assert_eq!(snapshots.len(), VOLUMES as usize * SNAPSHOTS);
        for snapshot in snapshots.iter().step_by(snapshots.len() / 8) {
            let deleted = pool.delete_snapshot(snapshot.id);
            deleted.await.expect("deleted");
        }
        pool.checkpoint().await.expect("a checkpoint");
        assert!(pool.status().used_bytes > 0);
        pool.close().await.expect("closed");
    });
}
