//! A process dies and the power stays on: what it left in the drives' caches can be read, and is
//! lost with the power later.

use crate::support::{OTHER, create, open, read, take, volume, write};
use pool::{Level, Pool, VolumeId};
use reactor::Reactor;
use sim::{Power, SimDrive};
use std::rc::Rc;

/// Blocks that are written, durably, before the process dies.
const BLOCKS: u64 = 4;

/// Runs `work` until the power of the simulation, which ends it, fails.
fn until_cut(power: &Rc<Power>, seed: u64, work: impl Future<Output = ()> + 'static) {
    Reactor::simulated(seed).run(async {
        drop(reactor::spawn(work));
        power.failed().await;
    });
}

/// In many small steps, so that the process dies at each of them.
async fn overwrite(pool: &Pool<SimDrive>, id: VolumeId, byte: u8) {
    for block in 0..BLOCKS {
        write(pool, id, block, 1, byte).await;
    }
}

/// Who took the pool read a superblock that was not durable, wrote its claim over the one before,
/// and lost the power: the drive had none.
#[test]
fn a_pool_outlives_a_death_a_takeover_and_a_power_failure() {
    for first in 0..48 {
        for second in 0..24 {
            let power = Power::new(1000 * first + second);
            power.switch_on(u64::MAX);
            let drives = [(); 2].map(|()| SimDrive::new(1300, power.clone()));
            let mut id = None;
            Reactor::simulated(1).run(async {
                let pool = create(&drives, Level::Raid0).await;
                let made = volume(&pool, "a", 100).await;
                overwrite(&pool, made, 1).await;
                pool.close().await.expect("closed");
                id = Some(made);
            });
            let id = id.expect("a volume");
            power.switch_on(first);
            let own = drives.clone();
            until_cut(&power, 2, async move {
                let pool = open(&own).await;
                loop {
                    overwrite(&pool, id, 2).await;
                    pool.checkpoint().await.expect("checkpoint");
                }
            });
            drives.iter().for_each(SimDrive::lose_host);
            power.switch_on(second);
            let own = drives.clone();
            until_cut(&power, 3, async move {
                let _pool = take(&own, OTHER, 9).await.expect("taken");
                std::future::pending().await
            });
            drives.iter().for_each(SimDrive::lose_power);
            power.switch_on(u64::MAX);
            Reactor::simulated(4).run(async {
                let pool = take(&drives, OTHER, 9).await.expect("taken");
                let found = read(&pool, id, 0, BLOCKS).await;
                assert!(found.iter().all(|byte| [1, 2].contains(byte)));
                pool.close().await.expect("closed");
            });
        }
    }
}
