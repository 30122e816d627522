//! Pools of earlier versions become ones of today's, wherever the power fails on the way.

use crate::golden::IMAGES;
use crate::support::heads;
use pool::{Entropy, OpenOptions, Pool, PoolError};
use reactor::Reactor;
use sim::{Power, SimDrive, golden};
use std::collections::BTreeSet;
use std::time::Duration;

/// An opening takes milliseconds; one that the power ended never ends.
const PATIENCE: Duration = Duration::from_secs(20);
/// Every so many operations the power is tried to fail.
const STEP: usize = 37;
const TODAY: u8 = 3;

async fn open(drives: &[SimDrive], seed: u64) -> Result<Pool<SimDrive>, PoolError> {
    let options = OpenOptions {
        entropy: Entropy::seeded(seed),
        ..OpenOptions::new(golden::HOST)
    };
    Pool::open(drives.to_vec(), options).await
}

/// Which versions the labels of some drives have.
fn versions(drives: &[SimDrive]) -> BTreeSet<u8> {
    let blocks = drives
        .iter()
        .flat_map(|drive| heads(drive).map(|at| drive.content(at)));
    let labels = blocks.filter(|block| block.starts_with(b"FLSHYARD"));
    labels.map(|label| label[8]).collect()
}

#[test]
fn power_may_fail_anywhere_while_a_pool_becomes_one_of_todays_version() {
    let mut met = BTreeSet::new();
    for (name, bytes, _) in IMAGES {
        for fuse in (0..).step_by(STEP) {
            let power = Power::new(fuse);
            power.switch_on(fuse);
            let drives = golden::drives_on(&power, bytes).expect("an image");
            let opened = Reactor::simulated(fuse).run(async {
                // Drives without power look silent to whoever still asks.
                let opening = async {
                    let pool = open(&drives, 4).await?;
                    pool.close().await
                };
                matches!(reactor::timeout(PATIENCE, opening).await, Ok(Ok(())))
            });
            assert!(
                opened || !power.is_on(),
                "{name}: it opens with the power on"
            );
            drives.iter().for_each(SimDrive::lose_power);
            met.insert(versions(&drives));
            power.switch_on(u64::MAX);
            Reactor::simulated(fuse + 1).run(async {
                let pool = open(&drives, 5).await;
                let pool = pool.unwrap_or_else(|error| panic!("{name}, {fuse}: {error}"));
                let found = golden::verify(&pool).await;
                found.unwrap_or_else(|error| panic!("{name}, {fuse}: {error}"));
                pool.close().await.expect("closed");
            });
            // A drive that has failed keeps what it had.
            let is_todays = versions(&drives).contains(&TODAY);
            assert!(is_todays, "{name}, {fuse}");
            if opened {
                break;
            }
        }
    }
    for some in [&[1][..], &[2], &[1, TODAY], &[2, TODAY], &[TODAY]] {
        let some = some.iter().copied().collect();
        assert!(met.contains(&some), "never {some:?} in {met:?}");
    }
}
