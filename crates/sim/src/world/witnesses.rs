//! Stripes are witnesses of a label that every drive has forgotten.
//!
//! At the end of some lives the pool gets another name, and something is written after that. Then
//! copies of its drives lose the label that says so, without a trace. A pool may not open on them
//! under its former name: what has been written since says that there was a later label.

use super::{BLOCK, OPERATIONS_MAX, Served, World};
use crate::crafted;
use crate::drive::{Power, SimDrive};
use crate::model;
use block::{BlockDevice, Buffer, Durability, Lba};
use pool::{Entropy, OpenOptions, Pool, VolumeId};
use reactor::Reactor;
use std::time::Duration;

/// By then nothing is written to both slots any more for fear of late requests.
const ALONE_AFTER: Duration = Duration::from_secs(5);
/// By then every shard has heard of a label.
const HEARD: Duration = Duration::from_millis(1);

/// Drives without the newest label of their pool.
pub(crate) struct Forgetful {
    drives: Vec<SimDrive>,
    /// What the pool is called by it.
    name: String,
}

impl World {
    /// Prepares such drives, now and then.
    pub(super) async fn may_leave_witnesses(&self, pool: &Served) -> Result<(), String> {
        let chance = &self.witness_chance;
        let lent = self.options.outages || self.options.rivals;
        if !self.options.newcomers || lent || !chance.once_in(8) {
            return Ok(());
        }
        let sizes: Vec<(u32, u64)> = {
            let model = self.model.borrow();
            let volumes = model.volumes.iter();
            volumes.map(|(id, image)| (*id, image.size)).collect()
        };
        let Some((id, size)) = sizes.get(chance.below(sizes.len() as u64) as usize) else {
            return Ok(());
        };
        reactor::sleep(ALONE_AFTER).await;
        let checkpoint = pool.checkpoint().await;
        let name = self.fresh_name();
        let renamed = pool.rename(&name).await;
        self.still_holds()?;
        checkpoint
            .and(renamed)
            .map_err(|error| format!("renaming: {error}"))?;
        reactor::sleep(HEARD).await;
        let stamp = self.tick() << 8 | 1;
        let block = chance.below(*size);
        let Some(number) = self.submit(*id, block, vec![stamp], true) else {
            return Ok(());
        };
        let asked = self.asked(pool, 1, super::refusals::Purpose::Write);
        let mut buffer = Buffer::new(BLOCK);
        model::fill(stamp, &mut buffer);
        let device = pool
            .volume(VolumeId(*id))
            .map_err(|error| error.to_string())?;
        let (_, written) = device.write(Lba(block), buffer, Durability::Cached).await;
        self.settle(pool, asked, (*id, number), written)?;
        if written.is_ok() {
            let power = Power::new(chance.word());
            power.switch_on(OPERATIONS_MAX);
            let drives = self.drives.borrow();
            let copies = drives.iter().map(|drive| drive.copy_without_power(&power));
            let drives: Vec<SimDrive> = copies.collect();
            drives.iter().for_each(crafted::forget_newest_label);
            self.forgetful.replace(Some(Forgetful { drives, name }));
        }
        Ok(())
    }

    /// Opens the pool on what was prepared.
    pub(super) fn check_witnesses(&self) -> Result<(), String> {
        let Some(Forgetful { drives, name }) = self.forgetful.take() else {
            return Ok(());
        };
        let options = OpenOptions {
            entropy: Entropy::seeded(self.witness_chance.word()),
            ..OpenOptions::new(self.host())
        };
        let reactor = Reactor::simulated(self.witness_chance.word());
        let opened = reactor.run(async {
            let pool = Pool::open(drives, options).await.ok()?;
            let called = pool.status().name;
            // Whatever comes of it.
            let _ = pool.close().await;
            Some(called)
        });
        match opened.filter(|called| *called != name) {
            None => Ok(()),
            Some(former) => Err(format!(
                "the pool is called {former}, not {name}, unnoticed"
            )),
        }
    }
}
